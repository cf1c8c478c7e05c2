"""Memory that was freed is there for whatever is allocated next."""

import subprocess
import sys

import pytest

import relative_attention as ra

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="glibc's allocator"
)

# Blocks that glibc maps and unmaps each time: they are over 32 MB.
CODE = """
import ctypes, resource, sys
import relative_attention as ra

kept = ra.keep_freed_memory() if sys.argv[1] == "keep" else None
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
size = 40_000_000

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = libc.malloc(size)
    libc.memset(block, 1, size)
    libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(kept, *(pages() for _ in range(3)))
"""


def new_process(argument, **environment):
    """Returns what was kept, and the pages that each block was new in."""
    printed = subprocess.run(
        [sys.executable, "-c", CODE, argument],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    kept, *pages = printed.split()
    return kept, [int(number) for number in pages]


def test_blocks_are_not_made_anew():
    _, made_anew = new_process("leave")
    kept, pages = new_process("keep")
    if kept == "False":
        pytest.skip("another C library than glibc")
    assert min(made_anew) > 0
    assert pages[0] > 0
    assert pages[1:] == [0, 0]


@pytest.mark.parametrize(
    "variable",
    [
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"},
        {"MALLOC_MMAP_MAX_": "65536"},
    ],
    ids=["tunable", "variable"],
)
def test_what_the_environment_decides_stays(variable):
    kept, pages = new_process("keep", **variable)
    assert kept == "False"
    assert min(pages) > 0


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert ra.keep_freed_memory() is False
