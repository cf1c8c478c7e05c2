"""Fixtures that the tests of every package share."""

import fcntl
import gc
import json
import os
import pathlib
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

from relative_attention.data.lines import read_lines

# These do not import Keras: the process that only starts the workers needs no
# Keras, and would take seconds to import it. A test that uses another names it.
pytest_plugins = ["tests.browser", "tests.small_run"]

ROOT = pathlib.Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
GOLDENS = pathlib.Path(__file__).with_name("goldens")
DATA = pathlib.Path(os.environ.get("RELATIVE_ATTENTION_DATA", SHARED / "data"))


# On some AMD processors CTranslate2's other kernels of int8 are inexact; see
# `export_ctranslate2`. It reads this when it is loaded.
os.environ.setdefault("CT2_USE_MKL", "1")

# Imports make a million objects that stay; see `pytest_collection_finish`.
gc.disable()

# A shell starts what runs in the background with this signal ignored, and so
# would be the processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--first-case",
        action="store_true",
        help="of every test run only the first case of its parameters",
    )


def pytest_collection_modifyitems(config, items):
    if not config.getoption("first_case"):
        return
    first = {}
    for item in items:
        first.setdefault(item.nodeid.split("[")[0], item)
    kept = list(first.values())
    config.hook.pytest_deselected(
        items=[item for item in items if item not in kept]
    )
    items[:] = kept


def pytest_collection_finish(session):
    """Look for garbage rarely, and not among what the imports made."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(700, 10, 1000)


def pytest_runtest_setup(item):
    """Let no test depend on those before it; skip what is not for here."""
    import keras
    from keras.src.utils import naming

    # Keras draws its seeds from this generator. `keras.utils.set_random_seed`
    # would clear the kernels that TensorFlow keeps, and a layer with a new name
    # needs new ones for its variables: each takes half a millisecond.
    random.seed(1803)
    naming.reset_uids()
    marker = item.get_closest_marker("only_on")
    if marker and keras.backend.backend() not in marker.args:
        reason = marker.kwargs["reason"]
        pytest.skip(f"only on {' and '.join(marker.args)}: {reason}")
    marker = item.get_closest_marker("int8")
    if marker and not hasattr(keras.quantizers, "Int8QuantizationConfig"):
        pytest.skip("weights in int8 need Keras 3.13")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Give the memory of large models back at the end of a file.

    They are parts of cycles, and Python looks for those by the number of
    objects, of which a model with a gigabyte of weights has few. Small models
    are kept, as to look among them takes seconds, and Keras looks for garbage
    whenever it quantizes a layer.
    """
    if nextitem is None or nextitem.path != item.path:
        if {"large", "slow"} & set(item.keywords):
            gc.collect()
        else:
            gc.freeze()


class Golden(dict):
    """Arrays that tensor2tensor computed, as `tests/goldens/README.md` says.

    `info` says what they are, `case(number)` gives those of one case, and
    `checkpoint` is the folder of the model's checkpoint, if it has one.
    """

    def __init__(self, name):
        self.checkpoint = GOLDENS / "ckpt" / name
        self.info = json.loads((GOLDENS / f"{name}.json").read_text("utf-8"))
        arrays = GOLDENS / f"{name}.npz"
        super().__init__(np.load(arrays) if arrays.exists() else {})

    def case(self, number):
        """Returns what a case is and its arrays by name."""
        name = f"case{number}"
        (info,) = (c for c in self.info["cases"] if c["case"] == name)
        return info, {
            key.removeprefix(f"{name}/"): array
            for key, array in self.items()
            if key.startswith(f"{name}/")
        }


@pytest.fixture(scope="session")
def multi30k():
    """`multi30k("train.en")`: the lines of a file of Multi30k."""
    folder = DATA / "multi30k"
    if not folder.is_dir():
        pytest.skip(
            "Multi30k is missing: set RELATIVE_ATTENTION_DATA to the folder "
            "that holds multi30k"
        )
    return lambda name: list(read_lines(folder / f"{name}.gz"))


@pytest.fixture
def golden():
    """`golden("A1_relative_positions_matrix")`: see `Golden`."""
    return Golden


@pytest.fixture(scope="session")
def run_python():
    """`run_python(script, *words, **variables)`: what a new process prints."""

    def run(script, *words, cwd=ROOT, **variables):
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, words)],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def made_once(request, tmp_path_factory):
    """`made_once(name, make)`: a folder that `make(folder)` has filled.

    The first worker that asks for a name makes it for all workers, and others
    wait; so nothing in it may be changed.
    """
    shared = tmp_path_factory.getbasetemp()
    # Each of pytest-xdist's workers has a folder in that of the whole run.
    if hasattr(request.config, "workerinput"):
        shared = shared.parent

    def made_once(name, make):
        folder = shared / name
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                new = tmp_path_factory.mktemp(name)
                make(new)
                new.rename(folder)
        return folder

    return made_once


@pytest.fixture(scope="session")
def several(made_once):
    """Folder of the models `a`, `b`, `c`, and `stranger`; not to be changed.

    `stranger` has as many pieces as the others, but other ones.
    """
    return made_once("several", make_several)


def make_several(folder):
    import relative_attention as ra
    from tests.small_models import make_model
    from tests.small_models import train_vocabulary

    vocabulary = train_vocabulary(281)
    other = train_vocabulary(281, words="ein zwei drei vier fünf rot".split())
    assert len(other) == len(vocabulary)
    rng = np.random.default_rng(5)
    for name, pieces, fields in (
        ("a", vocabulary, {}),
        ("b", vocabulary, {"max_relative_position": 1}),
        ("c", vocabulary, {"hidden_dim": 12, "num_decoder_layers": 2}),
        ("stranger", other, {}),
    ):
        translator = ra.Translator(
            make_model(rng, **fields),
            pieces,
            # Other settings in each: those of the first count.
            num_beams=2 if name == "a" else 3,
            max_extra_length=4,
        )
        ra.save_translator(translator, folder / name)


@pytest.fixture(scope="session")
def joined(several):
    """The translator of `a`, `b` and `c` together."""
    import relative_attention as ra

    return ra.load_translator([several / name for name in "abc"])


@pytest.fixture
def eagerly():
    """Searches run step by step: a graph takes seconds to be made."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A working directory with nothing in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rng():
    return np.random.default_rng(1803)


@pytest.fixture
def gradients():
    """`gradients(function, arrays, variables)`, see `backend_gradients.py`."""
    from tests import backend_gradients

    return backend_gradients.gradients


@pytest.fixture(autouse=True)
def torch_tensors_are_arrays(monkeypatch):
    """NumPy reads tensors that have a gradient, as on the other backends."""
    import keras

    if keras.backend.backend() != "torch":
        return
    import torch

    as_array = torch.Tensor.__array__
    monkeypatch.setattr(
        torch.Tensor,
        "__array__",
        lambda tensor, *args, **kwargs: as_array(
            tensor.detach(), *args, **kwargs
        ),
    )
