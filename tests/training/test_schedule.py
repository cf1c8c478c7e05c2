import json

import keras
import numpy as np
import pytest

from relative_attention.training import TransformerSchedule


@pytest.mark.parametrize("hidden_dim", [512, 1024])
@pytest.mark.parametrize(
    "hparams",
    [
        "transformer_base_v1",
        "transformer_base_v2",
        "transformer_base_v3",
        "transformer_base",
        "transformer_big",
        "transformer_relative",
        "transformer_relative_big",
        "transformer_relative_tiny",
        "transformer_base_single_gpu",
        "transformer_big_single_gpu",
    ],
)
def test_rates_are_tensor2tensors(golden, hparams, hidden_dim):
    golden = golden("E_learning_rate")
    (info,) = (
        case
        for case in golden.info["cases"]
        if (case["hparams"], case["hidden_size"]) == (hparams, hidden_dim)
    )
    if info["schedule"] == "legacy":
        # Its rate is multiplied by 5000 * 0.002.
        scale, zero_first_step = info["learning_rate"] * 10, False
    else:
        scale, zero_first_step = info["constant"], True
        if "rsqrt_hidden_size" not in info["schedule"]:
            scale *= hidden_dim**0.5
    schedule = TransformerSchedule(
        hidden_dim,
        warmup_steps=info["warmup"],
        scale=scale,
        zero_first_step=zero_first_step,
    )
    np.testing.assert_allclose(
        [schedule(step) for step in golden["steps"]],
        golden[f"{hparams}/hidden{hidden_dim}"],
        rtol=1e-5,
    )


def test_config_survives_serialization():
    # Sizes may be NumPy's.
    schedule = TransformerSchedule(
        np.int64(7), warmup_steps=np.int32(11), scale=3.0, zero_first_step=True
    )
    config = json.dumps(keras.optimizers.schedules.serialize(schedule))
    clone = keras.optimizers.schedules.deserialize(json.loads(config))
    assert isinstance(clone, TransformerSchedule)
    assert clone.get_config() == schedule.get_config()
    for iteration in range(15):
        assert float(clone(iteration)) == float(schedule(iteration))


@pytest.mark.parametrize("argument", ["hidden_dim", "warmup_steps", "scale"])
@pytest.mark.parametrize("value", [0, -2, "9"])
def test_size_that_is_not_positive_is_refused(argument, value):
    with pytest.raises(ValueError) as error:
        TransformerSchedule(**{"hidden_dim": 7, argument: value})
    assert str(error.value) == (
        f"`{argument}` must be positive. Received: {argument}={value!r}."
    )
