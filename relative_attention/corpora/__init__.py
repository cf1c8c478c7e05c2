"""Downloads, generates and splits parallel corpora."""

from relative_attention.corpora.spoken_numbers import write_spoken_numbers

__all__ = ["write_spoken_numbers"]
