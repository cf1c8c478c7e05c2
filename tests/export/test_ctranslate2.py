"""CTranslate2 translates from nothing but the folder; wrong calls are named."""

import inspect
import json
import subprocess
import sys
import textwrap

import ctranslate2
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.positions import POSITION_ENCODINGS
from tests.export.tiny_models import SENTENCES
from tests.export.tiny_models import as_line
from tests.export.tiny_models import engine_of
from tests.export.tiny_models import log_prob_errors


def run_example(folder, lines, code):
    """Run code in a process of its own, where this package is absent."""
    absent = ("keras", "tensorflow", "relative_attention")
    script = (
        "import json, sys\n"
        f"sys.modules.update(dict.fromkeys({absent!r}))\n"
        "import ctranslate2, sentencepiece\n"
        "directory, lines = json.loads(sys.argv[1])\n"
        f"{code}\n"
        "print(json.dumps(translations))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, json.dumps([str(folder), lines])],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return [as_line(text) for text in json.loads(result.stdout)]


def test_example_of_the_docstring_translates(make_translator, tmp_path):
    lines = inspect.getdoc(ra.export_ctranslate2).split("\n")
    start = next(i for i, line in enumerate(lines) if "Translator(" in line)
    stop = next(i for i, line in enumerate(lines) if "hypotheses[0]" in line)
    code = textwrap.dedent("\n".join(lines[start : stop + 1]))
    assert "beam_size=4" in code
    # A random model seldom ends: all go as far as the same limit.
    translator = make_translator(max_extra_length=0)
    rows = translator.vocabulary.encode(SENTENCES)
    lines = [line + "e" * (29 - len(row)) for line, row in zip(SENTENCES, rows)]
    ra.export_ctranslate2(translator, tmp_path / "engine")
    texts = run_example(
        tmp_path / "engine",
        lines,
        code.replace("beam_size=4", "beam_size=1, max_decoding_length=30"),
    )
    assert texts == translator.translate(lines)


@pytest.mark.parametrize(
    ("quantization", "tolerance"),
    [
        (None, 1e-4),
        pytest.param("float32", 1e-4, marks=pytest.mark.large),
        ("float16", 1e-3),
        ("bfloat16", 5e-3),
        # Where a processor lacks one, CTranslate2 takes the nearest.
        ("int16", 0.06),
        ("int8", 0.06),
        pytest.param("int8_float32", 0.06, marks=pytest.mark.large),
        pytest.param("int8_float16", 0.06, marks=pytest.mark.large),
        ("int8_bfloat16", 0.06),
    ],
)
def test_quantised_probabilities_are_close(
    quantization, tolerance, make_translator, tmp_path
):
    translator = make_translator(sharpness=0.4, use_target_space_embedding=True)
    before = [np.array(weight) for weight in translator.model.weights]
    folder = tmp_path / "engine"
    ra.export_ctranslate2(translator, folder, quantization)
    errors = log_prob_errors(translator, engine_of(folder))
    assert np.abs(errors).mean() < tolerance
    for weight, array in zip(translator.model.weights, before):
        np.testing.assert_array_equal(np.array(weight), array, weight.path)


def test_quantised_files_are_smaller(make_translator, tmp_path):
    translator = make_translator(hidden_dim=62)
    sizes = {}
    for name in ("float32", "bfloat16", "int8_bfloat16"):
        ra.export_ctranslate2(translator, tmp_path / name, name)
        sizes[name] = (tmp_path / name / "model.bin").stat().st_size
    assert sizes["bfloat16"] < 0.6 * sizes["float32"]
    assert sizes["int8_bfloat16"] < 0.6 * sizes["bfloat16"]


def test_tables_of_each_head_are_refused(make_translator, tmp_path):
    translator = make_translator(share_relations_across_heads=False)
    message = "one for each of its 2.*share_relations_across_heads: true"
    with pytest.raises(ra.InputError, match=message):
        ra.export_ctranslate2(translator, tmp_path / "engine")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in POSITION_ENCODINGS
        if name not in ("relative", "sinusoidal", "learned", None)
    ],
)
def test_other_position_encodings_are_refused(name, make_translator, tmp_path):
    translator = make_translator(position_encoding=name, key_dim=4)
    with pytest.raises(ra.InputError) as error:
        ra.export_ctranslate2(translator, tmp_path / "engine")
    assert str(error.value) == (
        "For CTranslate2 `position_encoding` must be one of 'relative', "
        f"'sinusoidal', 'learned', None. Received: position_encoding={name!r}. "
        "`export_saved_model` takes every one."
    )
    assert not any(tmp_path.iterdir())


def test_unknown_quantization_is_refused(make_translator, tmp_path):
    with pytest.raises(ValueError, match="'int4'") as error:
        ra.export_ctranslate2(make_translator(), tmp_path / "engine", "int4")
    assert "int8_float16" in str(error.value)
    assert not any(tmp_path.iterdir())


def test_other_model_is_refused(make_translator, tmp_path):
    translator = make_translator()
    translator.model = object()
    with pytest.raises(ra.InputError, match="must be a `Transformer`"):
        ra.export_ctranslate2(translator, tmp_path / "engine")


def test_folder_that_holds_something_is_kept(make_translator, tmp_path):
    kept = tmp_path / "engine" / "kept"
    kept.parent.mkdir()
    kept.write_text("kept")
    for path in (kept.parent, kept):
        with pytest.raises(ra.InputError, match="there already"):
            ra.export_ctranslate2(make_translator(), path)
    assert [path.name for path in tmp_path.rglob("*")] == ["engine", "kept"]


def test_empty_folder_is_filled(make_translator, tmp_path):
    ra.export_ctranslate2(make_translator(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "vocabulary.model",
    }


def test_nothing_is_left_where_writing_fails(
    make_translator, tmp_path, monkeypatch
):
    def fail(config, path):
        raise OSError("no space left")

    # The last file that CTranslate2 writes.
    monkeypatch.setattr(
        ctranslate2.specs.model_spec.ModelConfig, "save_as_json", fail
    )
    with pytest.raises(OSError, match="no space left"):
        ra.export_ctranslate2(make_translator(), tmp_path / "engine")
    assert not any(tmp_path.iterdir())


def test_missing_package_is_named(make_translator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ra.InputError, match=r"pip install '\.\[ctranslate2"):
        ra.export_ctranslate2(make_translator(), tmp_path / "engine")
