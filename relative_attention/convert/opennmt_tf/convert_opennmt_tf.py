"""Converts an OpenNMT-tf checkpoint to a model directory."""

from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relative_attention.atomic_files import AnyPath
from relative_attention.check_is_free import check_is_free
from relative_attention.convert.converted_directory import save_converted
from relative_attention.convert.opennmt_tf.load_opennmt_tf import (
    load_opennmt_tf,
)
from relative_attention.data import TokenVocabulary
from relative_attention.decoding.decoding_section import DecodingSection
from relative_attention.errors import InputError
from relative_attention.models import TransformerConfig

# OpenNMT-tf's auto_config: a beam of 4 without length penalty. Its longest
# translation is 250 tokens whatever the source.
_DECODING = DecodingSection(
    num_beams=4, length_penalty=0.0, max_extra_length=100
)


def convert_opennmt_tf(
    checkpoint_path: AnyPath,
    output: AnyPath,
    source_vocabulary: Path | str,
    target_vocabulary: Path | str,
    tokenizer: Path | str | None = None,
    source_tokenizer: Path | str | None = None,
    source_start: bool = False,
    source_end: bool = False,
    num_heads: int | None = None,
    position_encoding: str | None = "auto",
    report: Callable[[str], Any] | None = None,
) -> None:
    """Converts a checkpoint to a folder that `load_translator` reads.

    The folder translates as OpenNMT-tf does with its automatic configuration
    (beam 4, no length penalty), but for the length of translations: 100
    tokens longer than the source at most. `conversion.txt` in it names each
    variable of the checkpoint and what became of it.

    Args:
        checkpoint_path, num_heads, position_encoding: see `load_opennmt_tf`.
        output: path of the folder to make. It is whole or not there.
        source_vocabulary: path of the vocabulary file of the source.
        target_vocabulary: path of that of the target; the same where they
            share one.
        tokenizer: path of the SentencePiece model of both languages. Defaults
            to `None`: text comes, and goes, as tokens with blanks between.
        source_tokenizer: path of the source's, where it has its own. Defaults
            to `tokenizer`.
        source_start, source_end: bool. What `source_sequence_controls` of
            OpenNMT-tf's data configuration says. Default to `False`, as
            there.
        report: function. It is called with each line that says what became
            of the checkpoint. Defaults to `None`.

    Raises:
        InputError: if something given is missing, damaged or contradictory, a
            vocabulary has not the size of the embedding, or `output` holds
            something; nothing is written then.
    """
    check_is_free(output)
    vocabularies = {
        "source_vocabulary.tokens": TokenVocabulary.from_opennmt_tf(
            source_vocabulary,
            tokenizer=source_tokenizer or tokenizer,
            start=source_start,
            end=source_end,
        ),
        "target_vocabulary.tokens": TokenVocabulary.from_opennmt_tf(
            target_vocabulary, tokenizer=tokenizer
        ),
    }
    lines: list[str] = []
    model = load_opennmt_tf(
        checkpoint_path, num_heads, position_encoding, report=lines.append
    )
    paths = (source_vocabulary, target_vocabulary)
    _check_sizes(vocabularies, paths, model.config)
    save_converted(output, model, vocabularies, _DECODING, lines)
    if report is not None:
        for line in lines:
            report(line)


def _check_sizes(
    vocabularies: Mapping[str, TokenVocabulary],
    paths: tuple[Path | str, Path | str],
    config: TransformerConfig,
) -> None:
    """Refuses a vocabulary that has not a token for each embedded row."""
    target_size = config.vocabulary_size
    source_size = config.source_vocabulary_size or target_size
    for (name, vocabulary), path, size in zip(
        vocabularies.items(), paths, (source_size, target_size)
    ):
        if len(vocabulary) != size:
            raise InputError(
                f"{path}, the {name.split('_')[0]} vocabulary, has "
                f"{len(vocabulary)} tokens (with <unk>), the embedding has "
                f"{size} rows: they do not belong together."
            )
