"""No command ends in a traceback, whatever it is given.

`run` lets through what `main` does not turn into one line, so each of these
fails where a traceback would be.
"""

import shutil

import pytest

FILES = {
    "empty": b"",
    "blank": b"\n\n",
    "bytes": bytes(range(256)) * 8,
    "nul": b"a\0b\n" * 20,
    "long": b"a" * 100_000 + b"\n",
    "list": b"[1, 2]\n",
    "text": b'"text"\n',
    "nested": b"[" * 5000 + b"\n",
    "numbers": b'{"1": 2, "hidden_dim": "x", "training": 3}\n',
    "huge": b'{"hidden_dim": 1e999, "num_heads": 99999999999999999999}\n',
}
# What is in a model's folder, by what reads it.
PARTS = {
    "config.json": ("translate",),
    "recipe.yaml": ("translate", "plot"),
    "results.json": ("plot",),
    "vocabulary.model": ("translate",),
    "model.safetensors": ("translate",),
    "history.json": ("plot",),
}


@pytest.fixture
def check(run):
    """Run a command; what is wrong with it must be one line."""

    def check(*arguments, stdin=b""):
        try:
            status, _, err = run(*arguments, stdin=stdin)
        except SystemExit as stop:
            # argparse, which prints how it is used.
            assert stop.code == 2
            return stop.code
        assert status in (0, 1)
        if status:
            lines = err.strip().splitlines()
            assert lines[-1].startswith("relative-attention: ")
            assert len(lines[-1]) < 2000
            assert "Traceback" not in err
        return status

    return check


@pytest.fixture(params=FILES)
def hostile(request, tmp_path):
    """A file that is none of those that a command expects."""
    path = tmp_path / "hostile"
    path.write_bytes(FILES[request.param])
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_damaged_model_folder_is_refused(
    name, hostile, trained, check, tmp_path
):
    model = tmp_path / "model"
    shutil.copytree(
        trained, model, ignore=shutil.ignore_patterns("checkpoints", "cache")
    )
    shutil.copyfile(hostile, model / name)
    for command in PARTS[name]:
        check(command, model, stdin=b"one bird\n")


# To what reads lines, the other files are text like any.
@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile", ["empty", "blank", "bytes", "nul", "long"], indirect=True
)
def test_invalid_text_is_refused(hostile, trained, check, corpus, tmp_path):
    source, reference = corpus / "test.en", corpus / "test.de"
    check("translate", trained, "--input", hostile)
    check("score", trained, "--source", source, "--target", hostile)
    check("score", trained, "--source", hostile, "--target", hostile)
    check("evaluate", trained, "--source", hostile, "--reference", reference)
    compared = ("--compare", hostile, "--resamples", 2)
    both = ("--source", source, "--reference", reference)
    check("evaluate", trained, *both, *compared)
    export = ("--format", "saved_model", "--warmup", hostile)
    check("export", trained, tmp_path / "exported", *export)


@pytest.mark.slow
def test_invalid_checkpoint_is_refused(hostile, check, tmp_path):
    output = ("--output", tmp_path / "converted")
    hparams = ("--hparams", hostile)
    check("convert", "tensor2tensor", hostile, *hparams, *output)
    check("average", hostile, "--output", tmp_path / "mean.safetensors")
    check("train", hostile, *output)
