"""`translate` in processes: killed at any moment, and its memory."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.talkative import make_talkative


@pytest.fixture(scope="module")
def trained(trained, tmp_path_factory):
    return make_talkative(trained, tmp_path_factory.mktemp("talkative") / "run")


COMMAND = """
import sys
from relative_attention.cli import main
from relative_attention.runs import translate_text

translate_text.CHUNK_LINES = int(sys.argv[1])
status = main(sys.argv[2:])
if sys.platform == "linux":
    with open("/proc/self/status") as file:
        print(*(line for line in file if line.startswith("VmHWM")))
sys.exit(status)
"""


def start(source, output, *options, chunk_lines):
    arguments = ["translate", *options, "--input", source, "--output", output]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(chunk_lines), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


@pytest.mark.large
@pytest.mark.parametrize(
    "options",
    [["--nbest=2", "--num-beams=2"], ["--sample", "--seed=3"]],
    ids=lambda options: options[0],
)
def test_killed_process_is_gone_on_with_to_the_last_byte(
    options, trained, corpus, tmp_path
):
    source = tmp_path / "source"
    source.write_text((corpus / "train.en").read_text() * 4)
    whole, output = tmp_path / "whole", tmp_path / "folder" / "hypotheses"
    # Two models work as one.
    options = [trained, trained, "--min-length=4", "--max-length=9", *options]
    process = start(source, whole, *options, chunk_lines=40)
    _, err = process.communicate()
    assert process.returncode == 0, err
    kills = 0
    while not output.exists():
        process = start(source, output, *options, chunk_lines=40)
        before = size(output)
        try:
            while process.poll() is None and kills < 3:
                time.sleep(0.05)
                # Some chunks after it began, and at no other moment.
                if size(output) > before + 3_000:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
            _, err = process.communicate()
        finally:
            process.kill()
        assert process.returncode in (0, -signal.SIGKILL), err
    assert kills
    assert os.listdir(output.parent) == ["hypotheses"]
    assert output.read_bytes() == whole.read_bytes()


def size(output):
    partial = output.with_name("hypotheses.partial")
    return partial.stat().st_size if partial.exists() else 0


# Four lines, two of them blank and long.
LINE = "ten\n" + " " * 500 + "\ntwo cats\n" + " " * 500 + "\n"


@pytest.mark.large
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_text(trained, tmp_path):
    peaks = []
    for num_lines in (20_000, 200_000):
        source = tmp_path / f"{num_lines}"
        source.write_text(LINE * (num_lines // 4))
        output = tmp_path / "hypotheses"
        options = [trained, "--num-beams=1", "--max-length=2"]
        process = start(source, output, *options, chunk_lines=2000)
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert output.read_bytes().count(b"\n") == num_lines
        peaks.append(int(out.split()[1]))
    # In kilobytes: the text that the second has more of takes 45 MB.
    assert peaks[1] - peaks[0] < 20_000, peaks
