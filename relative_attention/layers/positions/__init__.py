"""Position encodings, by the name in a config or as objects.

An encoding that works inside attention is a `PositionEncoding`, which tells a
`SelfAttention` layer what positions add. An encoding that is added to
embeddings is a layer. To add an encoding:

1. Write it in a file of this folder, as a subclass of `PositionEncoding`.
2. Add a line to `POSITION_ENCODINGS` below, and an import of it for type
   checkers at the end.

Layers, configs, recipes and presets then take it by its name, and the tests of
the model (`tests/models/test_position_encodings.py`) go through this table.
Classes are imported when used, so the names are available without Keras.

An encoding of a user's module has the name `"module:class"` in a config. The
module must be imported already: a file that names it cannot run code.
"""

import ast
import importlib
import os
import re
import reprlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

from relative_attention.errors import InputError

# The encodings that engines know, too.
NOTHING = "positions.position_encoding:PositionEncoding"
RELATIVE = "positions.relative:Relative"
SINUSOIDAL = "embeddings:SinusoidalPositions"
LEARNED = "embeddings:LearnedPositions"


class Names(NamedTuple):
    """Where the parts of a position encoding are, as `"module:class"`.

    Attributes:
        in_attention: a subclass of `PositionEncoding`. By default it adds
            nothing.
        on_embeddings: a layer, or `None`.
        is_checked: bool. Whether the encoding refuses some configs. Then its
            class checks each config, which needs Keras.
        is_own: bool. Whether it is in a user's module.
    """

    in_attention: str = NOTHING
    on_embeddings: str | None = None
    is_checked: bool = False
    is_own: bool = False

    def attention_class(self) -> Any:
        """Returns the subclass of `PositionEncoding`."""
        find = _find_own if self.is_own else _find
        return find(self.in_attention)

    def embedding_class(self) -> Any:
        """Returns the class of the layer on embeddings, or `None`."""
        return _find(self.on_embeddings) if self.on_embeddings else None


POSITION_ENCODINGS: dict[str | None, Names] = {
    # Shaw et al. (2018)
    "relative": Names(RELATIVE),
    # Huang et al. (2018)
    "relative_global": Names(
        "positions.relative:RelativeGlobal", is_checked=True
    ),
    # Su et al. (2021)
    "rotary": Names("positions.rotary:Rotary", is_checked=True),
    # Press et al. (2022)
    "alibi": Names("positions.alibi:ALiBi"),
    "t5": Names("positions.t5:T5Bias"),  # Raffel et al. (2020)
    # Vaswani et al. (2017), section 3.5
    "sinusoidal": Names(on_embeddings=SINUSOIDAL),
    "learned": Names(on_embeddings=LEARNED),  # Gehring et al. (2017)
    # Shaw et al. (2018), section 4.2, saw no benefit from both.
    "relative+sinusoidal": Names(RELATIVE, SINUSOIDAL),
    # A bag of words.
    None: Names(),
}

# The classes by name, for `ra.positions`.
_CLASSES = {
    names.in_attention.split(":")[1]: names.in_attention
    for names in POSITION_ENCODINGS.values()
}
__all__ = [*_CLASSES]


# === Of a config ===


def find_names(encoding: Any) -> Names:
    """Returns where the parts of an encoding are.

    Args:
        encoding: `TransformerConfig.position_encoding`: a name in
            `POSITION_ENCODINGS`, `None`, or `"module:class"`, each with or
            without arguments.

    Raises:
        ValueError: if there is no such encoding.
    """
    name, _ = _name_and_arguments(encoding)
    is_name = name is None or isinstance(name, str)
    if is_name and name in POSITION_ENCODINGS:
        return POSITION_ENCODINGS[name]
    if own_module(name) is None:
        known = ", ".join(map(repr, POSITION_ENCODINGS))
        raise ValueError(
            f"`position_encoding` must be one of {known}, an object of "
            "`ra.positions` or of your own class, or its name "
            "'module:class'. Received: "
            f"position_encoding={_short.repr(encoding)}."
        )
    return Names(name, is_checked=True, is_own=True)


def encoding_of(config: Any) -> Any:
    """Returns the `PositionEncoding` of the layers of a `Transformer`.

    Args:
        config: `TransformerConfig`.

    Raises:
        ValueError: if its `position_encoding` is unknown or has wrong
            arguments.
    """
    arguments = arguments_of(config.position_encoding)
    cls = find_names(config.position_encoding).attention_class()
    try:
        if not arguments:
            return cls.from_transformer(config)
        fields = {name: getattr(config, name) for name in cls.config_fields}
        return cls.from_config({**fields, **arguments})
    except TypeError as error:
        raise ValueError(
            f"`position_encoding` {config.position_encoding!r} has wrong "
            f"arguments: {error}."
        ) from error


def relation_tables(config: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the weights of `Relative`, without Keras.

    Args:
        config: `TransformerConfig`, whose encoding in attention is `Relative`.
    """
    fields = {**vars(config), **arguments_of(config.position_encoding)}
    rows = 2 * fields["max_relative_position"] + 1
    heads: tuple[int, ...] = (config.num_heads,)
    if fields["share_relations_across_heads"]:
        heads = ()
    tables: dict[str, tuple[int, ...]] = {}
    if fields["use_key_relations"]:
        size = config.head_dim
        tables["key_relation_embeddings"] = (*heads, rows, size)
    if fields["use_value_relations"]:
        size = config.value_dim or config.head_dim
        tables["value_relation_embeddings"] = (*heads, rows, size)
    return tables


def to_string(encoding: Any) -> str | None:
    """Returns the name of a `PositionEncoding`, with its arguments.

    Arguments that are the default, or fields of a `TransformerConfig`, are
    left out: `"rotary(max_wavelength=500.0)"`, `"mymodule:LogBias"`.

    Raises:
        ValueError: if it is no `PositionEncoding`, or an argument is not a
            number, a string or a list of them.
    """
    if not isinstance(encoding, _find(NOTHING)):
        find_names(encoding)  # raises
    cls = type(encoding)
    name: str | None = f"{cls.__module__}:{cls.__qualname__}"
    for known, names in POSITION_ENCODINGS.items():
        if names.on_embeddings is None and names.attention_class() is cls:
            name = known
    try:
        default = cls().get_config()
    except TypeError:
        default = {}
    arguments = []
    for key, value in encoding.get_config().items():
        if key in cls.config_fields or (key, value) in default.items():
            continue
        if _read(repr(value)) != value:
            raise ValueError(
                f"The arguments of {cls.__name__} in a config must be numbers, "
                "strings or lists of them, since files have them. Received: "
                f"{key}={value!r}."
            )
        arguments.append(f"{key}={value!r}")
    return f"{name}({', '.join(arguments)})" if arguments else name


def import_modules(modules: str | Sequence[str]) -> None:
    """Imports modules of a user's encodings, also from the working directory.

    Args:
        modules: name of a module, or a list of them.

    Raises:
        InputError: if one cannot be imported.
    """
    for name in [modules] if isinstance(modules, str) else modules:
        # Last, so that no file there hides a package.
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        try:
            importlib.import_module(name)
        except Exception as error:  # A user's module may raise any.
            raise InputError(
                f"The module {name!r} cannot be imported in {os.getcwd()}: "
                f"{type(error).__name__}: {error}."
            ) from error


def arguments_of(encoding: Any) -> dict[str, Any]:
    """Returns the arguments in the name of an encoding."""
    _, arguments = _name_and_arguments(encoding)
    return arguments


def own_module(encoding: Any) -> str | None:
    """Returns the module in a name `"module:class"`, `None` of others."""
    name, _ = _name_and_arguments(encoding)
    if not isinstance(name, str) or not re.fullmatch(r"[\w.]+:\w+", name):
        return None
    return name.partition(":")[0]


def _name_and_arguments(encoding: Any) -> tuple[Any, dict[str, Any]]:
    """Splits `"name(key=value)"`; only plain values are read."""
    if not isinstance(encoding, str) or "(" not in encoding:
        return encoding, {}
    name, _, rest = encoding.partition("(")
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    # A `**` has no name.
    if isinstance(call, ast.Call) and not call.args:
        arguments = {
            str(keyword.arg): _read(keyword.value) for keyword in call.keywords
        }
        if "None" not in arguments and _NOT_PLAIN not in arguments.values():
            return name, arguments
    raise ValueError(
        "`position_encoding` must be a name, or a name with arguments such as "
        f"'rotary(max_wavelength=500)'. Received: {_short.repr(encoding)}."
    )


_NOT_PLAIN = object()
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


def _read(literal: str | ast.expr) -> Any:
    """Returns the value of a literal, or `_NOT_PLAIN`.

    No dict: Keras would make an object of it, of a class in any module.
    """
    try:
        value = ast.literal_eval(literal)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _NOT_PLAIN
    return value if _is_plain(value) else _NOT_PLAIN


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


# === Classes ===


def find_position_encoding(encoding: Any) -> Any:
    """Returns the `PositionEncoding` of a self-attention layer.

    Args:
        encoding: string, a name in `POSITION_ENCODINGS`; `None`; a
            `PositionEncoding`; or one serialized by Keras.

    Returns:
        `PositionEncoding`.

    Raises:
        ValueError: if it is none of these, or is added to embeddings.
    """
    import keras

    if isinstance(encoding, dict):
        encoding = keras.saving.deserialize_keras_object(encoding)
    if isinstance(encoding, _find(NOTHING)):
        return encoding
    inside = [
        name
        for name, names in POSITION_ENCODINGS.items()
        if names.on_embeddings is None
    ]
    if encoding not in inside:
        raise ValueError(
            f"`position_encoding` must be one of {', '.join(map(repr, inside))}"
            f", or an object of `ra.positions`. Received: {encoding!r}. "
            "Positions that are added to embeddings are separate layers, "
            "such as `SinusoidalPositions`."
        )
    return POSITION_ENCODINGS[encoding].attention_class()()


def _find(name: str) -> Any:
    path, class_name = name.split(":")
    module = importlib.import_module(f"relative_attention.layers.{path}")
    return getattr(module, class_name)


def _find_own(name: str) -> Any:
    """Returns a class of a user's module, which this does not import."""
    path, _, class_name = name.partition(":")
    if path not in sys.modules:
        raise ValueError(
            f"`position_encoding` {name!r} needs the module {path}, which has "
            f"not been imported. Import it, or name it: `--module {path}` of "
            f"the commands, `module={path!r}` of `load_translator`."
        )
    cls = getattr(sys.modules[path], class_name, None)
    base = _find(NOTHING)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise ValueError(
            f"`position_encoding` must name a subclass of "
            f"`ra.positions.PositionEncoding` at the top of a module. "
            f"Received: {name!r}."
        )
    return cls


if TYPE_CHECKING:
    # What type checkers see of the names that `__getattr__` imports.
    from relative_attention.layers.positions.alibi import ALiBi as ALiBi
    from relative_attention.layers.positions.position_encoding import (
        PositionEncoding as PositionEncoding,
    )
    from relative_attention.layers.positions.relative import (
        Relative as Relative,
    )
    from relative_attention.layers.positions.relative import (
        RelativeGlobal as RelativeGlobal,
    )
    from relative_attention.layers.positions.rotary import Rotary as Rotary
    from relative_attention.layers.positions.t5 import T5Bias as T5Bias
else:

    def __getattr__(name: str) -> Any:
        if name not in _CLASSES:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}"
            )
        return _find(_CLASSES[name])
