"""Serves models: `relative-attention serve`."""

import argparse
import functools
import importlib.util
import ipaddress
import math
import pathlib
import re

from relative_attention.cli import command
from relative_attention.errors import InputError
from relative_attention.errors import install_hint

_PACKAGES = ("starlette", "uvicorn", "prometheus_client")
# Shorter ones could be guessed.
_FEWEST_CHARACTERS = 16


def add_serve(subparsers: command.Subparsers) -> None:
    """Adds `serve` to the command line."""
    parser = command.add_command(
        subparsers,
        "serve",
        _serve,
        "serve models: a page to type in, and TensorFlow Serving's REST "
        "interface",
        "relative-attention serve tatoeba_en_de --port 8501",
    )
    command.add_module(parser)
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="the folder that `train` filled, or the name of a trained model "
        "that is bundled; requests use that name, or the folder's; NAME=FOLDER "
        "gives it another",
    )
    parser.text(
        "--host H",
        "the address to listen on (default: 127.0.0.1, for this machine "
        "only); others need a token",
        default="127.0.0.1",
    )
    parser.integer(
        "--port N", "default: 8501; 0 takes any that is free", default=8501
    )
    parser.text(
        "--token-file FILE",
        "a file with the token that requests must bring (`Authorization: "
        "Bearer TOKEN`)",
    )
    parser.flag("--no-token", "allow everyone who can reach the address")
    parser.number(
        "--max-wait-ms MS",
        "after a batch, wait up to this long for more requests, but no longer "
        "than a tenth of what the batch took (default: 250)",
        default=250.0,
    )
    parser.flag("--reload", "reload a model when its folder is replaced")
    command.add_terms(parser)
    command.add_engine_options(parser)
    for name, default, what in (
        ("--max-batch", 64, "most sentences translated at a time"),
        ("--queue", 256, "most requests that wait; others get 429"),
        ("--max-bytes", 2**18, "most bytes of a request"),
        ("--max-sentences", 128, "most sentences of a request"),
        ("--max-tokens", 8192, "most tokens of a request"),
    ):
        parser.text(
            f"{name} N",
            f"{what} (default: {default})",
            type=_positive,
            default=default,
        )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be an integer, at least 1. Received: {text}."
        )
    return int(text)


def _serve(options: argparse.Namespace) -> None:
    # All of them at once; importing `serve` would name only the first.
    missing = [p for p in _PACKAGES if importlib.util.find_spec(p) is None]
    if missing:
        raise InputError(
            f"A server needs {' and '.join(missing)}: {install_hint('serve')}."
        )
    _check(options)
    # Read before models are loaded: a wrong file fails at once.
    path = options.token_file
    token = None if path is None else _read_token(path)
    command.read_terms(options)
    from relative_attention import serve

    serve.run_server(
        serve.named_models(options.models),
        options.host,
        options.port,
        command.call(serve.ServerSettings, options, token=token),
        # A log then has each line as it comes.
        report=functools.partial(print, flush=True),
        # How models are loaded also holds when they are reloaded.
        loading=command.given(
            options, (*command.ENGINE_OPTIONS, *command.TERMS)
        ),
    )


def _check(options: argparse.Namespace) -> None:
    """Refuses options that are out of range or contradict each other."""
    if not 0 <= options.port < 2**16:
        raise InputError(
            f"--port must be between 0 and 65535. Received: {options.port}."
        )
    if not 0 <= options.max_wait_ms < math.inf:
        raise InputError(
            "--max-wait-ms must be a number of milliseconds, 0 or more. "
            f"Received: {options.max_wait_ms}."
        )
    # Neither could be preferred without surprise.
    if options.token_file is not None and options.no_token:
        raise InputError("--token-file and --no-token contradict each other.")
    # A server that others reach by accident must not be the default.
    is_open = options.token_file is None and not options.no_token
    if is_open and not _is_loopback(options.host):
        raise InputError(
            f"{options.host} is reachable from other machines. Require a "
            "token with --token-file, or allow everyone with --no-token."
        )


def _is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach an address."""
    try:
        # Other names may be of any address.
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_token(path: str) -> str:
    """Returns the token of a file of one line."""
    try:
        # A file often ends with a line break that is not part of the token.
        text = pathlib.Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--token-file must be a file with a token. Received: {path} "
            f"({error})."
        ) from error
    # Characters that a header can have.
    if not re.fullmatch(rf"[!-~]{{{_FEWEST_CHARACTERS},}}", text):
        raise InputError(
            "--token-file must have one line, a token without blanks of at "
            f"least {_FEWEST_CHARACTERS} characters. Received: {path}. "
            "`openssl rand -hex 32 > FILE` makes one."
        )
    return text
