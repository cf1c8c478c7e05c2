"""Errors that a user can fix, and the hints in their messages."""

import difflib
import importlib
from collections.abc import Iterable


class InputError(ValueError):
    """Raised when a user's file, recipe, folder or command is wrong.

    The message says what is wrong, what is allowed and the way out. Commands
    print only the message, without a traceback.
    """


class NotFiniteError(InputError):
    """Raised when a model's weights or logits are not finite."""


def is_out_of_memory(error: Exception) -> bool:
    """Returns whether an error means that there is not enough memory."""
    # TensorFlow's and PyTorch's; JAX, CTranslate2 and PyTorch on CPUs have one
    # type for all errors of a device.
    types = ("ResourceExhaustedError", "OutOfMemoryError")
    texts = ("RESOURCE_EXHAUSTED", "out of memory", "can't allocate memory")
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ in types
        or any(text in str(error) for text in texts)
    )


def did_you_mean(name: object, known: Iterable[str], prefix: str = "") -> str:
    """Returns a question that suggests the known name nearest to `name`.

    It begins with a blank, to follow a sentence; `""` if no name is near. The
    name is shown with `prefix`, but compared without it.

    Example:
    >>> did_you_mean("transformer_bge", ["transformer_base", "transformer_big"])
    " Did you mean 'transformer_big'?"
    """
    nearest = nearest_name(name, known)
    return "" if nearest is None else f" Did you mean {prefix + nearest!r}?"


def nearest_name(name: object, known: Iterable[str]) -> str | None:
    """Returns the known name nearest to `name`, or `None` if none is near."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return close[0] if close else None


def check_packages(need: str, extra: str | None, *modules: str) -> None:
    """Raises `InputError` unless modules of other packages can be imported.

    Args:
        need: string. The beginning of the message: what needs which package.
        extra: string. The extra of this package that installs it; `None` for
            what the package itself requires.
        *modules: strings. The names of the modules.
    """
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{need} ({error}). {_how(error, extra)}") from error
    except ValueError as error:
        # matplotlib, if MPLBACKEND names a backend that is not there.
        raise InputError(f"{need}, which cannot start: {error}") from error


def missing_package(
    need: str, error: ModuleNotFoundError
) -> ModuleNotFoundError:
    """Returns an error that says which package is missing, and the way out.

    A layer needs Keras and one backend alone, so the package can be installed
    without all that it requires.

    Args:
        need: string. What needs the package.
        error: `ModuleNotFoundError` of a module of another package.
    """
    return ModuleNotFoundError(
        f"{need} needs the package {_package(error)}, which is not installed. "
        f"{_how(error, None)}",
        name=error.name,
    )


def _how(error: ImportError, extra: str | None) -> str:
    """Returns the sentence that says how to install what is missing."""
    if extra is not None:
        return f"Install it with {install_hint(extra)}."
    package = _package(error)
    if package == "tensorflow":
        return (
            "Install it with `pip install tensorflow`, or choose another "
            "backend of Keras, as by `export KERAS_BACKEND=jax`."
        )
    return (
        f"Install it with `pip install {package}`, or all that is needed to "
        "train and translate with `pip install .` in a checkout."
    )


def _package(error: ImportError) -> str:
    """Returns what a package index calls the module that is missing."""
    module = (error.name or "").partition(".")[0]
    names = {"yaml": "PyYAML", "keras_hub": "keras-nlp"}
    return names.get(module, module.replace("_", "-"))


def install_hint(extra: str) -> str:
    """Returns a command that installs an extra of the package, for messages.

    The package is on no index yet, so an extra is installed in a checkout.
    """
    return f"`pip install '.[{extra}]'` in a checkout of relative-attention"
