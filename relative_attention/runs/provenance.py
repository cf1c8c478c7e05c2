"""Notes the hardware, versions and commit that a result came from."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess
from typing import Any

import keras

import relative_attention

_PACKAGES = ("keras", "tensorflow", "numpy", "sentencepiece", "sacrebleu")

# Instructions that make matrix products fast, in bfloat16 above all.
_NOTABLE_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_bf16",
    "amx_bf16",
    "asimd",
    "bf16",
    "sve",
)


def provenance() -> dict[str, Any]:
    """Returns hardware, versions, commit and date, as a dict for JSON."""
    return {
        "date": datetime.date.today().isoformat(),
        "relative_attention": relative_attention.__version__,
        "commit": _commit(),
        "hardware": _hardware(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _packages()},
    }


def provenance_sentence(origin: dict[str, Any]) -> str:
    """Returns the same in one line, to stand under a table.

    Args:
        origin: A dict, what `provenance` returned.
    """
    versions = [
        f"{name} {origin[name]}"
        for name in ("python", *_PACKAGES, "jax")
        if origin.get(name)
    ]
    return "; ".join(
        [
            origin["hardware"],
            ", ".join(versions),
            f"commit {origin['commit'] or 'unknown'}",
            origin["date"],
        ]
    )


def _packages() -> list[str]:
    """Returns the packages that computed."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return list(_PACKAGES)
    others = [name for name in _PACKAGES if name != "tensorflow"]
    return [*others, backend]


def _commit() -> str | None:
    """Returns the checkout's commit, `None` outside of one.

    It ends with `+` where the package or the zoo had been changed since.
    """
    root = pathlib.Path(relative_attention.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "diff", "HEAD", "--stat", "--", "relative_attention")
    return f"{commit}+" if changed else commit


def _git(root: pathlib.Path, *arguments: str) -> str | None:
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _hardware() -> str:
    name, flags = _processor()
    notable = " ".join(flag for flag in _NOTABLE_FLAGS if flag in flags)
    cpu = f"{name}, {_cores()} cores ({notable or 'no notable instructions'})"
    return ", ".join([cpu, *_gpus()])


def _gpus() -> list[str]:
    """Returns the names of the GPUs that the backend of Keras sees."""
    if keras.backend.backend() == "jax":
        import jax

        return [d.device_kind for d in jax.devices() if d.platform == "gpu"]
    if keras.backend.backend() == "torch":
        import torch

        numbers = range(torch.cuda.device_count())
        return [torch.cuda.get_device_name(number) for number in numbers]
    import tensorflow as tf

    return [
        tf.config.experimental.get_device_details(device).get(
            "device_name", "GPU"
        )
        for device in tf.config.list_physical_devices("GPU")
    ]


def _processor() -> tuple[str, set[str]]:
    """Returns the name of the processor and the set of its flags."""
    fields: dict[str, str] = {}
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    name = fields.get("model name") or platform.processor() or "unknown"
    flags = fields.get("flags") or fields.get("Features") or ""
    return name, set(flags.split())


def _cores() -> int | None:
    """Returns the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on macOS.
        return os.cpu_count()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
