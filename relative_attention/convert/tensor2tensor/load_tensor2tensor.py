"""Checkpoints of tensor2tensor's Transformer."""

import re

import numpy as np

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

# What a checkpoint holds beside the model, by what it is.
_BESIDE = {
    "state of the optimizer": re.compile(
        r"training/.*|.*/Adam(_1)?|beta[12]_power"
    ),
    "count of steps": re.compile(r"global_step"),
    "bookkeeping of the training": re.compile(r"(losses_avg|train_stats)/.*"),
}


def load_tensor2tensor(
    checkpoint_path, hparams, target_space_id=0, report=None
):
    """The `Transformer` of a tensor2tensor checkpoint, weights and all.

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
        report: called with each line of a report that names what of the
            checkpoint was used and what was not. Defaults to `None`.

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
    _check_described(hparams, fields, checkpoint.shapes, embeddings, scope)
    _check_target_space(target_space_id, checkpoint.shapes.get(space))
    source_size, target_size = (
        shards.num_rows for shards in (embeddings.source, embeddings.target)
    )
    model = Transformer(
        TransformerConfig(
            vocabulary_size=target_size,
            source_vocabulary_size=(
                None if source_size == target_size else source_size
            ),
            share_embeddings=embeddings.sharing,
            use_target_space_embedding=space in checkpoint.shapes,
            **fields,
        )
    )
    variables = body_variables(model, scope)
    matrices = {
        embeddings.source: model.source_embedding,
        embeddings.target: model.target_embedding,
        embeddings.output: model.output_embedding,
    }
    used = {*variables, *(name for shards in matrices for name in shards.names)}
    used |= {space} & checkpoint.shapes.keys()
    beside = _sort_out(checkpoint.shapes, used)
    _check_shapes(checkpoint.shapes, variables)

    for name, variable in variables.items():
        array = checkpoint.read(name)
        variable.assign(np.reshape(array, variable.shape))
    for shards, layer in matrices.items():
        rows = [checkpoint.read(name) for name in shards.names]
        layer.embeddings.assign(np.concatenate(rows))
    if space in checkpoint.shapes:
        rows = checkpoint.read(space)
        model.target_space_embedding.embedding.assign(rows[target_space_id])
    if report is not None:
        for line in _report(checkpoint, used, beside, space, target_space_id):
            report(line)
    return model


def _check_described(hparams, fields, shapes, embeddings, scope):
    """Compare the hyperparameters with what the variables tell of them."""
    described = _describe(shapes, embeddings, scope)
    contradictions = []
    for name, (value, of_field) in described.items():
        said = hparams.get(name) if of_field is None else fields[of_field]
        # Older versions of tensor2tensor lack some that later had a name.
        if said is not None and value is not None and said != value:
            contradictions.append(f"{name} is {said!r}, there {value!r}")
    if contradictions:
        raise InputError(
            "The hparams contradict the variables of the checkpoint: "
            f"{'; '.join(contradictions)}. Give the hparams that this model "
            "was trained with."
        )


def _describe(shapes, embeddings, scope):
    """Hyperparameters as the variables show them, and the fields they are.

    Returns:
        Dict of hparam -> pair of the value, `None` where nothing shows it,
        and the field of `TransformerConfig` to compare it with, `None` for
        the hparam itself.
    """
    attention = f"{scope}/encoder/layer_0/self_attention/multihead_attention"
    tables = f"{attention}/dot_product_attention_relative/relative_positions"
    table = shapes.get(f"{tables}_keys/embeddings")
    filter_shape = shapes.get(f"{scope}/encoder/layer_0/ffn/conv1/kernel")
    is_relative = table is not None
    first = f"{scope}/encoder/layer_prepostprocess/layer_norm/layer_norm_scale"
    return {
        "hidden_size": (embeddings.source.num_columns, "hidden_dim"),
        "filter_size": (filter_shape and filter_shape[-1], "intermediate_dim"),
        "number of encoder layers": (
            _count_layers(shapes, f"{scope}/encoder"),
            "num_encoder_layers",
        ),
        "number of decoder layers": (
            _count_layers(shapes, f"{scope}/decoder"),
            "num_decoder_layers",
        ),
        "self_attention_type": (
            "dot_product_relative" if is_relative else "dot_product",
            None,
        ),
        "max_relative_position": (
            (table[0] - 1) // 2 if is_relative else None,
            "max_relative_position",
        ),
        "size of a head (of hidden_size and num_heads)": (
            table[1] if is_relative else None,
            "key_dim",
        ),
        "pre-norm (layer_preprocess_sequence 'n')": (
            first in shapes,
            "normalize_first",
        ),
        "shared_embedding_and_softmax_weights": (
            # Vocabularies of two sizes are never shared, whatever it says.
            embeddings.sharing == "all"
            if embeddings.source.num_rows == embeddings.target.num_rows
            else None,
            None,
        ),
        "use_target_space_embedding": (
            f"{scope}/target_space_embedding/kernel" in shapes,
            None,
        ),
    }


def _count_layers(shapes, scope):
    pattern = re.compile(re.escape(scope) + r"/layer_(\d+)/")
    found = {match[1] for match in map(pattern.match, shapes) if match}
    return len(found)


def _check_target_space(target_space_id, shape):
    if shape is None:
        if target_space_id:
            raise InputError(
                "The checkpoint has no target-space embedding; "
                "`target_space_id` must be 0. Received: "
                f"target_space_id={target_space_id}."
            )
        return
    if len(shape) != 2 or not 0 <= target_space_id < shape[0]:
        raise InputError(
            "`target_space_id` must be a row of the target-space embedding of "
            f"the checkpoint, which has shape {shape}. Received: "
            f"target_space_id={target_space_id}."
        )


def _sort_out(shapes, used):
    """What is not used, by what it is; all else must be there and be used."""
    beside = {kind: [] for kind in _BESIDE}
    left_over = []
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


def _check_shapes(shapes, variables):
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


def _joined_heads(name, shape):
    """The shape that tensor2tensor gives to a kernel with a head axis."""
    if len(shape) < 3:
        return shape
    if name.endswith("output_transform/kernel"):
        return (shape[0] * shape[1], shape[2])
    return (shape[0], shape[1] * shape[2])


def _report(checkpoint, used, beside, space, target_space_id):
    yield f"{checkpoint.prefix}: {len(checkpoint.shapes)} variables"
    yield f"used: {len(used)}"
    yield from (f"  {name}" for name in sorted(used))
    if space in used:
        yield f"of {space}, row {target_space_id} alone"
    for kind, names in beside.items():
        yield f"not used, {kind}: {len(names)}"
        yield from (f"  {name}" for name in names)
