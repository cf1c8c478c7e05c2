"""Benchmarks of training, from the text of a corpus to a training step."""
