"""Writes the sentences that TensorFlow Serving translates at its start."""

import pathlib
from collections.abc import Sequence

from relative_attention.errors import InputError
from relative_attention.errors import install_hint
from relative_attention.files import AnyPath


def check_serving_api() -> None:
    """Refuses to begin without the package that requests are written with.

    Raises:
        InputError: if the package `tensorflow-serving-api` is missing.
    """
    try:
        import tensorflow_serving.apis  # noqa: F401
    except ImportError as error:
        raise InputError(
            "Warm-up requests need the package tensorflow-serving-api: "
            f"{install_hint('serving')}."
        ) from error


def write_warmup_requests(sentences: Sequence[str], directory: AnyPath) -> None:
    """Writes a request for each sentence, where TensorFlow Serving looks.

    It reads `assets.extra/tf_serving_warmup_requests` of a SavedModel, a
    TFRecord file of protocol buffers `PredictionLog`.

    Args:
        sentences: list of strings.
        directory: path of the SavedModel.
    """
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_log_pb2

    folder = pathlib.Path(directory) / "assets.extra"
    folder.mkdir()
    path = folder / "tf_serving_warmup_requests"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for sentence in sentences:
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = "serving_default"
            request.inputs["sentences"].CopyFrom(
                tf.make_tensor_proto([sentence])
            )
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(
                prediction_log_pb2.PredictionLog(
                    predict_log=log
                ).SerializeToString()
            )
