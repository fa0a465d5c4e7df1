"""What is asked of a frozen judge about a rollout, and how its answer is read."""
