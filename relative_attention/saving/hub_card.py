"""The card of a model on Hugging Face: what it is, for people and machines."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from relative_attention.saving.model_directory import load_results
from relative_attention.zoo import scores_of_test_text


def hub_card(
    directory: pathlib.Path | str | None,
    handle: str,
    languages: Sequence[str] = (),
    license_name: str | None = None,
) -> str:
    """Returns the `README.md` of a model for Hugging Face.

    Its head names task, languages, license and, where the model was scored,
    BLEU. Below is the code to load it, and the card of the folder, if any.

    Args:
        directory: path of a model folder. Its `results.json` gives the scores,
            its `README.md` the text; either may be missing. With `None` the
            card says only how to load the model.
        handle: string. Where the model goes, such as `"hf://me/mine"`.
        languages: list of codes, such as `["en", "de"]`, source first.
            Defaults to none, and the head names none.
        license_name: string. As Hugging Face spells it, such as `"mit"`; with
            `"other"` the terms are in the file `LICENSE.md`. Defaults to
            `None`, and the head names none.

    Returns:
        String, Markdown behind a head in YAML.

    Raises:
        InputError: if `results.json` is damaged.
    """
    name = handle.rpartition("/")[2]
    head: dict[str, Any] = {
        "pipeline_tag": "translation",
        "library_name": "keras-hub",
    }
    if languages:
        head["language"] = list(languages)
    if license_name:
        head["license"] = license_name
    if license_name == "other":
        head["license_link"] = "LICENSE.md"
    head["tags"] = ["keras", "relative-attention"]
    bleu = _test_scores(directory)
    if "bleu" in bleu:
        head["metrics"] = ["bleu"]
    # JSON is YAML, and quotes what YAML would read as something else: the
    # code of Norwegian, `no`.
    lines = [f"{key}: {json.dumps(value)}" for key, value in head.items()]
    text = "\n".join(["---", *lines, "---", "", f"# {name}", "", _code(handle)])
    if "bleu" in bleu:
        signature = bleu.get("bleu_signature", "")
        text += f"\nBLEU on the test text: {bleu['bleu']} (`{signature}`).\n"
    if directory is not None:
        card = pathlib.Path(directory, "README.md")
        if card.is_file():
            text += "\n" + _without_title(card.read_text("utf-8"))
    return text


def _test_scores(directory: pathlib.Path | str | None) -> dict[str, Any]:
    """Returns the scores of the test text, or `{}`."""
    if (
        directory is None
        or not pathlib.Path(directory, "results.json").is_file()
    ):
        return {}
    return scores_of_test_text(load_results(directory))


def _code(handle: str) -> str:
    """Returns the block that loads the model."""
    return (
        "```python\n"
        "import relative_attention as ra\n\n"
        f'translator = ra.hub.TranslationLM.from_preset("{handle}")\n'
        'translator.generate(["..."])\n'
        "```\n"
    )


def _without_title(card: str) -> str:
    """Returns a card less its first heading: the new one has its own."""
    first, _, rest = card.partition("\n")
    return rest.lstrip("\n") if first.startswith("# ") else card
