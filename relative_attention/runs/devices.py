"""Chooses the devices, and machines, that a run trains on."""

import os
from typing import TYPE_CHECKING

from relative_attention.errors import InputError
from relative_attention.runs.one_device import trains_on_tensorflow
from relative_attention.runs.tf_config import check_tf_config

if TYPE_CHECKING:
    import tensorflow as tf


def choose_strategy(devices: int | str) -> "tf.distribute.Strategy | None":
    """Returns the `tf.distribute` strategy for `training.devices`.

    It must be called before TensorFlow has done anything else: devices are
    divided, and machines meet, when TensorFlow starts.

    Args:
        devices: int, or `"all"`. The number of GPUs of this machine to train
            on; where it has none, the number of parts to divide its CPU into
            (`"all"` is one). With `TF_CONFIG` in the environment, each
            machine uses all its GPUs.

    Returns:
        `tf.distribute.Strategy`, TensorFlow's default one for one device;
        `None` on another backend, which trains on its first one.

    Raises:
        InputError: if there are fewer GPUs, `TF_CONFIG` is wrong, or it is too
            late to divide the CPU.
    """
    if not trains_on_tensorflow():
        return None
    import tensorflow as tf

    if os.environ.get("TF_CONFIG"):
        return _many_machines()
    gpus = tf.config.list_physical_devices("GPU")
    number = max(len(gpus), 1) if devices == "all" else int(devices)
    if number == 1:
        return tf.distribute.get_strategy()
    if gpus and number > len(gpus):
        raise InputError(
            f"`training.devices` must be at most {len(gpus)}, the GPUs of "
            f"this machine. Received: {devices}."
        )
    kind = "GPU" if gpus else "CPU"
    if not gpus:
        _divide_cpu(number)
    return tf.distribute.MirroredStrategy(
        [f"{kind}:{index}" for index in range(number)]
    )


def _many_machines() -> "tf.distribute.Strategy":
    import tensorflow as tf

    check_tf_config(os.environ["TF_CONFIG"])
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (ValueError, KeyError, RuntimeError, tf.errors.OpError) as error:
        raise InputError(
            "The machines could not meet as TF_CONFIG has it "
            f"({os.environ['TF_CONFIG']}): {error}"
        ) from error


def _divide_cpu(number: int) -> None:
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * number
    before = tf.config.get_logical_device_configuration(cpu)
    if before and len(before) >= number:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError as error:
        raise InputError(
            f"`training.devices` is {number} and there is no GPU: the CPU can "
            "only be divided before TensorFlow has started. Start another "
            "process for it."
        ) from error
