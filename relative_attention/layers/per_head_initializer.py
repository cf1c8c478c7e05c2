"""Initial values of one table per head."""

from typing import Any

import keras
from keras import ops

from relative_attention.layers.argument_types import InitializerLike
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class PerHeadInitializer(keras.initializers.Initializer):
    """Draws `(N, R, H)` as `N` tables `(R, H)`, each on its own.

    So a table has the same distribution whether heads share it or not.

    Args:
        initializer: `keras.initializers.Initializer` of one table. If it has
            a seed, head `n` adds `n` to it.
    """

    def __init__(self, initializer: InitializerLike) -> None:
        self.initializer = keras.initializers.get(initializer)

    def __call__(
        self, shape: tuple[int, ...], dtype: str | None = None
    ) -> Tensor:
        num_heads, *table_shape = shape
        return ops.stack(
            [
                self._of_head(head)(tuple(table_shape), dtype=dtype)
                for head in range(num_heads)
            ]
        )

    def _of_head(self, head: int) -> keras.initializers.Initializer:
        """Returns the initializer with a seed of its own for each head."""
        config = self.initializer.get_config()
        if isinstance(config.get("seed"), int):
            config["seed"] += head
        return type(self.initializer).from_config(config)

    def get_config(self) -> dict[str, Any]:
        return {"initializer": keras.initializers.serialize(self.initializer)}
