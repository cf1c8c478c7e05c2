"""A preset in training on JAX, step after step without Keras' `fit`.

The step is that of `relative-attention train`: the same model, optimizer,
clipping, loss and metrics, compiled as Keras compiles it, with the state given
away, so that new values take the place of old ones.
"""

from collections.abc import Sequence
from typing import Any

import keras

import relative_attention as ra
from benchmarks.training.made_up_batches import ShapedBatch
from relative_attention.models.steps import State
from relative_attention.runs.run import compile_model


def make_model(
    preset: str,
    vocabulary_size: int,
    dtype: str,
    assignments: Sequence[str] = (),
) -> "ra.Transformer":
    """Returns a preset's model, compiled as a recipe of no more than it is.

    Args:
        preset: A string, one of `presets()`.
        vocabulary_size: An integer.
        dtype: A string, the dtype policy.
        assignments: A sequence of strings such as `"model.hidden_dim=128"` or
            `"training.gradient_clip=1"`, as `train` takes them.

    Raises:
        InputError: If there is no such preset, or an assignment is wrong.
    """
    recipe = ra.Recipe.from_mapping(
        {
            "name": preset,
            "model": {"preset": preset},
            # A recipe must say how long; here the benchmark does.
            "training": {"steps": 1},
        }
    ).override(assignments)
    changes = {k: v for k, v in recipe.model.items() if k != "preset"}
    keras.utils.set_random_seed(recipe.training.seed)
    model = ra.Transformer.from_preset(
        preset, vocabulary_size, dtype=dtype, **changes
    )
    compile_model(model, recipe.training)
    return model


class JaxTraining:
    """A model in training on batches of one shape.

    Attributes:
        config: The model's `TransformerConfig`.
        memory_bytes: An integer, the greatest memory that a step takes by the
            plan of the compiler, weights, optimizer and batch included; `None`
            where it does not say.
        state: The values of all variables after the last step.
        logs: A dict of the metrics after it.

    Args:
        model: A `Transformer`, compiled; its variables are of no use
            afterwards.
        batch: A `ShapedBatch`.
    """

    def __init__(self, model: "ra.Transformer", batch: ShapedBatch) -> None:
        import jax

        self.config = model.config
        inputs, labels = batch.data
        # Keras gives a step the weights of labels too, here none.
        data = (inputs, labels, None)
        # As `fit` does, lest the state change with the first batch.
        model._symbolic_build(data_batch=data)
        self.logs: dict[str, Any] = {}
        self.state: State = (
            _values(model.trainable_variables),
            _values(model.non_trainable_variables),
            _values(model.optimizer.variables),
            _values(model.metrics_variables),
        )
        self._data = jax.device_put(data)
        # What `make_train_function` of Keras' JAX backend makes.
        step = jax.jit(model.train_step, donate_argnums=0)
        self._step = step.lower(self.state, self._data).compile()
        self.memory_bytes = _planned_memory(self._step.memory_analysis())

    def take_steps(self, num_steps: int) -> None:
        """Takes steps and waits for the last of them.

        Args:
            num_steps: An integer.
        """
        import jax

        for _ in range(num_steps):
            self.logs, self.state = self._step(self.state, self._data)
        jax.block_until_ready((self.logs, self.state))


def _values(variables: Sequence[keras.Variable]) -> list[Any]:
    return [variable.value for variable in variables]


def _planned_memory(plan: Any) -> int | None:
    """Returns the bytes of a step's inputs, outputs and what is between."""
    if plan is None:
        return None
    return int(
        plan.argument_size_in_bytes
        + plan.output_size_in_bytes
        # Outputs that take the place of inputs.
        - plan.alias_size_in_bytes
        + plan.temp_size_in_bytes
    )
