"""What a translator loses as a model of CTranslate2, and which settings fit.

Exports a trained model with `export_ctranslate2` in float32 and int8 and
translates the same sentences with the package and with CTranslate2, greedily
and with a beam of 4. From the root of a checkout, with the package and its
extra `ctranslate2` installed:

    python benchmarks/ctranslate2_quality.py MODEL_DIR \\
        --source test.en --reference test.de

`beam_search` divides a log-probability by `((5 + len) / 6)^alpha`,
CTranslate2 by `len^alpha`, so that an alpha of one is another of the other:
the table has a row for each of several. Both stop at the same length.

Greedy searches should find the same. For each sentence where they do not, a
second table says how much more probable, at the first token that differs, the
package's model finds its own token than CTranslate2's: a near tie, which the
order of a sum decides, has a difference of about 1e-5 or less.

With `CT2_USE_MKL=1` in the environment, CTranslate2 computes as on an Intel
processor on others too, which on an AMD processor with AVX2 and without VNNI
made int8 several times as exact.
"""

import argparse
import collections
import pathlib
import sys
import tempfile

import numpy as np
import report

import relative_attention as ra
from relative_attention.data.lines import read_lines

_NUM_BEAMS = 4
_LENGTH_PENALTY = 0.6
# What int8 is searched with, and float32 beside others.
_NEAREST = 0.4
_PENALTIES = {
    "float32": (0.0, 0.2, 0.3, _NEAREST, 0.45, 0.5, 0.6, 0.8, 1.0),
    "int8": (_NEAREST,),
}


class Engine:
    """CTranslate2 with a translator's vocabularies and limit of length."""

    def __init__(self, translator, folder, quantization):
        import ctranslate2

        ra.export_ctranslate2(translator, folder, quantization)
        self._engine = ctranslate2.Translator(str(folder))
        self._translator = translator
        vocabulary = translator.vocabulary
        pieces = vocabulary.pieces(range(len(vocabulary)))
        self._ids = {piece: number for number, piece in enumerate(pieces)}

    def token_ids(self, sentences, num_beams, length_penalty):
        """Ids of the translation of each sentence, without its end."""
        vocabulary = self._translator.source_vocabulary
        rows = vocabulary.encode(sentences)
        if getattr(vocabulary, "start", False):
            # CTranslate2 adds it itself.
            rows = [row[1:] for row in rows]
        # CTranslate2 knows one limit a call, and each length has another.
        by_length = collections.defaultdict(list)
        for index, row in enumerate(rows):
            by_length[len(row) + 1].append(index)
        result = [None] * len(rows)
        for length, indices in by_length.items():
            limit = length + self._translator.max_extra_length
            found = self._engine.translate_batch(
                [vocabulary.pieces(rows[index]) for index in indices],
                beam_size=num_beams,
                length_penalty=length_penalty,
                min_decoding_length=0,
                max_decoding_length=limit,
                max_input_length=self._translator.max_source_length,
                max_batch_size=32,
            )
            for index, translation in zip(indices, found):
                result[index] = [
                    self._ids[piece] for piece in translation.hypotheses[0]
                ]
        return result

    def translate(self, sentences, num_beams, length_penalty):
        rows = self.token_ids(sentences, num_beams, length_penalty)
        texts = self._translator.vocabulary.decode(rows)
        return [" ".join(text.split("\n")) for text in texts]


def measure(translator, engines, sentences, references):
    """Rows of the table."""
    ours = {
        num_beams: translate(translator, sentences, num_beams)
        for num_beams in (1, _NUM_BEAMS)
    }
    rows = []

    def add(name, num_beams, penalty, texts):
        bleu = ra.corpus_bleu(texts, references).score
        same = sum(map(str.__eq__, texts, ours[num_beams]))
        rows.append([name, num_beams, penalty, f"{bleu:.2f}", f"{same:,}"])

    for num_beams in (1, _NUM_BEAMS):
        penalty = _LENGTH_PENALTY if num_beams > 1 else "-"
        add("this package", num_beams, penalty, ours[num_beams])
        for name, engine in engines.items():
            for penalty in _PENALTIES[name] if num_beams > 1 else [0.0]:
                texts = engine.translate(sentences, num_beams, penalty)
                shown = penalty if num_beams > 1 else "-"
                add(f"CTranslate2, {name}", num_beams, shown, texts)
                report.progress(f"{name}, beam {num_beams}, alpha {shown}")
    report.progress()
    return rows


def translate(translator, sentences, num_beams):
    translator.num_beams = num_beams
    translator.length_penalty = _LENGTH_PENALTY
    return translator.translate(sentences)


def differences(translator, engine, sentences):
    """Rows of the second table: where greedy searches part, and how far."""
    ours = translate(translator, sentences, 1)
    theirs = engine.translate(sentences, 1, 0.0)
    rows = []
    for number, (sentence, one, other) in enumerate(
        zip(sentences, ours, theirs), start=1
    ):
        if one == other:
            continue
        (token_ids,) = engine.token_ids([sentence], 1, 0.0)
        position, difference = first_difference(translator, sentence, token_ids)
        rows.append([f"{number}", position, f"{difference:.2g}", one, other])
    return rows


def first_difference(translator, sentence, token_ids):
    """Where ids leave what the model finds best, and by how much.

    Returns:
        Pair of a position, `"-"` where there is none, and the difference of
        the logits there.
    """
    model = translator.model
    end_id = translator.vocabulary.end_id
    (source,) = translator.source_vocabulary.encode([sentence])
    inputs = {
        "source_token_ids": np.array([[*source, end_id]]),
        "target_token_ids": np.array([[model.start_token_id, *token_ids]]),
    }
    logits = np.asarray(model(inputs))[0]
    for position, token_id in enumerate([*token_ids, end_id]):
        difference = logits[position].max() - logits[position, token_id]
        if difference > 0:
            return position, difference
    return "-", 0.0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", metavar="MODEL_DIR")
    parser.add_argument("--source", required=True, metavar="FILE")
    parser.add_argument("--reference", required=True, metavar="FILE")
    parser.add_argument(
        "--sentences", type=int, metavar="NUMBER", help="the first so many"
    )
    options = parser.parse_args()
    if options.sentences is not None and options.sentences < 1:
        parser.error(
            f"--sentences must be positive. Received: {options.sentences}."
        )
    return options


def main():
    options = parse_arguments()
    try:
        translator = ra.load_translator(options.model)
        sentences, references = (
            list(read_lines(path))[: options.sentences]
            for path in (options.source, options.reference)
        )
        with tempfile.TemporaryDirectory() as folder:
            engines = {
                name: Engine(translator, pathlib.Path(folder, name), name)
                for name in _PENALTIES
            }
            rows = measure(translator, engines, sentences, references)
            parted = differences(translator, engines["float32"], sentences)
    except ra.InputError as error:
        sys.exit(f"error: {error}")
    header = ["search", "beam", "alpha", "BLEU", "same as this package's"]
    print(report.markdown_table(header, rows))
    print(f"\n{len(sentences):,} sentences.")
    if parted:
        header = ["sentence", "token", "logit difference", "ours", "theirs"]
        print(f"\n{report.markdown_table(header, parted)}")


if __name__ == "__main__":
    main()
