"""`translate` and `score` between other programs, and at a terminal."""

import io
import os
import select
import subprocess
import sys

import pytest

import relative_attention as ra
from relative_attention.cli import main

OPTIONS = ["--num-beams=2", "--min-length=4", "--max-length=6"]


@pytest.fixture(scope="module")
def translator(trained):
    return ra.load_translator(trained, num_beams=2, min_length=4, max_length=6)


@pytest.fixture
def given(translator, monkeypatch):
    """Commands find the model loaded; the settings that they ask for."""
    given = {}

    def load(directory, **settings):
        given.update(settings)
        return ra.Translator(**{**vars(translator), **settings})

    monkeypatch.setattr("relative_attention.saving.load_translator", load)
    return given


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def check_one_line(err, *messages):
    assert err.startswith("relative-attention: ") and err.count("\n") == 1
    for message in messages:
        assert message in err


@pytest.mark.large
def test_slow_writer_is_answered_line_by_line(trained, translator):
    with subprocess.Popen(
        [sys.executable, "-c", _COMMAND, "translate", str(trained), *OPTIONS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        try:
            for line in ("yes", "two cats"):
                process.stdin.write(f"{line}\n".encode())
                # Without an end, nor two thousand lines.
                assert select.select([process.stdout], [], [], 120)[0]
                (expected,) = translator.translate([line])
                assert process.stdout.readline().decode() == f"{expected}\n"
            process.stdin.close()
            assert process.stdout.read() == b""
            assert process.wait(60) == 0
        finally:
            process.kill()


_COMMAND = (
    "import sys; from relative_attention.cli import main; sys.exit(main())"
)


@pytest.mark.usefixtures("given")
def test_fast_writer_is_translated_in_large_batches(
    trained, translator, monkeypatch, capsysbinary
):
    sizes = []
    search = ra.Translator.search
    monkeypatch.setattr(
        ra.Translator,
        "search",
        lambda self, lines, *rest, **more: (
            sizes.append(len(lines)) or search(self, lines, *rest, **more)
        ),
    )
    read, write = os.pipe()
    os.write(write, b"yes\n" * 700)
    os.close(write)
    with os.fdopen(read) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["translate", str(trained)]) == 0
    assert sizes == [700]
    assert capsysbinary.readouterr().out.count(b"\n") == 700


@pytest.mark.usefixtures("given")
def test_counter_stands_in_no_terminal_with_translations(
    trained, translator, monkeypatch
):
    streams = {
        name: Terminal(io.BytesIO(), write_through=True)
        for name in ("stdin", "stdout", "stderr")
    }
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    typed = iter(["yes"])
    monkeypatch.setattr("builtins.input", lambda _: _next(typed))
    assert main(["translate", str(trained)]) == 0
    err = streams["stderr"].buffer.getvalue().decode()
    assert err == "One line at a time; Ctrl-D ends.\n"
    (expected,) = translator.translate(["yes"])
    assert streams["stdout"].buffer.getvalue().decode() == f"{expected}\n"


def _next(lines):
    try:
        return next(lines)
    except StopIteration:
        raise EOFError from None


@pytest.mark.parametrize(
    ("closed", "message"),
    [
        ("stdin", "Standard input is closed. Give the text with `--input F`"),
        ("stdout", "Standard output is closed. Name a file with `--output F`"),
    ],
)
def test_closed_stream_is_an_error(
    closed, message, trained, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"yes\n")))
    monkeypatch.setattr(sys, closed, None)
    assert main(["translate", str(trained)]) == 1
    check_one_line(capsys.readouterr().err, message)


def test_closed_output_of_scores_is_an_error(
    trained, corpus, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "stdout", None)
    source = str(corpus / "test.en")
    arguments = ["score", str(trained), "--source", source, "--target", source]
    assert main(arguments) == 1
    check_one_line(capsys.readouterr().err, "Standard output is closed")


@pytest.mark.usefixtures("given")
def test_closed_error_output_is_not_mixed_with_results(
    run, trained, translator, monkeypatch
):
    monkeypatch.setattr(sys, "stderr", None)
    status, out, _ = run("translate", trained, stdin=b"yes\n")
    (expected,) = translator.translate(["yes"])
    assert (status, out) == (0, f"{expected}\n")
    assert run("translate", trained, "--nbest", "0")[:2] == (1, "")
    sys.stderr.close()


def test_score_of_nothing_is_an_error(run, trained, tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    status, out, err = run(
        "score", trained, "--source", empty, "--target", empty
    )
    assert (status, out) == (1, "")
    check_one_line(err, "there is nothing to score")


@pytest.mark.usefixtures("load_once")
def test_score_reads_pipes(run, trained, corpus):
    """As a shell's `<(...)`, which can be read once."""
    descriptors = []
    for name in ("test.en", "test.de"):
        read, write = os.pipe()
        os.write(write, (corpus / name).read_bytes())
        os.close(write)
        descriptors.append(read)
    source, target = (f"/dev/fd/{number}" for number in descriptors)
    if not os.path.exists(source):
        pytest.skip("this system has no /dev/fd")
    status, out, err = run(
        "score", trained, "--source", source, "--target", target
    )
    for number in descriptors:
        os.close(number)
    assert status == 0, err
    assert out.count("\n") == 20


# === A prefix, and the tokens of a batch ===


@pytest.fixture
def texts(tmp_path):
    """`texts(source, prefixes)` writes both, returns options that name them."""

    def write(source, prefixes):
        (tmp_path / "source").write_text(source)
        (tmp_path / "prefixes").write_text(prefixes)
        return (
            "--input",
            tmp_path / "source",
            "--prefix",
            tmp_path / "prefixes",
        )

    return write


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("arguments", [[], ["--sample", "--seed=3"]], ids=str)
def test_translations_begin_with_their_prefixes(
    arguments, run, trained, translator, texts, monkeypatch
):
    monkeypatch.setattr("relative_attention.runs.translate_text.CHUNK_LINES", 2)
    lines, prefixes = ["yes", "two cats", "", "ten"], ["zwei", "", "", "null"]
    status, out, err = run(
        "translate",
        trained,
        *texts("\n".join(lines), "\n".join(prefixes)),
        *arguments,
    )
    assert (status, err) == (0, "")
    decode = translator.sample if arguments else translator.search
    seed = {"seed": 3} if arguments else {}
    expected = decode(lines, target_prefixes=prefixes, **seed)
    assert out == "".join(f"{result.text}\n" for result in expected)
    assert out.startswith("zwei")


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("from_pipe", [False, True])
@pytest.mark.parametrize("prefixes", ["zwei\n", "a\nb\nc\n"])
def test_prefixes_of_another_number_are_refused(
    prefixes, from_pipe, run, trained, texts, tmp_path
):
    options = texts("yes\nten\n", prefixes)
    output = tmp_path / "hypotheses"
    status, out, err = run(
        "translate",
        trained,
        "--output",
        output,
        *options[2 if from_pipe else 0 :],
        stdin=b"yes\nten\n",
    )
    assert (status, out) == (1, "")
    check_one_line(err, "--prefix must have a line, if an empty one, for each")
    assert not output.exists()


def test_prefix_needs_a_text(run, trained, texts):
    options = texts("yes\n", "zwei\n")[2:]
    status, out, err = run("translate", trained, *options, stream=Terminal)
    assert (status, out) == (1, "")
    check_one_line(err, "Give the text with `--input F`")


def test_tokens_of_a_batch_are_passed_on(run, trained, given):
    assert (
        run("translate", trained, "--batch-tokens", 7, stdin=b"yes\n")[0] == 0
    )
    assert given == {"batch_tokens": 7}
    status, _, err = run(
        "translate", trained, "--batch-tokens", 0, stdin=b"yes\n"
    )
    assert status == 1
    check_one_line(err, "`batch_tokens` must be at least 1")


def test_beam_too_wide_is_refused(run, trained):
    status, out, err = run(
        "translate", trained, "--num-beams", 10**6, stdin=b"yes\n"
    )
    assert (status, out) == (1, "")
    check_one_line(err, "`num_beams` must be at most 335,544 with a vocabulary")


def test_batch_too_large_for_the_memory_is_an_error(
    run, trained, given, monkeypatch
):
    def search(*arguments, **keywords):
        raise MemoryError

    monkeypatch.setattr(ra.Translator, "search", search)
    status, out, err = run("translate", trained, stdin=b"yes\n")
    assert (status, out) == (1, "")
    check_one_line(err, "Lower --batch-tokens, now 8192, or --num-beams, now 2")
