"""Converts checkpoints of OpenNMT-tf's Transformer.

OpenNMT-tf stores no configuration with a checkpoint. The sizes, the positions,
the order of normalization and shared weights are read from the names and shapes
of its variables and from its graph of objects.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from relative_attention.convert.checkpoint import StoredWeight
from relative_attention.convert.checkpoint import TensorFlowCheckpoint
from relative_attention.convert.checkpoint import VariableNames
from relative_attention.convert.checkpoint import body_weights
from relative_attention.convert.checkpoint import build_model
from relative_attention.convert.checkpoint import restore
from relative_attention.convert.checkpoint import save_converted
from relative_attention.data import TokenVocabulary
from relative_attention.decoding.translator import DecodingSection
from relative_attention.errors import InputError
from relative_attention.files import AnyPath
from relative_attention.files import check_is_free
from relative_attention.layers.positions import POSITION_ENCODINGS
from relative_attention.models import Transformer
from relative_attention.tensor_type import Tensor

# OpenNMT-tf's auto_config: 4 beams without length penalty. Translations have
# at most 250 tokens there, for any source. Its beam search differs from
# `beam_search`. With 4 beams `beam_search` finds 298 of 300 and 153 of 153 of
# its translations by two trained models; with 1, 2, 3 or 6 beams at most 287
# and 125.
_DECODING = DecodingSection(
    num_beams=4, length_penalty=0.0, max_extra_length=100
)

# What training leaves in a checkpoint beside the model, by the names of the
# variables.
_TRAINING_STATE = {
    "state of the optimizer": r"optimizer/.*|.*/\.OPTIMIZER_SLOT/.*",
    "bookkeeping of the training": r"save_counter/.*",
}

SOURCE_EMBEDDING = "model/examples_inputter/features_inputter/embedding"
_TARGET_EMBEDDING = "model/examples_inputter/labels_inputter/embedding"
_OUTPUT_KERNEL = "model/decoder/output_layer/kernel"
_OUTPUT_BIAS = "model/decoder/output_layer/bias"
_ATTENTION = "model/encoder/layers/0/self_attention/layer"
_TABLE = f"{_ATTENTION}/relative_position_keys"
_POSITION_ENCODER = "model/encoder/position_encoder"
# Variables of these names belong to a second source.
_MULTI_SOURCE = re.compile(
    r"model/(encoder/encoders|examples_inputter/features_inputter/inputters|"
    r"decoder/layers/\d+/attention/[1-9]\d*)/.*"
)
_ATTENTION_NAMES: VariableNames = {
    "query_dense": "linear_queries",
    "key_dense": "linear_keys",
    "value_dense": "linear_values",
    "output_dense": "linear_output",
    "key_relation_embeddings": "relative_position_keys",
    "value_relation_embeddings": "relative_position_values",
}
_NORM_NAMES: VariableNames = {"gamma": "gamma", "beta": "beta"}
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def convert_opennmt_tf(
    checkpoint_path: AnyPath,
    output: AnyPath,
    source_vocabulary: Path | str,
    target_vocabulary: Path | str,
    tokenizer: Path | str | None = None,
    source_tokenizer: Path | str | None = None,
    source_start: bool = False,
    source_end: bool = False,
    num_heads: int | None = None,
    position_encoding: str | None = "auto",
    report: Callable[[str], Any] | None = None,
) -> None:
    """Converts a checkpoint to a folder that `load_translator` reads.

    The folder has the settings of OpenNMT-tf's automatic configuration (beam 4,
    no length penalty), except that translations have at most 100 tokens more
    than the source. Logits, scores and greedy translations are the same as in
    OpenNMT-tf. With several beams, nearly all translations of a trained model
    are the same, too. OpenNMT-tf keeps ended hypotheses among its beams.
    `beam_search` keeps ended hypotheses beside its beams, so it finds some that
    OpenNMT-tf has dropped. With a model that has barely learned when a sentence
    ends, most translations differ.

    `conversion.txt` in the folder says where each variable of the checkpoint
    went.

    Args:
        checkpoint_path, num_heads, position_encoding: see `load_opennmt_tf`.
        output: path of the folder to make, whole or not at all.
        source_vocabulary: path of the vocabulary file of the source.
        target_vocabulary: path of the vocabulary file of the target; the same
            path if they share one.
        tokenizer: path of the SentencePiece model of both languages. Defaults
            to `None`: text is read and written as tokens with blanks between.
        source_tokenizer: path of the SentencePiece model of the source.
            Defaults to `tokenizer`.
        source_start, source_end: bool. The `source_sequence_controls` of
            OpenNMT-tf's data configuration. Default to `False`, as there.
        report: function to call with each line about the conversion. Defaults
            to `None`.

    Raises:
        InputError: if an input is missing, damaged or contradictory, the size
            of a vocabulary differs from its embedding, or `output` is not
            empty. Nothing is written then.
    """
    check_is_free(output)
    vocabularies = (
        TokenVocabulary.from_opennmt_tf(
            source_vocabulary,
            tokenizer=source_tokenizer or tokenizer,
            start=source_start,
            end=source_end,
        ),
        TokenVocabulary.from_opennmt_tf(target_vocabulary, tokenizer=tokenizer),
    )
    lines: list[str] = []
    model = load_opennmt_tf(
        checkpoint_path, num_heads, position_encoding, report=lines.append
    )
    save_converted(
        output, model, vocabularies, _DECODING, lines, "tokens (with <unk>)"
    )
    if report is not None:
        for line in lines:
            report(line)


def load_opennmt_tf(
    checkpoint_path: AnyPath,
    num_heads: int | None = None,
    position_encoding: str | None = "auto",
    report: Callable[[str], Any] | None = None,
) -> Transformer:
    """Loads the `Transformer` of an OpenNMT-tf checkpoint with its weights.

    It computes the same logits as OpenNMT-tf 2. Transformers with one source
    and one target are supported (`TransformerRelative`, `TransformerBase`,
    `TransformerBig` and variants): any sizes, pre- or post-norm, with or
    without biases, relative, sinusoidal or learned positions, shared embeddings
    or not. All this is read from the checkpoint. What it does not show must be
    OpenNMT-tf's default: ReLU, and positions that are added. The optimizer's
    state is left out.

    Two ids change: `</s>`, in OpenNMT-tf 2, is 1 as everywhere in this package,
    and `<s>`, in OpenNMT-tf 1, is 2, the model's `start_token_id`. `<blank>`
    stays 0, and all others stay, with `<unk>` last.
    `TokenVocabulary.from_opennmt_tf` reads a vocabulary in this order. The id 0
    embeds to the zero vector, so the embedding of `<blank>`, which is only
    padding, is never used; only its logit is.

    Args:
        checkpoint_path: path. The prefix of the checkpoint, such as
            `run/ckpt-5000`, or its folder, for the latest checkpoint.
        num_heads: int. Defaults to `None`: read from the relation tables. It
            must be given for a model without them.
        position_encoding: a name as in `TransformerConfig`. Defaults to
            `"auto"`: read from the checkpoint.
        report: function to call with each line of a report about the variables
            that were used and those that were not. Defaults to `None`.

    Returns:
        `Transformer`, float32.

    Raises:
        InputError: if the checkpoint is missing, damaged or of another kind
            of model, `num_heads` is missing, an argument contradicts the
            variables, or a variable is missing, unknown or of another shape
            (the message names it).

    Reference:
     - [Klein et al., 2020](https://aclanthology.org/2020.amta-research.9),
       OpenNMT
    """
    checkpoint = _ObjectCheckpoint(checkpoint_path)
    fields = _config_fields(checkpoint, num_heads, position_encoding)
    model = build_model(fields, checkpoint.prefix, checkpoint)
    config = model.config
    norm = "pre-norm" if config.normalize_first else "post-norm"
    restore(
        checkpoint,
        opennmt_tf_weights(model),
        _TRAINING_STATE,
        model_name="a Transformer of OpenNMT-tf",
        evidence="the other variables",
        notes=[
            f"positions: {config.position_encoding}, heads: "
            f"{config.num_heads}, {norm}, shared embeddings: "
            f"{config.share_embeddings}",
            "ids in another order: <blank> 0, </s> 1, <s> 2, then as they were",
        ],
        report=report,
    )
    return model


class _ObjectCheckpoint(TensorFlowCheckpoint):
    """A checkpoint that `tf.train.Checkpoint` wrote.

    A variable is found by the path of its object, such as
    `"model/encoder/layer_norm/gamma"`. If several objects share it, it is
    stored under the path of the first. The graph of objects, which is stored
    with the variables, has the other paths. It also has objects without
    variables.
    """

    def __init__(self, path: AnyPath) -> None:
        from tensorflow.core.protobuf import trackable_object_graph_pb2

        super().__init__(path)
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        if self.shapes.pop(_OBJECT_GRAPH, None) is not None:
            with self.reading(".data-*"):
                graph.ParseFromString(self.reader.get_tensor(_OBJECT_GRAPH))
        self._nodes = graph.nodes

    def names(self, path: str) -> tuple[str, ...]:
        """Returns the name a variable is stored under, or `()` without it."""
        node = self._node(path)
        # A variable has one attribute, its value. Other objects have none.
        keys = [a.checkpoint_key for a in node.attributes] if node else []
        # Without the graph, there is only the path.
        key = keys[0] if keys else path + _VALUE
        return (key,) if key in self.shapes else ()

    def has_object(self, path: str) -> bool:
        """Returns whether there is an object, with variables or without."""
        return self._node(path) is not None

    def matrix_shape(self, path: str) -> tuple[int, int]:
        """Returns the shape of a variable that must be a matrix."""
        shape = self.shape(path)
        if shape is None:
            raise InputError(f"{self.prefix} lacks the variable {path}.")
        if len(shape) != 2:
            raise InputError(
                f"{path} in {self.prefix} must be a matrix. Received shape: "
                f"{shape}."
            )
        return shape[0], shape[1]

    def _node(self, path: str) -> Any:
        """Follows a path in the graph of objects; `None` if it does not exist.

        The graph is a list of nodes; the first is the root. A node names its
        children, each with its index in the list.
        """
        node = self._nodes[0] if self._nodes else None
        for name in path.split("/"):
            indices = [
                child.node_id
                for child in (node.children if node else ())
                if child.local_name == name
            ]
            if not indices:
                return None
            node = self._nodes[indices[0]]
        return node


def _config_fields(
    checkpoint: _ObjectCheckpoint,
    num_heads: int | None,
    position_encoding: str | None,
) -> dict[str, Any]:
    """Returns the arguments of `TransformerConfig` that a checkpoint shows.

    The dropout is OpenNMT-tf's default, as a checkpoint does not show it.
    """
    _check_kind(checkpoint)
    source_size, hidden_dim = checkpoint.matrix_shape(SOURCE_EMBEDDING)
    target_size, sharing = _target_and_sharing(checkpoint)
    table = None
    if checkpoint.names(_TABLE):
        table = checkpoint.matrix_shape(_TABLE)
    position_encoding = _position_encoding(checkpoint, position_encoding)
    fields: dict[str, Any] = {
        "vocabulary_size": target_size,
        "source_vocabulary_size": (
            None if source_size == target_size else source_size
        ),
        "share_embeddings": sharing,
        "num_encoder_layers": _count_layers(checkpoint, "encoder"),
        "num_decoder_layers": _count_layers(checkpoint, "decoder"),
        "hidden_dim": hidden_dim,
        "intermediate_dim": checkpoint.matrix_shape(
            "model/encoder/layers/0/ffn/layer/inner/kernel"
        )[1],
        "num_heads": _num_heads(hidden_dim, table, num_heads),
        "position_encoding": position_encoding,
        "normalize_first": bool(
            checkpoint.names("model/encoder/layer_norm/gamma")
        ),
        # Keras' default, which OpenNMT-tf does not change.
        "layer_norm_epsilon": 1e-3,
        "attention_bias": bool(
            checkpoint.names(f"{_ATTENTION}/linear_queries/bias")
        ),
        "output_bias": bool(checkpoint.names(_OUTPUT_BIAS)),
        "start_token_id": 2,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "intermediate_dropout": 0.1,
    }
    if table is not None:
        fields["max_relative_position"] = (table[0] - 1) // 2
    if "sinusoidal" in (position_encoding or ""):
        fields["first_position"] = 1
    if position_encoding == "learned":
        # Without the first row, of a position 0 that does not occur.
        length, _ = checkpoint.matrix_shape(_position_table("encoder"))
        fields["max_length"] = length - 1
    return fields


def _check_kind(checkpoint: _ObjectCheckpoint) -> None:
    """Refuses models other than a Transformer with one source and target."""
    if not any(name.startswith("model/") for name in checkpoint.shapes):
        raise InputError(
            f"{checkpoint.prefix} is no checkpoint of OpenNMT-tf 2: no name "
            "of a variable begins with 'model/'. (OpenNMT-tf 2 itself brings "
            "a checkpoint of OpenNMT-tf 1 to version 2.)"
        )
    several = sorted(filter(_MULTI_SOURCE.fullmatch, checkpoint.shapes))
    if several:
        raise InputError(
            f"{checkpoint.prefix} has more than one source ({several[0]}); "
            "only models of one source are supported."
        )
    for side in ("encoder", "decoder"):
        path = f"model/{side}/layers/0/self_attention/layer"
        if not checkpoint.names(f"{path}/linear_queries/kernel"):
            raise InputError(
                f"{checkpoint.prefix} is no Transformer for translation: it "
                f"lacks {path}/linear_queries/kernel. OpenNMT-tf's RNNs, "
                "language models, taggers and classifiers are not supported."
            )


def _target_and_sharing(checkpoint: _ObjectCheckpoint) -> tuple[int, str]:
    """Returns the size of the target vocabulary, and `share_embeddings`.

    Source embedding, target embedding and output kernel are shared if they are
    stored under the same name.
    """
    source = checkpoint.names(SOURCE_EMBEDDING)
    target = _own_or_shared(checkpoint, _TARGET_EMBEDDING, source)
    output = _own_or_shared(checkpoint, _OUTPUT_KERNEL, target)
    if target == output:
        sharing = "all" if source == target else "target"
    else:
        sharing = "source_target" if source == target else "none"
    path = SOURCE_EMBEDDING if source == target else _TARGET_EMBEDDING
    size, _ = checkpoint.matrix_shape(path)
    return size, sharing


def _own_or_shared(
    checkpoint: _ObjectCheckpoint, path: str, other: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the name of a variable, or of the one it is shared with.

    Without the graph of objects, a variable that is not stored is shared.
    """
    if checkpoint.has_object(path):
        return checkpoint.names(path)
    return checkpoint.names(path) or other


def _position_encoding(
    checkpoint: _ObjectCheckpoint, given: str | None
) -> str | None:
    """Returns the positions, as given or read from the checkpoint."""
    is_relative = checkpoint.names(_TABLE)
    is_learned = checkpoint.names(_position_table("encoder"))
    if is_relative and is_learned:
        raise InputError(
            f"{checkpoint.prefix} has relation tables and learned absolute "
            "positions; models with both are not supported."
        )
    # Without and with a position encoder. A sinusoidal encoding has no
    # variables, but is an object.
    possible: tuple[str | None, str] = (None, "sinusoidal")
    if is_learned:
        possible = ("learned", "learned")
    elif is_relative:
        possible = ("relative", "relative+sinusoidal")
    if given == "auto":
        encoding = possible[checkpoint.has_object(_POSITION_ENCODER)]
        if encoding is None:
            raise InputError(
                f"{checkpoint.prefix} has neither relation tables nor a "
                "position encoder. Say which positions the model has: "
                "`position_encoding` (`--positions`) 'sinusoidal' or none."
            )
        return encoding
    if given not in possible:
        known = ", ".join(map(repr, ("auto", *POSITION_ENCODINGS)))
        raise InputError(
            f"By its variables {checkpoint.prefix} has positions "
            f"{' or '.join(map(repr, dict.fromkeys(possible)))}. Received: "
            f"position_encoding={given!r}; known: {known}."
        )
    return given


def _num_heads(
    hidden_dim: int, table: tuple[int, int] | None, given: int | None
) -> int:
    """Returns the number of heads `N`, from the columns of a relation table.

    All heads share one table `(2K + 1, H)`, and the width is `N * H`.
    """
    if table is None:
        if given is None:
            raise InputError(
                "The number of heads must be given (`--num-heads`): a model "
                "without relation tables does not show it. OpenNMT-tf's base "
                "models have 8, its big models 16."
            )
        if given < 1 or hidden_dim % given:
            raise InputError(
                f"The number of heads must divide the width {hidden_dim}. "
                f"Received: num_heads={given}."
            )
        return given
    num_rows, head_dim = table
    if head_dim == 0 or hidden_dim % head_dim or num_rows % 2 == 0:
        raise InputError(
            "A relation table must have an odd number of rows, and columns "
            f"that divide the width {hidden_dim}. {_TABLE} has shape {table}."
        )
    num_heads = hidden_dim // head_dim
    if given not in (None, num_heads):
        raise InputError(
            f"By its relation tables the model has {num_heads} heads "
            f"({hidden_dim} / {head_dim}). Received: num_heads={given}; it "
            "need not be given."
        )
    return num_heads


def _count_layers(checkpoint: _ObjectCheckpoint, side: str) -> int:
    """Returns the number of layers of `"encoder"` or `"decoder"`."""
    pattern = re.compile(rf"model/{side}/layers/(\d+)/.*")
    matches = map(pattern.fullmatch, checkpoint.shapes)
    return len({match[1] for match in matches if match})


def opennmt_tf_weights(model: Transformer) -> dict[str, StoredWeight]:
    """Returns every weight of a model by its path in OpenNMT-tf.

    A shared weight has only the path of the first object.
    """
    # OpenNMT-tf's `LayerWrapper` normalizes its input (pre-norm) or its output
    # (post-norm), and names the variables after that.
    first = model.config.normalize_first
    norm = "input_layer_norm" if first else "output_layer_norm"
    block: VariableNames = {
        "self_attention": ("self_attention/layer", _ATTENTION_NAMES),
        "self_attention_norm": (f"self_attention/{norm}", _NORM_NAMES),
        # OpenNMT-tf has one for each source; here there is one source.
        "cross_attention": ("attention/0/layer", _ATTENTION_NAMES),
        "cross_attention_norm": (f"attention/0/{norm}", _NORM_NAMES),
        "feed_forward": (
            "ffn/layer",
            {"intermediate_dense": "inner", "output_dense": "outer"},
        ),
        "feed_forward_norm": (f"ffn/{norm}", _NORM_NAMES),
    }
    weights = _embedding_weights(model) | body_weights(
        model, "model", "layers/", block, ("layer_norm", _NORM_NAMES)
    )
    for side in ("encoder", "decoder"):
        if model.config.position_encoding == "learned":
            table = getattr(model, f"{side}_positions").embeddings
            # OpenNMT-tf counts positions from 1 and never reads the first row
            # of its table.
            length, hidden_dim = table.shape
            weights[_position_table(side)] = StoredWeight(
                table, (length + 1, hidden_dim), lambda rows: rows[1:]
            )
    return weights


def _position_table(side: str) -> str:
    return f"model/{side}/position_encoder/position_embedding"


def _embedding_weights(model: Transformer) -> dict[str, StoredWeight]:
    """Returns the matrices with a row per token, and the bias."""
    sharing = model.config.share_embeddings
    weights = {SOURCE_EMBEDDING: _token_rows(model.source_embedding.embeddings)}
    if sharing in ("target", "none"):
        weights[_TARGET_EMBEDDING] = _token_rows(
            model.target_embedding.embeddings
        )
    if sharing in ("source_target", "none"):
        # The kernel of a dense layer, with a column per token.
        output = model.output_embedding.embeddings
        weights[_OUTPUT_KERNEL] = StoredWeight(
            output,
            tuple(output.shape)[::-1],
            lambda kernel: _in_our_order(kernel.T),
        )
    if model.output_bias is not None:
        weights[_OUTPUT_BIAS] = _token_rows(model.output_bias)
    return weights


def _token_rows(variable: Tensor) -> StoredWeight:
    """Describes a weight with a row, or an element, per token."""
    return StoredWeight(variable, tuple(variable.shape), _in_our_order)


def _in_our_order(rows: np.ndarray) -> np.ndarray:
    """Returns rows in the order of this package's ids."""
    # OpenNMT-tf has `<blank>` 0, `<s>` 1 and `</s>` 2. Here the end of
    # sentence is 1 and the start 2. All others stay the same.
    return rows[[0, 2, 1, *range(3, len(rows))]]
