"""The devices, and machines, that a run trains on."""

import contextlib
import functools
import os

from relative_attention.errors import InputError
from relative_attention.runs.tf_config import check_tf_config


def choose_strategy(devices):
    """The `tf.distribute` strategy for a recipe's `training.devices`.

    To be called before TensorFlow has done anything else: devices are divided,
    and machines meet, when it starts.

    Args:
        devices: int, or `"all"`. GPUs of this machine; where it has none,
            parts to divide its CPU into (`"all"` is one). With `TF_CONFIG`
            in the environment, each machine uses all its GPUs.

    Returns:
        `tf.distribute.Strategy`; TensorFlow's default one for one device.

    Raises:
        InputError: if there are fewer GPUs, `TF_CONFIG` is wrong, or it is too
            late to divide the CPU.
    """
    import tensorflow as tf

    if os.environ.get("TF_CONFIG"):
        return _many_machines()
    gpus = tf.config.list_physical_devices("GPU")
    number = devices
    if devices == "all":
        number = max(len(gpus), 1)
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


def _many_machines():
    import tensorflow as tf

    check_tf_config(os.environ["TF_CONFIG"])
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (ValueError, KeyError, RuntimeError, tf.errors.OpError) as error:
        raise InputError(
            "The machines could not meet as TF_CONFIG has it "
            f"({os.environ['TF_CONFIG']}): {error}"
        ) from error


def _divide_cpu(number):
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


def is_chief(strategy):
    """Whether this process writes the run: the first of many machines."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.task_type:
        return True
    if "chief" in resolver.cluster_spec().jobs:
        return resolver.task_type == "chief"
    return resolver.task_type == "worker" and resolver.task_id == 0


def any_machine(strategy, flag):
    """Whether a flag is set on one machine at least; all must ask.

    Machines that decide alone, by their clocks, would wait for one another
    for ever.
    """
    import tensorflow as tf

    if strategy.cluster_resolver is None or strategy.num_replicas_in_sync == 1:
        return flag

    return bool(_sum_of_votes(strategy)(tf.constant(float(flag))) > 0)


@functools.cache
def _sum_of_votes(strategy):
    import tensorflow as tf

    @tf.function(autograph=False)
    def total(vote):
        # A machine votes once on each of its devices.
        votes = strategy.run(lambda: tf.identity(vote))
        return strategy.reduce("SUM", votes, axis=None)

    return total


@contextlib.contextmanager
def chief_first(strategy):
    """The body, on the chief before it is on the other machines.

    What the chief has written by then the others find; the folder of the run
    is one that all machines see.
    """
    chief = is_chief(strategy)
    if not chief:
        any_machine(strategy, False)
    yield
    if chief:
        any_machine(strategy, False)
