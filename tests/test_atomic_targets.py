"""What a path may be before it is written: links, devices, permissions."""

import errno
import os
import stat
import subprocess
import sys
import threading

import pytest

from relative_attention.atomic_files import atomic_directory
from relative_attention.atomic_files import atomic_file
from relative_attention.cli.output_file import check_output
from relative_attention.errors import InputError
from relative_attention.plot.figure import save_figure


def write(path, content=b"new"):
    with atomic_file(path) as file:
        file.write(content)


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def read_while(pipe, action):
    """What comes out of a named pipe during `action`."""
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    try:
        action()
    finally:
        # Ends the reader, too, where `action` did not open the pipe.
        if reader.is_alive():
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                pass
        reader.join(10)
    return received


# === What is no regular file ===


def test_pipe_is_written_to(pipe, tmp_path):
    assert read_while(pipe, lambda: write(pipe)) == [b"new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_pipe_takes_text(pipe):
    def action():
        with atomic_file(pipe, "w") as file:
            file.write("für\n")

    assert read_while(pipe, action) == [b"f\xc3\xbcr\n"]


def test_pipe_takes_a_picture(pipe):
    figure = pytest.importorskip("matplotlib.figure").Figure((2, 2))
    received = read_while(pipe, lambda: save_figure(figure, pipe))
    assert received[0].startswith(b"\x89PNG")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_link_to_a_pipe_stays(pipe, tmp_path):
    # Not to a device of the machine, which an error would replace.
    link = tmp_path / "link"
    link.symlink_to(pipe)
    check_output(link)
    assert read_while(pipe, lambda: write(link)) == [b"new"]
    assert link.is_symlink()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert set(os.listdir(tmp_path)) == {"link", "pipe"}


def test_device_is_written_to(tmp_path):
    device = tmp_path / "device"
    try:
        # That of /dev/null.
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")
    write(device)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert os.listdir(tmp_path) == ["device"]


@pytest.mark.parametrize("target", ["/proc/self/fd/1", "/dev/fd/1"])
def test_standard_output_that_appends_goes_on(target, tmp_path):
    path = tmp_path / "log"
    path.write_text("before\n")
    # What `/dev/stdout` is; not that itself, which an error would replace.
    name = tmp_path / "stdout"
    name.symlink_to(target)
    code = (
        "import sys; from relative_attention.atomic_files import atomic_file\n"
        "with atomic_file(sys.argv[1]) as file: file.write(b'new\\n')\n"
        "print('after')"
    )
    with open(path, "ab") as log:
        subprocess.run(
            [sys.executable, "-c", code, name], stdout=log, check=True
        )
    assert path.read_text() == "before\nnew\nafter\n"
    assert os.readlink(name) == target


def test_file_that_is_mounted_is_written_to(tmp_path, monkeypatch):
    path = tmp_path / "mounted"
    path.write_bytes(b"old and longer")
    inode = path.stat().st_ino

    def refuse(*_):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(os, "replace", refuse)
    write(path)
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino == inode
    assert os.listdir(tmp_path) == ["mounted"]


# === Links ===


@pytest.mark.parametrize("exists", [True, False])
def test_target_of_a_link_is_written(exists, tmp_path):
    target = tmp_path / "folder" / "target"
    if exists:
        target.parent.mkdir()
        target.write_bytes(b"old and longer")
    link = tmp_path / "link"
    link.symlink_to("again")
    (tmp_path / "again").symlink_to(target)
    write(link)
    assert link.is_symlink() and (tmp_path / "again").is_symlink()
    assert target.read_bytes() == b"new"
    assert os.listdir(target.parent) == ["target"]


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "a")


@pytest.mark.parametrize("exists", [True, False])
def test_target_of_a_linked_folder_is_filled(exists, tmp_path):
    target = tmp_path / "elsewhere" / "target"
    if exists:
        target.mkdir(parents=True)
        (target / "old").touch()
    link = tmp_path / "link"
    link.symlink_to(target)
    with atomic_directory(link) as folder:
        (folder / "new").touch()
    assert link.is_symlink()
    assert os.listdir(target) == ["new"]
    assert os.listdir(target.parent) == ["target"]
    assert set(os.listdir(tmp_path)) == {"elsewhere", "link"}


# === Permissions ===


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_permissions_of_a_file_stay(mode, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    with atomic_file(path) as file:
        file.write(b"new")
        # Not for others to read while it is written, either.
        (temporary,) = (p for p in tmp_path.iterdir() if p != path)
        assert stat.S_IMODE(temporary.stat().st_mode) == mode
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o700, 0o555])
def test_permissions_of_a_folder_stay(mode, tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    path.chmod(mode)
    with atomic_directory(path) as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "new").touch()
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert (path / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_of_a_file_stays(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 1234, 1235)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


# === What a command says before its work ===


def test_device_needs_no_folder_that_can_be_written(monkeypatch):
    # As for everybody but root.
    monkeypatch.setattr(os, "access", lambda path, _: path == "/dev/null")
    check_output("/dev/null")


def test_file_closed_to_writing_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.touch()
    monkeypatch.setattr(os, "access", lambda tested, _: tested != path)
    with pytest.raises(InputError, match="permissions"):
        check_output(path)
