"""`relative-attention translate`: lines in, lines out."""

import codecs
import gzip
import io
import os
import select
import subprocess
import sys
import threading

import pytest

import relative_attention as ra
from relative_attention.cli import main
from relative_attention.saving import translate_text
from tests.cli.conftest import check_refused

LINES = ["he paid ten euros.", "", "yes", "  ", "two cats and six dogs"]
MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def as_text(lines):
    return "".join(f"{line}\n" for line in lines)


def as_table(found):
    return as_text(
        f"{number}\t{result.score:.6f}\t{result.text}"
        for number, results in enumerate(found, start=1)
        for result in results
    )


@pytest.fixture
def translate(run, model, load_once):
    def translate(*arguments, **given):
        return run("translate", model, *arguments, **given)

    return translate


@pytest.fixture(scope="module")
def expected(translator):
    texts = translator.translate(LINES)
    assert len(set(texts)) > 2
    return as_text(texts)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_text(as_text(LINES))
    return path


# === What is read and written ===


@pytest.mark.parametrize(
    "text",
    [as_text(LINES).encode(), codecs.BOM_UTF8 + "\r\n".join(LINES).encode()],
    ids=["unix", "windows"],
)
def test_every_line_is_translated(text, translate, expected, tmp_path):
    assert translate(stdin=text) == (0, expected, "")
    source = tmp_path / "source.gz"
    source.write_bytes(gzip.compress(text))
    output = tmp_path / "output"
    assert translate("--input", source, "--output", output) == (0, "", "")
    assert output.read_text() == expected
    # The text may be written over.
    output.write_bytes(text)
    assert translate("--input", output, "--output", output) == (0, "", "")
    assert output.read_text() == expected


def test_empty_lines_stay_empty(translate):
    assert translate(stdin=b"") == (0, "", "")
    # Unicode's line breaks are text.
    lines = "\n\n\r\n\u2028\x85\n".encode()
    assert translate(stdin=lines) == (0, "\n" * 4, "")


def test_nbest_writes_number_score_and_text(translate, translator, source):
    for nbest in (1, 3):
        found = translator.search(LINES, num_results=nbest)
        status, out, _ = translate("--nbest", nbest, "--input", source)
        assert (status, out) == (0, as_table(found))
    numbers = [line.split("\t")[0] for line in out.splitlines()]
    # An empty line has one translation.
    assert numbers == sorted(numbers) and set(numbers) == {*"12345"}
    assert numbers.count("1") == 3
    assert numbers.count("2") == numbers.count("4") == 1


def test_output_is_unchanged_when_input_is_invalid(
    translate, tmp_path, monkeypatch
):
    monkeypatch.setattr(translate_text, "CHUNK_LINES", 1)
    source, output = tmp_path / "source", tmp_path / "hypotheses"
    source.write_bytes(b"yes\nten\n\xff\n")
    arguments = ["--input", source, "--output", output]
    message = f"{source}, line 3: not valid UTF-8"
    check_refused(translate(*arguments), message)
    assert list(tmp_path.iterdir()) == [source]
    output.write_text("from before")
    check_refused(translate(*arguments), message)
    assert output.read_text() == "from before"
    # To standard output they go as they come.
    assert translate("--input", source)[1].count("\n") == 2
    status, out, err = translate(stdin=b"yes\n\xff\n")
    assert "standard input, line 2: not valid UTF-8" in err


def test_cut_lines_are_reported(translate):
    long = b"x" * 100_000
    status, out, err = translate(stdin=b"ten\n" + long + b"\n")
    assert (status, out.count("\n")) == (0, 2)
    told = "cut at 512 tokens (`decoding.max_source_length` of the recipe)"
    assert err == f"1 line was {told}: line 2\n"
    _, _, err = translate(stdin=(long + b"\n") * 7)
    assert err == f"7 lines were {told}: lines 1, 2, 3, 4, 5 and 2 more\n"


def test_lines_longer_than_training_text_are_reported(translate, translator):
    most, line = translator.trained_source_length, "yes."
    while len(translator.vocabulary.encode([line])[0]) + 1 <= most:
        familiar, line = line, f"{line} yes."
    text = as_text([line, familiar, line])
    _, _, err = translate("--no-split-sentences", stdin=text.encode())
    told = f"2 lines are longer than nearly all of the training text ({most} "
    assert err.startswith(told) and err.endswith("-sentences`: lines 1, 3\n")
    assert translate(stdin=text.encode())[2] == ""


# === Several sentences ===

SENTENCES = ["Dr. Lee has ten cats.", "Yes!", "Two dogs?"]
PARAGRAPHS = "  {}  {}\n\n \n{}\nyes\n".format(*SENTENCES).encode()


def test_sentences_of_a_line_are_translated_separately(translate, translator):
    # The run had `train.en`.
    assert translator.source_language == "en"
    first, second, *others = translator.translate([*SENTENCES, "yes"])
    out = as_text([f"{first} {second}", "", "", *others])
    assert translate(stdin=PARAGRAPHS) == (0, out, "")
    assert translate("--split-sentences", stdin=PARAGRAPHS) == (0, out, "")
    (whole,) = translator.translate([" ".join(SENTENCES[:2])], 1)
    status, out, _ = translate("--no-split-sentences", stdin=PARAGRAPHS)
    assert (status, out.split("\n")[0]) == (0, whole[0])
    # One translation of a line is split.
    status, out, _ = translate("--nbest=1", stdin=PARAGRAPHS)
    assert out.split("\n")[0].split("\t")[2] == whole[0]


def test_unknown_source_language_is_reported_once(
    translate, translator, monkeypatch
):
    monkeypatch.setattr(translator, "source_language", None)
    status, out, err = translate(stdin=PARAGRAPHS * 2)
    assert (status, out.count("\n")) == (0, 10)
    assert err.count("\n") == 1
    assert err.startswith("Lines with several sentences were not split, as the")
    for words in (["--no-split-sentences"], ["--nbest=1"]):
        assert translate(*words, stdin=PARAGRAPHS)[2] == ""
    assert translate(stdin=b"Yes.\n")[2] == ""
    check_refused(
        translate("--split-sentences", stdin=b"Yes.\n"),
        "--split-sentences needs the language of the source",
    )


# === Options ===


def test_alignments_follow_the_translations(translate, translator, source):
    found = translator.search(LINES, 2, return_alignment=True)
    links = [
        [" ".join(f"{i}-{j}" for i, j in one.alignment) for one in results]
        for results in found
    ]
    assert any(map(any, links))
    _, out, _ = translate("--input", source, "--alignments")
    assert out == "".join(
        f"{results[0].text}\t{of_one[0]}\n"
        for results, of_one in zip(found, links)
    )
    _, out, _ = translate("--input", source, "--alignments", "--nbest=2")
    table = as_table(found).splitlines()
    ends = [link for of_one in links for link in of_one]
    assert out.splitlines() == [
        f"{row}\t{end}" for row, end in zip(table, ends, strict=True)
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--nbest=99", "Received: 99. --num-beams asks"),
        ("--sample --nbest=0", "--nbest must be at least 1"),
        ("--sample --temperature=0", "temperature=0"),
        ("--top-k=5", "--top-k says how to draw; add --sample"),
        ("--sample --num-beams=3", "--num-beams is for a search; leave it"),
        ("--sample --length-penalty=1", "--length-penalty is for a search"),
        ("--sample --no-repeat-ngram=2", "--no-repeat-ngram is for a search"),
        ("--sample --engine=ctranslate2", "--engine is for a search"),
        ("--alignments --engine=ctranslate2", "leave out --engine"),
        ("--alignments --split-sentences", "exclude one another: words"),
        (
            "--shard=1/2",
            "give it with `--input FILE`. Received: standard input",
        ),
        ("--split-sentences --nbest=2", "and --nbest exclude one another"),
        ("--split-sentences --prefix=x", "and --prefix exclude one another"),
    ],
)
def test_invalid_options_are_refused(arguments, message, translate, tmp_path):
    output = tmp_path / "hypotheses"
    arguments = ["--output", output, *arguments.split()]
    check_refused(translate(*arguments, stdin=b"yes\n"), message)
    assert not list(tmp_path.iterdir())


def test_invalid_paths_are_refused_before_translating(
    run, model, source, monkeypatch
):
    monkeypatch.setattr(
        ra.Translator,
        "translate_lines",
        lambda *_, **__: pytest.fail("it translates"),
    )
    folder = source.parent
    for options, message in (
        (["--output", folder], "is a folder"),
        (["--output", source / "name"], "source is no folder"),
        (["--output", folder / "new.gz"], "not compressed"),
        (["--output", ""], "name of an output is empty"),
        (["--prefix", source, "--output", source], "is given twice"),
        (["--glossary", source, "--output", source], "is given twice"),
        (["--input", folder / "a", "--output", folder / "b"], "No such file: "),
    ):
        result = run("translate", model, *options, stdin=b"yes\n")
        check_refused(result, message)
        assert list(folder.iterdir()) == [source]


def test_out_of_memory_names_the_options_to_lower(translate, monkeypatch):
    def search(*arguments, **keywords):
        raise MemoryError

    monkeypatch.setattr(ra.Translator, "translate_lines", search)
    message = "not enough memory. Lower --batch-tokens or --num-beams."
    check_refused(translate(stdin=b"yes\n"), message)


# === What must not be translated ===


@pytest.fixture
def terms(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("cats\tKatzen-X\n\nsix dogs\tHunde-Y\n")
    return path


def test_terms_are_in_the_translation(
    translate, translator, monkeypatch, terms
):
    monkeypatch.setattr(translator, "placeholders", True)
    text = as_text(LINES).encode()
    options = ["--keep", "te.", "--keep", "^yes$", "--glossary", terms]
    status, out, err = translate(*options, stdin=text)
    lines = out.split("\n")
    assert (status, err, len(lines)) == (0, "", 6)
    assert "ten" in lines[0] and lines[2] == "yes"
    assert "Katzen-X" in lines[4] and "Hunde-Y" in lines[4]
    # A prefix needs each line as it is.
    drawn = translate("--sample", "--top-k=1", *options, stdin=text)
    assert "Katzen-X" not in drawn[1]


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("--glossary", "a\tb", "need a model that carries signs over"),
        ("--glossary", "a b\n", "line 1: a line must be a term, a tab, and"),
        ("--glossary", "a\tb\na\tc\n", "line 2: 'a' has two translations"),
        ("--glossary", None, "terms.tsv"),
        ("--keep", "(", "must be a regular expression. Received"),
    ],
)
def test_invalid_terms_are_refused(translate, option, content, message, terms):
    if option == "--glossary":
        terms.unlink()
        if content is not None:
            terms.write_text(content)
        content = terms
    check_refused(translate(option, content, stdin=b"yes\n"), message)


# === Prefixes ===


@pytest.fixture
def texts(tmp_path):
    """`texts(source, prefixes)` writes both, returns options that name them."""

    def write(source, prefixes):
        paths = tmp_path / "text", tmp_path / "prefixes"
        for path, text in zip(paths, (source, prefixes)):
            path.write_text(text)
        return "--input", paths[0], "--prefix", paths[1]

    return write


def test_translations_begin_with_their_prefixes(
    translate, translator, texts, monkeypatch
):
    monkeypatch.setattr(translate_text, "CHUNK_LINES", 2)
    lines, prefixes = ["yes", "two cats", "", "ten"], ["zwei", "", "", "null"]
    found = translator.search(lines, target_prefixes=prefixes)
    out = as_text(result.text for result in found)
    assert out.startswith("zwei")
    options = texts("\n".join(lines), "\n".join(prefixes))
    assert translate(*options) == (0, out, "")


@pytest.mark.parametrize("prefixes", ["zwei\n", "a\nb\nc\n"])
def test_prefixes_are_refused_when_their_number_differs(
    prefixes, translate, texts, tmp_path
):
    given = texts("yes\nten\n", prefixes)
    output = tmp_path / "hypotheses"
    # A text from a file, and from a pipe.
    for options in (given, given[2:]):
        check_refused(
            translate("--output", output, *options, stdin=b"yes\nten\n"),
            "--prefix must have a line, if an empty one, for each",
        )
    # Prefixes from a pipe.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(prefixes,))
    writer.start()
    options = ("--output", output, *given[:2], "--prefix", pipe)
    check_refused(translate(*options), "--prefix must have a line, if an empty")
    writer.join()
    assert not output.exists()


# === Terminals, other programs and closed streams ===


def test_typed_line_is_answered_before_the_next_prompt(
    translate, translator, texts, monkeypatch, capsys
):
    typed = iter(["yes", "", "ten"])
    seen = []

    def answer(prompt=""):
        """Writes its prompt where `input` does when that is no terminal."""
        sys.stdout.write(prompt)
        sys.stdout.flush()
        seen.append(capsys.readouterr())
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    status, out, err = translate(stream=Terminal)
    assert status == 0
    yes, ten = translator.translate(["yes", "ten"])
    # Nothing but translations: it is no terminal that they are written to.
    outs = [one.out for one in seen]
    assert [*outs, out] == ["", f"{yes}\n", "\n", f"{ten}\n", ""]
    # Once, before the first prompt.
    named = [one.err.count("--engine ctranslate2") for one in seen]
    assert named == [1, 0, 0, 0]
    options = texts("yes\n", "zwei\n")[2:]
    check_refused(translate(*options, stream=Terminal), "Give the text with")


@pytest.mark.large
def test_each_line_is_answered_when_the_writer_is_slow(model, translator):
    options = ["--num-beams=3", "--min-length=4", "--max-length=6"]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "translate", str(model), *options],
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


@pytest.mark.usefixtures("load_once")
def test_lines_are_batched_when_the_writer_is_fast(
    model, monkeypatch, capsysbinary
):
    sizes = []
    translate = ra.Translator.translate_lines

    def noted(self, lines, *rest, **more):
        sizes.append(len(lines))
        return translate(self, lines, *rest, **more)

    monkeypatch.setattr(ra.Translator, "translate_lines", noted)
    read, write = os.pipe()
    os.write(write, b"yes\n" * 700)
    os.close(write)
    with os.fdopen(read) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["translate", str(model)]) == 0
    assert sizes == [700]
    assert capsysbinary.readouterr().out.count(b"\n") == 700


@pytest.mark.usefixtures("load_once")
@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_closed_stream_is_an_error_when_used(
    closed, model, source, monkeypatch, capsys
):
    words = ["--input", str(source)] if closed == "stdout" else []
    monkeypatch.setattr(sys, closed, None)
    status = main(["translate", str(model), *words])
    getattr(sys, closed).close()
    error = capsys.readouterr().err
    check_refused((status, "", error), "is closed. Use a pipe")


def test_messages_are_dropped_when_stderr_is_closed(
    translate, source, expected, monkeypatch
):
    monkeypatch.setattr(sys, "stderr", None)
    assert translate("--input", source)[:2] == (0, expected)
    assert translate("--nbest", "0", stdin=b"yes\n")[:2] == (1, "")
    sys.stderr.close()
