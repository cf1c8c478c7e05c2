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
# To what reads lines, the other files are text like any.
TEXTS = ["empty", "blank", "bytes", "nul", "long"]
# What reads a file of a model's folder, in place of which there is another.
COMMANDS_OF = {
    "config.json": ["translate model"],
    "recipe.yaml": ["translate model", "plot model"],
    "results.json": ["plot model"],
    "vocabulary.model": ["translate model"],
    "model.safetensors": ["translate model"],
    "history.json": ["plot model"],
}
READ_TEXTS = [
    "translate {trained} --input hostile",
    "score {trained} --source {corpus}/test.en --target hostile",
    "score {trained} --source hostile --target hostile",
    "evaluate {trained} --source hostile --reference {corpus}/test.de",
    "evaluate {trained} --source {corpus}/test.en --resamples 2 "
    "--reference {corpus}/test.de --compare hostile",
    "export {trained} exported --format saved_model --warmup hostile",
]
READ_MODELS = [
    "convert tensor2tensor hostile --hparams hostile --output converted",
    "average hostile --output mean.safetensors",
    "train hostile --output converted",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "part", "commands"),
    [
        *((k, part, c) for part, c in COMMANDS_OF.items() for k in FILES),
        *((kind, None, READ_TEXTS) for kind in TEXTS),
        *((kind, None, READ_MODELS) for kind in FILES),
    ],
)
def test_hostile_file_is_refused_in_one_line(
    kind, part, commands, run, trained, corpus, elsewhere
):
    (elsewhere / "hostile").write_bytes(FILES[kind])
    if part is not None:
        ignored = shutil.ignore_patterns("checkpoints", "cache")
        shutil.copytree(trained, elsewhere / "model", ignore=ignored)
        shutil.copyfile(elsewhere / "hostile", elsewhere / "model" / part)
    for words in commands:
        words = words.format(trained=trained, corpus=corpus).split()
        try:
            status, _, err = run(*words, stdin=b"one bird\n")
        except SystemExit as stop:
            # argparse, which prints how it is used.
            assert stop.code == 2
            continue
        assert status in (0, 1)
        if status:
            last = err.strip().splitlines()[-1]
            assert last.startswith("relative-attention: ")
            assert len(last) < 2000
            assert "Traceback" not in err
