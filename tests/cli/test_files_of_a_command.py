"""What a command reads and writes, as files of the users' are."""

import codecs
import os
import stat
import threading

import pytest
import yaml

import relative_attention as ra

MARK = codecs.BOM_UTF8
LINES = ["he paid ten euros .", "she has two dogs ."]


@pytest.fixture(scope="module")
def expected(shared_translator):
    translator = ra.Translator(**{**vars(shared_translator), "num_beams": 1})
    translations = translator.translate(LINES)
    return "".join(f"{line}\n" for line in translations)


@pytest.fixture
def translate(run, trained, load_once):
    def translate(*arguments, **stdin):
        status, _, err = run(
            "translate", trained, "--num-beams=1", *arguments, **stdin
        )
        assert status == 0, err

    return translate


def test_windows_text_goes_to_a_pipe(translate, expected, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(MARK + "".join(f"{x}\r\n" for x in LINES).encode())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(
        target=lambda: received.append(pipe.read_text()), daemon=True
    )
    reader.start()
    translate("--input", source, "--output", pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(10)
    assert received == [expected]


def test_standard_input_goes_through_a_link_to_a_private_file(
    translate, expected, tmp_path
):
    target = tmp_path / "private"
    target.touch(mode=0o600)
    link = tmp_path / "link"
    link.symlink_to(target)
    translate(
        "--output", link, stdin=MARK + "".join(f"{x}\n" for x in LINES).encode()
    )
    assert link.is_symlink()
    assert target.read_text() == expected
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_recipe_may_have_a_byte_order_mark(recipe, tmp_path):
    path = tmp_path / "recipe.yaml"
    text = yaml.safe_dump(recipe.to_mapping())
    path.write_text(text, encoding="utf-8-sig")
    assert ra.Recipe.load(path) == recipe
