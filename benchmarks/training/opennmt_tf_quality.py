"""The BLEU of OpenNMT-tf's model, trained as one of ours was.

The program trains OpenNMT-tf's relative Transformer of the size, vocabulary,
dropout and schedule of `MODEL` on its text, alone, for as many updates of as
many tokens, and translates the test text. Nothing is joined, and there are no
teachers. From the root of a checkout, with the package installed:

    python -m benchmarks.training.opennmt_tf_quality MODEL --data DIR

`MODEL` is the folder of a run, or a bundled name. OpenNMT-tf gets a separate
virtual environment, made on first use (Python 3.11 or older). A training that
was stopped is resumed from its last checkpoint, in `--run`.
"""

import argparse
import os
import pathlib
import subprocess
from typing import Any

import relative_attention as ra
from benchmarks.harness import opennmt_tf
from benchmarks.harness.command import add_model
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import ROOT
from benchmarks.harness.engine import EngineError
from benchmarks.harness.results import Row
from benchmarks.speed_tables import quality_table
from relative_attention.runs.texts import find_corpus
from relative_attention.saving.model_directory import load_results
from relative_attention.zoo import find_model
from relative_attention.zoo import scores_of_test_text


def measure(options: argparse.Namespace) -> list[Row]:
    """Trains OpenNMT-tf's model, and scores it beside ours."""
    folder = find_model(options.model)
    recipe, results = ra.find_recipe(folder), load_results(folder)
    if recipe.training.batch_tokens == "auto":
        raise ra.InputError(
            "`training.batch_tokens` of MODEL must be a number, so that "
            "both train on batches of one size. Received: 'auto'. Give a model "
            "whose recipe has a number."
        )
    steps = results["steps"]
    python = opennmt_tf.prepare_environment(options.peer_environment)
    vocabulary = ra.Vocabulary.load(folder / "vocabulary.model")
    texts = find_corpus(recipe.data, options.data)
    # A training of another model must not be resumed.
    run = options.run.resolve() / folder.name
    run.mkdir(parents=True, exist_ok=True)
    tokens = ra.TokenCorpus.prepare(
        ra.ParallelCorpus(str(texts.source), str(texts.target)),
        vocabulary,
        vocabulary,
        recipe.data.max_length,
        run / "tokens",
    )
    test = ra.ParallelCorpus(str(texts.test_source), str(texts.test_target))
    sources, references = (list(side) for side in zip(*test, strict=True))
    features, predictions = (
        run / f"test.{name}" for name in ("ids", "predictions")
    )
    opennmt_tf.write_ids(features, vocabulary.encode(sources))
    command = opennmt_tf.opennmt_tf_command(
        python,
        "train_and_translate",
        sizes=opennmt_tf.sizes_of(recipe.model_config(len(vocabulary))),
        config=_configuration(recipe, vocabulary, tokens, steps, run),
        features=str(features),
        predictions=str(predictions),
    )
    environment = {**os.environ, **opennmt_tf.ENVIRONMENT}
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if status:
        raise EngineError(f"{opennmt_tf.NAME} ended with status {status}.")
    # OpenNMT-tf knows the pieces by their ids, and a few words of its own.
    lines = predictions.read_text("utf-8").split("\n")[: len(sources)]
    hypotheses = vocabulary.decode(
        [
            [int(word) for word in line.split() if word.isdecimal()]
            for line in lines
        ]
    )
    theirs = ra.evaluation.corpus_bleu(hypotheses, references)
    ours = scores_of_test_text(results)
    return [
        {
            "engine": opennmt_tf.NAME,
            "steps": steps,
            "bleu": theirs.score,
            "signature": theirs.signature,
        },
        {
            "engine": recipe.name,
            "steps": steps,
            "bleu": ours["bleu"],
            "signature": ours["bleu_signature"],
        },
    ]


def _configuration(
    recipe: ra.Recipe,
    vocabulary: ra.Vocabulary,
    tokens: ra.TokenCorpus,
    steps: int,
    folder: pathlib.Path,
) -> dict[str, Any]:
    training = recipe.training
    batch_tokens = int(training.batch_tokens)
    config = opennmt_tf.write_training_files(
        len(vocabulary), tokens, batch_tokens, 100, folder
    )
    config["params"] |= {
        "learning_rate": training.learning_rate_scale,
        "decay_params": {
            "model_dim": recipe.model_config(len(vocabulary)).hidden_dim,
            "warmup_steps": training.warmup_steps,
        },
        "label_smoothing": training.label_smoothing,
        "beam_width": recipe.decoding.num_beams,
        "length_penalty": recipe.decoding.length_penalty,
    }
    config["train"] |= {
        "max_step": steps,
        # As here, once an epoch.
        "save_checkpoints_steps": len(ra.TokenBatches(tokens, batch_tokens)),
        "average_last_checkpoints": 2,
    }
    return config


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add = parser.add_argument
    add("--data", metavar="DIR", help="folder with the texts of its recipe")
    # Where the training is kept.
    add(
        "--run",
        type=pathlib.Path,
        default=pathlib.Path("runs/opennmt_tf_quality"),
        metavar="DIR",
    )
    opennmt_tf.add_environment_argument(parser)


main = benchmark(
    "training.opennmt_tf_quality",
    __doc__,
    "tatoeba_de_en --data ../shared/data",
    _add_arguments,
    measure,
    quality_table,
)

if __name__ == "__main__":
    main()
