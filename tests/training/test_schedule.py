import json

import keras
import numpy as np
import pytest

from relative_attention.training import TransformerSchedule


def test_rates_are_tensor2tensors(golden):
    golden = golden("E_learning_rate")
    assert len(golden.info["cases"]) >= 20
    for case in golden.info["cases"]:
        hidden_dim = case["hidden_size"]
        if case["schedule"] == "legacy":
            # Its rate is multiplied by 5000 * 0.002.
            scale, zero_first_step = case["learning_rate"] * 10, False
        else:
            scale, zero_first_step = case["constant"], True
            if "rsqrt_hidden_size" not in case["schedule"]:
                scale *= hidden_dim**0.5
        schedule = TransformerSchedule(
            hidden_dim,
            warmup_steps=case["warmup"],
            scale=scale,
            zero_first_step=zero_first_step,
        )
        np.testing.assert_allclose(
            [schedule(step) for step in golden["steps"]],
            golden[f"{case['hparams']}/hidden{hidden_dim}"],
            rtol=1e-5,
            err_msg=case["hparams"],
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


@pytest.mark.parametrize(
    ("argument", "value"),
    [("hidden_dim", 0), ("warmup_steps", -2), ("scale", "9")],
)
def test_size_that_is_not_positive_is_refused(argument, value):
    with pytest.raises(ValueError) as error:
        TransformerSchedule(**{"hidden_dim": 7, argument: value})
    assert str(error.value) == (
        f"`{argument}` must be positive. Received: {argument}={value!r}."
    )
