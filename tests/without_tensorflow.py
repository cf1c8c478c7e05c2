"""Runs a command where TensorFlow cannot be imported.

`python without_tensorflow.py [OPTION] train RECIPE ...` is
`relative-attention train RECIPE ...` on a machine without TensorFlow and what
needs it. `--told-to-stop-at=STEP` stops it, as by SIGTERM, after that update;
`--killed-in-validation` kills it when the first one begins.
"""

import os
import signal
import sys

for name in ("tensorflow", "tensorflow_text", "keras_hub", "keras_nlp"):
    # `import` of these is an error from here on.
    sys.modules[name] = None


def stop_at(step):
    from relative_attention.runs.progress import RunProgress

    on_train_batch_end = RunProgress.on_train_batch_end

    def stopping(self, batch, logs=None):
        if self.step + 1 == step:
            os.kill(os.getpid(), signal.SIGTERM)
        on_train_batch_end(self, batch, logs)

    RunProgress.on_train_batch_end = stopping


def die_in_validation():
    from relative_attention.runs.progress import RunProgress

    def die(self, logs=None):
        os.kill(os.getpid(), signal.SIGKILL)

    RunProgress.on_test_begin = die


if __name__ == "__main__":
    from relative_attention.cli import main

    arguments = sys.argv[1:]
    option, _, step = arguments[0].partition("=")
    if option == "--told-to-stop-at":
        stop_at(int(step))
    elif option == "--killed-in-validation":
        die_in_validation()
    sys.exit(main(arguments[option.startswith("--") :]))
