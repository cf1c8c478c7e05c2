"""How fast the package trains, and in how much memory, on one CPU.

Trains `transformer_small_relative` and the same with sinusoidal positions,
both in float32 and in mixed_bfloat16, and OpenNMT-tf with the same relative
model: hidden 256, feed-forward 1,024, 3 + 3 layers, 4 heads, K = 16, dropout
0.1, a joint vocabulary of 8,000 pieces, 2,048 tokens a batch. From the root
of a checkout, with the package installed:

    python benchmarks/training_speed.py --data DIR --peer opennmt-tf

`DIR` holds `train.en` and `train.de`, plain or `.gz`. OpenNMT-tf gets a
virtual environment of its own, made on first use (Python 3.11 or older);
without `--peer` there is nothing to install and no ratio to it.

In each round every contestant starts as a process of its own (together they
take about 8 GB), trains `--warmup` steps that are not counted, and then they
train in turns, `--window` steps each, until each has counted `--steps`. On a
shared machine a minute is not like the next: ratios are taken between windows
that followed one another, and the median over all windows is shown with the
least and the greatest. Tokens are source and target tokens with their ends of
sentences and without padding. Peak memory is the largest resident set of the
process, as the system counts it.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile

import opennmt_tf_peer
import report
import turns
import workload

import relative_attention as ra

_VOCABULARY_SIZE = 8000
_BATCH_TOKENS = 2048

_RELATIVE = "transformer_small_relative"
_SINUSOIDAL = "transformer_small"

# Name in the table: preset and dtype policy.
_CONTESTANTS = {
    "relative, float32": (_RELATIVE, "float32"),
    "sinusoidal, float32": (_SINUSOIDAL, "float32"),
    "relative, mixed_bfloat16": (_RELATIVE, "mixed_bfloat16"),
    "sinusoidal, mixed_bfloat16": (_SINUSOIDAL, "mixed_bfloat16"),
}
_PEER = opennmt_tf_peer.NAME + ", float32"


@dataclasses.dataclass
class Measured:
    """What one contestant did, over all rounds.

    Attributes:
        windows: list of dicts of `"steps"`, `"seconds"`, `"tokens"`.
        peak_memory: list of int, bytes, one a round.
    """

    windows: list = dataclasses.field(default_factory=list)
    peak_memory: list = dataclasses.field(default_factory=list)

    @property
    def steps_per_second(self):
        return [w["steps"] / w["seconds"] for w in self.windows]

    @property
    def tokens_per_second(self):
        return [w["tokens"] / w["seconds"] for w in self.windows]


# === Running ===


def commands(corpus, tokens, folder, peer_python, options, round_number):
    """The command line of each contestant, by its name."""
    result = {}
    for name, (preset, dtype) in _CONTESTANTS.items():
        arguments = {
            "preset": preset,
            "dtype": dtype,
            "source": corpus.source,
            "target": corpus.target,
            "vocabulary_size": _VOCABULARY_SIZE,
            "folder": str(folder),
            "batch_tokens": _BATCH_TOKENS,
            "window": options.window,
            # In a round, all of ours see the same batches.
            "seed": round_number,
        }
        result[name] = [
            sys.executable,
            _sibling("keras_contestant.py"),
            json.dumps(arguments),
        ]
    if peer_python:
        config = opennmt_tf_peer.write_workload(
            _VOCABULARY_SIZE,
            tokens,
            _BATCH_TOKENS,
            options.window,
            folder / f"opennmt_tf_{round_number}",
        )
        script = _sibling("opennmt_tf_contestant.py")
        # `-E`: PYTHONPATH may name packages for another Python.
        result[_PEER] = [peer_python, "-E", script, config]
    return result


def run_round(contestant_commands, options, folder, measured):
    """Start all contestants, let them train in turns, and note the results."""
    contestants = {}
    with contextlib.ExitStack() as stack:
        for index, (name, command) in enumerate(contestant_commands.items()):
            report.progress(f"{name}: warming up")
            log = folder / f"contestant_{index}.log"
            contestant = turns.Contestant(command, _environment(), log)
            stack.callback(contestant.kill)
            contestants[name] = contestant
            for _ in range(options.warmup // options.window):
                contestant.take_turn()
        num_turns = options.steps // options.window
        order = list(contestants)
        for turn in range(num_turns):
            for name in order:
                report.progress(f"turn {turn + 1} of {num_turns}: {name}")
                measured[name].windows.append(contestants[name].take_turn())
            # There and back: a steady drift then favours nobody.
            order.reverse()
        for name, contestant in contestants.items():
            measured[name].peak_memory.append(contestant.finish())
    report.progress()


def _environment():
    return {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # One CPU is compared with itself, also where there is a GPU.
        "CUDA_VISIBLE_DEVICES": "-1",
    }


def _sibling(name):
    return str(pathlib.Path(__file__).with_name(name))


# === Reporting ===


def table(measured):
    """The table of figures, Markdown."""
    header = [
        "model",
        "steps/s",
        "tokens/s",
        f"tokens/s, ratio to {opennmt_tf_peer.NAME}",
        "peak memory",
    ]
    rows = []
    for name, result in measured.items():
        ratio = "not run"
        if _PEER in measured:
            ratio = report.spread(_speed_ratios(measured, name, _PEER))
        rows.append(
            [
                name,
                f"{statistics.median(result.steps_per_second):.2f}",
                f"{statistics.median(result.tokens_per_second):,.0f}",
                "1" if name == _PEER else ratio,
                f"{_peak(result) / 1e9:.2f} GB",
            ]
        )
    return report.markdown_table(header, rows)


def bars(measured):
    """What is demanded, each with what was measured.

    Returns:
        List of dicts of `"demand"`, `"bar"`, `"measured"` (list of figures)
        and `"met"`: whether their median is on the right side of the bar.
    """
    result = []

    def demand(text, bar, values, at_least):
        middle = statistics.median(values)
        result.append(
            {
                "demand": text,
                "bar": f"at {'least' if at_least else 'most'} {bar}",
                "measured": values,
                "met": middle >= bar if at_least else middle <= bar,
            }
        )

    for dtype, bar in (("float32", 1.0), ("mixed_bfloat16", 2.0)):
        name = f"relative, {dtype}"
        if _PEER in measured:
            demand(
                f"tokens/s, {name} / {_PEER}",
                bar,
                _speed_ratios(measured, name, _PEER),
                at_least=True,
            )
            demand(
                f"peak memory, {name} / {_PEER}",
                1.0,
                [_peak(measured[name]) / _peak(measured[_PEER])],
                at_least=False,
            )
        demand(
            f"time, relative / sinusoidal, {dtype}",
            1.07,
            # The same batches: more time is fewer tokens a second.
            _speed_ratios(measured, f"sinusoidal, {dtype}", name),
            at_least=False,
        )
    return result


def bars_table(demands):
    rows = [
        [
            demand["demand"],
            demand["bar"],
            report.spread(demand["measured"], digits=3),
            "yes" if demand["met"] else "no",
        ]
        for demand in demands
    ]
    return report.markdown_table(["demand", "bar", "measured", "met"], rows)


def _speed_ratios(measured, name, other):
    """Tokens/s of one over those of another, window by window."""
    pairs = zip(
        measured[name].tokens_per_second, measured[other].tokens_per_second
    )
    return [speed / other_speed for speed, other_speed in pairs]


def _peak(result):
    return statistics.median(result.peak_memory)


def as_json(measured, options, description):
    return {
        "settings": {
            "rounds": options.rounds,
            "warmup": options.warmup,
            "steps": options.steps,
            "window": options.window,
            "vocabulary_size": _VOCABULARY_SIZE,
            "batch_tokens": _BATCH_TOKENS,
        },
        "contestants": {
            name: {
                "steps_per_second": statistics.median(result.steps_per_second),
                "tokens_per_second": statistics.median(
                    result.tokens_per_second
                ),
                **dataclasses.asdict(result),
            }
            for name, result in measured.items()
        },
        "bars": bars(measured),
        "provenance": description,
    }


# === Command ===


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python benchmarks/training_speed.py "
        "--data data/multi30k --peer opennmt-tf --output speed.json",
    )
    workload.add_data_argument(parser)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=60, metavar="STEPS")
    parser.add_argument(
        "--steps", type=int, default=100, help="counted steps of a round"
    )
    parser.add_argument(
        "--window", type=int, default=20, metavar="STEPS", help="of a turn"
    )
    parser.add_argument(
        "--peer", choices=["opennmt-tf"], help="a competitor to train as well"
    )
    parser.add_argument(
        "--peer-environment",
        metavar="DIR",
        default=".venv-opennmt-tf",
        help="its virtual environment, made if need be (default: %(default)s)",
    )
    parser.add_argument(
        "--output", metavar="FILE.json", help="all figures, for a machine"
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds must be positive. Received: {options.rounds}.")
    # OpenNMT-tf leaves the first two steps out of its own figures.
    if options.window < 5:
        parser.error(f"--window must be at least 5. Received: {options.window}")
    for name in ("warmup", "steps"):
        value = getattr(options, name)
        if value < options.window or value % options.window:
            parser.error(
                f"--{name} must be a multiple of --window "
                f"({options.window}). Received: {value}."
            )
    return options


def main():
    options = parse_arguments()
    try:
        corpus = workload.find_corpus(options.data)
        peer_python = None
        if options.peer:
            peer_python = opennmt_tf_peer.prepare_environment(
                options.peer_environment
            )
        measured = measure(corpus, peer_python, options)
    except (ra.InputError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    # Imported last: it brings TensorFlow, whose memory processes that are
    # started afterwards would be counted for.
    from relative_attention.runs.provenance import provenance
    from relative_attention.runs.provenance import provenance_sentence

    description = provenance()
    print(f"\n{table(measured)}\n\n{bars_table(bars(measured))}\n")
    print(
        f"Median (least to greatest) of {options.rounds} x "
        f"{options.steps // options.window} windows of {options.window} "
        f"steps, after {options.warmup} steps.\n"
        f"{provenance_sentence(description)}"
    )
    if options.output:
        content = as_json(measured, options, description)
        pathlib.Path(options.output).write_text(
            json.dumps(content, indent=2) + "\n"
        )


def measure(corpus, peer_python, options):
    """Run all rounds; returns a dict of `Measured` by contestant."""
    names = [*_CONTESTANTS, *([_PEER] if peer_python else [])]
    measured = {name: Measured() for name in names}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, tokens = workload.prepare(corpus, _VOCABULARY_SIZE, folder)
        for number in range(options.rounds):
            run_round(
                commands(corpus, tokens, folder, peer_python, options, number),
                options,
                folder,
                measured,
            )
            speeds = ", ".join(
                f"{name} {statistics.median(result.tokens_per_second):,.0f}"
                for name, result in measured.items()
            )
            print(
                f"Round {number + 1} of {options.rounds}, tokens/s so far: "
                f"{speeds}",
                flush=True,
            )
    return measured


if __name__ == "__main__":
    main()
