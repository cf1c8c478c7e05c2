"""A long file, with which whoever comes after a death goes on."""

import errno
import json
import os
import pathlib
import subprocess
import sys

import pytest

import relative_attention as ra
from relative_attention.resumable_file import resumable_file

ROOT = pathlib.Path(__file__).parents[1]
ORIGIN = {"model": ["3f"], "--num-beams": 4, "--seed": None}
LINES = [f"line {number}\n".encode() for number in range(7)]
WHOLE = b"".join(LINES)


def write(path, lines=LINES, origin=ORIGIN, **options):
    """Write lines from where the file is, and keep after every second."""
    with resumable_file(path, origin, {"lines": 0}, **options) as file:
        first = file.counts["lines"]
        for done, line in enumerate(lines[first:], start=first + 1):
            file.write(line)
            if done % 2 == 0:
                file.keep(lines=done)
    return first


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "name"


@pytest.fixture
def begun(path):
    """Five lines are written, of which four were kept; then it was stopped."""
    with pytest.raises(KeyboardInterrupt):
        write(path, stop_after(LINES, 5))
    assert names(path) == {"name.partial", "name.journal"}
    return path


def stop_after(lines, number):
    """A list that can be read so far only."""

    class Stopped(list):
        def __getitem__(self, rest):
            def some():
                yield from lines[rest][:number]
                raise KeyboardInterrupt

            return some()

    return Stopped()


def names(path):
    return {file.name for file in path.parent.iterdir()}


def snapshot(path):
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


# === What is written is what is there ===


def test_file_is_there_when_it_is_whole(path):
    with resumable_file(path, ORIGIN, {}) as file:
        file.write(WHOLE)
        file.keep()
        assert not path.exists()
    assert snapshot(path) == {"name": WHOLE}


def test_old_content_and_permissions_stay_until_then(path):
    path.parent.mkdir()
    path.write_bytes(b"old")
    path.chmod(0o640)
    with resumable_file(path, ORIGIN, {}) as file:
        file.write(WHOLE)
        file.keep()
        assert path.read_bytes() == b"old"
    assert snapshot(path) == {"name": WHOLE}
    assert path.stat().st_mode & 0o777 == 0o640


def test_link_leads_to_the_new_file(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    write(tmp_path / "link")
    assert snapshot(path) == {"name": WHOLE}
    assert (tmp_path / "link").is_symlink()


def test_what_was_kept_is_not_written_again(begun):
    assert write(begun) == 4
    assert snapshot(begun) == {"name": WHOLE}


def test_half_a_line_is_cut_off(begun):
    with open(begun.with_name("name.partial"), "ab") as file:
        file.write(b"li")
    assert write(begun) == 4
    assert snapshot(begun) == {"name": WHOLE}


def test_nothing_is_left_when_nothing_was_kept(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, stop_after(LINES, 1))
    assert names(path) == set()


def test_file_of_no_line_is_made(path):
    write(path, [])
    assert snapshot(path) == {"name": b""}


# === What is refused, and what is lost by it: nothing ===


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--num-beams": 2}, r"another --num-beams \(4, now 2\)\. "),
        ({"--seed": 1}, r"another --seed \(none, now 1\)\. "),
        ({"model": ["3e"]}, "another model"),
        ({"--top-k": 3}, "another --top-k"),
    ],
    ids=str,
)
def test_other_origin_is_refused_until_told_to_overwrite(
    begun, changed, message
):
    before = snapshot(begun)
    origin = {**ORIGIN, **changed}
    with pytest.raises(ra.InputError, match=f"{message}.*--overwrite") as error:
        write(begun, LINES, origin)
    assert "\n" not in str(error.value)
    assert snapshot(begun) == before
    assert write(begun, LINES, origin, overwrite=True) == 0
    assert snapshot(begun) == {"name": WHOLE}


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{",
        b"{}",
        b'{"bytes": 1000000, "counts": {}, "origin": {}}',
        b'{"bytes": "4", "counts": {}, "origin": {}}',
        b'{"bytes": 4, "counts": [], "origin": {}}',
        b'{"bytes": 4, "counts": {"lines": "1"}, "origin": {}}',
    ],
)
def test_unknown_origin_is_refused(begun, content):
    journal = begun.with_name("name.journal")
    journal.unlink() if content is None else journal.write_bytes(content)
    before = snapshot(begun)
    with pytest.raises(ra.InputError, match="name.journal is .*--overwrite"):
        write(begun)
    assert snapshot(begun) == before
    assert write(begun, overwrite=True) == 0


def test_file_that_another_process_writes_is_refused(path):
    with resumable_file(path, ORIGIN, {}) as file:
        file.write(WHOLE)
        file.keep()
        with pytest.raises(ra.InputError, match="Another process is writing"):
            write(path, overwrite=True)
    assert snapshot(path) == {"name": WHOLE}


# === A disk that is full ===


@pytest.mark.parametrize("call", range(1, 5))
def test_full_disk_loses_nothing_that_was_kept(begun, call, monkeypatch):
    """As the disk refuses one `fsync` after another."""
    calls = []
    fsync = os.fsync

    def refuse(descriptor):
        calls.append(descriptor)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space left"):
            write(begun)
    kept = json.loads(begun.with_name("name.journal").read_text())
    assert kept["counts"]["lines"] in (4, 6)
    assert write(begun) == kept["counts"]["lines"]
    assert snapshot(begun) == {"name": WHOLE}


# A child whose system refuses to write more than this to a file.
LIMITED = """
import pathlib, resource, signal, sys
from tests.test_resumable_file import LINES, write

resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    write(pathlib.Path(sys.argv[1]), [line * 200 for line in LINES])
except OSError:
    sys.exit(7)
"""


def test_writing_goes_on_when_the_system_has_room_again(path):
    child = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.returncode == 7
    assert names(path) == {"name.partial", "name.journal"}
    lines = [line * 200 for line in LINES]
    assert write(path, lines) == 2
    assert snapshot(path) == {"name": b"".join(lines)}


# === Real deaths: another process ===

# A child that is killed just before one of the steps that touch the folder, at
# times with lines in it that were not kept; then one that goes on.
KILLED = """
import json, os, pathlib, signal, sys
from tests.test_resumable_file import write

def die_at(step, folder):
    left = step
    def count():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def hook(event, args):
        if event.startswith(("open", "os.", "tempfile.")) and any(
            str(folder) in str(argument) for argument in args
        ):
            count()
    sys.addaudithook(hook)
    fsync = os.fsync
    def sync(descriptor):
        count()
        fsync(descriptor)
        count()
    os.fsync = sync


found = []
for step in range(1, 200):
    path = pathlib.Path(sys.argv[1], str(step), "name")
    path.parent.mkdir()
    path.write_text("old")
    pid = os.fork()
    if pid == 0:
        die_at(step, path.parent)
        write(path)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    between = path.read_text()
    first = write(path)
    files = {p.name: p.read_text() for p in path.parent.iterdir()}
    found.append([between, first, files])
    if not os.WIFSIGNALED(status):
        break
print(json.dumps(found))
"""


def test_file_is_whole_when_killed_at_any_step(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert 15 < len(found) < 199
    for between, _, files in found:
        assert between in ("old", WHOLE.decode())
        assert files == {"name": WHOLE.decode()}
    # Deaths were early and late.
    assert {first for _, first, _ in found} == {0, 2, 4, 6}
