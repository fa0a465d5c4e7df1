"""What tests and benchmarks stand on and what is none itself: endpoints, scripted studies, checks of what is written."""
