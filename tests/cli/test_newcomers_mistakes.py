"""What newcomers type wrong, each told in one line that names the way out."""

import re

import pytest

# {name} is the path of what a fixture made.
MISTAKES = {
    "misspelt command": ("trian small_relative", "choose from .*train"),
    "option of another tool": (
        "translate {trained} --beams 4",
        r"Did you mean '--num-beams'\?.*`relative-attention translate --help`",
    ),
    "no model named": ("translate", "arguments are required: MODEL"),
    "no recipe": ("train --resume=auto", "a RECIPE is needed"),
    "two folders": ("train x --resume a --output b", "two folders: a and b"),
    "run to resume and delete": (
        "train x --resume a --overwrite",
        "not allowed with",
    ),
    "run that is none": (
        "train small_relative --resume",
        "holds no run to resume. Give the folder that `train` filled",
    ),
    "folder of no run": ("train --resume {corpus}", "holds no run to resume"),
    "no student": (
        "distill --teachers a b",
        "a RECIPE is needed, before --teachers",
    ),
    "no study": ("study training.steps=1", "one STUDY is needed"),
    "seeds in words": (
        "study table1 --seeds=x",
        "--seeds: must be whole numbers",
    ),
    "no folder to export into": (
        "export a --format saved_model",
        "a MODEL and the OUTPUT folder",
    ),
    "no hparams": (
        "convert tensor2tensor model.ckpt --output new",
        "arguments are required: --hparams",
    ),
    "no vocabularies": (
        "convert opennmt-tf ckpt --output new",
        "required: --source-vocabulary, --target-vocabulary",
    ),
    "misspelt recipe": (
        "train small_relativ",
        r"Did you mean 'small_relative'\?",
    ),
    "misspelt key": (
        "train {recipe_file} model.hiden_dim=64",
        r"Did you mean 'model\.hidden_dim'\?",
    ),
    "text that is not there": (
        "train {recipe_file} --data nowhere",
        "No text file train.en .*--data FOLDER.*RELATIVE_ATTENTION_DATA",
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


@pytest.mark.parametrize("mistake", MISTAKES)
def test_common_mistakes_are_named_with_a_way_out(
    mistake, run, request, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RELATIVE_ATTENTION_DATA", raising=False)
    words, message = MISTAKES[mistake]
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
    # Nothing was made, and nothing deleted.
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
