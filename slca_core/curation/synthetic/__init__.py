"""Source records made up here: a small world with its servers, and the faults that real records have."""
