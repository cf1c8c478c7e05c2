"""Decoding: beam search, sampling and scores of a trained model.

The path of a sentence through `Translator.translate`:

1. `translator`: lines become sentences by the rules of `text.prepared`, and
   these become rows of ids, sorted into batches of similar length. `search`
   begins here, with lines as they are.
2. `searcher`, or `sampling`: the arguments of a batch are checked
   (`constraints`). A model of an engine searches by itself
   (`export.ctranslate2_engine`); for one of Keras they become tensors, and a
   search runs as one graph (`beam_steps`, `compiled`).
3. There a loop over a typed state (`BeamState`, `SampleState`) asks the model
   for the logits of one position (`model_steps`), rules out the tokens that
   are not allowed (`forbidden_tokens`), and chooses how to continue
   (`_best_continuations`, `draw_tokens`).
4. `translator`: the ids become text, and the sentences lines. Where no result
   of a sentence has each sign once, its parts are searched.

An `ensemble` of several models can replace the model. `scoring` gives the
probability of given translations.
"""

from typing import TYPE_CHECKING

from relative_attention.decoding.searcher import beam_search
from relative_attention.decoding.translation import Translation
from relative_attention.decoding.translator import Translator
from relative_attention.lazy_names import lazy_names

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

# What needs Keras is imported on first use.
_MODULES = {
    "Ensemble": "ensemble",
    "TranslationScore": "scoring",
    "corpus_perplexity": "scoring",
    "sample": "sampling",
    "score_translations": "scoring",
}

if TYPE_CHECKING:
    # What type checkers see of the names that `__getattr__` imports.
    from relative_attention.decoding.ensemble import Ensemble as Ensemble
    from relative_attention.decoding.sampling import sample as sample
    from relative_attention.decoding.scoring import (
        TranslationScore as TranslationScore,
    )
    from relative_attention.decoding.scoring import (
        corpus_perplexity as corpus_perplexity,
    )
    from relative_attention.decoding.scoring import (
        score_translations as score_translations,
    )
else:
    __getattr__ = lazy_names(__name__, _MODULES)
