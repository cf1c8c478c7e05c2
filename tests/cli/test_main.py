"""The command line, as a user types it."""

import gzip
import re
import shutil

import pytest

from relative_attention.cli import main


def test_train_passes_on_what_the_command_line_says(run, monkeypatch):
    given = {}

    def train(recipe, output, **options):
        given.update(options, recipe=recipe, output=output)
        scores = {"bleu": 12.5, "bleu_signature": "sig"}
        return {"scores": {"test": scores}}

    monkeypatch.setattr("relative_attention.runs.train", train)
    words = ["small_relative", "training.steps=4", "--data", "texts"]
    status, out, err = run("train", *words)
    assert status == 0, err
    assert out == "test: BLEU 12.5 (sig)\nmodel: runs/small_relative\n"
    assert given.pop("recipe").training.steps == 4
    assert str(given.pop("output")) == "runs/small_relative"
    assert given == {
        "data_directory": "texts",
        "resume": False,
        "overwrite": False,
    }
    run("train", "small_relative", "--output", "other", "--overwrite")
    assert (given["output"], given["overwrite"]) == ("other", True)


@pytest.mark.large
def test_train_then_translate_then_evaluate(run, recipe_file, corpus, tmp_path):
    output = tmp_path / "run"
    status, out, err = run(
        "train",
        recipe_file,
        "--output",
        output,
        "--data",
        corpus,
        "training.steps=4",
    )
    assert status == 0
    assert "tokens/s" in err
    assert "test: BLEU" in out
    status, out, err = run(
        "translate", output, stdin=b"he paid ten euros.\n\nyes\n"
    )
    assert status == 0
    assert out.count("\n") == 3
    assert out.split("\n")[1] == ""
    status, out, err = run(
        "evaluate",
        output,
        "--source",
        corpus / "test.en",
        "--reference",
        corpus / "test.de",
        "--hypotheses",
        tmp_path / "hypotheses",
    )
    assert status == 0
    assert out.startswith("BLEU ") and "tok:13a" in out
    written = (tmp_path / "hypotheses").read_text(encoding="utf-8")
    assert written.count("\n") == 20


def test_translations_are_those_of_the_translator(
    run, trained, shared_translator, corpus
):
    lines = (corpus / "test.en").read_text(encoding="utf-8")
    status, out, _ = run("translate", trained, stdin=lines.encode())
    expected = shared_translator.translate(lines.removesuffix("\n").split("\n"))
    assert out.removesuffix("\n").split("\n") == expected


@pytest.mark.large
def test_two_files_alone_make_a_model(run, corpus, tmp_path):
    for name in ("train.en", "train.de"):
        text = (corpus / name).read_bytes()
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text))
    status, out, err = run(
        "train",
        "small_relative",
        "--output",
        tmp_path / "run",
        f"data.source={tmp_path / 'train.en.gz'}",
        f"data.target={tmp_path / 'train.de.gz'}",
        "vocabulary.size=400",
        "model.hidden_dim=16",
        "training.steps=2",
    )
    assert status == 0, err
    assert "validation: BLEU" in out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("unequal", "one line\n", "300 lines.* 1\\."),
        ("empty", "", "with 0"),
        ("not_utf8", "für\n", "line 1: not valid UTF-8"),
        ("blank", "\n" * 300, "no pair is left"),
    ],
    ids=lambda value: None,
)
def test_unusable_text_is_named(
    name, content, message, run, recipe_file, corpus, tmp_path
):
    text = tmp_path / name
    text.write_text(content, encoding="latin-1")
    status, out, err = run(
        "train",
        recipe_file,
        "--output",
        tmp_path / "run",
        "--data",
        corpus,
        f"data.target={text}",
    )
    assert status == 1
    assert "Traceback" not in err
    assert str(text) in err
    assert re.search(message, err), err


@pytest.mark.large
def test_empty_and_long_lines_are_left_out_and_counted(
    run, recipe_file, corpus, tmp_path
):
    for side in ("en", "de"):
        lines = (corpus / f"train.{side}").read_text().split("\n")[:-1]
        lines[3] = "" if side == "en" else lines[3]
        lines[5] = "x " * 50_000
        (tmp_path / side).write_text("\n".join(lines) + "\n")
    status, _, err = run(
        "train",
        recipe_file,
        "--output",
        tmp_path / "run",
        "--data",
        corpus,
        f"data.source={tmp_path / 'en'}",
        f"data.target={tmp_path / 'de'}",
        "training.steps=4",
    )
    assert status == 0, err
    assert "298 pairs; left out 1 with an empty line, 1 of over 256" in err


@pytest.mark.usefixtures("load_once")
def test_long_line_is_cut_and_counted_when_translated(run, trained):
    status, out, err = run(
        "translate", trained, stdin=b"x" * 100_000 + b"\nten\n"
    )
    assert status == 0
    assert out.count("\n") == 2
    assert err.startswith("1 line was cut at 512 tokens")
    assert err.endswith("recipe): line 1\n")


def test_invalid_utf8_on_standard_input_names_the_line(run, trained):
    status, _, err = run("translate", trained, stdin=b"yes\n\xff\n")
    assert status == 1
    assert "standard input, line 2: not valid UTF-8" in err


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", "cut short"),
        ("vocabulary.model", "vocabulary"),
        ("config.json", "damaged"),
    ],
)
def test_truncated_model_is_refused(file, message, run, trained, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(trained, broken)
    content = (broken / file).read_bytes()
    (broken / file).write_bytes(content[: len(content) // 2])
    status, out, err = run("translate", broken, stdin=b"yes\n")
    assert (status, out) == (1, "")
    assert message in err and "Traceback" not in err


def test_config_that_is_no_object_is_refused(run, trained, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(trained, broken)
    (broken / "config.json").write_text("[2]")
    status, out, err = run("translate", broken, stdin=b"yes\n")
    assert (status, out) == (1, "")
    assert "config.json is damaged" in err


def test_missing_model_is_refused(run, tmp_path):
    status, _, err = run("translate", tmp_path / "absent", stdin=b"yes\n")
    assert status == 1
    assert "No model directory" in err


def test_evaluate_refuses_texts_of_unequal_length(run, trained, corpus):
    status, _, err = run(
        "evaluate",
        trained,
        "--source",
        corpus / "test.en",
        "--reference",
        corpus / "train.de",
    )
    assert status == 1
    assert "20 lines" in err and "300" in err


def test_interrupt_exits_with_130_and_says_how_to_go_on(
    run, recipe_file, corpus, tmp_path, monkeypatch
):
    def interrupt(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("relative_attention.models.Transformer.fit", interrupt)
    status, _, err = run(
        "train", recipe_file, "--output", tmp_path / "run", "--data", corpus
    )
    assert status == 130
    assert "--resume" in err


@pytest.mark.parametrize(
    "command", ["demo", "train", "translate", "evaluate", "plot", "list"]
)
def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit) as raised:
        main([command, "--help"])
    assert raised.value.code == 0
    assert (
        f"relative-attention {command}"
        in capsys.readouterr().out.split("example:")[1]
    )


def test_plot_draws_a_curve_without_loading_the_model(
    run, trained, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "relative_attention.saving.load_translator",
        lambda *_: pytest.fail("loaded"),
    )
    status, out, err = run("plot", trained, "--output", tmp_path)
    assert (status, out) == (0, f"{tmp_path / 'curve.png'}\n"), err
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "attention.png").exists()


@pytest.mark.usefixtures("load_once")
def test_plot_draws_the_attention_of_a_sentence(
    run, trained, shared_translator, tmp_path, monkeypatch
):
    drawn = []

    def model_picture(translator, sentence, path):
        drawn.append((translator.model, sentence, path))
        return "ja"

    monkeypatch.setattr("relative_attention.plot.model_picture", model_picture)
    status, out, err = run(
        "plot", trained, "--sentence", "yes", "--output", tmp_path
    )
    picture = tmp_path / "attention.png"
    assert status == 0, err
    assert out.split("\n")[:3] == [
        "ja",
        f"{tmp_path / 'curve.png'}",
        f"{picture}",
    ]
    assert drawn == [(shared_translator.model, "yes", picture)]


@pytest.mark.large
@pytest.mark.usefixtures("load_once")
def test_plot_draws_curve_and_attention(run, trained, tmp_path):
    status, out, _ = run(
        "plot", trained, "--sentence", "yes", "--output", tmp_path
    )
    assert status == 0
    for name in ("curve.png", "attention.png"):
        assert str(tmp_path / name) in out
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--languages", "en", "en"], "`languages` must be two"),
        (["translate", "MODEL", "--num-beams", "0"], "`num_beams` must be"),
        (
            ["translate", "MODEL", "--length-penalty", "-1"],
            "`length_penalty` must be",
        ),
    ],
    ids=["languages", "num_beams", "length_penalty"],
)
def test_wrong_option_is_named(arguments, message, run, trained, tmp_path):
    if "demo" in arguments:
        arguments = [*arguments, "--output", tmp_path]
    else:
        arguments = [trained if a == "MODEL" else a for a in arguments]
    status, _, err = run(*arguments, stdin=b"yes\n")
    assert status == 1
    assert message in err and "Traceback" not in err
