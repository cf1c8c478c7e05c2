"""What a corpus of millions of pairs takes, from text to batches.

Makes up a corpus and takes it through what `relative-attention train` does
before its first step: reads both texts, learns a joint vocabulary, encodes,
and, once that is cached, starts again and feeds batches. From the root of a
checkout, with the package installed:

    python benchmarks/large_corpus.py --pairs 500000 5000000

Every phase is a process of its own. Its memory is the peak of what only the
process has (`RssAnon`; Linux): the pages of mapped files are the system's,
which takes them back when it needs them. With several sizes one sees what
grows.

The text is generated, from a seed: words are made of syllables and drawn by
Zipf's law, lengths are log-normal with a mean of 25 words, and a target is
about as long as its source.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import threading
import time

import numpy as np
import report

import relative_attention as ra

_SIDES = ("source", "target")
_NUM_WORDS = 400_000
_CHUNK_PAIRS = 50_000
_MAX_LENGTH = 256
# Seconds between two looks at the memory.
_TICK = 0.02


# === The corpus ===


def write_corpus(folder, num_pairs, seed):
    """Write `source` and `target` to a folder; a `ParallelCorpus`."""
    rng = np.random.default_rng(seed)
    lexicons = [make_lexicon(rng) for _ in _SIDES]
    # A few words are half of a text.
    odds = 1 / (np.arange(_NUM_WORDS) + 2.7)
    cumulative = np.cumsum(odds) / odds.sum()
    paths = [str(folder / side) for side in _SIDES]
    with open(paths[0], "wb") as source, open(paths[1], "wb") as target:
        for start in range(0, num_pairs, _CHUNK_PAIRS):
            size = min(_CHUNK_PAIRS, num_pairs - start)
            lengths = rng.lognormal(3.03, 0.62, size)
            others = lengths * rng.lognormal(-0.03, 0.18, size)
            for file, words, number in (
                (source, lexicons[0], lengths),
                (target, lexicons[1], others),
            ):
                number = np.clip(number, 1, 250).astype(int)
                drawn = np.searchsorted(cumulative, rng.random(number.sum()))
                file.write(lines_of(words, drawn, number))
            report.progress(f"writing: {start + size:,} pairs")
    report.progress()
    return ra.ParallelCorpus(*paths)


def make_lexicon(rng):
    """Made-up words, short ones first, as bytes that end with a blank."""
    consonants, vowels = list("bcdfghjklmnprstvwz"), list("aeiouäöéè")
    syllables = [
        "".join(rng.choice(letters) for letters in pattern)
        for pattern in 300 * [(consonants, vowels), (vowels, consonants)]
        + 600 * [(consonants, vowels, consonants)]
    ]
    syllables = np.array(sorted(set(syllables)))
    words = np.full(_NUM_WORDS, "", object)
    counts = 1 + (np.log10(np.arange(_NUM_WORDS) + 1) / 1.5).astype(int)
    odds = 1 / (np.arange(len(syllables)) + 5)
    for number in range(counts.max()):
        more = rng.choice(syllables, _NUM_WORDS, p=odds / odds.sum())
        words = np.where(counts > number, words + more.astype(object), words)
    return np.array([f"{word} ".encode() for word in words], object)


def lines_of(words, drawn, lengths):
    """The drawn words as lines of these lengths, bytes."""
    text = words[drawn]
    ends = np.cumsum(lengths) - 1
    text[ends] = [word[:-1] + b".\n" for word in text[ends]]
    return b"".join(text.tolist())


# === Phases ===


class PeakMemory:
    """The most anonymous memory of this process while the context is open."""

    def __enter__(self):
        self.peak = anonymous_memory()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.wait(_TICK):
            self.peak = max(self.peak, anonymous_memory())

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, anonymous_memory())


def anonymous_memory():
    """Bytes that belong to this process alone."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status does not say RssAnon")


def read_texts(corpus, folder, options):
    corpus.check()


def learn_vocabulary(corpus, folder, options):
    lines = (line for pair in corpus for line in pair)
    vocabulary = ra.Vocabulary.train(lines, options.vocabulary_size)
    vocabulary.save(folder / "vocabulary.model")


def encode(corpus, folder, options):
    token_corpus(corpus, folder)


def token_corpus(corpus, folder):
    vocabulary = ra.Vocabulary.load(folder / "vocabulary.model")
    return ra.TokenCorpus.prepare(
        corpus, vocabulary, vocabulary, _MAX_LENGTH, folder / "tokens"
    )


def start_again(corpus, folder, options):
    # As `train` asks before it reads the texts.
    if not ra.TokenCorpus.is_made_of(corpus, folder / "tokens"):
        raise ra.InputError("The corpus has changed since it was encoded.")
    tokens = token_corpus(corpus, folder)
    batches = ra.TokenBatches(tokens, options.batch_tokens)
    next(iter(batches.train_dataset()))
    return {"batches_an_epoch": len(batches)}


def feed(corpus, folder, options):
    tokens = token_corpus(corpus, folder)
    batches = ra.TokenBatches(tokens, options.batch_tokens)
    # From the middle of an epoch on, as after a resume.
    dataset = batches.train_dataset(first_step=len(batches) // 2)
    iterator = dataset.as_numpy_iterator()
    num_tokens = num_positions = 0
    next(iterator)
    before = anonymous_memory()
    start = time.perf_counter()
    for _ in range(options.batches):
        inputs, labels = next(iterator)
        for array in (inputs["source_token_ids"], labels):
            num_tokens += np.count_nonzero(array)
            num_positions += array.size
    seconds = time.perf_counter() - start
    return {
        "batches_per_second": options.batches / seconds,
        "tokens_per_second": int(num_tokens) / seconds,
        "share_of_padding": 1 - num_tokens / num_positions,
        "grown_bytes": anonymous_memory() - before,
    }


_PHASES = {
    "read both texts": read_texts,
    "learn a vocabulary": learn_vocabulary,
    "encode": encode,
    "first batch, once cached": start_again,
    "feed": feed,
}
# These import TensorFlow, which takes memory and time of its own.
_WITH_TENSORFLOW = (start_again, feed)


def run_phase(name, corpus, folder, options):
    """Run a phase in this process; a dict of what it took."""
    phase = _PHASES[name]
    if phase in _WITH_TENSORFLOW:
        from relative_attention.quiet_tensorflow import load_tensorflow_quietly

        load_tensorflow_quietly()
    before = anonymous_memory()
    start = time.perf_counter()
    with PeakMemory() as memory:
        found = phase(corpus, folder, options) or {}
    return {
        "seconds": time.perf_counter() - start,
        "peak_bytes": memory.peak,
        "bytes_before": before,
        **found,
    }


def measure(num_pairs, root, options):
    """All phases of one size; a dict of dicts by their names."""
    folder = pathlib.Path(root, str(num_pairs))
    folder.mkdir()
    report.progress("writing")
    corpus = write_corpus(folder, num_pairs, options.seed)
    phases = {}
    for name in _PHASES:
        report.progress(f"{num_pairs:,} pairs: {name}")
        start = time.perf_counter()
        with concurrent.futures.ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn")
        ) as pool:
            task = pool.submit(run_phase, name, corpus, folder, options)
            phases[name] = task.result()
        phases[name]["seconds_of_process"] = time.perf_counter() - start
    report.progress()
    sizes = {
        "text": sum(os.path.getsize(folder / side) for side in _SIDES),
        "cache": sum(
            file.stat().st_size for file in (folder / "tokens").iterdir()
        ),
    }
    return {"pairs": num_pairs, "bytes": sizes, "phases": phases}


# === Report ===


def table(runs):
    """What each phase of each size took, Markdown."""
    rows = []
    for run in runs:
        for name, phase in run["phases"].items():
            rows.append(
                [
                    name,
                    f"{run['pairs']:,}",
                    f"{phase['seconds']:,.1f}",
                    f"{phase['seconds_of_process']:,.1f}",
                    f"{phase['peak_bytes'] / 1e6:,.0f}",
                    f"{phase['bytes_before'] / 1e6:,.0f}",
                    note(name, run),
                ]
            )
    header = [
        "phase",
        "pairs",
        "seconds",
        "with start of process",
        "peak MB",
        "MB before",
        "",
    ]
    return report.markdown_table(header, rows)


def note(name, run):
    phase = run["phases"][name]
    if name == "read both texts":
        return f"{run['bytes']['text'] / 1e9:,.2f} GB of text"
    if name == "encode":
        return f"{run['bytes']['cache'] / 1e9:,.2f} GB of ids on disk"
    if "batches_an_epoch" in phase:
        return f"{phase['batches_an_epoch']:,} batches an epoch"
    if "batches_per_second" in phase:
        return (
            f"{phase['batches_per_second']:,.0f} batches/s, "
            f"{phase['tokens_per_second']:,.0f} tokens/s, "
            f"{phase['share_of_padding']:.1%} padding, "
            f"{phase['grown_bytes'] / 1e6:+,.1f} MB while feeding"
        )
    return ""


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python benchmarks/large_corpus.py --pairs 200000",
    )
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[5_000_000], metavar="N"
    )
    parser.add_argument("--vocabulary-size", type=int, default=32_768)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument(
        "--batches", type=int, default=3000, help="to feed (default: 3000)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--directory",
        metavar="DIR",
        help="where to put corpora and caches for the time being (default: "
        "the system's folder for temporary files)",
    )
    parser.add_argument(
        "--output", metavar="FILE.json", help="all figures, for a machine"
    )
    options = parser.parse_args()
    for name in ("vocabulary_size", "batch_tokens", "batches"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be positive.")
    if min(options.pairs) < 1:
        parser.error(f"--pairs must be positive. Received: {options.pairs}.")
    return options


def main():
    options = parse_arguments()
    try:
        with tempfile.TemporaryDirectory(dir=options.directory) as root:
            runs = [measure(size, root, options) for size in options.pairs]
    except ra.InputError as error:
        sys.exit(f"error: {error}")
    from relative_attention.quiet_tensorflow import load_tensorflow_quietly

    load_tensorflow_quietly()
    # Not before TensorFlow has been loaded, quietly.
    from relative_attention.runs.provenance import provenance
    from relative_attention.runs.provenance import provenance_sentence

    description = provenance()
    print(
        f"{table(runs)}\n\n{options.vocabulary_size:,} pieces, "
        f"{options.batch_tokens:,} tokens a batch. Memory is anonymous; "
        "before the last two phases that of TensorFlow.\n"
        f"{provenance_sentence(description)}"
    )
    if options.output:
        content = {
            "settings": vars(options),
            "runs": runs,
            "provenance": description,
        }
        pathlib.Path(options.output).write_text(
            json.dumps(content, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
