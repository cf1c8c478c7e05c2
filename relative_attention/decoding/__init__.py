"""Decoding: beam search, sampling and scores of a trained model.

The path of a sentence through `Translator.translate`:

1. `translator`: lines become sentences by the rules of `text.prepared`, and
   these become rows of ids, sorted into batches of similar length. `search`
   begins here, with lines as they are.
2. `beam_search` or `sampling`: the arguments of a batch are checked and made
   tensors (`constraints`), and the search runs as one graph (`compiled`).
3. There a loop over a typed state (`BeamState`, `SampleState`) asks the model
   for the logits of one position (`model_steps`), rules out the tokens that
   are not allowed (`constraints`), and chooses how to continue
   (`_best_continuations`, `draw_tokens`).
4. `translator`: the ids become text, and the sentences lines. Where no result
   of a sentence has each sign once, its parts are searched.

An `ensemble` of several models can replace the model. `scoring` gives the
probability of given translations.
"""

from relative_attention.decoding.beam_search import beam_search
from relative_attention.decoding.ensemble import Ensemble
from relative_attention.decoding.sampling import sample
from relative_attention.decoding.scoring import TranslationScore
from relative_attention.decoding.scoring import corpus_perplexity
from relative_attention.decoding.scoring import score_translations
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
