"""Layer normalization with its gradient written out."""

from keras import ops

from relative_attention.ops.static_shape import static_shape


def layer_normalization(inputs, gamma, beta, epsilon):
    """Normalise the last axis, then scale by `gamma` and shift by `beta`.

    `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, with the variance
    of the population, in float32 whatever the input (Ba et al. 2016; epsilon
    inside the root, as in tensor2tensor). The gradient is written out because
    what automatic differentiation makes of the mean and the variance passes
    twice as often over memory, and on a CPU that is all the cost there is.

    Args:
        inputs: float tensor `(..., D)`.
        gamma: float tensor `(D,)`.
        beta: float tensor `(D,)`.
        epsilon: float. Added to the variance.

    Returns:
        Tensor of the shape and dtype of `inputs`.
    """
    hidden_dim = inputs.shape[-1]
    gamma = ops.cast(gamma, "float32")
    beta = ops.cast(beta, "float32")

    @ops.custom_gradient
    def normalize(rows, gamma, beta):
        rows = ops.cast(rows, "float32")
        centered = rows - ops.mean(rows, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        inverse_deviation = ops.rsqrt(variance + epsilon)
        normalized = centered * inverse_deviation

        def gradient(*arguments, upstream=None):
            if upstream is None:
                (upstream,) = arguments
            upstream = ops.cast(upstream, "float32")
            # Both row means are matrix products with gamma / D: no
            # intermediate of the size of the inputs is written for them.
            gamma_mean = ops.reshape(gamma / hidden_dim, (-1, 1))
            product = upstream * normalized
            mean_upstream = ops.matmul(upstream, gamma_mean)  # (rows, 1)
            mean_product = ops.matmul(product, gamma_mean)  # (rows, 1)
            rows_gradient = inverse_deviation * (
                upstream * gamma - mean_upstream - normalized * mean_product
            )
            return (
                ops.cast(rows_gradient, inputs.dtype),
                ops.sum(product, axis=0),
                ops.sum(upstream, axis=0),
            )

        return ops.cast(normalized * gamma + beta, inputs.dtype), gradient

    rows = ops.reshape(inputs, (-1, hidden_dim))
    return ops.reshape(normalize(rows, gamma, beta), static_shape(inputs))
