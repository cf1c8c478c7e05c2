"""What comes with the package, by name."""

import re
import shutil

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.zoo import scores_of_test_text
from relative_attention.zoo import zoo_directory
from relative_attention.zoo import zoo_models
from relative_attention.zoo import zoo_results

NAME = "multi30k_en_de_tiny_relative"


def test_bundled_model_translates_by_name(run, elsewhere):
    folder = zoo_directory() / NAME
    assert (folder / "model.safetensors").stat().st_size < 15e6
    status, out, err = run(
        "translate", NAME, stdin=b"A man rides a bike.\n\nTwo dogs run.\n"
    )
    assert status == 0, err
    bike, empty, dogs = out.removesuffix("\n").split("\n")
    assert re.fullmatch(r"Ein Mann f.hrt .*Fahrrad\.", bike)
    assert not empty
    assert re.fullmatch(r"Zwei Hunde (laufen|rennen).*\.", dogs)


@pytest.mark.parametrize(
    ("name", "lines", "kept"),
    [
        (
            "tatoeba_ja_en",
            [
                "彼は２０１２年に東京に来た。犬を見ましたか？",
                "１，２３４，５６７人が来た。",
                "https://example.org/aを見てください。",
            ],
            ["2012", "1,234,567", "https://example.org/a"],
        ),
        pytest.param(
            "tatoeba_es_en",
            [
                "Vino a Madrid en 2012. ¿Has visto al perro?",
                "Cuesta 1.234.567,50 €.",
                "Mira https://example.org/a ahora.",
            ],
            ["2012", "1,234,567.50 €", "https://example.org/a"],
            marks=pytest.mark.large,
        ),
    ],
)
def test_numbers_and_addresses_stay(run, elsewhere, name, lines, kept):
    text = "\n".join(lines).encode()
    status, out, err = run("translate", name, stdin=text)
    assert status == 0, err
    found = out.removesuffix("\n").split("\n")
    assert all(thing in line for thing, line in zip(kept, found, strict=True))
    # Two sentences, and a blank between them.
    assert re.fullmatch(r"[^.?]+2012[^.?]*\. [A-Z][^.?]+\?", found[0])
    assert all(line.isascii() or "€" in line for line in found)


@pytest.mark.large
@pytest.mark.parametrize(
    "name", [name for name in zoo_models() if name.startswith("multi30k")]
)
def test_bundled_model_has_the_bleu_of_its_card(name, multi30k):
    source, reference = (
        multi30k(f"test_2016_flickr.{side}")
        for side in re.match(r"multi30k_(..)_(..)_", name).groups()
    )
    stated = scores_of_test_text(zoo_results(name))["bleu"]
    translations = ra.load_translator(name).translate(source)
    bleu = ra.corpus_bleu(translations, reference)
    # Other processors add in another order, and a near tie may fall apart.
    assert bleu.score == pytest.approx(stated, abs=0.1)


def test_own_folder_takes_precedence_over_the_zoo(trained, elsewhere):
    (elsewhere / NAME).mkdir()
    (elsewhere / NAME / "notes").touch()
    size = ra.load_translator(NAME).model.config.hidden_dim
    shutil.copytree(trained, elsewhere / NAME, dirs_exist_ok=True)
    own = ra.load_translator(trained).model.config.hidden_dim
    assert ra.load_translator(NAME).model.config.hidden_dim == own != size


def test_float16_export_has_half_the_size(run, trained, tmp_path):
    half = tmp_path / "half"
    status, out, err = run(
        "export",
        "--format=model",
        "--dtype=float16",
        "--num-beams=3",
        trained,
        half,
    )
    assert (status, out) == (0, f"model: {half}\n"), err
    sizes = [
        (folder / "model.safetensors").stat().st_size
        for folder in (trained, half)
    ]
    assert 0.5 < sizes[1] / sizes[0] < 0.55
    whole, stored = (
        ra.load_translator(f, num_beams=3) for f in (trained, half)
    )
    assert ra.load_translator(half).num_beams == 3
    for weight, rounded in zip(whole.model.weights, stored.model.weights):
        np.testing.assert_array_equal(np.asarray(weight, np.float16), rounded)


def test_saving_overwrites_nothing(trained, tmp_path):
    translator = ra.load_translator(trained)
    (tmp_path / "notes").touch()
    with pytest.raises(ra.InputError, match="is there already"):
        ra.save_translator(translator, tmp_path)
    with pytest.raises(ValueError, match="`dtype` must be"):
        ra.save_translator(translator, tmp_path / "copy", dtype="int8")
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
