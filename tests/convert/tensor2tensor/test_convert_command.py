"""`relative-attention convert tensor2tensor`, from files to a folder."""

import json
import re

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.cli import main

SUBWORDS = ["<pad>_", "<EOS>_", "the_", "a", "b", "c", "d", "e", "f", "_"]
SUBWORDS += [*"\\u;0123456789", " ", "."]
LINES = ["a bad cab", "", "face.", "  the € b_d", "f" * 300]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.subwords"
    path.write_text("".join(f"'{subword}'\n" for subword in SUBWORDS))
    return path


@pytest.fixture
def files(tmp_path, hparams, variables, checkpoint):
    """Checkpoint and hparams that go with `SUBWORDS`."""
    hparams_file = tmp_path / "hparams.json"
    hparams_file.write_text(json.dumps(hparams))
    arrays = variables(hparams, len(SUBWORDS), len(SUBWORDS))
    for name in arrays:
        if "symbol_modality" in name:
            # Decided about every word, and in no hurry to end.
            arrays[name] *= 6
            if name.endswith("weights_0"):
                arrays[name][1] = 0
    return checkpoint(arrays), hparams_file


def convert(files, output, *arguments):
    prefix, hparams = files
    return main(
        [
            "convert",
            "tensor2tensor",
            str(prefix),
            "--hparams",
            str(hparams),
            "--output",
            str(output),
            *map(str, arguments),
        ]
    )


@pytest.mark.large
def test_converted_folder_translates(files, vocabulary, tmp_path, capsys):
    output = tmp_path / "converted"
    assert convert(files, output, "--vocabulary", vocabulary) == 0
    out = capsys.readouterr().out
    assert f"used: {len(names_of_used(output))}" in out
    assert "transformer/body" in (output / "conversion.txt").read_text()

    translator = ra.load_translator(output, max_source_length=16)
    assert translator.max_extra_length == 100
    model = ra.load_tensor2tensor(*files)
    for weight, wanted in zip(translator.model.weights, model.weights):
        np.testing.assert_array_equal(weight, wanted)
    direct = ra.Translator(
        model,
        ra.SubwordVocabulary.load(vocabulary),
        max_extra_length=100,
        max_source_length=16,
    )
    translations = translator.search(LINES)
    assert translations == direct.search(LINES)
    assert len({translation.score for translation in translations}) > 3
    assert any(translation.text for translation in translations)


def names_of_used(output):
    text = (output / "conversion.txt").read_text().split("not used")[0]
    return [line for line in text.splitlines() if line.startswith(" ")]


@pytest.mark.large
def test_vocabularies_of_two_languages(
    tmp_path, hparams, variables, checkpoint, vocabulary
):
    longer = tmp_path / "longer.subwords"
    longer.write_text(vocabulary.read_text() + "'abc_'\n")
    hparams_file = tmp_path / "hparams.json"
    hparams_file.write_text(json.dumps(hparams))
    arrays = variables(hparams, len(SUBWORDS) + 1, len(SUBWORDS))
    output = tmp_path / "converted"
    given = ("--vocabulary", vocabulary, "--source-vocabulary", longer)
    assert convert((checkpoint(arrays), hparams_file), output, *given) == 0
    translator = ra.load_translator(output)
    assert len(translator.source_vocabulary) == len(SUBWORDS) + 1
    assert len(translator.vocabulary) == len(SUBWORDS)
    assert len(translator.translate(["abc", "face"])) == 2


def test_without_vocabulary_strings_cannot_be_translated(files, tmp_path):
    output = tmp_path / "converted"
    assert convert(files, output) == 0
    with pytest.raises(ra.InputError, match="holds no vocabulary"):
        ra.load_translator(output)


def test_what_is_there_is_not_overwritten(files, vocabulary, tmp_path, capsys):
    output = tmp_path / "converted"
    output.mkdir()
    (output / "dear.txt").write_text("dear")
    assert convert(files, output) == 1
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in output.iterdir()] == ["dear.txt"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--vocabulary", "no.subwords"), "no.subwords"),
        (("--vocabulary", "{short}"), "24 subwords.* 25 rows"),
        (("--source-vocabulary", "{short}"), "without `--vocabulary`"),
        (("--target-space-id", "99"), "target_space_id=99"),
        (("--hparams", "no.json"), "No hparams at no.json"),
    ],
)
def test_wrong_input_leaves_no_folder(
    files, vocabulary, tmp_path, capsys, arguments, message
):
    short = tmp_path / "short.subwords"
    short.write_text("".join(vocabulary.read_text().splitlines(True)[:-1]))
    before = sorted(path.name for path in tmp_path.iterdir())
    filled = (argument.format(short=short) for argument in arguments)
    assert convert(files, tmp_path / "converted", *filled) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
