"""Trains one run of a study, in a process of its own."""

import json
from typing import Any

from relative_attention.errors import InputError
from relative_attention.evaluation import BleuStatistics
from relative_attention.files import atomic_file
from relative_attention.runs.report import print_error
from relative_attention.runs.study_job import RunRecord
from relative_attention.runs.study_job import StudyJob
from relative_attention.runs.study_values import deciding_values
from relative_attention.runs.train import train
from relative_attention.saving.model_directory import load_translator

# Near ties turn over on another processor; more is another model.
_TOLERANCE = 0.1

_ORIGIN = (
    "precision",
    "steps",
    "minutes",
    "tokens_per_second",
    "parameters",
    "hardware",
    "commit",
    "date",
    "relative_attention",
    "python",
    "keras",
    "tensorflow",
    "sacrebleu",
)


def main(argument: str) -> int:
    """Runs the job that `argument` describes, and returns the exit status."""
    try:
        run_job(StudyJob.from_json(argument))
    except InputError as error:
        print_error(f"relative-attention: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def run_job(job: StudyJob) -> RunRecord:
    """Trains a run to its end, unless it is finished, and makes its record.

    Args:
        job: A `StudyJob`.

    Returns:
        A dict, what was written beside the run.

    Raises:
        InputError: as `train`; or if the run that is there is another, or its
            model gives other translations than its results tell of.
    """
    recipe = job.made_recipe
    if not job.is_finished():
        train(recipe, job.directory, job.data_directory, resume="auto")
    results = job.read_results()
    statistics = _translate_test(job)
    bleu = statistics.bleu()
    told = results["scores"]["test"]
    if abs(bleu - told["bleu"]) > _TOLERANCE:
        raise InputError(
            f"The model in {job.directory} has BLEU {bleu:.2f} on the test "
            f"text, and its results.json says {told['bleu']:.2f}: they do not "
            "belong together. Move the run away."
        )
    record = {
        "row": job.row,
        "seed": job.seed,
        "values": deciding_values(recipe),
        **{name: results.get(name) for name in _ORIGIN},
        "test": {
            "bleu": round(bleu, 4),
            "bleu_lowercased": told["bleu_lowercased"],
            **statistics.to_json(),
        },
        "validation": _validation(results),
    }
    with atomic_file(job.record, "w") as file:
        json.dump(record, file, indent=1)
    return record


def _translate_test(job: StudyJob) -> BleuStatistics:
    """Translates the test text, and keeps the translations beside the run."""
    sources, references = (list(side) for side in zip(*job.test_corpus()))
    hypotheses = load_translator(job.directory).translate(sources)
    with atomic_file(job.hypotheses, "w") as file:
        file.writelines(f"{line}\n" for line in hypotheses)
    return BleuStatistics.of_texts(hypotheses, references)


def _validation(results: dict[str, Any]) -> dict[str, Any]:
    """Returns BLEU of the finished model, and the least loss on the way."""
    losses = [e["val_loss"] for e in results["curve"] if "val_loss" in e]
    scores = results["scores"].get("validation", {})
    return {"bleu": scores.get("bleu"), "loss": min(losses, default=None)}
