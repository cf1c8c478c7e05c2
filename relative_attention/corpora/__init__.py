"""Where text comes from: corpora to fetch, to make and to divide."""

from relative_attention.corpora.spoken_numbers import write_spoken_numbers

__all__ = ["write_spoken_numbers"]
