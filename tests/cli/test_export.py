"""`relative-attention export`, as a user types it."""

import sys

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.cli import main


@pytest.mark.large
def test_saved_model_is_written_where_it_says(run, trained, tmp_path):
    import tensorflow as tf

    folder = tmp_path / "exported" / "1"
    status, out, err = run(
        "export",
        "--format",
        "saved_model",
        trained,
        folder,
        "--num-beams=2",
        "--length-penalty=2",
        "--min-length=3",
        "--max-length=9",
        "--nbest=2",
        "--dtype=float16",
        "--token-ids-only",
    )
    assert (status, out) == (0, f"saved_model: {folder}\n"), err
    loaded = tf.saved_model.load(str(folder))
    assert list(loaded.signatures) == ["token_ids"]
    translator = ra.load_translator(trained)
    for weight in translator.model.weights:
        weight.assign(np.asarray(weight, np.float16))
    source_token_ids = np.array([[7, 300, 40, 1], [9, 1, 0, 0]], np.int32)
    results = loaded.signatures["token_ids"](
        source_token_ids=tf.constant(source_token_ids)
    )
    expected = ra.beam_search(
        translator.model,
        source_token_ids,
        num_beams=2,
        num_results=2,
        length_penalty=2.0,
        min_length=3,
        max_length=9,
        max_extra_length=translator.max_extra_length,
    )
    np.testing.assert_array_equal(results["token_ids"], expected["token_ids"])
    np.testing.assert_allclose(
        results["scores"], expected["scores"], rtol=0, atol=1e-5
    )


def test_lines_for_warmup_are_read_from_a_file(
    run, trained, tmp_path, monkeypatch
):
    given = {}
    monkeypatch.setattr(
        "relative_attention.export.export_saved_model",
        lambda translator, folder, **arguments: given.update(arguments),
    )
    warmup = tmp_path / "warmup"
    warmup.write_text("yes\n\nten\n")
    arguments = ["export", "--format=saved_model", trained, tmp_path / "1"]
    assert run(*arguments, "--warmup", warmup)[0] == 0
    assert given == {
        "dtype": "float32",
        "num_results": None,
        "token_ids_only": False,
        "warmup": ["yes", "", "ten"],
    }
    assert run(*arguments)[0] == 0
    assert not given["warmup"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nbest", "0"], "--nbest must be between 1 and"),
        (["--nbest", "99"], "Received: 99. --num-beams asks for more"),
        (["--quantization", "int8"], "--quantization says nothing to a model"),
        (["--num-beams", "0"], "`num_beams` must be at least 1"),
        (["--max-length", "-1"], "`max_length` must be at least 0"),
        (["--warmup", "absent"], "No such file: absent"),
        (["--token-ids-only", "--warmup", __file__], "`warmup` must be empty"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_named_in_one_line(
    arguments, message, run, trained, tmp_path
):
    folder = tmp_path / "new" / "1"
    status, out, err = run(
        "export", trained, folder, "--format", "saved_model", *arguments
    )
    assert (status, out) == (1, "")
    assert err.startswith("relative-attention: ") and err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [["--dtype=float16"], ["--num-beams=0"], ["--token-ids-only"]],
    ids=lambda arguments: arguments[0],
)
def test_option_of_the_other_format_is_refused(
    arguments, run, trained, tmp_path
):
    status, out, err = run(
        "export", trained, tmp_path / "1", "--format=ctranslate2", *arguments
    )
    assert (status, out) == (1, "")
    assert "takes --quantization." in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_folder_that_is_there_stays(run, trained, tmp_path):
    (tmp_path / "kept").write_text("kept")
    status, out, err = run(
        "export", trained, tmp_path, "--format", "saved_model"
    )
    assert (status, out) == (1, "")
    assert f"{tmp_path} is there already" in err and err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


@pytest.mark.usefixtures("load_once")
@pytest.mark.parametrize(
    ("package", "way_out"),
    [
        ("tensorflow_serving", ".[serving]"),
        ("tensorflow_text", "token_ids_only=True"),
    ],
)
def test_missing_package_is_named_with_the_way_out(
    package, way_out, run, trained, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, package, None)
    words = ["export", trained, tmp_path / "1", "--format=saved_model"]
    if package == "tensorflow_serving":
        words += ["--warmup", __file__]
    status, out, err = run(*words)
    assert (status, out) == (1, "")
    assert way_out in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_model_that_is_missing_is_named(run, tmp_path):
    status, out, err = run(
        "export", tmp_path / "no", tmp_path / "1", "--format", "saved_model"
    )
    assert (status, out) == (1, "")
    assert "No model directory" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", [[], ["--format", "onnx"]])
def test_format_is_one_of_those_there_are(format, tmp_path, capsys):
    with pytest.raises(SystemExit) as raised:
        main(["export", "model", str(tmp_path / "1"), *format])
    assert raised.value.code == 2
    err = capsys.readouterr().err
    assert "--format" in err
    assert not format or "saved_model" in err and "ctranslate2" in err


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit) as raised:
        main(["export", "--help"])
    assert raised.value.code == 0
    example = capsys.readouterr().out.split("example:")[1]
    assert "relative-attention export" in example
    assert "--format saved_model" in example


@pytest.mark.large
@pytest.mark.parametrize("format", ["saved_model", "keras_hub"])
def test_export_says_nothing_of_tensorflows_own(
    format, trained, tmp_path, capfd
):
    output = tmp_path / "exported"
    arguments = ["export", "--format", format, str(trained), str(output)]
    assert main(arguments) == 0
    assert capfd.readouterr() == (f"{format}: {output}\n", "")
