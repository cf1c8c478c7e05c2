"""Initial values of one table per head."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="relative_attention")
class PerHeadInitializer(keras.initializers.Initializer):
    """Draws `(N, R, H)` as `N` tables `(R, H)`, each on its own.

    So a table has the same distribution whether heads share it or not.

    Args:
        initializer: `keras.initializers.Initializer` of one table. If it has
            a seed, head `n` adds `n` to it.
    """

    def __init__(self, initializer):
        self.initializer = keras.initializers.get(initializer)

    def __call__(self, shape, dtype=None):
        num_heads, *table_shape = shape
        return ops.stack(
            [
                self._of_head(head)(tuple(table_shape), dtype=dtype)
                for head in range(num_heads)
            ]
        )

    def _of_head(self, head):
        config = self.initializer.get_config()
        if isinstance(config.get("seed"), int):
            config["seed"] += head
        return type(self.initializer).from_config(config)

    def get_config(self):
        return {"initializer": keras.initializers.serialize(self.initializer)}
