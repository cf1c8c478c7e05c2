"""What the benchmarks share: engines, their turns, tables and results."""
