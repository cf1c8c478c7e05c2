"""Serves trained models: a page to type in, and a REST interface.

The path of a request:

1. `http_connection`: uvicorn reads it, with limits of time.
2. `guard`: who may not come in is refused, headers are added, it is counted.
3. `rest_api`, TensorFlow Serving's interface (`rest_path`, `predict_form`,
   `signatures`), or `page_api`, what the page asks for: the body is read
   (`request_body`) and checked.
4. `batcher`: its sentences stand in the `waiting_line` until the one thread
   that translates takes them, with others of like length, and does the `work`.

`served_models` loads models, `reload_models` takes up those that were
replaced, and `run_server` runs all of it. It needs the extra `serve`.
"""

from relative_attention.serve.app import make_app
from relative_attention.serve.model_names import named_models
from relative_attention.serve.run_server import is_loopback
from relative_attention.serve.run_server import run_server
from relative_attention.serve.served_models import load_models
from relative_attention.serve.server_settings import ServerSettings
from relative_attention.serve.token_file import read_token

__all__ = [
    "ServerSettings",
    "is_loopback",
    "load_models",
    "make_app",
    "named_models",
    "read_token",
    "run_server",
]
