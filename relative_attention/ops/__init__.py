"""Stateless tensor functions, which the layers use.

They run on TensorFlow, JAX and PyTorch. What differs between backends is in
`backend.py`.

- `attention.py`: the equations of the paper, one by one, as tensor2tensor
  computes them.
- `relative_attention.py`: the same for clipped distances, forward and gradient,
  as `fit` runs it.
- `long_attention.py`: attention in memory that grows with the length, by
  `recompute.py`.
- `step_attention.py`: attention of one position, for decoding.
- `dropout.py`: what dropout keeps, and by how much that is scaled.
- `masks.py`: masks of padding and of later keys, and checks of users' masks.
- `cross_entropy.py`: the training loss, token by token.
- `cpu_kernels.py`: feed-forward and layer normalization in fewer passes over
  memory.
"""

from relative_attention.ops.attention import clipped_relative_positions
from relative_attention.ops.attention import relative_attention_inner

__all__ = ["clipped_relative_positions", "relative_attention_inner"]
