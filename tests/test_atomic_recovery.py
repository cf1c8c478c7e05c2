"""Folders whose writer was killed, and those who look for them afterwards."""

import json
import os
import subprocess
import sys
import threading

import pytest

from relative_attention.atomic_files import atomic_directory
from relative_attention.atomic_files import delete_directory
from relative_attention.atomic_files import recover_directory

# Replaces a folder again and again, each time in a child that is killed just
# before another of the steps that touch the disk; prints what is found then.
KILLED = """
import json, os, pathlib, signal, sys
from relative_attention import atomic_files

def kill_before(step, base):
    left = step
    def hook(event, args):
        nonlocal left
        if event.startswith(("open", "os.", "shutil.")) and any(
            str(base) in str(argument) for argument in args
        ):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

def write(path, content):
    with atomic_files.atomic_directory(path) as folder:
        for name in ("a", "b"):
            (folder / name).write_text(content)

found = []
for step in range(1, 200):
    base = pathlib.Path(sys.argv[1], str(step))
    path = base / "name"
    write(path, "old")
    pid = os.fork()
    if pid == 0:
        kill_before(step, base)
        write(path, "new")
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    was_missing = not path.exists()
    atomic_files.recover_directory(path)
    files = {p.name: p.read_text() for p in path.iterdir()}
    found.append([was_missing, files, os.WIFSIGNALED(status)])
    if not found[-1][-1]:
        break
print(json.dumps(found))
"""


def test_folder_is_found_whole_when_killed_at_any_step(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(result.stdout)
    contents = []
    for _, files, _ in found:
        assert files.keys() == {"a", "b"}
        (content,) = set(files.values())
        contents.append(content)
    # Between the renames there was none; the last child lived.
    assert any(was_missing for was_missing, _, _ in found)
    assert [killed for _, _, killed in found].count(False) == 1
    assert contents == sorted(contents, reverse=True)
    assert set(contents) == {"old", "new"}


def leave_between_renames(path, with_new):
    """What a writer leaves that dies after the old folder stepped aside."""
    aside = path.with_name(f".{path.name}-abcd1234-old")
    aside.mkdir()
    (aside / "old").touch()
    if with_new:
        new = path.with_name(f".{path.name}-abcd1234")
        new.mkdir()
        (new / "new").touch()


@pytest.mark.parametrize(
    "with_new, content", [(True, ["new"]), (False, ["old"])]
)
def test_what_is_complete_takes_the_name(with_new, content, tmp_path):
    path = tmp_path / "[name]*"
    leave_between_renames(path, with_new)
    recover_directory(path)
    assert os.listdir(path) == content
    assert os.listdir(tmp_path) == [path.name]


def test_nothing_is_recovered_where_the_folder_is_there(tmp_path):
    path = tmp_path / "name"
    path.mkdir()
    leave_between_renames(path, True)
    recover_directory(path)
    assert os.listdir(path) == []


@pytest.mark.parametrize(
    "name", [".name-abcd1234", ".name-abcd1234-gone", ".other-abcd1234-old"]
)
def test_nothing_else_takes_the_name(name, tmp_path):
    (tmp_path / name).mkdir()
    recover_directory(tmp_path / "name")
    assert os.listdir(tmp_path) == [name]


def test_writer_that_is_alive_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "name"
    path.mkdir()
    rename = os.rename
    reader = threading.Thread(target=recover_directory, args=[path])

    def rename_slowly(old, new):
        rename(old, new)
        if str(new).endswith("-old"):
            reader.start()
            reader.join(0.2)

    monkeypatch.setattr(os, "rename", rename_slowly)
    with atomic_directory(path) as folder:
        (folder / "new").touch()
    reader.join(10)
    assert os.listdir(path) == ["new"]
    assert os.listdir(tmp_path) == ["name"]


def test_deleted_folder_is_not_found_again_in_part(tmp_path, monkeypatch):
    path = tmp_path / "name"
    path.mkdir()
    (path / "file").touch()
    with monkeypatch.context() as patch:
        # Killed before anything in it is deleted.
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        delete_directory(path)
    assert not path.exists()
    recover_directory(path)
    assert not path.exists()
    path.mkdir()
    delete_directory(path)
    assert os.listdir(tmp_path) == []
