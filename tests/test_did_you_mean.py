"""The nearest known name is suggested."""

from relative_attention.errors import did_you_mean
from relative_attention.errors import nearest_name

KNOWN = ("transformer_base", "transformer_big")


def test_nearest_known_name_is_suggested():
    assert (
        did_you_mean("transformer_bge", KNOWN)
        == " Did you mean 'transformer_big'?"
    )


def test_nothing_is_suggested_where_no_name_is_near():
    assert did_you_mean("copy", KNOWN) == ""
    assert nearest_name("copy", KNOWN) is None


def test_what_is_no_string_is_compared_as_it_is_written():
    assert nearest_name(16, ["17", "116"]) == "116"
