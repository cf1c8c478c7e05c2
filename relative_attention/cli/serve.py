"""Serves models: `relative-attention serve`."""

import argparse
import functools
import importlib.util
import math
import re

from relative_attention.cli.command import Subparsers
from relative_attention.cli.command import add_command
from relative_attention.errors import InputError
from relative_attention.errors import install_hint

_PACKAGES = ("starlette", "uvicorn", "prometheus_client")


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        subparsers,
        "serve",
        _run,
        "serve models: a page to type in, and TensorFlow Serving's REST "
        "interface",
        "relative-attention serve multi30k_en_de_tiny_relative --port 8501",
    )
    add = parser.add_argument
    add(
        "models",
        nargs="+",
        metavar="MODEL",
        help="the folder that `train` filled, or the name of a trained model "
        "of the zoo; requests call it by that name, or its folder's; "
        "NAME=FOLDER gives it another",
    )
    add(
        "--host",
        metavar="H",
        default="127.0.0.1",
        help="the address to listen on (default: 127.0.0.1, this machine "
        "alone); others need a token",
    )
    add(
        "--port",
        type=int,
        metavar="N",
        default=8501,
        help="default: 8501; 0 takes any that is free",
    )
    add(
        "--token-file",
        metavar="F",
        help="a file with the token that requests must bring (`Authorization: "
        "Bearer TOKEN`)",
    )
    add(
        "--no-token",
        action="store_true",
        help="let in everybody who can reach the address",
    )
    add(
        "--max-wait-ms",
        type=float,
        metavar="MS",
        default=50.0,
        help="how long, right after a batch of several requests, the model "
        "waits for as many, a tenth of that batch's time at most (default: 50)",
    )
    add(
        "--reload",
        action="store_true",
        help="take up a model whose folder is replaced",
    )
    _add_limits(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Adds how much is done at a time, and how much is taken."""
    for name, default, what in (
        ("--max-batch", 64, "most sentences translated at a time"),
        ("--queue", 256, "most requests that wait; others are answered 429"),
        ("--max-bytes", 2**18, "most bytes of a request"),
        ("--max-sentences", 128, "most sentences of a request"),
        ("--max-tokens", 8192, "most tokens of a request"),
    ):
        parser.add_argument(
            name,
            type=_positive,
            metavar="N",
            default=default,
            help=f"{what} (default: {default})",
        )


def _positive(text: str) -> int:
    """Returns the positive integer that an option gives."""
    # Digits of ASCII, no more of them than `int` reads.
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be an integer, at least 1. Received: {text}."
        )
    return int(text)


def _run(options: argparse.Namespace) -> None:
    """Runs the command."""
    missing = [p for p in _PACKAGES if importlib.util.find_spec(p) is None]
    if missing:
        raise InputError(
            f"A server needs {' and '.join(missing)}: {install_hint('serve')}."
        )
    from relative_attention import serve

    _check(options, serve.is_loopback(options.host))
    token = None
    if options.token_file is not None:
        token = serve.read_token(options.token_file)
    serve.run_server(
        serve.named_models(options.models),
        options.host,
        options.port,
        serve.ServerSettings(
            max_batch=options.max_batch,
            max_wait_ms=options.max_wait_ms,
            queue=options.queue,
            max_bytes=options.max_bytes,
            max_sentences=options.max_sentences,
            max_tokens=options.max_tokens,
            token=token,
            checks_host=not options.no_token,
            reload=options.reload,
        ),
        report=functools.partial(print, flush=True),
    )


def _check(options: argparse.Namespace, is_loopback: bool) -> None:
    """Refuses options that are out of range or contradict one another."""
    if not 0 <= options.port < 2**16:
        raise InputError(
            f"--port must be between 0 and 65535. Received: {options.port}."
        )
    if not 0 <= options.max_wait_ms < math.inf:
        raise InputError(
            "--max-wait-ms must be a number of milliseconds, 0 or more. "
            f"Received: {options.max_wait_ms}."
        )
    if options.token_file is not None and options.no_token:
        raise InputError("--token-file and --no-token contradict each other.")
    if options.token_file is None and not options.no_token and not is_loopback:
        raise InputError(
            f"Others can reach {options.host}. Give the file of a token that "
            "they must bring with --token-file, or --no-token to let in "
            "everybody."
        )
