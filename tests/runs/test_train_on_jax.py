"""Training on JAX: its steps, and the command where TensorFlow is missing."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml

import relative_attention as ra
from tests.backend_numbers import numbers_on
from tests.runs.conftest import assert_same_arrays
from tests.runs.conftest import logs
from tests.runs.conftest import start_command
from tests.runs.conftest import wait_for
from tests.runs.test_many_machines import free_addresses
from tests.small_run import RECIPE

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "without_tensorflow.py"
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
TWO_DEVICES = "--xla_force_host_platform_device_count=2"
WORDS = [f"{letter}{digit}" for letter in "abcdefg" for digit in range(8)]

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None,
    reason="jax is not installed; `make test-backends` does",
)


def on_jax(*arguments, stdin=None, **variables):
    """Run a command in a new process; gives the finished process."""
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "KERAS_BACKEND": "jax",
            "PYTHONPATH": PATH,
            **variables,
        },
    )


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Folder of texts of two lengths, as every length is compiled for."""
    folder = tmp_path_factory.mktemp("texts")
    random = np.random.default_rng(0)
    for name, num_lines in (("train", 60), ("validation", 6), ("test", 4)):
        lines = [
            " ".join(random.choice(WORDS, 3 if number % 2 else 6))
            for number in range(num_lines)
        ]
        for suffix in ("en", "de"):
            text = "\n".join(lines) + "\n"
            (folder / f"{name}.{suffix}").write_text(text)
    return folder


@pytest.fixture(scope="module")
def recipe(texts):
    path = texts / "tiny.yaml"
    data = {**RECIPE["data"], "tokenized": True}
    del data["target_language"]
    training = {
        **RECIPE["training"],
        "batch_tokens": 70,
        "validate_every": 3,
        "bleu_every": 2,
        "gradient_clip": 0.5,
        "ema_momentum": 0.9,
        "steps": 6,
        "save_every": 2,
    }
    content = {
        "name": "tiny",
        "model": RECIPE["model"],
        "data": data,
        "vocabulary": {"size": 70},
        "training": training,
        "decoding": {"max_extra_length": 2, "num_beams": 2},
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="module")
def uninterrupted(texts, recipe, tmp_path_factory):
    """A finished run and what it printed."""
    output = tmp_path_factory.mktemp("jax") / "run"
    done = on_jax("train", recipe, "--data", texts, "--output", output)
    assert done.returncode == 0, done.stderr
    return output, done


@needs_jax
@pytest.mark.slow
def test_a_run_says_its_shapes_and_tensorflow_translates_with_it(
    uninterrupted, texts
):
    output, done = uninterrupted
    (line,) = re.findall(r"batches: .*", done.stderr)
    assert line.startswith("batches: 2 shapes (rows x tokens: 17 x 4, 10 x 7)")
    assert re.search(r"\d% of the positions are padding$", line)
    results = json.loads((output / "results.json").read_text())
    assert results["jax"] and "tensorflow" not in results
    assert results["steps"] == 6
    assert results["scores"].keys() == {"validation", "test"}
    assert f"test: BLEU {results['scores']['test']['bleu']}" in done.stdout
    losses = [record["val_loss"] for record in results["curve"]]
    assert losses[1] < losses[0]
    lines = (texts / "test.en").read_text().splitlines()
    done = on_jax("translate", output, stdin="\n".join(lines) + "\n")
    assert done.returncode == 0, done.stderr
    translator = ra.load_translator(output)
    assert translator.translate(lines) == done.stdout.splitlines()


@needs_jax
@pytest.mark.slow
def test_a_resumed_run_is_the_uninterrupted_one(
    uninterrupted, texts, recipe, tmp_path, run
):
    whole, _ = uninterrupted
    output = tmp_path / "run"
    train = ["train", recipe, "--data", texts, "--output", output]
    stopped = on_jax("--told-to-stop-at=4", *train)
    assert stopped.returncode != 0
    checkpoints = output / "checkpoints"
    assert (checkpoints / "step-00000004").is_dir()
    resumed = on_jax("train", "--resume", output)
    assert resumed.returncode == 0, resumed.stderr
    assert_same_run(output, whole)
    # TensorFlow would see other batches.
    status, _, error = run("train", "--resume", output, "training.steps=8")
    assert status != 0
    assert "was started on Keras' backend jax, and this is tensorflow" in error
    assert "KERAS_BACKEND" in error


# === Several devices ===

LAST = "checkpoints/step-00000006"


@pytest.fixture(scope="module")
def shared_recipe(recipe):
    """Another recipe: whose updates are the same on any number of devices."""
    content = yaml.safe_load(recipe.read_text())
    for name in ("dropout", "attention_dropout", "intermediate_dropout"):
        content["model"][name] = 0.0
    content["training"] |= {
        "effective_batch_tokens": content["training"]["batch_tokens"],
        # At the full rate rounding errors grow.
        "learning_rate_scale": 0.02,
        # Only the first process draws.
        "pictures": True,
    }
    path = recipe.parent / "shared.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="module")
def on_two_devices(texts, shared_recipe, tmp_path_factory):
    """A finished run on two devices of one process."""
    output = tmp_path_factory.mktemp("two") / "run"
    words = ["train", shared_recipe, "--data", texts, "--output", output]
    done = on_jax(*words, XLA_FLAGS=TWO_DEVICES)
    assert done.returncode == 0, done.stderr
    assert "on 2 devices" in done.stderr
    return output


def assert_same_run(run, other):
    last = (f"{LAST}/{name}.safetensors" for name in ("model", "training"))
    for file in ("model.safetensors", *last):
        assert (run / file).read_bytes() == (other / file).read_bytes(), file
    for record, expected in zip(*map(history, (run, other)), strict=True):
        for name in expected.keys() - {"seconds", "tokens_per_second"}:
            assert record[name] == expected[name]


def history(run):
    return json.loads((run / "history.json").read_text())


@needs_jax
@pytest.mark.slow
def test_two_devices_of_a_recipe_are_one(
    on_two_devices, texts, shared_recipe, tmp_path
):
    one = tmp_path / "run"
    words = ["train", shared_recipe, "--data", texts, "--output", one]
    done = on_jax(*words)
    assert done.returncode == 0, done.stderr
    file = f"{LAST}/model.safetensors"
    assert_same_arrays(one / file, on_two_devices / file, atol=1e-6)
    for record, expected in zip(*map(history, (on_two_devices, one))):
        assert record.keys() == expected.keys()
        for name in ("loss", "val_loss", "gradient_norm", "val_perplexity"):
            np.testing.assert_allclose(record[name], expected[name], rtol=1e-5)
        for name in ("tokens", "val_tokens", "skipped", "val_bleu"):
            assert record.get(name) == expected.get(name)
    scores, expected = (
        json.loads((folder / "results.json").read_text())["scores"]
        for folder in (on_two_devices, one)
    )
    assert scores == expected


@pytest.fixture
def start_two(texts, shared_recipe, tmp_path):
    """A function that starts a run in two processes of one device each."""

    def start(*more, second=()):
        addresses = ",".join(free_addresses(2))
        words = ["train", shared_recipe, "--data", texts, *more]
        return [
            start_command(
                tmp_path / f"{number}.log",
                *options,
                *words,
                "--output",
                tmp_path / "run",
                program=[SCRIPT],
                KERAS_BACKEND="jax",
                PYTHONPATH=PATH,
                KERAS_DISTRIBUTION_JOB_ADDRESSES=addresses,
                KERAS_DISTRIBUTION_NUM_PROCESSES="2",
                KERAS_DISTRIBUTION_PROCESS_ID=str(number),
            )
            for number, options in enumerate([(), second])
        ]

    return start


def assert_first_says_that_second_is_lost(processes, output):
    processes[1].wait(timeout=240)
    # It cannot continue alone, and must not wait for ever.
    assert processes[0].wait(timeout=240) != 0, logs(output)
    last_line = (output.parent / "0.log").read_text().splitlines()[-1]
    assert "Another machine was lost" in last_line, logs(output)
    assert "Start all of them again with `--resume=auto`" in last_line


@needs_jax
@pytest.mark.slow
def test_two_processes_are_one_although_one_is_killed(
    on_two_devices, start_two, tmp_path
):
    output = tmp_path / "run"
    checkpoints = output / "checkpoints"
    # So many that they have not ended before one is killed.
    processes = start_two(
        "training.steps=3000", "training.keep_checkpoints=9999"
    )
    wait_for(
        lambda: any(checkpoints.glob("step-*")), processes, output, seconds=600
    )
    processes[1].kill()
    assert_first_says_that_second_is_lost(processes, output)
    # What came after the update 2 is made again.
    for path in checkpoints.glob("*"):
        if path.name != "step-00000002":
            shutil.rmtree(path)
    for process in start_two("--resume=auto", "training.steps=6"):
        assert process.wait(timeout=400) == 0, logs(output)
    assert "on 2 devices" in (tmp_path / "0.log").read_text()
    assert_same_run(output, on_two_devices)


@needs_jax
@pytest.mark.slow
def test_a_process_that_is_lost_before_training_is_said(start_two, tmp_path):
    output = tmp_path / "run"
    processes = start_two()
    # The second one waits until the first has written the folder.
    wait_for(output.exists, processes, output, seconds=600)
    processes[1].kill()
    assert_first_says_that_second_is_lost(processes, output)


@needs_jax
@pytest.mark.slow
def test_a_process_that_is_lost_in_a_validation_is_said(start_two, tmp_path):
    processes = start_two(second=["--killed-in-validation"])
    assert_first_says_that_second_is_lost(processes, tmp_path / "run")


@needs_jax
@pytest.mark.slow
def test_training_steps_are_those_of_tensorflow(tmp_path):
    numbers = numbers_on("jax", tmp_path, "steps")
    expected = numbers_on("tensorflow", tmp_path, "steps")
    assert numbers.keys() == expected.keys()
    for name, value in expected.items():
        # Products in half precision are rounded in another order.
        bound = 2e-2 if name.startswith("half/") else 1e-5
        np.testing.assert_allclose(
            numbers[name], value, rtol=bound, atol=bound, err_msg=name
        )
    assert expected["not_finite/step_1/skipped"] == 1
    assert expected["not_finite/updates"] == 2


def test_what_a_backend_cannot_train_is_refused_before_any_work(
    recipe, tmp_path, monkeypatch
):
    values = ra.find_recipe(recipe)

    def check(backend, override, message):
        monkeypatch.setattr("keras.backend.backend", lambda: backend)
        with pytest.raises(ra.InputError, match=message):
            ra.train(values.override([override]), tmp_path / "run")

    check("torch", "training.steps=1", "tensorflow or jax.*torch")
    check("jax", "training.devices=2", "`training.devices` must be at most 1")
    check("jax", "training.batch_tokens=auto", "`training.batch_tokens` must")
    monkeypatch.setenv("KERAS_DISTRIBUTION_JOB_ADDRESSES", "first")
    check("jax", "training.steps=1", "must have KERAS_DISTRIBUTION_JOB_ADDR")
    monkeypatch.setenv("TF_CONFIG", "{}")
    check("jax", "training.steps=1", "TF_CONFIG .* machines of TensorFlow")
    assert not (tmp_path / "run").exists()
