"""Decoding: beam search, sampling and scores of a trained model.

The path of a sentence through `Translator.translate`:

1. `translator`: the sentences become rows of ids, sorted into batches of like
   length (`sentence_batches`).
2. `beam_search` or `sample`: the arguments of a batch are checked and made
   tensors (`constraint_tensors`), and the search runs as one graph
   (`run_compiled`).
3. `beam_search_loop` or `sample_loop`: a loop (`while_loop`) over a typed state
   (`beam_state`), whose `step` asks the model for the logits of one position
   (`active_sentences` holds its cache), makes impossible what is not allowed
   (`constraints`), and chooses how to go on (`continuations`, `draw_tokens`).
   `length_penalty` has GNMT's equation.
4. `translation`: the ids found become text again.

Where a model is asked for, an `ensemble` of several may stand.
"""

from relative_attention.decoding.beam_search import beam_search
from relative_attention.decoding.ensemble import Ensemble
from relative_attention.decoding.sample import sample
from relative_attention.decoding.score_translations import TranslationScore
from relative_attention.decoding.score_translations import corpus_perplexity
from relative_attention.decoding.score_translations import score_translations
from relative_attention.decoding.translation import Translation
from relative_attention.decoding.translator import Translator

__all__ = [
    "Ensemble",
    "Translation",
    "TranslationScore",
    "Translator",
    "beam_search",
    "corpus_perplexity",
    "sample",
    "score_translations",
]
