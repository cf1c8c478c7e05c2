"""`relative-attention convert`, from files to a folder that translates."""

import io
import json
import re

import numpy as np
import pytest
import sentencepiece

import relative_attention as ra
from relative_attention.cli import main

SUBWORDS = ["<pad>_", "<EOS>_", "the_", "a", "b", "c", "d", "e", "f", "_"]
SUBWORDS += [*"\\u;0123456789", " ", "."]
SPECIAL = ["<blank>", "<s>", "</s>"]
# With `<unk>`, one for each row of the fixture's embeddings.
SOURCE_TOKENS = [*SPECIAL, *(f"s{i}" for i in range(13))]
TARGET_TOKENS = [*SPECIAL, *(f"t{i}" for i in range(17))]
RELATION_TABLE = (
    "model/decoder/layers/0/self_attention/layer/relative_position_keys"
)


@pytest.fixture
def subwords(tmp_path):
    path = tmp_path / "vocab.subwords"
    path.write_text("".join(f"'{subword}'\n" for subword in SUBWORDS))
    return path


@pytest.fixture
def tensor2tensor(tmp_path, hparams, variables, checkpoint):
    """`tensor2tensor(source_size)`: checkpoint and hparams."""
    size = len(SUBWORDS)

    def write(source_size=size):
        hparams_file = tmp_path / "hparams.json"
        hparams_file.write_text(json.dumps(hparams))
        arrays = variables(hparams, source_size, size)
        for name in arrays:
            if "symbol_modality" in name:
                # Decided about every word, and in no hurry to end.
                arrays[name] *= 6
                if name.endswith("weights_0"):
                    arrays[name][1] = 0
        return checkpoint(arrays), hparams_file

    return write


@pytest.fixture
def opennmt_tf_files(tmp_path, opennmt_tf, object_checkpoint):
    """Checkpoint and vocabularies that belong together."""
    source, target = tmp_path / "en.vocab", tmp_path / "de.vocab"
    source.write_text("\n".join(SOURCE_TOKENS) + "\n")
    target.write_text("\n".join(TARGET_TOKENS) + "\n")
    variables = opennmt_tf()
    # In no hurry to end, and never a `<blank>`.
    variables["model/decoder/output_layer/bias"][:3] -= [9, 0, 3]
    return object_checkpoint(variables), source, target


def convert_tensor2tensor(files, output, *arguments):
    checkpoint, hparams = files
    return main(
        ["convert", "tensor2tensor", str(checkpoint)]
        + ["--hparams", str(hparams), "--output", str(output)]
        + [*map(str, arguments)]
    )


def convert_opennmt_tf(files, output, *arguments):
    checkpoint, source, target = files
    return main(
        ["convert", "opennmt-tf", str(checkpoint)]
        + ["--source-vocabulary", str(source)]
        + ["--target-vocabulary", str(target), "--output", str(output)]
        + [*map(str, arguments)]
    )


@pytest.mark.large
def test_tensor2tensor_folder_translates(
    tensor2tensor, subwords, tmp_path, capsys
):
    output = tmp_path / "converted"
    files = tensor2tensor()
    assert convert_tensor2tensor(files, output, "--vocabulary", subwords) == 0
    out = capsys.readouterr().out
    assert "used: " in out
    assert "encoder/layer_0" not in out
    assert "encoder/layer_0" in (output / "conversion.txt").read_text()

    translator = ra.load_translator(output, max_source_length=16)
    assert translator.max_extra_length == 100
    model = ra.load_tensor2tensor(*files)
    direct = ra.Translator(
        model,
        ra.SubwordVocabulary.load(subwords),
        max_extra_length=100,
        max_source_length=16,
    )
    lines = ["a bad cab", "", "face.", "  the € b_d", "f" * 300]
    translations = translator.search(lines)
    assert translations == direct.search(lines)
    assert len({translation.score for translation in translations}) > 3
    assert any(translation.text for translation in translations)


@pytest.mark.large
def test_vocabularies_of_two_languages(tensor2tensor, subwords, tmp_path):
    longer = tmp_path / "longer.subwords"
    longer.write_text(subwords.read_text() + "'abc_'\n")
    output = tmp_path / "converted"
    given = ("--vocabulary", subwords, "--source-vocabulary", longer)
    files = tensor2tensor(source_size=len(SUBWORDS) + 1)
    assert convert_tensor2tensor(files, output, *given) == 0
    translator = ra.load_translator(output)
    assert len(translator.source_vocabulary) == len(SUBWORDS) + 1
    assert len(translator.vocabulary) == len(SUBWORDS)
    assert len(translator.translate(["abc", "face"])) == 2


def test_without_vocabulary_strings_cannot_be_translated(
    tensor2tensor, tmp_path
):
    output = tmp_path / "converted"
    assert convert_tensor2tensor(tensor2tensor(), output) == 0
    with pytest.raises(ra.InputError, match="holds no vocabulary"):
        ra.load_translator(output)


def test_what_is_there_is_not_overwritten(tensor2tensor, tmp_path, capsys):
    output = tmp_path / "converted"
    output.mkdir()
    (output / "dear.txt").write_text("dear")
    assert convert_tensor2tensor(tensor2tensor(), output) == 1
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in output.iterdir()] == ["dear.txt"]


@pytest.mark.large
def test_opennmt_tf_folder_translates(opennmt_tf_files, tmp_path, capsys):
    output = tmp_path / "converted"
    assert convert_opennmt_tf(opennmt_tf_files, output) == 0
    out = capsys.readouterr().out
    assert "positions: relative, heads: 3" in out
    assert "model/encoder" not in out
    assert RELATION_TABLE in (output / "conversion.txt").read_text()

    translator = ra.load_translator(output, max_extra_length=6)
    assert (translator.num_beams, translator.length_penalty) == (4, 0.0)
    model = ra.load_opennmt_tf(opennmt_tf_files[0])
    assert translator.model.config == model.config
    # No end of sentence after the source: OpenNMT-tf has none by default.
    source = np.array([[4, 5, 15, 7], [10, 16, 1, 0], [3, 0, 0, 0]])
    expected = ra.beam_search(
        model, source, length_penalty=0.0, max_extra_length=6
    )
    texts = []
    for row in np.array(expected["token_ids"])[:, 0]:
        ids = [*row, 1]
        kept = [i for i in ids[: ids.index(1)] if i]
        names = ["<blank>", "</s>", "<s>", *TARGET_TOKENS[3:], "<unk>"]
        texts.append(" ".join(names[i] for i in kept))
    translations = translator.search(
        ["s1 s2 s12 s4", "", "s7 nowhere </s>", "s0"]
    )
    assert [t.text for t in translations] == [texts[0], "", *texts[1:]]
    scores = [translations[i].score for i in (0, 2, 3)]
    np.testing.assert_allclose(
        scores, np.array(expected["scores"])[:, 0], rtol=1e-4
    )
    assert len({t.text for t in translations}) > 2


def test_options_reach_the_folder(
    tmp_path, opennmt_tf_files, opennmt_tf, object_checkpoint, capsys
):
    _, source, target = opennmt_tf_files
    checkpoint = object_checkpoint(opennmt_tf(positions="sinusoidal"), step=6)
    files = (checkpoint.parent, source, target)
    model = tmp_path / "joint.model"
    model.write_bytes(sentencepiece_model())
    output = tmp_path / "converted"
    given = ("--source-start", "--source-end", "--tokenizer", model)
    assert convert_opennmt_tf(files, output, *given) == 1
    assert "`--num-heads`" in capsys.readouterr().err
    given = (*given, "--num-heads", 3, "--positions", "none")
    assert convert_opennmt_tf(files, output, *given) == 0
    assert "ckpt-6" in capsys.readouterr().out
    translator = ra.load_translator(output)
    assert translator.model.config.position_encoding is None
    vocabulary = translator.source_vocabulary
    assert (vocabulary.start, vocabulary.end_id) == (True, 1)
    assert vocabulary.tokenizer == translator.vocabulary.tokenizer
    assert vocabulary.tokenizer == model.read_bytes()
    assert translator.vocabulary.start is False


def sentencepiece_model():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["s0 s1 s2", "t0 t1 t2"] * 9),
        model_writer=model,
        vocab_size=12,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--vocabulary", "no.subwords"), "no.subwords"),
        (("--vocabulary", "{short}"), "24 subwords.* 25 rows"),
        (("--source-vocabulary", "{short}"), "without `--vocabulary`"),
        (("--target-space-id", "99"), "target_space_id=99"),
        (("--hparams", "no.json"), "No hparams at no.json"),
        (("--hparams", "{short}"), "is not JSON"),
    ],
)
def test_wrong_input_from_tensor2tensor_leaves_no_folder(
    tensor2tensor, subwords, tmp_path, capsys, arguments, message
):
    short = tmp_path / "short.subwords"
    short.write_text("".join(subwords.read_text().splitlines(True)[:-1]))
    files = tensor2tensor()
    before = sorted(tmp_path.iterdir())
    filled = (argument.format(short=short) for argument in arguments)
    assert convert_tensor2tensor(files, tmp_path / "converted", *filled) == 1
    check_one_line(capsys, message)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--source-vocabulary", "no.vocab"), "no.vocab"),
        (("--source-vocabulary", "{target}"), "source.*21 tokens.*17 rows"),
        (("--target-vocabulary", "{source}"), "target.*17 tokens.*21 rows"),
        (("--tokenizer", "no.model"), "no.model"),
        (("--num-heads", "4"), "num_heads=4"),
        (("--positions", "learned"), "'learned'"),
        (("{folder}/ckpt-9",), "ckpt-9.*holds ckpt-5"),
    ],
)
def test_wrong_input_from_opennmt_tf_leaves_no_folder(
    opennmt_tf_files, tmp_path, capsys, arguments, message
):
    checkpoint, source, target = opennmt_tf_files
    names = {"source": source, "target": target, "folder": checkpoint.parent}
    filled = [argument.format(**names) for argument in arguments]
    if len(filled) == 1:
        checkpoint = filled.pop()
    files = (checkpoint, source, target)
    before = sorted(tmp_path.iterdir())
    assert convert_opennmt_tf(files, tmp_path / "converted", *filled) == 1
    check_one_line(capsys, message)
    assert sorted(tmp_path.iterdir()) == before


def check_one_line(capsys, message):
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)
