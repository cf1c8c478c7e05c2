"""Writes the model directory of a converted checkpoint."""

from collections.abc import Iterable
from collections.abc import Mapping

from relative_attention.atomic_files import AnyPath
from relative_attention.atomic_files import atomic_directory
from relative_attention.atomic_files import atomic_file
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.decoding.decoding_section import DecodingSection
from relative_attention.models import Transformer
from relative_attention.models.weights import save_weights
from relative_attention.saving.model_config import save_config


def save_converted(
    output: AnyPath,
    model: Transformer,
    vocabularies: Mapping[str, AnyVocabulary],
    decoding: DecodingSection,
    lines: Iterable[str],
) -> None:
    """Writes a folder that `load_translator` reads, whole or not at all.

    Args:
        output: path of the folder.
        model: `Transformer`.
        vocabularies: dict of file name -> vocabulary.
        decoding: `DecodingSection`.
        lines: strings that say what became of each variable. They are written
            to `conversion.txt` in the folder.
    """
    with atomic_directory(output) as directory:
        save_config(model.config, decoding, directory)
        save_weights(model.weights, directory / "model.safetensors")
        for name, vocabulary in vocabularies.items():
            vocabulary.save(directory / name)
        with atomic_file(directory / "conversion.txt", "w") as file:
            file.writelines(f"{line}\n" for line in lines)
