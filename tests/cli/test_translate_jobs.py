"""`translate` of a file into a file: interrupted, gone on with, in shards."""

import gzip
import io
import shutil
import sys

import pytest

import relative_attention as ra
from relative_attention.runs import translate_text
from tests.cli.talkative import make_talkative

OPTIONS = {"num_beams": 2, "min_length": 4, "max_length": 6}
LINES = ["he paid ten euros.", "", "yes", "  ", "two cats", "ten", "six dogs"]
TEXTS = {
    "lf": "\n".join([*LINES, ""]).encode(),
    "crlf": "\r\n".join([*LINES, ""]).encode(),
    "no_final_newline": "\n".join(LINES).encode(),
    "byte_order_mark": "\n".join(["\ufeffyes", *LINES]).encode(),
}


@pytest.fixture(scope="module")
def trained(trained, tmp_path_factory):
    return make_talkative(trained, tmp_path_factory.mktemp("talkative") / "run")


@pytest.fixture(scope="module")
def translator(trained):
    return ra.load_translator(trained, **OPTIONS)


@pytest.fixture(autouse=True)
def quick(translator, monkeypatch):
    """Commands find the model loaded, and translate two lines at a time."""

    def load(directory, **settings):
        return ra.Translator(**{**vars(translator), **settings})

    monkeypatch.setattr("relative_attention.saving.load_translator", load)
    monkeypatch.setattr(translate_text, "CHUNK_LINES", 2)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(TEXTS["lf"])
    return path


@pytest.fixture
def output(tmp_path):
    return tmp_path / "folder" / "hypotheses"


@pytest.fixture
def interrupted(run, trained, source, output, monkeypatch):
    """`interrupted(*options)`: four lines are kept when Ctrl-C is pressed."""

    def interrupted(*options, lines=4, source=source):
        with monkeypatch.context() as patch:
            for name in ("search", "sample"):
                decode = getattr(ra.Translator, name)
                patch.setattr(ra.Translator, name, stop_after(lines, decode))
            status, out, err = run(*command(trained, source, output), *options)
        assert (status, out) == (130, "")
        assert "Interrupted. The same command goes on" in err
        assert names(output) == ["hypotheses.journal", "hypotheses.partial"]

    return interrupted


def stop_after(number, decode):
    left = [number]

    def stopped(self, lines, *rest, **more):
        left[0] -= len(lines)
        if left[0] < 0:
            raise KeyboardInterrupt
        return decode(self, lines, *rest, **more)

    return stopped


def command(model, source, output):
    return ["translate", model, "--input", source, "--output", output]


def names(output):
    return sorted(path.name for path in output.parent.iterdir())


def snapshot(output):
    return {path.name: path.read_bytes() for path in output.parent.iterdir()}


@pytest.fixture
def prefixes(tmp_path):
    path = tmp_path / "prefixes"
    path.write_text("zwei\n\n\n\nnull\nzwei\n\n")
    return path


# === Interrupted ===


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--nbest", 2],
        ["--sample", "--seed", 3, "--nbest", 2],
        ["--prefix"],
        ["--shard", "1/1", "--overwrite"],
    ],
    ids=lambda options: " ".join(map(str, options)) or "plain",
)
def test_same_command_goes_on_with_the_same_lines(
    options, interrupted, run, trained, source, output, prefixes, tmp_path
):
    if "--prefix" in options:
        options = ["--prefix", prefixes]
    whole = tmp_path / "whole"
    assert run(*command(trained, source, whole), *options)[0] == 0
    assert len(set(whole.read_text().splitlines())) > 3
    interrupted(*options)
    # Half of a line, and some of the next chunk, is cut off.
    with open(output.with_name("hypotheses.partial"), "ab") as file:
        file.write("zwei H\u00e4".encode()[:-1])
    options = [option for option in options if option != "--overwrite"]
    status, out, err = run(*command(trained, source, output), *options)
    assert (status, out, err) == (0, "", "Going on after 4 lines.\n")
    assert snapshot(output) == {"hypotheses": whole.read_bytes()}


@pytest.mark.parametrize("kind", [*TEXTS, "gz"])
def test_text_of_any_kind_is_gone_on_with(
    kind, interrupted, run, trained, tmp_path, output, translator
):
    text = TEXTS.get(kind, TEXTS["lf"])
    source = tmp_path / ("text.gz" if kind == "gz" else "text")
    source.write_bytes(gzip.compress(text) if kind == "gz" else text)
    _, expected, _ = run("translate", trained, stdin=text)
    interrupted(lines=2, source=source)
    assert run(*command(trained, source, output))[0] == 0
    assert output.read_text() == expected
    lines = ["yes", *LINES] if kind == "byte_order_mark" else LINES
    assert expected.splitlines() == translator.translate(lines)


def test_text_without_a_line_gives_one(run, trained, tmp_path, output):
    (tmp_path / "empty").touch()
    status, out, err = run(*command(trained, tmp_path / "empty", output))
    assert (status, out, err) == (0, "", "")
    assert snapshot(output) == {"hypotheses": b""}


def test_old_output_stays_until_the_new_one_is_whole(
    interrupted, run, trained, source, output, translator
):
    output.parent.mkdir()
    output.write_text("from before")
    with pytest.raises(AssertionError):  # The old output is there, too.
        interrupted()
    assert output.read_text() == "from before"
    assert run(*command(trained, source, output))[0] == 0
    assert snapshot(output) == {
        "hypotheses": as_text(translator.translate(LINES))
    }


def as_text(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def test_lines_that_were_cut_are_counted_over_all(
    interrupted, run, trained, source, output, translator
):
    source.write_text("yes yes yes\n" * 7)
    shorter = {**vars(translator), "max_source_length": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "relative_attention.saving.load_translator",
            lambda *_, **__: ra.Translator(**shorter),
        )
        interrupted()
        _, _, err = run(*command(trained, source, output))
    assert "7 lines were cut at 3 tokens" in err


def test_time_left_is_told_each_minute(
    run, trained, source, output, monkeypatch
):
    """In the log of a job; the clock here goes 40 seconds at each look."""
    seconds = iter(range(0, 10**6, 40))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    _, _, err = run(*command(trained, source, output))
    assert err.count(" of 7 lines, ") == err.count("\n")
    assert 2 <= err.count("\n") <= 4


def test_time_left_is_written_over_on_a_terminal(
    run, trained, source, output, monkeypatch
):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    assert run(*command(trained, source, output))[0] == 0
    err = sys.stderr.getvalue()
    assert err.startswith("\r2 of 7 lines, ")
    assert err.split("\r")[-1].startswith("7 of 7 lines, ")
    assert err.endswith("0:00:00 left\x1b[K\n")


# === Shards ===


@pytest.mark.parametrize("num_shards", [1, 2, 3, 9])
@pytest.mark.parametrize(
    "options",
    [[], ["--nbest", 2], ["--sample", "--seed", 3], ["--prefix"]],
    ids=lambda options: " ".join(map(str, options)) or "plain",
)
def test_shards_in_order_are_the_whole(
    options, num_shards, run, trained, source, prefixes, tmp_path
):
    if options == ["--prefix"]:
        options = ["--prefix", prefixes]
    whole = tmp_path / "whole"
    assert run(*command(trained, source, whole), *options)[0] == 0
    parts = [tmp_path / f"part-{n}" for n in range(num_shards)]
    for number, part in enumerate(parts, start=1):
        shard = ["--shard", f"{number}/{num_shards}"]
        assert run(*command(trained, source, part), *options, *shard)[0] == 0
    assert b"".join(p.read_bytes() for p in parts) == whole.read_bytes()
    # None of them is idle where there are chunks enough.
    if num_shards < 4:
        assert all(part.stat().st_size for part in parts)


def test_shard_is_gone_on_with(interrupted, run, trained, source, output):
    shard = ["--nbest", 2, "--shard", "2/2"]
    arguments = ["translate", trained, "--input", source]
    _, expected, _ = run(*arguments, *shard)
    assert expected.startswith("5\t")
    interrupted(*shard, lines=2)
    assert run(*command(trained, source, output), *shard)[0] == 0
    assert output.read_text() == expected


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "1/0", "a/b", "-1/3"])
def test_shard_that_there_is_not_is_refused(
    shard, run, trained, source, output
):
    status, out, err = run(
        *command(trained, source, output), f"--shard={shard}"
    )
    assert (status, out) == (1, "")
    assert err == (
        "relative-attention: --shard must be I/N, from 1/N to N/N for N "
        f"parts. Received: {shard}.\n"
    )
    assert not output.parent.exists()


def test_shard_needs_a_file(run, trained):
    status, out, err = run("translate", trained, "--shard=1/2", stdin=b"yes\n")
    assert (status, out) == (1, "")
    assert "give it with `--input F`. Received: standard input" in err


# === What is refused, and what is lost by it: nothing ===


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-beams", 3], "another --num-beams (2, now 3)"),
        (["--length-penalty", 1], "another --length-penalty (0.6, now 1.0)"),
        (["--max-length", 5], "another --max-length (6, now 5)"),
        (["--nbest", 2], "another --nbest (none, now 2)"),
        (["--sample"], "another --sample (False, now True)"),
        (["--shard", "1/2"], "another --shard (none, now 1/2)"),
        (["--prefix"], "another --prefix"),
        (["--input"], "another --input"),
        (["--model"], "another model"),
    ],
    ids=lambda value: " ".join(map(str, value)) if value[0] == "-" else "",
)
def test_other_translations_are_refused_until_told_to_overwrite(
    options, message, interrupted, run, trained, source, output, prefixes
):
    interrupted()
    model = trained
    if options == ["--prefix"]:
        options = ["--prefix", prefixes]
    elif options == ["--input"]:
        options = []
        source.write_bytes(TEXTS["lf"].replace(b"ten", b"six"))
    elif options == ["--model"]:
        options = []
        model = shutil.copytree(trained, output.parents[1] / "model")
        with open(model / "model.safetensors", "ab") as file:
            file.write(b" ")
    before = snapshot(output)
    status, out, err = run(*command(model, source, output), *options)
    assert (status, out) == (1, "")
    assert err.startswith("relative-attention: ") and err.count("\n") == 1
    assert f"hypotheses.partial was begun with {message}. Resume" in err
    assert "Or pass `--overwrite` to start again" in err
    assert snapshot(output) == before
    options = [*options, "--overwrite"]
    assert run(*command(model, source, output), *options)[0] == 0
    assert names(output) == ["hypotheses"]


def test_same_model_and_text_elsewhere_are_the_same(
    interrupted, run, trained, source, output
):
    """A batch may be smaller, too: for want of memory."""
    interrupted()
    model = shutil.copytree(trained, output.parents[1] / "model")
    moved = source.rename(source.with_name("moved"))
    options = ["--batch-tokens", 64]
    status, _, err = run(*command(model, moved, output), *options)
    assert (status, err) == (0, "Going on after 4 lines.\n")


def test_invalid_text_is_refused_before_any_work(
    run, trained, source, output, monkeypatch
):
    source.write_bytes(b"yes\nten\n\xff\n")
    monkeypatch.setattr(
        "relative_attention.cli.command.load_models",
        lambda *_, **__: pytest.fail("it began to work"),
    )
    status, out, err = run(*command(trained, source, output))
    assert (status, out) == (1, "")
    assert f"{source}, line 3: not valid UTF-8" in err
    assert not output.parent.exists()
