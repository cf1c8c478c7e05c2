"""`relative-attention score` and `evaluate`."""

import gzip
import json
import math
import os
import re
import shutil
import sys

import pytest

import relative_attention as ra
from relative_attention.evaluation.significance import bootstrap_table
from tests.cli.conftest import check_refused

pytestmark = pytest.mark.usefixtures("load_once")


# === score ===


@pytest.fixture
def texts(corpus):
    return {"--source": corpus / "test.en", "--target": corpus / "test.de"}


@pytest.fixture
def score(run, model, texts):
    """`score(*options)`: of `texts`, which a test may change."""

    def score(*options):
        named = [word for option in texts.items() for word in option]
        return run("score", model, *named, *options)

    return score


def test_score_prints_lines_and_reports_totals(
    score, texts, translator, pairs, tmp_path
):
    scores = ra.score_translations(translator, *pairs)
    expected = "".join(
        f"{score.log_probability:.6f}\t{score.num_tokens}\n" for score in scores
    )
    total = sum(score.log_probability for score in scores)
    num_tokens = sum(score.num_tokens for score in scores)
    perplexity = math.exp(-total / num_tokens)
    told = (
        f"20 pairs, {num_tokens:,} tokens, log-probability {total:.4f}, "
        f"perplexity {perplexity:.4f}\n"
    )
    assert score() == (0, expected, told)
    for option, path in texts.items():
        texts[option] = tmp_path / f"{path.name}.gz"
        texts[option].write_bytes(gzip.compress(path.read_bytes()))
    output = tmp_path / "new" / "scores.tsv"
    assert score("--output", output) == (0, "", told)
    assert output.read_text() == expected
    _, out, _ = score("--tokens")
    for line, (_, target) in zip(out.splitlines(), zip(*pairs), strict=True):
        total, count, tokens = line.split("\t")
        pieces, numbers = zip(*json.loads(tokens))
        assert sum(numbers) == pytest.approx(float(total), abs=1e-4)
        assert len(pieces) == int(count)
        ids = translator.vocabulary.encode([target])[0]
        assert list(pieces[:-1]) == translator.vocabulary.pieces(ids)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_score_reads_pipes(score, texts):
    """As a shell's `<(...)`, which can be read once."""
    read, write = os.pipe()
    os.write(write, texts["--source"].read_bytes())
    os.close(write)
    texts["--source"] = f"/dev/fd/{read}"
    status, out, err = score()
    os.close(read)
    assert status == 0, err
    assert out.count("\n") == 20


def test_nothing_is_written_when_text_cannot_be_scored(score, texts, tmp_path):
    output = tmp_path / "scores.tsv"
    output.write_text("as before")
    texts["--source"] = tmp_path / "text"
    for content, message in (
        (b"one\n", "with 1 lines.*with 20"),
        (b"one\n" * 6 + b" \xe2\x80\x8b\n" * 14, "line 7 is empty"),
        (b"one\n" * 19 + b"x" * 3000, "3,0.. tokens on line 20"),
    ):
        texts["--source"].write_bytes(content)
        check_refused(score("--output", output), message)
        assert output.read_text() == "as before"


def test_score_is_refused_for_empty_text_or_a_folder(score, texts, tmp_path):
    check_refused(score("--output", tmp_path), f"{tmp_path} is a folder")
    texts["--source"] = texts["--target"] = tmp_path / "empty"
    (tmp_path / "empty").touch()
    check_refused(score(), "there is nothing to score")


# === evaluate ===


@pytest.fixture
def evaluate(run, model, corpus):
    def evaluate(*options):
        source, reference = corpus / "test.en", corpus / "test.de"
        texts = ("--source", source, "--reference", reference)
        return run("evaluate", model, *texts, *options)

    return evaluate


@pytest.fixture(scope="module")
def translations(translator, pairs):
    return translator.search(pairs[0])


@pytest.fixture(scope="module")
def hypotheses(translations):
    return [translation.text for translation in translations]


def test_every_metric_is_printed_with_its_signature(
    evaluate, hypotheses, pairs, tmp_path
):
    path = tmp_path / "hypotheses"
    status, out, err = evaluate("--hypotheses", path)
    assert (status, err) == (0, "")
    scores = ra.corpus_scores(hypotheses, pairs[1])
    assert out == "".join(f"{score}\n" for score in scores.values())
    names = ["BLEU", "chrF2", "chrF2++", "TER"]
    assert re.findall("^[^ ]+", out, re.M) == names
    assert path.read_text("utf-8").splitlines() == hypotheses


def test_moses_tokenizer_is_printed_beside_cased_13a(
    evaluate, hypotheses, pairs
):
    options = ("--tokenizer", "moses", "--language", "de", "--lowercase")
    status, out, _ = evaluate(*options, "--metrics", "bleu")
    assert status == 0
    cased = ra.corpus_bleu(hypotheses, pairs[1])
    moses = ra.corpus_bleu(hypotheses, pairs[1], True, "moses-de")
    assert out == f"{cased}\n{moses}\n"
    assert "case:mixed" in out and "case:lc|eff:no|tok:moses-de" in out


def test_sentence_scores_are_written_with_the_models(
    evaluate, hypotheses, translations, pairs, tmp_path
):
    path = tmp_path / "scores.tsv"
    options = ("--metrics", "chrf", "bleu", "--lowercase")
    status, out, _ = evaluate(*options, "--sentence-scores", path)
    assert status == 0
    assert re.findall("^[^ ]+", out, re.M) == ["chrF2", "BLEU"]
    assert out.count("case:lc") == 2
    columns = ra.sentence_scores(
        hypotheses, pairs[1], ["chrf", "bleu"], lowercase=True
    )
    columns["model"] = [translation.score for translation in translations]
    header, *rows = (line.split("\t") for line in path.read_text().splitlines())
    assert header == ["chrf", "bleu", "model"]
    assert rows == [
        [f"{value:.4f}" for value in row] for row in zip(*columns.values())
    ]


def test_model_is_compared_with_another_and_with_a_file(
    evaluate, model, hypotheses, pairs, corpus, tmp_path
):
    copy, figure = tmp_path / "copy", tmp_path / "length.png"
    shutil.copytree(model, copy)
    target = corpus / "test.de"
    status, out, _ = evaluate(
        *("--compare", copy, "--compare", target, "--plot", figure),
        *("--metrics", "bleu", "chrf", "--resamples", "50"),
        *("--num-beams=3", "--min-length=4", "--max-length=6"),
    )
    assert status == 0
    systems = {
        str(model): hypotheses,
        str(copy): hypotheses,
        str(target): list(pairs[1]),
    }
    results = ra.paired_bootstrap(
        systems, pairs[1], ["bleu", "chrf"], num_resamples=50
    )
    _, _, table = out.partition("\n\n")
    assert table == f"{bootstrap_table(results)}\n"
    # Identical, and perfect.
    assert [r.p_value for r in results["bleu"]][1] == 1
    assert [r.p_value for r in results["bleu"]][2] < 0.05
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_evaluate_is_refused_before_translating(
    evaluate, model, corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        ra.Translator, "search", lambda *_, **__: pytest.fail("it translates")
    )
    short, target = tmp_path / "short", corpus / "test.de"
    short.write_text("one\n")
    table = tmp_path / "table"
    table.write_text("1\t-0.5\tein Text\n" * 20)
    for options, message in (
        (["--compare", short], "short with 1 lines.*with 20"),
        (["--compare", tmp_path], f"{tmp_path} is no model directory"),
        (
            ["--compare", target, "--compare", target],
            f"`{target}` is compared with itself",
        ),
        (["--compare", f"{model}/"], f"`{model}/` is compared with itself"),
        (["--compare", table], "table has a tab.*cut -f"),
        (["--reference", table], "table has a tab.*cut -f"),
        (["--resamples", "39"], "`num_resamples` must be at least 40"),
        (["--resamples", "1" * 12], "`num_resamples` must be at most 100,000"),
        (["--tokenizer", "ko-mecab"], r"sacrebleu\[ko\]"),
        (["--tokenizer", "moses"], "go together.*moses, --language None"),
    ):
        check_refused(evaluate(*options), message)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = r"pip install '\.\[plot\]'"
    check_refused(evaluate("--plot", "absent.png"), message)


# === evaluate files of translations ===


@pytest.fixture
def files(corpus, pairs, tmp_path):
    """Two files of translations, the second perfect, and the reference."""
    first = tmp_path / "first.de"
    first.write_text("".join(f"{line} und\n" for line in pairs[1]))
    return first, corpus / "test.de", ("--reference", corpus / "test.de")


def test_files_of_translations_are_scored_and_compared(run, files, pairs):
    first, second, reference = files
    texts = {first: [f"{line} und" for line in pairs[1]], second: pairs[1]}
    names = {str(path): list(lines) for path, lines in texts.items()}
    results = ra.paired_bootstrap(names, pairs[1], num_resamples=50)
    scores = ra.corpus_scores(texts[first], pairs[1])
    expected = [*map(str, scores.values()), "", bootstrap_table(results), ""]
    for compared in ([second], ["--compare", second]):
        words = [first, *compared, *reference, "--resamples", "50"]
        assert run("evaluate", *words) == (0, "\n".join(expected), "")
    status, out, _ = run("evaluate", first, *reference, "--reference", first)
    scores = ra.corpus_scores(texts[first], [pairs[1], texts[first]])
    assert (status, out.count("nrefs:2")) == (0, 4)
    assert out == "".join(f"{score}\n" for score in scores.values())


def test_references_without_blanks_choose_the_tokenizer(run, tmp_path):
    path = tmp_path / "test.zh"
    path.write_text("我今天很高兴见到你。\n" * 2)
    status, out, _ = run("evaluate", path, "--reference", path)
    assert status == 0
    assert out.startswith("BLEU 100.00") and "tok:zh" in out


def test_options_of_models_are_refused_for_files(run, files, model, corpus):
    first, second, reference = files
    for options, message in (
        ((first, "--num-beams", "3"), "--num-beams is for models"),
        ((first, "--hypotheses", "new"), "--hypotheses is for models"),
        ((first, "--plot", "new.png"), "--source FILE`: it is for `--plot`"),
        (
            (first, "--compare", model),
            f"--source FILE`: it is what {model} trans",
        ),
        ((first, model), f"first.de is a file.*`--compare {first}`"),
        ((corpus / "absent",), "absent"),
    ):
        check_refused(run("evaluate", *options, *reference), message)
