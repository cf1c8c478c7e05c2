"""Benchmarks of translation, from one product to a whole text."""
