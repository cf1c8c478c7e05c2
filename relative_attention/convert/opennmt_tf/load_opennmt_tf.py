"""Checkpoints of OpenNMT-tf's Transformer."""

import re

from relative_attention.convert.opennmt_tf.checkpoint import OpenNMTTFCheckpoint
from relative_attention.convert.opennmt_tf.structure import config_fields
from relative_attention.convert.opennmt_tf.weights import stored_weights
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig

# What a checkpoint holds beside the model, by what it is.
_BESIDE = {
    "state of the optimizer": re.compile(
        r"optimizer/.*|.*/\.OPTIMIZER_SLOT/.*"
    ),
    "bookkeeping of the training": re.compile(r"save_counter/.*"),
}


def load_opennmt_tf(
    checkpoint_path, num_heads=None, position_encoding="auto", report=None
):
    """The `Transformer` of an OpenNMT-tf checkpoint, weights and all.

    It gives the logits that OpenNMT-tf 2 gives. Known are its Transformers of
    one source and one target (`TransformerRelative`, `TransformerBase`,
    `TransformerBig` and their relatives): any sizes, pre- or post-norm, with
    or without biases, relative, sinusoidal or learned positions, embeddings
    shared or not. All this is read off the checkpoint. What it does not show
    must be as OpenNMT-tf has it by default: ReLU, and positions that are
    added. The optimizer's state is left out.

    Ids change places: `<blank>` stays 0, `</s>` (there 2) is 1 as everywhere
    in this package, and `<s>` (there 1) is 2, the model's `start_token_id`;
    all others stay, `<unk>` the last. `TokenVocabulary.from_opennmt_tf` reads
    a vocabulary in this order. An id 0 embeds to the zero vector, so that the
    embedding of `<blank>`, which stands for nothing but padding, is never
    looked up; only its logit is left.

    Args:
        checkpoint_path: path. The prefix of the checkpoint, such as
            `run/ckpt-5000`, or its folder, whose latest is taken.
        num_heads: int. Defaults to `None`: read off the relation tables. It
            must be given for a model without them.
        position_encoding: one of those of `TransformerConfig`. Defaults to
            `"auto"`: what the checkpoint shows.
        report: called with each line of a report that names what of the
            checkpoint was used and what was not. Defaults to `None`.

    Returns:
        `Transformer`, float32.

    Raises:
        InputError: if the checkpoint is missing, damaged or of another kind
            of model, if `num_heads` is missing, if an argument contradicts
            the variables, or if a variable is missing, fits nowhere or has
            another shape; the message names it.

    Reference:
     - [Klein et al., 2020](https://aclanthology.org/2020.amta-research.9),
       OpenNMT
    """
    checkpoint = OpenNMTTFCheckpoint(checkpoint_path)
    fields = config_fields(checkpoint, num_heads, position_encoding)
    model = Transformer(TransformerConfig(**fields))
    weights = stored_weights(model)
    beside = _sort_out(checkpoint, weights)
    _check_shapes(checkpoint, weights)

    for path, weight in weights.items():
        array = checkpoint.read(checkpoint.key(path))
        weight.variable.assign(weight.convert(array))
    if report is not None:
        for line in _report(checkpoint, weights, beside, model.config):
            report(line)
    return model


def _sort_out(checkpoint, weights):
    """What is not used, by what it is; all else must be there and be used."""
    keys = {path: checkpoint.key(path) for path in weights}
    missing = sorted(path for path, key in keys.items() if key is None)
    beside = {kind: [] for kind in _BESIDE}
    left_over = []
    for name in sorted(checkpoint.shapes.keys() - set(keys.values())):
        kinds = [kind for kind, p in _BESIDE.items() if p.fullmatch(name)]
        (beside[kinds[0]] if kinds else left_over).append(name)
    if missing or left_over:
        parts = []
        if missing:
            parts.append(f"it lacks {', '.join(missing)}")
        if left_over:
            parts.append(
                f"it has {', '.join(left_over)}, which fits nowhere in a "
                "Transformer of OpenNMT-tf"
            )
        raise InputError(
            f"{checkpoint.prefix} cannot be converted: {'; '.join(parts)}."
        )
    return beside


def _check_shapes(checkpoint, weights):
    wrong = [
        f"{path} {weight.shape}, in the checkpoint {checkpoint.shape(path)}"
        for path, weight in weights.items()
        if checkpoint.shape(path) != weight.shape
    ]
    if wrong:
        raise InputError(
            "By the other variables these must have other shapes: "
            f"{'; '.join(wrong)}."
        )


def _report(checkpoint, weights, beside, config):
    norm = "pre-norm" if config.normalize_first else "post-norm"
    yield f"{checkpoint.prefix}: {len(checkpoint.shapes)} variables"
    yield (
        f"positions: {config.position_encoding}, heads: {config.num_heads}, "
        f"{norm}, shared embeddings: {config.share_embeddings}"
    )
    yield f"used: {len(weights)}"
    yield from (f"  {checkpoint.key(path)}" for path in sorted(weights))
    yield "ids in another order: <blank> 0, </s> 1, <s> 2, then as they were"
    for kind, names in beside.items():
        yield f"not used, {kind}: {len(names)}"
        yield from (f"  {name}" for name in names)
