"""Converts a tensor2tensor checkpoint to a model directory."""

from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relative_attention.atomic_files import AnyPath
from relative_attention.check_is_free import check_is_free
from relative_attention.convert.converted_directory import save_converted
from relative_attention.convert.tensor2tensor.load_tensor2tensor import (
    load_tensor2tensor,
)
from relative_attention.data import SubwordVocabulary
from relative_attention.decoding.decoding_section import DecodingSection
from relative_attention.errors import InputError
from relative_attention.models import TransformerConfig

# tensor2tensor's decode_hparams: beam_size, alpha, extra_length.
_DECODING = DecodingSection(
    num_beams=4, length_penalty=0.6, max_extra_length=100
)


def convert_tensor2tensor(
    checkpoint_path: AnyPath,
    hparams: AnyPath | Mapping[str, Any],
    output: AnyPath,
    vocabulary: Path | str | None = None,
    source_vocabulary: Path | str | None = None,
    target_space_id: int = 0,
    report: Callable[[str], Any] | None = None,
) -> None:
    """Converts a checkpoint to a folder that `load_translator` reads.

    With the subword vocabulary the folder translates strings, by default as
    tensor2tensor's decoder does (beam 4, alpha 0.6, 100 tokens longer than
    the source). `conversion.txt` in it names each variable of the checkpoint
    and what became of it.

    Args:
        checkpoint_path, hparams, target_space_id: see `load_tensor2tensor`.
        output: path of the folder to make. It is whole or not there.
        vocabulary: path of the `*.subwords` file of the target, and of the
            source unless `source_vocabulary` is given. Defaults to `None`,
            a folder that cannot translate strings.
        source_vocabulary: path of the source's. Defaults to `vocabulary`.
        report: function. It is called with each line that says what became
            of the checkpoint. Defaults to `None`.

    Raises:
        InputError: if something given is missing, damaged or contradictory, a
            vocabulary has not the size of the embedding, or `output` holds
            something; nothing is written then.
    """
    check_is_free(output)
    vocabularies = _load_vocabularies(vocabulary, source_vocabulary)
    lines: list[str] = []
    model = load_tensor2tensor(
        checkpoint_path, hparams, target_space_id, report=lines.append
    )
    _check_sizes(vocabularies, model.config)
    files = {f"{name}.subwords": v for name, v in vocabularies.items()}
    save_converted(output, model, files, _DECODING, lines)
    if report is not None:
        for line in lines:
            report(line)


def _load_vocabularies(
    target: Path | str | None, source: Path | str | None
) -> dict[str, SubwordVocabulary]:
    """Returns the vocabularies to store, by their names in the folder."""
    if source is not None and target is None:
        raise InputError(
            "A source vocabulary was given without `--vocabulary`, that of "
            "the target."
        )
    if target is None:
        return {}
    if source is None:
        return {"vocabulary": SubwordVocabulary.load(target)}
    return {
        "source_vocabulary": SubwordVocabulary.load(source),
        "target_vocabulary": SubwordVocabulary.load(target),
    }


def _check_sizes(
    vocabularies: Mapping[str, SubwordVocabulary], config: TransformerConfig
) -> None:
    """Refuses a vocabulary that has not a subword for each embedded row."""
    source_size = config.source_vocabulary_size or config.vocabulary_size
    for name, vocabulary in vocabularies.items():
        sizes = {
            "vocabulary": {source_size, config.vocabulary_size},
            "source_vocabulary": {source_size},
            "target_vocabulary": {config.vocabulary_size},
        }[name]
        if sizes != {len(vocabulary)}:
            raise InputError(
                f"The {name.replace('_', ' ')} has {len(vocabulary)} "
                "subwords, the embeddings have "
                f"{' and '.join(map(str, sorted(sizes)))} rows: they do not "
                "belong together. (A vocabulary that tensor2tensor's "
                "`vocab_divisor` padded is not supported.)"
            )
