"""Stands in for TensorFlow Serving."""

import contextlib
import http.server
import json
import threading


@contextlib.contextmanager
def serving_stand_in():
    """A server that answers as TensorFlow Serving's REST API; its port."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    loaded = tf.saved_model.load("exported/mine/1")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/models/mine:predict"
            size = int(self.headers["Content-Length"])
            inputs = json.loads(self.rfile.read(size))["inputs"]
            outputs = loaded.signatures["serving_default"](
                **{name: tf.constant(value) for name, value in inputs.items()}
            )
            answer = {
                "outputs": {
                    "translations": [
                        line.decode()
                        for line in outputs["translations"].numpy()
                    ],
                    "scores": outputs["scores"].numpy().tolist(),
                }
            }
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
