import io

import pytest

from relative_attention.runs.precision import choose_precision


@pytest.mark.parametrize(
    ("flags", "policy", "reason"),
    [
        ("avx2 amx_bf16", "mixed_bfloat16", "amx_bf16"),
        ("avx2 avx512_bf16", "mixed_bfloat16", "avx512_bf16"),
        ("avx2 avx512f", "float32", "not multiply bfloat16"),
    ],
)
def test_auto_precision_is_bfloat16_when_native(
    flags, policy, reason, monkeypatch
):
    assert choose_precision("mixed_float16")[0] == "mixed_float16"
    # What the processor says of itself.
    text = f"model name : X\nflags : fpu {flags}\n"
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", lambda *_, **__: io.StringIO(text))
        found = choose_precision("auto")
    assert found[0] == policy and reason in found[1]
