"""`relative-attention convert opennmt-tf`, from files to a folder."""

import io
import re

import numpy as np
import pytest
import sentencepiece

import relative_attention as ra
from relative_attention.cli import main

SPECIAL = ["<blank>", "<s>", "</s>"]
# With `<unk>`, as many as the embeddings of the fixture have rows.
SOURCE_TOKENS = [*SPECIAL, *(f"s{i}" for i in range(13))]
TARGET_TOKENS = [*SPECIAL, *(f"t{i}" for i in range(17))]
RELATION_TABLE = (
    "model/decoder/layers/0/self_attention/layer/relative_position_keys"
)
LINES = ["s1 s2 s12 s4", "", "s7 nowhere </s>", "s0"]


@pytest.fixture
def files(tmp_path, opennmt_tf, object_checkpoint):
    """Checkpoint and vocabularies that belong together."""
    source, target = tmp_path / "en.vocab", tmp_path / "de.vocab"
    source.write_text("\n".join(SOURCE_TOKENS) + "\n")
    target.write_text("\n".join(TARGET_TOKENS) + "\n")
    variables = opennmt_tf()
    # In no hurry to end, and never a `<blank>`.
    variables["model/decoder/output_layer/bias"][:3] -= [9, 0, 3]
    return object_checkpoint(variables), source, target


def convert(files, output, *arguments):
    checkpoint, source, target = files
    return main(
        ["convert", "opennmt-tf", str(checkpoint)]
        + ["--source-vocabulary", str(source)]
        + ["--target-vocabulary", str(target), "--output", str(output)]
        + [*map(str, arguments)]
    )


@pytest.mark.large
def test_converted_folder_translates(files, tmp_path, capsys):
    output = tmp_path / "converted"
    assert convert(files, output) == 0
    out = capsys.readouterr().out
    assert "positions: relative, heads: 3" in out
    assert "model/encoder" not in out
    assert RELATION_TABLE in (output / "conversion.txt").read_text()

    translator = ra.load_translator(output, max_extra_length=6)
    assert (translator.num_beams, translator.length_penalty) == (4, 0.0)
    model = ra.load_opennmt_tf(files[0])
    assert translator.model.config == model.config
    by_path = {w.path.split("/", 1)[1]: w for w in model.weights}
    for weight in translator.model.weights:
        expected = by_path.pop(weight.path.split("/", 1)[1])
        np.testing.assert_array_equal(weight, expected)
    assert not by_path
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
    translations = translator.search(LINES)
    assert [t.text for t in translations] == [texts[0], "", *texts[1:]]
    scores = [translations[i].score for i in (0, 2, 3)]
    np.testing.assert_allclose(
        scores, np.array(expected["scores"])[:, 0], rtol=1e-4
    )
    assert len({t.text for t in translations}) > 2


def test_options_reach_the_folder(
    tmp_path, files, opennmt_tf, object_checkpoint, capsys
):
    variables = opennmt_tf(positions="sinusoidal")
    _, source, target = files
    checkpoint = object_checkpoint(variables, step=6)
    model = tmp_path / "joint.model"
    model.write_bytes(sentencepiece_model())
    output = tmp_path / "converted"
    given = ("--source-start", "--source-end", "--tokenizer", model)
    files = (checkpoint.parent, source, target)
    assert convert(files, output, *given) == 1
    assert "`--num-heads`" in capsys.readouterr().err
    given = (*given, "--num-heads", 3, "--positions", "none")
    assert convert(files, output, *given) == 0
    assert "ckpt-6" in capsys.readouterr().out
    translator = ra.load_translator(output)
    assert translator.model.config.position_encoding is None
    vocabulary = translator.source_vocabulary
    assert (vocabulary.start, vocabulary.end_id) == (True, 1)
    assert vocabulary.tokenizer == translator.vocabulary.tokenizer
    assert vocabulary.tokenizer == model.read_bytes()
    assert (translator.vocabulary.start, translator.vocabulary.end_id) == (
        False,
        1,
    )


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


def test_what_is_there_is_not_overwritten(files, tmp_path, capsys):
    output = tmp_path / "converted"
    output.mkdir()
    (output / "dear.txt").write_text("dear")
    assert convert(files, output) == 1
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in output.iterdir()] == ["dear.txt"]


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
def test_wrong_input_leaves_no_folder(
    files, tmp_path, capsys, arguments, message
):
    checkpoint, source, target = files
    names = {"source": source, "target": target, "folder": checkpoint.parent}
    filled = [argument.format(**names) for argument in arguments]
    if len(filled) == 1:
        files = (filled.pop(), source, target)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert convert(files, tmp_path / "converted", *filled) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_truncated_checkpoint_leaves_no_folder(files, tmp_path, capsys, suffix):
    file = files[0].with_name(files[0].name + suffix)
    file.write_bytes(file.read_bytes()[:-50])
    before = sorted(path.name for path in tmp_path.iterdir())
    assert convert(files, tmp_path / "converted") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "cut short or damaged" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == before
