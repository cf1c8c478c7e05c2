"""`relative-attention score`, as a user types it."""

import gzip
import math
import re

import pytest

import relative_attention as ra
from relative_attention.cli import main

pytestmark = pytest.mark.usefixtures("load_once")


@pytest.fixture
def texts(corpus):
    return {"--source": corpus / "test.en", "--target": corpus / "test.de"}


@pytest.fixture(scope="module")
def scores(shared_translator, corpus):
    return ra.score_translations(
        shared_translator,
        lines_of(corpus / "test.en"),
        lines_of(corpus / "test.de"),
    )


@pytest.fixture(scope="module")
def expected(scores):
    return "".join(
        f"{score.log_probability:.6f}\t{score.num_tokens}\n" for score in scores
    )


def options(texts):
    return [part for option in texts.items() for part in option]


def lines_of(path):
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_scores_stand_on_lines_and_totals_on_standard_error(
    run, trained, texts, scores, expected
):
    status, out, err = run("score", trained, *options(texts))
    assert (status, out) == (0, expected)
    total = sum(score.log_probability for score in scores)
    num_tokens = sum(score.num_tokens for score in scores)
    perplexity = math.exp(-total / num_tokens)
    assert err == (
        f"20 pairs, {num_tokens:,} tokens, log-probability {total:.4f}, "
        f"perplexity {perplexity:.4f}\n"
    )


def test_compressed_text_is_read_and_a_file_written_when_asked_for(
    run, trained, texts, expected, tmp_path
):
    for option, path in texts.items():
        texts[option] = tmp_path / f"{path.name}.gz"
        texts[option].write_bytes(gzip.compress(path.read_bytes()))
    output = tmp_path / "new" / "scores.tsv"
    status, out, err = run(
        "score", trained, *options(texts), "--output", output
    )
    assert (status, out) == (0, "")
    assert "perplexity" in err
    assert output.read_text() == expected


@pytest.mark.parametrize("side", ["--source", "--target"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\n", "20 lines.* 1\\.|1 lines.* 20\\."),
        (b"one\n" * 6 + b"f\xfcr\n" + b"one\n" * 13, "line 7: not valid UTF-8"),
        (b"one\n" * 6 + b" \n" + b"one\n" * 13, "line 7 is empty"),
        (b"one\n" * 6 + b"\n" + b"one\n" * 13, "line 7 is empty"),
        (b"one\n" * 19 + b"x" * 3000 + b"\n", "3,0.. tokens on line 20"),
        (b"", "with 0"),
        (None, "No such file"),
    ],
    ids=["unequal", "latin", "blank", "empty", "long", "nothing", "missing"],
)
def test_unusable_text_is_named_and_nothing_written(
    side, content, message, run, trained, texts, tmp_path
):
    texts[side] = tmp_path / "text"
    if content is not None:
        texts[side].write_bytes(content)
    output = tmp_path / "scores.tsv"
    output.write_text("as before")
    for arguments in ([], ["--output", output]):
        status, out, err = run("score", trained, *options(texts), *arguments)
        assert (status, out) == (1, "")
        assert err.startswith("relative-attention: ") and err.count("\n") == 1
        assert re.search(message, err), err
        # What is too long was encoded, and its file is an argument by then.
        assert (
            f"`{side[2:]}s`" if "tokens" in err else str(texts[side])
        ) in err
    assert output.read_text() == "as before"
    assert {path.name for path in tmp_path.iterdir()} <= {"text", "scores.tsv"}


def test_output_that_is_a_folder_is_refused(run, trained, texts, tmp_path):
    status, out, err = run(
        "score", trained, *options(texts), "--output", tmp_path
    )
    assert (status, out) == (1, "")
    assert f"{tmp_path} is a folder" in err


def test_output_below_a_file_is_refused(run, trained, texts, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = run(
        "score", trained, *options(texts), "--output", tmp_path / "file" / "x"
    )
    assert status == 1
    assert f"{tmp_path / 'file'} is no folder" in err


def test_missing_model_is_refused(run, texts, tmp_path):
    status, out, err = run("score", tmp_path / "absent", *options(texts))
    assert (status, out) == (1, "")
    assert "No model directory" in err


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    example = capsys.readouterr().out.split("example:")[1]
    assert "relative-attention score" in example
