"""What is in results files: of another text, of other values, damaged."""

import functools
import json
import re
import shutil

import pytest

import relative_attention as ra
from tests.study_bench import REFERENCES
from tests.study_bench import write_references


def test_equal_runs_of_another_text_are_not_taken(study_bench):
    """Two corpora may have files of the same names, and results one folder."""
    study_bench.run()
    write_references(study_bench.corpus, [f"{r} !" for r in REFERENCES])
    output = study_bench.output.with_name("elsewhere")
    (output / "made").mkdir(parents=True)
    for file in (study_bench.output / "made").iterdir():
        shutil.copyfile(file, output / "made" / file.name)
    other = study_bench.output / "other.json"
    arguments = (study_bench.study, output, study_bench.corpus, other)
    ra.run_study(*arguments, report=print)
    assert len((output / "order").read_text().split()) == 4
    runs = json.loads(other.read_text())["runs"].values()
    assert not any("taken_from" in record for record in runs)
    # As there is no text, nothing tells whether it is the same.
    for text in study_bench.corpus.iterdir():
        text.unlink()
    other.unlink()
    shutil.rmtree(output)
    with pytest.raises(ra.InputError, match="No text file"):
        ra.run_study(*arguments, report=print)


def test_runs_of_another_text_do_not_get_into_the_table(study_bench):
    study_bench.run(rows=["plain"])
    before = study_bench.results.read_bytes()
    write_references(study_bench.corpus, [f"{r} !" for r in REFERENCES])
    message = "test.de of relative-1 is not the one that plain-1 was scored on"
    with pytest.raises(ra.InputError, match=message) as raised:
        study_bench.run()
    assert "\n" not in str(raised.value)
    assert study_bench.results.read_bytes() == before
    assert len(study_bench.order()) == 2


def test_value_of_the_results_is_said_as_the_command_line_takes_it(study_bench):
    study_bench.run(rows=["plain"])
    other = study_bench.study.override(["training.gradient_clip=1"])
    with pytest.raises(ra.InputError, match="`training.gradient_clip=null`"):
        study_bench.run(other)
    back = other.override(["training.gradient_clip=null"])
    study_bench.run(back)
    assert len(study_bench.order()) == 4


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("test", "bleu_lowercased"), None, "`test.bleu_lowercased` is None"),
        (("test", "bleu"), "31", "`test.bleu` is '31'"),
        (("test", "counts"), "eNo", "damaged counts of BLEU"),
        (("steps",), 0, "`steps` is 0"),
    ],
)
def test_damaged_record_is_named_before_anything_is_run(
    path, value, message, study_bench, run
):
    study_bench.run(rows=["plain"])
    content = study_bench.read()
    *folders, last = path
    record = content["runs"]["plain-1"]
    functools.reduce(dict.get, folders, record)[last] = value
    study_bench.results.write_text(json.dumps(content))
    expected = f"positions.json is damaged: of its run plain-1 {message}"
    with pytest.raises(ra.InputError, match=re.escape(expected)):
        study_bench.run()
    study = study_bench.output.with_name("positions.yaml")
    words = ["study", study, "--list", "--output", study_bench.output]
    status, _, err = run(*words)
    assert status == 1 and expected in err and err.count("\n") == 1
    assert len(study_bench.order()) == 2
