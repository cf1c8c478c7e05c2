"""`relative-attention evaluate`, as a user types it."""

import re
import shutil
import sys

import pytest

import relative_attention as ra
from relative_attention.cli import main
from relative_attention.evaluation import bootstrap_table

pytestmark = pytest.mark.usefixtures("load_once")


@pytest.fixture
def texts(corpus):
    return ("--source", corpus / "test.en", "--reference", corpus / "test.de")


@pytest.fixture
def references(corpus):
    return lines_of(corpus / "test.de")


@pytest.fixture(scope="module")
def translations(shared_translator, corpus):
    return shared_translator.search(lines_of(corpus / "test.en"))


def lines_of(path):
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_every_metric_is_printed_with_its_signature(
    run, trained, texts, translations, references
):
    status, out, _ = run("evaluate", trained, *texts)
    assert status == 0
    scores = ra.corpus_scores([t.text for t in translations], references)
    assert out == "".join(f"{score}\n" for score in scores.values())
    assert re.findall("^[^ ]+", out, re.M) == ["BLEU", "chrF2", "TER"]


def test_moses_tokeniser_is_printed_beside_cased_13a(
    run, trained, texts, translations, references
):
    options = ("--tokenizer", "moses", "--language", "de", "--lowercase")
    status, out, _ = run(
        "evaluate", trained, *texts, *options, "--metrics", "bleu"
    )
    assert status == 0
    hypotheses = [t.text for t in translations]
    cased = ra.corpus_bleu(hypotheses, references)
    moses = ra.corpus_bleu(hypotheses, references, True, "moses-de")
    assert out == f"{cased}\n{moses}\n"
    assert "case:mixed" in out and "case:lc|eff:no|tok:moses-de" in out


def test_sentence_scores_are_written_with_the_models(
    run, trained, texts, translations, references, tmp_path
):
    path = tmp_path / "scores.tsv"
    options = ("--metrics", "chrf", "bleu", "--lowercase")
    status, out, _ = run(
        "evaluate", trained, *texts, *options, "--sentence-scores", path
    )
    assert status == 0
    assert re.findall("^[^ ]+", out, re.M) == ["chrF2", "BLEU"]
    assert out.count("case:lc") == 2
    columns = ra.sentence_scores(
        [t.text for t in translations],
        references,
        ["chrf", "bleu"],
        lowercase=True,
    )
    columns["model"] = [translation.score for translation in translations]
    header, *rows = (line.split("\t") for line in lines_of(path))
    assert header == ["chrf", "bleu", "model"]
    assert rows == [
        [f"{value:.4f}" for value in row] for row in zip(*columns.values())
    ]


def test_model_is_compared_with_another_and_with_a_file(
    run, trained, texts, translations, references, corpus, tmp_path
):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    status, out, _ = run(
        "evaluate",
        trained,
        *texts,
        *("--compare", copy, "--compare", corpus / "test.de"),
        *("--metrics", "bleu", "chrf", "--resamples", "50"),
    )
    assert status == 0
    hypotheses = [translation.text for translation in translations]
    results = ra.paired_bootstrap(
        {
            str(trained): hypotheses,
            str(copy): hypotheses,
            str(corpus / "test.de"): references,
        },
        references,
        ["bleu", "chrf"],
        num_resamples=50,
    )
    _, _, table = out.partition("\n\n")
    assert table == f"{bootstrap_table(results)}\n"
    # Identical, and perfect.
    assert [r.p_value for r in results["bleu"]][1] == 1
    assert [r.p_value for r in results["bleu"]][2] < 0.05
    assert table.count("bs:50|seed:12345") == 2


def test_bleu_is_drawn_by_length_for_all_that_are_compared(
    run, trained, texts, translations, references, corpus, tmp_path, monkeypatch
):
    drawn = []
    draw = ra.plot.length_figure

    def record(scores):
        drawn.append(scores)
        return draw(scores)

    monkeypatch.setattr(ra.plot, "length_figure", record)
    path = tmp_path / "length.png"
    status, out, _ = run(
        "evaluate",
        trained,
        *texts,
        *("--metrics", "bleu", "--lowercase", "--plot", path),
        *("--compare", corpus / "test.de", "--resamples", "40"),
    )
    assert status == 0
    assert "bs:40|" in out
    assert path.read_bytes().startswith(b"\x89PNG")
    sources = lines_of(corpus / "test.en")
    hypotheses = [translation.text for translation in translations]
    assert drawn == [
        {
            str(trained): ra.bleu_by_length(
                sources, hypotheses, references, lowercase=True
            ),
            str(corpus / "test.de"): ra.bleu_by_length(
                sources, references, references, lowercase=True
            ),
        }
    ]


def test_missing_matplotlib_is_named_before_any_translation(
    run, trained, texts, tmp_path, monkeypatch
):
    def search(*arguments, **keywords):
        raise AssertionError("translated all the same")

    monkeypatch.setattr(ra.Translator, "search", search)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    path = tmp_path / "length.png"
    status, _, err = run("evaluate", trained, *texts, "--plot", path)
    assert status == 1
    assert "pip install '.[plot]'" in err
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compare", "SHORT"], "short with 1 lines.*with 20"),
        (["--compare", "absent"], "No such file: absent"),
        (["--compare", "FOLDER"], "FOLDER is no model directory"),
        (["--compare", "MODEL"], "`--compare MODEL` is compared with itself"),
        (
            ["--compare", "TARGET", "--compare", "TARGET"],
            "`--compare TARGET` is compared with itself",
        ),
        (["--resamples", "39"], "`num_resamples` must be at least 40"),
        (["--tokenizer", "moses"], "go together.*moses, --language None"),
        (["--language", "de"], "go together.*--tokenizer 13a, --language de"),
        (["--tokenizer", "moses", "--language", "german"], "Known: as, bn"),
        (["--hypotheses", "FOLDER"], "FOLDER is a folder"),
        (["--sentence-scores", "FOLDER"], "FOLDER is a folder"),
        (["--plot", "FOLDER"], "FOLDER is a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_named_before_any_translation(
    arguments, message, run, trained, texts, corpus, tmp_path, monkeypatch
):
    def search(*arguments, **keywords):
        raise AssertionError("translated all the same")

    monkeypatch.setattr(ra.Translator, "search", search)
    (tmp_path / "short").write_text("one\n")
    paths = {
        "SHORT": tmp_path / "short",
        "FOLDER": tmp_path,
        "MODEL": trained,
        "TARGET": corpus / "test.de",
    }
    for name, path in paths.items():
        message = message.replace(name, re.escape(str(path)))
    arguments = [paths.get(argument, argument) for argument in arguments]
    status, out, err = run("evaluate", trained, *texts, *arguments)
    assert (status, out) == (1, "")
    assert re.search(message, err), err
    assert err.count("\n") == 1


def test_unknown_metric_is_refused_with_those_known(trained, texts, capsys):
    arguments = ["evaluate", trained, *texts, "--metrics", "comet"]
    with pytest.raises(SystemExit) as raised:
        main([str(argument) for argument in arguments])
    assert raised.value.code == 2
    err = capsys.readouterr().err
    assert "'comet'" in err and "chrf" in err
