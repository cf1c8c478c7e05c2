"""Scores a finished model, and writes `results.json`."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from relative_attention.data import ParallelCorpus
from relative_attention.decoding import Translator
from relative_attention.files import atomic_file
from relative_attention.runs.prepared_data import PreparedData
from relative_attention.runs.recipe import Recipe
from relative_attention.training.logs import CURVE_COLUMNS
from relative_attention.training.logs import Record


def write_results(
    directory: pathlib.Path,
    recipe: Recipe,
    origin: dict[str, Any],
    history: Sequence[Record],
    translator: Translator,
    data: PreparedData,
) -> dict[str, Any]:
    """Scores the finished model and writes `results.json`.

    Args:
        directory: The path of the run.
        recipe: A `Recipe`.
        origin: A dict, `provenance()` of the training, and its precision.
        history: A list of dicts, the records of its `RunHistory`.
        translator: A `Translator` of the finished model.
        data: A `PreparedData`.

    Returns:
        A dict, what was written.
    """
    corpora = {"validation": data.validation, "test": data.test}
    last = history[-1]
    # An epoch that was gone on with for its validation alone has no speed.
    speeds = [
        epoch["tokens_per_second"]
        for epoch in history
        if epoch.get("tokens_per_second")
    ]
    results = {
        "recipe": recipe.name,
        **origin,
        "seed": recipe.training.seed,
        "parameters": translator.model.count_params(),
        "steps": last["step"],
        "minutes": round(last["seconds"] / 60, 1),
        "tokens_per_second": round(sum(speeds) / max(len(speeds), 1)),
        "scores": {
            name: score_corpus(translator, corpus, recipe.data.target_language)
            for name, corpus in corpora.items()
            if corpus is not None
        },
        "curve": [
            {
                "step": epoch["step"],
                "seconds": round(epoch["seconds"]),
                **{
                    name: _rounded(epoch[name])
                    for name in CURVE_COLUMNS
                    if name in epoch
                },
            }
            for epoch in history
        ],
    }
    with atomic_file(directory / "results.json", "w") as file:
        json.dump(results, file, indent=1)
    return results


def _rounded(value: float) -> float:
    """Rounds to four digits after the point, or five in all if more."""
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.5g}")


def score_corpus(
    translator: Translator,
    corpus: ParallelCorpus,
    target_language: str | None = None,
) -> dict[str, Any]:
    """Returns BLEU, cased and not, with sacreBLEU's signatures.

    Args:
        translator: A `Translator`.
        corpus: A `ParallelCorpus`, sources and references.
        target_language: The code of the references' language, for BLEU with
            Moses' tokeniser too, lowercased. Defaults to `None`, without it.
    """
    from relative_attention.evaluation import corpus_bleu

    sources, references = (list(side) for side in zip(*corpus))
    hypotheses = translator.translate(sources)
    scores: dict[str, Any] = {}
    kinds = [("bleu", False, "13a"), ("bleu_lowercased", True, "13a")]
    if target_language is not None:
        kinds.append(
            ("bleu_moses_lowercased", True, f"moses-{target_language}")
        )
    for name, lowercase, tokenize in kinds:
        bleu = corpus_bleu(hypotheses, references, lowercase, tokenize)
        scores[name] = round(bleu.score, 2)
        scores[f"{name}_signature"] = bleu.signature
    return scores
