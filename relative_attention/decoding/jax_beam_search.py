"""A beam search that JAX compiles, once for each of few shapes."""

from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.decoding.beam_search_loop import BeamInputs
from relative_attention.decoding.beam_search_loop import beam_search_loop
from relative_attention.decoding.columns import FixedColumns
from relative_attention.decoding.constraint_tensors import ConstraintTensors
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.ensemble import Ensemble
from relative_attention.decoding.run_compiled import compiled_functions
from relative_attention.models.transformer import Transformer
from relative_attention.tensor_type import Tensor

# Lengths are rounded up to a multiple of this, numbers of sentences to a power
# of two: a search takes as long for a few more, and a compilation far longer.
_ROUND_TO = 32


def compiles_on_jax(model: Any) -> bool:
    """Returns whether the search of a model is one function that XLA compiles.

    Args:
        model: `Transformer`, `Ensemble`, or another `StepModel`, whose cache
            is nobody's but its own.
    """
    return keras.backend.backend() == "jax" and isinstance(
        model, Transformer | Ensemble
    )


def jax_beam_search(
    model: Any, inputs: BeamInputs, num_beams: int, num_results: int
) -> dict[str, Tensor]:
    """Computes `beam_search_loop` with tensors of fixed shapes.

    Args:
        model: `Transformer` or `Ensemble`.
        inputs: `BeamInputs`.
        num_beams, num_results: see `beam_search`.

    Returns:
        As `beam_search_loop`.
    """
    import jax

    batch_size = inputs.constraints.source_token_ids.shape[0]
    if not batch_size:
        return beam_search_loop(model, inputs, num_beams, num_results)
    inputs = inputs._replace(constraints=_rounded(inputs.constraints))
    limits = ops.convert_to_numpy(Constraints(inputs.constraints).limits)
    num_positions = _round_up(max(int(limits.max()), 1))
    key = (beam_search_loop, num_beams, num_results, num_positions)
    functions = compiled_functions(model)
    variables = _variables(model)
    if key not in functions:

        def search(values: list[Tensor], inputs: BeamInputs) -> dict:
            # As arguments: else the weights would be constants.
            with keras.StatelessScope(list(zip(variables, values))):
                return beam_search_loop(
                    model,
                    inputs,
                    num_beams,
                    num_results,
                    FixedColumns(num_positions),
                )

        functions[key] = jax.jit(search)
    values = [variable.value for variable in variables]
    results = functions[key](values, inputs)
    # As wide as the search went on, which the rows that were added are not.
    width = int(results.pop("num_steps"))
    return {
        "token_ids": results["token_ids"][:batch_size, :, :width],
        "scores": results["scores"][:batch_size],
    }


def _variables(model: Any) -> list[keras.Variable]:
    models = model.models if isinstance(model, Ensemble) else [model]
    by_identity = {id(v): v for one in models for v in one.variables}
    return list(by_identity.values())


def _rounded(constraints: ConstraintTensors) -> ConstraintTensors:
    """Returns constraints whose shapes are among few.

    The sentences that are added are the last one, which is done when it is.
    """
    source, prefix = constraints.source_token_ids, constraints.target_prefix
    return constraints._replace(
        source_token_ids=_rounded_rows(source),
        target_prefix=None if prefix is None else _rounded_rows(prefix),
    )


def _rounded_rows(token_ids: Tensor) -> Tensor:
    """Repeats the last row, and pads rows with id 0."""
    rows = ops.convert_to_numpy(token_ids)
    size, length = rows.shape
    missing = (1 << (size - 1).bit_length()) - size
    rows = np.pad(rows, ((0, 0), (0, _round_up(length) - length)))
    rows = np.pad(rows, ((0, missing), (0, 0)), mode="edge")
    return ops.convert_to_tensor(rows, "int32")


def _round_up(length: int) -> int:
    return -(-length // _ROUND_TO) * _ROUND_TO
