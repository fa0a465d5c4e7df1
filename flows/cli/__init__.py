"""The `slca` command: `main` is its entry, each other module what a command prints or does."""
