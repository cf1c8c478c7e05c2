"""Tasks that the tests share; they are not to be changed."""

import pytest

import relative_attention as ra
from tests.small_models import make_translator


@pytest.fixture(
    scope="session",
    params=["joint", pytest.param("separate", marks=pytest.mark.large)],
)
def translator(request):
    return make_translator(separate=request.param == "separate")


# No longer than a module: Keras' own tests call `clear_session`, which takes
# TensorFlow Text's tokenizers away from whoever still has one.
@pytest.fixture(scope="module")
def task(translator):
    return ra.hub.TranslationLM.from_translator(translator)


@pytest.fixture(scope="session")
def joint_translator():
    return make_translator()


@pytest.fixture(scope="module")
def joint(joint_translator):
    """A task of one vocabulary."""
    return ra.hub.TranslationLM.from_translator(joint_translator)


@pytest.fixture(scope="module")
def preset(joint, tmp_path_factory):
    """Folder of `joint`."""
    folder = tmp_path_factory.mktemp("presets") / "joint"
    joint.save_to_preset(folder)
    return folder
