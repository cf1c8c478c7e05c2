import numpy as np
import pytest

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_positive
from relative_attention.argument_checks import checked_rate


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_integers_of_every_kind_become_ints(value):
    result = checked_int("size", value)
    assert (type(result), result) == (int, 3)


@pytest.mark.parametrize(
    "value", [0, -1, 3.0, "3", True, np.True_, None, (3,), np.array([3, 4])]
)
def test_what_is_no_positive_int_is_refused(value):
    with pytest.raises(ValueError) as error:
        checked_int("size", value)
    assert str(error.value) == (
        f"`size` must be a positive int. Received: size={value!r}."
    )


def test_smallest_value_and_wording_may_be_others():
    assert checked_int("label", -7, minimum=None, allowed="an int") == -7
    assert checked_int("reach", 0, minimum=0) == 0
    with pytest.raises(ValueError, match="`size` must be an int of at least 2"):
        checked_int("size", 1, minimum=2)


@pytest.mark.parametrize("value", [0, 0.5, np.float32(0.5), np.int32(0)])
def test_numbers_of_every_kind_become_rates(value):
    result = checked_rate("dropout", value)
    assert (type(result), result) == (float, value)


@pytest.mark.parametrize("value", ["0.1", None, True, 1.0, -0.1, np.nan])
def test_what_is_no_rate_is_refused(value):
    with pytest.raises(ValueError) as error:
        checked_rate("dropout", value)
    assert str(error.value) == (
        f"`dropout` must be a rate in [0, 1). Received: dropout={value!r}."
    )


@pytest.mark.parametrize("value", ["1e-6", 0, -1.0, None, True, np.nan])
def test_what_is_not_over_zero_is_refused(value):
    with pytest.raises(ValueError) as error:
        checked_positive("epsilon", value)
    assert str(error.value) == (
        f"`epsilon` must be > 0. Received: epsilon={value!r}."
    )
    assert checked_positive("epsilon", np.float32(0.5)) == 0.5


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_bools_of_every_kind_become_bools(value):
    assert checked_bool("flag", value) is bool(value)


@pytest.mark.parametrize("value", ["false", 0, 1, None, np.array([True])])
def test_what_is_no_bool_is_refused(value):
    with pytest.raises(ValueError) as error:
        checked_bool("flag", value)
    assert str(error.value) == (
        f"`flag` must be True or False. Received: flag={value!r}."
    )
