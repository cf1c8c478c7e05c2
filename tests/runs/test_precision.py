import builtins
import io

import pytest

from relative_attention.runs.precision import choose_precision


@pytest.fixture
def processor(monkeypatch):
    """Pretend that the processor has these flags."""

    def pretend(flags):
        real_open = builtins.open

        def fake_open(path, *arguments, **keywords):
            if path == "/proc/cpuinfo":
                return io.StringIO(f"model name : X\nflags : fpu {flags}\n")
            return real_open(path, *arguments, **keywords)

        monkeypatch.setattr(builtins, "open", fake_open)

    return pretend


def test_auto_precision_is_bfloat16_when_native(processor):
    for flag in ("amx_bf16", "avx512_bf16"):
        processor(f"avx2 {flag}")
        policy, reason = choose_precision("auto")
        assert policy == "mixed_bfloat16"
        assert flag in reason
    assert choose_precision("mixed_float16")[0] == "mixed_float16"
    processor("avx2 avx512f")
    policy, reason = choose_precision("auto")
    assert policy == "float32"
    assert "not multiply bfloat16" in reason
