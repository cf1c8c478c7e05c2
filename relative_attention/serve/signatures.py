"""The signatures of a model: those of the SavedModel that `export` makes."""

from typing import Any

from relative_attention.serve.served_models import ServedModel

DEFAULT = "serving_default"
N_BEST = "n_best"
SIGNATURES = (DEFAULT, N_BEST)
# The one tensor that goes in.
INPUT = "sentences"


def status(model: ServedModel) -> dict[str, Any]:
    """Returns TensorFlow Serving's `GetModelStatusResponse`."""
    return {
        "model_version_status": [
            {
                "version": str(model.version),
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }


def metadata(model: ServedModel) -> dict[str, Any]:
    """Returns TensorFlow Serving's `GetModelMetadataResponse`."""
    num_results = model.translator.num_beams
    shapes: dict[str, list[int]] = {DEFAULT: [-1], N_BEST: [-1, num_results]}
    definitions = {
        name: {
            "inputs": {INPUT: _tensor(name, INPUT, "DT_STRING", [-1])},
            "outputs": {
                "translations": _tensor(
                    "StatefulPartitionedCall",
                    "translations",
                    "DT_STRING",
                    shapes[name],
                ),
                "scores": _tensor(
                    "StatefulPartitionedCall",
                    "scores",
                    "DT_FLOAT",
                    shapes[name],
                ),
            },
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        for name in SIGNATURES
    }
    return {
        "model_spec": {
            "name": model.name,
            "signature_name": "",
            "version": str(model.version),
        },
        "metadata": {"signature_def": {"signature_def": definitions}},
    }


def _tensor(
    operation: str, name: str, dtype: str, shape: list[int]
) -> dict[str, Any]:
    """Returns a `TensorInfo`."""
    return {
        "dtype": dtype,
        "tensor_shape": {
            "dim": [{"size": str(size), "name": ""} for size in shape],
            "unknown_rank": False,
        },
        "name": f"{operation}_{name}:0",
    }
