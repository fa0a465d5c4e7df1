"""What a study would run, with what commands, where and for how long, and how far it is."""
