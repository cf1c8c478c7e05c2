"""From a trained model to translations."""

from relative_attention.decoding.beam_search import beam_search
from relative_attention.decoding.translator import Translator

__all__ = ["Translator", "beam_search"]
