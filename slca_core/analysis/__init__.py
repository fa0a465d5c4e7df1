"""What is computed from finished work: rollouts replayed and scored again, golden values, intervals and tests."""
