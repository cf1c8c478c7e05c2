"""The methods that a search asks of a model."""

from typing import Any
from typing import Protocol

from relative_attention.tensor_type import Tensor


class StepModel(Protocol):
    """A model that decodes one position of many hypotheses at a time.

    `Transformer` and `Ensemble` are such; `beam_search` and `sample` take any
    other. A model may have more, which is used where it is there: `config`, to
    hold ids against the vocabulary, `start_token_id`, and `prepare_steps`,
    which returns a `StepModel` of the same numbers for the steps of a search.

    A cache is a structure of nested dicts, lists and tuples of tensors; the
    first axis of each tensor is that of the sentences.
    """

    def start_cache(self, source_token_ids: Tensor) -> Any:
        """Encodes the sources `(B, S)` and returns the cache."""

    def decode_step(
        self,
        token_ids: Tensor,
        cache: Any,
        position: Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Returns logits `(B, M, V)` and the cache, a position longer.

        Args:
            token_ids: int tensor `(B, M)`, the tokens at `position`.
            cache: what `start_cache`, `merge_cache` or the step before
                returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`, or `None`:
                `ancestors[b, m, p]` is the beam that wrote position `p` of
                the history of beam `m`.
        """

    def merge_cache(self, cache: Any) -> Any:
        """Returns the cache with its recent positions joined to the others."""


def prepared(model: StepModel) -> StepModel:
    """Returns the model for the steps of one search, prepared if it can be.

    Args:
        model: `StepModel`.
    """
    prepare_steps = getattr(model, "prepare_steps", None)
    return model if prepare_steps is None else prepare_steps()
