"""Writes what came out of a run, `results.json`."""

import json

from relative_attention.atomic_files import atomic_file

# What `curve_figure` draws: a picture of the results is that of the run.
_CURVE = (
    "loss",
    "perplexity",
    "accuracy",
    "val_loss",
    "val_perplexity",
    "val_accuracy",
    "val_bleu",
    "learning_rate",
    "gradient_norm",
)


def write_results(directory, recipe, origin, history, translator, data):
    """Score the finished model and write `results.json`.

    Args:
        directory: `pathlib.Path` of the run.
        recipe: `Recipe`.
        origin: dict. `provenance()` of the training, and its precision.
        history: list of dicts, one for each epoch; see `RunKeeper`.
        translator: `Translator` of the finished model.
        data: `PreparedData`.

    Returns:
        Dict, what was written.
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
            name: score_corpus(translator, corpus)
            for name, corpus in corpora.items()
            if corpus is not None
        },
        "curve": [
            {
                "step": epoch["step"],
                "seconds": round(epoch["seconds"]),
                **{
                    name: _rounded(epoch[name])
                    for name in _CURVE
                    if name in epoch
                },
            }
            for epoch in history
        ],
    }
    with atomic_file(directory / "results.json", "w") as file:
        json.dump(results, file, indent=1)
    return results


def _rounded(value):
    """Four digits after the point, or five in all where that is more."""
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.5g}")


def score_corpus(translator, corpus):
    """BLEU of a `ParallelCorpus`, cased and not, with signatures."""
    from relative_attention.evaluation import corpus_bleu

    sources, references = (list(side) for side in zip(*corpus))
    hypotheses = translator.translate(sources)
    scores = {}
    for name, lowercase in (("bleu", False), ("bleu_lowercased", True)):
        bleu = corpus_bleu(hypotheses, references, lowercase=lowercase)
        scores[name] = round(bleu.score, 2)
        scores[f"{name}_signature"] = bleu.signature
    return scores
