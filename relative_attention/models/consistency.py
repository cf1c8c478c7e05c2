"""Consistency training: two views of a sentence should predict the same.

Both views go through the model at once, as copies of the batch, so that a
step costs twice as much. They differ

- in what dropout drops, in R-Drop (Liang et al. 2021);
- and in SimCut (Gao et al. 2022) also in words of the second view that are
  cut: their embeddings are zero, on both sides.

With the cross entropies `CE` and predictions `p` of the views, and the mean
over tokens, the losses are

    R-Drop   (CE_0 + CE_1) / 2 + weight / 4 * (KL(p_0 || p_1) + KL(p_1 || p_0))
    SimCut   CE_0 + weight * KL(p_0 || p_1)

R-Drop's is half of the paper's sum, so that it is as large as a loss without,
and `weight` is the paper's alpha. Gradients go through both views.
"""

import dataclasses
from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import is_real
from relative_attention.ops.backend import replica_number
from relative_attention.tensor_type import Tensor

# The weights of the papers, for IWSLT'14 German to English.
_WEIGHTS = {"r_drop": 5.0, "simcut": 3.0}

_SIDES = {"source": "source_token_ids", "target": "target_token_ids"}
# More than there are replicas, times two sides.
_STREAMS = 1 << 20
# More than a run makes.
_UPDATES = 1 << 32


@dataclasses.dataclass(frozen=True)
class Consistency:
    """How a model is to agree with itself while it is trained.

    Given to `Transformer.compile(consistency=...)`.

    Args:
        kind: string. `"r_drop"` or `"simcut"`.
        weight: float. Weight of the divergence, the paper's alpha. Defaults
            to the paper's: 5 for R-Drop, 3 for SimCut.
        cut_probability: float in `(0, 1)`. The share of words that SimCut
            cuts. Defaults to `0.05`.
        seed: int, at least 0. Decides, with the numbers of the update, the
            replica and the part of a batch, which ones. Defaults to `0`.

    Raises:
        ValueError: if an argument is out of range.

    Reference:
     - [Liang et al., 2021](https://arxiv.org/abs/2106.14448), R-Drop
     - [Gao et al., 2022](https://arxiv.org/abs/2206.02368), SimCut
    """

    kind: str
    weight: float | None = None
    cut_probability: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in _WEIGHTS:
            raise ValueError(
                "`kind` of a Consistency must be one of "
                f"{', '.join(_WEIGHTS)}. Received: {self.kind!r}."
            )
        weight = self.weight
        if weight is None:
            object.__setattr__(self, "weight", _WEIGHTS[self.kind])
        elif not is_real(weight) or not weight > 0:
            raise ValueError(
                "`weight` of a Consistency must be positive. Received: "
                f"{weight!r}."
            )
        checked_int("seed", self.seed, 0)
        cut = self.cut_probability
        if not is_real(cut) or not 0 < cut < 1:
            raise ValueError(
                "`cut_probability` of a Consistency must be in (0, 1). "
                f"Received: {cut!r}."
            )

    def loss_terms(self) -> dict[str, Any]:
        """Returns how copies count in a loss; see `ops`' `LossTerms`."""
        weight = float(self.weight or 0.0)
        if self.kind == "r_drop":
            return {"copy_weights": (0.5, 0.5), "divergence": weight / 2}
        return {
            "copy_weights": (1.0, 0.0),
            "divergence": weight,
            "symmetric": False,
        }

    def two_views(
        self, inputs: dict[str, Tensor], update: Tensor, part: int | Tensor = 0
    ) -> dict[str, Tensor]:
        """Doubles the inputs of a `Transformer`.

        Args:
            inputs: dict of `"source_token_ids"` int `(B, S)` and
                `"target_token_ids"` int `(B, T)`.
            update: int scalar, the number of the update.
            part: int scalar, which part of a batch they are, 0 first.

        Returns:
            Dict of the same ids, `(2 B, S)` and `(2 B, T)`, and if words are
            cut of `"source_kept"` and `"target_kept"`, bool tensors of these
            shapes.
        """
        views = {
            name: ops.concatenate([inputs[name], inputs[name]])
            for name in _SIDES.values()
        }
        if self.kind == "simcut":
            for number, (side, name) in enumerate(_SIDES.items()):
                kept = self._draw_kept(
                    ops.shape(inputs[name]), number, update, part
                )
                views[f"{side}_kept"] = ops.concatenate(
                    [ops.ones_like(kept), kept]
                )
        return views

    def _draw_kept(
        self, shape: Any, number: int, update: Tensor, part: int | Tensor
    ) -> Tensor:
        """Draws which words of a side stay: bool, as a function of all that.

        A resumed run, whose updates go on counting, cuts the same.
        """
        if keras.backend.backend() == "jax":
            return self._draw_kept_on_jax(shape, number, update, part)
        import tensorflow as tf

        stream = 2 * tf.cast(replica_number(), "int64") + number
        first = self.seed * _STREAMS + stream
        second = tf.cast(update, "int64") + tf.cast(part, "int64") * _UPDATES
        seed = tf.stack([first, second])
        draws = tf.random.stateless_uniform(shape, seed)
        return draws >= self.cut_probability

    def _draw_kept_on_jax(
        self, shape: Any, number: int, update: Tensor, part: int | Tensor
    ) -> Tensor:
        """Draws other words than TensorFlow, by the same rule."""
        import jax

        random_key = jax.random.key(self.seed)
        for count in (number, update, part):
            random_key = jax.random.fold_in(random_key, count)
        return jax.random.uniform(random_key, shape) >= self.cut_probability
