"""The same numbers in every combination of the modes that users switch.

One table has the switches of a layer with attention, and a rule says what
cannot be built together. Every case is compared with attention in float64,
`rounded.py`, which also says how much rounding may change. `make test` tries
each value of a switch beside each of every other, `make test-rest` random cases
on each backend, with XLA.
"""

import contextlib
import gc
import importlib
import itertools
import os
import pathlib
import random
import tempfile
import traceback

import keras
import ml_dtypes
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.layers.cache import fixed_cache
from tests import rounded
from tests import switches
from tests.rounded import Rounded

# A function has the name of another file of its room.
LONG = importlib.import_module("relative_attention.ops.long_attention")
BACKEND = keras.backend.backend()
HAS_INT8 = hasattr(keras.quantizers, "Int8QuantizationConfig")
B, T, S, D, H, H_V, K, LABELS, RANK, RATE = 2, 7, 5, 4, 2, 3, 2, 3, 2, 0.3

SWITCHES = {
    "layer": (
        *("none", "rotary", "alibi", "t5", "own"),
        *("relative", "global", "graph", "cross"),
    ),
    "call": ("whole", "steps", "steps of a fixed cache"),
    "implementation": ("auto", "transpose", "recompute"),
    "mask": ("none", "padding", "causal", "both", "of heads", "empty row"),
    "terms": ("both", "keys", "values"),
    "tables": ("shared", "of heads"),
    "side": ("encoder", "decoder"),
    "dropout": ("of rate 0", "in training", "outside training"),
    "weights": ("trainable", "frozen", "lora", "int8"),
    "way": ("direct", "stateless", "loaded", "cloned"),
    "length": ("known", "unknown"),
    "mode": ("eager", "graph", "xla"),
    "dtype": (
        *("float32", "float64", "bfloat16", "float16"),
        *("mixed_bfloat16", "mixed_float16"),
    ),
    "result": ("outputs", "scores", "gradients"),
}

# Pairs of values that no case can have, for a reason each.
NUM_MISSING_PAIRS = 50
# How many cases are drawn, and how often each mode is. `SWITCHES_CASES` in the
# environment draws more, and `SWITCHES_SEED` others.
NUM_RANDOM = {"tensorflow": 160, "torch": 300, "jax": 20}
MODES = {
    "tensorflow": (*["eager"] * 17, "graph", "graph", "xla"),
    "torch": ("eager",),
    "jax": (*["xla"] * 9, "eager"),
}
# What is compiled is run once.
QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}

# Where the constructor refuses, and says so.
REFUSED = [
    (
        "a graph has one implementation",
        lambda c: c["layer"] == "graph" and c["implementation"] != "auto",
    ),
    (
        "a source has no edges to transpose",
        lambda c: c["layer"] == "cross" and c["implementation"] == "transpose",
    ),
]
RULES = REFUSED + [
    (
        "no such term of positions",
        lambda c: (
            c["terms"] != "both"
            and c["layer"] not in ("own", "relative", "global", "graph")
        ),
    ),
    (
        "no table that heads may share",
        lambda c: (
            c["tables"] != "shared"
            and c["layer"] not in ("own", "relative", "global", "graph")
        ),
    ),
    (
        "no argument for the side",
        lambda c: (
            c["side"] != "encoder" and c["layer"] in ("relative", "graph")
        ),
    ),
    (
        "a source is of no side",
        lambda c: c["side"] != "encoder" and c["layer"] == "cross",
    ),
    (
        "a source has a padding mask only",
        lambda c: (
            c["layer"] == "cross"
            and c["mask"] not in ("none", "padding", "empty row")
        ),
    ),
    (
        "nodes of a graph are not decoded",
        lambda c: c["layer"] == "graph" and c["call"] != "whole",
    ),
    (
        "a source has no cache",
        lambda c: c["layer"] == "cross" and "fixed" in c["call"],
    ),
    (
        "a step is not for training",
        lambda c: c["call"] != "whole" and c["dropout"] != "outside training",
    ),
    (
        "a step returns no scores",
        lambda c: c["call"] != "whole" and c["result"] == "scores",
    ),
    (
        "a compiled step takes a cache without a gradient",
        lambda c: (
            c["call"] != "whole"
            and c["mode"] != "eager"
            and c["result"] == "gradients"
        ),
    ),
    (
        "a step sees what came before it",
        lambda c: (
            c["call"] != "whole"
            and c["layer"] != "cross"
            and c["mask"] != "causal"
        ),
    ),
    (
        "a clone has no adapters",
        lambda c: c["way"] == "cloned" and c["weights"] == "lora",
    ),
    (
        "Keras has no int8 beside float16",
        lambda c: c["weights"] == "int8" and "float16" in c["dtype"].split("_"),
    ),
    (
        "Keras' int8 in mixed precision has gradients of another dtype",
        lambda c: (
            c["weights"] == "int8"
            and "mixed" in c["dtype"]
            and c["result"] == "gradients"
        ),
    ),
    (
        "Keras' int8 reads its variables again in a gradient outside a graph",
        lambda c: (
            c["weights"] == "int8"
            and c["way"] == "stateless"
            and c["mode"] == "eager"
            and c["result"] == "gradients"
            and BACKEND == "tensorflow"
        ),
    ),
    (
        "a cache that is written in place has no gradient",
        lambda c: "fixed" in c["call"] and c["result"] == "gradients",
    ),
    (
        "int8 needs Keras 3.13",
        lambda c: c["weights"] == "int8" and not HAS_INT8,
    ),
    (
        "this backend compiles with XLA alone",
        lambda c: c["mode"] == "graph" and BACKEND == "jax",
    ),
    (
        "this backend runs eagerly",
        lambda c: c["mode"] != "eager" and BACKEND == "torch",
    ),
]

# Where a switch makes no difference: a case of it shows nothing of others.
ONE_PATH = [
    (
        "all scores are returned, however they are computed",
        lambda c: c["implementation"] != "auto" and c["result"] == "scores",
    ),
    (
        "a step has one implementation",
        lambda c: c["implementation"] != "auto" and c["call"] != "whole",
    ),
]
# More than pairs are tried where each combination is computed in another way.
TOGETHER = [
    {
        "layer": ("relative",),
        "implementation": SWITCHES["implementation"],
        "dtype": SWITCHES["dtype"],
    },
    {
        "layer": ("t5", "own"),
        "implementation": ("recompute",),
        "weights": ("frozen", "lora"),
        "way": ("direct", "stateless"),
    },
]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Short inputs have several blocks, and causal ones several parts."""
    monkeypatch.setattr(LONG, "_MOST_QUERIES", 3)
    monkeypatch.setattr(LONG, "_CAUSAL_PARTS", 2)


# === The layer of a case ===


@keras.saving.register_keras_serializable(package="tests")
class Slope(ra.positions.PositionEncoding):
    """What a user may write: both terms grow with the distance."""

    def __init__(self, use_keys=True, use_values=True, shared=True):
        self.use_keys = use_keys
        self.use_values = use_values
        self.shared = shared

    def build(self, layer, bidirectional):
        heads = 1 if self.shared else layer.num_heads
        layer.slope = layer.add_weight(
            name="slope", shape=(1, layer.num_heads), trainable=False
        )
        layer.slope_of_keys = layer.slope_of_values = None
        if self.use_keys:
            layer.slope_of_keys = layer.add_weight(
                name="slope_of_keys", shape=(heads, 1, layer.key_dim)
            )
        if self.use_values:
            layer.slope_of_values = layer.add_weight(
                name="slope_of_values", shape=(heads, 1, layer.value_dim)
            )

    def distance(self, queries, keys, dtype):
        return ops.cast(keys[None] - queries[:, None], dtype) / 8

    def logits(self, layer, query, query_positions, key_positions):
        distance = self.distance(query_positions, key_positions, query.dtype)
        slope = ops.cast(layer.slope[0], query.dtype)[None, :, None, None]
        if self.use_keys:
            slope = slope + ops.sum(
                query * ops.cast(layer.slope_of_keys, query.dtype),
                axis=-1,
                keepdims=True,
            )
        return slope * distance

    def context(self, layer, scores, query_positions, key_positions):
        if not self.use_values:
            return None
        distance = self.distance(query_positions, key_positions, scores.dtype)
        total = ops.sum(scores * distance, axis=-1, keepdims=True)
        return total * ops.cast(layer.slope_of_values, scores.dtype)

    def get_config(self):
        return {
            "use_keys": self.use_keys,
            "use_values": self.use_values,
            "shared": self.shared,
        }


@keras.saving.register_keras_serializable(package="tests")
class Holder(keras.Model):
    """The least model of a layer, which is not traced before it is called."""

    def __init__(self, layer, options, **kwargs):
        super().__init__(dtype=layer.dtype_policy, **kwargs)
        self.layer = layer
        self.options = options
        self.built = True

    def call(self, inputs, masks=None, training=None):
        options = {**self.options, **(masks or {}), "training": training}
        return self.layer(*inputs, **options)

    def get_config(self):
        layer = keras.saving.serialize_keras_object(self.layer)
        return {"layer": layer, "options": dict(self.options)}

    @classmethod
    def from_config(cls, config):
        layer = keras.saving.deserialize_keras_object(config["layer"])
        return cls(**{**config, "layer": layer})


def is_decoder(case):
    return case["side"] == "decoder"


def num_heads(case):
    # Slopes of ALiBi are no powers of two for nine heads, and no longer exact.
    return 9 if case["layer"] == "alibi" else 3


def make_layer(case):
    kind = case["layer"]
    arguments = {
        "num_heads": num_heads(case),
        "key_dim": H,
        "value_dim": H_V,
        "use_bias": True,
        "dropout": {"of rate 0": 0.0, "outside training": 0.5}.get(
            case["dropout"], RATE
        ),
        "implementation": case["implementation"],
        "dtype": case["dtype"],
        "name": "layer",
    }
    if kind == "cross":
        return ra.CrossAttention(**arguments)
    use_keys, use_values = (
        case["terms"] in ("both", term) for term in ("keys", "values")
    )
    tables = {
        "use_key_relations": use_keys,
        "use_value_relations": use_values,
        "share_relations_across_heads": case["tables"] == "shared",
    }
    if kind == "graph":
        return ra.RelationAwareSelfAttention(
            num_relations=LABELS, no_relation=-1, **tables, **arguments
        )
    if kind == "relative":
        return ra.RelativeSelfAttention(
            max_relative_position=K, **tables, **arguments
        )
    if kind == "global":
        return ra.RelativeGlobalAttention(
            max_relative_position=K + 1,
            causal=is_decoder(case),
            **tables,
            **arguments,
        )
    own = Slope(use_keys, use_values, case["tables"] == "shared")
    encoding = {"none": None, "own": own}.get(kind, kind)
    return ra.SelfAttention(
        position_encoding=encoding,
        bidirectional=not is_decoder(case),
        **arguments,
    )


def few_bits(rng, *shape):
    """Numbers that every dtype has exactly, and products of them nearly all."""
    return rng.integers(-16, 17, shape) / 16


def short_name(variable):
    return variable.path.split("layer/", 1)[1]


class Case:
    """What one case computes, and what it should.

    Attributes:
        switches: dict, a value for each switch.
        arrays: dict of inputs by name; those that are floats have gradients.
        masks: dict of the masks of the call by name.
        options: dict of the other arguments of the call, all flags.
    """

    def __init__(self, switches_, seed=0):
        self.switches = case = switches_
        self.rng = rng = np.random.default_rng(seed)
        self.arrays = {"inputs": few_bits(rng, B, T, D)}
        if case["layer"] == "cross":
            self.arrays["source"] = few_bits(rng, B, S, D)
        self.num_keys = S if case["layer"] == "cross" else T
        shape = (B, num_heads(case), T, self.num_keys)
        self.labels = rng.integers(-1, LABELS, (B, T, T))
        self.kept = rng.random(shape) >= RATE
        self.upstream = few_bits(rng, B, T, D)
        self.masks = self.draw_masks(shape)
        self.training = case["dropout"] != "outside training"
        self.options = {}
        self.is_causal = case["mask"] in ("causal", "both")
        if self.is_causal:
            self.options["use_causal_mask"] = True
        if case["result"] == "scores":
            self.options["return_attention_scores"] = True
        self.layer = make_layer(case)

    def draw_masks(self, shape):
        """Masks of the call, by the name of the argument."""
        kind, masks = self.switches["mask"], {}
        lengths = np.array([[shape[3]], [shape[3] - 2]])
        padding = np.arange(shape[3]) < lengths
        if self.switches["layer"] == "cross":
            if kind == "empty row":
                padding[1] = False
            return {} if kind == "none" else {"padding_mask": padding}
        if kind in ("padding", "both"):
            masks["inputs_mask"] = padding
        if kind == "of heads":
            masks["attention_mask"] = self.rng.random(shape) < 0.7
        if kind == "empty row":
            masks["attention_mask"] = self.rng.random((B, T, T)) < 0.7
            masks["attention_mask"][1, 2] = False
        return masks

    # === What is called ===

    def prepare(self):
        """Builds, fills, adapts, saves and loads, as the switches say."""
        case = self.switches
        dtype = self.layer.compute_dtype
        self.tensors = [
            ops.convert_to_tensor(array, dtype)
            for array in self.arrays.values()
        ]
        if case["length"] == "unknown" and case["call"] == "whole":
            self.holder = self.functional_model(dtype)
        else:
            sizes = [T, S] if case["layer"] == "cross" else [T]
            self.layer.build(*((None, size, D) for size in sizes))
            self.holder = Holder(self.layer, self.options)
        self.fill()
        if case["way"] in ("loaded", "cloned"):
            self.copy()
        # Recomputed, clipped distances have masked keys before the first.
        before = 0
        if case["implementation"] == "recompute":
            before = {"relative": K - 1, "global": K}.get(case["layer"], 0)
        hand_in(self.layer.dropout_layer, self.kept, before)
        if case["way"] == "stateless":
            self.hide_values()

    def functional_model(self, dtype):
        """A model of the layer for any length."""

        def symbol(array, name):
            # The last axis of inputs is known; that of masks is a length.
            known = [size if size == D else None for size in array.shape[1:]]
            if name == "attention_mask" and array.ndim == 4:
                known[0] = num_heads(self.switches)
            kind = dtype if name in self.arrays else array.dtype.name
            return keras.Input(known, dtype=kind, name=name)

        tensors, named = self.arguments(
            [symbol(array, name) for name, array in self.arrays.items()], symbol
        )
        outputs = self.layer(*tensors, **named, **self.options)
        return keras.Model([*tensors, *named.values()], outputs)

    def arguments(self, tensors, convert):
        """Positional and named arguments; labels of a graph come second."""
        named = {name: convert(mask, name) for name, mask in self.masks.items()}
        if self.switches["layer"] == "graph":
            labels = convert(self.labels.astype("int32"), "labels")
            tensors = [*tensors, labels]
        return tensors, named

    def fill(self):
        """Sets all numbers, of adapters and of int8, and keeps them."""
        kind, layer = self.switches["weights"], self.layer
        for weight in layer.weights:
            weight.assign(few_bits(self.rng, *weight.shape))
        if kind == "frozen":
            layer.trainable = False
        if kind == "lora":
            for weight in layer.trainable_weights:
                weight.trainable = False
            for dense in (layer.query_dense, layer.value_dense):
                dense.enable_lora(RANK)
                for weight in (dense.lora_kernel_a, dense.lora_kernel_b):
                    weight.assign(self.rng.integers(-2, 3, weight.shape) / 4)
        if kind == "int8":
            config = keras.quantizers.Int8QuantizationConfig(
                activation_quantizer=None
            )
            # Keras collects garbage for each layer, among all objects.
            gc.freeze()
            self.holder.quantize(config=config)
            gc.unfreeze()
        self.numbers = {
            short_name(weight): np.array(
                ops.convert_to_numpy(weight.value), "float64"
            )
            for weight in layer.weights
        }

    def copy(self):
        if self.switches["way"] == "loaded":
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "model.keras"
                self.holder.save(path)
                self.holder = keras.saving.load_model(path)
        else:
            values = self.holder.get_weights()
            self.holder = keras.models.clone_model(self.holder)
            self.holder.set_weights(values)
        # The first layer of any other kind is that of the inputs.
        (self.layer,) = (x for x in self.holder.layers if x.name == "layer")

    def hide_values(self):
        """Other numbers take the place of those that the caller hands in."""
        self.variables = [
            *self.holder.trainable_variables,
            *self.holder.non_trainable_variables,
        ]
        self.values = [ops.copy(v.value) for v in self.variables]
        for variable in self.layer.weights:
            other = np.ones(variable.shape, "float32")
            variable.assign(ops.cast(other, variable.dtype))

    def function(self, *tensors):
        """What is compared: a list of tensors."""
        tensors = list(tensors)
        if self.switches["call"] != "whole":
            return [self.steps(*tensors)]
        arguments, named = self.arguments(
            tensors, lambda array, _: ops.convert_to_tensor(array)
        )
        options = {"training": self.training}
        if isinstance(self.holder, Holder):
            options["masks"] = named
        else:
            arguments += named.values()
        if self.switches["way"] == "stateless":
            count = len(self.holder.trainable_variables)
            outputs, _ = self.holder.stateless_call(
                self.given[:count], self.given[count:], arguments, **options
            )
        else:
            outputs = self.holder(arguments, **options)
        return outputs if isinstance(outputs, list | tuple) else [outputs]

    def steps(self, inputs, source=None):
        """Outputs of all positions, decoded one by one, or of the last."""
        with self.scope():
            if source is not None:
                mask = self.masks.get("padding_mask")
                return self.layer.decode_step(
                    inputs,
                    self.layer.project_source(source),
                    None if mask is None else ops.convert_to_tensor(mask),
                )
            outputs, cache = [], self.cache or self.empty_cache()
            for position in range(self.first, T):
                output, cache = self.step(inputs, cache, position)
                outputs.append(output)
            return ops.stack(outputs, axis=1)

    def scope(self):
        """Outside `stateless_call`, a search hands values in like this."""
        if self.switches["way"] != "stateless":
            return contextlib.nullcontext()
        mapping = list(zip(self.variables, self.given))
        return keras.StatelessScope(state_mapping=mapping)

    def empty_cache(self):
        # Sentences are decoded as the beams of one.
        cache = self.layer.start_cache(1)
        is_fixed = "fixed" in self.switches["call"]
        return fixed_cache(cache, T * B) if is_fixed else cache

    def step(self, inputs, cache, position):
        """Outputs `(B, D)` of a position, and the cache."""
        index = position
        if self.switches["length"] == "unknown":
            index = ops.convert_to_tensor(position, "int32")
        output, cache = self.layer.decode_step(
            inputs[None, :, position], cache, index
        )
        if position == 2 and "fixed" not in self.switches["call"]:
            cache = cache.merged()
        return output[0], cache

    def decode_all_but_the_last(self):
        """What is compiled is one step, as in a search."""
        self.first = T - 1
        with self.scope():
            self.cache = self.empty_cache()
            for position in range(self.first):
                _, self.cache = self.step(self.tensors[0], self.cache, position)

    def compute(self):
        """Results by name, as arrays."""
        self.prepare()
        trainable = self.holder.trainable_variables
        count, self.given = len(trainable), []
        if self.switches["way"] == "stateless":
            self.given = self.values
        self.first, self.cache = 0, None
        is_cached = self.switches["layer"] != "cross"
        if "steps" in self.switches["call"] and is_cached:
            if self.switches["mode"] != "eager":
                self.decode_all_but_the_last()
        fixed = self.given[count:]

        def function(tensors, values):
            self.given = [*values, *fixed]
            return self.function(*tensors)

        specs = [x.shape for x in self.tensors]
        if self.switches["length"] == "unknown":
            if self.switches["call"] == "whole":
                specs = [(None, None, D)] * len(self.tensors)
        wants_gradients = self.switches["result"] == "gradients"
        outputs, gradients = run(
            function,
            self.tensors,
            trainable,
            self.given[:count],
            self.switches["mode"],
            specs,
            self.total if wants_gradients else None,
        )
        names = ["outputs"]
        if self.switches["result"] == "scores":
            names.append("scores")
        results = dict(zip(names, outputs, strict=True))
        if self.switches["result"] == "gradients":
            sources = [*self.arrays, *map(short_name, trainable)]
            results |= {
                f"d {name}": gradient
                for name, gradient in zip(sources, gradients, strict=True)
            }
        return {name: ops.convert_to_numpy(x) for name, x in results.items()}

    def total(self, outputs):
        dtype = "float64" if self.switches["dtype"] == "float64" else "float32"
        upstream = ops.convert_to_tensor(self.upstream, dtype)
        return ops.sum(ops.cast(outputs[0], dtype) * upstream)

    # === What is expected ===

    def expected(self):
        """Results by name, as `Rounded`."""
        case, weights = self.switches, {}
        for name in ("query", "key", "value", "output"):
            weights[f"{name}/kernel"] = self.kernel(name)
            weights[f"{name}/bias"] = Rounded(self.numbers[f"{name}/bias"])
        distance = np.arange(self.num_keys) - np.arange(T)[:, None]
        mask = np.ones((1, 1, T, self.num_keys), bool)
        for name, given in self.masks.items():
            if name != "attention_mask":
                given = given[:, None, None]
            elif given.ndim == 3:
                given = given[:, None]
            mask = mask & given
        if self.is_causal or (case["layer"] == "global" and is_decoder(case)):
            mask = mask & (distance <= 0)
        options = self.of_positions(weights, distance)
        factors = 1.0
        if case["dropout"] == "in training":
            factors = self.kept / (1 - RATE)
        results = rounded.attention(
            weights,
            self.arrays["inputs"],
            self.arrays.get("source"),
            mask,
            factors=factors,
            upstream=self.upstream,
            **options,
        )
        for name, parts in self.adapters().items():
            d_kernel = results[f"d {name}/kernel"]
            a, b = parts
            results[f"d {name}/lora_kernel_a"] = rounded.einsum(
                "dnh,rh->dnr", d_kernel, b
            )
            results[f"d {name}/lora_kernel_b"] = rounded.einsum(
                "dnr,dnh->rh", a, d_kernel
            )
        for ours, theirs in TABLES.get(case["layer"], {}).items():
            if f"d {ours}" in results:
                gradient = results[f"d {ours}"]
                shape = self.numbers[theirs].shape
                results[f"d {theirs}"] = Rounded(
                    gradient.value.reshape(shape),
                    gradient.error.reshape(shape),
                )
        return results

    def adapters(self):
        return {
            name: [
                Rounded(self.numbers[f"{name}/lora_kernel_{part}"])
                for part in "ab"
            ]
            for name in ("query", "value")
            if f"{name}/lora_kernel_a" in self.numbers
        }

    def kernel(self, name):
        kernel = Rounded(self.numbers[f"{name}/kernel"])
        if self.switches["weights"] == "int8":
            scale = self.numbers[f"{name}/kernel_scale"]
            # The scale has an axis for each that is not summed over.
            shape = (1, 1, D) if name == "output" else (1, *scale.shape[-2:])
            return kernel * (1 / scale.reshape(shape))
        adapters = self.adapters()
        if name in adapters:
            return kernel + rounded.einsum("dnr,rh->dnh", *adapters[name])
        return kernel

    def of_positions(self, weights, distance):
        """Adds tables to the weights; returns edges and turns."""
        case, kind = self.switches, self.switches["layer"]
        for ours, theirs in TABLES.get(kind, {}).items():
            if theirs in self.numbers:
                table = self.numbers[theirs]
                if ours != "bias" and table.ndim == 2:
                    table = table[None]
                weights[ours] = Rounded(table)

        def chosen(rows, count):
            """The edges that have a row each; those of others have none."""
            edges = (rows[..., None] == np.arange(count)).astype("float64")
            return np.broadcast_to(edges, (B, *edges.shape[-3:]))

        if kind == "relative":
            rows = np.clip(distance, -K, K) + K
            return {"edges": chosen(rows, 2 * K + 1)}
        if kind == "global":
            rows = distance + K
            return {"edges": chosen(rows, K + 1 + K * (not is_decoder(case)))}
        if kind == "graph":
            return {"edges": chosen(self.labels, LABELS)}
        if kind == "t5":
            # Near distances have a bucket each.
            later = np.where(distance > 0, 16 + distance, 0)
            rows = np.maximum(-distance, 0 if is_decoder(case) else later)
            return {"bias_edges": chosen(rows, 32)}
        edges = np.broadcast_to(distance[..., None], (B, T, self.num_keys, 1))
        if kind == "own":
            return {"edges": edges / 8, "bias_edges": edges / 8}
        if kind == "alibi":
            # Press et al. (2022): of eight heads, then each other of sixteen.
            powers = [*range(1, 9), 0.5]
            slopes = Rounded(-(2.0 ** -np.array([powers])))
            weights["bias"] = slopes * 1.0
            return {"bias_edges": np.abs(edges)}
        if kind == "rotary":
            # Su et al. (2021), eq. 34, with one pair: `theta = 1`.
            angles = np.arange(T)
            cos, sin = np.cos(angles), np.sin(angles)
            turns = np.array([[cos, sin], [-sin, cos]]).transpose(2, 0, 1)
            # The angle is rounded, too.
            return {"turns": Rounded(turns, 1 + T)}
        return {}


# Names of the tables of an encoding.
TABLES = {
    "t5": {"bias": "relative_attention_bias"},
    "own": {
        "bias": "slope",
        "keys": "slope_of_keys",
        "values": "slope_of_values",
    },
} | dict.fromkeys(
    ("relative", "global", "graph"),
    {
        "keys": "key_relation_embeddings",
        "values": "value_relation_embeddings",
    },
)


def hand_in(dropout_layer, kept, before):
    """Replaces what a layer draws; when it draws and how it scales are its own.

    Args:
        kept: bool array `(B, N, T, S)`.
        before: int. The number of masked keys before the first.
    """
    for_call = dropout_layer.for_call
    around = ((0, 0), (0, 0), (0, T), (before, 2 * T))
    padded = np.pad(kept, around, constant_values=True)

    def handing_in(training):
        draw = for_call(training)
        if draw is None:
            return None

        def draw_given(shape, number=None):
            mask = ops.convert_to_tensor(kept)
            if number is not None:
                start = ops.cast(number, "int32") * shape[2]
                zero = ops.zeros_like(start)
                mask = ops.slice(
                    ops.convert_to_tensor(padded),
                    ops.stack([zero, zero, start, zero]),
                    shape,
                )
            return draw(shape, number)._replace(mask=mask)

        return draw_given

    dropout_layer.for_call = handing_in


# === Outputs and gradients on each backend ===


def run(function, tensors, variables, values, mode, shapes, total=None):
    """Outputs, and gradients of tensors and of variables, or their values.

    Args:
        function: takes `tensors` and `values`, returns a list of tensors.
        tensors: list of float tensors.
        variables: list of Keras variables.
        values: list of tensors that take the place of variables, or empty.
        mode: string, a value of the switch.
        shapes: list of shapes of `tensors` in a graph.
        total: function of the outputs that returns what gradients are of.
    """
    on_backend = {
        "tensorflow": _run_on_tensorflow,
        "jax": _run_on_jax,
        "torch": _run_on_torch,
    }[BACKEND]
    return on_backend(function, tensors, variables, values, mode, shapes, total)


def _run_on_tensorflow(
    function, tensors, variables, values, mode, shapes, total
):
    import tensorflow as tf

    def compute(*tensors):
        if total is None:
            return function(tensors, values), []
        with tf.GradientTape() as tape:
            tape.watch([*tensors, *values])
            outputs = function(tensors, values)
            scalar = total(outputs)
        sources = [*tensors, *(values or [v.value for v in variables])]
        gradients = tape.gradient(scalar, sources, unconnected_gradients="zero")
        return outputs, [tf.convert_to_tensor(g) for g in gradients]

    if mode != "eager":
        compute = tf.function(
            compute,
            input_signature=[
                tf.TensorSpec(shape, x.dtype)
                for shape, x in zip(shapes, tensors)
            ],
            # As `fit` traces: Python's conditions are not converted.
            autograph=False,
            jit_compile=mode == "xla",
        )
    return compute(*tensors)


def _run_on_jax(function, tensors, variables, values, mode, shapes, total):
    import jax

    is_stateless = bool(values)

    def compute(tensors, values):
        if is_stateless:
            outputs = list(function(tensors, values))
            return total(outputs) if total else 0.0, outputs
        mapping = list(zip(variables, values))
        with keras.StatelessScope(state_mapping=mapping):
            outputs = list(function(tensors, []))
            return total(outputs) if total else 0.0, outputs

    if total is not None:
        compute = jax.value_and_grad(compute, (0, 1), has_aux=True)
    if mode == "xla":
        compute = jax.jit(compute, compiler_options=QUICK)
    values = values or [v.value for v in variables]
    if total is None:
        return compute(tensors, values)[1], []
    (_, outputs), (of_tensors, of_values) = compute(tensors, values)
    return outputs, [*of_tensors, *of_values]


def _run_on_torch(function, tensors, variables, values, mode, shapes, total):
    import torch

    wants_gradients = total is not None
    tensors, values = (
        [x.detach().requires_grad_(wants_gradients) for x in some]
        for some in (tensors, values)
    )
    outputs = function(tensors, values)
    if not wants_gradients:
        return outputs, []
    sources = [*tensors, *(values or [v.value for v in variables])]
    gradients = torch.autograd.grad(total(outputs), sources, allow_unused=True)
    return outputs, [
        torch.zeros_like(x) if g is None else g
        for x, g in zip(sources, gradients)
    ]


# === Both tables ===


def unit(*dtypes):
    """The largest relative error of one rounding, of the coarsest dtype."""
    return max(float(ml_dtypes.finfo(dtype).eps) for dtype in dtypes) / 2


def described(error):
    """An error, and where in this checkout it came from."""
    places = [
        f"{pathlib.Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename
    ]
    message = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {message} ({' '.join(places[-3:])})"


def problems(case, seed=0):
    """What is wrong in a case: a list of texts."""
    scope = contextlib.nullcontext()
    if BACKEND == "jax" and case["dtype"] == "float64":
        import jax

        scope = jax.enable_x64(True)
    one = Case(case, seed)
    try:
        with scope:
            results = one.compute()
    except Exception as error:  # Any is a result that is missing.
        return [described(error)]
    wrong, expected = [], one.expected()
    for name, result in results.items():
        wanted = expected[name]
        if name == "outputs":
            wanted = wanted[:, one.first :]
        if result.shape != wanted.value.shape:
            wrong.append(f"{name}: shape {result.shape}")
            continue
        # Adapters are in float32, even in a layer in float64.
        dtypes = case["dtype"].removeprefix("mixed_"), result.dtype
        limit = unit(*dtypes) * wanted.error
        error = np.abs(result.astype("float64") - wanted.value)
        if not (error <= limit).all():
            worst = np.nanargmax(error - limit)
            wrong.append(
                f"{name}: off by {error.flat[worst]:.2g} of "
                f"{wanted.value.flat[worst]:.2g}, at most "
                f"{limit.flat[worst]:.2g} allowed"
            )
    return wrong


def assert_right(cases, problems, note=""):
    """Every case is compared before those that are wrong are shown."""
    wrong = [(case, found) for case in cases if (found := problems(case))]
    shown = "\n".join(f"{case}: {'; '.join(found)}" for case, found in wrong)
    assert not wrong, f"{len(wrong)} of {len(cases)} cases{note}\n{shown}"


# Each is a test of its own, so that workers share them.
IN_PARTS = pytest.mark.parametrize("part", range(2))


def assert_random_cases_right(table, rules, problems, counts, part, capsys):
    """Tries as many cases as `counts` has for this backend; prints the seed."""
    seed = int(os.environ.get("SWITCHES_SEED", "0"))
    count = int(os.environ.get("SWITCHES_CASES", counts[BACKEND]))
    # What takes longest is drawn less often.
    table = {
        **table,
        "mode": MODES[BACKEND],
        "length": ("known", "known", "known", "unknown"),
    }
    cases, refused = switches.at_random(
        table, rules, random.Random(f"{seed}, {part}"), -(-count // 2)
    )
    with capsys.disabled():
        print(f"\nSWITCHES_SEED={seed}, part {part}; refused cases, by reason:")
        for reason, count in sorted(refused.items()):
            print(f"  {count} {reason}")
    assert_right(cases, problems, f" of SWITCHES_SEED={seed}")


# From layers with nothing to quantize, such as dropout.
QUANTIZED = pytest.mark.filterwarnings("ignore:Layer .* a `quantize")


@pytest.mark.only_on("tensorflow", reason="elsewhere random cases are tried")
@QUANTIZED
def test_every_pair_of_values_gives_the_numbers_of_float64():
    table = {**SWITCHES, "mode": ("eager", "graph")}
    cases, missing = switches.pairwise(
        table, RULES + ONE_PATH, random.Random(0), more=TOGETHER
    )
    for name, values in table.items():
        assert {case[name] for case in cases} == set(values)
    # A rule that refuses more, or less, is to be seen.
    if HAS_INT8:
        assert len(missing) == NUM_MISSING_PAIRS
    assert_right(cases, problems)


@pytest.mark.large
@IN_PARTS
@QUANTIZED
def test_random_cases_give_the_numbers_of_float64(part, capsys):
    assert_random_cases_right(
        SWITCHES, RULES, problems, NUM_RANDOM, part, capsys
    )


def test_what_cannot_be_built_is_refused_by_name():
    for _, applies in REFUSED:
        count = 0
        plain = {name: values[0] for name, values in SWITCHES.items()}
        for layer, implementation in itertools.product(
            SWITCHES["layer"], SWITCHES["implementation"]
        ):
            case = {**plain, "layer": layer, "implementation": implementation}
            if applies(case):
                count += 1
                with pytest.raises(ValueError, match="`implementation` must"):
                    make_layer(case)
        assert count
