"""Loads a checkpoint of tensor2tensor's Transformer as a `Transformer`."""

import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from relative_attention.atomic_files import AnyPath
from relative_attention.convert.tensor2tensor.check_hparams import check_hparams
from relative_attention.convert.tensor2tensor.check_hparams import (
    check_target_space,
)
from relative_attention.convert.tensor2tensor.embeddings import Embeddings
from relative_attention.convert.tensor2tensor.embeddings import find_embeddings
from relative_attention.convert.tensor2tensor.hparams import config_fields
from relative_attention.convert.tensor2tensor.hparams import read_hparams
from relative_attention.convert.tensor2tensor.names import body_variables
from relative_attention.convert.tensorflow_checkpoint import (
    TensorFlowCheckpoint,
)
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig

# A checkpoint holds these beside the model, by the names of their variables.
_BESIDE = {
    "state of the optimizer": re.compile(
        r"training/.*|.*/Adam(_1)?|beta[12]_power"
    ),
    "count of steps": re.compile(r"global_step"),
    "bookkeeping of the training": re.compile(r"(losses_avg|train_stats)/.*"),
}


def load_tensor2tensor(
    checkpoint_path: AnyPath,
    hparams: AnyPath | Mapping[str, Any],
    target_space_id: int = 0,
    report: Callable[[str], Any] | None = None,
) -> Transformer:
    """Loads the `Transformer` of a tensor2tensor checkpoint with its weights.

    It gives the logits that tensor2tensor gives. Known are the hparams sets
    `transformer_base*`, `transformer_big*`, `transformer_relative*` and what
    differs from them in sizes, dropout, pre- or post-norm, vocabularies
    (shared or not) and positions. What concerns the training alone (the
    optimizer, its schedule and state, the shape of dropout noise) is not
    taken over; `TransformerSchedule` and `MaskedCrossEntropy` are the same
    numbers here.

    Args:
        checkpoint_path: path. The prefix of the checkpoint, such as
            `model.ckpt-250000`, or its folder, whose latest is taken.
        hparams: dict of tensor2tensor's hyperparameters, or the path of its
            `hparams.json`.
        target_space_id: int. The row of the target-space embedding that the
            problem uses; 0 for translation. The other rows are left out.
        report: function. It is called with each line of a report that names
            what of the checkpoint was used and what was not. Defaults to
            `None`.

    Returns:
        `Transformer`, float32.

    Raises:
        InputError: if the checkpoint is missing or damaged, if a
            hyperparameter has a value that is not supported or contradicts
            the variables, or if a variable is missing, fits nowhere or has
            another shape; the message names it.

    Reference:
     - [Vaswani et al., 2018](https://arxiv.org/abs/1803.07416), tensor2tensor
    """
    hparams = read_hparams(hparams)
    fields = config_fields(hparams)
    checkpoint = TensorFlowCheckpoint(checkpoint_path)
    embeddings = find_embeddings(checkpoint.shapes)
    scope = f"{embeddings.model_scope}/body"
    space = f"{scope}/target_space_embedding/kernel"
    check_hparams(hparams, fields, checkpoint.shapes, embeddings, scope)
    check_target_space(target_space_id, checkpoint.shapes.get(space))
    model = _build_model(fields, embeddings, space in checkpoint.shapes)
    variables = body_variables(model, scope)
    shards = {
        name
        for matrix in (embeddings.source, embeddings.target, embeddings.output)
        for name in matrix.names
    }
    # Not every model has a target space.
    used = {*variables, *shards, *({space} & checkpoint.shapes.keys())}
    beside = _sort_out(checkpoint.shapes, used)
    _check_shapes(checkpoint.shapes, variables)

    for name, variable in variables.items():
        # The axes of heads and their size are one in tensor2tensor.
        array = checkpoint.read(name)
        variable.assign(np.reshape(array, variable.shape))
    _assign_embeddings(model, checkpoint, embeddings)
    if space in checkpoint.shapes:
        rows = checkpoint.read(space)
        model.target_space_embedding.embedding.assign(rows[target_space_id])
    if report is not None:
        for line in _report(checkpoint, used, beside, space, target_space_id):
            report(line)
    return model


def _build_model(
    fields: Mapping[str, Any], embeddings: Embeddings, has_target_space: bool
) -> Transformer:
    """Builds the model that hyperparameters and embeddings describe."""
    source_size = embeddings.source.num_rows
    target_size = embeddings.target.num_rows
    return Transformer(
        TransformerConfig(
            vocabulary_size=target_size,
            source_vocabulary_size=(
                None if source_size == target_size else source_size
            ),
            share_embeddings=embeddings.sharing,
            use_target_space_embedding=has_target_space,
            **fields,
        )
    )


def _assign_embeddings(
    model: Transformer, checkpoint: TensorFlowCheckpoint, embeddings: Embeddings
) -> None:
    """Puts the shards of each matrix together, once where it is shared."""
    layers = {
        embeddings.source: model.source_embedding,
        embeddings.target: model.target_embedding,
        embeddings.output: model.output_embedding,
    }
    for shards, layer in layers.items():
        rows = [checkpoint.read(name) for name in shards.names]
        layer.embeddings.assign(np.concatenate(rows))


def _sort_out(
    shapes: Mapping[str, tuple[int, ...]], used: set[str]
) -> dict[str, list[str]]:
    """Returns the names of variables that the model has no use for, by kind.

    Raises:
        InputError: if a weight is missing, or a variable is neither a weight
            nor of a kind that training leaves behind.
    """
    beside: dict[str, list[str]] = {kind: [] for kind in _BESIDE}
    left_over: list[str] = []
    for name in sorted(shapes.keys() - used):
        kinds = [kind for kind, p in _BESIDE.items() if p.fullmatch(name)]
        (beside[kinds[0]] if kinds else left_over).append(name)
    missing = sorted(used - shapes.keys())
    if missing or left_over:
        parts = []
        if missing:
            parts.append(f"it lacks {', '.join(missing)}")
        if left_over:
            parts.append(
                f"it has {', '.join(left_over)}, which fits nowhere in the "
                "model of these hparams"
            )
        raise InputError(
            f"The checkpoint and the hparams do not agree: {'; '.join(parts)}."
        )
    return beside


def _check_shapes(
    shapes: Mapping[str, tuple[int, ...]],
    variables: Mapping[str, keras.Variable],
) -> None:
    """Refuses a checkpoint whose variables have other shapes than the model."""
    wrong = []
    for name, variable in variables.items():
        expected = _joined_heads(name, tuple(variable.shape))
        if shapes[name] != expected:
            wrong.append(f"{name} {expected}, in the checkpoint {shapes[name]}")
    if wrong:
        raise InputError(
            "By the hparams these variables must have other shapes: "
            f"{'; '.join(wrong)}."
        )


def _joined_heads(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape that tensor2tensor gives to a kernel with a head axis.

    It joins heads and their size: `(D, N, H)` is `(D, N * H)` there, and the
    kernel of the outputs, `(N, H, D)`, is `(N * H, D)`.
    """
    if len(shape) < 3:
        return shape
    if name.endswith("output_transform/kernel"):
        return (shape[0] * shape[1], shape[2])
    return (shape[0], shape[1] * shape[2])


def _report(
    checkpoint: TensorFlowCheckpoint,
    used: set[str],
    beside: Mapping[str, list[str]],
    space: str,
    target_space_id: int,
) -> Iterator[str]:
    """Yields the lines that say what became of each variable."""
    yield f"{checkpoint.prefix}: {len(checkpoint.shapes)} variables"
    yield f"used: {len(used)}"
    yield from (f"  {name}" for name in sorted(used))
    if space in used:
        yield f"of {space}, row {target_space_id} alone"
    for kind, names in beside.items():
        yield f"not used, {kind}: {len(names)}"
        yield from (f"  {name}" for name in names)
