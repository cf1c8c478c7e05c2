"""A task that the tests share; it is not to be changed."""

import numpy as np
import pytest

from tests.small_models import make_task

IDS = np.array([[5, 6, 7, 1, 0], [8, 9, 1, 0, 0]], "int32")
# As KerasHub names them.
INPUTS = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in (("token_ids", IDS), ("padding_mask", IDS != 0))
}


# No longer than a module: Keras' own tests call `clear_session`, which takes
# TensorFlow Text's tokenizers away from whoever still has one.
@pytest.fixture(scope="module")
def joint():
    """A task of one vocabulary."""
    return make_task()


@pytest.fixture(scope="module")
def preset(joint, tmp_path_factory):
    """Folder of `joint`."""
    folder = tmp_path_factory.mktemp("presets") / "joint"
    joint.save_to_preset(folder)
    return folder
