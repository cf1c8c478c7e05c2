"""Reads checkpoints of TensorFlow and restores a `Transformer` from them."""

import contextlib
import dataclasses
import math
import pathlib
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TypeAlias

import keras
import numpy as np

from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.data.vocabulary_kinds import check_vocabulary_fits
from relative_attention.decoding.translator import DecodingSection
from relative_attention.errors import InputError
from relative_attention.files import AnyPath
from relative_attention.files import atomic_directory
from relative_attention.files import write_lines
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models.weight_shapes import check_size
from relative_attention.models.weights import check_finite
from relative_attention.models.weights import save_weights
from relative_attention.saving.model_directory import save_config
from relative_attention.saving.model_directory import save_vocabularies
from relative_attention.tensor_type import Tensor

_INDEX = ".index"
# A config is refused for its size alone if the model has more than this many
# times the numbers of the checkpoint. Below that, an error names the variables.
_MOST_TIMES = 16
# The most variables that an error names.
_MOST_LISTED = 4

# Another system's names of the parts of a layer: attribute -> path, or a pair
# of path and names for a part that has parts. Missing parts are left out.
VariableNames: TypeAlias = Mapping[str, "str | tuple[str, VariableNames]"]


class TensorFlowCheckpoint:
    """The variables of a checkpoint, found by path.

    TensorFlow 1's `Saver` and `tf.train.Checkpoint` write this format. A
    checkpoint is a prefix of file names, not one file: `PREFIX.index` has the
    name and shape of each variable, `PREFIX.data-00000-of-00001` and others
    have the values. The graph (`PREFIX.meta`) is not needed.

    Args:
        path: path. The prefix (`model.ckpt-250000`), or a folder that holds
            one checkpoint or a file `checkpoint` that names the latest.

    Attributes:
        prefix: string. The prefix of the files.
        shapes: dict of variable name -> shape.
        shards: dict of path -> names of the variables that hold its rows. A
            path without an entry is the name of a variable itself.

    Raises:
        InputError: if there is no such checkpoint, or it is damaged.
    """

    def __init__(self, path: AnyPath) -> None:
        import tensorflow as tf

        self.prefix = str(_find_prefix(pathlib.Path(path)))
        with self.reading(_INDEX):
            self.reader = tf.train.load_checkpoint(self.prefix)
            shapes = self.reader.get_variable_to_shape_map()
        self.shapes: dict[str, tuple[int, ...]] = {
            name: tuple(shape) for name, shape in shapes.items()
        }
        self.shards: dict[str, tuple[str, ...]] = {}

    def names(self, path: str) -> tuple[str, ...]:
        """Returns the names of the variables that hold a path, or `()`."""
        names = self.shards.get(path, (path,))
        return names if names[0] in self.shapes else ()

    def shape(self, path: str) -> tuple[int, ...] | None:
        """Returns the shape of the array of a path, or `None` if missing.

        Shards are joined along the first axis.
        """
        shapes = [self.shapes[name] for name in self.names(path)]
        if len(shapes) < 2:
            return shapes[0] if shapes else None
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def read(self, path: str) -> np.ndarray:
        """Returns the array of a path, as float32."""
        with self.reading(".data-*"):
            arrays = [
                np.asarray(self.reader.get_tensor(name), np.float32)
                for name in self.names(path)
            ]
        return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]

    @contextlib.contextmanager
    def reading(self, suffix: str) -> Iterator[None]:
        """Turns errors of reading damaged files into `InputError`.

        TensorFlow's reader and the parser of protocol buffers raise many kinds
        of errors, depending on the byte that is damaged or missing.
        """
        try:
            yield
        except Exception as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self.prefix}{suffix} cannot be read: it is missing, cut "
                f"short or damaged ({reason}). Copy the checkpoint again, all "
                "its files."
            ) from error


def _find_prefix(path: pathlib.Path) -> pathlib.Path:
    """Returns the prefix for a prefix, an index file or a folder."""
    if path.is_dir():
        return _latest(path)
    path = path.with_name(path.name.removesuffix(_INDEX))
    if path.with_name(path.name + _INDEX).is_file():
        return path
    found = ", ".join(_prefixes(path.parent)) or "none"
    raise InputError(
        f"No checkpoint {path}: it would have a file {path.name}{_INDEX}. "
        f"{path.parent} holds {found}."
    )


def _latest(folder: pathlib.Path) -> pathlib.Path:
    """Returns the prefix of the latest checkpoint of a folder."""
    found = _prefixes(folder)
    state = folder / "checkpoint"
    if state.is_file():
        # A text protocol buffer. Only the name of the file is used, as its
        # folder is that of the machine that trained.
        text = state.read_text(encoding="utf-8", errors="replace")
        named = re.search(r'^model_checkpoint_path: "(.+)"$', text, re.M)
        if named and pathlib.Path(named[1]).name in found:
            return folder / pathlib.Path(named[1]).name
    if len(found) == 1:
        return folder / found[0]
    if not found:
        raise InputError(
            f"{folder} holds no checkpoint: no file ends in {_INDEX}."
        )
    raise InputError(
        f"{folder} holds several checkpoints and does not say which is the "
        f"latest. Name one: {', '.join(found)}."
    )


def _prefixes(folder: pathlib.Path) -> list[str]:
    """Returns the names of all checkpoints of a folder, sorted."""
    return sorted(path.stem for path in folder.glob(f"*{_INDEX}"))


def build_model(
    fields: dict[str, Any], source: str, checkpoint: TensorFlowCheckpoint
) -> Transformer:
    """Builds a model from what a checkpoint or its hparams describe.

    Args:
        fields: dict of arguments of `TransformerConfig`.
        source: string. The source of the fields, for the error.
        checkpoint: `TensorFlowCheckpoint`, whose size limits the model's.

    Raises:
        InputError: if the config is not valid, or of a larger model.
    """
    try:
        config = TransformerConfig(**fields)
        numbers = sum(map(math.prod, checkpoint.shapes.values()))
        check_size(config, _MOST_TIMES * numbers, checkpoint.prefix)
        return Transformer(config)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            f"{source} cannot be converted to a model of this package. {error}"
        ) from error


@dataclasses.dataclass(frozen=True)
class StoredWeight:
    """A weight of a model, and how another system stores it.

    Attributes:
        variable: The Keras variable.
        shape: The shape of the stored array.
        convert: Makes the variable's value from the stored array.
    """

    variable: keras.Variable
    shape: tuple[int, ...]
    convert: Callable[[np.ndarray], np.ndarray]


def reshaped(
    variable: Tensor, shape: tuple[int, ...] | None = None
) -> StoredWeight:
    """Describes a weight that is stored in its own or another shape."""
    own = tuple(variable.shape)
    return StoredWeight(
        variable, shape or own, lambda array: array.reshape(own)
    )


def body_weights(
    model: Transformer,
    scope: str,
    layer: str,
    block: VariableNames,
    norm: tuple[str, VariableNames],
) -> dict[str, StoredWeight]:
    """Returns the weights of encoder and decoder by another system's paths.

    `scope` is the path of the body, `layer` that of a layer before its index,
    and `norm` has the path and `VariableNames` of the last normalization, for
    pre-norm only.
    """
    weights: dict[str, StoredWeight] = {}
    for side in ("encoder", "decoder"):
        for index, part in enumerate(getattr(model, f"{side}_blocks")):
            weights |= _named_weights(
                f"{scope}/{side}/{layer}{index}", part, block
            )
        names: VariableNames = {f"{side}_norm": norm}
        weights |= _named_weights(f"{scope}/{side}", model, names)
    return weights


def _named_weights(
    path: str, layer: Any, names: VariableNames
) -> dict[str, StoredWeight]:
    weights: dict[str, StoredWeight] = {}
    for attribute, name in names.items():
        part = getattr(layer, attribute, None)
        if part is None:
            continue
        if isinstance(name, tuple):
            name, inner = name
            weights |= _named_weights(f"{path}/{name}", part, inner)
        elif attribute.endswith("_dense"):
            # Here a kernel is (D, N, H), or (N, H, D) for outputs. Other
            # systems join the heads N and their size H into one axis.
            shape = tuple(part.kernel.shape)
            split = len(shape) - 1 if attribute == "output_dense" else 1
            joined = (math.prod(shape[:split]), math.prod(shape[split:]))
            weights[f"{path}/{name}/kernel"] = reshaped(part.kernel, joined)
            if part.bias is not None:
                weights[f"{path}/{name}/bias"] = reshaped(part.bias, joined[1:])
        else:
            weights[f"{path}/{name}"] = reshaped(part)
    return weights


def restore(
    checkpoint: TensorFlowCheckpoint,
    weights: Mapping[str, StoredWeight],
    training_state: Mapping[str, str],
    model_name: str,
    evidence: str,
    notes: Iterable[str],
    report: Callable[[str], Any] | None,
) -> None:
    """Assigns every weight, after checking that each variable has a place.

    Args:
        checkpoint: `TensorFlowCheckpoint`.
        weights: dict of path -> `StoredWeight`.
        training_state: dict of kinds of training state -> a regular expression
            for the names of their variables.
        model_name: string. The kind of model, for the error.
        evidence: string. The source of the architecture, for the error.
        notes: strings for the report.
        report: function to call with each line of a report that says where
            each variable went, or `None`.

    Raises:
        InputError: if a weight is missing or not finite, a variable has
            another shape, or is neither a weight nor training state.
    """
    used = {name for path in weights for name in checkpoint.names(path)}
    left_over = sorted(checkpoint.shapes.keys() - used)
    ignored = {}
    for kind, pattern in training_state.items():
        names = [name for name in left_over if re.fullmatch(pattern, name)]
        ignored[f"not used, {kind}"] = names
        left_over = [name for name in left_over if name not in names]
    missing = sorted(path for path in weights if not checkpoint.names(path))
    problems = []
    if missing:
        problems.append(f"it lacks {_listed(missing)}")
    if left_over:
        problems.append(
            f"it has {_listed(left_over)}, which fits nowhere in {model_name}"
        )
    if problems:
        raise InputError(
            f"{checkpoint.prefix} cannot be converted: {'; '.join(problems)}."
        )
    wrong = [
        f"{path} {weight.shape}, in the checkpoint {checkpoint.shape(path)}"
        for path, weight in weights.items()
        if checkpoint.shape(path) != weight.shape
    ]
    if wrong:
        raise InputError(
            f"By {evidence} these variables must have other shapes: "
            f"{_listed(wrong)}."
        )
    for path, weight in weights.items():
        array = checkpoint.read(path)
        check_finite({path: array})
        weight.variable.assign(weight.convert(array))
    if report is None:
        return
    report(f"{checkpoint.prefix}: {len(checkpoint.shapes)} variables")
    for note in notes:
        report(note)
    for kind, names in {"used": sorted(used), **ignored}.items():
        report(f"{kind}: {len(names)}")
        for name in names:
            report(f"  {name}")


def _listed(items: list[str]) -> str:
    """Lists the first items, as an error is often the same in all layers."""
    rest = len(items) - _MOST_LISTED
    return "; ".join(items[:_MOST_LISTED]) + f" and {rest} more" * (rest > 0)


def save_converted(
    output: AnyPath,
    model: Transformer,
    vocabularies: tuple[AnyVocabulary, AnyVocabulary] | None,
    decoding: DecodingSection,
    lines: Iterable[str],
    token_kind: str,
) -> None:
    """Writes a folder that `load_translator` reads, whole or not at all.

    `vocabularies` are of source and target, the same object if joint; `lines`
    say where each variable went, for `conversion.txt`; `token_kind` is the kind
    of vocabulary items, for the error if a size differs from its embedding.
    """
    for side, vocabulary in zip(("source", "target"), vocabularies or ()):
        check_vocabulary_fits(
            side, len(vocabulary), model.config, kind=token_kind
        )
    with atomic_directory(output) as folder:
        save_config(model.config, decoding, folder)
        save_weights(model.weights, folder / "model.safetensors")
        if vocabularies is not None:
            save_vocabularies(*vocabularies, folder)
        write_lines(folder / "conversion.txt", lines)
