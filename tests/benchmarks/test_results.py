"""Results are stored with machine and commit, and read again."""

import json
import re

import pytest

import relative_attention as ra
from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result

STORED = sorted(RESULTS.glob("*.json"))


def test_what_is_written_is_read_again_a_row_a_line(tmp_path):
    result = Result(
        benchmark="any",
        command="python -m benchmarks.any",
        options={"rounds": 1},
        precision="float32",
        origin={"commit": "abc"},
        rows=[{"speed": [1.0, 2.0]}, {"speed": None}],
    )
    path = tmp_path / "new" / "any.json"
    result.write(path)
    assert Result.read(path) == result
    assert '  {"speed": [1.0, 2.0]},\n' in path.read_text()


@pytest.mark.parametrize(
    "content", [None, "{", '{"cases": []}'], ids=["none", "cut", "other"]
)
def test_what_is_no_result_is_an_error(tmp_path, content):
    path = tmp_path / "any.json"
    if content:
        path.write_text(content)
    with pytest.raises(ra.InputError, match="any.json is not the result"):
        Result.read(path)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_results_say_where_they_come_from(path):
    result = Result.read(path)
    assert result.rows
    assert re.fullmatch("[0-9a-f]{40}", result.origin["commit"])
    assert re.search(r"\((avx|amx)", result.origin["hardware"])
    assert result.command.startswith(("python -m bench", "relative-attention"))
    # No path of the machine that measured.
    assert not re.search(r'"/\w', json.dumps(dict(result.options)))
