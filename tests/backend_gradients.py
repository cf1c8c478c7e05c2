"""Gradients on whichever backend Keras runs on; see the fixture `gradients`."""

import keras


def gradients(function, arrays=(), variables=()):
    """Gradients of a scalar with respect to arrays, then variables.

    Args:
        function: takes one tensor for each array, returns a scalar tensor.
        arrays: list of float arrays.
        variables: list of Keras variables.

    Returns:
        List of NumPy arrays.
    """
    compute = {
        "tensorflow": _with_tensorflow,
        "jax": _with_jax,
        "torch": _with_torch,
    }[keras.backend.backend()]
    tensors = [keras.ops.convert_to_tensor(array) for array in arrays]
    return [
        keras.ops.convert_to_numpy(gradient)
        for gradient in compute(function, tensors, list(variables))
    ]


def _with_tensorflow(function, tensors, variables):
    import tensorflow as tf

    sources = tensors + [variable.value for variable in variables]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        scalar = function(*tensors)
    # Those of embeddings come as rows and their indices.
    return map(tf.convert_to_tensor, tape.gradient(scalar, sources))


def _with_jax(function, tensors, variables):
    import jax

    def scalar(tensors, values):
        with keras.StatelessScope(state_mapping=list(zip(variables, values))):
            return function(*tensors)

    values = [variable.value for variable in variables]
    # One program is compiled faster than each of its operations.
    compute = jax.jit(jax.grad(scalar, argnums=(0, 1)))
    of_tensors, of_variables = compute(tensors, values)
    return of_tensors + of_variables


def _with_torch(function, tensors, variables):
    import torch

    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    sources = tensors + [variable.value for variable in variables]
    return torch.autograd.grad(function(*tensors), sources)
