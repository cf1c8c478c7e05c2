"""A small `Transformer` in every combination of the modes users switch.

As `tests/test_switches.py` does for layers. What is expected is the same model
in float64 by the plainest path: eagerly, with all scores, `"transpose"`.
"""

import contextlib
import pathlib
import random
import tempfile

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from tests import switches
from tests import test_switches as of_layers
from tests.test_switches import BACKEND
from tests.test_switches import QUANTIZED
from tests.test_switches import few_bits

B, S, T, V, N, H, F, K = 2, 5, 6, 11, 2, 4, 7, 2
D = N * H
SMOOTHING = 0.1

SWITCHES = {
    "encoding": (
        *("relative", "relative_global", "rotary", "alibi", "t5"),
        *("sinusoidal", "learned", "relative+sinusoidal", None, "own"),
    ),
    "result": ("logits", "gradients", "scores", "steps"),
    "implementation": ("auto", "transpose", "recompute"),
    "terms": ("both", "keys", "values"),
    "tables": ("shared", "of heads"),
    "normalize_first": (False, True),
    "share_embeddings": ("all", "target", "source_target", "none"),
    "biases": (False, True),
    "dropout": ("of rate 0", "in training", "outside training"),
    "weights": ("trainable", "frozen", "lora", "int8"),
    "way": ("direct", "stateless", "loaded", "cloned"),
    "length": ("known", "unknown"),
    "mode": ("eager", "graph", "xla"),
    "dtype": of_layers.SWITCHES["dtype"],
}
RULES = [
    (
        "no table that heads may share, or of keys or values alone",
        lambda c: (
            c["terms"] != "both"
            and c["encoding"] not in ("relative", "relative+sinusoidal")
        ),
    ),
    (
        "no table that heads may share",
        lambda c: (
            c["tables"] != "shared"
            and c["encoding"] not in ("relative", "relative+sinusoidal")
        ),
    ),
    (
        "a step of training has gradients",
        lambda c: (
            c["result"] == "gradients" and c["dropout"] == "outside training"
        ),
    ),
    (
        "scores and steps of decoding are not of training",
        lambda c: (
            c["result"] in ("scores", "steps")
            and c["dropout"] != "outside training"
        ),
    ),
    (
        "a graph of TensorFlow alone has unknown lengths",
        lambda c: (
            c["length"] == "unknown"
            and (c["mode"] == "eager" or BACKEND != "tensorflow")
        ),
    ),
    (
        "adapters are saved as sums",
        lambda c: c["way"] == "loaded" and c["weights"] == "lora",
    ),
    (
        "int8 is not trained",
        lambda c: c["weights"] == "int8" and c["result"] == "gradients",
    ),
    (
        "Keras' dense layers have the digits of float32 on PyTorch",
        lambda c: c["dtype"] == "float64" and BACKEND == "torch",
    ),
    *(
        rule
        for rule in of_layers.RULES
        if rule[0]
        in (
            "a clone has no adapters",
            "Keras has no int8 beside float16",
            "int8 needs Keras 3.13",
            "this backend compiles with XLA alone",
            "this backend runs eagerly",
        )
    ),
]
ONE_PATH = [
    (
        "all scores are returned, however they are computed",
        lambda c: c["implementation"] != "auto" and c["result"] == "scores",
    ),
    (
        "a step has one implementation",
        lambda c: c["implementation"] != "auto" and c["result"] == "steps",
    ),
]
small_blocks = of_layers.small_blocks


def make_model(case, dtype, implementation):
    drops = case["dropout"] != "of rate 0"
    encoding = case["encoding"]
    config = ra.TransformerConfig(
        vocabulary_size=V,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=D,
        intermediate_dim=F,
        num_heads=N,
        max_relative_position=K,
        position_encoding=of_layers.Slope() if encoding == "own" else encoding,
        use_key_relations=case["terms"] in ("both", "keys"),
        use_value_relations=case["terms"] in ("both", "values"),
        share_relations_across_heads=case["tables"] == "shared",
        normalize_first=case["normalize_first"],
        share_embeddings=case["share_embeddings"],
        attention_bias=case["biases"],
        output_bias=case["biases"],
        dropout=0.2 * drops,
        attention_dropout=0.3 * drops,
        intermediate_dropout=0.4 * drops,
        max_length=T,
        implementation=implementation,
    )
    return ra.Transformer(config, dtype=dtype, name="model")


def attention_layers(model):
    for block in model.encoder_blocks:
        yield block.self_attention
    for block in model.decoder_blocks:
        yield block.self_attention
        yield block.cross_attention


def short_name(variable):
    return variable.path.split("/", 1)[1]


class Case:
    """What one case computes, and what it should.

    Attributes:
        arrays: dict of ids by name, the inputs.
        labels: int array `(B, T)`.
    """

    def __init__(self, case, seed=0):
        self.switches = case
        self.seed = seed
        rng = np.random.default_rng(seed)
        source = rng.integers(2, V, (B, S)).astype("int32")
        labels = rng.integers(2, V, (B, T)).astype("int32")
        source[1, 3:], labels[0, 4:] = 0, 0
        self.labels = labels
        self.arrays = {
            "source_token_ids": source,
            "target_token_ids": np.pad(labels[:, :-1], ((0, 0), (1, 0))),
        }
        self.training = case["dropout"] != "outside training"

    def prepared(self, dtype, implementation, way):
        """The model of a case, filled, adapted, and copied."""
        rng = np.random.default_rng(self.seed)
        model = make_model(self.switches, dtype, implementation)
        for weight in model.weights:
            array = few_bits(rng, *weight.shape) / 2
            if "intermediate/bias" in weight.path:
                # Far from where the gradient of ReLU jumps: on and off in turn.
                array += np.resize((6, -6), weight.shape)
            weight.assign(array + ("gamma" in weight.path))
        kind = self.switches["weights"]
        if kind == "lora":
            model.enable_lora(
                2,
                [
                    *("query", "value", "intermediate", "output"),
                    model.output_embedding.name,
                ],
            )
            for weight in model.trainable_weights:
                weight.assign(rng.integers(-2, 3, weight.shape) / 8)
        if kind == "int8":
            model.quantize(
                config=keras.quantizers.Int8QuantizationConfig(
                    activation_quantizer=None
                )
            )
        if way == "loaded":
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "model.keras"
                model.save(path)
                model = keras.saving.load_model(path)
        if way == "cloned":
            values = model.get_weights()
            model = type(model).from_config(model.get_config())
            model.set_weights(values)
        if kind == "frozen":
            # Gradients of all else go through what is frozen. A folder and a
            # config do not hold what is frozen within a model.
            for layer in attention_layers(model):
                layer.trainable = False
        self.hand_in(model)
        return model

    def hand_in(self, model):
        """The same dropout for each: of attention, and by the same seeds."""
        rng = np.random.default_rng(self.seed)
        for variable in model.non_trainable_variables:
            if "seed" in variable.path:
                variable.assign(rng.integers(9, size=variable.shape))
        before = 0
        if model.config.implementation == "recompute":
            name = self.switches["encoding"]
            relative = ("relative", "relative+sinusoidal")
            before = K - 1 if name in relative else before
            before = K - 1 if name == "relative_global" else before
        for layer in attention_layers(model):
            is_source = layer is model.encoder_blocks[0].self_attention
            is_cross = isinstance(layer, ra.CrossAttention)
            shape = (B, N, S if is_source else T, S)
            if not (is_cross or is_source):
                shape = (B, N, T, T)
            of_layers.hand_in(
                layer.dropout_layer,
                rng.random(shape) >= 0.3,
                0 if is_cross else before,
            )

    def compute(self):
        case = self.switches
        model = self.prepared(
            case["dtype"], case["implementation"], case["way"]
        )
        trainable = model.trainable_variables
        variables = [*trainable, *model.non_trainable_variables]
        values = []
        if case["way"] == "stateless":
            values = [ops.copy(v.value) for v in variables]
            for variable in model.weights:
                other = np.ones(variable.shape, "float32")
                variable.assign(ops.cast(other, variable.dtype))
        fixed = values[len(trainable) :]
        cache = None
        if case["result"] == "steps" and case["mode"] != "eager":
            mapping = list(zip(variables, values))
            with keras.StatelessScope(state_mapping=mapping):
                _, cache = self.decoded(model, 0, T - 1)
        self.first = 0 if cache is None else T - 1

        def function(tensors, values):
            del tensors
            if not fixed and not values:
                return self.outputs(model, cache)
            values = [*values, *fixed]
            if case["result"] == "logits":
                count = len(trainable)
                logits, _ = model.stateless_call(
                    values[:count],
                    values[count:],
                    self.inputs(),
                    training=self.training,
                )
                return [logits]
            mapping = list(zip(variables, values))
            with keras.StatelessScope(state_mapping=mapping):
                return self.outputs(model, cache)

        self.is_traced = case["mode"] != "eager"
        return self.results(
            function, trainable, values[: len(trainable)], case["mode"]
        )

    def expected(self):
        dtype, self.first, self.is_traced = "float64", 0, False
        model = self.prepared(dtype, "transpose", "direct")
        return self.results(
            lambda *_: self.outputs(model, is_plain=True),
            model.trainable_variables,
            [],
            "eager",
        )

    def results(self, function, trainable, values, mode):
        wants_gradients = self.switches["result"] == "gradients"
        outputs, gradients = of_layers.run(
            function,
            [],
            trainable,
            values,
            mode,
            [],
            (lambda outputs: outputs[0]) if wants_gradients else None,
        )
        results = {f"output {i}": x for i, x in enumerate(outputs)}
        results |= {
            f"d {short_name(variable)}": gradient
            for variable, gradient in zip(trainable, gradients)
        }
        return {name: ops.convert_to_numpy(x) for name, x in results.items()}

    def inputs(self):
        return {name: self.ids(array) for name, array in self.arrays.items()}

    def ids(self, array):
        if self.switches["length"] == "known" or not self.is_traced:
            return ops.convert_to_tensor(array)
        import tensorflow as tf

        # In a graph, a tensor of these values and of any size.
        return tf.raw_ops.PlaceholderWithDefault(
            input=array, shape=[None] * array.ndim
        )

    def outputs(self, model, cache=None, is_plain=False):
        inputs = self.inputs()
        result = self.switches["result"]
        if result == "scores":
            found = model.attention_scores(inputs)
            return [x for name in found for x in found[name]]
        if result == "steps" and not is_plain:
            return [self.decoded(model, self.first, T, cache)[0]]
        if result == "gradients" and not is_plain:
            scores = model.token_scores(
                inputs,
                self.ids(self.labels),
                None,
                ops.convert_to_tensor(float((self.labels > 0).sum())),
                ra.MaskedCrossEntropy(SMOOTHING),
            )
            return [scores.loss]
        logits = model(inputs, training=self.training)
        return [self.loss(logits)] if result == "gradients" else [logits]

    def loss(self, logits):
        """The definition, as of tensor2tensor: the mean over the tokens."""
        q = np.full((B, T, V), SMOOTHING / (V - 1))
        np.put_along_axis(q, self.labels[..., None], 1 - SMOOTHING, axis=-1)
        shares = ops.convert_to_tensor(q, "float64")
        weights = (self.labels > 0) / (self.labels > 0).sum()
        entropy = ops.convert_to_tensor((q * np.log(q)).sum(-1), "float64")
        losses = entropy - ops.sum(shares * ops.log_softmax(logits), axis=-1)
        return ops.sum(losses * ops.convert_to_tensor(weights, "float64"))

    def decoded(self, model, first, last, cache=None):
        """Logits of positions one by one, and the cache."""
        if cache is None:
            cache = model.start_cache(
                ops.convert_to_tensor(self.arrays["source_token_ids"])
            )
        found = []
        for position in range(first, last):
            ids = self.arrays["target_token_ids"][:, position, None]
            logits, cache = model.decode_step(
                ops.convert_to_tensor(ids), cache, position
            )
            found.append(logits)
        return ops.concatenate(found, axis=1), cache


# Additions of one number after another: of a projection, logits, the sum of a
# softmax, the context, the projection back, twice those of a feed-forward
# layer, and layer normalization after each, in five sublayers; then the logits.
ROUNDINGS = 5 * (D + H + T + T + D + F + D + 2 * D) + D
# See those of `tests/test_switches.py`.
NUM_RANDOM = {"tensorflow": 30, "torch": 60, "jax": 6}


def problems(case, seed=0):
    """What is wrong in a case: a list of texts."""
    scope = contextlib.nullcontext()
    if BACKEND == "jax":
        import jax

        scope = jax.enable_x64(True)
    one = Case(case, seed)
    try:
        with scope if case["dtype"] == "float64" else contextlib.nullcontext():
            results = one.compute()
    except Exception as error:
        return [of_layers.described(error)]
    first = one.first
    with scope:
        expected = one.expected()
    wrong = [] if results.keys() == expected.keys() else ["other weights"]
    for name in results.keys() & expected.keys():
        result, wanted = results[name], expected[name]
        if case["result"] == "steps":
            wanted = wanted[:, first:]
        dtypes = [case["dtype"].removeprefix("mixed_"), result.dtype]
        # The loss is computed in float32, whatever the model is in.
        dtypes += ["float32"] if case["result"] == "gradients" else []
        # The sum that is a bias' gradient has terms as those of its kernel's,
        # although that of keys is zero: scores are the same without it.
        scale = max(
            np.abs(wanted).max(),
            np.abs(expected.get(name.replace("/bias", "/kernel"), 0)).max(),
        )
        limit = of_layers.unit(*dtypes) * ROUNDINGS * scale
        error = np.abs(result.astype("float64") - wanted).max()
        if not error <= limit:
            wrong.append(f"{name}: off by {error:.2g}, at most {limit:.2g}")
    return wrong


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="elsewhere random cases are tried")
@QUANTIZED
def test_every_pair_of_values_gives_the_numbers_of_float64():
    table = {**SWITCHES, "mode": ("eager", "graph")}
    cases, _ = switches.pairwise(table, RULES + ONE_PATH, random.Random(0))
    for name, values in table.items():
        assert {case[name] for case in cases} == set(values)
    of_layers.assert_right(cases, problems)


@pytest.mark.large
@of_layers.IN_PARTS
@QUANTIZED
def test_random_cases_give_the_numbers_of_float64(part, capsys):
    of_layers.assert_random_cases_right(
        SWITCHES, RULES, problems, NUM_RANDOM, part, capsys
    )
