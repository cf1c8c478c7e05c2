"""Serves trained models: a page to type in, and a REST interface.

The path of a request:

1. `app`: a guard asks for the token and counts; a route finds the method that
   answers.
2. `predict`: the body is read and checked, and in the end the answer written,
   in rows or columns. What the page asks for is in `app`.
3. `batcher`: the sentences wait in one line until the one thread that
   translates takes them, with others of about the same length.
4. `models`: the models that the thread runs, how they are loaded, and loaded
   again when they are replaced.

`metrics` has the counters. It needs the extra `serve`. Slow clients, idle
connections, TLS and names of hosts are left to a reverse proxy.
"""

from relative_attention.serve.app import ServerSettings
from relative_attention.serve.app import make_app
from relative_attention.serve.app import run_server
from relative_attention.serve.models import load_models
from relative_attention.serve.models import named_models

__all__ = [
    "ServerSettings",
    "load_models",
    "make_app",
    "named_models",
    "run_server",
]
