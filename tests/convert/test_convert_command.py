"""`relative-attention convert`, from files to a folder that translates."""

import json

import pytest

import relative_attention as ra
from tests.cli.conftest import check_refused
from tests.small_models import train_vocabulary

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
def output(tmp_path):
    return tmp_path / "converted"


@pytest.fixture
def convert(run, output):
    """`convert(kind, *words)`: exit status, output and error output."""
    return lambda *words: run("convert", *words, "--output", output)


@pytest.fixture
def subwords(tmp_path):
    path = tmp_path / "vocab.subwords"
    path.write_text("".join(f"'{subword}'\n" for subword in SUBWORDS))
    return path


@pytest.fixture
def tensor2tensor(tmp_path, hparams, variables, checkpoint):
    """`tensor2tensor(source_size)`: words that name checkpoint and hparams."""
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
        return "tensor2tensor", checkpoint(arrays), "--hparams", hparams_file

    return write


@pytest.fixture
def opennmt_tf_vocabularies(tmp_path):
    source, target = tmp_path / "en.vocab", tmp_path / "de.vocab"
    source.write_text("\n".join(SOURCE_TOKENS) + "\n")
    target.write_text("\n".join(TARGET_TOKENS) + "\n")
    return (
        *("--source-vocabulary", source),
        *("--target-vocabulary", target),
    )


@pytest.fixture
def opennmt_tf_checkpoint(opennmt_tf, object_checkpoint):
    variables = opennmt_tf()
    # In no hurry to end, and never a `<blank>`.
    variables["model/decoder/output_layer/bias"][:3] -= [9, 0, 3]
    return object_checkpoint(variables)


@pytest.mark.large
@pytest.mark.parametrize("of_source", ["", "'abc_'\n"], ids=["one", "two"])
def test_converted_tensor2tensor_model_translates(
    convert, tensor2tensor, subwords, tmp_path, output, of_source
):
    """With one vocabulary, or with a longer one for the source."""
    source = tmp_path / "source.subwords"
    source.write_text(subwords.read_text() + of_source)
    words = tensor2tensor(len(SUBWORDS) + bool(of_source))
    given = ["--vocabulary", subwords]
    if of_source:
        given += ["--source-vocabulary", source]
    status, out, _ = convert(*words, *given)
    assert status == 0
    assert "used: " in out
    assert "encoder/layer_0" not in out
    assert "encoder/layer_0" in (output / "conversion.txt").read_text()

    translator = ra.load_translator(output, max_source_length=16)
    assert translator.max_extra_length == 100
    direct = ra.Translator(
        ra.load_tensor2tensor(words[1], words[3]),
        ra.SubwordVocabulary.load(subwords),
        ra.SubwordVocabulary.load(source),
        max_extra_length=100,
        max_source_length=16,
    )
    lines = ["a bad cab", "", "face.", "  the € abc_d", "f" * 300]
    translations = translator.search(lines)
    assert translations == direct.search(lines)
    assert len({translation.score for translation in translations}) > 3
    assert any(translation.text for translation in translations)


def test_model_without_a_vocabulary_is_not_loaded(
    convert, tensor2tensor, output
):
    assert convert(*tensor2tensor())[0] == 0
    with pytest.raises(ra.InputError, match="holds no vocabulary"):
        ra.load_translator(output)
    # Nor is what is there overwritten.
    before = sorted(output.iterdir())
    status, _, err = convert(*tensor2tensor())
    assert status == 1 and "is there already" in err
    assert sorted(output.iterdir()) == before


@pytest.mark.large
def test_converted_opennmt_tf_model_translates(
    convert, opennmt_tf_checkpoint, opennmt_tf_vocabularies, output
):
    status, out, _ = convert(
        "opennmt-tf", opennmt_tf_checkpoint, *opennmt_tf_vocabularies
    )
    assert status == 0
    assert "positions: relative, heads: 3" in out
    assert "model/encoder" not in out
    assert RELATION_TABLE in (output / "conversion.txt").read_text()

    translator = ra.load_translator(output, max_extra_length=6)
    assert (translator.num_beams, translator.length_penalty) == (4, 0.0)
    # No end of sentence after the source: OpenNMT-tf has none by default.
    source, target = (
        ["<blank>", "</s>", "<s>", *tokens[3:], "<unk>"]
        for tokens in (SOURCE_TOKENS, TARGET_TOKENS)
    )
    direct = ra.Translator(
        ra.load_opennmt_tf(opennmt_tf_checkpoint),
        ra.TokenVocabulary(target),
        ra.TokenVocabulary(source, end=False),
        length_penalty=0.0,
        max_extra_length=6,
    )
    lines = ["s1 s2 s12 s4", "", "s7 nowhere </s>", "s0"]
    translations = translator.search(lines)
    assert translations == direct.search(lines)
    assert translations[2].source_token_ids == (10, 16, 1, 0)
    assert len({translation.text for translation in translations}) > 2


def test_opennmt_tf_options_are_stored(
    convert,
    opennmt_tf,
    object_checkpoint,
    opennmt_tf_vocabularies,
    tmp_path,
    output,
):
    checkpoint = object_checkpoint(opennmt_tf(positions="sinusoidal"), step=6)
    model = tmp_path / "joint.model"
    model.write_bytes(train_vocabulary(281).model)
    words = ("opennmt-tf", checkpoint.parent, *opennmt_tf_vocabularies)
    words += ("--source-start", "--source-end", "--tokenizer", model)
    status, _, err = convert(*words)
    assert status == 1 and "`--num-heads`" in err
    status, out, _ = convert(*words, "--num-heads", 3, "--positions", "none")
    assert status == 0 and "ckpt-6" in out
    translator = ra.load_translator(output)
    assert translator.model.config.position_encoding is None
    vocabulary = translator.source_vocabulary
    assert (vocabulary.start, vocabulary.end_id) == (True, 1)
    assert vocabulary.tokenizer == translator.vocabulary.tokenizer
    assert vocabulary.tokenizer == model.read_bytes()
    assert translator.vocabulary.start is False


@pytest.mark.parametrize(
    "kind, arguments, message",
    [
        ("tensor2tensor", "--vocabulary no.subwords", "no.subwords"),
        ("tensor2tensor", "--vocabulary {short}", "24 subwords.*model 25"),
        ("tensor2tensor", "--source-vocabulary x", "without `--vocabulary`"),
        ("opennmt-tf", "--source-vocabulary {1}", "21 tokens.*model 17"),
        ("opennmt-tf", "--target-vocabulary {0}", "17 tokens.*model 21"),
    ],
)
def test_wrong_input_leaves_no_folder(
    convert,
    tensor2tensor,
    opennmt_tf_checkpoint,
    opennmt_tf_vocabularies,
    subwords,
    tmp_path,
    kind,
    arguments,
    message,
):
    short = tmp_path / "short.subwords"
    short.write_text("".join(subwords.read_text().splitlines(True)[:-1]))
    words = (kind, opennmt_tf_checkpoint, *opennmt_tf_vocabularies)
    if kind == "tensor2tensor":
        words = tensor2tensor()
    vocabularies = opennmt_tf_vocabularies[1::2]
    given = arguments.format(*vocabularies, short=short).split()
    check_refused(convert(*words, *given), message)
    assert not list(tmp_path.glob("*converted*"))
