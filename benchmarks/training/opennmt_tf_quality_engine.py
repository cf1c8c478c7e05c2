"""An engine that trains OpenNMT-tf's model to its end, and translates a text.

`opennmt_tf_quality` starts it, and writes its configuration.
"""

import json
import sys
from typing import Any

import opennmt
import tensorflow as tf

from benchmarks.harness.opennmt_tf_model import make_model


def main(
    sizes: dict[str, Any],
    config: dict[str, Any],
    features: str,
    predictions: str,
) -> None:
    """Trains, or resumes the last checkpoint, and translates.

    Args:
        sizes: A dict, see `make_model`.
        config: A dict, the configuration of OpenNMT-tf.
        features: The path of a text of ids.
        predictions: The path of the file to write.
    """
    # OpenNMT-tf logs its progress by TensorFlow.
    tf.get_logger().setLevel("INFO")
    runner = opennmt.Runner(make_model(**sizes), config)
    averaged = runner.train()
    runner.infer(
        features, predictions_file=predictions, checkpoint_path=averaged
    )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
