"""tensor2tensor's checkpoints: what they hold, and what can be wrong."""

import json
import re

import numpy as np
import pytest

import relative_attention as ra

SOURCE = np.array([[5, 3, 9, 1], [7, 1, 0, 0]])
TARGET = np.array([[0, 4, 8], [0, 2, 2]])
RELATIVE_TABLE = (
    "transformer/body/decoder/layer_1/self_attention/multihead_attention/"
    "dot_product_attention_relative/relative_positions_keys/embeddings"
)
SHARD = "transformer/symbol_modality_17_12/shared/weights_1"
LAST_SHARD = SHARD.replace("weights_1", "weights_2")


@pytest.fixture
def arrays(hparams, variables):
    """The variables of the fixture `hparams`."""
    return variables(hparams)


@pytest.fixture
def load(hparams, checkpoint):
    """`load(arrays, hparam=value)`: written to a checkpoint, and loaded."""

    def load(arrays, step=1000, **changes):
        prefix = checkpoint(arrays, step)
        return ra.load_tensor2tensor(prefix, {**hparams, **changes})

    return load


def logits_of(model):
    inputs = {"source_token_ids": SOURCE, "target_token_ids": TARGET}
    return np.array(model(inputs))


@pytest.mark.parametrize(
    "change, fields",
    [
        # The goldens have the others.
        ({}, {"position_encoding": "relative", "max_relative_position": 4}),
        (
            {"pos": "timing", "use_target_space_embedding": False},
            {
                "position_encoding": "relative+sinusoidal",
                "use_target_space_embedding": False,
            },
        ),
        (
            {"self_attention_type": "dot_product", "pos": "none"}
            | {"shared_embedding_and_softmax_weights": False},
            {"position_encoding": None, "share_embeddings": "none"},
        ),
        (
            {
                "shared_embedding_and_softmax_weights": False,
                "shared_embedding": True,
            },
            {"share_embeddings": "source_target"},
        ),
        (
            {
                "self_attention_type": "dot_product",
                "attention_key_channels": 24,
                "attention_value_channels": 36,
            },
            {"key_dim": 8, "value_dim": 12},
        ),
    ],
)
def test_every_variable_finds_its_place(
    hparams, variables, load, change, fields
):
    arrays = variables({**hparams, **change})
    model = load(arrays, **change)
    config = model.config
    assert {name: getattr(config, name) for name in fields} == fields
    assert config.vocabulary_size == 17
    assert (config.hidden_dim, config.intermediate_dim) == (12, 20)
    assert (config.num_encoder_layers, config.num_decoder_layers) == (2, 2)
    dropout = config.dropout, config.attention_dropout
    assert (*dropout, config.intermediate_dropout) == (0.1, 0.2, 0.3)
    # All random numbers are different, so each weight is one of them.
    space = "transformer/body/target_space_embedding/kernel"
    if space in arrays:
        arrays[space] = arrays[space][0]
    loaded = np.concatenate([np.ravel(w) for w in model.trainable_weights])
    np.testing.assert_array_equal(
        np.sort(loaded),
        np.sort(np.concatenate([array.ravel() for array in arrays.values()])),
    )
    assert np.isfinite(logits_of(model)).all()


def test_shards_are_joined_in_numerical_order(hparams, variables, load):
    # `weights_10` comes before `weights_2` in the order of names.
    arrays = variables(hparams, num_shards=16)
    model = load(arrays)
    scope = "transformer/symbol_modality_17_12/shared"
    np.testing.assert_array_equal(
        model.source_embedding.embeddings,
        np.concatenate([arrays[f"{scope}/weights_{i}"] for i in range(16)]),
    )


def test_target_space_id_selects_a_row(hparams, arrays, checkpoint):
    table = arrays["transformer/body/target_space_embedding/kernel"]
    prefix = checkpoint(arrays)
    model = ra.load_tensor2tensor(prefix, hparams, target_space_id=7)
    np.testing.assert_array_equal(
        model.target_space_embedding.embedding, table[7]
    )
    with pytest.raises(ra.InputError, match=r"\(32, 12\).*target_space_id=32"):
        ra.load_tensor2tensor(prefix, hparams, target_space_id=32)


def test_report_names_every_variable(hparams, arrays, checkpoint):
    beside = {
        "global_step": np.int64(7),
        "losses_avg/problem_0/total_loss": np.float32(1),
        "train_stats/problem_0_steps": np.int32(7),
        "training/beta1_power": np.float32(0.5),
        **{f"training/{name}/Adam_1": arrays[name] for name in arrays},
    }
    lines = []
    ra.load_tensor2tensor(
        checkpoint({**arrays, **beside}), hparams, report=lines.append
    )
    named = [line.strip() for line in lines if line.startswith(" ")]
    assert sorted(named) == sorted([*arrays, *beside])


def test_folder_loads_its_latest_checkpoint(hparams, variables, checkpoint):
    old = checkpoint(variables(hparams), step=1000)
    new = checkpoint(variables(hparams), step=200)
    with pytest.raises(ra.InputError, match="model.ckpt-1000, model.ckpt-200"):
        ra.load_tensor2tensor(new.parent, hparams)
    (new.parent / "checkpoint").write_text(
        'model_checkpoint_path: "/elsewhere/model.ckpt-200"\n'
        'all_model_checkpoint_paths: "/elsewhere/model.ckpt-1000"\n'
    )
    latest, named, other = (
        logits_of(ra.load_tensor2tensor(path, hparams))
        for path in (new.parent, f"{new}.index", old)
    )
    np.testing.assert_array_equal(latest, named)
    assert (latest != other).any()


def test_missing_checkpoint_lists_existing_ones(hparams, arrays, checkpoint):
    prefix = checkpoint(arrays)
    with pytest.raises(ra.InputError, match="ckpt-7: .*holds model.ckpt-1000"):
        ra.load_tensor2tensor(prefix.with_name("model.ckpt-7"), hparams)
    empty = prefix.parent / "empty"
    empty.mkdir()
    for path in (empty, empty / "model.ckpt-7", prefix.parent / "no" / "m"):
        with pytest.raises(ra.InputError, match="hold"):
            ra.load_tensor2tensor(path, hparams)


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_damaged_checkpoint_is_refused(hparams, arrays, checkpoint, suffix):
    prefix = checkpoint(arrays)
    file = prefix.with_name(prefix.name + suffix)
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle] ^= 8
    # Cut short, with a bit that changed, missing.
    for damaged in (content[:middle], content, None):
        file.unlink()
        if damaged is not None:
            file.write_bytes(damaged)
        with pytest.raises(ra.InputError, match="model.ckpt-1000"):
            ra.load_tensor2tensor(prefix, hparams)


@pytest.mark.parametrize(
    "change, message",
    [
        # What the variables contradict.
        ({"hidden_size": 24}, r"the hparams.*\(24, 24\).*\(12, 12\).*more"),
        ({"num_decoder_layers": 1}, "decoder/layer_1.*nowhere.*these hparams"),
        ({"max_relative_position": 20}, r"\(41, 4\), in the ch.* \(9, 4\)"),
        ({"self_attention_type": "dot_product"}, "_keys/embeddings.*nowhere"),
        # Not supported.
        ({"ffn_layer": "conv_hidden_relu"}, "'ffn_layer'.*'conv_hidden_relu'"),
        ({"layer_postprocess_sequence": "dn"}, "'layer_postprocess_sequence'"),
        ({"attention_key_channels": 13}, "13 channels"),
        # Of a far larger model: nothing is built.
        ({"num_hidden_layers": 100_000}, "must be at most"),
        ({"max_relative_position": 2**31 - 1}, "must be at most"),
        # Damaged.
        ({"num_heads": 0}, "'num_heads' must be a positive int"),
        ({"attention_key_channels": "12"}, "must be a non-negative int.*'12'"),
        ({"attention_dropout": "0.1"}, "hparams.*`attention_dropout` must be"),
    ],
)
def test_wrong_hparam_is_named(load, arrays, change, message):
    with pytest.raises(ra.InputError, match=message):
        load(arrays, **change)


def test_hparams_are_read_from_a_file(hparams, arrays, checkpoint, tmp_path):
    prefix = checkpoint(arrays)
    file = tmp_path / "hparams.json"
    file.write_text(json.dumps(hparams))
    np.testing.assert_array_equal(
        logits_of(ra.load_tensor2tensor(prefix, file)),
        logits_of(ra.load_tensor2tensor(prefix, hparams)),
    )
    for text in ("{", "[1]"):
        file.write_text(text)
        with pytest.raises(ra.InputError, match="hparams.json.*JSON"):
            ra.load_tensor2tensor(prefix, file)
    with pytest.raises(ra.InputError, match="No hparams at"):
        ra.load_tensor2tensor(prefix, tmp_path / "no.json")
    hparams["num_head"] = hparams.pop("num_heads")
    with pytest.raises(ra.InputError, match="'num_heads'. There is 'num_head'"):
        ra.load_tensor2tensor(prefix, hparams)


@pytest.mark.parametrize(
    "change, name, message",
    [
        ("missing", RELATIVE_TABLE, f"lacks.*{RELATIVE_TABLE}"),
        # A missing shard is missed by the rows of all.
        ("missing", SHARD, r"_17_12/shared \(17, 12\), .* \(11, 12\)"),
        ("missing", LAST_SHARD, r"_17_12/shared \(17, 12\), .* \(12, 12\)"),
        ("cut", RELATIVE_TABLE, rf"{RELATIVE_TABLE}.*\(\d+, \d+\)"),
        ("cut", SHARD, rf"{SHARD}.*\(\d+, \d+\)"),
        ("text", RELATIVE_TABLE, "cut short or damaged.*text"),
        ("text", SHARD, "cut short or damaged.*text"),
        ("added", "layer_0/moe/gates", "layer_0/moe/gates.*fits nowhere"),
        ("added", SHARD.replace("_17_12", "_9_12"), "_9_12/shared"),
    ],
)
def test_wrong_variable_is_named(load, arrays, change, name, message):
    array = arrays.pop(name, np.ones((9, 12), "float32"))
    if change == "cut":
        array = array[:, :-1]
    if change == "text":
        array = np.full(array.shape, b"text")
    if change != "missing":
        arrays[name] = array
    with pytest.raises(ra.InputError, match=message):
        load(arrays)


def test_checkpoint_of_another_model_is_refused(load):
    with pytest.raises(ra.InputError, match="symbol_modality.*Received: "):
        load({"resnet/kernel": np.ones((9, 12), "float32")})


def test_far_larger_size_in_a_name_builds_nothing(load, arrays):
    renamed = {
        re.sub(r"symbol_modality_\d+", "symbol_modality_1000000000", name): x
        for name, x in arrays.items()
    }
    with pytest.raises(ra.InputError, match="must be at most"):
        load(renamed)
