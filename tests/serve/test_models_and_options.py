"""Names of models, tokens, and the options of the command line."""

import pytest

import relative_attention as ra
from relative_attention.serve import named_models
from relative_attention.zoo import recipe_summary


def test_names_of_models(model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(model_folder.parent)
    zoo = "multi30k_en_de_tiny_relative"
    given = [zoo, "mine", f"other={model_folder}", f"v2={zoo}"]
    found = named_models(given)
    assert list(found) == [zoo, "mine", "other", "v2"]
    assert found["v2"] == found[zoo]
    assert found["mine"].resolve() == model_folder
    assert list(named_models(["mine/"])) == ["mine"]
    assert list(named_models([f"{model_folder}/../mine"])) == ["mine"]


def test_folder_with_the_sign_in_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    with pytest.raises(ra.InputError, match="'a=b'.*NAME=PATH"):
        named_models(["a=b"])
    assert list(named_models(["c=a=b"])) == ["c"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine", "mine"], "Two models have the name 'mine'"),
        (["a:b=mine"], "must be of letters"),
        (["=mine"], "must be of letters"),
        (["x=nowhere"], "No model directory at nowhere"),
    ],
)
def test_names_that_are_wrong(arguments, message, model_folder, monkeypatch):
    monkeypatch.chdir(model_folder.parent)
    with pytest.raises(ra.InputError, match=message):
        named_models(arguments)


@pytest.mark.parametrize(
    "recipe",
    ["", "[]", "a: [", "data: {source: a.en}", "data: {source: a.txt}"],
)
def test_recipe_that_names_no_languages(recipe, tmp_path):
    assert recipe_summary(tmp_path) == ("", [])
    (tmp_path / "recipe.yaml").write_text(recipe)
    assert recipe_summary(tmp_path) == ("", [])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"two words of a line",
        b"fifteen-letters",
        b"a-letter-beyond-\xc3",
    ],
)
def test_token_that_is_none(run, model_folder, content, tmp_path):
    path = tmp_path / "token"
    path.write_bytes(content)
    status, _, err = run("serve", model_folder, "--token-file", path)
    assert status == 1 and "--token-file must" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "::"], "reachable from other machines"),
        (["--token-file", "none"], "must be a file with a token"),
        (["--token-file", "x", "--no-token"], "contradict"),
        (["--port", "65536"], "--port must be between"),
        (["--max-wait-ms", "nan"], "--max-wait-ms must be"),
        (["--host", "192.0.2.1", "--no-token"], "Nothing can listen at"),
    ],
)
def test_options_that_are_wrong(run, model_folder, options, message):
    status, out, err = run("serve", model_folder, *options)
    assert (status, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "x"])
def test_numbers_that_are_none(run, model_folder, number, capsys):
    with pytest.raises(SystemExit):
        run("serve", model_folder, f"--queue={number}")
    message = f"must be an integer, at least 1. Received: {number}."
    assert message in capsys.readouterr().err


def test_package_that_is_missing(run, model_folder, monkeypatch):
    monkeypatch.setattr(
        "relative_attention.cli.serve._PACKAGES", ("no_such_package",)
    )
    status, _, err = run("serve", model_folder)
    assert status == 1
    assert "no_such_package" in err and "'.[serve]'" in err
