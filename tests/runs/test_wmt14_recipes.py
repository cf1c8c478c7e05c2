"""The recipes of the paper say what its section 4.1 says."""

import pathlib

import pytest

import relative_attention as ra

MODELS = pathlib.Path(__file__).parents[2] / "models"
# Table 1, newstest2014.
BLEU = {
    "wmt14_en_de_base": 26.5,
    "wmt14_en_de_base_relative": 26.8,
    "wmt14_en_de_big": 27.9,
    "wmt14_en_de_big_relative": 29.2,
    "wmt14_en_fr_base": 38.2,
    "wmt14_en_fr_base_relative": 38.7,
    "wmt14_en_fr_big": 41.2,
    "wmt14_en_fr_big_relative": 41.5,
}


@pytest.mark.parametrize("name", BLEU)
def test_model_is_the_papers(name):
    recipe = ra.find_recipe(name)
    config = recipe.model_config(recipe.vocabulary.size)
    big, french = "big" in name, "_fr_" in name
    assert (config.num_encoder_layers, config.num_decoder_layers) == (6, 6)
    assert (config.hidden_dim, config.intermediate_dim, config.num_heads) == (
        (1024, 4096, 16) if big else (512, 1024, 8)
    )
    assert config.dropout == (0.3 if big and not french else 0.1)
    is_relative = config.position_encoding == "relative"
    assert is_relative == name.endswith("_relative")
    if is_relative:
        assert config.max_relative_position == (8 if big else 16)
        assert config.share_relations_across_heads == big
    assert (recipe.vocabulary.size, recipe.vocabulary.joint) == (32768, True)


@pytest.mark.parametrize("name", BLEU)
def test_training_and_decoding_are_the_papers(name):
    recipe = ra.find_recipe(name)
    training = recipe.training
    big = "big" in name
    assert training.steps == (300_000 if big else 100_000)
    assert training.batch_tokens == 4096
    assert training.effective_batch_tokens == 25_000
    assert (training.warmup_steps, training.learning_rate_scale) == (4000, 1)
    assert (training.adam_beta_2, training.label_smoothing) == (0.98, 0.1)
    # One is the last checkpoint alone, which is no average.
    assert training.average_last == (20 if big else 1)
    assert training.save_minutes == 10
    assert training.early_stopping == 0
    assert (recipe.decoding.num_beams, recipe.decoding.length_penalty) == (
        4,
        0.6,
    )


@pytest.mark.parametrize("name", BLEU)
def test_card_says_the_papers_result_and_the_commands(name):
    card = (MODELS / name / "README.md").read_text("utf-8")
    corpus = ra.find_recipe(name).data.corpus
    assert f"| {BLEU[name]} BLEU on newstest2014 (Table 1) |" in card
    assert "| here | not trained yet |" in card
    assert f"relative-attention data {corpus}\n" in card
    assert f"relative-attention train {name} --data data\n" in card
