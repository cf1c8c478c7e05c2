"""Serves trained models: a page to type in, and a REST interface.

The path of a request:

1. `app`: a guard checks the token and counts; a route finds the method that
   answers.
2. `predict`: reads and checks the body, and at the end writes the answer, in
   rows or columns. Requests of the page are in `app`.
3. `batcher`: the sentences wait in a queue until the one thread that translates
   takes them, with others of about the same length.
4. `models`: the models that the thread runs, how they are loaded, and reloaded
   when they are replaced.

`metrics` has the counters. It needs the extra `serve`. Slow clients, idle
connections, TLS and host names are left to a reverse proxy.
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
