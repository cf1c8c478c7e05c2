"""Translates a text with Apache Beam and an exported SavedModel.

    python translate_with_beam.py --model exported/mine/1 \
        --input numbered.en --output numbered.de

Each line of the input is a number, a tab and a sentence, and each of the output
the same number, a tab and the translation, in no order: a PCollection has none.
What else is on the command line goes to Beam, such as `--runner`.

It needs `apache-beam`, `tensorflow` and `tensorflow-text`, and nothing else.
"""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler
from apache_beam.ml.inference.base import RunInference
from apache_beam.options.pipeline_options import PipelineOptions


class SavedTranslator:
    """Translates lists of sentences with a SavedModel.

    Args:
        model: path of the SavedModel.
    """

    def __init__(self, model: str) -> None:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (The graph has its operations.)

        self._model = tf.saved_model.load(model)

    def __call__(self, sentences: list[str]) -> list[str]:
        """Returns the translation of each sentence."""
        import tensorflow as tf

        translate = self._model.signatures["serving_default"]
        results = translate(sentences=tf.constant(sentences))
        return [text.decode() for text in results["translations"].numpy()]


# Number and sentence, or number and translation, of a line.
Line = tuple[int, str]


class TranslationModelHandler(ModelHandler[Line, Line, SavedTranslator]):
    """Tells Beam how to load the SavedModel, and what to ask of it.

    Beam's own `TFModelHandlerTensor` loads by `tf.keras.models.load_model`,
    which in Keras 3 reads no SavedModel.

    Args:
        model: path of the SavedModel, one that every worker sees.
        batch_size: int. The most sentences translated at a time.
    """

    def __init__(self, model: str, batch_size: int) -> None:
        super().__init__(
            max_batch_size=batch_size,
            # Sentences of about a length go together: less padding.
            batch_length_fn=sentence_length,
            batch_bucket_boundaries=[25, 50, 75, 100, 150, 200, 300],
            # The processes of a machine share one model.
            large_model=True,
        )
        self._model = model

    def load_model(self) -> SavedTranslator:
        """Loads the SavedModel on a worker."""
        return SavedTranslator(self._model)

    def run_inference(
        self,
        batch: Sequence[Line],
        model: SavedTranslator,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[Line]:
        """Translates a batch of sentences, each of which keeps its number."""
        numbers, sentences = zip(*batch)
        return list(zip(numbers, model(list(sentences))))


def sentence_length(line: Line) -> int:
    """Returns the length of the sentence of a line."""
    return len(line[1])


def numbered(line: str) -> Line:
    """Takes a line of the input apart."""
    number, sentence = line.split("\t", 1)
    return int(number), sentence


def main() -> None:
    """Runs the pipeline."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--batch-size", type=int, default=64)
    options, of_beam = parser.parse_known_args()
    handler = TranslationModelHandler(options.model, options.batch_size)
    with beam.Pipeline(options=PipelineOptions(of_beam)) as pipeline:
        (
            pipeline
            | beam.io.ReadFromText(options.input)
            | beam.Map(numbered)
            | RunInference(handler)
            | beam.MapTuple(lambda number, text: f"{number}\t{text}")
            # In one file; without the template, in as many as Beam has parts.
            | beam.io.WriteToText(options.output, shard_name_template="")
        )


if __name__ == "__main__":
    main()
