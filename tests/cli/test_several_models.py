"""Commands with several models, as a user types them."""

import numpy as np
import pytest

import relative_attention as ra
from tests.several_models import SENTENCES

TEXT = "".join(f"{line}\n" for line in SENTENCES)


@pytest.fixture(autouse=True)
def in_the_folder(several, monkeypatch):
    """Models by their short names."""
    monkeypatch.chdir(several)


@pytest.fixture
def loaded(joined, monkeypatch):
    """Commands find the three models loaded, and their graphs made."""

    def load(directories, **settings):
        assert directories == ["a", "b", "c"]
        return ra.Translator(**{**vars(joined), **settings})

    monkeypatch.setattr("relative_attention.saving.load_translator", load)


@pytest.fixture(scope="module")
def expected(joined):
    return joined.translate(SENTENCES)


@pytest.fixture
def texts(tmp_path):
    """Source and target, without the empty line."""
    paths = tmp_path / "source", tmp_path / "target"
    for path, lines in zip(paths, (SENTENCES, SENTENCES[::-1])):
        path.write_text("".join(f"{line}\n" for line in lines if line))
    return paths


def test_translate_takes_models_wherever_they_stand(run, loaded, expected):
    wanted = "".join(f"{line}\n" for line in expected)
    for words in (["a", "b", "c"], ["a", "--batch-tokens", "8192", "b", "c"]):
        status, out, err = run("translate", *words, stdin=TEXT.encode())
        assert (status, out, err) == (0, wanted, "")


def test_score_is_that_of_the_ensemble(run, loaded, joined, texts):
    source, target = texts
    status, out, _ = run(
        "score", "a", "b", "c", "--source", source, "--target", target
    )
    assert status == 0
    wanted = ra.score_translations(
        joined, *(path.read_text().splitlines() for path in texts)
    )
    found = np.array([line.split("\t") for line in out.splitlines()], float)
    np.testing.assert_allclose(
        found,
        [(score.log_probability, score.num_tokens) for score in wanted],
        atol=1e-5,
    )


@pytest.mark.large
def test_evaluate_compares_the_ensemble_with_one_of_its_models(run, texts):
    source, target = texts
    status, out, err = run(
        "evaluate", "a", "b", "--source", source, "--reference", target,
        "--metrics", "bleu", "--compare", "a", "--resamples", "40",
    )  # fmt: skip
    assert status == 0, err
    assert "a + b" in out


# === What is refused ===


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "a", "b", "stranger"),
        ("score", "a", "stranger", "--source", "F", "--target", "F"),
        ("evaluate", "a", "stranger", "--source", "F", "--reference", "F"),
        ("export", "a", "stranger", "new", "--format", "saved_model"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_models_of_other_vocabularies_are_named(run, several, texts, arguments):
    arguments = [texts[0] if word == "F" else word for word in arguments]
    status, out, err = run(*arguments, stdin=TEXT.encode())
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "a and stranger, whose vocabularies (of 281 and 281 pieces)" in err
    assert not (several / "new").exists()


def test_folder_that_is_missing_is_named(run):
    status, out, err = run("translate", "a", "absent", stdin=TEXT.encode())
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "No model directory at absent" in err


@pytest.mark.parametrize("format", ["ctranslate2", "model"])
def test_formats_of_one_model_refuse_several(run, several, format):
    status, out, err = run("export", "a", "b", "new", "--format", format)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"format {format} is one model" in err and "a, b" in err
    assert not (several / "new").exists()


def test_export_without_a_folder_to_make_is_an_error(run, capsys):
    with pytest.raises(SystemExit):
        run("export", "a", "--format", "saved_model")
    assert "a MODEL and the OUTPUT folder" in capsys.readouterr().err
