"""Whether the time of a translation grows linearly with its length.

Makes a trained model write translations of exactly 16, 64, 256 and 1,024
tokens, and prints output tokens a second; were a step dearer the later it
comes, they would fall:

    python benchmarks/output_length.py MODEL_DIRECTORY
"""

import argparse
import statistics
import time

import numpy as np
import report

import relative_attention as ra
from relative_attention.runs.provenance import provenance
from relative_attention.runs.provenance import provenance_sentence

_LENGTHS = (16, 64, 256, 1024)
_SOURCE_LENGTH = 16


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model_directory")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    model = ra.load_translator(options.model_directory).model
    rng = np.random.default_rng(0)
    source = rng.integers(
        3, model.config.vocabulary_size, (options.batch_size, _SOURCE_LENGTH)
    )
    source[:, -1] = 1
    cases = [(beams, length) for beams in (1, 4) for length in _LENGTHS]
    speeds = {case: [] for case in cases}
    for number in range(options.rounds + 1):
        # In turns, as a minute of a shared machine is not like the next.
        for case in cases:
            report.progress(f"round {number}: {case}")
            speed = _tokens_per_second(model, source, *case)
            if number:  # The first makes the graph.
                speeds[case].append(speed)
    report.progress()
    rows = []
    for beams, length in cases:
        first = statistics.median(speeds[beams, _LENGTHS[0]])
        values = speeds[beams, length]
        rows.append(
            [
                f"beam {beams}, {length:,} tokens",
                report.spread(values, 0),
                f"{statistics.median(values) / first:.2f}",
            ]
        )
    header = ["translation", "output tokens/s", "ratio to 16 tokens"]
    print(report.markdown_table(header, rows))
    print(
        f"\nBatches of {options.batch_size} sentences of {_SOURCE_LENGTH} "
        f"tokens, {options.rounds} rounds, median (least to greatest).\n"
        + provenance_sentence(provenance())
    )


def _tokens_per_second(model, source, num_beams, length):
    start = time.perf_counter()
    results = ra.beam_search(
        model,
        source,
        num_beams=num_beams,
        # No translation ends before, and none is longer.
        min_length=length + 1,
        max_length=length,
        max_extra_length=length,
    )
    seconds = time.perf_counter() - start
    return np.prod(np.shape(results["token_ids"])) / seconds


if __name__ == "__main__":
    main()
