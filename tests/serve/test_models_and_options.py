"""Names of models, tokens, the options of the command line, and the guide."""

import re
import socket

import pytest

import relative_attention as ra
from relative_attention.cli import parse
from relative_attention.serve import ServerSettings
from relative_attention.serve import named_models
from relative_attention.zoo import recipe_summary
from tests.cli.conftest import check_refused
from tests.integration.readme_blocks import ROOT


def test_models_are_named_after_their_folders(
    model_folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(model_folder.parent)
    zoo = "multi30k_en_de_tiny_relative"
    given = [zoo, "mine", f"other={model_folder}", f"v2={zoo}"]
    found = named_models(given)
    assert list(found) == [zoo, "mine", "other", "v2"]
    assert found["v2"] == found[zoo]
    assert found["mine"].resolve() == model_folder
    assert list(named_models(["mine/"])) == ["mine"]
    assert list(named_models([f"{model_folder}/../mine"])) == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine", "mine"], "Two models have the name 'mine'"),
        (["a:b=mine"], "must be of letters"),
        (["=mine"], "must be of letters"),
        (["a=b"], "'a=b'.*NAME=PATH"),
        (["x=nowhere"], "No model directory at nowhere"),
    ],
)
def test_invalid_names_are_refused(
    arguments, message, model_folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    (tmp_path / "mine").symlink_to(model_folder)
    with pytest.raises(ra.InputError, match=message):
        named_models(arguments)


@pytest.mark.parametrize(
    ("recipe", "languages"),
    [
        (None, []),
        ("[]", []),
        ("a: [", []),
        ("data: {source: a.en}", []),
        ("data: {source: a.txt}", []),
        ("data: {source: a.gz, target: b.gz}", []),
        ("data: {source: 3, target: [x]}", []),
        ("description: [no]\ndata: {source: [a.en], target: a.de}", []),
        ("data: {source: a.txt, target: b, source_language: fi}", []),
        ("data: {source: a.en, target: b/a.de.gz}", ["en", "de"]),
        (
            "data: {source: a.en, target: a.de, source_language: fr}",
            ["fr", "de"],
        ),
        (
            "data: {source: a, target: b, source_language: fi, "
            "target_language: et}",
            ["fi", "et"],
        ),
    ],
)
def test_languages_of_a_recipe(recipe, languages, tmp_path):
    if recipe is not None:
        (tmp_path / "recipe.yaml").write_text(recipe)
    assert recipe_summary(tmp_path) == ("", languages)


@pytest.mark.parametrize(
    "content", [b"", b"fifteen-letters", b"a-letter-beyond-\xc3"]
)
def test_invalid_token_file_is_refused(run, model_folder, content, tmp_path):
    path = tmp_path / "token"
    path.write_bytes(content)
    result = run("serve", model_folder, "--token-file", path)
    check_refused(result, "--token-file must")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "::"], "reachable from other machines"),
        (["--token-file", "none"], "must be a file with a token"),
        (["--token-file", "x", "--no-token"], "contradict"),
        (["--port", "65536"], "--port must be between"),
        (["--host", "192.0.2.1", "--no-token"], "Nothing can listen at"),
    ],
)
def test_invalid_options_are_refused(run, model_folder, options, message):
    check_refused(run("serve", model_folder, *options), message)


def test_port_of_a_server_that_loads_is_refused(run, model_folder, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = ("serve", model_folder, "--port", port)
    loads = []

    def load(*arguments, **more):
        loads.append(arguments)
        if len(loads) == 1:
            check_refused(run(*serve), f"at 127.0.0.1, port {port}: .*--port")
        raise ra.InputError("The first one loads.")

    monkeypatch.setattr("relative_attention.serve.app.load_models", load)
    check_refused(run(*serve), "The first one loads.")


def test_missing_package_is_named(run, model_folder, monkeypatch):
    monkeypatch.setattr(
        "relative_attention.cli.serve._PACKAGES", ("no_such_package",)
    )
    check_refused(run("serve", model_folder), r"no_such_package.*'.\[serve\]'")


# === The guide, `docs/guides/serve.md` ===

GUIDE = (ROOT / "docs" / "guides" / "serve.md").read_text("utf-8")


def test_guide_has_the_default_limits():
    options = vars(parse(["serve", "m"]))
    usual = vars(ServerSettings())
    told = {
        name.replace("-", "_"): int(value)
        for name, value in re.findall(r"`--([\w-]+) (\d+)`", GUIDE)
    }
    assert len(told) == 6
    for name, value in told.items():
        assert options[name] == usual[name] == value
