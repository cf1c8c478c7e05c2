"""Chooses the dtype policy for training, depending on the hardware."""

import keras

# Processors that multiply bfloat16 natively, in half the time (AVX-512) or less
# (AMX).
_CPU_FLAGS = ("amx_bf16", "avx512_bf16")
# NVIDIA GPUs do since this compute capability (Ampere).
_COMPUTE_CAPABILITY = (8, 0)


def choose_precision(precision: str) -> tuple[str, str]:
    """Returns the dtype policy for training, and why.

    Args:
        precision: string. One of `PRECISIONS` (`recipes/sections.py`); `"auto"`
            is `mixed_bfloat16` if the processor multiplies bfloat16 natively,
            else `float32`.

    Returns:
        Pair of strings: the name of a Keras dtype policy, and the reason.
    """
    if precision != "auto":
        return precision, "the recipe says so"
    # A GPU computes if there is one, so it decides.
    found = _gpu_reason() or _cpu_reason()
    if found:
        return "mixed_bfloat16", found
    return "float32", "this processor does not multiply bfloat16 natively"


def _gpu_reason() -> str | None:
    if keras.backend.backend() == "jax":
        return _jax_gpu_reason()
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    for device in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        capability = details.get("compute_capability", (0, 0))
        if capability >= _COMPUTE_CAPABILITY:
            name = details.get("device_name", "the GPU")
            return f"{name} multiplies it natively"
    return None


def _jax_gpu_reason() -> str | None:
    import jax

    device = jax.devices()[0]
    # "9.0" for an NVIDIA GPU; AMD's have names instead.
    capability = str(getattr(device, "compute_capability", ""))
    numbers = [int(part) for part in capability.split(".") if part.isdigit()]
    if device.platform == "gpu" and tuple(numbers) >= _COMPUTE_CAPABILITY:
        return f"{device.device_kind} multiplies it natively"
    return None


def _cpu_reason() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            # The first processor stands for all.
            flags = next((x for x in file if x.startswith("flags")), "").split()
    # Only Linux has this file; float32 is right everywhere.
    except OSError:
        return None
    found = [flag for flag in _CPU_FLAGS if flag in flags]
    return f"the processor has {found[0]}" if found else None
