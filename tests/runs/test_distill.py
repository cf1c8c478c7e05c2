"""A student learns from its own text and from what its teachers make of it."""

import functools
import gc
import shutil
import sys
import weakref

import numpy as np
import pytest
from safetensors.numpy import load_file

import relative_attention as ra
from relative_attention.runs import training_run
from relative_attention.runs import translate_text
from tests.export.tiny_models import make_model
from tests.runs.conftest import QUICK

# The package has a function of this name.
distill_module = sys.modules["relative_attention.runs.distill"]

TRAINED = "model.safetensors"
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
    monkeypatch.setattr(distill_module, "load_translator", load)
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
    return path.read_text().splitlines()


def snapshot(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# === What comes out ===


def test_student_is_trained_on_both_texts_with_the_teachers_vocabulary(
    distill, recipe, texts, both, expected, tmp_path
):
    results = distill(tmp_path / "student")
    text = tmp_path / "student" / "distilled"
    source, target = (lines_of(texts / f"train.{end}") for end in ("en", "de"))
    assert lines_of(text / "train.source") == source + source
    assert lines_of(text / "train.target") == target + expected
    assert len(set(expected)) > NUM_LINES / 2
    # What was made on the way is gone.
    assert {path.name for path in text.iterdir()} == {
        "origin.json",
        "train.source",
        "train.target",
    }
    origin = results["distilled_from"]
    assert [t["model"] for t in origin["teachers"]] == list(map(str, both))
    assert origin["num_beams"] == 2
    # The same as a run of `train` on such a text, to the last digit.
    ra.train(
        recipe.override(
            [
                *QUICK,
                f"data.source={text / 'train.source'}",
                f"data.target={text / 'train.target'}",
                f"vocabulary.model={both[0] / 'vocabulary.model'}",
            ]
        ),
        tmp_path / "same",
        data_directory=texts,
    )
    one, other = (
        load_file(tmp_path / name / TRAINED) for name in ("student", "same")
    )
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    student = ra.load_translator([tmp_path / "student", *both])
    assert len(student.model.models) == 3


@pytest.mark.large
def test_lines_that_are_held_out_are_not_translated(distill, texts, tmp_path):
    distill(
        tmp_path / "student",
        "data.validation_source=null",
        "data.validation_target=null",
        "data.held_out=2",
        "training.steps=1",
    )
    text = tmp_path / "student" / "distilled"
    held_out = lines_of(text / "held_out" / "validation.target")
    assert len(held_out) == 2
    learnt = lines_of(text / "train.target")
    assert len(learnt) == 2 * (NUM_LINES - 2)
    assert sorted(learnt[: NUM_LINES - 2] + held_out) == sorted(
        lines_of(texts / "train.de")
    )


# === Interrupted ===


def test_interrupted_translation_goes_on_with_the_next_chunk(
    distill, expected, tmp_path, monkeypatch
):
    # It begins when all is translated.
    trained = []
    monkeypatch.setattr(
        distill_module, "train", lambda *_, **named: trained.append(named)
    )
    output = tmp_path / "student"
    reported = []

    def stop(line):
        if line.startswith("translated 20"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(output, report=stop)
    assert not trained
    text = output / "distilled"
    assert lines_of(text / "translated.partial") == expected[:20]
    assert not (text / "train.target").exists()
    # Other updates of the student are no reason to translate again.
    search = ra.Translator.search
    num_lines = []
    monkeypatch.setattr(
        ra.Translator,
        "search",
        lambda self, lines, *rest, **named: (
            num_lines.append(len(lines)) or search(self, lines, *rest, **named)
        ),
    )
    distill(output, "training.seed=5", report=reported.append)
    assert num_lines == [5]
    assert [named["resume"] for named in trained] == [True]
    assert any("translated 25 of 25" in line for line in reported)
    text = lines_of(output / "distilled" / "train.target")
    assert text[NUM_LINES:] == expected


def test_teachers_are_gone_when_the_student_is_trained(
    distill, tmp_path, monkeypatch
):
    """Their graphs, which lead back to them, keep no memory."""
    loaded = []

    def load_anew(folders, **settings):
        translator = ra.load_translator(folders, **settings)
        loaded.extend(map(weakref.ref, translator.model.models))
        return translator

    monkeypatch.setattr(distill_module, "load_translator", load_anew)
    monkeypatch.setattr(
        distill_module, "train", lambda *_, **__: [ref() for ref in loaded]
    )
    gc.disable()
    try:
        assert distill(tmp_path / "student") == [None, None]
    finally:
        gc.enable()


@pytest.mark.large
def test_interrupted_training_goes_on_without_the_teachers(
    distill, tmp_path, request, both
):
    copies = [shutil.copytree(f, tmp_path / f.name) for f in both]
    output = tmp_path / "student"
    assert distill(output, "training.steps=2", teachers=copies)["steps"] == 2
    request.getfixturevalue("no_translating")
    assert distill(output, teachers=copies)["steps"] == 4
    for copy in copies:
        shutil.rmtree(copy)
    results = ra.train(
        ra.find_recipe(output).override(["training.steps=6"]),
        output,
        resume=True,
    )
    assert results["steps"] == 6
    assert len(results["distilled_from"]["teachers"]) == 2


# === What is refused, and what is lost by it: nothing ===


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return tmp_path_factory.mktemp("finished")


@pytest.fixture
def student(distill, finished, tmp_path):
    """A finished run that may be changed."""
    if not (finished / "student").exists():
        distill(finished / "student", "training.steps=1")
    return shutil.copytree(finished / "student", tmp_path / "student")


@pytest.mark.large
def test_other_teachers_are_refused_until_told_to_overwrite(
    distill, student, teachers, both
):
    before = snapshot(student)
    for arguments, message in (
        ({"teachers": [both[0], teachers / "third"]}, "other teachers"),
        ({"teachers": both[:1]}, "other teachers"),
        ({"num_beams": 1}, "other `--num-beams`"),
    ):
        with pytest.raises(ra.InputError, match=f"{message}.*--overwrite"):
            distill(student, **arguments)
    assert snapshot(student) == before
    results = distill(student, "training.steps=1", num_beams=1, overwrite=True)
    assert results["distilled_from"]["num_beams"] == 1


@pytest.mark.large
def test_changed_text_is_refused(distill, recipe, student, texts, tmp_path):
    changed = shutil.copytree(texts, tmp_path / "changed")
    (changed / "train.en").write_text(
        (changed / "train.en").read_text().replace("a", "o")
    )
    before = snapshot(student)
    with pytest.raises(ra.InputError, match="other training texts"):
        distill(student, f"data.source={changed / 'train.en'}")
    assert snapshot(student) == before


@pytest.mark.large
@pytest.mark.parametrize("content", [None, "{", "{}", '{"teachers": [3]}'])
def test_translations_of_unknown_origin_are_refused(distill, student, content):
    origin = student / "distilled" / "origin.json"
    if content is None:
        origin.unlink()
    else:
        origin.write_text(content)
    before = snapshot(student)
    with pytest.raises(ra.InputError, match="origin.json is .*--overwrite"):
        distill(student)
    assert snapshot(student) == before


@pytest.mark.parametrize(
    "names, arguments, message",
    [
        ([], {}, "`teachers` must be a list of at least one"),
        (["first", "absent"], {}, "No model directory at .*absent"),
        (["first", "stranger"], {}, "first and .*stranger, whose vocab"),
        (["first"], {"num_beams": 0}, "`num_beams` must be at least 1"),
        (["first"], {"overrides": ["data.tokenized=true"]}, "tokenized"),
        (["first"], {"overrides": ["data.source=absent"]}, "No text file"),
        (
            ["first"],
            {"overrides": ["training.start_from=absent"]},
            "No model to start from",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_before_any_work(
    distill, teachers, names, arguments, message, tmp_path, no_translating
):
    overrides = arguments.get("overrides", [])
    arguments = {k: v for k, v in arguments.items() if k != "overrides"}
    with pytest.raises(ra.InputError, match=message) as error:
        distill(
            tmp_path / "student",
            *overrides,
            teachers=[teachers / name for name in names],
            **arguments,
        )
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_teacher_is_not_the_student(distill, both, no_translating):
    before = snapshot(both[0])
    for overwrite in (False, True):
        with pytest.raises(ra.InputError, match="folder of the student"):
            distill(both[0], overwrite=overwrite)
    assert snapshot(both[0]) == before


def test_several_machines_are_refused(distill, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(ra.InputError, match="One machine .* TF_CONFIG"):
        distill(tmp_path / "student")


def test_run_of_another_recipe_is_refused(distill, quick_run):
    before = snapshot(quick_run)
    with pytest.raises(ra.InputError, match="`data.source` 'train.en'"):
        distill(quick_run)
    assert snapshot(quick_run) == before
