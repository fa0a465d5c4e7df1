"""Tests and benchmarks; `make test`, `make bench`."""
