"""Reports of a run: lines of its log, its provenance, scores and curve."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import keras

import relative_attention
from relative_attention.data import ParallelCorpus
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.evaluation import corpus_bleu
from relative_attention.evaluation.scores import fitting_tokenizer
from relative_attention.evaluation.scores import moses_tokenizer
from relative_attention.evaluation.significance import SentenceStatistics
from relative_attention.files import read_json
from relative_attention.files import write_json
from relative_attention.recipes.recipe import Recipe
from relative_attention.recipes.sections import DataSection
from relative_attention.runs.logs import CURVE_COLUMNS
from relative_attention.saving.model_directory import load_results
from relative_attention.zoo import find_curve

# Called with each line for the log.
Report: TypeAlias = Callable[[str], object]


def print_error(line: str) -> None:
    """Writes a line to standard error and flushes it."""
    print(line, file=sys.stderr, flush=True)


def say_nothing(line: str) -> None:
    """Drops a line: of several machines only the chief logs."""


# === Provenance ===

_PACKAGES = ("numpy", "sentencepiece", "sacrebleu")
# Instructions that make matrix products fast, mostly in bfloat16.
_NOTABLE_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_bf16",
    "amx_bf16",
    "asimd",
    "bf16",
    "sve",
)


def provenance() -> dict[str, Any]:
    """Returns hardware, versions, commit and date, as a dict for JSON."""
    backend = keras.backend.backend()
    return {
        "date": datetime.date.today().isoformat(),
        "relative_attention": relative_attention.__version__,
        "commit": _commit(),
        "hardware": ", ".join([_processor(), *_gpus()]),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("keras", backend, *_PACKAGES)},
    }


def provenance_sentence(origin: dict[str, Any]) -> str:
    """Returns `provenance()` in one line, for the end of a table."""
    versions = [
        f"{name} {origin[name]}"
        for name in ("python", "keras", "tensorflow", *_PACKAGES, "jax")
        if origin.get(name)
    ]
    commit, version = origin["commit"], origin["relative_attention"]
    return "; ".join(
        [
            origin["hardware"],
            ", ".join(versions),
            f"commit {commit}" if commit else f"version {version}",
            origin["date"],
        ]
    )


def _commit() -> str | None:
    """Returns the commit of the checkout, `None` outside a checkout.

    It ends with `+` if the package or a recipe has uncommitted changes.
    """
    root = pathlib.Path(relative_attention.__file__).parents[1]
    # A folder above may be a checkout of something else.
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "HEAD")
    # Numbers come from the package alone; tests and pages may change.
    changed = _git(root, "diff", "HEAD", "--stat", "--", "relative_attention")
    return f"{commit}+" if changed else commit


def _git(root: pathlib.Path, *arguments: str) -> str | None:
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    # A machine may have no git, or the folder another owner.
    except (OSError, subprocess.CalledProcessError):
        return None


def _processor() -> str:
    """Describes the processor: name, available cores, instructions."""
    fields: dict[str, str] = {}
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            # The first processor stands for all.
            fields.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    name = fields.get("model name") or platform.processor() or "unknown"
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    notable = " ".join(flag for flag in _NOTABLE_FLAGS if flag in flags)
    try:
        cores: int | None = len(os.sched_getaffinity(0))
    except AttributeError:  # Not on macOS.
        cores = os.cpu_count()
    number = f"{cores} core{'s' * (cores != 1)}"
    return f"{name}, {number} ({notable or 'no notable instructions'})"


def _gpus() -> list[str]:
    """Returns the names of the GPUs that the backend of Keras sees."""
    if keras.backend.backend() == "jax":
        import jax

        return [d.device_kind for d in jax.devices() if d.platform == "gpu"]
    if keras.backend.backend() == "torch":
        import torch

        numbers = range(torch.cuda.device_count())
        return [torch.cuda.get_device_name(number) for number in numbers]
    import tensorflow as tf

    details = tf.config.experimental.get_device_details
    return [
        details(device).get("device_name", "GPU")
        for device in tf.config.list_physical_devices("GPU")
    ]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


# === Scores and curve ===


def write_results(
    directory: pathlib.Path,
    recipe: Recipe,
    origin: dict[str, Any],
    history: Sequence[Mapping[str, float]],
    translator: Translator,
    corpora: Mapping[str, ParallelCorpus | None],
) -> dict[str, Any]:
    """Scores the finished model and writes `results.json`."""
    # The run's own counts: a resumed run has those of all its parts.
    last = history[-1]
    scored = {
        name: _score_corpus(translator, corpus, recipe.data)
        for name, corpus in corpora.items()
        if corpus is not None
    }
    # A resumed round that only ran validation has no training speed.
    speeds = [
        record["tokens_per_second"]
        for record in history
        if record.get("tokens_per_second")
    ]
    results = {
        "recipe": recipe.name,
        **origin,
        "seed": recipe.training.seed,
        "parameters": translator.model.count_params(),
        "steps": last["step"],
        "minutes": round(last["seconds"] / 60, 1),
        "tokens_per_second": round(sum(speeds) / max(len(speeds), 1)),
        "scores": {name: scores for name, (scores, _) in scored.items()},
        "curve": [
            {
                "step": record["step"],
                "seconds": round(record["seconds"]),
                **{
                    name: _rounded(record[name])
                    for name in CURVE_COLUMNS
                    if name in record
                },
            }
            for record in history
        ],
    }
    if "test" in scored:
        # Studies compare runs by them.
        results["test_counts"] = scored["test"][1]
    write_json(directory / "results.json", results)
    return results


def _rounded(value: float) -> float:
    """Rounds to four digits after the point, or to five digits if more."""
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.5g}")


def _score_corpus(
    translator: Translator, corpus: ParallelCorpus, section: DataSection
) -> tuple[dict[str, Any], str]:
    """Returns BLEU, cased and not, with signatures, and counts of cased BLEU.

    The counts are those of `SentenceStatistics.to_json`.
    """
    sources, references = (list(side) for side in zip(*corpus))
    # Lines of a test set are sentences already, by its own count.
    hypotheses = [one.text for one in translator.search(sources)]
    scores: dict[str, Any] = {}
    tokenize = bleu_tokenizer(section, references)
    counts = SentenceStatistics.of_texts(hypotheses, references, tokenize)
    # Both, as papers report either.
    kinds = [("bleu", False, tokenize), ("bleu_lowercased", True, tokenize)]
    moses = moses_tokenizer(section.target_language)
    if moses is not None:
        kinds.append(("bleu_moses_lowercased", True, moses))
    for name, lowercase, tokenize in kinds:
        bleu = corpus_bleu(hypotheses, references, lowercase, tokenize)
        scores[name] = round(bleu.score, 2)
        scores[f"{name}_signature"] = bleu.signature
    return scores, counts.to_json()["counts"]


def bleu_tokenizer(section: DataSection, references: Sequence[str]) -> str:
    """Returns sacreBLEU's tokenizer for the target text of a recipe."""
    if section.tokenized:
        # It has blanks, whatever its language.
        return "13a"
    return fitting_tokenizer(references, section.target_language)


def load_curve(directory: pathlib.Path | str) -> list[dict[str, float]]:
    """Returns the training curve in a run's folder.

    It is from `history.json`, which exists after the first validation, or from
    `results.json`, the only one of bundled models.
    """
    folder = find_curve(directory)
    # It is newer than `results.json` while a run is resumed.
    path = folder / "history.json"
    if path.is_file():
        try:
            curve = read_json(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged: {error}.") from error
    elif (path := folder / "results.json").is_file():
        curve = load_results(folder).get("curve")
    else:
        raise InputError(
            f"Nothing to draw in {folder}: it must hold history.json or "
            "results.json. A run has history.json from its first validation on."
        )
    if not isinstance(curve, list) or not all(map(_is_record, curve)):
        raise InputError(
            f"{path} is damaged: the curve of a run must be a list of numbers "
            "by name, including a `step`."
        )
    if not curve:
        raise InputError(
            f"Nothing to draw in {folder} yet: the run has not come to its "
            "first validation."
        )
    return curve


def _is_record(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and "step" in record
        and all(isinstance(value, int | float) for value in record.values())
    )
