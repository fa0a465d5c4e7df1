"""Content-addressed steps: what a step's identity is made of, and where its record lies, is locked and checked."""
