"""`translate` of a file into a file: interrupted, resumed, in shards."""

import re
import shutil
import sys

import pytest

import relative_attention as ra
from relative_attention.saving import translate_text
from tests.cli.conftest import check_refused
from tests.runs.conftest import snapshot

LINES = ["he paid ten euros.", "", "yes", "  ", "two cats", "ten", "six dogs"]
TEXT = "\n".join([*LINES, ""]).encode()


@pytest.fixture
def quick(translator, monkeypatch):
    """Commands find the model loaded, and translate two lines at a time."""

    def load(directory, engine=None, checkpoint=None, **settings):
        return ra.Translator(**{**vars(translator), **settings})

    monkeypatch.setattr("relative_attention.saving.load_translator", load)
    monkeypatch.setattr(translate_text, "CHUNK_LINES", 2)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def output(tmp_path):
    return tmp_path / "folder" / "hypotheses"


@pytest.fixture
def translate(run, model, source, output, quick):
    """`translate(*options)`: from `source` to `output`, if not told else."""

    def translate(*options, model=model, source=source, output=output):
        paths = ("--input", source, "--output", output)
        return run("translate", model, *paths, *options)

    return translate


@pytest.fixture
def interrupted(translate, output, monkeypatch):
    """`interrupted(*options)`: four lines are kept when Ctrl-C is pressed."""

    def interrupted(*options, lines=4, **paths):
        with monkeypatch.context() as patch:
            for name in ("search", "sample", "translate_lines"):
                decode = getattr(ra.Translator, name)
                patch.setattr(ra.Translator, name, stop_after(lines, decode))
            status, out, err = translate(*options, **paths)
        assert (status, out) == (130, "")
        assert "Interrupted. Rerun the same command" in err
        assert names(output) == ["hypotheses.parts"]

    return interrupted


def stop_after(number, decode):
    left = [number]

    def stopped(self, lines, *rest, **more):
        left[0] -= len(lines)
        if left[0] < 0:
            raise KeyboardInterrupt
        return decode(self, lines, *rest, **more)

    return stopped


def names(output):
    return sorted(path.name for path in output.parent.iterdir())


@pytest.fixture
def prefixes(tmp_path):
    path = tmp_path / "prefixes"
    path.write_text("zwei\n\n\n\nnull\nzwei\n\n")
    return path


# === Interrupted ===


@pytest.mark.parametrize(
    "options",
    [
        ["--nbest", 2, "--overwrite"],
        ["--sample", "--seed", 3],
        ["--prefix"],
        ["--nbest", 2, "--shard", "2/2"],
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_output_is_the_same_when_a_job_is_resumed(
    options, interrupted, translate, output, prefixes, tmp_path
):
    if "--prefix" in options:
        options = ["--prefix", prefixes]
    whole = tmp_path / "whole"
    assert translate(*options, output=whole)[0] == 0
    # The second of two shards has three lines.
    interrupted(*options, lines=2 if "--shard" in options else 4)
    # A kill while a part is written leaves it under a hidden name.
    parts = output.with_name("hypotheses.parts")
    (parts / ".00000002-1234abcd").write_bytes(b"zwei H")
    options = [option for option in options if option != "--overwrite"]
    status, out, err = translate(*options)
    assert (status, out) == (0, "")
    assert re.fullmatch(r"Resuming after [24] lines\.\n", err)
    assert names(output) == ["hypotheses"]
    assert output.read_bytes() == whole.read_bytes()


def test_cut_lines_of_all_parts_are_counted_when_resumed(
    interrupted, translate, source, translator, monkeypatch
):
    source.write_text("yes yes yes\n" * 7)
    monkeypatch.setattr(translator, "max_source_length", 3)
    interrupted()
    _, _, err = translate()
    assert "7 lines were cut at 3 tokens" in err
    assert err.endswith(": lines 1, 2, 3, 4, 5 and 2 more\n")


def test_progress_is_logged_every_minute(translate, monkeypatch):
    """In the log of a job; the clock here goes 40 seconds at each look."""
    seconds = iter(range(0, 10**6, 40))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    _, _, err = translate()
    assert err.count(" of 7 lines, ") == err.count("\n")
    assert 2 <= err.count("\n") <= 4


# === Shards ===


@pytest.mark.parametrize("num_shards", [3, 9])
def test_concatenated_shards_equal_the_whole_output(
    num_shards, translate, prefixes, tmp_path
):
    options = ["--nbest", 2, "--prefix", prefixes]
    whole = tmp_path / "whole"
    assert translate(*options, output=whole)[0] == 0
    parts = [tmp_path / f"part-{n}" for n in range(num_shards)]
    for number, part in enumerate(parts, start=1):
        shard = ["--shard", f"{number}/{num_shards}"]
        assert translate(*options, *shard, output=part)[0] == 0
    assert b"".join(p.read_bytes() for p in parts) == whole.read_bytes()
    # None of them is idle where there are chunks enough.
    if num_shards < 4:
        assert all(part.stat().st_size for part in parts)


@pytest.mark.parametrize("shard", ["4/3", "a/b"])
def test_shard_is_refused_when_out_of_range(shard, translate, output):
    assert translate(f"--shard={shard}") == (
        1,
        "",
        "relative-attention: --shard must be I/N, from 1/N to N/N for N "
        f"parts. Received: {shard}.\n",
    )
    assert not output.parent.exists()


# === What is refused, and what is lost by it: nothing ===


def test_job_with_other_settings_is_refused_unless_overwritten(
    interrupted, translate, source, output, prefixes, model
):
    interrupted()
    before = snapshot(output.parent)
    other = copy_of(model, output)
    with open(other / "model.safetensors", "ab") as file:
        file.write(b" ")
    text = source.with_name("other")
    text.write_bytes(TEXT.replace(b"ten", b"six"))
    for options, paths, message in (
        (["--num-beams", 2], {}, r"another --num-beams \(3, now 2\)"),
        (["--shard", "1/2"], {}, r"another --shard \(none, now 1/2\)"),
        (["--prefix", prefixes], {}, "another --prefix"),
        ([], {"source": text}, "another --input"),
        ([], {"model": other}, "another model"),
        (
            ["--engine", "ctranslate2"],
            {},
            r"another --engine \(none, now ctranslate2\)",
        ),
    ):
        check_refused(
            translate(*options, **paths),
            f"hypotheses.parts was begun with {message}. Resume.*Or pass "
            "`--overwrite` to start again",
        )
    assert snapshot(output.parent) == before
    assert translate("--num-beams", 2, "--overwrite")[0] == 0
    assert names(output) == ["hypotheses"]


def copy_of(model, output):
    return shutil.copytree(model, output.parents[1] / "model")


def test_job_is_resumed_when_model_and_text_were_moved(
    interrupted, translate, model, source, output
):
    """A batch may be smaller, too: for want of memory."""
    interrupted()
    moved = source.rename(source.with_name("moved"))
    result = translate(
        "--batch-tokens", 64, model=copy_of(model, output), source=moved
    )
    assert result == (0, "", "Resuming after 4 lines.\n")


def test_job_from_a_checkpoint_is_resumed_from_that_one_alone(
    interrupted, translate, trained
):
    interrupted("--checkpoint", 8, model=trained)
    for options in (["--checkpoint", 12], []):
        check_refused(translate(*options, model=trained), "another model")
    assert translate("--checkpoint", 8, model=trained) == (
        0,
        "",
        "Resuming after 4 lines.\n",
    )


COMMAND = """
import sys
from relative_attention.cli import main

status = main(sys.argv[1:])
with open("/proc/self/status") as file:
    print(*(line for line in file if line.startswith("VmHWM")))
sys.exit(status)
"""


@pytest.mark.large
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_text(model, run_python, tmp_path):
    peaks = []
    # Four lines, two of them blank and long.
    lines = "ten\n" + " " * 500 + "\ntwo cats\n" + " " * 500 + "\n"
    for num_lines in (20_000, 200_000):
        source, output = tmp_path / f"{num_lines}", tmp_path / "hypotheses"
        source.write_text(lines * (num_lines // 4))
        words = ["translate", model, "--num-beams=1", "--max-length=2"]
        words += ["--input", source, "--output", output]
        out = run_python(COMMAND, *words, CUDA_VISIBLE_DEVICES="")
        assert output.read_bytes().count(b"\n") == num_lines
        peaks.append(int(out.split()[1]))
    # In kilobytes: the text that the second has more of takes 45 MB.
    assert peaks[1] - peaks[0] < 20_000, peaks
