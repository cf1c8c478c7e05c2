"""`--engine ctranslate2`: the same commands, with CTranslate2."""

import sys

import pytest

import relative_attention as ra
from tests.cli.conftest import check_refused
from tests.small_models import SENTENCES

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
