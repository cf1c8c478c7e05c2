"""Files and folders are whole or absent, whatever interrupts them."""

import errno
import itertools
import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

import relative_attention as ra
from relative_attention.files import RUN_LOCK
from relative_attention.files import atomic_directory
from relative_attention.files import atomic_file
from relative_attention.files import delete_directory
from relative_attention.files import file_in_parts
from relative_attention.files import lock_directory

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
    files = [file for file in path.rglob("*") if file.is_file()]
    names = {str(file.relative_to(path)) for file in files}
    assert names == set(FOLDER_FILES)
    (content,) = {file.read_bytes() for file in files}
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


def test_folder_of_a_killed_process_is_deleted_by_the_next(
    tmp_path, run_python
):
    script = (
        "import os, sys\n"
        "from relative_attention.files import atomic_directory\n"
        "with atomic_directory(sys.argv[1]) as folder:\n"
        "    os._exit(0)\n"
    )
    run_python(script, tmp_path / "name")
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".name-")
    (tmp_path / ".name-of-mine").mkdir()
    with atomic_directory(tmp_path / "name"):
        # What another one is filling stays.
        save_directory(tmp_path / "name", b"content")
    assert sorted(os.listdir(tmp_path)) == [".name-of-mine", "name"]


# === Whole or not there ===


def test_content_is_there_when_new(kind, tmp_path):
    save, read, _ = KINDS[kind]
    path = tmp_path / "new" / "deep" / "name"
    save(str(path), b"content")
    assert read(path) == b"content"
    assert os.listdir(path.parent) == ["name"]
    # The usual permissions: a temporary file's are private.
    usual = tmp_path / "usual"
    usual.touch() if kind == "file" else usual.mkdir()
    assert path.stat().st_mode == usual.stat().st_mode


def test_content_is_replaced_when_old(kind, tmp_path):
    save, read, atomic = KINDS[kind]
    path = tmp_path / "name"
    save(path, b"old and longer")
    if kind == "directory":
        (path / "only in the old one").touch()
    with atomic(path) as opened:
        write_half(opened)
        assert path.exists()
    save(path, b"new")
    assert read(path) == b"new"
    assert os.listdir(tmp_path) == ["name"]


@pytest.mark.parametrize("exists", [True, False])
def test_link_is_kept_and_leads_to_the_new_content(kind, exists, tmp_path):
    save, read, _ = KINDS[kind]
    target = tmp_path / "elsewhere" / "target"
    if exists:
        save(target, b"old and longer")
    (tmp_path / "link").symlink_to("again")
    (tmp_path / "again").symlink_to(target)
    save(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "again").is_symlink()
    assert read(target) == b"new"
    assert os.listdir(target.parent) == ["target"]


def test_device_is_written_to_directly(tmp_path):
    # Not one of the machine, which an error would replace.
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    # Open for reading, or writing would wait.
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    save_file(tmp_path / "link", b"new")
    assert os.read(reader, 100) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert set(os.listdir(tmp_path)) == {"link", "pipe"}


@pytest.mark.parametrize("mode", [0o640, 0o700, 0o555])
def test_permissions_are_kept(kind, mode, tmp_path):
    atomic = KINDS[kind][2]
    path = tmp_path / "name"
    path.touch() if kind == "file" else path.mkdir()
    path.chmod(mode)
    with atomic(path) as opened:
        # Not for others to read while it is written, either.
        (temporary,) = (p for p in tmp_path.iterdir() if p != path)
        own = 0 if kind == "file" else 0o700
        assert stat.S_IMODE(temporary.stat().st_mode) == mode | own
        write_half(opened)
    assert stat.S_IMODE(path.stat().st_mode) == mode


# === Errors ===

ERRORS = [
    pytest.param(RuntimeError("a bug"), id="exception"),
    pytest.param(KeyboardInterrupt(), id="interrupt"),
    pytest.param(OSError(errno.ENOSPC, "No space left"), id="full_disk"),
]


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("error", ERRORS)
def test_nothing_changes_when_writing_fails(kind, error, is_new, tmp_path):
    save, read, atomic = KINDS[kind]
    if not is_new:
        save(tmp_path / "name", b"old")
    with pytest.raises(type(error)) as raised:
        with atomic(tmp_path / "name") as opened:
            write_half(opened)
            raise error
    assert raised.value is error
    assert os.listdir(tmp_path) == ([] if is_new else ["name"])
    assert is_new or read(tmp_path / "name") == b"old"


def test_nothing_is_left_half_when_completing_fails(
    kind, tmp_path, monkeypatch
):
    """At each step that completes it in turn, until none is left to fail."""
    save, read, _ = KINDS[kind]
    save(tmp_path / "name", b"old")
    for failing in range(1, 20):
        calls = []

        def fails(function, failing=failing, calls=calls):
            def run(*args, **kwargs):
                calls.append(args)
                if len(calls) == failing:
                    raise OSError(errno.ENOSPC, "No space left")
                return function(*args, **kwargs)

            return run

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "rename"):
                patch.setattr(os, name, fails(getattr(os, name)))
            try:
                save(tmp_path / "name", b"new")
            except OSError as error:
                assert error.errno == errno.ENOSPC
            else:
                break
        left = os.listdir(tmp_path)
        if left or kind == "file":
            assert left == ["name"]
            assert read(tmp_path / "name") == b"old"
    assert failing > 2


# === Real deaths, in another process ===

# What a child does that is killed just before one of the steps that touch the
# folder, for each step in turn; prints what is found after each death.
KILLED = """
import json, os, pathlib, signal, sys
from tests.test_files import {kind} as kind

def die_at(step, folder):
    left = step
    def count():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def hook(event, args):
        if event.startswith(("open", "os.", "shutil.")) and any(
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
for step in range(1, 300):
    path = pathlib.Path(sys.argv[1], str(step), "name")
    path.parent.mkdir()
    kind.begin(path)
    pid = os.fork()
    if pid == 0:
        die_at(step, path.parent)
        kind.write(path)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    found.append(kind.look(path))
    if not os.WIFSIGNALED(status):
        break
print(json.dumps(found))
"""


@pytest.fixture
def found_after_deaths(run_python, tmp_path):
    def find(kind):
        found = json.loads(run_python(KILLED.format(kind=kind), tmp_path))
        # The last child lived to the end.
        assert 5 < len(found) < 299
        return found

    return find


class KilledFile:
    """An `atomic_file`; `look` returns each byte and how often it is there."""

    save, read = staticmethod(save_file), staticmethod(read_file)

    @classmethod
    def begin(cls, path):
        cls.save(path, b"\x00" * CONTENT_BYTES)

    @classmethod
    def write(cls, path):
        cls.save(path, b"\x01" * CONTENT_BYTES)

    @classmethod
    def look(cls, path):
        content = cls.read(path) if path.exists() else b""
        # A next writer is not held up by what is left.
        cls.save(path, b"\x02")
        assert cls.read(path) == b"\x02"
        return [[byte, content.count(byte)] for byte in sorted(set(content))]


class KilledDirectory(KilledFile):
    save, read = staticmethod(save_directory), staticmethod(read_directory)


@pytest.mark.parametrize("kind", ["KilledFile", "KilledDirectory"])
def test_content_is_whole_when_killed_at_any_step(kind, found_after_deaths):
    found = found_after_deaths(kind)
    old, new = [[0, CONTENT_BYTES]], [[1, CONTENT_BYTES]]
    # A folder is deleted before the new one gets its name.
    missing = [[]] if kind == "KilledDirectory" else []
    versions = [version for version, _ in itertools.groupby(found)]
    assert versions == [old, *missing, new]


def test_deleted_folder_is_never_partly_there(tmp_path, monkeypatch):
    path = tmp_path / "name"
    path.mkdir()
    (path / "file").touch()
    with monkeypatch.context() as patch:
        # Killed before anything in it is deleted.
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        delete_directory(path)
    assert not path.exists()
    path.mkdir()
    delete_directory(path)
    assert os.listdir(tmp_path) == []


# === The lock of a run ===

HOLDER = """
import sys
from relative_attention.files import lock_directory
with lock_directory(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process, which writes the run in `tmp_path / "run"`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def test_process_that_holds_the_lock_is_named(holder, tmp_path):
    for _ in range(2):
        with pytest.raises(ra.InputError, match="Another process") as raised:
            with lock_directory(tmp_path / "run"):
                pass
        assert f"process {holder.pid} on " in str(raised.value)
        assert "`--output`" in str(raised.value)


def test_lock_ends_with_a_process_that_is_killed(holder, tmp_path):
    holder.kill()
    holder.wait()
    with lock_directory(tmp_path / "run"):
        assert os.listdir(tmp_path / "run") == [RUN_LOCK]
        text = (tmp_path / "run" / RUN_LOCK).read_text()
        assert text.startswith(f"{os.getpid()} ")


def test_lock_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        with lock_directory(tmp_path / "new"):
            raise KeyboardInterrupt
    (tmp_path / "old").mkdir()
    with lock_directory(tmp_path / "old"):
        pass
    assert os.listdir(tmp_path) == ["old"]
    assert os.listdir(tmp_path / "old") == []


def test_lock_works_when_its_file_was_deleted(holder, tmp_path):
    (tmp_path / "run" / RUN_LOCK).unlink()
    with lock_directory(tmp_path / "run"):
        with pytest.raises(ra.InputError, match="Another process"):
            with lock_directory(tmp_path / "run"):
                pass


def test_disk_without_locks_is_written_with_a_warning(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("Function not implemented")

    monkeypatch.setattr("relative_attention.files.lock_file", refuse)
    lines = []
    with lock_directory(tmp_path, report=lines.append):
        pass
    assert len(lines) == 1 and "cannot be locked" in lines[0]
    assert os.listdir(tmp_path) == []


# === Files in parts ===

ORIGIN = {"model": ["3f"], "--num-beams": 4, "--seed": None}
PARTS = [f"part {number}\n".encode() for number in range(4)]
WHOLE = b"".join(PARTS)


def write(path, origin=ORIGIN, stop_before=None, **options):
    """Writes the parts that are missing; returns their numbers."""
    made = []
    with file_in_parts(path, origin, **options) as parts:
        for number, content in enumerate(PARTS):
            if number == stop_before:
                raise KeyboardInterrupt
            if number not in parts:
                parts.add(number, content, {"cut": [number]})
                made.append(number)
            assert parts.notes(number) == {"cut": [number]}
    return made


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "name"


@pytest.fixture
def begun(path):
    """Two of the parts are there."""
    with pytest.raises(KeyboardInterrupt):
        write(path, stop_before=2)
    assert os.listdir(path.parent) == ["name.parts"]
    return path


def snapshot(path):
    files = filter(pathlib.Path.is_file, path.parent.rglob("*"))
    return {file.name: file.read_bytes() for file in files}


def test_only_missing_parts_are_made_when_resumed(begun):
    (begun.with_name("name.parts") / "00000000").unlink()
    assert write(begun) == [0, 2, 3]
    assert snapshot(begun) == {"name": WHOLE}
    assert os.listdir(begun.parent) == ["name"]


def test_old_file_stays_until_all_parts_are_there(path):
    path.parent.mkdir()
    path.write_bytes(b"old")
    path.chmod(0o640)
    with pytest.raises(KeyboardInterrupt):
        write(path, stop_before=3)
    assert path.read_bytes() == b"old"
    # The old file may be private.
    folder = path.with_name("name.parts")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert write(path) == [3]
    assert snapshot(path) == {"name": WHOLE}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_nothing_is_left_when_no_part_was_made(path):
    with pytest.raises(KeyboardInterrupt):
        write(path, stop_before=0)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("content", [b"{", b"[]"])
def test_parts_of_an_unknown_origin_are_refused(begun, content):
    (begun.with_name("name.parts") / "origin.json").write_bytes(content)
    before = snapshot(begun)
    message = "origin.json cannot be read.*--overwrite"
    with pytest.raises(ra.InputError, match=message):
        write(begun)
    assert snapshot(begun) == before
    assert write(begun, overwrite=True) == [0, 1, 2, 3]


@pytest.mark.parametrize("overwrite", [True, False])
def test_folder_of_the_user_is_refused(path, overwrite):
    path.with_name("name.parts").mkdir(parents=True)
    (path.with_name("name.parts") / "chapter").write_text("mine")
    with pytest.raises(ra.InputError, match="no origin.json"):
        write(path, overwrite=overwrite)
    assert snapshot(path) == {"chapter": b"mine"}


def test_parts_that_another_process_writes_are_refused(path):
    with file_in_parts(path, ORIGIN) as parts:
        parts.add(0, WHOLE)
        with pytest.raises(ra.InputError, match="Another process .*is writing"):
            write(path, overwrite=True)
    assert snapshot(path) == {"name": WHOLE}


class KilledParts:
    """`look` returns what was there, what was missing, and all in the end."""

    @staticmethod
    def begin(path):
        path.write_text("old")

    write = staticmethod(write)

    @staticmethod
    def look(path):
        between = path.read_text()
        made = write(path)
        # Nothing that a killed process was writing stays behind.
        files = {file.name: file.read_text() for file in path.parent.iterdir()}
        return between, made, files


def test_file_in_parts_is_whole_when_killed_at_any_step(found_after_deaths):
    found = found_after_deaths("KilledParts")
    for between, _, files in found:
        assert between in ("old", WHOLE.decode())
        assert files == {"name": WHOLE.decode()}
    # Deaths were early and late.
    assert {len(made) for _, made, _ in found} == {0, 1, 2, 3, 4}
