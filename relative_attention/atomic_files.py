"""Files and folders that are either whole or not there."""

import contextlib
import os
import pathlib
import shutil
import tempfile


@contextlib.contextmanager
def atomic_file(path, mode="wb"):
    """Open a file that takes the name `path` only when it is complete.

    It is written beside `path`, forced to disk and renamed. After an error, an
    interrupt or a full disk, what `path` was before is still there.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    encoding = None if "b" in mode else "utf-8"
    descriptor, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}-"
    )
    # Temporary files are for their owner's eyes; what is kept is as usual.
    os.chmod(temporary, 0o666 & ~_umask())
    try:
        with open(descriptor, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def atomic_directory(path):
    """Fill a folder that takes the name `path` only when it is complete.

    Yields a folder beside `path`, to write into. A folder that `path` named
    before is replaced.
    """
    path = pathlib.Path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(
        tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-")
    )
    aside = temporary.with_name(temporary.name + "-old")
    temporary.chmod(0o777 & ~_umask())
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with open(file, "rb") as written:
                    os.fsync(written.fileno())
        # A folder cannot be renamed over another; the old one steps aside, so
        # that at no moment is there half of either.
        if path.exists():
            os.rename(path, aside)
        os.rename(temporary, path)
        shutil.rmtree(aside, ignore_errors=True)
    except BaseException:
        if aside.exists() and not path.exists():
            os.rename(aside, path)
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _umask():
    """The permissions that this process takes from new files."""
    umask = os.umask(0)
    os.umask(umask)
    return umask
