"""Makes the table of a study: means, deviations, differences; Markdown."""

import shlex
import statistics
import textwrap
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tabulate

from relative_attention.errors import InputError
from relative_attention.evaluation import BleuStatistics
from relative_attention.evaluation import bootstrap_of_means
from relative_attention.runs.study import Study
from relative_attention.runs.study import StudyRow
from relative_attention.runs.study_job import RunRecord
from relative_attention.runs.study_job import run_name
from relative_attention.runs.study_values import value_of

_SIGNIFICANT = 0.05


def study_table(
    study: Study, runs: Mapping[str, RunRecord]
) -> list[dict[str, Any]]:
    """Returns means, standard deviations and differences, for JSON.

    Args:
        study: A `Study`.
        runs: Records by `run_name`.

    Returns:
        A list of dicts, one for each row of the study; a row without a run
        that is finished has no numbers.

    Raises:
        InputError: if rows that are compared have other test texts.
    """
    records = {row.name: _records(study, row, runs) for row in study.rows}
    return [_table_row(study, row, records) for row in study.rows]


def _records(
    study: Study, row: StudyRow, runs: Mapping[str, RunRecord]
) -> dict[int, RunRecord]:
    names = {seed: run_name(row.name, seed) for seed in study.seeds_of(row)}
    return {seed: runs[name] for seed, name in names.items() if name in runs}


def _table_row(
    study: Study, row: StudyRow, records: Mapping[str, dict[int, RunRecord]]
) -> dict[str, Any]:
    own = records[row.name]
    seeds = study.seeds_of(row)
    axis = None
    if study.axis is not None:
        axis = value_of(study.recipe_for(row, seeds[0]), study.axis)
    return {
        "row": row.name,
        "group": row.group,
        "label": row.label or row.name,
        "title": row.title,
        "axis": axis,
        "seeds_left": [seed for seed in seeds if seed not in own],
        "bleu": {str(s): record["test"]["bleu"] for s, record in own.items()},
        **{
            name: _mean(record[part][key] for record in own.values())
            for name, part, key in (
                ("test_bleu", "test", "bleu"),
                ("test_bleu_lowercased", "test", "bleu_lowercased"),
                ("validation_bleu", "validation", "bleu"),
                ("validation_loss", "validation", "loss"),
            )
        },
        "minutes": round(sum(r["minutes"] for r in own.values()), 1),
        "paper": row.paper,
        "compare_with": row.compare_with,
        "difference": _difference(row, records),
    }


def _mean(values: Iterable[float | None]) -> dict[str, float | None] | None:
    """Returns mean and standard deviation, of one number without the latter."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    spread = statistics.stdev(known) if len(known) > 1 else None
    return {
        "mean": round(statistics.fmean(known), 4),
        "standard_deviation": None if spread is None else round(spread, 4),
    }


def _difference(
    row: StudyRow, records: Mapping[str, dict[int, RunRecord]]
) -> dict[str, Any] | None:
    """Returns the bootstrap against the row that a row is compared with."""
    if row.compare_with is None:
        return None
    own, other = records[row.name], records[row.compare_with]
    if not own.keys() & other.keys():
        return None
    try:
        found = bootstrap_of_means(_statistics(own), _statistics(other))
    except ValueError as error:
        raise InputError(
            f"Row {row.name!r} cannot be compared with {row.compare_with!r}: "
            f"{error}"
        ) from error
    return {
        "mean": round(found.difference, 4),
        "low": round(found.low, 4),
        "high": round(found.high, 4),
        "p_value": round(found.p_value, 4),
        "num_seeds": found.num_seeds,
    }


def _statistics(
    records: Mapping[int, RunRecord],
) -> dict[int, BleuStatistics]:
    return {
        seed: BleuStatistics.from_json(record["test"])
        for seed, record in records.items()
    }


def study_markdown(
    study: Study,
    table: Sequence[Mapping[str, Any]],
    runs: Mapping[str, RunRecord],
) -> str:
    """Returns the table as a page in Markdown, with where it is from.

    Args:
        study: A `Study`.
        table: What `study_table` returned.
        runs: The records that it was made of, by `run_name`.
    """
    has_paper = any(row["paper"] is not None for row in table)
    seeds = list(
        dict.fromkeys(str(s) for row in study.rows for s in study.seeds_of(row))
    )
    by_seed = f"seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"
    header = ["", "BLEU, test", by_seed, "BLEU, validation", "least loss"]
    header += ["difference (95 %)", "p"] + ["paper"] * has_paper
    titles = {row["row"]: row["title"] for row in table}
    rows = [_cells(row, titles, seeds, has_paper) for row in table]
    names = {run_name(row["row"], int(s)) for row in table for s in row["bleu"]}
    used = [record for name, record in runs.items() if name in names]
    return "\n".join(
        [
            f"# {study.name}",
            "",
            _filled(study.description),
            "",
            tabulate.tabulate(
                rows,
                header,
                tablefmt="pipe",
                colalign=("left", *["right"] * (len(header) - 1)),
                # Numbers stand as they are written here.
                disable_numparse=True,
            ),
            "",
            "\n\n".join(map(_filled, _notes(study, used, has_paper))),
            "",
        ]
    )


def _cells(
    row: Mapping[str, Any],
    titles: Mapping[str, str],
    seeds: Sequence[str],
    has_paper: bool,
) -> list[str]:
    difference = row["difference"]
    compared = p_value = ""
    if difference is not None:
        compared = (
            f"{difference['mean']:+.2f} ({difference['low']:+.2f} to "
            f"{difference['high']:+.2f}) from {titles[row['compare_with']]}"
        )
        star = "*" if difference["p_value"] < _SIGNIFICANT else ""
        p_value = f"{difference['p_value']:.3f}{star}"
    cells = [
        row["title"],
        _spread(row["test_bleu"]),
        # One that is left, or that the row has not, keeps its place.
        " ".join(
            f"{row['bleu'][seed]:.2f}" if seed in row["bleu"] else "-"
            for seed in seeds
        ),
        _spread(row["validation_bleu"]),
        _spread(row["validation_loss"], digits=3),
        compared,
        p_value,
    ]
    if has_paper:
        cells.append("" if row["paper"] is None else f"{row['paper']:.1f}")
    return cells


def _spread(mean: Mapping[str, Any] | None, digits: int = 2) -> str:
    if mean is None:
        return "-"
    text = f"{mean['mean']:.{digits}f}"
    spread = mean["standard_deviation"]
    return text if spread is None else f"{text} ± {spread:.{digits}f}"


def _notes(
    study: Study, used: Sequence[RunRecord], has_paper: bool
) -> list[str]:
    """Returns the paragraphs below the table."""
    words = [
        study.name if study.comes_with_package else f"{study.name}.yaml",
        *study.assignments,
    ]
    command = f"`relative-attention study {shlex.join(words)} --data DIR`"
    if not used:
        return [f"No run is finished yet: {command} begins."]
    notes = [
        "Mean ± standard deviation over seeds. BLEU is cased, "
        f"{_all(used, lambda r: r['test']['signature'])}; the loss is the "
        "least of the validations on the way. A difference is that of the "
        "means over the seeds that both rows have; its interval and p are by "
        "paired bootstrap over the test sentences (1,000 resamples, the same "
        f"for all seeds; *: p below {_SIGNIFICANT}).",
    ]
    if has_paper:
        notes[0] += " The last column is the paper's BLEU, on its own corpus."
    left = sum(len(study.seeds_of(row)) for row in study.rows) - len(used)
    minutes = sum(record["minutes"] for record in used)
    number = "1 run" if len(used) == 1 else f"{len(used)} runs"
    verb = "is" if left == 1 else "are"
    notes += [
        f"{number} of {used[0]['steps']:,} updates each in "
        f"{used[0]['precision']}, {minutes:,.0f} minutes in all"
        f"{f'; {left} {verb} left' if left else ''}. "
        f"{_all(used, lambda r: r.get('hardware'))}; "
        f"Python {_all(used, lambda r: r.get('python'))}, "
        f"Keras {_all(used, lambda r: r.get('keras'))}, "
        f"TensorFlow {_all(used, lambda r: r.get('tensorflow'))}; "
        f"commit {_all(used, _commit)}; "
        f"{_all(used, lambda r: r.get('date'))}.",
        f"By {command}.",
    ]
    return notes


def _filled(paragraph: str) -> str:
    """Returns a paragraph in lines of 80 characters at most."""
    return textwrap.fill(
        paragraph, 80, break_long_words=False, break_on_hyphens=False
    )


def _commit(record: RunRecord) -> str:
    commit = record.get("commit")
    if commit is None:
        # It was no checkout that trained it.
        return f"unknown (version {record.get('relative_attention')})"
    # The mark of a changed checkout stays.
    return commit[:7] + ("+" if commit.endswith("+") else "")


def _all(records: Sequence[RunRecord], read: Any) -> str:
    """Returns what records say, once each."""
    said = {str(read(record) or "unknown") for record in records}
    return ", ".join(sorted(said))
