"""Position encodings, by the name in a config or as objects.

An encoding that works inside attention is a `PositionEncoding`, which tells a
`SelfAttention` layer what positions add. An encoding that is added to
embeddings is a layer. To add an encoding:

1. Write it in a file of this folder, as a subclass of `PositionEncoding`.
2. Add a line to `POSITION_ENCODINGS` below.

Layers, configs, recipes and presets then take it by its name, and the tests of
the model (`tests/models/test_position_encodings.py`) go through this table.
Classes are imported when used, so the names are available without Keras.
"""

import importlib
from typing import Any
from typing import NamedTuple


class Names(NamedTuple):
    """Where the parts of a position encoding are, as `"module:class"`.

    Attributes:
        in_attention: a subclass of `PositionEncoding`. By default it adds
            nothing.
        on_embeddings: a layer, or `None`.
    """

    in_attention: str = "positions.position_encoding:PositionEncoding"
    on_embeddings: str | None = None

    def attention_class(self) -> Any:
        """Returns the subclass of `PositionEncoding`."""
        return _find(self.in_attention)

    def embedding_class(self) -> Any:
        """Returns the class of the layer on embeddings, or `None`."""
        return _find(self.on_embeddings) if self.on_embeddings else None


_SINUSOIDAL = "embeddings:SinusoidalPositions"
_RELATIVE = "positions.relative:Relative"

POSITION_ENCODINGS: dict[str | None, Names] = {
    # Shaw et al. (2018)
    "relative": Names(_RELATIVE),
    # Huang et al. (2018)
    "relative_global": Names("positions.relative:RelativeGlobal"),
    # Su et al. (2021)
    "rotary": Names("positions.rotary:Rotary"),
    # Press et al. (2022)
    "alibi": Names("positions.alibi:ALiBi"),
    "t5": Names("positions.t5:T5Bias"),  # Raffel et al. (2020)
    # Vaswani et al. (2017), section 3.5
    "sinusoidal": Names(on_embeddings=_SINUSOIDAL),
    # Gehring et al. (2017)
    "learned": Names(on_embeddings="embeddings:LearnedPositions"),
    # Shaw et al. (2018), section 4.2, saw no benefit from both.
    "relative+sinusoidal": Names(_RELATIVE, _SINUSOIDAL),
    # A bag of words.
    None: Names(),
}

# The classes by name, for `ra.positions`.
_CLASSES = {
    names.in_attention.split(":")[1]: names.in_attention
    for names in POSITION_ENCODINGS.values()
}
__all__ = [*_CLASSES]


def find_position_encoding(encoding: Any) -> Any:
    """Returns the `PositionEncoding` of a self-attention layer.

    Args:
        encoding: string, a name in `POSITION_ENCODINGS`; `None`; a
            `PositionEncoding`; or one serialized by Keras.

    Returns:
        `PositionEncoding`.

    Raises:
        ValueError: if it is none of these, or is added to embeddings.
    """
    import keras

    if isinstance(encoding, dict):
        encoding = keras.saving.deserialize_keras_object(encoding)
    if isinstance(encoding, _find(POSITION_ENCODINGS[None].in_attention)):
        return encoding
    inside = [
        name
        for name, names in POSITION_ENCODINGS.items()
        if names.on_embeddings is None
    ]
    if encoding not in inside:
        raise ValueError(
            f"`position_encoding` must be one of {', '.join(map(repr, inside))}"
            f", or an object of `ra.positions`. Received: {encoding!r}. "
            "Positions that are added to embeddings are separate layers, "
            "such as `SinusoidalPositions`."
        )
    return POSITION_ENCODINGS[encoding].attention_class()()


def _find(name: str) -> Any:
    path, class_name = name.split(":")
    module = importlib.import_module(f"relative_attention.layers.{path}")
    return getattr(module, class_name)


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _find(_CLASSES[name])
