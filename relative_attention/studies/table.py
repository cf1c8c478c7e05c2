"""The table of a study: means over seeds, differences, and a page of both.

It is made only from the records of runs, without corpus and models.
"""

import shlex
import statistics
import textwrap
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import cast

import tabulate

from relative_attention.evaluation.significance import SentenceStatistics
from relative_attention.evaluation.significance import bootstrap_of_means
from relative_attention.studies.study import Study
from relative_attention.studies.study import StudyRow
from relative_attention.studies.study import value_of

# A record of a run in the results file.
Record = dict[str, Any]

_SIGNIFICANT = 0.05
# The entries of a record whose means are in the table.
_MEANS = (
    ("test", "bleu"),
    ("test", "bleu_lowercased"),
    ("validation", "bleu"),
    ("validation", "loss"),
)


def study_table(
    study: Study, records: Mapping[str, Record]
) -> list[dict[str, Any]]:
    """Returns means, standard deviations and differences of each row.

    `records` are by the name of the run, `ROW-SEED`. A row without a finished
    run has no numbers.
    """
    return [_table_row(study, row, records) for row in study.rows]


def _table_row(
    study: Study, row: StudyRow, records: Mapping[str, Record]
) -> dict[str, Any]:
    own = _records_of(row, records)
    axis = None
    if study.axis is not None:
        # The seed changes no other value.
        axis = value_of(study.recipe_for(row, row.seeds[0]), study.axis)
    return {
        "row": row.name,
        "group": row.group,
        "label": row.label,
        "title": row.title,
        "axis": axis,
        "seeds_left": [seed for seed in row.seeds if seed not in own],
        # Keys of JSON are strings.
        "bleu": {str(s): record["test"]["bleu"] for s, record in own.items()},
        **{
            f"{part}_{name}": _mean(r[part].get(name) for r in own.values())
            for part, name in _MEANS
        },
        "minutes": round(sum(r["minutes"] for r in own.values()), 1),
        "paper": row.paper,
        "compare_with": row.compare_with,
        "difference": _difference(study, row, records),
    }


def _records_of(
    row: StudyRow, records: Mapping[str, Record]
) -> dict[int, Record]:
    """Returns the records of a row by seed."""
    names = {seed: f"{row.name}-{seed}" for seed in row.seeds}
    return {s: records[name] for s, name in names.items() if name in records}


def _mean(values: Iterable[float | None]) -> dict[str, float | None] | None:
    """Returns mean and standard deviation (`None` for one number)."""
    # A run may lack a number, such as the loss if no validation had one.
    known = [value for value in values if value is not None]
    if not known:
        return None
    # Rounded, so that the committed file is the same on every machine.
    spread = round(statistics.stdev(known), 4) if len(known) > 1 else None
    return {
        "mean": round(statistics.fmean(known), 4),
        "standard_deviation": spread,
    }


def _difference(
    study: Study, row: StudyRow, records: Mapping[str, Record]
) -> dict[str, float] | None:
    """Returns the bootstrap against the row's `compare_with`."""
    own, other = (
        {
            seed: SentenceStatistics.from_json(record["test"])
            for one in study.rows
            if one.name == name
            for seed, record in _records_of(one, records).items()
        }
        for name in (row.name, row.compare_with)
    )
    # Seeds are compared in pairs.
    if not own.keys() & other.keys():
        return None
    # It resamples sentences, the same for both rows.
    found = bootstrap_of_means(own, other)
    return {
        "mean": round(found.difference, 4),
        "low": round(found.low, 4),
        "high": round(found.high, 4),
        "p_value": round(cast(float, found.p_value), 4),
        "num_seeds": found.num_seeds,
    }


def study_markdown(
    study: Study,
    table: Sequence[Mapping[str, Any]],
    records: Mapping[str, Record],
) -> str:
    """Returns `study_table(study, records)` as a page, with its provenance."""
    has_paper = any(row["paper"] is not None for row in table)
    # In the order of the study, each once; rows may have other seeds.
    seeds = list(dict.fromkeys(str(s) for row in study.rows for s in row.seeds))
    by_seed = f"seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"
    header = ["", "BLEU, test", by_seed, "BLEU, validation"]
    header += ["lowest validation loss", "difference (95 %)", "p"]
    header += ["paper"] * has_paper
    # A comparison names the other row as the table does.
    titles = {row["row"]: row["title"] for row in table}
    cells = [_cells(row, titles, seeds, has_paper) for row in table]
    # Records of rows that the study no longer has are not counted.
    used = [
        record
        for row in study.rows
        for record in _records_of(row, records).values()
    ]
    lines = tabulate.tabulate(
        cells,
        header,
        tablefmt="pipe",
        colalign=("left", *["right"] * (len(header) - 1)),
        # Numbers are formatted here, not by tabulate.
        disable_numparse=True,
    )
    notes = [_filled(note) for note in _notes(study, used, has_paper)]
    head = [f"# {study.name}", _filled(study.description), lines]
    return "\n\n".join([*head, *notes]) + "\n"


def _cells(
    row: Mapping[str, Any],
    titles: Mapping[str, str],
    seeds: Sequence[str],
    has_paper: bool,
) -> list[str]:
    compared = p_value = ""
    difference = row["difference"]
    if difference is not None:
        compared = (
            f"{difference['mean']:+.2f} ({difference['low']:+.2f} to "
            f"{difference['high']:+.2f}) from {titles[row['compare_with']]}"
        )
        p_value = f"{difference['p_value']:.3f}"
        p_value += "*" * (difference["p_value"] < _SIGNIFICANT)
    cells = [
        row["title"],
        _spread(row["test_bleu"]),
        # A missing seed, or one that the row lacks, keeps its column.
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


def _notes(study: Study, used: Sequence[Record], has_paper: bool) -> list[str]:
    """Returns the paragraphs below the table."""
    words = [
        study.name if study.comes_with_package else f"{study.name}.yaml",
        # Without them the command would make another table.
        *study.assignments,
    ]
    command = f"`relative-attention study {shlex.join(words)} --data DIR`"
    if not used:
        return [f"No run is finished yet: {command} begins."]
    # Usually one: records that differ in it are refused.
    signatures = _all(record["test"]["signature"] for record in used)
    about = (
        f"Mean ± standard deviation over seeds. BLEU is cased, {signatures}. "
        "A difference compares the seeds that both rows have; its interval and "
        "p are from a paired bootstrap over the test sentences (1,000 "
        f"resamples; *: p below {_SIGNIFICANT})."
    )
    if has_paper:
        about += " The paper's BLEU is on its own corpus."
    left = sum(len(row.seeds) for row in study.rows) - len(used)
    # Another study has counted the time of the others.
    own = [record for record in used if "taken_from" not in record]
    minutes = sum(record["minutes"] for record in own)
    hardware, date = (
        _all(record.get(key) for record in used) for key in ("hardware", "date")
    )
    versions = [
        f"{name} {_all(found)}"
        for name in ("Python", "Keras", "TensorFlow", "JAX")
        # A run has the version of its own backend only.
        if (found := [r[name.lower()] for r in used if r.get(name.lower())])
    ]
    number = "1 run" if len(used) == 1 else f"{len(used)} runs"
    took = f", {minutes:,.0f} minutes in all"
    if not own:
        number += " (taken from other studies)"
        took = ""
    elif len(own) < len(used):
        number += f" ({len(used) - len(own)} taken from other studies)"
        took = f", {minutes:,.0f} minutes for the other {len(own)}"
    are_left = f"; {left} {'is' if left == 1 else 'are'} left"
    ran = (
        f"{number} of {used[0]['steps']:,} updates each in "
        f"{used[0]['precision']}{took}"
        f"{are_left if left else ''}. {hardware}; {', '.join(versions)}; "
        f"commit {_all(map(_commit, used))}; {date}."
    )
    return [about, ran, f"By {command}."]


def _filled(paragraph: str) -> str:
    """Returns a paragraph in lines of 80 characters at most."""
    # Commands and addresses must stay whole.
    return textwrap.fill(
        paragraph, 80, break_long_words=False, break_on_hyphens=False
    )


def _commit(record: Record) -> str:
    commit = record.get("commit")
    if commit is None:
        # It was not trained by a checkout.
        return f"unknown (version {record.get('relative_attention')})"
    # The mark of a changed checkout stays.
    return commit[:7] + ("+" if commit.endswith("+") else "")


def _all(values: Iterable[object]) -> str:
    """Returns the distinct values of records."""
    return ", ".join(sorted({str(value or "unknown") for value in values}))
