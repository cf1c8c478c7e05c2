"""Serves a SavedModel in a process that has nothing of this package."""

import json
import subprocess
import sys

SERVE = """
import json
import sys

# None of them is there, as far as this process can tell.
for name in ("relative_attention", "keras_hub", "keras_nlp", "sentencepiece"):
    sys.modules[name] = None
import tensorflow as tf

if "with_text" in sys.argv:
    import tensorflow_text
else:
    sys.modules["tensorflow_text"] = None

others = [tf.saved_model.load(folder) for folder in sys.argv[3:]]
loaded = tf.saved_model.load(sys.argv[1])
answers = {}
for key, (signature, inputs) in json.load(sys.stdin).items():
    if signature == "token_ids":
        inputs = {"source_token_ids": tf.constant(inputs, tf.int32)}
    else:
        inputs = [text.encode("latin-1") for text in inputs]
        inputs = {"sentences": tf.constant(inputs, tf.string, (len(inputs),))}
    results = loaded.signatures[signature](**inputs)
    answers[key] = {k: v.numpy().tolist() for k, v in results.items()}
assert not [name for name in sys.modules if "relative_attention." in name]
answers["signatures"] = sorted(loaded.signatures)
json.dump(answers, sys.stdout, default=lambda text: text.decode("utf-8"))
"""


def serve(folder, requests, *flags):
    """What the signatures of a SavedModel answer, in a process of its own.

    Args:
        requests: dict of pairs, name of a signature and a list of sentences
            (strings or bytes) or rows of ids.
        flags: `"with_text"` to import `tensorflow_text`; after it folders of
            other SavedModels to load before.
    """
    requests = {
        key: (
            signature,
            inputs if signature == "token_ids" else list(map(latin, inputs)),
        )
        for key, (signature, inputs) in requests.items()
    }
    done = subprocess.run(
        [sys.executable, "-I", "-c", SERVE, str(folder), *flags],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def latin(sentence):
    """Bytes, of a string those of its UTF-8, as JSON can hold them."""
    if isinstance(sentence, str):
        sentence = sentence.encode("utf-8")
    return sentence.decode("latin-1")
