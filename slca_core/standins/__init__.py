"""Small programs in place of the frozen models: a server, and what each of its roles answers."""
