"""Whether the time of a translation grows linearly with its length.

The program makes a trained model write translations of exactly 16, 64, 256
and 1,024 tokens, and prints output tokens a second; were a step dearer the
later it comes, they would fall. From the root of a checkout, with the package
installed:

    python -m benchmarks.decoding.output_length MODEL
"""

import argparse
import time

import numpy as np

import relative_attention as ra
from benchmarks.harness.command import add_model
from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import round_robin
from benchmarks.harness.results import Row
from benchmarks.speed_tables import output_length_table
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

_SOURCE_LENGTH = 16
# Ids below are those of padding, end of sentence and unknown pieces.
_FIRST_PIECE = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_model(parser)
    add_numbers(parser, lengths=[16, 64, 256, 1024], beams=[1, 4])
    add_numbers(parser, batch_size=8, rounds=5)


def measure(options: argparse.Namespace) -> list[Row]:
    """Measures all lengths and numbers of beams, in turns."""
    load_tensorflow_quietly()
    model = ra.load_translator(options.model).model
    size = model.config.source_vocabulary_size or model.config.vocabulary_size
    source = np.random.default_rng(0).integers(
        _FIRST_PIECE, size, (options.batch_size, _SOURCE_LENGTH)
    )
    source[:, -1] = 1
    cases = [
        (beams, length) for beams in options.beams for length in options.lengths
    ]
    speeds = round_robin(
        cases,
        lambda case: _tokens_per_second(model, source, *case),
        options.rounds,
    )
    return [
        {
            "num_beams": beams,
            "output_tokens": length,
            "tokens_per_second": speeds[beams, length],
        }
        for beams, length in cases
    ]


def _tokens_per_second(
    model: "ra.Transformer", source: np.ndarray, num_beams: int, length: int
) -> float:
    """Returns how fast translations of just this length are written."""
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
    return float(np.prod(np.shape(results["token_ids"])) / seconds)


main = benchmark(
    "decoding.output_length",
    __doc__,
    "runs/mine",
    add_arguments,
    measure,
    output_length_table,
)

if __name__ == "__main__":
    main()
