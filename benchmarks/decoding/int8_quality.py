"""What a model loses, and saves, in int8.

The program translates the same sentences with a trained model as it is, with
its weights in int8 and the inputs of its layers as they are, and with both in
int8, as `quantize("int8")` has it. From the root of a checkout, with the
package installed:

    python -m benchmarks.decoding.int8_quality MODEL \\
        --source test.en --reference test.de

The table has BLEU, how many translations are those of float32, and the size of
the weights in memory.
"""

import argparse

import keras

import relative_attention as ra
from benchmarks.harness.command import add_text_arguments
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import read_texts
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

_MODES = ("float32", "int8 weights", "int8 weights and inputs")


def measure(options: argparse.Namespace) -> list[Row]:
    """Translates with the model and with what it is in int8."""
    load_tensorflow_quietly()
    sentences, references = read_texts(options)
    rows: list[Row] = []
    plain: list[str] = []
    for mode in _MODES:
        show_progress(mode)
        translator = ra.load_translator(options.model)
        _quantize(translator.model, mode)
        texts = [one.text for one in translator.search(sentences)]
        plain = plain or texts
        rows.append(
            {
                "mode": mode,
                "bleu": ra.corpus_bleu(texts, references).score,
                "same_as_float32": sum(map(str.__eq__, texts, plain)),
                "sentences": len(sentences),
                "bytes": sum(
                    keras.ops.convert_to_numpy(weight).nbytes
                    for weight in translator.model.weights
                ),
            }
        )
    show_progress()
    return rows


def _quantize(model: "ra.Transformer", mode: str) -> None:
    """Quantizes a model in the way that a row of the table names."""
    if mode == "int8 weights":
        model.quantize(
            config=keras.quantizers.Int8QuantizationConfig(
                activation_quantizer=None
            )
        )
    elif mode != "float32":
        model.quantize("int8")


def describe(result: Result) -> str:
    """Returns the table."""
    cells = [
        [
            row["mode"],
            f"{row['bleu']:.2f}",
            f"{row['same_as_float32']:,} of {row['sentences']:,}",
            f"{row['bytes'] / 1e6:.2f} MB",
        ]
        for row in result.rows
    ]
    header = ["", "BLEU", "same translations", "weights"]
    return markdown_table(header, cells)


main = benchmark(
    "decoding.int8_quality",
    __doc__,
    "runs/mine --source test.en --reference test.de",
    add_text_arguments,
    measure,
    describe,
    precision=lambda options: "float32, int8",
)

if __name__ == "__main__":
    main()
