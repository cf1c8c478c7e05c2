"""Presets: what `from_preset` finds, and what `upload_preset` sends.

KerasHub knows folders that `save_to_preset` filled, and handles of hubs. Here
names of the zoo and folders of trained models are presets, too.
"""

import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras_hub
import numpy as np

from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean
from relative_attention.models.weights import weight_name
from relative_attention.saving import find_model
from relative_attention.saving import load_translator
from relative_attention.saving.hub_card import hub_card
from relative_attention.zoo import is_model
from relative_attention.zoo import recipe_summary
from relative_attention.zoo import zoo_models

_CARD = "README.md"
_LICENSE = "LICENSE.md"


class FromPreset:
    """A class of KerasHub that also loads what this package has saved.

    Subclasses have `from_translator`, for names of the zoo and for folders of
    trained models.
    """

    from_translator: Callable[..., Any]

    @classmethod
    def from_preset(cls, preset: str, *args: Any, **kwargs: Any) -> Self:
        """Loads what a preset holds of this class.

        Args:
            preset: string or path. A name of the zoo; a folder that
                `save_to_preset`, training or `save_translator` filled; or a
                handle of a hub, `hf://user/name` or `kaggle://...`.
            *args, **kwargs: of a task or a backbone, `load_weights`, `False`
                to leave them random; of a tokenizer, `config_file`; `dtype`;
                and arguments of the class in place of those of the preset.

        Returns:
            An instance of the class.

        Raises:
            InputError: if there is no such preset, it holds another class, or
                a file is missing, damaged or does not fit the others.
        """
        preset = str(preset)
        if model_folder(preset) is not None:
            return cls.from_translator(load_translator(preset), *args, **kwargs)
        if "://" not in preset and not pathlib.Path(preset).is_dir():
            raise InputError(
                f"No preset at {preset}.{did_you_mean(preset, zoo_models())} A "
                "preset is a folder that `save_to_preset` filled, a handle "
                "such as hf://user/name, or a model of the zoo: "
                f"{', '.join(zoo_models())}."
            )
        try:
            return super().from_preset(preset, *args, **kwargs)  # type: ignore[misc]
        except InputError:
            raise
        # Whatever a damaged file, or a hub, makes of KerasHub's loaders.
        except (
            AttributeError,
            LookupError,
            OSError,
            TypeError,
            ValueError,
        ) as error:
            raise InputError(
                f"{preset} could not be loaded: {reason(error)}"
            ) from error


def model_folder(preset: str) -> pathlib.Path | None:
    """Returns the folder of a trained model that a preset names, if it does."""
    path = pathlib.Path(preset)
    if path.is_dir():
        return path.absolute() if is_model(path) else None
    return find_model(preset) if str(preset) in zoo_models() else None


def reason(error: BaseException) -> str:
    """Returns the first line of the error that others were raised from.

    Keras says of every class around it that it could not be made.
    """
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


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
    """
    # The card has the code to load it, for which the user's name is needed.
    if not re.fullmatch(r"hf://[^/]+/.+|kaggle://.+", handle):
        raise InputError(
            "`handle` must be hf://user/name or kaggle://user/model/keras/"
            f"variant. Received: handle={handle!r}. A folder is filled by "
            "`save_to_preset`."
        )
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        task.save_to_preset(folder)
        described = None
        if origin is not None:
            if languages is None:
                _, languages = recipe_summary(origin)
            if license_name is None and (origin / _LICENSE).is_file():
                license_name = "other"
                shutil.copy(origin / _LICENSE, folder)
            # Scores and text of the folder are not true of weights that were
            # trained since.
            if _is_unchanged(task, origin):
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
    # Somebody has written, or edited, a card that is there.
    has_card = huggingface_hub.file_exists(repository, _CARD)
    huggingface_hub.upload_folder(
        repo_id=repository,
        folder_path=folder,
        commit_message="Upload a preset of KerasHub",
        ignore_patterns=[_CARD] if has_card else None,
    )


def _is_unchanged(task: Any, origin: pathlib.Path) -> bool:
    """Tells whether a task translates as the model in its folder."""
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
