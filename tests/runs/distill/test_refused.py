"""What `distill` refuses, and what is lost by it: nothing."""

import shutil
import sys

import pytest

import relative_attention as ra
from tests.runs.distill.conftest import snapshot


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
    distill_module = sys.modules["relative_attention.runs.distill"]
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
