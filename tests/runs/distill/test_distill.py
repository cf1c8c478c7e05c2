"""A student learns from its own text and from what its teachers make of it."""

import gc
import json
import shutil
import sys
import weakref

import numpy as np
import pytest
import sacrebleu
from safetensors.numpy import load_file

import relative_attention as ra
from tests.runs.conftest import QUICK
from tests.runs.distill.conftest import NUM_LINES
from tests.runs.distill.conftest import lines_of
from tests.runs.distill.conftest import load
from tests.runs.distill.conftest import snapshot
from tests.runs.distill.conftest import teachers_module

# The package has a function of this name.
distill_module = sys.modules["relative_attention.runs.distill"]

TRAINED = "model.safetensors"


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
    assert origin["backward"] == [] and not origin["separately"]
    assert origin["closest_of"] is None
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


def test_teachers_translate_separately_and_backward(
    distill, texts, teachers, both, tmp_path
):
    stranger = teachers / "stranger"
    results = distill(
        tmp_path / "student",
        "training.steps=1",
        backward=[stranger],
        separately=True,
    )
    text = tmp_path / "student" / "distilled"
    source, target = (lines_of(texts / f"train.{end}") for end in ("en", "de"))
    back = load([stranger], num_beams=2).translate(target)
    assert lines_of(text / "train.source") == [*source * 3, *back]
    first, second = (load([teacher]).translate(source) for teacher in both)
    expected = [*target, *first, *second, *target]
    assert lines_of(text / "train.target") == expected
    origin = results["distilled_from"]
    assert [t["model"] for t in origin["backward"]] == [str(stranger)]
    assert origin["separately"]
    assert not list(text.glob("translated*"))


def test_teachers_read_a_third_language(
    distill, texts, third_text, teachers, both, tmp_path, monkeypatch
):
    monkeypatch.setattr(distill_module, "train", lambda *_, **__: None)
    first, second = both
    stranger = teachers / "stranger"
    output = tmp_path / "student"
    distill(
        output,
        teachers=[first, f"{second}@train.third"],
        backward=[stranger, f"{stranger}@train.third"],
        separately=True,
    )
    text = output / "distilled"
    source, target = (lines_of(texts / f"train.{end}") for end in ("en", "de"))
    back = load([stranger], num_beams=2)
    forward = load([first]).translate(source)
    forward += load([second], num_beams=2).translate(third_text)
    assert lines_of(text / "train.target") == [*target, *forward, *target * 2]
    backward = back.translate(target) + back.translate(third_text)
    assert lines_of(text / "train.source") == [*source * 3, *backward]
    origin = json.loads((text / "origin.json").read_text())
    named = [t["model"] for t in origin["teachers"] + origin["backward"]]
    assert named == list(map(str, [first, second, stranger, stranger]))
    texts_read = [t.get("text") for t in origin["backward"]]
    assert texts_read == [None, "train.third"]
    # It is among what the run reads: `--overwrite` never deletes it.
    record = json.loads((output / "run.json").read_text())
    assert record["files"]["train.third"] == str(texts / "train.third")


def test_teachers_that_read_one_text_translate_it_together(
    distill, texts, third_text, both, tmp_path, monkeypatch
):
    monkeypatch.setattr(distill_module, "train", lambda *_, **__: None)
    first, second = both
    names = [f"{first}@train.third", first, f"{second}@train.third", second]
    distill(tmp_path / "student", teachers=names[::-1], backward=names[::2])
    text = tmp_path / "student" / "distilled"
    source, target = (lines_of(texts / f"train.{end}") for end in ("en", "de"))
    of_third = load((second, first)).translate(third_text)
    of_source = load((second, first)).translate(source)
    assert lines_of(text / "train.target") == [
        *target,
        *of_source,
        *of_third,
        *target,
    ]
    back = load(both).translate(third_text)
    assert lines_of(text / "train.source") == [*source * 3, *back]


@pytest.mark.parametrize("interrupted", [False, True])
def test_closest_of_the_best_translations_is_learnt(
    distill, texts, both, tmp_path, monkeypatch, interrupted
):
    monkeypatch.setattr(distill_module, "train", lambda *_, **__: None)
    output = tmp_path / "student"
    source = lines_of(texts / "train.en")
    translator = load(both, num_beams=3)
    candidates = translator.translate(source, num_results=3)
    # Where the third best is what shall be learnt, the second may be as close.
    target = [found[n % 3] for n, found in enumerate(candidates)]
    bleu = sacrebleu.BLEU(effective_order=True)
    expected = [
        max(
            found[:2],
            key=lambda text, line=line: bleu.sentence_score(text, [line]).score,
        )
        for found, line in zip(candidates, target)
    ]
    assert (
        expected[1::3]
        == target[1::3]
        != [found[0] for found in candidates[1::3]]
    )
    (tmp_path / "target").write_text("\n".join(target) + "\n")

    def stop(line):
        raise KeyboardInterrupt

    words = [output, f"data.target={tmp_path / 'target'}"]
    asked = {"num_beams": 3, "closest_of": 2, "backward": both}
    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            distill(*words, report=stop, **asked)
    distill(*words, **asked)
    text = output / "distilled"
    assert lines_of(text / "train.target") == [*target, *expected, *target]
    # Those of the other direction are the most probable ones.
    back = translator.translate(target)
    assert lines_of(text / "train.source") == [*source, *source, *back]
    origin = json.loads((text / "origin.json").read_text())
    assert origin["closest_of"] == 2


@pytest.mark.large
def test_held_out_lines_of_a_third_language_are_not_translated(
    distill, texts, third_text, both, tmp_path, monkeypatch
):
    monkeypatch.setattr(distill_module, "train", lambda *_, **__: None)
    output = tmp_path / "student"
    distill(
        output,
        "data.validation_source=null",
        "data.validation_target=null",
        "data.held_out=2",
        backward=[f"{both[0]}@train.third"],
        separately=True,
    )
    text = output / "distilled"
    num_learnt = NUM_LINES - 2
    learnt = lines_of(text / "train.source")[:num_learnt]
    read = [line[::-1] for line in learnt]
    back = load(both[:1], num_beams=2).translate(read)
    assert lines_of(text / "train.source")[3 * num_learnt :] == back
    distill(output, overwrite=True)
    assert not list(text.glob("held_out*"))


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
    assert lines_of(text / "translated-1.partial") == expected[:20]
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


def test_interrupted_translation_by_the_second_teacher_goes_on(
    distill, texts, both, tmp_path, monkeypatch
):
    monkeypatch.setattr(distill_module, "train", lambda *_, **__: None)
    output = tmp_path / "student"
    reported = []

    def stop(line):
        reported.append(line)
        if sum("translated 10" in line for line in reported) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(output, separately=True, report=stop)
    text = output / "distilled"
    source = lines_of(texts / "train.en")
    first, second = (load([teacher]).translate(source) for teacher in both)
    assert lines_of(text / "translated-1") == first
    assert lines_of(text / "translated-2.partial") == second[:10]
    distill(output, separately=True)
    assert lines_of(text / "train.target")[NUM_LINES:] == first + second


def test_teachers_are_gone_when_the_student_is_trained(
    distill, tmp_path, monkeypatch
):
    """Their graphs, which lead back to them, keep no memory."""
    loaded = []

    def load_anew(folders, **settings):
        translator = ra.load_translator(folders, **settings)
        loaded.extend(map(weakref.ref, translator.model.models))
        return translator

    monkeypatch.setattr(teachers_module, "load_translator", load_anew)
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
        ({"separately": True}, "other `--separately`"),
        ({"closest_of": 2}, "other `--closest-of`"),
        ({"backward": both}, "other teachers of the other direction"),
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
def test_changed_text_of_a_teacher_is_refused(
    distill, both, texts, tmp_path, monkeypatch
):
    monkeypatch.setattr(distill_module, "train", lambda *_, **__: None)
    third = shutil.copy(texts / "train.de", tmp_path / "third")
    arguments = {"backward": [f"{both[0]}@{third}"], "separately": True}
    distill(tmp_path / "student", **arguments)
    third.write_text(third.read_text().replace("e", "i"))
    with pytest.raises(ra.InputError, match="of the other direction, or text"):
        distill(tmp_path / "student", **arguments)


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
        (["first"], {"backward": ["absent"]}, "No model directory at absent"),
        (["first"], {"backward": "first"}, "`backward` must be a list"),
        (["first@"], {}, "`teachers` must .*MODEL@TEXT"),
        (
            ["first"],
            {"backward": ["@train.de"]},
            "`backward` must .*MODEL@TEXT.*'@train.de'",
        ),
        (["first@absent.de"], {}, "No text file absent.de"),
        (["first@short.de"], {}, "short.de with 1 lines, .*train.de with 25"),
        (
            ["first"],
            {"backward": ["absent@train.de"]},
            "No model directory at absent",
        ),
        (
            ["first@train.de", "stranger@train.de"],
            {},
            "first and .*stranger, whose vocab",
        ),
        (["first"], {"num_beams": 0}, "`num_beams` must be at least 1"),
        (["first"], {"overrides": ["data.tokenized=true"]}, "tokenized"),
        (["first"], {"overrides": ["data.source=absent"]}, "No text file"),
        (["first"], {"overrides": ["data.target_language=xx"]}, "'xx'"),
        (
            ["first"],
            {"overrides": ["training.start_from=absent"]},
            "No model to start from",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_before_any_work(
    distill, texts, teachers, names, arguments, message, tmp_path, request
):
    request.getfixturevalue("no_translating")
    (texts / "short.de").write_text("ein\n")
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
        with pytest.raises(ra.InputError, match="folder of the student"):
            distill(both[0], teachers=both[1:], backward=both[:1])
    assert snapshot(both[0]) == before


def test_several_machines_are_refused(distill, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(ra.InputError, match="One machine .* TF_CONFIG"):
        distill(tmp_path / "student")


def test_backend_that_cannot_train_is_refused_before_any_work(
    distill, no_translating, tmp_path, monkeypatch
):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(ra.InputError, match="`training.devices` must be 1"):
        distill(tmp_path / "student", "training.devices=2")
    monkeypatch.setattr("keras.backend.backend", lambda: "torch")
    with pytest.raises(ra.InputError, match="tensorflow or jax"):
        distill(tmp_path / "student")
    assert not list(tmp_path.iterdir())


def test_run_of_another_recipe_is_refused(distill, quick_run):
    before = snapshot(quick_run)
    with pytest.raises(ra.InputError, match="`data.source` 'train.en'"):
        distill(quick_run)
    assert snapshot(quick_run) == before


@pytest.mark.parametrize("closest_of", [0, 3, True, 1.5])
def test_numbers_of_candidates_that_no_search_finds_are_refused(
    distill, no_translating, tmp_path, closest_of
):
    message = "`closest_of` must be an int from 1 to the number of beams, 2,"
    with pytest.raises(ra.InputError, match=message):
        distill(tmp_path / "student", closest_of=closest_of)
    assert not (tmp_path / "student").exists()
