"""The corpora of WMT 2014, on stand-ins for what would be downloaded."""

import collections
import functools
import hashlib
import io
import os
import pathlib
import shutil
import sys
import tarfile

import pytest
import tensorflow_datasets as tfds
from sacrebleu.dataset import DATASETS

from relative_attention import InputError
from relative_attention.corpora import wmt14
from relative_attention.data.lines import read_lines

PAIRS = [
    ("Resumption of the session", "Wiederaufnahme der Sitzung"),
    ("a line\nof two", "eine Zeile\r\nvon zweien"),
    ("separated\u2028by Unicode", "und\u0085noch\x0ceins"),
    ("", "nothing to translate"),
    ("nothing but a break", "\n"),
    (" blanks at the ends ", "Leerzeichen\tbleiben  innen"),
]
TRAIN = [
    ("Resumption of the session", "Wiederaufnahme der Sitzung"),
    ("a line of two", "eine Zeile von zweien"),
    ("separated by Unicode", "und noch eins"),
    ("blanks at the ends", "Leerzeichen\tbleiben  innen"),
]
FILES = [
    f"{part}.{language}"
    for part in ("newstest2013", "newstest2014", "train")
    for language in ("de", "en")
]
# Lines of the test sets here; the real ones have thousands.
NUM_LINES = {"wmt13": 20, "wmt14/full": 23}
TEST_SETS = wmt14._TEST_SETS
GIGABYTE = 10**9
Room = collections.namedtuple("Room", "total used free")


def write_translations(directory, pairs=PAIRS):
    """`wmt14_translate/de-en` as tensorflow-datasets prepares it."""
    tfds.dataset_builders.store_as_tfds_dataset(
        name="wmt14_translate",
        config="de-en",
        version="1.0.0",
        data_dir=directory,
        features=tfds.features.Translation(languages=("de", "en")),
        split_datasets={
            "train": [
                (number, {"en": source, "de": target})
                for number, (source, target) in enumerate(pairs)
            ]
        },
        disable_shuffling=True,
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    write_translations(folder)
    return folder


def archive_of_test_set(name, languages, num_lines):
    """A `.tgz` as the organisers of WMT give it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, language in zip(
            DATASETS[name].langpairs[languages], languages.split("-")
        ):
            text = "".join(
                f'<seg id="{n}">{language} {name} {n}</seg>\n'
                for n in range(1, num_lines + 1)
            )
            content = f'<doc docid="a">\n{text}</doc>\n'.encode()
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def archives():
    return {
        name: archive_of_test_set(name, "en-de", num_lines)
        for name, num_lines in NUM_LINES.items()
    }


class Internet:
    """Serves archives by their addresses, and counts."""

    def __init__(self, archives):
        self.pages = {DATASETS[n].data[0]: a for n, a in archives.items()}
        self.num_calls = 0

    def __call__(self, url):
        self.num_calls += 1
        if url not in self.pages:
            raise OSError(f"no route to {url}")
        return io.BytesIO(self.pages[url])


@pytest.fixture
def internet(archives, monkeypatch, tmp_path):
    """sacreBLEU with a folder of its own and a stand-in for the network."""
    internet = Internet(archives)
    monkeypatch.setattr("urllib.request.urlopen", internet)
    test_sets = [(part, name, NUM_LINES[name]) for part, name, _ in TEST_SETS]
    monkeypatch.setattr(wmt14, "_TEST_SETS", test_sets)
    for name, archive in archives.items():
        folder, dataset = tmp_path / "sacrebleu" / name, DATASETS[name]
        monkeypatch.setattr(dataset, "_outdir", str(folder))
        monkeypatch.setattr(dataset, "_rawdir", str(folder / "raw"))
        checksum = hashlib.md5(archive).hexdigest()
        monkeypatch.setattr(dataset, "md5", [checksum])
    return internet


@pytest.fixture
def output(prepared, tmp_path):
    folder = tmp_path / "wmt14_en_de"
    shutil.copytree(prepared, folder / "tensorflow_datasets")
    return folder


@pytest.fixture(autouse=True)
def room(monkeypatch):
    """Free bytes on every disk; can be set."""
    room = {"free": 100 * GIGABYTE}
    monkeypatch.setattr(
        "shutil.disk_usage", lambda path: Room(0, 0, room["free"])
    )
    return room


@pytest.fixture
def run(run, output):
    """The command that every test here runs."""
    return functools.partial(run, "data", "wmt14_en_de", "--output", output)


@pytest.fixture
def refused(run):
    """`refused(*words)`: the command fails, and says this."""

    def refused(*words):
        status, _, err = run()
        assert status == 1
        assert all(word in err for word in words), err

    return refused


def lines(path):
    return list(read_lines(path))


def assert_complete(output):
    sides = (lines(output / f"train.{language}") for language in ("en", "de"))
    assert list(zip(*sides, strict=True)) == TRAIN
    for language in ("en", "de"):
        for part, name in (
            ("newstest2013", "wmt13"),
            ("newstest2014", "wmt14/full"),
        ):
            text = lines(output / f"{part}.{language}")
            assert len(text) == NUM_LINES[name]
            assert text[-1] == f"{language} {name} {NUM_LINES[name]}"


def test_all_files_are_written_once(run, internet, output, room):
    status, out, err = run()
    assert (status, out) == (0, f"corpus: {output}\n")
    assert_complete(output)
    written = {path.name for path in output.iterdir()}
    assert written == {*FILES, "tensorflow_datasets"}
    for words in ("13 GB on disk", "GB of memory", "an hour", "train: 4 pairs"):
        assert words in err
    # What is complete is not made again.
    before = {name: (output / name).stat().st_mtime_ns for name in FILES}
    shutil.rmtree(output / "tensorflow_datasets")
    internet.pages.clear()
    # And needs no room.
    room["free"] = 0
    status, _, err = run()
    assert status == 0
    assert err.count(": complete") == 3
    assert before == {
        name: (output / name).stat().st_mtime_ns for name in FILES
    }


@pytest.mark.parametrize("name", ["train.de", "newstest2014.en"])
def test_only_missing_files_are_made_again(name, run, internet, output):
    run()
    other = output / ("newstest2014.en" if name == "train.de" else "train.de")
    before = other.stat().st_mtime_ns
    path = output / name
    content = path.read_bytes()
    path.unlink()
    assert run()[0] == 0
    assert path.read_bytes() == content
    assert other.stat().st_mtime_ns == before


def test_nothing_is_written_when_the_disk_is_full(
    refused, internet, output, room
):
    room["free"] = 2 * GIGABYTE
    refused("too little room", "2.0 GB are free", "13 GB", "--output")
    assert internet.num_calls == 0
    assert [path.name for path in output.iterdir()] == ["tensorflow_datasets"]


def test_no_partial_text_is_left_when_interrupted(
    run, internet, output, monkeypatch
):
    def failing(*arguments):
        yield "one", "eins"
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(wmt14, "_training_pairs", failing)
        with pytest.raises(KeyboardInterrupt):
            wmt14.fetch_wmt14("wmt14_en_de", output, lambda line: None)
    assert not {"train.en", "train.de"} & set(os.listdir(output))
    assert not [name for name in os.listdir(output) if name.startswith(".")]
    assert run()[0] == 0
    assert_complete(output)
    # The test sets had been there.
    assert internet.num_calls == 2


def test_corpus_is_prepared_with_checksums(
    refused, internet, output, monkeypatch
):
    shutil.rmtree(output / "tensorflow_datasets")
    configs = []

    class Builder:
        """As long as nothing is prepared."""

        info = type("Info", (), {"splits": {}})

        def download_and_prepare(self, download_config):
            configs.append(download_config)
            raise OSError("the line is down")

    monkeypatch.setattr(tfds, "builder", lambda name, data_dir: Builder())
    refused(
        "cannot prepare wmt14_translate/de-en: OSError: the line is",
        "run the command again to resume",
    )
    (config,) = configs
    assert config.force_checksums_validation
    assert "train.en" not in os.listdir(output)


def test_missing_package_names_its_extra(refused, internet, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    refused("pip install '.[wmt]'")
    # Before anything is downloaded.
    assert internet.num_calls == 0


# === What sacreBLEU leaves undone ===


@pytest.mark.parametrize("state", ["cut", "text_cut"])
def test_interrupted_test_set_download_is_explained(
    state, run, refused, internet, output, archives
):
    dataset = DATASETS["wmt13"]
    (url,) = dataset.data
    raw = pathlib.Path(dataset._rawdir)
    raw.mkdir(parents=True)
    archive = archives["wmt13"]
    (raw / dataset._get_tarball_filename(url)).write_bytes(
        archive[:-50] if state == "cut" else archive
    )
    if state == "text_cut":
        for field in dataset.fieldnames("en-de"):
            path = pathlib.Path(dataset._outdir, f"wmt13.en-de.{field}")
            path.write_text("one line\n")
    refused(
        "sacreBLEU cannot get the test set wmt13",
        f"delete {dataset._outdir}, and try again",
    )
    shutil.rmtree(dataset._outdir)
    assert run()[0] == 0
    assert_complete(output)


def test_unavailable_test_set_is_refused(refused, internet, archives, output):
    (url,) = DATASETS["wmt13"].data
    # Another archive than the known.
    internet.pages[url] = archives["wmt14/full"]
    message = "sacreBLEU cannot get the test set wmt13"
    refused(message, DATASETS["wmt13"]._outdir)
    # No connection.
    internet.pages.clear()
    refused("https://statmt.org/wmt13/test.tgz")
    assert [path.name for path in output.iterdir()] == ["tensorflow_datasets"]


# === What needs no stand-in ===


def test_unknown_corpus_is_refused():
    with pytest.raises(InputError, match="'wmt15'.*Known: wmt14_en_de"):
        wmt14.fetch_wmt14("wmt15", "nowhere")
