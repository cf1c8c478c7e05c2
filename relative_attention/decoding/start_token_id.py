"""What a search gives the decoder first."""

from keras import ops

from relative_attention.models.decoder_inputs import decoder_inputs


def start_token_id(model):
    """The model's own, or 0: a search takes anything that has its steps."""
    return getattr(model, "start_token_id", 0)


def first_inputs(model, shape):
    """The decoder's first inputs, int32 of a shape, before any token."""
    no_tokens = ops.zeros((*shape, 1), "int32")
    return decoder_inputs(no_tokens, start_token_id(model))[..., 0]
