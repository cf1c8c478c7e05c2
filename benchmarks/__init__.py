"""Benchmarks of speed, memory and quality; `README.md` says which is which."""
