"""One pass of the garbage collector in place of one for each variable."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collect_once() -> Iterator[None]:
    """Looks for garbage once, at the end, among what was there before.

    Keras does so whenever a layer gives up a variable, which is twice for each
    layer that it quantizes: with the hundreds of thousands of objects that
    TensorFlow brings along, half a minute for a model that takes half a second.
    """
    if gc.get_freeze_count():
        # Somebody else's, whose objects must stay frozen.
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.collect()
