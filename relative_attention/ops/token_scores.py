"""What a loss and metrics need of a model's predictions."""

import dataclasses

from relative_attention.tensor_type import Tensor


@dataclasses.dataclass(frozen=True)
class TokenScores:
    """What is left of logits that were scored a few rows at a time.

    It goes to metrics as `y_pred`, in place of logits.

    Attributes:
        loss: float32 scalar.
        negative_log_likelihoods: float32 `(B, T)`, of each label.
        matches: float32 `(B, T)`, 1 where no logit is higher than that of the
            label.
    """

    loss: Tensor
    negative_log_likelihoods: Tensor
    matches: Tensor
