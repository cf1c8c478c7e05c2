"""The models, recipes and studies that come with the package, by name.

Wherever a folder or file is expected, a bundled name is accepted. A path that
exists and has the right content (a recipe, a trained model, a run's curve)
takes precedence. Nothing here needs Keras, so lists are quick.
"""

import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from relative_attention.argument_checks import is_language
from relative_attention.errors import InputError
from relative_attention.errors import check_packages
from relative_attention.errors import did_you_mean
from relative_attention.schema import check_mapping

_PACKAGE = pathlib.Path(__file__).parent
# Of what a model's folder says about it, for the server's page.
_MOST_CHARACTERS = 10_000
_MOST_EXAMPLES = 5
# The license of weights for non-commercial research and education only.
RESEARCH = "research"


def zoo_directory() -> pathlib.Path:
    """Returns what is bundled: in the package in a wheel, else next to it."""
    packaged = _PACKAGE / "zoo"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "models"


def is_installed() -> bool:
    """Returns whether this is a wheel, which is not written to."""
    return zoo_directory().parent == _PACKAGE


def zoo_recipes() -> list[str]:
    """Returns the sorted names of bundled recipes."""
    return sorted(
        path.parent.name for path in zoo_directory().glob("*/recipe.yaml")
    )


def zoo_models() -> list[str]:
    """Returns the names of bundled models, those for any use first."""
    names = [n for n in zoo_recipes() if is_model(zoo_directory() / n)]
    return sorted(names, key=lambda name: zoo_license(name) == RESEARCH)


def is_model(directory: pathlib.Path | str) -> bool:
    """Returns whether a folder has the weights of a trained model."""
    return (pathlib.Path(directory) / "model.safetensors").is_file()


def zoo_license(name: str) -> str:
    """Returns the license of a bundled model's weights, or `RESEARCH`."""
    title = model_license(zoo_directory() / name)["title"]
    return RESEARCH if RESEARCH in title else title.partition(": ")[2]


def zoo_description(name: str) -> str:
    """Returns the description of a recipe."""
    return _description(zoo_directory() / name / "recipe.yaml")


def recipe_summary(directory: pathlib.Path) -> tuple[str, list[str]]:
    """Returns description and languages of the recipe in a model's folder.

    Languages are codes, source first. Both are empty if the recipe does not
    have them.
    """
    try:
        recipe = _read_yaml(directory / "recipe.yaml")
        data = check_mapping(recipe.get("data"), "data")
    # The folder may be from anywhere.
    except InputError:
        return "", []
    description = recipe.get("description")
    if not isinstance(description, str):
        description = ""
    known = [code for code in recipe_languages(data) if code is not None]
    return description, known if len(known) == 2 else []


def model_license(directory: pathlib.Path) -> dict[str, Any]:
    """Returns the license of the weights in a model's folder, or `{}`.

    It is what `LICENSE.md` says, without the marks of Markdown.

    Returns:
        Dict of `title`, the first paragraph; `paragraphs`, a list of the
        others; and `attribution`, what is quoted, which must stand where
        translations are shown.
    """
    text = _begin_of_text(directory / "LICENSE.md")
    text = re.sub(r"\[([^]]+)\]\(([^)\s]+)\)", r"\1 (\2)", text)
    text = re.sub(r"\*\*|`|^#+ ", "", text, flags=re.MULTILINE)
    if not text:
        return {}
    title, *others = re.split(r"\n\s*\n", text)
    quoted = [other for other in others if other.startswith(">")]
    title, attribution, *paragraphs = (
        " ".join(re.sub("^>", "", one, flags=re.MULTILINE).split())
        for one in (title, "\n".join(quoted), *others)
    )
    return {
        "title": title,
        "attribution": attribution,
        "paragraphs": paragraphs,
    }


def model_examples(directory: pathlib.Path) -> list[str]:
    """Returns lines that suit a model: the first of its `examples.txt`."""
    lines = map(
        str.strip, _begin_of_text(directory / "examples.txt").split("\n")
    )
    return [line for line in lines if line][:_MOST_EXAMPLES]


def _begin_of_text(path: pathlib.Path) -> str:
    """Returns text that may be missing, or from anywhere."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS).strip()
    except OSError:
        return ""


def recipe_languages(
    data: Mapping[str, Any],
) -> tuple[str | None, str | None]:
    """Returns the language codes of source and target of a recipe's text.

    They are the languages that the recipe names, else the endings of its files,
    such as `train.en` and `train.de.gz`. Only an ending of two letters counts
    as a language, and only if the two files have different endings.

    Args:
        data: the section `data` of the recipe, which may be from anywhere.
    """
    endings = [_ending(data.get(side)) for side in ("source", "target")]
    if endings[0] == endings[1]:
        endings = [None, None]
    named = [data.get(f"{side}_language") for side in ("source", "target")]
    source, target = (
        name if is_language(name) else ending
        for name, ending in zip(named, endings)
    )
    return source, target


def _ending(file: Any) -> str | None:
    """Returns the language that a file's name ends with, if any."""
    if not isinstance(file, str):
        return None
    found = re.search(r"\.([a-z]{2})$", file.removesuffix(".gz"))
    return found[1] if found else None


def zoo_results(name: str) -> dict[str, Any]:
    """Returns the `results.json` of a bundled recipe, or `{}`."""
    path = zoo_directory() / name / "results.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def scores_of_test_text(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the scores of the test text in a `results.json`, or `{}`.

    A run writes `scores`, of its float32 weights. Bundled weights are rounded
    to float16; `scores_of_weights` are their scores.
    """
    scores = results.get("scores_of_weights") or results.get("scores", {})
    return scores.get("test", {})


def studies_directory() -> pathlib.Path:
    """Returns the folder of the studies."""
    return zoo_directory() / "studies"


def zoo_studies() -> list[str]:
    """Returns the sorted names of the studies that come with the package."""
    return sorted(path.stem for path in studies_directory().glob("*.yaml"))


def study_description(name: str) -> str:
    """Returns the description of a study."""
    return _description(studies_directory() / f"{name}.yaml")


def _description(path: pathlib.Path) -> str:
    return _read_yaml(path)["description"]


def _read_yaml(path: pathlib.Path) -> dict[str, Any]:
    # Imported when it is used: a model is made without it.
    check_packages("Recipes need the package PyYAML", None, "yaml")
    from relative_attention.strict_yaml import read_yaml_file

    return read_yaml_file(path, "recipe")


def find_model(name: pathlib.Path | str) -> pathlib.Path:
    """Returns the folder of a trained model, by path or bundled name.

    Raises:
        InputError: if there is no such folder, or the bundled recipe of this
            name has no weights, or the weights are not installed.
    """
    path, name = pathlib.Path(name), str(name)
    models = zoo_models()
    if path.is_dir() and (is_model(path) or name not in models):
        return path
    if name in models:
        return zoo_directory() / name
    check_has_weights(name)
    if path.is_file():
        raise InputError(
            f"No model directory at {path}: that is a file. A model is the "
            "folder that `relative-attention train` filled; give its name."
        )
    raise InputError(
        f"No model directory at {path}.{did_you_mean(name, models)} "
        f"Bundled models: {', '.join(models) or 'none'}."
    )


def check_has_weights(name: str) -> None:
    """Raises `InputError` for a bundled recipe without weights."""
    models = zoo_models()
    if name in models or name not in zoo_recipes():
        return
    if (zoo_directory() / name / "LICENSE.md").is_file():
        # `setup.py` leaves them out of what is published.
        raise InputError(
            f"The weights of {name!r} are for non-commercial research only, "
            "so the installed package does not have them. They are in the "
            f"project's repository: give the folder models/{name} of a "
            f"checkout. Installed are: {', '.join(models)}."
        )
    raise InputError(
        f"{name!r} is a bundled recipe, and no trained model: train it with "
        f"`relative-attention train {name}`, then give the folder that this "
        "fills."
    )


def find_file_or_model(
    name: pathlib.Path | str, missing: str = "No such file:"
) -> pathlib.Path:
    """Returns the path of a file, or of a model found by `find_model`.

    Raises:
        InputError: if there is neither; the message begins with `missing`.
    """
    path = pathlib.Path(name)
    if path.is_file():
        return path
    try:
        return find_model(name)
    except InputError as error:
        raise InputError(f"{missing} {path}. {error}") from error


# The sources of the curve of a run; the first one that exists is used.
_CURVE_FILES = ("history.json", "results.json")


def find_curve(name: pathlib.Path | str) -> pathlib.Path:
    """Returns the folder of a run or a bundled recipe, for its curve."""
    path, name = pathlib.Path(name), str(name)
    has_curve = any((path / file).is_file() for file in _CURVE_FILES)
    if name in zoo_recipes() and not has_curve:
        return zoo_directory() / name
    return path
