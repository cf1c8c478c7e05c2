"""`data pairs`: files of pairs, their cleaning, and their split."""

import bz2
import collections
import gzip
import itertools
import lzma
import os
import pathlib
import random
import re
import subprocess
import sys
import zipfile

import pytest

from relative_attention.corpora import pairs as pairs_module
from relative_attention.corpora.pairs import write_pairs
from relative_attention.data.split import pair_hash
from tests.cli.conftest import check_refused

PAIRS = [
    ("Hello, you.", "Salut toi."),
    ('She said "no".', "Elle a dit « non »."),
    ("It rains.", "Il pleut."),
]
PARTS = ("train", "val", "test")
ALL_TO_TRAIN = ["--val", "0", "--test", "0"]


def table(pairs=PAIRS, end=""):
    return "".join(f"{one}\t{other}{end}\n" for one, other in pairs).encode()


def comma_table(rows, delimiter=","):
    def cell(text):
        return '"' + text.replace('"', '""') + '"'

    lines = [delimiter.join(map(cell, row)) for row in rows]
    return "".join(f"{line}\r\n" for line in lines).encode()


def memory(units, head='<!DOCTYPE tmx SYSTEM "tmx14.dtd">'):
    """A translation memory of units: the segments of each, by language."""
    body = "".join(
        "<tu>"
        + "".join(
            f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>'
            for language, text in unit.items()
        )
        + "</tu>"
        for unit in units
    )
    return (
        f'<?xml version="1.0"?>{head}<tmx version="1.4"><header/>'
        f"<body>{body}</body></tmx>"
    ).encode()


def archive(method=zipfile.ZIP_DEFLATED, **members):
    """The bytes of a zip archive; `__` in a name is a dot."""
    with zipfile.ZipFile("archive", "w", method) as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "."), content)
    return pathlib.Path("archive").read_bytes()


def write(files):
    for name, content in files.items():
        # Zip archives are made in the working directory of the test.
        content = content() if callable(content) else content
        pathlib.Path(name).write_bytes(content)


def texts_of(folder, endings=("source", "target")):
    """The pairs of each part."""
    return {
        part: [
            *zip(
                *(
                    pathlib.Path(folder, f"{part}.{ending}")
                    .read_text("utf-8")
                    .splitlines()
                    for ending in endings
                ),
                strict=True,
            )
        ]
        for part in PARTS
        if pathlib.Path(folder, f"{part}.{endings[0]}").exists()
    }


ENGLISH, FRENCH = (
    "".join(f"{pair[side]}\n" for pair in PAIRS).encode() for side in (0, 1)
)
MEMORY = memory(
    [
        {"EN-us": "Hello, <hi>you</hi>.", "fr": "Salut toi.", "de": "Hallo."},
        {
            "fr-CA": 'Elle <ph x="1">&lt;br&gt;</ph>a dit « non ».',
            "EN-us": 'She<bpt i="1">&lt;b<sub>bold</sub>&gt;</bpt> said "no"'
            '<ept i="1"/>.',
        },
        {"en": "It rains.", "en-GB": "It is raining.", "fr": "Il pleut."},
    ]
)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.tsv": table()}, "a.tsv"),
        ({"a.txt": table(end="\tCC-BY 2.0")}, "a.txt"),
        ({"pairs": b"\xef\xbb\xbf" + table()}, "pairs"),
        ({"a.tsv": table(PAIRS[:1]), "b.csv": comma_table(PAIRS[1:])}, None),
        ({"a.csv": comma_table([("fr", "id", "en")] + [
            (other, "7", one) for one, other in PAIRS])},
         "a.csv --columns en fr"),
        ({"a.csv": comma_table([(b, a) for a, b in PAIRS], ";")},
         "a.csv --delimiter ; --columns 2 1"),
        ({"a.tmx": MEMORY}, "a.tmx --languages en fr"),
        ({"a.en": ENGLISH, "a.fr": FRENCH}, None),
        ({"a.en.gz": gzip.compress(ENGLISH), "b": FRENCH}, None),
        ({"a.tsv.bz2": bz2.compress(table())}, None),
        ({"a.TMX.xz": lzma.compress(MEMORY)}, "a.TMX.xz --languages EN fr"),
        ({"a.zip": lambda: archive(_about__txt="x", fra__txt=table())}, None),
        ({"a.zip": lambda: archive(zipfile.ZIP_LZMA, pairs=table())}, None),
        ({"a.zip": lambda: archive(README="x", en=ENGLISH, fr=FRENCH)},
         "a.zip/en a.zip/fr"),
    ],
)  # fmt: skip
def test_every_kind_of_file_gives_the_same_texts(files, words, run, elsewhere):
    write(files)
    words = (words or " ".join(files)).split()
    status, out, err = run(
        "data", "pairs", *words, "--output", "new", *ALL_TO_TRAIN
    )
    assert (status, err) == (0, "")
    endings = ("source", "target")
    if "--languages" in words:
        endings = tuple(words[-2:])
    assert texts_of("new", endings) == {"train": PAIRS}
    assert "read: 3 pairs\n" in out
    # The command that it shows trains on these texts.
    names = [f"new/train.{ending}" for ending in endings]
    assert f" data.source={names[0]} data.target={names[1]}\n" in out


# What is left out, in the order of the report, with its example.
LEFT_OUT = {
    "with an empty side, such as '' and 'Rien.'": [
        ("\u200b ", "Rien."),
        ("", ""),
        ("Nothing.", ""),
    ],
    "with two equal sides, such as 'OK.' and 'OK.'": [("OK.", " OK.")],
    "with more than 80 words on a side, such as 'a a a": [
        ("a " * 81, "b " * 70),
        ("a " * 30, "猫" * 81),
    ],
    "with more than 9 times the words on a side, such as 'no' and 'un": [
        ("no", "un deux trois quatre cinq six sept huit neuf dix"),
        ("ab", "猫犬鳥魚馬牛羊豚鼠虎"),
    ],
    "that are doubles, such as 'It rains.' and 'Il pleut.'": [
        ("It\u00a0 rains.", "Il pleut."),
        PAIRS[0],
    ],
    "with a sentence of val or test": [],
}
KEPT = [
    ("a " * 80, "b " * 9),
    ("ab", "猫犬鳥魚馬牛羊豚鼠"),
    ("cafe\u0301", "x"),
]


def counts_of(out):
    """The numbers of a report."""
    names = "|".join(["read", *PARTS])
    found = re.findall(rf"^({names}): ([\d,]+)", out, re.MULTILINE)
    counts = {name: int(n.replace(",", "")) for name, n in found}
    lines = re.findall("^left out: ([\\d,]+) (.*)", out, re.MULTILINE)
    return counts, [(int(n.replace(",", "")), text) for n, text in lines]


def test_a_cell_may_be_as_long_as_a_line(run, elsewhere):
    cells = [*PAIRS, ("a" * 140_000, "b " * 70_000)]
    write({"a.csv": comma_table(cells)})
    status, out, err = run(
        *("data", "pairs", "a.csv", "--output", "new"), *ALL_TO_TRAIN
    )
    assert (status, err) == (0, "")
    assert "left out: 1 with more than 80 words" in out
    assert texts_of("new", ("source", "target")) == {"train": PAIRS}


@pytest.mark.parametrize("keep_equal", [False, True])
def test_each_kind_that_is_left_out_is_told(keep_equal, run, elsewhere):
    pairs = [*PAIRS, *itertools.chain(*LEFT_OUT.values()), *KEPT]
    write({"a.tsv": table(pairs)})
    words = ["data", "pairs", "a.tsv", "--output", "new", *ALL_TO_TRAIN]
    status, out, _ = run(*words, *["--keep-equal"] * keep_equal)
    assert status == 0
    counts, left_out = counts_of(out)
    assert len(left_out) == len(LEFT_OUT)
    for (count, text), (kind, expected) in zip(left_out, LEFT_OUT.items()):
        if keep_equal and "equal" in kind:
            assert (count, text) == (0, "with two equal sides")
            continue
        assert count == len(expected) and text.startswith(kind)
        assert len(text) < 250
    assert counts["read"] == len(pairs)
    assert counts["read"] == counts["train"] + sum(n for n, _ in left_out)
    kept = texts_of("new")["train"]
    assert len(kept) == counts["train"]
    assert ("café", "x") in kept
    assert (("OK.", "OK.") in kept) == keep_equal


def test_limits_can_be_chosen(run, elsewhere):
    pairs = [("one two", "un deux"), ("one two three", "un"), ("one", "u n o")]
    write({"a.tsv": table(pairs)})
    words = ["data", "pairs", "a.tsv", *ALL_TO_TRAIN, "--output"]
    run(*words, "words", "--max-words", "2")
    run(*words, "ratio", "--max-ratio", "2.5")
    assert texts_of("words") == texts_of("ratio") == {"train": pairs[:1]}


def letters(sentence):
    return "".join(filter(str.isalnum, sentence.lower())) or sentence


@pytest.mark.parametrize("seed", [1, 2])
def test_no_sentence_is_in_two_parts_and_counts_add_up(seed, run, elsewhere):
    draw = random.Random(seed)
    # Few sentences on one side, so that pairs share them; and in other forms.
    words = [f"sentence {n}" for n in range(900)]
    forms = [str, str.upper, "{}!".format, " {}".format, "« {} »".format]
    pairs = [
        (draw.choice(forms)(one), draw.choice(forms)(f"x {draw.choice(words)}"))
        for one in draw.choices(words, k=1500)
    ]
    pairs += draw.sample(pairs, 100)
    write({"a.tsv": table(pairs)})
    sizes = ["--val", "60", "--test", "80", "--seed", str(seed)]
    words = ["data", "pairs", "a.tsv", *sizes, "--output"]
    # The test text does not depend on the validation text.
    assert run(*words, "other", "--val", "9")[0] == 0
    for folder in ("new", "again"):
        status, out, _ = run(*words, folder)
        assert status == 0
    counts, left_out = counts_of(out)
    texts = texts_of("new")
    assert texts == texts_of("again")
    assert texts["test"] == texts_of("other")["test"]
    assert counts == {"read": 1600, **{p: len(texts[p]) for p in PARTS}}
    assert (counts["val"], counts["test"]) == (60, 80)
    assert 1600 == sum(map(len, texts.values())) + sum(n for n, _ in left_out)
    written = [*itertools.chain(*texts.values())]
    assert not [
        pair for pair, n in collections.Counter(written).items() if n > 1
    ]
    for one, other in itertools.combinations(PARTS, 2):
        for side in (0, 1):
            sentences = [
                {letters(pair[side]) for pair in texts[part]}
                for part in (one, other)
            ]
            assert not sentences[0] & sentences[1]
    # What is in no part has a double, or a sentence of `val` or `test`.
    held = [
        {letters(p[side]) for p in texts["val"] + texts["test"]}
        for side in (0, 1)
    ]
    for pair in pairs:
        if (cleaned := tuple(" ".join(one.split()) for one in pair)) not in (
            written
        ):
            assert any(letters(s) in h for s, h in zip(cleaned, held))


def corrupt(content, needle, replacement):
    assert content.count(needle) >= 1 and len(needle) == len(replacement)
    return content.replace(needle, replacement)


def damaged_lzma():
    """An archive whose member cannot be decompressed."""
    content = bytearray(archive(zipfile.ZIP_LZMA, a__tsv=table(PAIRS * 99)))
    # After the header of the file and of LZMA.
    content[60:70] = bytes(10 * [255])
    return bytes(content)


def damaged_name():
    """An archive with a name that says it is UTF-8, and is not."""
    content = archive(**{"ü__tsv": table()})
    return corrupt(content, "ü".encode(), b"\xff\xfe")


def two_members():
    return archive(b="", c="")


BOMB = '<!DOCTYPE t [<!ENTITY a "aa"><!ENTITY b "&a;&a;&a;&a;">]>'
THIEF = '<!DOCTYPE t [<!ENTITY b SYSTEM "file:///etc/passwd">]>'
UNIT = {"en": "One &b;.", "fr": "Un."}
JIS = b'<?xml version="1.0" encoding="shift_jis"?><tmx/>'
TMX = "a.tmx --languages en fr"
# Beside `a.tsv`, which is whole: files, words, and what the message has.
BAD = {
    "missing": ({}, "no.tsv", "No such file: no.tsv"),
    "missing zip": ({}, "no.zip/a.tsv", "No such file: no.zip/a.tsv"),
    "folder": ({}, ".", "is a folder"),
    "utf-8": ({"a": table() + b"\xff\tx\n"}, "a", "line 4: not valid UTF-8"),
    "csv utf-8": ({"a.csv": b"a,b\n\xff,c\n"}, "a.csv", "line 2: not valid"),
    "unequal": ({"a": b"1\n2\n", "b": b"1\n"}, "a b", "a with 2 .* b with 1"),
    "one column": ({"a": b"one\n"}, "a", "line 1: must have .* 1 and 2"),
    "fewer": ({"a": table() + b"x\n"}, "a", "line 4: must have 2 columns"),
    "more": ({"a.csv": b"a,b\nc,d,e\n"}, "a.csv", "line 2: .* Received 3"),
    "number": ({}, "a.tsv --columns 1 3", "columns 1 and 3"),
    "zero": ({}, "a.tsv --columns 0 1", "columns 0 and 1"),
    "name": ({"a": b"en\tfr\n"}, "a --columns en fra", "'fra'.*Known: en, fr"),
    "two": ({"a": b"en\ten\n"}, "a --columns en fr", "two columns 'en'"),
    "same": ({}, "a.tsv --columns 2 2", "columns must differ. .*: 2 twice"),
    "quotes": ({"a.csv": b'a,"b\nc\n'}, "a.csv", "line 2: .* quotation marks"),
    "delimiter": ({}, "a.tsv --delimiter ab", "`delimiter`"),
    "no zip": ({"a.zip": b"PK"}, "a.zip", "a.zip cannot be read"),
    "lzma": ({"a.zip": damaged_lzma}, "a.zip", "a.tsv cannot be read"),
    "zip name": ({"a.zip": damaged_name}, "a.zip", "a.zip cannot be read"),
    "gz": ({"a.gz": gzip.compress(table())[:-9]}, "a.gz", "cut short"),
    "no gz": ({"a.gz": table()}, "a.gz", "not what its name says"),
    "xz": ({"a.xz": b"\xfd7zXZ"}, "a.xz", "cut short"),
    "several": ({"a.zip": two_members}, "a.zip", "one, as in a.zip/b"),
    "member": ({"a.zip": two_members}, "a.zip/d", "no file d; it has b, c"),
    "no member": ({"a.zip": archive}, "a.zip", "it has no file of pairs"),
    "blank": ({"a": b"\n\n"}, "a", "No pair is left .* 2 with an empty side"),
    "empty": ({"a": b""}, "a", "No pair is left .* of 0"),
    "one pair": ({"a": b"a\tb\n"}, "a", "No pair is left to train on"),
    "line": ({"a.gz": gzip.compress(b"a" * 2**24)}, "a.gz", "line 1: must"),
    "three": ({"a": b"", "b": b""}, "a b a", "or two texts"),
    "mixed": ({"a": b""}, "a a.tsv", "or two texts"),
    "texts": ({"a": b"", "b": b""}, "a b --columns 1 2", "`columns`"),
    "tmx": ({"a.tmx": MEMORY}, "a.tmx", "by `--languages en de`"),
    "tmx columns": ({"a.tmx": MEMORY}, TMX + " --columns 1 2", "`columns`"),
    "other": ({"a.tmx": MEMORY}, "a.tmx --languages en it", "EN-us, fr, de"),
    "no xml": ({"a.tmx": b"a\tb\n"}, TMX, "no whole XML: .* line 1"),
    "cut": ({"a.tmx": MEMORY[:-20]}, TMX, "no whole XML"),
    "bomb": ({"a.tmx": memory([UNIT], BOMB)}, TMX, "defines entities"),
    "thief": ({"a.tmx": memory([UNIT], THIEF)}, TMX, "defines entities"),
    "unit": ({"a.tmx": memory([{"en": "a" * 2**25}])}, TMX, "an element must"),
    "coding": ({"a.tmx": JIS}, TMX, "no whole XML: multi-byte"),
    "codes": ({}, "a.tsv --languages ../a b", "two codes"),
    "same code": ({}, "a.tsv --languages en EN", "two codes"),
    "words": ({}, "a.tsv --max-words 0", "`max_words`"),
    "ratio": ({}, "a.tsv --max-ratio 0.5", "`max_ratio`"),
    "size": ({}, "a.tsv --test -1", "`test`"),
    "seed": ({}, f"a.tsv --seed {2**64}", "`seed` must be below"),
    "model": ({}, "a.tsv --split-as tatoeba_de", "mean 'tatoeba_.*en_zh"),
    "both": ({}, "a.tsv --split-as tatoeba_en_de --val 2", "leave out"),
    "pair": (
        {},
        "a.tsv --split-as tatoeba_en_de --languages en fr",
        "en and de",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line(name, run, elsewhere):
    files, words, message = BAD[name]
    write({"a.tsv": table(), **files})
    before = sorted(elsewhere.iterdir())
    result = run("data", "pairs", *words.split(), "--output", "new")
    check_refused(result, message)
    assert sorted(elsewhere.iterdir()) == before


def test_existing_folder_is_kept(run, elsewhere):
    write({"a.tsv": table()})
    os.mkdir("new")
    write({"new/mine": b"mine"})
    words = ["data", "pairs", "a.tsv", "--output", "new"]
    check_refused(run(*words), "new is there already")
    assert os.listdir("new") == ["mine"]


# === The texts of bundled models ===

VAL = [("Where is my old hat?", "Où est mon vieux chapeau ?")]
TEST = [("She sings in a choir.", "Elle chante."), ("He eats.", "Il mange.")]
SHARED = [("HE EATS!", "Il dévore."), ("She's singing.", "elle chante")]


@pytest.fixture
def stored(elsewhere, monkeypatch):
    """Stores hashes of the pairs above as those of the French models."""
    folder = elsewhere / "stored"
    folder.mkdir()
    monkeypatch.setattr(pairs_module, "_HASHES", folder)
    for part, pairs in (("val", VAL), ("test", TEST)):
        content = b"".join(map(pair_hash, pairs))
        (folder / f"en-fr.{part}").write_bytes(content)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_split_of_a_bundled_model_is_found(is_swapped, stored, run, elsewhere):
    pairs = [*PAIRS, *SHARED, *VAL, *TEST]
    # Another form of the same text.
    pairs = [(f" {one}", two.replace("ù", "u\u0300")) for one, two in pairs]
    words = ["a.tsv", "--split-as", "tatoeba_fr_en", "--output", "new"]
    if is_swapped:
        pairs = [pair[::-1] for pair in pairs]
        words += ["--languages", "fr", "en"]
    write({"a.tsv": table(pairs)})
    status, out, _ = run("data", "pairs", *words)
    assert status == 0
    expected = {"train": PAIRS, "val": VAL, "test": TEST}
    assert texts_of("new", ("en", "fr")) == expected
    assert "compared" not in out
    assert "2 with a sentence of val or test" in out


def test_other_archive_reports_missing_pairs(stored, elsewhere):
    words = dict(split_as="tatoeba_en_fr")
    write({"a.tsv": table([*PAIRS, *VAL, *TEST[1:]])})
    note = write_pairs(["a.tsv"], "new", **words).note
    assert "1 of the 2 pairs of test" in note and "2019-04-07" in note
    assert "val" not in note
    write({"a.tsv": table([*PAIRS, *VAL])})
    with pytest.raises(ValueError, match="none of the 2 pairs .* in test"):
        write_pairs(["a.tsv"], "other", **words)


def test_stored_hashes_have_the_documented_number():
    sizes = {"ja": (1000, 1000), "zh": (1000, 1000)}
    for path in pairs_module._HASHES.glob("*.val"):
        files = [path.read_bytes(), path.with_suffix(".test").read_bytes()]
        hashes = [
            {content[n : n + 6] for n in range(0, len(content), 6)}
            for content in files
        ]
        expected = sizes.get(path.stem[3:], (1500, 2000))
        assert tuple(map(len, hashes)) == expected
        assert not hashes[0] & hashes[1]


def test_command_in_a_new_process(elsewhere):
    pairs = [(f"word {n}", f"mot {n}") for n in range(30)]
    write(
        {"fra-eng.zip": lambda: archive(_about__txt="", fra__txt=table(pairs))}
    )
    command = [sys.executable, "-m", "relative_attention", "data", "pairs"]
    command += ["fra-eng.zip", "--languages", "en", "fr", "--output", "new"]
    root = pathlib.Path(pairs_module.__file__).parents[2]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        # Keras, which would take seconds, is not loaded: it has no such
        # backend.
        env={**os.environ, "PYTHONPATH": str(root), "KERAS_BACKEND": "none"},
    )
    assert done.returncode == 0, done.stderr
    assert "train: 24 pairs\nval: 3 pairs\ntest: 3 pairs\n" in done.stdout
    texts = texts_of("new", ("en", "fr"))
    assert sorted(itertools.chain(*texts.values())) == sorted(pairs)
    # Nothing but the texts is left in the folder and beside it.
    assert len(os.listdir("new")) == 6
    assert not [name for name in os.listdir() if name.startswith(".")]
