"""What newcomers get wrong, each told in one line that names the way out.

The first list is typed, the second is Python.
"""

import re

import numpy as np
import pytest

import relative_attention as ra

# {name} is the path of what a fixture made.
TYPED = {
    "misspelt command": ("trian small_relative", "choose from .*train"),
    "option of another tool": (
        "translate {trained} --beams 4",
        r"Did you mean '--num-beams'\?.*`relative-attention translate --help`",
    ),
    "no model named": ("translate", "arguments are required: MODEL"),
    "misspelt recipe": (
        "train small_relativ",
        r"Did you mean 'small_relative'\?",
    ),
    "misspelt key": (
        "train {recipe_file} model.hiden_dim=64",
        r"Did you mean 'model\.hidden_dim'\?",
    ),
    "word for a number": (
        "train {recipe_file} training.steps=many",
        r"`training\.steps` must be int or null\. Received: 'many'",
    ),
    "text that is not there": (
        "train {recipe_file} --data nowhere",
        "No text file train.en .*--data FOLDER.*RELATIVE_ATTENTION_DATA",
    ),
    "heads that do not divide": (
        "train {recipe_file} --data {corpus} model.num_heads=3",
        "`hidden_dim` must be a multiple of `num_heads`",
    ),
    "run to resume that is not there": (
        "train --resume nowhere",
        "Give the folder that `train` filled",
    ),
    "recipe without weights": (
        "translate wmt14_en_de_base",
        "relative-attention train wmt14_en_de_base",
    ),
    "misspelt model": (
        "translate multi30k_en_de_tiny_relativ",
        r"Did you mean 'multi30k_en_de_tiny_relative'\?",
    ),
    "folder that is no model": (
        "translate {corpus}",
        r"has no config\.json\. Give a folder written by `.* train`",
    ),
    "weights in place of their folder": (
        "translate {trained}/model.safetensors",
        "that is a file. A model is the folder",
    ),
    "export over what is there": (
        "export {trained} {trained} --format saved_model",
        "is there already. Choose another folder",
    ),
}


@pytest.mark.parametrize("mistake", TYPED)
def test_typed(mistake, run, request, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RELATIVE_ATTENTION_DATA", raising=False)
    words, message = TYPED[mistake]
    paths = {
        name: request.getfixturevalue(name)
        for name in ("trained", "corpus", "recipe_file")
        if f"{{{name}}}" in words
    }
    try:
        status, out, err = run(*(w.format(**paths) for w in words.split()))
    except SystemExit as stop:
        # argparse, which says first how the command is used.
        status, (out, err) = stop.code, capsys.readouterr()
        err = err.splitlines()[-1]
    assert status in (1, 2) and not out
    (line,) = err.strip().splitlines()
    assert line.startswith("relative-attention")
    assert re.search(message, line), line


IDS = np.ones((2, 3), "int32")

WRITTEN = {
    "a string for a list": (
        lambda translator: translator.translate("A man rides a bike."),
        r"must be a list of strings.* pass \['A man rides a bike\.'\]",
    ),
    "strings for ids": (
        lambda translator: ra.beam_search(translator.model, ["A man"]),
        r"integers of shape \(B, S\).*`Translator\.translate` takes strings",
    ),
    "rows of several lengths": (
        lambda translator: ra.beam_search(translator.model, [[5, 1], [1]]),
        "padded with 0 to one length",
    ),
    "ids of another vocabulary": (
        lambda translator: ra.beam_search(translator.model, 999 * IDS),
        "must hold ids from 0 to 399",
    ),
    "two tensors for a dict": (
        lambda translator: translator.model((IDS, IDS)),
        'must be a dict of "source_token_ids" and "target_token_ids"',
    ),
}


@pytest.mark.parametrize("mistake", WRITTEN)
def test_written(mistake, translator):
    make, message = WRITTEN[mistake]
    with pytest.raises((ValueError, TypeError, AttributeError)) as error:
        make(translator)
    # Keras puts lines of its own around what a layer raises.
    lines = str(error.value).splitlines()
    assert any(re.search(message, line) for line in lines), error.value
