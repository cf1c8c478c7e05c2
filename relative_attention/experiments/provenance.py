"""Where and with what a result came about."""

import importlib.metadata
import os
import pathlib
import platform
import subprocess

import relative_attention

_PACKAGES = ("keras", "tensorflow", "numpy", "sentencepiece", "sacrebleu")


def provenance():
    """Commit, versions and hardware, a dict for JSON."""
    return {
        "relative_attention": relative_attention.__version__,
        "commit": _commit(),
        "hardware": _hardware(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
    }


def _commit():
    """The checkout's commit, `None` outside of one; `+` if it was changed."""
    root = pathlib.Path(relative_attention.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "HEAD")
    return f"{commit}+" if _git(root, "diff", "HEAD", "--stat") else commit


def _git(root, *arguments):
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _hardware():
    import tensorflow as tf

    gpus = [
        tf.config.experimental.get_device_details(device).get(
            "device_name", "GPU"
        )
        for device in tf.config.list_physical_devices("GPU")
    ]
    return ", ".join([f"{_cpu_name()}, {os.cpu_count()} cores", *gpus])


def _cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
