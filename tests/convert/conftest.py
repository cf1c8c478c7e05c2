"""Checkpoints as tensor2tensor and OpenNMT-tf write them, to read from."""

import functools
import pathlib

import numpy as np
import pytest


def tensor2tensor_shapes(hparams, source_size, target_size, num_shards=3):
    """Names and shapes of the variables that tensor2tensor would make."""
    hidden, filters = hparams["hidden_size"], hparams["filter_size"]
    heads = hparams["num_heads"]
    pre_norm = hparams.get("layer_preprocess_sequence", "n") == "n"
    process = "prepostprocess" if pre_norm else "postprocess"
    relative = hparams.get("self_attention_type") == "dot_product_relative"
    key_dim = hparams.get("attention_key_channels") or hidden
    value_dim = hparams.get("attention_value_channels") or hidden
    body = "transformer/body"
    shapes = {}

    def norm(scope):
        for name in ("scale", "bias"):
            shapes[f"{scope}/layer_norm/layer_norm_{name}"] = (hidden,)

    for side in ("encoder", "decoder"):
        for layer in range(hparams["num_hidden_layers"]):
            scope = f"{body}/{side}/layer_{layer}"
            attentions = ["self_attention"]
            if side == "decoder":
                attentions.append("encdec_attention")
            for attention in attentions:
                inner = f"{scope}/{attention}/multihead_attention"
                shapes[f"{inner}/q/kernel"] = (hidden, key_dim)
                shapes[f"{inner}/k/kernel"] = (hidden, key_dim)
                shapes[f"{inner}/v/kernel"] = (hidden, value_dim)
                shapes[f"{inner}/output_transform/kernel"] = (value_dim, hidden)
                if relative and attention == "self_attention":
                    for kind in ("keys", "values"):
                        shapes[
                            f"{inner}/dot_product_attention_relative/"
                            f"relative_positions_{kind}/embeddings"
                        ] = (
                            2 * hparams["max_relative_position"] + 1,
                            key_dim // heads,
                        )
            shapes[f"{scope}/ffn/conv1/kernel"] = (hidden, filters)
            shapes[f"{scope}/ffn/conv1/bias"] = (filters,)
            shapes[f"{scope}/ffn/conv2/kernel"] = (filters, hidden)
            shapes[f"{scope}/ffn/conv2/bias"] = (hidden,)
            for sublayer in (*attentions, "ffn"):
                norm(f"{scope}/{sublayer}/layer_{process}")
        if pre_norm:
            norm(f"{body}/{side}/layer_prepostprocess")
    if hparams.get("use_target_space_embedding", True):
        shapes[f"{body}/target_space_embedding/kernel"] = (32, hidden)
    for use, size in _embeddings(hparams, source_size, target_size):
        for shard in range(num_shards):
            rows = size // num_shards + (shard < size % num_shards)
            scope = f"transformer/symbol_modality_{size}_{hidden}"
            shapes[f"{scope}/{use}/weights_{shard}"] = (rows, hidden)
    return shapes


def _embeddings(hparams, source_size, target_size):
    if source_size != target_size:
        return (
            ("input_emb", source_size),
            ("target_emb", target_size),
            ("softmax", target_size),
        )
    if hparams.get("shared_embedding_and_softmax_weights", True):
        return (("shared", source_size),)
    if hparams.get("shared_embedding"):
        return (("shared", source_size), ("softmax", target_size))
    uses = ("input_emb", "target_emb", "softmax")
    return tuple((use, source_size) for use in uses)


def save_checkpoint(prefix, arrays):
    """Write a checkpoint as TensorFlow 1's `Saver` does."""
    import tensorflow as tf

    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(array) for array in arrays.values()],
    )
    return prefix


@pytest.fixture
def hparams():
    """The smallest hyperparameters with everything in them."""
    return {
        "hidden_size": 12,
        "filter_size": 20,
        "num_heads": 3,
        "num_hidden_layers": 2,
        "self_attention_type": "dot_product_relative",
        "max_relative_position": 4,
        "pos": None,
        "layer_prepostprocess_dropout": 0.1,
        "attention_dropout": 0.2,
        "relu_dropout": 0.3,
        "shared_embedding_and_softmax_weights": True,
    }


@pytest.fixture
def variables(rng):
    """`variables(hparams, source_size, target_size)`: random values."""

    def draw(hparams, source_size=17, target_size=17, **arguments):
        shapes = tensor2tensor_shapes(
            hparams, source_size, target_size, **arguments
        )
        return {
            name: rng.normal(0, 0.3, shape).astype(np.float32)
            for name, shape in shapes.items()
        }

    return draw


@pytest.fixture
def checkpoint(tmp_path):
    """`checkpoint(arrays)` writes them and returns the prefix."""

    def write(arrays, step=1000):
        return save_checkpoint(tmp_path / f"model.ckpt-{step}", arrays)

    return write


@pytest.fixture
def golden_hparams(golden):
    """`golden_hparams(info)`: the whole set of a golden's model."""

    def merge(info):
        base = golden(f"E_hparams/{info['base_hparams']}").info
        return {**base, **info["overrides"]}

    return merge


def opennmt_tf_variables(
    rng,
    sharing="none",
    positions="relative",
    pre_norm=True,
    attention_bias=True,
    output_bias=True,
    num_layers=(2, 1),
    source_size=17,
    target_size=21,
):
    """The variables of an OpenNMT-tf Transformer by path, at random.

    Width 12, feed-forward width 20, 3 heads, K = 4, 9 learned positions. A
    variable that is shared stands under every path that it has. A path
    without a variable, an object that has none, has `None`.
    """
    hidden, filters, head_dim = 12, 20, 4
    variables = {}

    def draw(path, *shape, offset=0):
        values = offset + rng.normal(0, 0.4, shape)
        variables[path] = values.astype(np.float32)

    def dense(path, inputs, outputs, bias=True):
        draw(f"{path}/kernel", inputs, outputs)
        if bias:
            draw(f"{path}/bias", outputs)

    def norm(path):
        draw(f"{path}/gamma", hidden, offset=1)
        draw(f"{path}/beta", hidden)

    def attention(path, has_tables):
        for role in ("queries", "keys", "values", "output"):
            dense(f"{path}/linear_{role}", hidden, hidden, attention_bias)
        for role in ("keys", "values") if has_tables else ():
            draw(f"{path}/relative_position_{role}", 9, head_dim)

    for side, count in zip(("encoder", "decoder"), num_layers):
        places = f"model/{side}/position_encoder"
        if pre_norm:
            norm(f"model/{side}/layer_norm")
        if "sinusoidal" in positions:
            variables[places] = None
        if positions == "learned":
            draw(f"{places}/position_embedding", 10, hidden)
        for layer in range(count):
            path = f"model/{side}/layers/{layer}"
            crosses = ["attention/0"] if side == "decoder" else []
            for name in ("self_attention", "ffn", *crosses):
                kind = "input" if pre_norm else "output"
                norm(f"{path}/{name}/{kind}_layer_norm")
            attention(f"{path}/self_attention/layer", "relative" in positions)
            for name in crosses:
                attention(f"{path}/{name}/layer", has_tables=False)
            dense(f"{path}/ffn/layer/inner", hidden, filters)
            dense(f"{path}/ffn/layer/outer", filters, hidden)
    source, target = (
        f"model/examples_inputter/{side}_inputter/embedding"
        for side in ("features", "labels")
    )
    is_joint = sharing in ("all", "source_target")
    draw(source, target_size if is_joint else source_size, hidden)
    draw(target, target_size, hidden)
    if is_joint:
        variables[target] = variables[source]
    output = "model/decoder/output_layer"
    if sharing in ("all", "target"):
        # The kernel is the embedding.
        variables[f"{output}/weight"] = variables[target]
    else:
        draw(f"{output}/kernel", hidden, target_size)
    if output_bias:
        draw(f"{output}/bias", target_size)
    return variables


def save_objects(directory, variables, step=5, with_optimizer=False):
    """Write a checkpoint of a model as OpenNMT-tf's training does.

    An array that stands under several paths is one variable of several
    objects.
    """
    import tensorflow as tf

    root = tf.Module()
    made = {}
    for path, array in variables.items():
        *parents, name = path.split("/")
        node = root
        for parent in parents:
            if not hasattr(node, parent):
                setattr(node, parent, tf.Module())
            node = getattr(node, parent)
        if array is None:
            setattr(node, name, tf.Module())
            continue
        if id(array) not in made:
            made[id(array)] = tf.Variable(array)
        setattr(node, name, made[id(array)])
        if name == "weight":
            node.kernel = node.weight
    saved = {"model": root.model}
    if with_optimizer:
        saved["optimizer"] = optimizer = tf.compat.v1.train.AdamOptimizer()
        optimizer.apply_gradients(
            [(tf.zeros_like(variable), variable) for variable in made.values()]
        )
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(**saved), str(directory), max_to_keep=None
    )
    return pathlib.Path(manager.save(checkpoint_number=step))


@pytest.fixture
def opennmt_tf(rng):
    """`opennmt_tf(**options)`: see `opennmt_tf_variables`."""
    return functools.partial(opennmt_tf_variables, rng)


@pytest.fixture
def object_checkpoint(tmp_path):
    """`object_checkpoint(variables)` writes `ckpt-5`, returns the prefix."""
    return functools.partial(save_objects, tmp_path / "run")
