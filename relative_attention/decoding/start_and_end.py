"""The ids with which a translation starts and ends."""

from typing import Any

from keras import ops

from relative_attention.models.decoder_inputs import decoder_inputs
from relative_attention.tensor_type import Tensor

# The end of sentence, in every vocabulary of a target.
END_ID = 1


def start_token_id(model: Any) -> int:
    """Returns the model's own, or 0: a search takes any `StepModel`."""
    return getattr(model, "start_token_id", 0)


def first_inputs(model: Any, shape: tuple[Any, ...]) -> Tensor:
    """Makes the decoder's first inputs, int32 of a shape, before any token."""
    no_tokens = ops.zeros((*shape, 1), "int32")
    return decoder_inputs(no_tokens, start_token_id(model))[..., 0]
