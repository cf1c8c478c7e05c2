"""The position encodings of a `Transformer`, by the name in its config.

To add one:

1. Write it. What is added to embeddings is a layer in `layers/` that is called
   with embeddings `(B, T, D)` and the `start_position` of the first of them,
   as `SinusoidalPositions` is: decoding has one position at a time. What
   works inside attention is a subclass of `SelfAttentionLayer`
   (`layers/__init__.py` says what it needs), which
   `TransformerLayers._self_attention` must choose by the config.
2. Give it a name in `POSITION_ENCODINGS` below: configs, presets and recipes
   take it by that name.
3. Describe it in the docstring of `TransformerConfig`, at
   `position_encoding`, and write the reference of recipes anew:
   `python docs/recipe_reference.py`. A field of the config that it does not
   use is named in `runs/initial_weights_checks.py`.

The tests of the model (`tests/models/test_position_encodings.py`) go through
this table. Which of them CTranslate2 knows is in `export/ctranslate2.py`, and
how it stores them in `export/ctranslate2_spec.py`.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    import keras

    from relative_attention.models.transformer_config import TransformerConfig


@dataclasses.dataclass(frozen=True)
class PositionEncoding:
    """How a `Transformer` knows where its tokens are.

    Attributes:
        has_relations: A boolean to indicate whether self-attention has
            relation embeddings (Shaw et al. 2018).
        make_layer: Function of a `TransformerConfig` and keyword arguments of
            a layer that returns the layer that adds absolute positions to
            embeddings. `None`: there are none.
    """

    has_relations: bool = False
    make_layer: Callable[..., "keras.layers.Layer"] | None = None


# The layers are imported when a model is made: a config needs no Keras.
def _sinusoidal(
    config: "TransformerConfig", **arguments: Any
) -> "keras.layers.Layer":
    from relative_attention.layers.sinusoidal_positions import (
        SinusoidalPositions,
    )

    return SinusoidalPositions(**arguments)


def _learned(
    config: "TransformerConfig", **arguments: Any
) -> "keras.layers.Layer":
    from relative_attention.layers.learned_positions import LearnedPositions

    return LearnedPositions(config.max_length, **arguments)


POSITION_ENCODINGS = {
    # Shaw et al. (2018): distances inside attention, nothing on embeddings.
    "relative": PositionEncoding(has_relations=True),
    # Vaswani et al. (2017), section 3.5.
    "sinusoidal": PositionEncoding(make_layer=_sinusoidal),
    # Gehring et al. (2017): an embedding for each of `max_length` positions.
    "learned": PositionEncoding(make_layer=_learned),
    # Shaw et al. (2018), section 4.2, saw no benefit from having both.
    "relative+sinusoidal": PositionEncoding(
        has_relations=True, make_layer=_sinusoidal
    ),
    # A bag of words.
    None: PositionEncoding(),
}
