"""tensor2tensor's checkpoints: what they hold, and what can be wrong."""

import json

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


def logits_of(model):
    inputs = {"source_token_ids": SOURCE, "target_token_ids": TARGET}
    return np.array(model(inputs))


@pytest.mark.parametrize(
    "change, fields",
    [
        ({}, {"position_encoding": "relative", "max_relative_position": 4}),
        (
            {"self_attention_type": "dot_product", "pos": "timing"},
            {"position_encoding": "sinusoidal"},
        ),
        ({"pos": "timing"}, {"position_encoding": "relative+sinusoidal"}),
        (
            {"self_attention_type": "dot_product", "pos": "none"},
            {"position_encoding": None},
        ),
        (
            {
                "layer_preprocess_sequence": "none",
                "layer_postprocess_sequence": "dan",
            },
            {"normalize_first": False},
        ),
        (
            {"use_target_space_embedding": False},
            {"use_target_space_embedding": False},
        ),
        (
            {"shared_embedding_and_softmax_weights": False},
            {"share_embeddings": "none"},
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
    hparams, variables, checkpoint, change, fields
):
    hparams = {**hparams, **change}
    arrays = variables(hparams)
    model = ra.load_tensor2tensor(checkpoint(arrays), hparams)
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


def test_vocabularies_may_differ(hparams, variables, checkpoint):
    model = ra.load_tensor2tensor(
        checkpoint(variables(hparams, source_size=10, target_size=17)), hparams
    )
    assert model.config.share_embeddings == "none"
    assert model.config.source_vocabulary_size == 10
    assert logits_of(model).shape == (2, 3, 17)


def test_shards_are_joined_in_the_order_of_their_numbers(
    hparams, variables, checkpoint
):
    # `weights_10` comes before `weights_2` in the order of names.
    arrays = variables(hparams, num_shards=16)
    model = ra.load_tensor2tensor(checkpoint(arrays), hparams)
    scope = "transformer/symbol_modality_17_12/shared"
    np.testing.assert_array_equal(
        model.source_embedding.embeddings,
        np.concatenate([arrays[f"{scope}/weights_{i}"] for i in range(16)]),
    )


def test_target_space_is_a_row_of_the_table(hparams, variables, checkpoint):
    arrays = variables(hparams)
    table = arrays["transformer/body/target_space_embedding/kernel"]
    prefix = checkpoint(arrays)
    model = ra.load_tensor2tensor(prefix, hparams, target_space_id=7)
    np.testing.assert_array_equal(
        model.target_space_embedding.embedding, table[7]
    )
    with pytest.raises(ra.InputError, match=r"\(32, 12\).*target_space_id=32"):
        ra.load_tensor2tensor(prefix, hparams, target_space_id=32)


def test_report_names_every_variable(hparams, variables, checkpoint):
    arrays = variables(hparams)
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


def test_folder_stands_for_its_latest_checkpoint(
    hparams, variables, checkpoint
):
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


def test_missing_checkpoint_names_those_that_exist(
    hparams, variables, checkpoint
):
    prefix = checkpoint(variables(hparams))
    with pytest.raises(ra.InputError, match="ckpt-7: .*holds model.ckpt-1000"):
        ra.load_tensor2tensor(prefix.with_name("model.ckpt-7"), hparams)
    empty = prefix.parent / "empty"
    empty.mkdir()
    for path in (empty, empty / "model.ckpt-7", prefix.parent / "no" / "m"):
        with pytest.raises(ra.InputError, match="hold"):
            ra.load_tensor2tensor(path, hparams)


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (".index", "cut"),
        (".index", "flipped"),
        (".data-00000-of-00001", "flipped"),
        (".data-00000-of-00001", "missing"),
    ],
)
def test_damaged_checkpoint_is_an_error(
    hparams, variables, checkpoint, suffix, damage
):
    prefix = checkpoint(variables(hparams))
    file = prefix.with_name(prefix.name + suffix)
    content = bytearray(file.read_bytes())
    file.unlink()
    if damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    if damage == "flipped":
        content[len(content) // 2] ^= 8
        file.write_bytes(content)
    with pytest.raises(ra.InputError, match="model.ckpt-1000"):
        ra.load_tensor2tensor(prefix, hparams)


def test_variable_that_is_no_number_is_an_error(hparams, variables, checkpoint):
    arrays = variables(hparams)
    arrays[RELATIVE_TABLE] = np.full((9, 4), b"text")
    with pytest.raises(ra.InputError, match="cut short or damaged.*text"):
        ra.load_tensor2tensor(checkpoint(arrays), hparams)


@pytest.mark.parametrize(
    "change, message",
    [
        # What the variables contradict.
        ({"hidden_size": 24}, r"the hparams.*\(24, 24\).*\(12, 12\).*more"),
        ({"num_decoder_layers": 1}, "decoder/layer_1.*nowhere.*these hparams"),
        ({"num_heads": 2}, r"the hparams.*\(9, 6\).*\(9, 4\)"),
        ({"max_relative_position": 20}, r"\(41, 4\), in the ch.* \(9, 4\)"),
        ({"self_attention_type": "dot_product"}, "_keys/embeddings.*nowhere"),
        (
            {
                "layer_preprocess_sequence": "none",
                "layer_postprocess_sequence": "dan",
            },
            "lacks .*layer_postprocess",
        ),
        # Not supported.
        ({"ffn_layer": "conv_hidden_relu"}, "'ffn_layer'.*'conv_hidden_relu'"),
        ({"self_attention_type": "dot_product_relative_v2"}, "_v2"),
        ({"layer_postprocess_sequence": "dn"}, "'layer_postprocess_sequence'"),
        ({"attention_key_channels": 13}, "13 channels"),
        # Damaged.
        ({"num_heads": 0}, "'num_heads' must be a positive int"),
        ({"attention_key_channels": "12"}, "must be a non-negative int.*'12'"),
        ({"attention_dropout": "0.1"}, "hparams.*`attention_dropout` must be"),
    ],
)
def test_wrong_hparam_is_named(hparams, variables, checkpoint, change, message):
    prefix = checkpoint(variables(hparams))
    with pytest.raises(ra.InputError, match=message):
        ra.load_tensor2tensor(prefix, {**hparams, **change})


def test_hparams_may_be_a_file(hparams, variables, checkpoint, tmp_path):
    prefix = checkpoint(variables(hparams))
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


@pytest.mark.parametrize("name", [RELATIVE_TABLE, SHARD])
def test_missing_variable_is_named(hparams, variables, checkpoint, name):
    arrays = variables(hparams)
    del arrays[name]
    with pytest.raises(ra.InputError, match=f"lacks.*{name}"):
        ra.load_tensor2tensor(checkpoint(arrays), hparams)
    # The last shard is missed by the rows.
    arrays = variables(hparams)
    del arrays[SHARD.replace("weights_1", "weights_2")]
    with pytest.raises(ra.InputError, match="12 rows, not the 17"):
        ra.load_tensor2tensor(checkpoint(arrays, step=2), hparams)


@pytest.mark.parametrize("name", [RELATIVE_TABLE, SHARD])
def test_wrong_shape_is_named(hparams, variables, checkpoint, name):
    arrays = variables(hparams)
    arrays[name] = arrays[name][:, :-1]
    with pytest.raises(ra.InputError, match=rf"{name}.*\(\d+, \d+\)"):
        ra.load_tensor2tensor(checkpoint(arrays), hparams)


@pytest.mark.parametrize(
    "name, message",
    [
        ("layer_0/moe/gates", "layer_0/moe/gates.*fits nowhere"),
        ("transformer/symbol_modality_9_12/shared/weights_0", "_9_12/shared"),
        # Of something else, which has nothing of ours.
        (None, "symbol_modality.*Received: none"),
    ],
)
def test_variable_that_fits_nowhere_is_named(
    hparams, variables, checkpoint, name, message
):
    ours = variables(hparams) if name else {}
    arrays = {**ours, name or "resnet/kernel": np.ones((9, 12), "float32")}
    with pytest.raises(ra.InputError, match=message):
        ra.load_tensor2tensor(checkpoint(arrays), hparams)
