"""Files and folders that are whole or absent, whatever interrupts them."""

import errno
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from relative_attention.atomic_files import atomic_directory
from relative_attention.atomic_files import atomic_file

ROOT = pathlib.Path(__file__).parents[1]
CONTENT_BYTES = 200_000
FOLDER_FILES = ("first", "nested/second")


def save_file(path, content):
    with atomic_file(path) as file:
        file.write(content)


def save_directory(path, content):
    with atomic_directory(path) as folder:
        (folder / "nested").mkdir()
        for name in FOLDER_FILES:
            (folder / name).write_bytes(content)


def read_file(path):
    return path.read_bytes()


def read_directory(path):
    """The content that all files of a complete folder share."""
    files = sorted(
        str(file.relative_to(path))
        for file in path.rglob("*")
        if file.is_file()
    )
    assert files == sorted(FOLDER_FILES)
    (content,) = {(path / name).read_bytes() for name in files}
    return content


KINDS = {
    "file": (save_file, read_file, atomic_file),
    "directory": (save_directory, read_directory, atomic_directory),
}


@pytest.fixture(params=list(KINDS))
def kind(request):
    return request.param


def write_half(opened):
    """Some of the content, as it is when something goes wrong."""
    if isinstance(opened, pathlib.Path):
        (opened / "first").write_bytes(b"half")
    else:
        opened.write(b"half")


# === What is written is what is there ===


def test_content_is_there_when_new(kind, tmp_path):
    save, read, _ = KINDS[kind]
    path = tmp_path / "new" / "deep" / "name"
    save(path, b"content")
    assert read(path) == b"content"
    assert os.listdir(path.parent) == ["name"]


def test_content_is_replaced_when_old(kind, tmp_path):
    save, read, _ = KINDS[kind]
    save(tmp_path / "name", b"old and longer")
    save(tmp_path / "name", b"new")
    assert read(tmp_path / "name") == b"new"
    assert os.listdir(tmp_path) == ["name"]


def test_files_of_the_old_folder_are_gone_when_replaced(tmp_path):
    with atomic_directory(tmp_path / "name") as folder:
        (folder / "only in the old one").touch()
    save_directory(tmp_path / "name", b"new")
    assert not (tmp_path / "name" / "only in the old one").exists()


def test_name_appears_when_complete_only(kind, tmp_path):
    save, read, atomic = KINDS[kind]
    path = tmp_path / "name"
    with atomic(path) as opened:
        write_half(opened)
        assert not path.exists()
    assert path.exists()


def test_old_content_stays_when_new_is_being_written(kind, tmp_path):
    save, read, atomic = KINDS[kind]
    path = tmp_path / "name"
    save(path, b"old")
    with atomic(path) as opened:
        write_half(opened)
        assert read(path) == b"old"


def test_text_is_utf8_when_mode_is_text(tmp_path):
    with atomic_file(tmp_path / "name", "w") as file:
        file.write("für\n")
    assert (tmp_path / "name").read_bytes() == b"f\xc3\xbcr\n"


def test_path_may_be_a_string(kind, tmp_path):
    save, read, _ = KINDS[kind]
    save(str(tmp_path / "name"), b"content")
    assert read(tmp_path / "name") == b"content"


def test_permissions_are_the_usual_ones(kind, tmp_path):
    save, _, _ = KINDS[kind]
    if kind == "file":
        (tmp_path / "usual").touch()
    else:
        (tmp_path / "usual").mkdir()
    save(tmp_path / "name", b"content")
    # Temporary files are private; what takes a name is for others to read.
    assert (tmp_path / "name").stat().st_mode == (
        tmp_path / "usual"
    ).stat().st_mode


# === Errors ===

ERRORS = [
    pytest.param(RuntimeError("a bug"), id="exception"),
    pytest.param(KeyboardInterrupt(), id="interrupt"),
    pytest.param(OSError(errno.ENOSPC, "No space left"), id="full_disk"),
]


@pytest.mark.parametrize("error", ERRORS)
def test_old_content_stays_when_writing_fails(kind, error, tmp_path):
    save, read, atomic = KINDS[kind]
    save(tmp_path / "name", b"old")
    with pytest.raises(type(error)) as raised:
        with atomic(tmp_path / "name") as opened:
            write_half(opened)
            raise error
    assert raised.value is error
    assert read(tmp_path / "name") == b"old"
    assert os.listdir(tmp_path) == ["name"]


@pytest.mark.parametrize("error", ERRORS)
def test_nothing_is_left_when_writing_the_first_fails(kind, error, tmp_path):
    _, _, atomic = KINDS[kind]
    with pytest.raises(type(error)):
        with atomic(tmp_path / "name") as opened:
            write_half(opened)
            raise error
    assert os.listdir(tmp_path) == []


def fail_at_call(monkeypatch, name, number, error):
    """Let the `number`-th call of `os.<name>` raise before it acts."""
    original = getattr(os, name)
    calls = []

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) == number:
            raise error
        return original(*args, **kwargs)

    monkeypatch.setattr(os, name, fail)
    return calls


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "kind, function, number",
    [
        pytest.param("file", "fsync", 1, id="file_to_disk"),
        pytest.param("file", "replace", 1, id="file_takes_name"),
        pytest.param("directory", "fsync", 2, id="directory_to_disk"),
        pytest.param("directory", "rename", 1, id="directory_steps_aside"),
        pytest.param("directory", "rename", 2, id="directory_takes_name"),
    ],
)
def test_old_content_stays_when_completing_fails(
    kind, function, number, error, tmp_path, monkeypatch
):
    save, read, _ = KINDS[kind]
    save(tmp_path / "name", b"old")
    with monkeypatch.context() as patch:
        calls = fail_at_call(patch, function, number, error)
        with pytest.raises(type(error)):
            save(tmp_path / "name", b"new")
    assert len(calls) >= number
    assert (tmp_path / "name").exists()
    assert read(tmp_path / "name") == b"old"
    assert os.listdir(tmp_path) == ["name"]


# === A real limit, and real deaths: another process ===

CHILD = """
import os, pathlib, signal, sys
sys.path.insert(0, {tests!r})
sys.path.insert(0, {root!r})
from test_atomic_files import CONTENT_BYTES, KINDS

kind, path = sys.argv[1], pathlib.Path(sys.argv[2])
save = KINDS[kind][0]

def content(version):
    return bytes([version % 256]) * CONTENT_BYTES
"""

CHILD_LOOP = """
version = 1
while True:
    save(path, content(version))
    print(version, flush=True)
    version += 1
"""

CHILD_DISK = """
import resource
# The kernel refuses to write further than this, as it does on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (CONTENT_BYTES // 2,) * 2)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    save(path, content(1))
except OSError as error:
    sys.exit(7)
"""

CHILD_STEP = """
# Die just before the given one of the steps that touch the folder.
last = int(sys.argv[3])
steps = 0

def step(event, args):
    global steps
    if event.startswith(("open", "os.", "shutil.", "tempfile.")) and any(
        str(path.parent) in str(argument) for argument in args
    ):
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(step)
save(path, content(1))
"""


def start_child(script, *args):
    prologue = CHILD.format(tests=str(ROOT / "tests"), root=str(ROOT))
    return subprocess.Popen(
        [sys.executable, "-c", prologue + script, *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
    )


def assert_whole(content):
    assert len(content) == CONTENT_BYTES
    assert len(set(content)) == 1


def old_content():
    return b"\x00" * CONTENT_BYTES


def test_old_content_stays_when_the_system_refuses_to_write(kind, tmp_path):
    save, read, _ = KINDS[kind]
    save(tmp_path / "name", old_content())
    child = start_child(CHILD_DISK, kind, tmp_path / "name")
    child.communicate()
    assert child.returncode == 7
    assert read(tmp_path / "name") == old_content()
    assert os.listdir(tmp_path) == ["name"]


def read_after_death(kind, path):
    """What is there, complete; of a folder perhaps beside its name.

    A folder takes two renames to replace. A process that dies between them
    leaves the old one, complete, under the name ending in `-old`.
    """
    _, read, _ = KINDS[kind]
    if kind == "directory" and not path.exists():
        (aside,) = path.parent.glob(f".{path.name}-*-old")
        return read(aside)
    return read(path)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_content_is_whole_when_killed_at_a_random_time(kind, tmp_path):
    save, _, _ = KINDS[kind]
    random_time = random.Random(1)
    num_left_over = 0
    for number in range(8):
        path = tmp_path / str(number) / "name"
        save(path, old_content())
        child = start_child(CHILD_LOOP, kind, path)
        # The first version is complete: from now on it is saving again.
        assert child.stdout.readline() == "1\n"
        time.sleep(random_time.uniform(0, 0.05))
        child.kill()
        child.communicate()
        assert child.returncode == -signal.SIGKILL
        content = read_after_death(kind, path)
        assert_whole(content)
        assert content != old_content()
        num_left_over += len(os.listdir(path.parent)) > 1
    # Else every death fell between two saves, and nothing was tried.
    assert num_left_over > 0


def test_content_is_whole_when_killed_at_any_step(kind, tmp_path):
    save, _, _ = KINDS[kind]
    seen = set()
    for last in range(1, 200):
        path = tmp_path / str(last) / "name"
        save(path, old_content())
        child = start_child(CHILD_STEP, kind, path, last)
        child.communicate()
        content = read_after_death(kind, path)
        assert_whole(content)
        seen.add(content[0])
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL
    # The last child lived to the end; some died before the new one was there.
    assert child.returncode == 0
    assert content[0] == 1
    assert seen == {0, 1}
    assert last > 3


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_saving_works_when_a_process_was_killed_before(kind, tmp_path):
    save, read, _ = KINDS[kind]
    path = tmp_path / "name"
    save(path, old_content())
    child = start_child(CHILD_STEP, kind, path, 3)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    save(path, b"new")
    assert read(path) == b"new"
