"""OpenNMT-tf's checkpoints: what they compute, and what can be wrong."""

import numpy as np
import pytest

import relative_attention as ra
from tests.small_models import pad

# In OpenNMT-tf's ids: `<s>` 1, `</s>` 2, `<unk>` the last of 17 and of 21.
SOURCES = [[5, 16, 3, 9, 2, 1, 4], [7, 2, 11]]
TARGETS = [[1, 4, 20, 2, 5, 6], [1, 19, 3, 8]]
SOURCE = "model/examples_inputter/features_inputter/embedding"
TARGET = "model/examples_inputter/labels_inputter/embedding"
KERNEL = "model/decoder/output_layer/kernel"
RELATION_TABLE = (
    "model/decoder/layers/0/self_attention/layer/relative_position_values"
)
CROSS_KEYS = "model/decoder/layers/0/attention/0/layer/linear_keys/kernel"


class OpenNMTTF:
    """OpenNMT-tf's equations, in float64, a sentence and a head at a time."""

    def __init__(self, variables, positions):
        self.variables = variables
        self.positions = positions

    def logits(self, source, target):
        """`(T, V)`, for lists of ids."""
        memory = self.stack("encoder", self.embed("encoder", SOURCE, source))
        hidden = self.embed("decoder", TARGET, target)
        hidden = self.stack("decoder", hidden, memory)
        output = "model/decoder/output_layer"
        if f"{output}/weight" in self.variables:
            logits = hidden @ self.get(f"{output}/weight").T
        else:
            logits = hidden @ self.get(f"{output}/kernel")
        return logits + self.get(f"{output}/bias", 0.0)

    def get(self, path, default=None):
        if default is not None and path not in self.variables:
            return default
        return np.float64(self.variables[path])

    def embed(self, side, path, ids):
        hidden = self.get(path)[ids] * 12**0.5
        numbers = np.arange(1, len(ids) + 1)
        if "sinusoidal" in self.positions:
            scales = np.exp(np.arange(6) * -np.log(10000) / 5)
            angles = numbers[:, None] * scales
            hidden += np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        if self.positions == "learned":
            table = f"model/{side}/position_encoder/position_embedding"
            hidden += self.get(table)[np.minimum(numbers, 9)]
        return hidden

    def stack(self, side, hidden, memory=None):
        layer = 0
        while f"model/{side}/layers/{layer}/ffn/layer/inner/bias" in (
            self.variables
        ):
            path = f"model/{side}/layers/{layer}"
            hidden = self.wrap(
                f"{path}/self_attention", hidden, self.attend_self, memory
            )
            if memory is not None:
                hidden = self.wrap(
                    f"{path}/attention/0", hidden, self.attend_to, memory
                )
            hidden = self.wrap(f"{path}/ffn", hidden, self.feed_forward)
            layer += 1
        return self.normalize(f"model/{side}/layer_norm", hidden)

    def wrap(self, path, hidden, sublayer, *arguments):
        inner = self.normalize(f"{path}/input_layer_norm", hidden)
        hidden = hidden + sublayer(f"{path}/layer", inner, *arguments)
        return self.normalize(f"{path}/output_layer_norm", hidden)

    def normalize(self, path, x):
        if f"{path}/gamma" not in self.variables:
            return x
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + 1e-3)
        return scaled * self.get(f"{path}/gamma") + self.get(f"{path}/beta")

    def dense(self, path, x):
        return x @ self.get(f"{path}/kernel") + self.get(f"{path}/bias", 0.0)

    def feed_forward(self, path, x):
        return self.dense(
            f"{path}/outer", np.maximum(self.dense(f"{path}/inner", x), 0)
        )

    def attend_self(self, path, x, memory):
        """The decoder's is causal; it is the one with a memory."""
        return self.attend_to(path, x, x, is_causal=memory is not None)

    def attend_to(self, path, x, memory, is_causal=False):
        query, key, value = (
            self.dense(f"{path}/linear_{name}", inputs)
            for name, inputs in (
                ("queries", x),
                ("keys", memory),
                ("values", memory),
            )
        )
        context = np.zeros_like(query)
        tables = f"{path}/relative_position"
        zeros = np.zeros((9, 4))
        key_table = self.get(f"{tables}_keys", zeros)
        value_table = self.get(f"{tables}_values", zeros)
        for head in range(3):
            part = slice(4 * head, 4 * head + 4)
            for i in range(len(x)):
                js = np.arange(i + 1 if is_causal else len(memory))
                edges = np.clip(js - i, -4, 4) + 4
                keys = key[js, part] + key_table[edges]
                weights = np.exp(keys @ query[i, part] / 2)
                values = value[js, part] + value_table[edges]
                context[i, part] = weights @ values / weights.sum()
        return self.dense(f"{path}/linear_output", context)


@pytest.fixture
def load(object_checkpoint):
    """`load(variables, num_heads=3)`: written to a checkpoint, and loaded."""
    return lambda variables, **arguments: ra.load_opennmt_tf(
        object_checkpoint(variables), **arguments
    )


def our_ids(rows):
    """OpenNMT-tf's ids as ours, padded."""
    return pad([[{1: 2, 2: 1}.get(i, i) for i in row] for row in rows])


def logits_of(model):
    return np.array(
        model(
            {
                "source_token_ids": our_ids(SOURCES),
                "target_token_ids": our_ids(TARGETS),
            }
        )
    )


def check_logits(model, variables, positions):
    """At once and step by step, with OpenNMT-tf's."""
    source_ids, target_ids = our_ids(SOURCES), our_ids(TARGETS)
    logits = logits_of(model)
    cache = model.start_cache(source_ids)
    steps = []
    for position, tokens in enumerate(target_ids.T):
        step, cache = model.decode_step(tokens[:, None], cache, position)
        steps.append(np.array(step)[:, 0])
    reference = OpenNMTTF(variables, positions)
    for i, (source, target) in enumerate(zip(SOURCES, TARGETS)):
        expected = reference.logits(source, target)
        expected[:, [1, 2]] = expected[:, [2, 1]]
        for received in (logits, np.stack(steps, axis=1)):
            np.testing.assert_allclose(
                received[i, : len(target)], expected, atol=1e-5
            )


def large(*values):
    return pytest.param(*values, marks=pytest.mark.large)


@pytest.mark.parametrize(
    "options, arguments, fields",
    [
        ({}, {}, {"position_encoding": "relative", "num_heads": 3}),
        (
            {"sharing": "all", "pre_norm": False},
            {},
            {"share_embeddings": "all", "normalize_first": False},
        ),
        (
            {"positions": "relative+sinusoidal", "sharing": "source_target"},
            {"num_heads": 3},
            {"position_encoding": "relative+sinusoidal", "first_position": 1},
        ),
        (
            {"positions": "learned", "sharing": "target"}
            | {"attention_bias": False, "output_bias": False},
            {"num_heads": 3},
            {"max_length": 9, "attention_bias": False, "output_bias": False},
        ),
        large(
            {},
            {"position_encoding": "relative+sinusoidal"},
            {"position_encoding": "relative+sinusoidal"},
        ),
        large(
            {"positions": "sinusoidal", "num_layers": (1, 2)},
            {"num_heads": 3},
            {"num_encoder_layers": 1, "num_decoder_layers": 2},
        ),
        large(
            {"positions": "none", "sharing": "all"},
            {"num_heads": 3, "position_encoding": None},
            {"position_encoding": None},
        ),
    ],
    ids="relative shared both learned told sinusoidal none".split(),
)
def test_logits_equal_opennmt_tf(opennmt_tf, load, options, arguments, fields):
    variables = opennmt_tf(**options)
    model = load(variables, **arguments)
    assert {name: getattr(model.config, name) for name in fields} == fields
    assert model.start_token_id == 2
    # What is told goes before what the checkpoint says.
    told = arguments.get("position_encoding")
    check_logits(model, variables, told or options.get("positions", "relative"))


@pytest.mark.parametrize(
    "sharing", ["target", large("none"), large("source_target"), large("all")]
)
def test_checkpoint_loads_without_its_object_graph(
    opennmt_tf, checkpoint, sharing
):
    variables = opennmt_tf(sharing=sharing)
    stored = {}
    for path, array in variables.items():
        if not any(array is other for other in stored.values()):
            stored[f"{path}/.ATTRIBUTES/VARIABLE_VALUE"] = array
    model = ra.load_opennmt_tf(checkpoint(stored))
    assert model.config.share_embeddings == sharing
    check_logits(model, variables, "relative")


def test_report_names_every_variable(opennmt_tf, object_checkpoint):
    import tensorflow as tf

    variables = opennmt_tf(sharing="target")
    prefix = object_checkpoint(variables, with_optimizer=True)
    lines = []
    ra.load_opennmt_tf(prefix, report=lines.append)
    named = [line.strip() for line in lines if line.startswith(" ")]
    stored = {name for name, _ in tf.train.list_variables(str(prefix))}
    assert any("/.OPTIMIZER_SLOT/optimizer/m/" in name for name in stored)
    assert sorted(named) == sorted(stored - {"_CHECKPOINTABLE_OBJECT_GRAPH"})
    # The output kernel is one more path of the target's embedding.
    assert f"used: {len(variables) - 1}" in lines


def test_damaged_object_graph_is_refused(
    opennmt_tf, object_checkpoint, checkpoint
):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(object_checkpoint(opennmt_tf())))
    stored = {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
    }
    stored["_CHECKPOINTABLE_OBJECT_GRAPH"] = b"\x0a\xff"
    with pytest.raises(ra.InputError, match="cut short or damaged"):
        ra.load_opennmt_tf(checkpoint(stored))


@pytest.mark.parametrize(
    "change, path, message",
    [
        *(
            ("cut", path, rf"{path} \(.*\(\d+,.*\)")
            for path in (
                RELATION_TABLE,
                KERNEL,
                "model/decoder/output_layer/bias",
            )
        ),
        ("missing", CROSS_KEYS, f"lacks.* {CROSS_KEYS}"),
        # A lost target embedding was that of the source, as far as names tell.
        ("missing", TARGET, rf"{KERNEL} \(.*\(\d+,.*\)"),
        (
            "added",
            "model/encoder/layers/0/adapter/kernel",
            "adapter/kernel.*nowhere",
        ),
        (
            "added",
            CROSS_KEYS.replace("attention/0", "attention/1"),
            "more than one source",
        ),
        (
            "added",
            "model/encoder/position_encoder/position_embedding",
            "both are not supported",
        ),
    ],
)
def test_wrong_variable_is_named(opennmt_tf, load, change, path, message):
    variables = opennmt_tf()
    if change == "added":
        variables[path] = np.ones((12, 12), "float32")
    else:
        array = variables.pop(path)
        if change == "cut":
            variables[path] = array[..., :-1]
    with pytest.raises(ra.InputError, match=message):
        load(variables)


def test_checkpoint_of_another_model_is_refused(opennmt_tf, load, checkpoint):
    variables = {
        path: array
        for path, array in opennmt_tf().items()
        if "decoder/layers" not in path
    }
    message = "no Transformer for translation: it lacks model/decoder/"
    with pytest.raises(ra.InputError, match=message):
        load(variables)
    prefix = checkpoint({"transformer/encoder/w_embs": np.ones((3, 3), "f4")})
    with pytest.raises(ra.InputError, match="no checkpoint of OpenNMT-tf 2"):
        ra.load_opennmt_tf(prefix)


@pytest.mark.parametrize(
    "options, arguments, message",
    [
        ({}, {"num_heads": 4}, r"3 heads \(12 / 4\). Received: num_heads=4"),
        ({"positions": "sinusoidal"}, {}, "`--num-heads`"),
        ({"positions": "none"}, {"num_heads": 3}, "which positions"),
        (
            {"positions": "learned"},
            {"num_heads": 3, "position_encoding": "sinus"},
            "positions 'learned'. Received.*'sinus'; known: 'auto', 'relative'",
        ),
    ],
)
def test_contradictory_argument_is_named(
    opennmt_tf, load, options, arguments, message
):
    with pytest.raises(ra.InputError, match=message):
        load(opennmt_tf(**options), **arguments)
