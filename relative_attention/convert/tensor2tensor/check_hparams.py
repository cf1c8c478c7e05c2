"""Compares hyperparameters with what the variables of a checkpoint show."""

import re
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from relative_attention.convert.tensor2tensor.embeddings import Embeddings
from relative_attention.errors import InputError


class _Shown(NamedTuple):
    """Says what the variables show of one hyperparameter.

    Attributes:
        name: What the message calls it.
        value: What the variables show, `None` where they show nothing.
        field: The field of `TransformerConfig` to compare it with. Defaults
            to `None`, the hyperparameter of this name itself.
    """

    name: str
    value: Any
    field: str | None = None


def check_hparams(
    hparams: Mapping[str, Any],
    fields: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    embeddings: Embeddings,
    scope: str,
) -> None:
    """Refuses hyperparameters that the variables of a checkpoint contradict.

    Args:
        hparams: dict of tensor2tensor's hyperparameters.
        fields: what `config_fields` made of them.
        shapes: dict of variable name -> shape.
        embeddings: `Embeddings`, found among these.
        scope: string. The scope of the body, such as `"transformer/body"`.

    Raises:
        InputError: if one is contradicted; the message names each.
    """
    contradictions = []
    for name, value, field in (
        *_sizes(shapes, embeddings, scope),
        *_switches(shapes, embeddings, scope),
    ):
        said = hparams.get(name) if field is None else fields[field]
        # Older versions of tensor2tensor lack some that later had a name.
        if said is not None and value is not None and said != value:
            contradictions.append(f"{name} is {said!r}, there {value!r}")
    if contradictions:
        raise InputError(
            "The hparams contradict the variables of the checkpoint: "
            f"{'; '.join(contradictions)}. Give the hparams that this model "
            "was trained with."
        )


def check_target_space(
    target_space_id: int, shape: tuple[int, ...] | None
) -> None:
    """Refuses a target space that a checkpoint does not have.

    Args:
        target_space_id: int. The row asked for.
        shape: tuple. The shape of the target-space embedding, `None` where
            the checkpoint has no such embedding.

    Raises:
        InputError: if the row is not there.
    """
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


def _sizes(
    shapes: Mapping[str, tuple[int, ...]], embeddings: Embeddings, scope: str
) -> Iterator[_Shown]:
    """Yields the widths and the numbers of layers."""
    yield _Shown("hidden_size", embeddings.source.num_columns, "hidden_dim")
    filters = shapes.get(f"{scope}/encoder/layer_0/ffn/conv1/kernel")
    yield _Shown("filter_size", filters and filters[-1], "intermediate_dim")
    for side in ("encoder", "decoder"):
        yield _Shown(
            f"number of {side} layers",
            _count_layers(shapes, f"{scope}/{side}"),
            f"num_{side}_layers",
        )


def _switches(
    shapes: Mapping[str, tuple[int, ...]], embeddings: Embeddings, scope: str
) -> Iterator[_Shown]:
    """Yields the kind of attention, what is normalised and what is shared."""
    attention = f"{scope}/encoder/layer_0/self_attention/multihead_attention"
    tables = f"{attention}/dot_product_attention_relative/relative_positions"
    # Its table (2K + 1, H) has a row for each relative position.
    table = shapes.get(f"{tables}_keys/embeddings")
    is_relative = table is not None
    yield _Shown(
        "self_attention_type",
        "dot_product_relative" if is_relative else "dot_product",
    )
    yield _Shown(
        "max_relative_position",
        (table[0] - 1) // 2 if table is not None else None,
        "max_relative_position",
    )
    yield _Shown(
        "size of a head (of hidden_size and num_heads)",
        table[1] if table is not None else None,
        "key_dim",
    )
    # Pre-norm alone has a last normalization, behind all the layers.
    last = f"{scope}/encoder/layer_prepostprocess/layer_norm/layer_norm_scale"
    yield _Shown(
        "pre-norm (layer_preprocess_sequence 'n')",
        last in shapes,
        "normalize_first",
    )
    # Vocabularies of two sizes are never shared, whatever it says.
    has_one_size = embeddings.source.num_rows == embeddings.target.num_rows
    yield _Shown(
        "shared_embedding_and_softmax_weights",
        embeddings.sharing == "all" if has_one_size else None,
    )
    yield _Shown(
        "use_target_space_embedding",
        f"{scope}/target_space_embedding/kernel" in shapes,
    )


def _count_layers(shapes: Mapping[str, tuple[int, ...]], scope: str) -> int:
    """Returns the number of layers below a scope."""
    pattern = re.compile(re.escape(scope) + r"/layer_(\d+)/")
    found = {match[1] for match in map(pattern.match, shapes) if match}
    return len(found)
