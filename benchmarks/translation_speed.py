"""How fast the package translates, beside other engines, on one CPU.

Translates a text with a trained model: with the package, with its SavedModel,
with CTranslate2 in float32 and int8, and, with `--peer opennmt-tf`, with
OpenNMT-tf; all with the same weights. From the root of a checkout, with the
package and its extra `ctranslate2` installed:

    python benchmarks/translation_speed.py MODEL_DIRECTORY --source test.en \\
        --peer opennmt-tf

The model must have the architecture of `transformer_small_relative` for the
peer, which gets a virtual environment of its own on first use (Python 3.11 or
older).

Every engine is a process of its own; they take turns, a whole text each, and
what is compared was measured in the same round. Sentences come sorted by
length, longest first, in batches of 1 (the first `--single` alone), 32, and
whatever else `--batch-sizes` says. The package, its SavedModel and CTranslate2
take and give strings, OpenNMT-tf ids. Peak memory is the largest resident set
of the process, as the system counts it, over everything it was asked for.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import sys
import tempfile

import opennmt_tf_peer
import report
import turns

import relative_attention as ra

_OURS = "relative-attention"
_SAVED_MODEL = "its SavedModel"


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="example:\n  python benchmarks/translation_speed.py runs/mine "
        "--source test.en --peer opennmt-tf",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model_directory")
    parser.add_argument("--source", metavar="F", required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument(
        "--single",
        type=int,
        default=50,
        help="sentences that are translated one by one (default: 50)",
    )
    parser.add_argument(
        "--batch-sizes", type=int, nargs="+", default=[1, 32, 256]
    )
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--peer", choices=["opennmt-tf"])
    parser.add_argument(
        "--peer-environment", metavar="DIR", default=".venv-opennmt-tf"
    )
    return parser.parse_args()


def main():
    options = parse_arguments()
    peer_python = None
    try:
        if options.peer:
            peer_python = opennmt_tf_peer.prepare_environment(
                options.peer_environment
            )
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            # What it needs TensorFlow for is done in a process that ends.
            prepared = _prepare(options, peer_python, folder)
            measured, memory = measure(prepared, options, folder)
    except (ra.InputError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    from relative_attention.runs.provenance import provenance
    from relative_attention.runs.provenance import provenance_sentence

    print(f"\n{table(measured, memory, prepared['mean_tokens'])}\n")
    print(same_translations(measured))
    print(
        f"Median of {options.rounds} rounds, {options.sentences:,} sentences "
        f"({options.single} one by one). {provenance_sentence(provenance())}"
    )


def _prepare(options, peer_python, folder):
    """Exports and the command line of each contestant."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            content = _exported(options, peer_python, folder)
            (folder / "prepared.json").write_text(json.dumps(content))
            status = 0
        except ra.InputError as error:
            print(f"error: {error}", file=sys.stderr)
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError("the engines could not be prepared")
    return json.loads((folder / "prepared.json").read_text())


def _exported(options, peer_python, folder):
    from relative_attention.data.lines import read_lines

    translator = ra.load_translator(options.model_directory, length_penalty=0.6)
    lines = list(read_lines(options.source))[: options.sentences]
    encoded = translator.source_vocabulary.encode(lines)
    order = sorted(range(len(lines)), key=lambda i: -len(encoded[i]))
    sentences = folder / "sentences.json"
    sentences.write_text(json.dumps([lines[i] for i in order]))
    found = translator.search(lines)
    for beams in options.beams:
        translator.num_beams = beams
        ra.export_saved_model(translator, folder / f"saved_model_{beams}")
    for quantization in ("float32", "int8"):
        ra.export_ctranslate2(translator, folder / quantization, quantization)

    def command(engine, **arguments):
        content = {
            "engine": engine,
            "arguments": arguments,
            "sentences": str(sentences),
        }
        script = pathlib.Path(__file__).with_name("translation_contestant.py")
        return [sys.executable, str(script), json.dumps(content)]

    commands = {
        _OURS: command("package", folder=str(options.model_directory)),
        _SAVED_MODEL: command(
            "saved_model", folder=str(folder / "saved_model")
        ),
    }
    for quantization in ("float32", "int8"):
        commands[f"CTranslate2, {quantization}"] = command(
            "ctranslate2",
            folder=str(folder / quantization),
            num_threads=options.threads,
        )
    if peer_python:
        ids = folder / "ids.json"
        swapped = {1: 2, 2: 1}
        ids.write_text(
            json.dumps(
                [[*(swapped.get(t, t) for t in encoded[i]), 2] for i in order]
            )
        )
        content = {
            "weights": opennmt_tf_peer.write_model(
                translator.model, folder / "opennmt_tf"
            ),
            "sentences": str(ids),
            "length_penalty": 0.6,
        }
        script = pathlib.Path(__file__).with_name("opennmt_tf_translator.py")
        commands[opennmt_tf_peer.NAME] = [
            peer_python,
            "-E",
            str(script),
            json.dumps(content),
        ]
    num_tokens = sum(len(translation.token_ids) for translation in found)
    return {"commands": commands, "mean_tokens": num_tokens / len(found)}


def measure(prepared, options, folder):
    """All rounds; windows by contestant, beams and batch size, and memory."""
    measured = collections.defaultdict(list)
    contestants = {}
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    try:
        for index, (name, command) in enumerate(prepared["commands"].items()):
            log = folder / f"contestant_{index}.log"
            contestants[name] = turns.Contestant(command, environment, log)
        cases = [
            (beams, size)
            for beams in options.beams
            for size in options.batch_sizes
        ]
        names = list(contestants)
        for number in range(options.rounds + 1):
            for beams, size in cases:
                for name in names:
                    report.progress(
                        f"round {number} of {options.rounds}: {name}, beam "
                        f"{beams}, batch {size}"
                    )
                    count = options.single if size == 1 else options.sentences
                    order = {
                        "num_beams": beams,
                        "batch_size": size,
                        "num_sentences": count,
                    }
                    window = contestants[name].take_turn(json.dumps(order))
                    window["speed"] = count / window["seconds"]
                    if number:  # The first makes graphs.
                        measured[name, beams, size].append(window)
            # There and back: a steady drift then favours nobody.
            names.reverse()
        memory = {name: c.finish() for name, c in contestants.items()}
    finally:
        for contestant in contestants.values():
            contestant.kill()
    report.progress()
    return measured, memory


def table(measured, memory, mean_tokens):
    peer = opennmt_tf_peer.NAME
    base = peer if any(name == peer for name, *_ in measured) else _OURS
    rows = []
    for (name, beams, size), windows in measured.items():
        speeds = [window["speed"] for window in windows]
        ratios = [
            window["speed"] / other["speed"]
            for window, other in zip(windows, measured[base, beams, size])
        ]
        speed = statistics.median(speeds)
        rows.append(
            [
                f"beam {beams}, batch {size}: {name}",
                f"{speed:,.1f}",
                f"{speed * mean_tokens:,.0f}",
                report.spread(ratios),
                f"{memory[name] / 1e9:.2f} GB",
            ]
        )
    header = [
        "engine",
        "sentences/s",
        "output tokens/s",
        f"ratio to {base}",
        "peak memory",
    ]
    return report.markdown_table(header, rows)


def same_translations(measured):
    """How many translations of each engine are those of the package."""
    lines = []
    for (name, beams, size), windows in measured.items():
        found = windows[0].get("translations")
        if found is None or size == 1 or name == _OURS:
            continue
        ours = measured[_OURS, beams, size][0]["translations"]
        same = sum(text == other for text, other in zip(found, ours))
        lines.append(
            f"beam {beams}, batch {size}: {same:,} of {len(ours):,} "
            f"translations of {name} are those of {_OURS}."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
