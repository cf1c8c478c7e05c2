"""Loads a checkpoint of OpenNMT-tf's Transformer as a `Transformer`."""

import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from relative_attention.atomic_files import AnyPath
from relative_attention.convert.opennmt_tf.checkpoint import OpenNMTTFCheckpoint
from relative_attention.convert.opennmt_tf.structure import config_fields
from relative_attention.convert.opennmt_tf.weights import StoredWeight
from relative_attention.convert.opennmt_tf.weights import stored_weights
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig

# A checkpoint holds these beside the model, by the names of their variables.
_BESIDE = {
    "state of the optimizer": re.compile(
        r"optimizer/.*|.*/\.OPTIMIZER_SLOT/.*"
    ),
    "bookkeeping of the training": re.compile(r"save_counter/.*"),
}


def load_opennmt_tf(
    checkpoint_path: AnyPath,
    num_heads: int | None = None,
    position_encoding: str | None = "auto",
    report: Callable[[str], Any] | None = None,
) -> Transformer:
    """Loads the `Transformer` of an OpenNMT-tf checkpoint with its weights.

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
        report: function. It is called with each line of a report that names
            what of the checkpoint was used and what was not. Defaults to
            `None`.

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
        array = checkpoint.read(_stored_name(checkpoint, path))
        weight.variable.assign(weight.convert(array))
    if report is not None:
        for line in _report(checkpoint, weights, beside, model.config):
            report(line)
    return model


def _sort_out(
    checkpoint: OpenNMTTFCheckpoint, weights: Mapping[str, StoredWeight]
) -> dict[str, list[str]]:
    """Returns the names of variables that the model has no use for, by kind.

    Raises:
        InputError: if a weight is missing, or a variable is neither a weight
            nor of a kind that training leaves behind.
    """
    keys = {path: checkpoint.key(path) for path in weights}
    missing = sorted(path for path, key in keys.items() if key is None)
    beside: dict[str, list[str]] = {kind: [] for kind in _BESIDE}
    left_over: list[str] = []
    used = {key for key in keys.values() if key is not None}
    for name in sorted(checkpoint.shapes.keys() - used):
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


def _stored_name(checkpoint: OpenNMTTFCheckpoint, path: str) -> str:
    """Returns the name of a variable that `_sort_out` has found to be there."""
    key = checkpoint.key(path)
    if key is None:
        raise InputError(f"{checkpoint.prefix} lacks the variable {path}.")
    return key


def _check_shapes(
    checkpoint: OpenNMTTFCheckpoint, weights: Mapping[str, StoredWeight]
) -> None:
    """Refuses a checkpoint whose variables have other shapes than the model."""
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


def _report(
    checkpoint: OpenNMTTFCheckpoint,
    weights: Mapping[str, StoredWeight],
    beside: Mapping[str, list[str]],
    config: TransformerConfig,
) -> Iterator[str]:
    """Yields the lines that say what became of each variable."""
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
