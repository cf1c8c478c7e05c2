"""What the products of a decoding step gain by the way they are made.

TensorFlow multiplies few rows by a large matrix slowly on CPUs. The logits of
a decoding step are therefore products with a transposed copy of the matrix,
made once a search (`TokenEmbedding.transposed_matrix`), and `step_product` lets
each hypothesis of a sentence attend by itself; `step_scores` is its softmax.
The program times them against the usual operations, in turns, and prints by how
much they are faster. From the root of a checkout, with the package installed:

    python -m benchmarks.decoding.step_products
"""

import argparse
import functools
from collections.abc import Callable
from collections.abc import Sequence

import numpy as np

import relative_attention as ra
from benchmarks.harness.call_times import paired_times
from benchmarks.harness.command import make_parser
from benchmarks.harness.command import positive_float
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import run_benchmark
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table
from relative_attention.quiet_tensorflow import load_tensorflow_quietly
from relative_attention.tensor_type import Tensor

Product = Callable[..., Tensor]


def parse_arguments(
    arguments: Sequence[str] | None,
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Returns the parser and the options that it read."""
    parser = make_parser(
        "decoding.step_products", __doc__, "--rows 32 --keys 128"
    )
    add = parser.add_argument
    rows, keys = [1, 4, 32, 128, 512, 1024], [16, 64, 128, 256, 512, 1024]
    add("--rows", type=positive_int, nargs="+", default=rows)
    add("--vocabulary-size", type=positive_int, default=8000)
    add("--keys", type=positive_int, nargs="+", default=keys)
    add("--batch-size", type=positive_int, default=32)
    add("--beams", type=positive_int, default=4)
    add("--num-heads", type=positive_int, default=8)
    add("--key-dim", type=positive_int, default=64)
    add("--rounds", type=positive_int, default=9)
    add("--seconds", type=positive_float, default=0.1)
    return parser, parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> list[Row]:
    """Times the logits of tokens and the products of attention.

    Args:
        options: The options of the command.

    Returns:
        A list of a row for each product and size.
    """
    load_tensorflow_quietly()
    return _measure_token_logits(options) + _measure_attention(options)


def _measure_token_logits(options: argparse.Namespace) -> list[Row]:
    """Returns a row for each number of hypotheses at a step."""
    hidden_dim = options.num_heads * options.key_dim
    embedding = ra.TokenEmbedding(options.vocabulary_size, hidden_dim)
    embedding.build()
    matrix = embedding.transposed_matrix()
    rows = []
    for count in options.rows:
        hidden = [_random_tensor(count, hidden_dim)]
        of_a_step = functools.partial(
            embedding.logits, transposed_matrix=matrix
        )
        title = f"logits of {count:,} rows"
        rows.append(
            _compare(title, embedding.logits, of_a_step, hidden, options)
        )
    return rows


def _measure_attention(options: argparse.Namespace) -> list[Row]:
    """Returns three rows for each number of keys: of equations 4, 2 and 3."""
    from relative_attention.ops.attention import attention_context
    from relative_attention.ops.attention import attention_logits
    from relative_attention.ops.attention import masked_softmax
    from relative_attention.ops.step_attention import step_product
    from relative_attention.ops.step_attention import step_scores

    step_logits = functools.partial(step_product, transpose=True)
    sizes = (options.batch_size, options.num_heads, options.beams)
    rows = []
    for count in options.keys:
        query = _random_tensor(*sizes, options.key_dim)
        keys = _random_tensor(*sizes[:2], count, options.key_dim)
        scores = _random_tensor(*sizes, count)
        # In a step the hypotheses stand before the heads.
        for name, usual, of_a_step, x, *others in (
            ("logits", attention_logits, step_logits, query, keys),
            ("scores", masked_softmax, step_scores, scores),
            ("context", attention_context, step_product, scores, keys),
        ):
            operands = [x, *others]
            title = f"attention {name}, {count:,} keys"
            swapped = [_swapped(x), *others]
            rows.append(
                _compare(title, usual, of_a_step, operands, options, swapped)
            )
    return rows


def _swapped(x: Tensor) -> Tensor:
    """Returns a tensor with heads and hypotheses in each other's place."""
    import tensorflow as tf

    return tf.transpose(x, (0, 2, 1, 3))


def _random_tensor(*shape: int) -> Tensor:
    """Returns a tensor of normal numbers, the same for the same shape."""
    import tensorflow as tf

    return tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)


def _compare(
    name: str,
    usual: Product,
    of_a_step: Product,
    operands: Sequence[Tensor],
    options: argparse.Namespace,
    operands_of_a_step: Sequence[Tensor] | None = None,
) -> Row:
    """Times a product made both ways, of the same numbers."""
    import tensorflow as tf

    def compile_call(
        product: Product, operands: Sequence[Tensor]
    ) -> Callable[[], Tensor]:
        return functools.partial(
            tf.function(product, autograph=False), *operands
        )

    times = paired_times(
        {
            "usual": compile_call(usual, operands),
            "of_a_step": compile_call(
                of_a_step, operands_of_a_step or operands
            ),
        },
        options.rounds,
        options.seconds,
        f"{name}, ",
    )
    return {
        "product": name,
        "usual_ms": median(times["usual"]),
        "of_a_step_ms": median(times["of_a_step"]),
        "times_as_fast": ratios(times["usual"], times["of_a_step"]),
    }


def describe(result: Result) -> str:
    """Returns the table of all rows, and how they were measured."""
    cells = [
        [
            row["product"],
            f"{row['usual_ms']:.2f} ms",
            f"{row['of_a_step_ms']:.2f} ms",
            spread(row["times_as_fast"]),
        ]
        for row in result.rows
    ]
    header = ["product", "usual", "of a step", "times as fast"]
    options = result.options
    return (
        f"{markdown_table(header, cells)}\n\n"
        f"Hidden {options['num_heads'] * options['key_dim']}, "
        f"{options['vocabulary_size']:,} tokens; attention of "
        f"{options['batch_size']} sentences, {options['num_heads']} heads, "
        f"{options['beams']} hypotheses; {options['rounds']} rounds, median "
        "(least to greatest)."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    parser, options = parse_arguments(arguments)
    run_benchmark(parser, options, arguments, measure, describe)


if __name__ == "__main__":
    main()
