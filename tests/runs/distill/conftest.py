"""Small teachers, and students that are trained step by step."""

import functools
import sys

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.runs import run as training_run
from relative_attention.runs import translate_text
from tests.export.tiny_models import make_model
from tests.runs.conftest import QUICK

teachers_module = sys.modules["relative_attention.runs.teachers"]

NUM_LINES = 25
CHUNK_LINES = 10


@pytest.fixture(scope="module")
def texts(corpus, tmp_path_factory):
    """Folder of a corpus like `corpus`, with fewer and shorter lines."""
    folder = tmp_path_factory.mktemp("texts")
    for path in corpus.iterdir():
        lines = path.read_text().splitlines()[:NUM_LINES]
        short = [" ".join(line.split()[:6]) for line in lines]
        (folder / path.name).write_text("\n".join(short) + "\n")
    return folder


@pytest.fixture(scope="module")
def third_text(texts):
    """Lines of the training text in a third language, beside the others."""
    lines = [line[::-1] for line in lines_of(texts / "train.en")]
    (texts / "train.third").write_text("\n".join(lines) + "\n")
    return lines


@pytest.fixture(scope="module")
def teachers(texts, tmp_path_factory):
    """Folders of two teachers, of their vocabulary's size, and a stranger."""
    folder = tmp_path_factory.mktemp("teachers")
    lines = lines_of(texts / "train.en") + lines_of(texts / "train.de")
    rng = np.random.default_rng(2)
    for name, text in (
        ("first", lines),
        ("second", lines),
        ("third", lines),
        ("stranger", lines[:NUM_LINES]),
    ):
        vocabulary = ra.Vocabulary.train(text, 330)
        model = make_model(rng, vocabulary_size=len(vocabulary))
        ra.save_translator(
            ra.Translator(model, vocabulary, num_beams=2, max_extra_length=2),
            folder / name,
        )
    return folder


@pytest.fixture(scope="module")
def both(teachers):
    return [teachers / "first", teachers / "second"]


@functools.cache
def load_once(folders, settings):
    return ra.load_translator(folders, **dict(settings))


def load(folders, **settings):
    """Loads teachers, if they are whole, with the graphs that they have."""
    ra.load_translator(folders[:1])
    return load_once(tuple(folders), tuple(settings.items()))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Updates are made step by step, and nothing is scored at the end."""
    monkeypatch.setattr(teachers_module, "load_translator", load)
    build_model = training_run.build_model

    def build(*arguments):
        model = build_model(*arguments)
        model.run_eagerly = True
        return model

    def results_of(output, recipe, origin, history, translator, data):
        return {**origin, "steps": history[-1]["step"]}

    monkeypatch.setattr(training_run, "build_model", build)
    monkeypatch.setattr(training_run, "write_results", results_of)
    monkeypatch.setattr(training_run, "draw_curves", lambda *_: None)
    monkeypatch.setattr(translate_text, "CHUNK_LINES", CHUNK_LINES)


@pytest.fixture
def distill(recipe, texts, both):
    """`distill(output, "section.key=value", ..., **arguments)`."""

    def distill(output, *overrides, teachers=both, **arguments):
        return ra.distill(
            recipe.override([*QUICK, *overrides]),
            teachers,
            output,
            data_directory=texts,
            **arguments,
        )

    return distill


@pytest.fixture(scope="module")
def expected(texts, both):
    """What the two teachers together make of the training text."""
    translator = load(both)
    return translator.translate(lines_of(texts / "train.en"))


@pytest.fixture
def no_translating(monkeypatch):
    """Nothing may be translated any more."""
    monkeypatch.setattr(
        ra.Translator, "search", lambda *_, **__: pytest.fail("it translates")
    )


def lines_of(path):
    # Untrained teachers write all manner of characters that end a line.
    return path.read_bytes().decode().removesuffix("\n").split("\n")


def snapshot(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
