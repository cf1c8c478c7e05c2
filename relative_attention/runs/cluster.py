"""The machines and devices that train one model together."""

import contextlib
import functools
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import nullcontext
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    import tensorflow as tf


class Cluster:
    """Says what part this process has among those that train together.

    Every machine runs the same program. One of them, the chief, writes the
    folder of the run, which all of them see; where they must agree or wait
    for one another, they vote.

    Args:
        strategy: `tf.distribute.Strategy`. One process with its devices, or
            one of several machines. `None` is one process with one device,
            on any backend.
    """

    def __init__(self, strategy: "tf.distribute.Strategy | None") -> None:
        self.strategy = strategy

    @property
    def num_replicas(self) -> int:
        """The number of devices of all machines together."""
        return self.strategy.num_replicas_in_sync if self.strategy else 1

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the run: the first of many machines."""
        resolver = self._resolver
        if resolver is None or not resolver.task_type:
            return True
        if "chief" in resolver.cluster_spec().jobs:
            return resolver.task_type == "chief"
        return resolver.task_type == "worker" and resolver.task_id == 0

    def scope(self) -> AbstractContextManager[Any]:
        """Returns a context in which variables are made on every device."""
        return self.strategy.scope() if self.strategy else nullcontext()

    def any(self, flag: bool) -> bool:
        """Returns whether a flag is set on one machine at least.

        All machines must ask, whatever their flag is. Machines that decided
        alone, by their clocks, would wait for one another for ever.

        Args:
            flag: A boolean, the vote of this machine.
        """
        if self._resolver is None or self.num_replicas == 1:
            return flag
        import tensorflow as tf

        return bool(self._sum_of_votes(tf.constant(float(flag))) > 0)

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        """Runs its body on the chief before it is run on other machines.

        What the chief has written by then, the others find in the folder of
        the run.
        """
        # Both branches vote once: a vote ends when the last has voted.
        if not self.is_chief:
            self.any(False)
        yield
        if self.is_chief:
            self.any(False)

    @property
    def _resolver(self) -> Any:
        return self.strategy.cluster_resolver if self.strategy else None

    @functools.cached_property
    def _sum_of_votes(self) -> "Callable[[tf.Tensor], tf.Tensor]":
        """The traced sum over all machines, made once for each cluster."""
        import tensorflow as tf

        # Asked for where there are several machines alone.
        strategy: Any = self.strategy

        @tf.function(autograph=False)
        def total(vote: tf.Tensor) -> tf.Tensor:
            # A machine votes once on each of its devices.
            votes = strategy.run(lambda: tf.identity(vote))
            return strategy.reduce("SUM", votes, axis=None)

        return total
