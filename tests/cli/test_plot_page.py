"""`plot --output NAME.html` writes a page to look inside a model with."""

import pytest

pytestmark = pytest.mark.usefixtures("load_once")


def test_page_is_written_and_the_translation_printed(
    run, trained, shared_translator, tmp_path
):
    page = tmp_path / "view.html"
    status, out, err = run(
        "plot", trained, "--sentence", "yes", "--output", page
    )
    assert status == 0, err
    (translation,) = shared_translator.translate(["yes"])
    assert out == f"{translation}\n{page}\n"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["view.html"]


def test_page_without_a_sentence_is_refused(run, trained, tmp_path):
    page = tmp_path / "view.html"
    status, out, err = run("plot", trained, "--output", page)
    assert (status, out) == (1, "")
    assert "give --sentence" in err and "Traceback" not in err
    assert not page.exists()


def test_folder_is_a_folder_whatever_its_name(run, trained, tmp_path):
    folder = tmp_path / "pictures.html"
    folder.mkdir()
    status, _, err = run("plot", trained, "--output", folder)
    assert status == 0, err
    assert [file.name for file in folder.iterdir()] == ["curve.png"]
