"""Sends a task to a hub, with a card that says what it is."""

import pathlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import keras_hub
import numpy as np

from relative_attention.errors import InputError
from relative_attention.hub.preset_source import reason
from relative_attention.models.weights import weight_name
from relative_attention.saving import load_translator
from relative_attention.saving.hub_card import hub_card
from relative_attention.zoo import recipe_summary

_CARD = "README.md"
_LICENSE = "LICENSE.md"


def upload(
    task: Any,
    handle: str,
    origin: pathlib.Path | None,
    languages: Sequence[str] | None,
    license_name: str | None,
) -> None:
    """Uploads a preset of a task, see `TranslationLM.upload_preset`.

    Args:
        task: `TranslationLM`.
        handle: string, `hf://...` or `kaggle://...`.
        origin: path of the model folder that the task was made of, or `None`.
        languages, license_name: as of `upload_preset`.

    Raises:
        InputError: as of `upload_preset`.
    """
    # The card says how to load it, for which Hugging Face wants the user, too.
    if not re.fullmatch(r"hf://[^/]+/.+|kaggle://.+", handle):
        raise InputError(
            "`handle` must be hf://user/name or kaggle://user/model/keras/"
            f"variant. Received: handle={handle!r}. A folder is filled by "
            "`save_to_preset`."
        )
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        task.save_to_preset(folder)
        if origin is not None:
            if languages is None:
                _, languages = recipe_summary(origin)
            if license_name is None and (origin / _LICENSE).is_file():
                license_name = "other"
                shutil.copy(origin / _LICENSE, folder)
        # Of weights that were trained on, other scores and another text are
        # true.
        described = None
        if origin is not None and _is_unchanged(task, origin):
            described = origin
            _copy_linked(origin, folder)
        card = hub_card(described, handle, languages or (), license_name)
        (folder / _CARD).write_text(card, "utf-8")
        try:
            if handle.startswith("hf://"):
                _to_hugging_face(handle, folder)
            else:
                keras_hub.upload_preset(handle, str(folder))
        # Each hub, and each version of it, has the errors of another library.
        except Exception as error:
            raise InputError(
                f"{handle} could not be uploaded: {reason(error)}"
            ) from error


def _to_hugging_face(handle: str, folder: pathlib.Path) -> None:
    """Uploads a folder in one commit.

    `keras_hub.upload_preset` would write a card of its own over ours.
    """
    import huggingface_hub

    repository = huggingface_hub.create_repo(
        handle.removeprefix("hf://"), exist_ok=True
    ).repo_id
    # A card that is there has been written, or edited, by somebody.
    has_card = huggingface_hub.file_exists(repository, _CARD)
    huggingface_hub.upload_folder(
        repo_id=repository,
        folder_path=folder,
        commit_message="Upload a preset of KerasHub",
        ignore_patterns=[_CARD] if has_card else None,
    )


def _is_unchanged(task: Any, origin: pathlib.Path) -> bool:
    """Tells whether a task translates as what its folder holds."""
    translator = load_translator(origin)
    for name in ("num_beams", "length_penalty"):
        if getattr(task, name) != getattr(translator, name):
            return False
    expected = {weight_name(w): w for w in translator.model.weights}
    weights = {weight_name(w): w for w in task.transformer.weights}
    # Adapters are weights of other names.
    return weights.keys() == expected.keys() and all(
        np.array_equal(weight, expected[name])
        for name, weight in weights.items()
    )


def _copy_linked(origin: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies the files of a folder that its card shows or links to."""
    if not (origin / _CARD).is_file():
        return
    card = (origin / _CARD).read_text("utf-8")
    for name in re.findall(r"\]\(([^()/#]+)\)", card):
        if (origin / name).is_file() and not (folder / name).exists():
            shutil.copy(origin / name, folder)
