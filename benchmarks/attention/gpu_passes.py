"""The two passes of an attention layer, compiled by JAX, with their memory."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any
from typing import Literal

import keras

import relative_attention as ra
from relative_attention.tensor_type import Tensor

Weights = list[Tensor]
Run = Callable[[Weights, Tensor], Tensor]


@dataclasses.dataclass(frozen=True)
class Passes:
    """Both passes of a layer, compiled for inputs of one shape.

    Attributes:
        calls: A dict of two functions without arguments, `"forward"` and
            `"backward"`, which is forward and backward pass together.
        memory_bytes: A dict of what each takes beside inputs and outputs, as
            the compiler planned it; `None` where it does not say.
    """

    calls: dict[str, Callable[[], Tensor]]
    memory_bytes: dict[str, int | None]


def relative_layer(
    num_heads: int,
    key_dim: int,
    distance: int | None,
    implementation: str,
    inputs: Tensor,
    dtype: str,
) -> tuple[Run, Weights]:
    """Returns `RelativeSelfAttention` as a function, and its weights.

    Args:
        num_heads: An integer.
        key_dim: An integer.
        distance: An integer, the clipping distance, or `None` for no
            relations.
        implementation: A string, as of `RelativeSelfAttention`.
        inputs: A tensor `(B, T, D)` to build it with.
        dtype: A string, the dtype policy.
    """
    layer = ra.RelativeSelfAttention(
        num_heads,
        key_dim,
        distance or 0,
        use_key_relations=distance is not None,
        use_value_relations=distance is not None,
        implementation=implementation,
        dtype=dtype,
    )
    layer.build(inputs.shape)
    fixed = [variable.value for variable in layer.non_trainable_variables]

    def run(weights: Weights, inputs: Tensor) -> Tensor:
        return layer.stateless_call(weights, fixed, inputs)[0]

    return run, [variable.value for variable in layer.trainable_variables]


def dot_product_layer(
    num_heads: int,
    key_dim: int,
    kernel: Literal["xla", "cudnn"],
    inputs: Tensor,
    dtype: str,
) -> tuple[Run, Weights]:
    """Returns a layer around `jax.nn.dot_product_attention`, and its weights.

    Args:
        num_heads: An integer.
        key_dim: An integer.
        kernel: A string, `"xla"` or `"cudnn"`.
        inputs: A tensor `(B, T, D)` whose width it has.
        dtype: A string, the dtype policy.
    """
    import jax

    shapes = [(inputs.shape[-1], num_heads, key_dim)] * 3
    shapes.append((num_heads, key_dim, inputs.shape[-1]))
    initializer = keras.initializers.GlorotUniform(seed=0)
    weights = [initializer(shape, "float32") for shape in shapes]
    compute = keras.dtype_policies.get(dtype).compute_dtype

    def run(weights: Weights, inputs: Tensor) -> Tensor:
        *into_heads, out_of_heads = [w.astype(compute) for w in weights]
        heads = [
            jax.numpy.einsum("btd,dnh->btnh", inputs, w) for w in into_heads
        ]
        query, key, value = heads
        attended = jax.nn.dot_product_attention(
            query, key, value, implementation=kernel
        )
        return jax.numpy.einsum("btnh,nhd->btd", attended, out_of_heads)

    return run, weights


def compile_passes(run: Run, weights: Weights, inputs: Tensor) -> Passes:
    """Compiles a layer's passes.

    Args:
        run: A function of weights and inputs.
        weights: A list of tensors.
        inputs: A tensor `(B, T, D)`.
    """
    import jax

    def backward(weights: Weights, inputs: Tensor) -> Any:
        outputs, gradients_of = jax.vjp(run, weights, inputs)
        # As if the layers that follow had sent back the outputs.
        return gradients_of(outputs)

    compiled = {
        name: jax.jit(function).lower(weights, inputs).compile()
        for name, function in (("forward", run), ("backward", backward))
    }
    calls: dict[str, Callable[[], Tensor]] = {
        name: functools.partial(function, weights, inputs)
        for name, function in compiled.items()
    }
    plans = {
        name: function.memory_analysis() for name, function in compiled.items()
    }
    return Passes(
        calls,
        {
            name: None if plan is None else int(plan.temp_size_in_bytes)
            for name, plan in plans.items()
        },
    )
