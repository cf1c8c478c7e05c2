"""`relative-attention translate`, as a user types it."""

import gzip
import io
import sys

import pytest

import relative_attention as ra
from tests.cli.talkative import make_talkative

LINES = ["he paid ten euros.", "", "yes", "  ", "two cats and six dogs"]


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def trained(trained, tmp_path_factory):
    return make_talkative(trained, tmp_path_factory.mktemp("talkative") / "run")


@pytest.fixture(scope="module")
def translator(trained):
    return ra.load_translator(trained)


@pytest.fixture
def loaded(translator, monkeypatch):
    """Commands find the model loaded and compiled."""

    def load(directory, **settings):
        return ra.Translator(**{**vars(translator), **settings})

    monkeypatch.setattr("relative_attention.saving.load_translator", load)


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


def as_text(lines):
    return "".join(f"{line}\n" for line in lines)


def fail(*arguments, **keywords):
    pytest.fail("it began to work")


@pytest.mark.large
def test_files_hold_what_standard_input_and_output_do(
    run, trained, source, expected, tmp_path
):
    status, out, err = run("translate", trained, stdin=source.read_bytes())
    assert (status, out, err) == (0, expected, "")
    output = tmp_path / "new" / "hypotheses"
    status, out, err = run(
        "translate", trained, "--input", source, "--output", output
    )
    assert (status, out, err) == (0, "", "")
    assert output.read_bytes() == expected.encode()


@pytest.mark.usefixtures("loaded")
def test_compressed_file_is_read_and_may_be_written_over(
    run, trained, expected, tmp_path
):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(as_text(LINES).encode()))
    assert run("translate", trained, "--input", path, "--output", path)[0] == 0
    assert path.read_bytes() == expected.encode()


@pytest.mark.usefixtures("loaded")
def test_output_is_written_whole_or_not_at_all(
    run, trained, tmp_path, monkeypatch
):
    monkeypatch.setattr("relative_attention.runs.translate_text.CHUNK_LINES", 1)
    source = tmp_path / "source"
    source.write_bytes(b"yes\nten\n\xff\n")
    output = tmp_path / "hypotheses"
    arguments = ["translate", trained, "--input", source]
    status, out, err = run(*arguments, "--output", output)
    assert (status, out) == (1, "")
    assert f"{source}, line 3: not valid UTF-8" in err
    assert list(tmp_path.iterdir()) == [source]
    output.write_text("from before")
    assert run(*arguments, "--output", output)[0] == 1
    assert output.read_text() == "from before"
    # To standard output they go as they come.
    assert run(*arguments)[1].count("\n") == 2


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("chunk_lines", [1, 2])
def test_lines_translated_at_a_time_change_nothing(
    chunk_lines, run, trained, source, monkeypatch
):
    def parts():
        _, out, _ = run("translate", trained, "--input", source, "--nbest", "2")
        return [line.split("\t") for line in out.splitlines()]

    expected = parts()
    monkeypatch.setattr(
        "relative_attention.runs.translate_text.CHUNK_LINES", chunk_lines
    )
    for part, same in zip(parts(), expected, strict=True):
        assert (part[0], part[2]) == (same[0], same[2])
        assert float(part[1]) == pytest.approx(float(same[1]), abs=1e-4)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    "text",
    [as_text(LINES), "\r\n".join([*LINES, ""]), "\n".join(LINES)],
    ids=["lf", "crlf", "no_final_newline"],
)
def test_a_line_gives_a_line(text, run, trained, expected):
    status, out, _ = run("translate", trained, stdin=text.encode())
    assert (status, out) == (0, expected)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    ("text", "num_lines"),
    [(b"", 0), (b"\n", 1), (b"\n\n\r\n", 3), ("\u2028\x85\n".encode(), 1)],
    ids=["nothing", "one", "three", "breaks_that_are_text"],
)
def test_empty_lines_stay_empty(text, num_lines, run, trained):
    status, out, err = run("translate", trained, stdin=text)
    assert (status, out, err) == (0, "\n" * num_lines, "")


@pytest.mark.usefixtures("loaded")
def test_n_best_are_numbered_with_scores_and_tabs(
    run, trained, translator, source
):
    status, out, _ = run(
        "translate", trained, "--nbest", "3", "--input", source
    )
    assert status == 0
    assert out == "".join(
        f"{number}\t{result.score:.6f}\t{result.text}\n"
        for number, results in enumerate(
            translator.search(LINES, num_results=3), start=1
        )
        for result in results
    )
    numbers = [line.split("\t")[0] for line in out.splitlines()]
    # An empty line has one translation.
    assert numbers == ["1", "1", "1", "2", "3", "3", "3", "4", "5", "5", "5"]


@pytest.mark.usefixtures("loaded")
def test_one_best_has_the_format_of_n_best(run, trained, translator):
    _, out, _ = run("translate", trained, "--nbest", "1", stdin=b"yes\n")
    (result,) = translator.search(["yes"])
    assert out == f"1\t{result.score:.6f}\t{result.text}\n"


@pytest.mark.large
@pytest.mark.usefixtures("loaded")
def test_draws_are_those_of_the_seed(run, trained, translator, source):
    def drawn(*arguments):
        status, out, err = run(
            "translate", trained, "--input", source, "--sample", *arguments
        )
        assert (status, err) == (0, "")
        return out

    assert drawn("--seed", 3) == drawn("--seed", 3)
    assert drawn("--seed", 3) == as_text(
        result.text for result in translator.sample(LINES, seed=3)
    )
    assert drawn("--seed", 4) != drawn("--seed", 3)
    assert drawn() != drawn()


@pytest.mark.large
@pytest.mark.usefixtures("loaded")
def test_options_of_sampling_are_passed_on(run, trained, translator, source):
    options = {"temperature": 1.7, "top_k": 50, "top_p": 0.9, "seed": 5}
    status, out, _ = run(
        "translate",
        trained,
        "--input",
        source,
        "--sample",
        "--nbest",
        # More than there are beams.
        "6",
        *[f"--{n.replace('_', '-')}={value}" for n, value in options.items()],
    )
    assert status == 0
    for name in options:
        others = {n: value for n, value in options.items() if n != name}
        assert texts(translator.sample(LINES, 6, **others)) != out
    assert out == texts(translator.sample(LINES, 6, **options))


def texts(results):
    return "".join(
        f"{number}\t{result.score:.6f}\t{result.text}\n"
        for number, found in enumerate(results, start=1)
        for result in found
    )


@pytest.mark.large
@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    "options",
    [
        {"max_length": 2},
        {"min_length": 12},
        {"min_length": 4, "max_length": 4},
        {"num_beams": 1},
        {"num_beams": 2, "length_penalty": 3.0},
    ],
    ids=lambda options: "-".join(options),
)
def test_options_of_the_search_are_passed_on(
    options, run, trained, translator, source
):
    status, out, _ = run(
        "translate",
        trained,
        "--input",
        source,
        *[f"--{n.replace('_', '-')}={value}" for n, value in options.items()],
    )
    assert status == 0
    found = ra.Translator(**{**vars(translator), **options}).search(LINES)
    assert out == as_text(result.text for result in found)
    for result in found:
        if result.text and "max_length" in options:
            assert len(result.token_ids) <= options["max_length"]


def test_precision_is_that_of_the_model(run, trained, source, monkeypatch):
    load = ra.load_translator
    dtypes = []

    def note(directory, **settings):
        translator = load(directory, **settings)
        dtypes.append({weight.dtype for weight in translator.model.weights})
        return translator

    monkeypatch.setattr("relative_attention.saving.load_translator", note)
    command = ["translate", trained, "--dtype=bfloat16", "--input", source]
    status, out, _ = run(*command)
    assert (status, len(out.splitlines())) == (0, len(LINES))
    assert dtypes == [{"bfloat16"}]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nbest", "0"], "--nbest must be between 1 and"),
        (["--nbest", "99"], "Received: 99. --num-beams asks"),
        (["--num-beams", "0"], "`num_beams` must be at least 1"),
        (["--length-penalty", "-1"], "`length_penalty` must be"),
        (["--max-length", "-1"], "`max_length` must be"),
        (["--min-length", "-1"], "`min_length` must be"),
        (["--sample", "--nbest", "0"], "--nbest must be at least 1"),
        (["--sample", "--temperature", "0"], "temperature=0"),
        (["--sample", "--top-k", "0"], "top_k=0"),
        (["--sample", "--top-p", "1.5"], "top_p=1.5"),
        (["--sample", "--seed", "-1"], "seed=-1"),
        (["--top-k", "5"], "--top-k says how to draw; add --sample"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_number_is_named_in_one_line(
    arguments, message, run, trained, tmp_path
):
    output = tmp_path / "hypotheses"
    status, out, err = run(
        "translate", trained, "--output", output, *arguments, stdin=b"yes\n"
    )
    assert (status, out) == (1, "")
    assert err.startswith("relative-attention: ") and err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [("folder", "is a folder"), ("file/name", "file is no folder")],
)
def test_output_that_cannot_be_is_refused_before_any_work(
    name, message, run, trained, tmp_path, monkeypatch
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setattr("relative_attention.cli.command.load_models", fail)
    status, out, err = run(
        "translate", trained, "--output", tmp_path / name, stdin=b"yes\n"
    )
    assert (status, out) == (1, "")
    assert message in err and err.count("\n") == 1


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_input_that_is_no_file_is_refused(kind, run, trained, tmp_path):
    path = tmp_path / "absent" if kind == "missing" else tmp_path
    output = tmp_path / "hypotheses"
    status, out, err = run(
        "translate", trained, "--input", path, "--output", output
    )
    assert (status, out) == (1, "")
    assert str(path) in err and err.count("\n") == 1
    assert not output.exists()


@pytest.mark.usefixtures("loaded")
def test_typed_line_is_translated_before_the_next_is_asked_for(
    run, trained, translator, monkeypatch, capsys
):
    typed = iter(["yes", "", "ten"])
    seen = []

    def answer(prompt=""):
        """Writes its prompt where `input` does when that is no terminal."""
        sys.stdout.write(prompt)
        sys.stdout.flush()
        seen.append(capsys.readouterr().out)
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    status, out, err = run("translate", trained, stream=Terminal)
    assert status == 0
    yes, ten = translator.translate(["yes", "ten"])
    # Nothing but translations: it is no terminal that they are written to.
    assert [*seen, out] == ["", f"{yes}\n", "\n", f"{ten}\n", ""]


@pytest.mark.usefixtures("loaded")
def test_terminal_is_not_asked_when_a_file_is_given(
    run, trained, source, expected, monkeypatch
):
    monkeypatch.setattr("builtins.input", fail)
    status, out, err = run(
        "translate", trained, "--input", source, stream=Terminal
    )
    assert (status, out, err) == (0, expected, "")
