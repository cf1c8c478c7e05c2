"""A student learns from its own text and from what its teachers make of it."""

import functools
import json
import shutil
import sys
import types

import numpy as np
import pytest
import sacrebleu

import relative_attention as ra
from relative_attention.runs.distilled_text import closest_translations
from relative_attention.saving import translate_text
from tests.runs.conftest import QUICK
from tests.runs.conftest import assert_same_arrays
from tests.runs.conftest import quick_training
from tests.runs.conftest import snapshot
from tests.small_models import make_model

# The package has a function of this name.
distill_module = sys.modules["relative_attention.runs.distill"]

AUTO = ("model.dropout=auto", "training.warmup_steps=auto")
NUM_LINES = 25
CHUNK_LINES = 10


@pytest.fixture(scope="module")
def texts(corpus, tmp_path_factory):
    """Folder of a corpus like `corpus`, with fewer and shorter lines.

    The training text is there in a third language, too.
    """
    folder = tmp_path_factory.mktemp("texts")
    for path in corpus.iterdir():
        lines = path.read_text().splitlines()[:NUM_LINES]
        short = [" ".join(line.split()[:6]) for line in lines]
        (folder / path.name).write_text("\n".join(short) + "\n")
    lines = [line[::-1] for line in lines_of(folder / "train.en")]
    (folder / "train.third").write_text("\n".join(lines) + "\n")
    (folder / "short.de").write_text("ein\n")
    return folder


@pytest.fixture(scope="module")
def sides(texts):
    """The lines of the source, the target and the third language."""
    return [lines_of(texts / f"train.{end}") for end in ("en", "de", "third")]


@pytest.fixture(scope="module")
def teachers(sides, tmp_path_factory):
    """Folders of three teachers with one vocabulary, and a stranger."""
    folder = tmp_path_factory.mktemp("teachers")
    lines = sides[0] + sides[1]
    rng = np.random.default_rng(2)
    for name in ("first", "second", "third", "stranger"):
        text = lines[:NUM_LINES] if name == "stranger" else lines
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
    return load_once(tuple(map(str, folders)), tuple(settings.items()))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(distill_module, "load_translator", load)
    monkeypatch.setattr(translate_text, "CHUNK_LINES", CHUNK_LINES)
    with quick_training():
        yield


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


@pytest.fixture
def no_training(monkeypatch):
    """The student is not trained; gives the arguments that it would be by."""
    calls = []
    monkeypatch.setattr(
        distill_module, "train", lambda *_, **named: calls.append(named)
    )
    return calls


@pytest.fixture
def no_translating(monkeypatch):
    """Nothing may be translated any more."""
    monkeypatch.setattr(
        ra.Translator, "search", lambda *_, **__: pytest.fail("it translates")
    )


def lines_of(path):
    # Untrained teachers write all manner of characters that end a line.
    return path.read_bytes().decode().removesuffix("\n").split("\n")


def learnt(output):
    """The two texts that a student learns from."""
    return [
        lines_of(output / "distilled" / f"train.{side}")
        for side in ("source", "target")
    ]


def origin_of(output):
    return json.loads((output / "distilled" / "origin.json").read_text())


# === What comes out ===


@pytest.mark.large
def test_student_learns_both_texts_with_the_teachers_vocabulary(
    distill, recipe, texts, sides, both, tmp_path
):
    output = tmp_path / "student"
    overrides = (*AUTO, "training.steps=1")
    results = distill(output, *overrides)
    source, target, _ = sides
    expected = load(both).translate(source)
    assert learnt(output) == [source * 2, target + expected]
    assert len(set(expected)) > NUM_LINES / 2
    # What was made on the way is gone.
    text = output / "distilled"
    assert sorted(path.name for path in text.iterdir()) == [
        "origin.json",
        "train.source",
        "train.target",
    ]
    origin = results["distilled_from"]
    assert [t["model"] for t in origin["teachers"]] == list(map(str, both))
    assert origin["backward"] == [] and not origin["separately"]
    assert (origin["num_beams"], origin["closest_of"]) == (2, None)
    # The same as a run of `train` on such a text, to the last digit.
    ra.train(
        recipe.override(
            [
                *QUICK,
                *overrides,
                f"data.source={text / 'train.source'}",
                f"data.target={text / 'train.target'}",
                f"vocabulary.model={both[0] / 'vocabulary.model'}",
            ]
        ),
        tmp_path / "same",
        data_directory=texts,
    )
    name = "model.safetensors"
    assert_same_arrays(output / name, tmp_path / "same" / name)
    student = ra.load_translator([output, *both])
    assert len(student.model.models) == 3
    # The languages of the recipe's text, `train.en` and `train.de`.
    assert student.source_language == "en"
    assert ra.find_recipe(output).decoding.target_language == "de"


@pytest.mark.large
def test_teachers_of_one_text_translate_as_an_ensemble(
    distill, texts, sides, teachers, both, tmp_path, no_training
):
    first, second = both
    stranger = teachers / "stranger"
    output = tmp_path / "student"
    distill(
        output,
        teachers=[first, f"{first}@train.third", second]
        + [f"{second}@train.third"],
        backward=[stranger, f"{stranger}@train.third"],
    )
    source, target, third = sides
    together, back = load(both), load([stranger], num_beams=2)
    forward = together.translate(source) + together.translate(third)
    backward = back.translate(target) + back.translate(third)
    assert learnt(output) == [
        [*source * 3, *backward],
        [*target, *forward, *target * 2],
    ]
    origin = origin_of(output)
    named = [t["model"] for t in origin["teachers"] + origin["backward"]]
    assert set(named) == {*map(str, [first, second, stranger])}
    texts_read = [t.get("text") for t in origin["backward"]]
    assert texts_read == [None, "train.third"]
    # It is among what the run reads: `--overwrite` never deletes it.
    record = json.loads((output / "run.json").read_text())
    assert record["files"]["train.third"] == str(texts / "train.third")


@pytest.mark.large
def test_closest_translation_is_learned(
    distill, sides, both, tmp_path, no_training
):
    output = tmp_path / "student"
    source = sides[0]
    translator = load(both, num_beams=3)
    lists = [translator.translate(source, num_results=n) for n in (1, 2, 3)]
    # Each text is once in a list, so one may be shorter than asked for. Where
    # the third best is what shall be learnt, the second may be as close.
    target = [lists[n % 3][n][-1] for n in range(len(source))]
    candidates = lists[1]
    bleu = sacrebleu.BLEU(effective_order=True)
    expected = [
        max(
            found,
            key=lambda text, line=line: bleu.sentence_score(text, [line]).score,
        )
        for found, line in zip(candidates, target)
    ]
    best = [found[0] for found in candidates]
    assert expected[1::3] == target[1::3] != best[1::3]
    (tmp_path / "target").write_text("\n".join(target) + "\n")

    asked = {"num_beams": 3, "closest_of": 2, "backward": both}
    distill(output, f"data.target={tmp_path / 'target'}", **asked)
    # Those of the other direction are the most probable ones.
    back = translator.translate(target)
    assert learnt(output) == [
        [*source * 2, *back],
        [*target, *expected, *target],
    ]
    assert origin_of(output)["closest_of"] == 2


@pytest.mark.large
def test_line_that_a_teacher_cuts_is_not_learned(
    distill, sides, both, tmp_path, no_training
):
    teacher = ra.load_translator(both[0])
    lengths = list(map(len, teacher.vocabulary.encode(sides[0])))
    # With the end, the longest half is cut.
    teacher.max_source_length = sorted(lengths)[NUM_LINES // 2] + 1
    ra.save_translator(teacher, tmp_path / "teacher")
    distill(tmp_path / "student", teachers=[tmp_path / "teacher"])
    _, target = learnt(tmp_path / "student")
    is_cut = [length >= teacher.max_source_length for length in lengths]
    assert {True, False} == set(is_cut)
    expected = teacher.translate(sides[0])
    assert target[NUM_LINES:] == [
        "" if cut else text for cut, text in zip(is_cut, expected)
    ]


def test_closest_translation_depends_on_the_tokenizer():
    texts = ("a q c q", "a b c d.", "q b c d .")
    candidates = [types.SimpleNamespace(text=text) for text in texts]
    for tokenize, expected in (("13a", "a b c d."), ("none", "q b c d .")):
        arguments = ([candidates], ["a b c d ."], tokenize)
        (found,) = closest_translations(*arguments)
        assert found.text == expected


@pytest.mark.large
def test_held_out_lines_are_not_translated(
    distill, sides, both, tmp_path, no_training
):
    output = tmp_path / "student"
    distill(
        output,
        "data.validation_source=null",
        "data.validation_target=null",
        "data.held_out=2",
        backward=[f"{both[0]}@train.third"],
        separately=True,
    )
    source, target = learnt(output)
    num_learnt = NUM_LINES - 2
    text = output / "distilled"
    held_out = lines_of(text / "held_out" / "validation.target")
    assert len(held_out) == 2
    assert len(source) == len(target) == 4 * num_learnt
    assert sorted(target[:num_learnt] + held_out) == sorted(sides[1])
    read = [line[::-1] for line in source[:num_learnt]]
    back = load(both[:1], num_beams=2).translate(read)
    assert source[3 * num_learnt :] == back
    distill(output, overwrite=True)
    assert not list(text.glob("held_out*"))


# === Interrupted ===


@pytest.mark.large
def test_interrupted_translation_resumes_with_the_next_chunk(
    distill, sides, both, tmp_path, no_training, monkeypatch
):
    output = tmp_path / "student"
    reported = []

    def stop(line):
        reported.append(line)
        if sum("translated 20" in line for line in reported) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(output, separately=True, report=stop)
    assert not no_training
    text = output / "distilled"
    first, second = (load([teacher]).translate(sides[0]) for teacher in both)
    assert lines_of(text / "translated-1") == first
    parts = text / "translated-2.parts"
    assert lines_of(parts / "00000001") == second[10:20]
    assert not (parts / "00000002").exists()
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
    lines = []
    distill(output, "training.seed=5", separately=True, report=lines.append)
    assert num_lines == [5]
    assert [named["resume"] for named in no_training] == [True]
    assert any("translated 25 of 25" in line for line in lines)
    assert learnt(output)[1][NUM_LINES:] == first + second


@pytest.mark.large
def test_interrupted_training_is_resumed_without_the_teachers(
    distill, tmp_path, request, both
):
    copies = [shutil.copytree(f, tmp_path / f.name) for f in both]
    output = tmp_path / "student"
    assert distill(output, "training.steps=2", teachers=copies)["steps"] == 2
    request.getfixturevalue("no_translating")
    assert distill(output, teachers=copies)["steps"] == 4
    for copy in copies:
        shutil.rmtree(copy)
    recipe = ra.find_recipe(output).override(["training.steps=6"])
    results = ra.train(recipe, output, resume=True)
    assert results["steps"] == 6
    assert len(results["distilled_from"]["teachers"]) == 2


# === Refused ===


@pytest.mark.large
def test_other_translations_are_refused_unless_overwritten(
    distill, texts, teachers, both, tmp_path
):
    student = tmp_path / "student"
    distill(student, "training.steps=1")
    changed = tmp_path / "changed.en"
    changed.write_text((texts / "train.en").read_text().replace("a", "o"))
    before = snapshot(student)
    for words, arguments, message in (
        ([], {"teachers": [both[0], teachers / "third"]}, "other teachers"),
        ([], {"num_beams": 1}, "other `--num-beams`"),
        ([], {"separately": True}, "other `--separately`"),
        ([], {"closest_of": 2}, "other `--closest-of`"),
        ([], {"backward": both}, "other teachers of the other direction"),
        ([f"data.source={changed}"], {}, "other training texts"),
    ):
        with pytest.raises(ra.InputError, match=f"{message}.*--overwrite"):
            distill(student, *words, **arguments)
    assert snapshot(student) == before
    for content in ("{", '{"teachers": [3]}'):
        (student / "distilled" / "origin.json").write_text(content)
        with pytest.raises(ra.InputError, match="origin.json is .*--overwrite"):
            distill(student)
    results = distill(student, "training.steps=1", num_beams=1, overwrite=True)
    assert results["distilled_from"]["num_beams"] == 1


@pytest.mark.parametrize(
    "names, arguments, message",
    [
        ([], {}, "`teachers` must be a list of at least one"),
        (["first", "absent"], {}, "No model directory at .*absent"),
        (["first", "stranger"], {}, "first and .*stranger, whose vocab"),
        (["first"], {"backward": "first"}, "`backward` must be a list"),
        (["first"], {"backward": ["@t.de"]}, "`backward` must .*MODEL@TEXT"),
        (["first@absent.de"], {}, "No text file absent.de"),
        (["first@short.de"], {}, "short.de with 1 lines, .*train.de with 25"),
        (["first"], {"closest_of": 3}, "`closest_of` must be .* beams, 2,"),
        (["first"], {"overrides": ["data.tokenized=true"]}, "tokenized"),
        (["first"], {"overrides": ["data.target_language=xx"]}, "'xx'"),
        (
            ["first"],
            {"overrides": ["data.variants=1"], "sign_ids": ()},
            "`data.variants` needs .* with bytes",
        ),
        (["first"], {"cluster": "{}"}, "One machine .* TF_CONFIG"),
        (["first"], {"backend": "torch"}, "tensorflow or jax"),
    ],
    ids=str,
)
def test_invalid_distillation_is_refused_before_any_work(
    distill, teachers, names, arguments, message, tmp_path, monkeypatch, request
):
    request.getfixturevalue("no_translating")
    arguments = dict(arguments)
    overrides = arguments.pop("overrides", [])
    if "sign_ids" in arguments:
        monkeypatch.setattr(
            ra.Vocabulary, "sign_ids", arguments.pop("sign_ids")
        )
    monkeypatch.setenv("TF_CONFIG", arguments.pop("cluster", ""))
    backend = arguments.pop("backend", "tensorflow")
    monkeypatch.setattr("keras.backend.backend", lambda: backend)
    with pytest.raises(ra.InputError, match=message) as error:
        distill(
            tmp_path / "student",
            *overrides,
            teachers=[teachers / name for name in names],
            **arguments,
        )
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_folder_of_a_teacher_or_of_another_run_is_refused(
    distill, both, copy, no_translating
):
    before = snapshot(both[0]), snapshot(copy)
    for arguments in (
        {"overwrite": True},
        {"teachers": both[1:], "backward": both[:1]},
    ):
        with pytest.raises(ra.InputError, match="folder of the student"):
            distill(both[0], **arguments)
    with pytest.raises(ra.InputError, match="`data.source` 'train.en'"):
        distill(copy)
    assert (snapshot(both[0]), snapshot(copy)) == before
