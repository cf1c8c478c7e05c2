"""`--engine ctranslate2`: the same commands, with CTranslate2."""

import json
import pathlib
import shutil
import sys

import pytest

import relative_attention as ra
from tests.cli.conftest import check_refused
from tests.small_models import SENTENCES

ROOT = pathlib.Path(__file__).parents[2]
MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"
ENGINE = ["--engine", "ctranslate2", "--threads", "1"]
LINES = [*SENTENCES, "", "a man " * 9]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RELATIVE_ATTENTION_CACHE", str(tmp_path / "cache"))


@pytest.mark.large
def test_translates_a_file_in_a_new_process(several, tmp_path, run_python):
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_text("".join(f"{line}\n" for line in LINES))
    words = [several / "a", "--input", source, "--output", output]
    words += [*ENGINE, "--num-beams", "1"]
    assert run_python(MAIN, "translate", *words) == ""
    ours = ra.load_translator(several / "a", num_beams=1)
    expected = "".join(f"{text}\n" for text in ours.translate(LINES))
    assert output.read_bytes() == expected.encode()


def test_missing_package_is_named(several, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    result = run("translate", several / "a", *ENGINE)
    check_refused(result, "engine ctranslate2 needs `ctranslate2`.* Install it")


@pytest.mark.large
def test_own_engine_does_not_load_the_other(several, tmp_path, run_python):
    script = (
        "import sys\n"
        "from relative_attention.cli import main\n"
        "main(sys.argv[1:])\n"
        "assert not {'ctranslate2', 'relative_attention.export'} & "
        "set(sys.modules)\n"
    )
    (tmp_path / "line").write_text("dogs\n")
    words = ("translate", several / "a", "--input", tmp_path / "line")
    assert run_python(script, *words)


# Everything of this package that translates, where Keras cannot be imported.
WITHOUT_KERAS = """
import contextlib, io, json, sys
ABSENT = ("keras", "tensorflow", "jax", "torch", "tabulate")
for name in ABSENT:
    sys.modules[name] = None

import relative_attention as ra
from relative_attention.cli import main

model, source, prefixes, terms, lines = json.loads(sys.argv[1])

def command(*words):
    out = io.StringIO()
    out.buffer = io.BytesIO()
    error = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main(list(words))
    output = out.getvalue() + out.buffer.getvalue().decode()
    return status, output, error.getvalue()

translator = ra.load_translator(model, engine="ctranslate2", threads=1)
found = {"library": translator.translate(lines)}
translate = ["translate", model, "--input", source]
given = [*translate, "--engine", "ctranslate2", "--threads", "1"]
found["given"] = command(*given, "--nbest", "2")
found["prefix"] = command(*given, "--prefix", prefixes)
found["taken"] = command(*translate, "--glossary", terms)
found["alignments"] = command(*translate, "--alignments")
found["train"] = command("train", "tatoeba_en_de")
found["list"] = command("list")

from starlette.testclient import TestClient
from relative_attention import serve

folders = serve.named_models([f"m={model}"])
models = serve.load_models(folders, engine="ctranslate2", threads=1)
with TestClient(serve.make_app(models), base_url="http://localhost") as client:
    asked = {"instances": lines}
    found["served"] = client.post("/v1/models/m:predict", json=asked).json()
    found["models"] = client.get("/api/models").json()
    asked = {"sentence": lines[0], "prefix": "Wo"}
    found["ways"] = client.post(
        "/api/models/m/alternatives", json=asked
    ).json()
    asked = {"sentence": lines[0], "translation": "Wo?"}
    view = client.post("/api/models/m/view", json=asked)
    found["view"] = view.status_code, view.json()
    assert client.get("/").status_code == 200
assert not any(sys.modules[name] for name in ABSENT)
print(json.dumps(found))
"""


def test_translates_and_serves_where_keras_is_absent(tmp_path, run_python):
    lines = ["Where is the station?", "See https://example.org/a now."]
    texts = {
        "source": "".join(f"{line}\n" for line in lines),
        "prefixes": "Wo\n\n",
        "terms": "station\tHalt\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in texts]
    # A glossary needs signs, which this model's vocabulary has.
    model = tmp_path / "model"
    shutil.copytree(ROOT / "models" / "tatoeba_en_de", model)
    config = json.loads((model / "config.json").read_text())
    config["decoding"]["placeholders"] = True
    (model / "config.json").write_text(json.dumps(config))
    arguments = json.dumps([str(model), *paths, lines])
    found = json.loads(run_python(WITHOUT_KERAS, arguments))

    first, second = found["library"]
    assert first == "Wo ist der Bahnhof?"
    assert "https://example.org/a" in second
    served = found["served"]["predictions"]
    assert [one["translations"] for one in served] == found["library"]
    status, output, error = found["given"]
    assert (status, error) == (0, "")
    rows = [row.split("\t") for row in output.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert [rows[0][2], rows[2][2]] == [first, second]
    status, output, error = found["prefix"]
    assert (status, error) == (0, "") and output.startswith("Wo ")
    status, output, error = found["taken"]
    assert status == 0 and "Halt" in output.splitlines()[0]
    assert error == "Keras is not installed: the engine is ctranslate2\n"
    for name in ("alignments", "train"):
        status, output, error = found[name]
        assert status == 1 and "needs Keras, which is not installed" in error
        assert error.count("\n") == 1
    status, output, error = found["list"]
    assert (status, error) == (0, "")
    first_model = output.splitlines()[2].split()
    assert first_model[:3] == ["tatoeba_de_en", "CC", "BY"]
    (model,) = found["models"]["models"]
    assert not model["has_attention"]
    ways = found["ways"]["alternatives"]
    assert len(ways) > 1 and all(one["text"].startswith("Wo") for one in ways)
    status, answer = found["view"]
    assert status == 400 and "without `engine`" in answer["error"], answer
