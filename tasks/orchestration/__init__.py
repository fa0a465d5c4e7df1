"""How steps run under Prefect: side by side, within limits, in their own state, and seen while they do."""
