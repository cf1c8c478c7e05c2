"""The names and shapes of the weights that a config stands for.

A file of weights may come from anywhere, and a config beside it may ask for
more memory than there is. So both are compared before anything is built.
"""

import math
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from relative_attention.errors import InputError
from relative_attention.layers.positions import LEARNED
from relative_attention.layers.positions import NOTHING
from relative_attention.layers.positions import RELATIVE
from relative_attention.layers.positions import encoding_of
from relative_attention.layers.positions import find_names
from relative_attention.layers.positions import relation_tables
from relative_attention.models.config import TransformerConfig

Shape = tuple[int, ...]


def weight_shapes(config: TransformerConfig) -> Iterator[tuple[str, Shape]]:
    """Yields name and shape of each weight of a `Transformer`.

    The names are those of a `.safetensors` file of weights.
    """
    width = config.hidden_dim
    size = config.vocabulary_size
    joined = config.share_embeddings in ("all", "source_target")
    if joined:
        yield "embedding/embeddings", (size, width)
    else:
        source_size = config.source_vocabulary_size or size
        yield "source_embedding/embeddings", (source_size, width)
        yield "target_embedding/embeddings", (size, width)
    if config.share_embeddings in ("source_target", "none"):
        yield "output_embedding/embeddings", (size, width)
    if config.output_bias:
        yield "output_bias", (size,)
    if config.use_target_space_embedding:
        yield "target_space_embedding/embedding", (width,)
    positions = find_names(config.position_encoding).on_embeddings
    for side, number in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        if positions == LEARNED:
            yield f"{side}_positions/embeddings", (config.max_length, width)
        if config.normalize_first:
            yield from _norm(f"{side}_norm", width)
        for index in range(number):
            yield from _block(config, f"{side}_block_{index}", side)


def _block(
    config: TransformerConfig, block: str, side: str
) -> Iterator[tuple[str, Shape]]:
    width, inner = config.hidden_dim, config.intermediate_dim
    names = ["self_attention"]
    if side == "decoder":
        names.append("cross_attention")
    for name in names:
        yield from _attention(config, f"{block}/{name}")
        yield from _norm(f"{block}/{name}_norm", width)
    for name, shape in _of_positions(config, side).items():
        yield f"{block}/self_attention/{name}", shape
    for name, kernel in (
        ("intermediate", (width, inner)),
        ("output", (inner, width)),
    ):
        yield f"{block}/feed_forward/{name}/kernel", kernel
        yield f"{block}/feed_forward/{name}/bias", kernel[1:]
    yield from _norm(f"{block}/feed_forward_norm", width)


def _attention(
    config: TransformerConfig, name: str
) -> Iterator[tuple[str, Shape]]:
    width, heads, key_dim = config.hidden_dim, config.num_heads, config.head_dim
    value_dim = config.value_dim or key_dim
    for part, size in (
        ("query", key_dim),
        ("key", key_dim),
        ("value", value_dim),
    ):
        yield f"{name}/{part}/kernel", (width, heads, size)
        if config.attention_bias:
            yield f"{name}/{part}/bias", (heads, size)
    yield f"{name}/output/kernel", (heads, value_dim, width)
    if config.attention_bias:
        yield f"{name}/output/bias", (width,)


def _of_positions(config: TransformerConfig, side: str) -> dict[str, Shape]:
    """Returns the shapes of what the encoding adds to a layer."""
    # The encodings of an engine, which needs no Keras.
    encoding = find_names(config.position_encoding).in_attention
    if encoding == NOTHING:
        return {}
    if encoding == RELATIVE:
        return relation_tables(config)
    layer: Any = _ShapesOfLayer(config)
    encoding_of(config).build(layer, side == "encoder")
    return layer.shapes


def _norm(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}/gamma", (width,)
    yield f"{name}/beta", (width,)


class _ShapesOfLayer:
    """Stands in for the layer that a position encoding adds weights to."""

    def __init__(self, config: TransformerConfig) -> None:
        self.num_heads = config.num_heads
        self.key_dim = config.head_dim
        self.value_dim = config.value_dim or config.head_dim
        self.shapes: dict[str, Shape] = {}

    def add_weight(
        self, shape: Shape, *arguments: Any, name: str = "", **others: Any
    ) -> None:
        """Notes a shape, where a layer would make a weight."""
        if not name:
            raise InputError(
                "A position encoding must give each weight a `name`, by which "
                "files know it. Received: add_weight(shape="
                f"{tuple(shape)}) without a name."
            )
        self.shapes[name] = tuple(shape)


def check_shapes(
    config: TransformerConfig, shapes: Mapping[str, Shape], source: object
) -> None:
    """Refuses weights that are not exactly those of a config.

    Args:
        config: `TransformerConfig`.
        shapes: dict of the name of each weight of a file to its shape.
        source: path. The file, for the error.

    Raises:
        InputError: naming a weight that is missing, left over or of another
            shape.
    """
    left_over = dict(shapes)
    # The first one that is missing ends it, however many a config asks for.
    for name, shape in weight_shapes(config):
        found = left_over.pop(name, None)
        if found != shape:
            raise InputError(
                f"{source} does not fit the config.json beside it: {name} must "
                f"have shape {shape}. Received: {found or 'no such weight'}."
            )
    if left_over:
        raise InputError(
            f"{source} does not fit the config.json beside it: it has "
            f"{len(left_over)} more, such as {min(left_over)}."
        )


def check_size(
    config: TransformerConfig, most_numbers: int, source: object
) -> None:
    """Refuses a config with more numbers than a file of weights can have.

    For files whose weights have other names.

    Args:
        config: `TransformerConfig`.
        most_numbers: int. The most numbers that the file can hold.
        source: path. The file, for the error.

    Raises:
        InputError: if the model has more.
    """
    left = most_numbers
    for _, shape in weight_shapes(config):
        left -= math.prod(shape)
        if left < 0:
            raise InputError(
                f"The weights of {source} cannot be those of its config, which "
                f"has more than {most_numbers:,} numbers."
            )
