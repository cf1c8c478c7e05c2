"""Runs without what takes most of the time: graphs, scores and pictures."""

import pytest

import relative_attention as ra
from relative_attention.runs import run as training_run
from tests.small_run import RECIPE

# A validation after every two updates, of which a run makes four.
QUICK = (
    "training.steps=4",
    "training.validate_every=2",
    "training.bleu_every=0",
)


def results_of(output, recipe, origin, history, translator, data):
    """Stands in for scoring the model, which takes longer than training."""
    return {"steps": history[-1]["step"], "curve": history}


def train_quickly(recipe, output, corpus, *overrides, **arguments):
    """Trains as `ra.train` does, step by step instead of by a graph.

    A handful of steps would be over before their graph is made.
    """
    build_model = training_run.build_model

    def build(*arguments):
        model = build_model(*arguments)
        model.run_eagerly = True
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_run, "build_model", build)
        patch.setattr(training_run, "write_results", results_of)
        patch.setattr(training_run, "draw_curves", lambda *_: None)
        return ra.train(
            recipe.override([*QUICK, *overrides]),
            output,
            data_directory=corpus,
            **arguments,
        )


@pytest.fixture
def quickly(recipe, corpus):
    """`quickly(output, "section.key=value", ...)` trains the small recipe."""

    def train(output, *overrides, **arguments):
        return train_quickly(recipe, output, corpus, *overrides, **arguments)

    return train


@pytest.fixture(scope="session")
def quick_run(corpus, tmp_path_factory):
    """Folder of a finished quick run; not to be changed."""
    output = tmp_path_factory.mktemp("quick") / "run"
    train_quickly(ra.Recipe.from_mapping(RECIPE), output, corpus)
    return output
