"""Scores of a rollout: the process reward HierR, the omission override, ToolPO's outcome and action rewards."""
