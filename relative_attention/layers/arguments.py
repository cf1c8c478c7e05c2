"""Types of the arguments that layers share, for editors and type checkers.

Keras has no type annotations. For layers whose signature ends in `**kwargs`,
these classes name the keyword arguments, so that a misspelled argument is found
before the program runs.
"""

from collections.abc import Callable
from typing import Any
from typing import TypeAlias
from typing import TypedDict

from relative_attention.tensor_type import Tensor

# What `keras.initializers.get` and the like accept: a name, a config, or the
# object itself.
InitializerLike: TypeAlias = str | dict[str, Any] | Callable[..., Tensor]
RegularizerLike: TypeAlias = str | dict[str, Any] | Callable[..., Tensor] | None
ConstraintLike: TypeAlias = RegularizerLike


class LayerArguments(TypedDict, total=False):
    """Arguments of `keras.layers.Layer`."""

    activity_regularizer: RegularizerLike
    autocast: bool
    dtype: Any
    name: str | None
    trainable: bool


class WeightArguments(LayerArguments, total=False):
    """Arguments of projections that attention layers seldom need."""

    bias_initializer: InitializerLike
    kernel_regularizer: RegularizerLike
    bias_regularizer: RegularizerLike
    kernel_constraint: ConstraintLike
    bias_constraint: ConstraintLike


class ProjectionArguments(WeightArguments, total=False):
    """Arguments of all attention layers."""

    dropout: float
    use_bias: bool
    output_shape: int | None
    kernel_initializer: InitializerLike
    seed: int | None


class SelfAttentionArguments(ProjectionArguments, total=False):
    """Arguments of layers with a position encoding of their own."""

    value_dim: int | None
    implementation: str


class BlockArguments(LayerArguments, total=False):
    """Arguments of encoder and decoder blocks."""

    dropout: float
    normalize_first: bool
    layer_norm_epsilon: float
    seed: int | None


class EmbeddingArguments(LayerArguments, total=False):
    """Arguments of `keras.layers.Embedding`, without the sizes."""

    embeddings_initializer: InitializerLike
    embeddings_regularizer: RegularizerLike
    embeddings_constraint: ConstraintLike
    mask_zero: bool
    weights: Any
    lora_rank: int | None
    lora_alpha: float | None


class TableArguments(TypedDict, total=False):
    """Arguments of tables of relations."""

    use_key_relations: bool
    use_value_relations: bool
    share_relations_across_heads: bool
    relation_initializer: InitializerLike | None
    relation_regularizer: RegularizerLike
    relation_constraint: ConstraintLike
