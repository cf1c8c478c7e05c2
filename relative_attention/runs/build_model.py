"""Builds and compiles the model of a recipe."""

from relative_attention.models import Transformer
from relative_attention.runs.prepared_data import PreparedData
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.training import AveragingAdam
from relative_attention.training import MaskedCrossEntropy
from relative_attention.training import Perplexity
from relative_attention.training import TokenAccuracy
from relative_attention.training import TransformerSchedule


def build_model(
    recipe: Recipe,
    data: PreparedData,
    precision: str,
    accumulation_steps: int = 1,
) -> Transformer:
    """Returns the compiled `Transformer` of a recipe, with initial weights.

    Args:
        recipe: A `Recipe`.
        data: A `PreparedData`, whose vocabularies say how many rows the
            embeddings have.
        precision: A dtype policy.
        accumulation_steps: An integer, the number of parts that an update is
            taken in. Defaults to `1`.
    """
    source_size = None if data.is_joint else len(data.source_vocabulary)
    config = recipe.model_config(len(data.target_vocabulary), source_size)
    model = Transformer(config, dtype=precision)
    compile_model(model, recipe.training, accumulation_steps)
    return model


def compile_model(
    model: Transformer,
    training: TrainingSection,
    accumulation_steps: int = 1,
) -> None:
    """Gives a model the optimizer, the loss and the metrics of a recipe.

    Args:
        model: A `Transformer`.
        training: A `TrainingSection`.
        accumulation_steps: An integer, the number of parts that an update is
            taken in. Defaults to `1`.
    """
    model.compile(
        # Beta 1: Shaw et al. (2018), section 4.1; tensor2tensor has the same.
        optimizer=AveragingAdam(
            TransformerSchedule(
                model.config.hidden_dim,
                warmup_steps=training.warmup_steps,
                scale=training.learning_rate_scale,
                zero_first_step=training.zero_first_step,
            ),
            ema_momentum=training.ema_momentum,
            beta_1=0.9,
            beta_2=training.adam_beta_2,
            epsilon=training.adam_epsilon,
            global_clipnorm=training.gradient_clip,
        ),
        loss=MaskedCrossEntropy(training.label_smoothing),
        metrics=[Perplexity(), TokenAccuracy()],
        accumulation_steps=accumulation_steps,
    )
    # Here, as its variables belong to the strategy whose scope this is.
    model.optimizer.build(model.trainable_variables)
