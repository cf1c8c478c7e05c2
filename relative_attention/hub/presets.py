"""Presets: what `from_preset` finds, and what `upload_preset` uploads.

KerasHub's presets are folders written by `save_to_preset`, and hub handles.
Here bundled models and folders of trained models are presets, too.
"""

import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras_hub
import numpy as np
from safetensors import safe_open

from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean
from relative_attention.files import read_json_object
from relative_attention.models import TransformerConfig
from relative_attention.models.config import saved_fields
from relative_attention.models.weight_shapes import check_size
from relative_attention.models.weights import weight_name
from relative_attention.saving import load_translator
from relative_attention.saving.model_directory import find_weights
from relative_attention.saving.model_directory import load_config
from relative_attention.saving.model_directory import load_results
from relative_attention.zoo import check_has_weights
from relative_attention.zoo import find_model
from relative_attention.zoo import is_model
from relative_attention.zoo import recipe_summary
from relative_attention.zoo import scores_of_test_text
from relative_attention.zoo import zoo_models

_CARD = "README.md"
_LICENSE = "LICENSE.md"
_CODE = """```python
import relative_attention as ra

translator = ra.hub.TranslationLM.from_preset("{}")
translator.generate(["..."])
```
"""


class FromPreset:
    """A class of KerasHub that also loads models of this package.

    Subclasses have `from_translator`, for bundled models and for folders of
    trained models.
    """

    from_translator: Callable[..., Any]

    @classmethod
    def from_preset(cls, preset: str, *args: Any, **kwargs: Any) -> Self:
        """Loads an instance of this class from a preset.

        Args:
            preset: string or path. A bundled model; a folder written by
                `save_to_preset`, training or `save_translator`; or a hub
                handle, `hf://user/name` or `kaggle://...`.
            *args, **kwargs: for a task or a backbone, `load_weights`, `False`
                to leave them random; for a tokenizer, `config_file`; `dtype`;
                and arguments of the class that override those of the preset.

        Returns:
            An instance of the class.

        Raises:
            InputError: if there is no such preset, it holds another class, or
                a file is missing, damaged or does not fit the others.
        """
        preset = str(preset)
        # Folders of this package have another layout than KerasHub's.
        if model_folder(preset) is not None:
            return cls.from_translator(load_translator(preset), *args, **kwargs)
        if "://" not in preset and not pathlib.Path(preset).is_dir():
            check_has_weights(preset)
            raise InputError(
                f"No preset at {preset}.{did_you_mean(preset, zoo_models())} A "
                "preset is a folder that `save_to_preset` filled, a handle "
                "such as hf://user/name, or a bundled model: "
                f"{', '.join(zoo_models())}."
            )
        # Before a model is built that may not fit into the memory.
        if kwargs.get("load_weights", True):
            _check_size(pathlib.Path(preset))
        with readable_errors(f"{preset} could not be loaded"):
            return super().from_preset(preset, *args, **kwargs)  # type: ignore[misc]


def model_folder(preset: str) -> pathlib.Path | None:
    """Returns the folder of a trained model, if a preset names one."""
    path = pathlib.Path(preset)
    if path.is_dir():
        return path.absolute() if is_model(path) else None
    return find_model(preset) if str(preset) in zoo_models() else None


def _check_size(folder: pathlib.Path) -> None:
    """Refuses a config of a far larger model than the weights beside it.

    KerasHub reports everything else that is wrong in a folder. A handle of a
    hub has no folder yet, so it is not checked.
    """
    files = [*folder.glob("*.weights*.h5")]
    # A byte may hold two numbers, and a file may be cut short.
    most_numbers = 32 * sum(file.stat().st_size for file in files)
    names = {field.name for field in dataclasses.fields(TransformerConfig)}
    for file, keys in (
        ("config.json", ["config"]),
        ("task.json", ["config", "backbone", "config"]),
    ):
        try:
            content: Any = read_json_object(folder / file)
            for key in keys:
                content = content[key]
            fields = {name: content[name] for name in names & content.keys()}
            config = TransformerConfig(**saved_fields(fields))
        except (OSError, LookupError, TypeError, ValueError, AttributeError):
            # KerasHub says what is wrong.
            continue
        if files:
            check_size(config, most_numbers, folder)


@contextlib.contextmanager
def readable_errors(problem: str) -> Iterator[None]:
    """Turns errors of damaged files and of hubs into an `InputError`.

    Such errors come from many libraries. The message has the first line of the
    original one.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        # Keras raises one more error for every class around the first.
        original: BaseException = error
        while (cause := original.__cause__ or original.__context__) is not None:
            original = cause
        lines = str(original).strip().splitlines()
        reason = lines[0] if lines else type(original).__name__
        raise InputError(f"{problem}: {reason}") from error


def check_class(name: str, value: Any, cls: type) -> None:
    """Raises `InputError` unless an argument is of a class."""
    if not isinstance(value, cls):
        raise InputError(
            f"`{name}` must be a {cls.__name__}. Received: "
            f"{name}={type(value).__name__}."
        )


def add_card(
    task: Any,
    folder: pathlib.Path,
    handle: str,
    languages: Sequence[str] | None,
    license_name: str | None,
) -> None:
    """Writes the card of a preset, `README.md`, for people and machines.

    See `TranslationLM.upload_preset`.
    """
    origin = task.origin
    # Languages and license hold for weights that were trained further, too.
    if origin is not None:
        if languages is None:
            _, languages = recipe_summary(origin)
        if license_name is None and (origin / _LICENSE).is_file():
            license_name = "other"
            shutil.copy(origin / _LICENSE, folder)
    head: dict[str, Any] = {
        "pipeline_tag": "translation",
        "library_name": "keras-hub",
    }
    if languages:
        head["language"] = list(languages)
    if license_name:
        head["license"] = license_name
    # Hugging Face shows the file beside the card then.
    if license_name == "other":
        head["license_link"] = _LICENSE
    head["tags"] = ["keras", "relative-attention"]
    body = f"# {handle.rpartition('/')[2]}\n\n{_CODE.format(handle)}"
    # Scores and text of the folder are not true of weights that were trained
    # further.
    if origin is not None and _is_unchanged(task, origin):
        if (origin / "results.json").is_file():
            scores = scores_of_test_text(load_results(origin))
            if "bleu" in scores:
                head["metrics"] = ["bleu"]
                bleu, signature = scores["bleu"], scores.get("bleu_signature")
                body += f"\nBLEU on the test text: {bleu} (`{signature}`).\n"
        if (origin / _CARD).is_file():
            body += "\n" + _card_of(origin, folder)
    # JSON is YAML, and quotes strings that YAML would misread, such as the
    # code of Norwegian, `no`.
    lines = [f"{key}: {json.dumps(value)}" for key, value in head.items()]
    text = "\n".join(["---", *lines, "---", "", body])
    (folder / _CARD).write_text(text, "utf-8")


def upload(handle: str, folder: pathlib.Path) -> None:
    """Uploads a preset with its card.

    Raises:
        InputError: if the hub refuses it.
    """
    with readable_errors(f"{handle} could not be uploaded"):
        if not handle.startswith("hf://"):
            keras_hub.upload_preset(handle, str(folder))
            return
        # In one commit. `keras_hub.upload_preset` would overwrite our card.
        import huggingface_hub

        repository = huggingface_hub.create_repo(
            handle.removeprefix("hf://"), exist_ok=True
        ).repo_id
        # An existing card was written or edited by someone.
        has_card = huggingface_hub.file_exists(repository, _CARD)
        huggingface_hub.upload_folder(
            repo_id=repository,
            folder_path=folder,
            commit_message="Upload a preset of KerasHub",
            ignore_patterns=[_CARD] if has_card else None,
        )


def _is_unchanged(task: Any, origin: pathlib.Path) -> bool:
    """Tells whether a task has the weights and settings of a folder."""
    _, decoding = load_config(origin)
    # Settings that the scores on the card depend on.
    for name in ("num_beams", "length_penalty", "no_repeat_ngram"):
        if getattr(task, name) != getattr(decoding, name):
            return False
    weights = {weight_name(w): w for w in task.transformer.weights}
    with safe_open(find_weights(origin), "numpy") as file:
        # Adapters, and int8, are weights of other names.
        return weights.keys() == set(file.keys()) and all(
            np.array_equal(weight, file.get_tensor(name))
            for name, weight in weights.items()
        )


def _card_of(origin: pathlib.Path, folder: pathlib.Path) -> str:
    """Returns a folder's card without its title; copies linked files."""
    card = (origin / _CARD).read_text("utf-8")
    # Pictures and files beside the card; links to elsewhere stay links.
    for name in re.findall(r"\]\(([^()/#]+)\)", card):
        if (origin / name).is_file() and not (folder / name).exists():
            shutil.copy(origin / name, folder)
    first, _, rest = card.partition("\n")
    return rest.lstrip("\n") if first.startswith("# ") else card
