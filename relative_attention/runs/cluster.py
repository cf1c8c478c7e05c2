"""The machines and devices that train one model together."""

import atexit
import contextlib
import functools
import itertools
import json
import os
import re
import sys
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import nullcontext
from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np

from relative_attention.errors import InputError
from relative_attention.recipes.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf

# `keras.distribution.initialize` reads these.
JAX_ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"
_JAX_NUMBERS = (
    "KERAS_DISTRIBUTION_NUM_PROCESSES",
    "KERAS_DISTRIBUTION_PROCESS_ID",
)
# Names of what exchanges values between processes of JAX, on CPUs and on GPUs,
# or connects the processes. Their errors have no type of their own.
_BETWEEN_PROCESSES = re.compile("gloo|nccl|rccl|coordination|heartbeat", re.I)


class Cluster:
    """The role of this process among those that train together.

    Every machine runs the same program. One of them, the chief, writes the
    folder of the run, which all machines share. To agree or to wait for each
    other, they vote.

    Args:
        strategy: `tf.distribute.Strategy`. One process with its devices, or
            one of several machines. `None` is one process with one device.
    """

    def __init__(self, strategy: "tf.distribute.Strategy | None") -> None:
        self.strategy = strategy

    @property
    def num_replicas(self) -> int:
        """The number of devices on all machines."""
        return self.strategy.num_replicas_in_sync if self.strategy else 1

    @property
    def is_chief(self) -> bool:
        """Whether this process, on the first machine, writes the run."""
        resolver = self._resolver
        # One process, or a strategy that names no machines.
        if resolver is None or not resolver.task_type:
            return True
        # Otherwise the first worker is the chief, as for TensorFlow.
        if "chief" in resolver.cluster_spec().jobs:
            return resolver.task_type == "chief"
        return resolver.task_type == "worker" and resolver.task_id == 0

    def scope(self) -> AbstractContextManager[Any]:
        """Returns a context in which variables are created on all devices."""
        return self.strategy.scope() if self.strategy else nullcontext()

    def fit_scope(self) -> AbstractContextManager[Any]:
        """Returns a context in which a model is made and trained."""
        return nullcontext()

    def any(self, flag: bool) -> bool:
        """Returns whether a flag is set on at least one machine.

        All machines must call this, whatever their flag. If each decided by its
        own clock, they would wait for each other forever.
        """
        if not self.asks_others:
            return flag
        import tensorflow as tf

        # A sum, as strategies reduce numbers and no booleans.
        return bool(self._sum_of_votes(tf.constant(float(flag))) > 0)

    @property
    def asks_others(self) -> bool:
        """Whether `any` waits for other machines."""
        # One machine decides alone, and waiting takes time.
        return self._resolver is not None and self.num_replicas > 1

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        """Runs its body on the chief before the other machines.

        The others then find in the folder of the run what the chief wrote.
        """
        # Each machine waits once: the others before their turn, the chief after
        # its own.
        if not self.is_chief:
            self._wait_for_all()
        yield
        if self.is_chief:
            self._wait_for_all()

    @contextlib.contextmanager
    def explain_lost_machine(self) -> Iterator[None]:
        """Says what to do if another machine is lost while its body runs.

        Raises:
            InputError: in place of what the backend raises then.
        """
        try:
            yield
        except Exception as error:
            if self.asks_others and self._is_of_lost_machine(error):
                raise InputError(
                    "Another machine was lost, and the others cannot continue "
                    "without it. Start all of them again with "
                    "`--resume=auto`: they resume from the last checkpoint, "
                    "if there is one."
                ) from error
            raise

    def _is_of_lost_machine(self, error: Exception) -> bool:
        import tensorflow as tf

        return isinstance(
            error, tf.errors.UnavailableError | tf.errors.AbortedError
        )

    def _wait_for_all(self) -> None:
        """Returns when all machines have called this."""
        self.any(False)

    @property
    def _resolver(self) -> Any:
        return self.strategy.cluster_resolver if self.strategy else None

    @functools.cached_property
    def _sum_of_votes(self) -> "Callable[[tf.Tensor], tf.Tensor]":
        """The traced sum over all machines, made once per cluster."""
        import tensorflow as tf

        strategy: Any = self.strategy

        @tf.function(autograph=False)
        def total(vote: tf.Tensor) -> tf.Tensor:
            # The vote of a machine counts once for each of its devices.
            votes = strategy.run(lambda: tf.identity(vote))
            return strategy.reduce("SUM", votes, axis=None)

        return total


class JaxCluster(Cluster):
    """The same on JAX.

    Args:
        distribution: `keras.distribution.DataParallel` over all devices of all
            processes, or `None` for one device.
    """

    def __init__(
        self, distribution: "keras.distribution.DataParallel | None"
    ) -> None:
        super().__init__(None)
        self.distribution = distribution

    @property
    def num_replicas(self) -> int:
        """The number of devices of all processes."""
        return self.distribution.num_model_replicas if self.distribution else 1

    @property
    def is_chief(self) -> bool:
        """Whether this is the first process, which writes the run."""
        import jax

        return jax.process_index() == 0

    def fit_scope(self) -> AbstractContextManager[Any]:
        """Returns a context in which a model is made and trained."""
        return self.distribution.scope() if self.distribution else nullcontext()

    @property
    def asks_others(self) -> bool:
        """Whether `any` waits for other processes."""
        import jax

        return jax.process_count() > 1

    def any(self, flag: bool) -> bool:
        """Returns whether a flag is set in at least one process."""
        if not self.asks_others:
            return flag
        from jax.experimental import multihost_utils

        return bool(multihost_utils.process_allgather(np.array(flag)).any())

    def _is_of_lost_machine(self, error: Exception) -> bool:
        # A compiled function that is called again raises `ValueError`, all
        # else a `RuntimeError`.
        is_lost = (
            isinstance(error, RuntimeError | ValueError)
            and not isinstance(error, InputError)
            and _BETWEEN_PROCESSES.search(str(error)) is not None
        )
        if is_lost:
            # At exit JAX would wait for the lost one, then abort with a dump.
            atexit.register(_exit_at_once)
        return is_lost


def choose_cluster(recipe: Recipe) -> Cluster:
    """Returns the devices for `training.devices`, of this process and others.

    Call it before anything else of the backend: devices are divided, and
    machines connect, when it starts.

    Raises:
        InputError: if the backend cannot train the recipe, there are too few
            devices, or machines cannot connect.
    """
    if trains_on_tensorflow():
        return Cluster(choose_strategy(recipe))
    # Now it is JAX, or an error.
    _check_backend(recipe)
    devices = recipe.training.devices
    if os.environ.get(JAX_ADDRESSES):
        _connect_jax()
        # As with TensorFlow, all devices of all machines.
        devices = "all"
    # This starts JAX: processes must have connected before.
    found = keras.distribution.list_devices()
    number = len(found) if devices == "all" else int(devices)
    if number > len(found):
        raise InputError(
            f"`training.devices` must be at most {len(found)}, the devices "
            f"that JAX has here ({found[0].partition(':')[0]}). Received: "
            f"{number}. To divide a CPU, set the environment variable "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={number}."
        )
    if number == 1:
        return JaxCluster(None)
    return JaxCluster(
        keras.distribution.DataParallel(
            devices=found[:number],
            # Each process reads its own rows.
            auto_shard_dataset=False,
        )
    )


def _connect_jax() -> None:
    """Connects the processes of JAX that Keras' variables name."""
    names = (JAX_ADDRESSES, *_JAX_NUMBERS)
    given = {name: os.environ.get(name, "") for name in names}
    addresses, count, number = given.values()
    is_right = (
        count.isdecimal()
        and number.isdecimal()
        and int(number) < int(count)
        and all(map(_is_address, addresses.split(",")))
        # The first is enough.
        and len(addresses.split(",")) in (1, int(count))
    )
    if not is_right:
        raise InputError(
            f'The environment must have {JAX_ADDRESSES}, "host:port" of the '
            f"first process or of each, and {' and '.join(_JAX_NUMBERS)}, how "
            "many there are and which this one is, from 0. Received: "
            f"{', '.join(f'{name}={text!r}' for name, text in given.items())}."
        )
    import jax

    # A second run of the same process; it can connect only once.
    if jax.distributed.is_initialized():
        return
    try:
        keras.distribution.initialize()
    except (ValueError, RuntimeError) as error:
        raise InputError(
            f"The processes of {JAX_ADDRESSES} could not connect "
            f"({addresses}): {error}"
        ) from error


def choose_strategy(recipe: Recipe) -> "tf.distribute.Strategy | None":
    """Returns the `tf.distribute` strategy for `training.devices`.

    Call it before anything else of TensorFlow: devices are divided, and
    machines connect, when TensorFlow starts.

    Raises:
        InputError: if there are too few devices, or machines cannot connect.
    """
    import tensorflow as tf

    text = os.environ.get("TF_CONFIG")
    if text:
        check_tf_config(text)
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        except (ValueError, KeyError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(
                f"The machines in TF_CONFIG could not connect ({text}): {error}"
            ) from error
    devices = recipe.training.devices
    # Without a GPU, `all` is one CPU: parts of it would not be faster.
    gpus = tf.config.list_physical_devices("GPU")
    number = max(len(gpus), 1) if devices == "all" else int(devices)
    if number == 1:
        # TensorFlow's default: variables without mirrors, and no votes.
        return tf.distribute.get_strategy()
    # A CPU can be divided into any number of parts.
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


def _divide_cpu(number: int) -> None:
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    # Another run of this process may have divided it already.
    before = tf.config.get_logical_device_configuration(cpu)
    if before and len(before) >= number:
        return
    parts = [tf.config.LogicalDeviceConfiguration()] * number
    try:
        tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError as error:
        raise InputError(
            f"`training.devices` is {number} and there is no GPU: the CPU can "
            "only be divided before TensorFlow has started. Start another "
            "process for it."
        ) from error


def check_tf_config(text: str) -> None:
    """Refuses a `TF_CONFIG` that would make TensorFlow hang or crash."""
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        # TensorFlow waits forever for an address that is wrong.
        num_machines = len(cluster[task["type"]])
        is_right = (
            all(isinstance(addresses, list) for addresses in cluster.values())
            and all(map(_is_address, itertools.chain(*cluster.values())))
            and type(task["index"]) is int
            and 0 <= task["index"] < num_machines
        )
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        is_right = False
    if not is_right:
        raise InputError(
            "The environment variable TF_CONFIG must be JSON with a "
            '`cluster`, lists of "host:port" by job, and a `task`, the `type` '
            "(a job) and `index` of this machine, for example "
            '{"cluster": {"worker": ["first:2222", "second:2222"]}, "task": '
            '{"type": "worker", "index": 0}}. Received: '
            f"{text[:500]}."
        )


def _is_address(address: Any) -> bool:
    if not isinstance(address, str):
        return False
    # From the right, as IPv6 addresses have colons of their own.
    host, _, port = address.rpartition(":")
    return bool(host) and port.isdecimal() and int(port) < 2**16


def trains_on_tensorflow() -> bool:
    """Returns whether a run uses `tf.distribute` and `tf.data`."""
    return keras.backend.backend() == "tensorflow"


def _check_backend(recipe: Recipe) -> None:
    """Checks that a backend other than TensorFlow can train a recipe."""
    backend = keras.backend.backend()
    if backend != "jax":
        raise InputError(
            "`train` needs Keras' backend to be tensorflow or jax. Received: "
            f"KERAS_BACKEND={backend}."
        )
    if os.environ.get("TF_CONFIG"):
        raise InputError(
            "TF_CONFIG sets up several machines of TensorFlow. Unset it and "
            f"set {JAX_ADDRESSES}, or set KERAS_BACKEND=tensorflow."
        )
    if recipe.training.batch_tokens == "auto":
        raise InputError(
            "`training.batch_tokens` must be a number on JAX, which would "
            "compile every number tried for a minute. Received: 'auto'."
        )


def _exit_at_once() -> None:
    # `os._exit` flushes nothing, and the error must be seen.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
