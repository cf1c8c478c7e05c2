"""The largest batch that fits, by trying."""

import pytest

import relative_attention as ra
from relative_attention.runs.batch_budget import UpdateSize
from relative_attention.runs.batch_budget import choose_batch_tokens
from relative_attention.runs.batch_budget import largest_budget


@pytest.mark.parametrize("limit", [1024, 1500, 4096, 50_000, 2**30])
def test_largest_budget_is_just_below_what_fits(limit):
    tried = []

    def fits(tokens):
        tried.append(tokens)
        return tokens <= limit

    tokens = largest_budget(fits)
    limit = min(limit, 2**20)
    assert 0.8 * limit <= tokens <= 0.9 * limit
    assert len(tried) <= 20


def test_device_too_small_for_anything_is_reported():
    with pytest.raises(ra.InputError, match="Not even 1,024 tokens"):
        largest_budget(lambda tokens: False)


def test_number_of_the_recipe_is_taken_without_trying(recipe):
    assert choose_batch_tokens(recipe, None, None) == 512


@pytest.mark.only_on("tensorflow", reason="devices are TensorFlow's")
def test_cpu_has_a_number_of_its_own(recipe):
    lines = []
    recipe = recipe.override(["training.batch_tokens=auto"])
    assert choose_batch_tokens(recipe, None, lines.append) == 4096
    assert "no GPU" in lines[0]


@pytest.mark.parametrize(
    ("update_tokens", "num_parts"), [(6, 1), (600, 1), (601, 2), (1800, 3)]
)
def test_no_part_of_an_update_is_larger_than_devices_take(
    update_tokens, num_parts
):
    size = UpdateSize(300, update_tokens, num_replicas=2)
    assert size.tokens_at_a_time == 600
    assert size.num_parts == num_parts
