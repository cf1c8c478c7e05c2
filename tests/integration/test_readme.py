"""Every block of README and guides is run.

A block is what a fence or four blanks set off. `CHECKS` says how blocks of
each kind are checked; a block of any other kind is an error.
"""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

import relative_attention as ra
from relative_attention.cli import main
from tests.integration.readme_blocks import BLOCKS
from tests.integration.readme_blocks import PAGE_OF
from tests.integration.readme_blocks import PROSE
from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import TEXT
from tests.integration.readme_blocks import all_shell_lines
from tests.integration.readme_blocks import blocks
from tests.integration.readme_blocks import commands
from tests.integration.readme_blocks import parse_words
from tests.integration.readme_blocks import redirections
from tests.integration.readme_blocks import shell_lines
from tests.serve.client import server_process

HAS_CTRANSLATE2 = importlib.util.find_spec("ctranslate2") is not None

# What makes the training of these pages a matter of seconds.
BRIEF = [
    "vocabulary.size=400",
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "model.hidden_dim=16",
    "model.intermediate_dim=32",
    "model.num_heads=2",
    "training.steps=2",
    "training.pictures=false",
    "training.precision=float32",
    "decoding.max_extra_length=5",
]
# Commands that need what only their users have: a corpus of the internet, a
# checkpoint of another system; that take minutes, or end when told to. They are
# parsed, with what they name.
PARSED = ("data", "convert", "study", "serve", "demo", "plot")


def run(words):
    """Run a `relative-attention` as the shell would, in this process."""
    arguments, source, target = redirections(words[1:])
    output = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if source is not None:
            patch.setattr(sys, "stdin", stack.enter_context(open(source)))
        stack.enter_context(contextlib.redirect_stdout(output))
        assert main(arguments) == 0
    written = output.buffer.getvalue()
    if target is not None:
        pathlib.Path(target).write_bytes(written)
    return written.decode()


@pytest.fixture(scope="module")
def folder(corpus, trained, tmp_path_factory):
    """Where the reader is: with files, a model and its exports."""
    folder = tmp_path_factory.mktemp("reader")
    for file in corpus.glob("*.*"):
        shutil.copyfile(file, folder / file.name)
    (folder / "new.en").write_text("he paid ten euros.\n\nyes\n")
    for name in ("ours.de", "theirs.de", "test.1.de", "test.2.de"):
        shutil.copyfile(corpus / "test.de", folder / name)
    for side in ("en", "de"):
        shutil.copyfile(corpus / f"test.{side}", folder / f"domain.{side}")
    (folder / "runs").mkdir()
    (folder / "runs" / "other").symlink_to(trained)
    first, *_ = [
        words
        for words in all_shell_lines()
        if words[:2] == ["relative-attention", "train"]
    ]
    with contextlib.chdir(folder):
        printed = run([*first, *BRIEF])
        assert "model: runs/mine" in printed
        # In place of a second training.
        shutil.copytree("runs/mine", "runs/second")
        for words in all_shell_lines():
            if words[:2] == ["relative-attention", "export"]:
                if "ctranslate2" not in words or HAS_CTRANSLATE2:
                    run(words)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keeps converted models out of the home folder."""
    monkeypatch.setenv("RELATIVE_ATTENTION_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def reader(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


# === How a block is checked ===


def check_shell(block, request):
    for words in shell_lines(block):
        SHELL[words[0]](words, request)


def check_make(words, request):
    # Says what would be done, and fails where there is no such target.
    subprocess.run(
        [*words, "--dry-run"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )


def check_pip(words, request):
    assert words[:2] == ["pip", "install"]
    if words[2:] in (["keras", "jax"], ["--no-deps", "."]):
        return  # `test_fresh_environments.py` does.
    if words[2] == "ctranslate2":
        # What the image that translates and serves alone has.
        image = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
        (installed,) = re.findall(r"pip install .* (ctranslate2 .*)", image)
        assert words[2:] == installed.split()
        return
    (extra,) = re.findall(r"^\.(?:\[(\w+)\])?$", words[2])
    metadata = (ROOT / "setup.py").read_text("utf-8")
    assert not extra or f'"{extra}": ' in metadata


def check_text(block, request):
    """The packages of JAX alone are all but those of TensorFlow."""
    first, second = shell_lines(block)
    assert first == ["pip", "install", "--no-deps", "."]
    assert second[:3] == ["pip", "install", "jax[cuda13]"]
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    (required,) = re.findall(r"install_requires=\[(.*?)\]", setup, re.DOTALL)
    names = set(re.findall(r'"([\w-]+)>=', required))
    # `keras-nlp` is for `keras_hub`.
    of_tensorflow = {"keras-nlp", "tensorflow", "tensorflow-text"}
    assert set(second[3:]) == names - of_tensorflow


def check_docker(words, request):
    """The image is told of the folder that `export` writes.

    Commands for the package's own image are those of the Dockerfile.
    """
    if words[-1] != "tensorflow/serving":
        told = (ROOT / "Dockerfile").read_text("utf-8")
        assert f"#     {shlex.join(words)}\n" in told
        return
    (volume,) = [word for word in words if "$PWD" in word]
    (name,) = [word for word in words if word.startswith("MODEL_NAME=")]
    source, target = volume.split(":")
    assert target == f"/models/{name.removeprefix('MODEL_NAME=')}"
    exported = request.getfixturevalue("reader") / source.split("/", 1)[1]
    assert (exported / "1" / "saved_model.pb").is_file()
    assert f"http://localhost:8501/v1{target}:predict" in TEXT


def check_echo(words, request):
    """A line that the command after the bar reads; it writes one."""
    place = words.index("|")
    file = request.getfixturevalue("tmp_path") / "echoed"
    file.write_text(" ".join(words[1:place]) + "\n")
    assert run([*words[place + 1 :], "<", str(file)]).count("\n") == 1


def check_command(words, request):
    options = parse_words(words)
    if options.command in ("train", "distill", "export"):
        return  # Parsed; those that can be run were, for `folder`.
    if options.command in PARSED:
        return
    if {"runs/converted", "runs/chinese"} & set(words):
        return
    if "ctranslate2" in words and not HAS_CTRANSLATE2:
        pytest.skip("ctranslate2 is not installed")
    request.getfixturevalue("reader")
    output = run(words)
    _, source, target = redirections(words)
    if target is not None:
        rows = pathlib.Path(source or options.source).read_text().count("\n")
        assert pathlib.Path(target).read_text().count("\n") == rows
    else:
        assert output.startswith("BLEU ")


SHELL = {
    "make": check_make,
    "pip": check_pip,
    "docker": check_docker,
    "echo": check_echo,
    "relative-attention": check_command,
    # `test_fresh_environments.py` does.
    "export": lambda words, request: None,
    # `tests/serve/test_server_process.py` does.
    "openssl": lambda words, request: None,
    "curl": lambda words, request: None,
}


def check_python(block, request):
    """Run it, with what blocks before it and its reader have."""
    files = "runs/|exported/|localhost|translator|batches|train.en|domain.en"
    if re.search(files, block):
        request.getfixturevalue("reader")
    else:
        # What a block writes does not stay in the checkout.
        folder = request.getfixturevalue("tmp_path")
        request.getfixturevalue("monkeypatch").chdir(folder)
    if "ctranslate2" in block and not HAS_CTRANSLATE2:
        pytest.skip("ctranslate2 is not installed")
    if "keras.distribution" in block:
        run_on_jax(block)
        return
    given = {}
    if "import relative_attention" not in block:
        given["ra"] = ra
    if "load_translator" not in block and "translator." in block:
        given["translator"] = ra.load_translator("runs/mine")
    if "MirroredStrategy" in block:
        block = with_little_data(block)
    with contextlib.ExitStack() as stack:
        if "localhost:8501" in block:
            # It answers as TensorFlow Serving does.
            model = pathlib.Path("runs/mine").absolute()
            server = stack.enter_context(server_process(model))
            block = block.replace("localhost:8501", f"localhost:{server.port}")
        output = io.StringIO()
        stack.enter_context(contextlib.redirect_stdout(output))
        exec(compile(block, "guides", "exec"), given)
    # A comment beside `print` says what is printed.
    for shown in re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE):
        assert shown in output.getvalue()


def run_on_jax(block):
    """Run it in a process of its own, on two devices of JAX."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    two = "--xla_force_host_platform_device_count=2"
    subprocess.run(
        [sys.executable, "-c", block],
        env={**os.environ, "KERAS_BACKEND": "jax", "XLA_FLAGS": two},
        check=True,
    )


def with_little_data(block):
    """A block that trains a base model, made a matter of seconds."""
    for large, little in (
        (
            '"transformer_base_relative", ',
            '"transformer_tiny_relative", num_encoder_layers=1, '
            "num_decoder_layers=1, ",
        ),
        ("8000", "400"),
        ("25_000", "2_000"),
        ("epochs=10", "epochs=1, steps_per_epoch=2"),
    ):
        assert large in block
        block = block.replace(large, little)
    return block


def check_job(script, hosts, index, request):
    """Run a script with stand-ins for what starts processes.

    It must call `relative-attention` with arguments that it knows, and with
    the variables of TensorFlow or JAX for two machines and which one it is.
    """
    folder = request.getfixturevalue("tmp_path")
    stand_ins = {
        "scontrol": 'echo "first\nsecond"',
        "srun": '"$@"',
        "relative-attention": f'"{sys.executable}" -c "import os, sys, json; '
        "json.dump([dict(os.environ), sys.argv[1:]], "
        f"open('{folder}/called', 'w'))\" \"$@\"",
    }
    for name, body in stand_ins.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    subprocess.run(
        script,
        env={
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "SLURM_PROCID": str(index),
            "SLURM_NTASKS": "2",
            "JOB_COMPLETION_INDEX": str(index),
        },
        check=True,
    )
    variables, arguments = json.loads((folder / "called").read_text())
    if "KERAS_BACKEND=jax" in script[-1]:
        prefix = "KERAS_DISTRIBUTION_"
        assert {k: v for k, v in variables.items() if prefix in k} == {
            f"{prefix}JOB_ADDRESSES": hosts[0],
            f"{prefix}NUM_PROCESSES": "2",
            f"{prefix}PROCESS_ID": str(index),
        }
    else:
        assert json.loads(variables["TF_CONFIG"]) == {
            "cluster": {"worker": hosts},
            "task": {"type": "worker", "index": index},
        }
    assert parse_words(["relative-attention", *arguments]).resume


def check_bash(block, request):
    assert block.startswith("#!/bin/bash\n#SBATCH ")
    hosts = ["first:2222", "second:2222"]
    check_job(["bash", "-c", block], hosts, 1, request)


def check_yaml(block, request):
    container = yaml.safe_load(block)
    script = container["command"] + container["args"]
    hosts = ["train-0.train:2222", "train-1.train:2222"]
    check_job(script, hosts, 1, request)


def check_diff(block, request):
    """Before and after give attention outputs of the same shape."""
    import keras

    x = keras.random.normal((2, 5, 12))
    for other, kept in ("+-", "-+"):
        lines = block.splitlines()
        side = [line[1:] for line in lines if line[0] != other]
        assert side != [line[1:] for line in lines if line[0] != kept]
        given = {"keras": keras, "ra": ra, "x": x, "mask": None}
        exec("\n".join(side), given)
        assert given["y"].shape == (2, 5, 12)


def check_math(block, request):
    """It can be typeset; outside a fence Markdown would change it."""
    mathtext = pytest.importorskip("matplotlib.mathtext")
    equations = " ".join(block.split())
    mathtext.MathTextParser("path").parse(f"${equations}$")


CHECKS = {
    "shell": check_shell,
    "python": check_python,
    "bash": check_bash,
    "yaml": check_yaml,
    "diff": check_diff,
    "math": check_math,
    "text": check_text,
    # Read by BibTeX and by Sphinx, which warns of what is wrong.
    "bibtex": lambda block, request: None,
    "{toctree}": lambda block, request: None,
}


def name_of(block):
    language, text = block
    return f"{PAGE_OF[block]} {language} {' '.join(text.split()[:2])}"


def is_brief(block):
    """Whether to check it takes less than a second, and no training."""
    language, text = block
    if language == "shell":
        quick = "make", "pip", "export", "openssl", "curl"
        return all(words[0] in quick for words in shell_lines(text))
    return language != "python"


def marks_of(block):
    if is_brief(block):
        return ()
    needs = [pytest.mark.int8] if 'quantize("int8")' in block[1] else []
    return [pytest.mark.large, *needs]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            block,
            marks=marks_of(block),
            id=name_of(block),
        )
        for block in BLOCKS
    ],
)
def test_block_is_right(block, request):
    language, text = block
    CHECKS[language](text, request)


def test_no_block_is_left_out():
    assert {language for language, _ in BLOCKS} <= set(CHECKS)
    fences = re.findall(r"^```", TEXT, re.MULTILINE)
    shown = "".join(text for _, text in BLOCKS)
    fenced = [block for block in blocks(TEXT) if block[0] != "shell"]
    assert len(fenced) * 2 == len(fences)
    # A command stands in a block or, in the text, between two marks.
    # (A line that begins with a bar is a row of a table.)
    commands = r"^(?!\|).*relative-attention .*$"
    for line in re.findall(commands, TEXT, re.MULTILINE):
        in_text = re.findall(r"`relative-attention ", line)
        assert in_text or line.strip() in shown, line


@pytest.mark.parametrize("words", commands(), ids=shlex.join)
def test_command_is_one_that_there_is(words):
    assert parse_words(words).command == words[1]


def test_keys_of_recipes_are_those_that_there_are():
    recipe = ra.find_recipe("small_relative")
    mapping = recipe.to_mapping()
    spans = re.findall(r"`([^`]+)`", PROSE.replace("\n", " "))
    keys = {
        assignment
        for span in spans
        for assignment in span.split()
        if re.fullmatch(
            r"(data|vocabulary|training|decoding)\.\w+(=\S+)?|"
            r"model\.\w+=\S+",
            assignment,
        )
    }
    assert len(keys) > 10
    keys -= {"training.csv", "vocabulary.model"}  # files of a run
    # The reader's own module is not there.
    keys = {key for key in keys if "mymodule:" not in key}
    for key in keys:
        section, name = key.partition("=")[0].split(".")
        if "=" in key:
            recipe.override([key])
        else:
            assert name in mapping[section], key
