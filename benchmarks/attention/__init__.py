"""Benchmarks of one attention layer."""
