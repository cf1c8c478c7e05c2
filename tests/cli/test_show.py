"""`relative-attention list`, `plot` and `benchmark`."""

import functools

import keras
import pytest

import relative_attention as ra
from relative_attention.zoo import zoo_models
from relative_attention.zoo import zoo_recipes
from relative_attention.zoo import zoo_studies
from tests.cli.conftest import check_refused

# === list ===


@pytest.mark.parametrize("columns", [80, 200])
def test_list_is_no_wider_than_the_terminal(columns, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = run("list")
    assert status == 0
    assert max(map(len, out.splitlines())) <= columns
    joined = " ".join(out.split())
    for name in zoo_recipes():
        last_word = ra.find_recipe(name).description.split()[-1]
        assert name in joined and last_word in joined
    rows = [line.split()[0] for line in out.splitlines() if line]
    assert set(zoo_studies()) <= set(rows)
    # Those for any use come first, and recipes without weights apart.
    models = rows[rows.index("model") : rows.index("recipe")]
    models = [row for row in models if row in zoo_recipes()]
    assert models == zoo_models()
    assert models == sorted(
        models, key=lambda name: (name[:5] == "multi", name)
    )
    assert joined.count(" research ") > 4 and "CC BY 2.0 FR" in joined


# === plot ===


def test_plot_draws_a_curve_without_loading_the_model(
    run, model, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "relative_attention.saving.load_translator",
        lambda *_: pytest.fail("loaded"),
    )
    # A folder is a folder whatever its name.
    folder = tmp_path / "pictures.html"
    folder.mkdir()
    status, out, err = run("plot", model, "--output", folder)
    assert (status, out) == (0, f"{folder / 'curve.png'}\n"), err
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in folder.iterdir()] == ["curve.png"]


@pytest.mark.usefixtures("load_once")
def test_plot_draws_the_attention_of_a_sentence(
    run, model, translator, tmp_path, monkeypatch
):
    drawn = []

    def model_picture(translator, sentence, path):
        drawn.append((translator.model, sentence, path))
        return "ja"

    monkeypatch.setattr("relative_attention.plot.model_picture", model_picture)
    words = ("plot", model, "--sentence", "yes", "--output", tmp_path)
    status, out, err = run(*words)
    picture = tmp_path / "attention.png"
    assert status == 0, err
    assert out == f"ja\n{tmp_path / 'curve.png'}\n{picture}\n"
    assert drawn == [(translator.model, "yes", picture)]


@pytest.mark.usefixtures("load_once")
def test_page_is_written_and_the_translation_printed(
    run, model, translator, tmp_path
):
    page = tmp_path / "view.html"
    check_refused(run("plot", model, "--output", page), "give --sentence")
    words = ("plot", model, "--sentence", "yes", "--output", page)
    status, out, err = run(*words)
    assert status == 0, err
    (translation,) = translator.translate(["yes"])
    assert out == f"{translation}\n{page}\n"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["view.html"]


# === benchmark ===


TINY = ["transformer_tiny", "transformer_tiny_relative"]
# One length, as each one more is two models to compile.
SMALL = "--lengths 4 --batch-tokens 16 --vocabulary-size 50 --steps 1".split()


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.slow
def test_table_has_a_row_for_each_preset_and_length(run, monkeypatch):
    shapes = []
    call = ra.SelfAttention.call

    @functools.wraps(call)
    def noted(self, inputs, *args, **kwargs):
        shapes.append(tuple(inputs.shape))
        return call(self, inputs, *args, **kwargs)

    monkeypatch.setattr(ra.SelfAttention, "call", noted)
    words = [*SMALL, "--rounds", "1", "--peak-tflops", "0.5"]
    status, out, err = run("benchmark", "--presets", *TINY, *words)
    assert status == 0
    table = [line for line in out.splitlines() if line.startswith("|")]
    header, _, *rows = map(cells, table)
    assert header[:3] == ["preset", "tokens", "tokens/s"]
    assert [row[:2] for row in rows] == [[preset, "4"] for preset in TINY]
    assert rows[0][3] == "1.000"
    for _, _, tokens, slowdown, tflops, share in rows:
        assert float(tokens.replace(",", "")) > 0
        assert float(slowdown) > 0
        assert float(share.rstrip("%")) == pytest.approx(
            100 * float(tflops) / 0.5, abs=0.06
        )
    assert "batches of 16 tokens a side" in out and "commit" in out
    assert "round 1 of 1" in err
    if keras.backend.backend() == "tensorflow":
        # One graph for any length, as in training; others trace each length.
        assert {shape[:2] for shape in shapes} == {(None, None)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("transformer_huge", "Unknown preset 'transformer_huge'"),
        (f"{TINY[0]} --steps 0", "at least 1"),
    ],
)
def test_invalid_benchmark_is_refused(words, message, run):
    check_refused(run("benchmark", "--presets", *words.split()), message)
