"""The learning-rate schedule of the Transformer."""

from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_positive
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up, then the inverse square root of the step.

        def learning_rate(iteration):  # 0 first
            step = iteration if zero_first_step else iteration + 1
            return scale * hidden_dim**-0.5 * min(
                step * warmup_steps**-1.5, step**-0.5
            )

    Args:
        hidden_dim: int. Model width `D`.
        warmup_steps: int. Steps until the rate is highest. Defaults to `4000`.
        scale: float. Defaults to `1.0`. tensor2tensor's hyperparameter sets
            from the second on have `2.0`, with 8,000 steps.
        zero_first_step: A boolean to indicate whether the first update has
            rate 0, as in tensor2tensor since its third hyperparameter sets.
            Defaults to `False`.

    Call arguments:
        step: int scalar, the optimizer's iteration, from 0.

    Raises:
        ValueError: if a size is not positive.

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 5.3
    """

    def __init__(
        self,
        hidden_dim: int,
        warmup_steps: int = 4000,
        scale: float = 1.0,
        zero_first_step: bool = False,
    ) -> None:
        super().__init__()
        self.hidden_dim = checked_positive("hidden_dim", hidden_dim, "positive")
        self.warmup_steps = checked_positive(
            "warmup_steps", warmup_steps, "positive"
        )
        self.scale = checked_positive("scale", scale, "positive")
        self.zero_first_step = checked_bool("zero_first_step", zero_first_step)

    def __call__(self, step: Tensor) -> Tensor:
        """Returns the rate of an update.

        Args:
            step: int scalar, the optimizer's iteration, from 0.
        """
        step = ops.cast(step, "float32")
        if not self.zero_first_step:
            step = step + 1.0
        # Step 0 has no inverse root, but the warm-up is smaller there.
        decay = ops.rsqrt(ops.maximum(step, 1.0))
        rate = ops.minimum(step * self.warmup_steps**-1.5, decay)
        return self.scale * self.hidden_dim**-0.5 * rate

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "hidden_dim": self.hidden_dim,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
            "zero_first_step": self.zero_first_step,
        }
