"""A study whose runs take no time: stand-ins write what training would."""

import json
import shutil

import numpy as np
import pytest
import yaml

import relative_attention as ra
from relative_attention.evaluation.significance import SentenceStatistics
from relative_attention.studies import runs

WORDS = "a man rides an old red bike down the long street .".split()
RNG = np.random.default_rng(1)
REFERENCES = [" ".join(RNG.choice(WORDS, 9)) for _ in range(50)]

# Stands in for `train`: it copies the results that it finds in a folder, once
# there is no file `hold`.
CHILD = """
import pathlib, shutil, signal, sys, time
command, recipe, run = sys.argv[1:4]
assert command == "train"
run = pathlib.Path(run.removeprefix("--output="))
output = run.parent
run.mkdir(exist_ok=True)
def stopped(*_):
    (run / "stopped").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stopped)
with open(output / "order", "a") as order:
    order.write(run.name + "\\n")
while (output / "hold").exists():
    time.sleep(0.01)
made = output / "made" / f"{run.name}.json"
if not made.exists():
    print("relative-attention: it cannot be done")
    sys.exit(1)
shutil.copyfile(recipe, run / "recipe.yaml")
shutil.copyfile(made, run / "results.json")
"""


def results_of(seed, rate, **changes):
    """The results of a run, of made-up translations."""
    rng = np.random.default_rng(seed)
    hypotheses = [
        " ".join(w if rng.random() > rate else "?" for w in line.split())
        for line in REFERENCES
    ]
    statistics = SentenceStatistics.of_texts(hypotheses, REFERENCES)
    test = {"bleu_lowercased": 5.0, "bleu_signature": statistics.signature}
    return {
        "precision": "float32",
        "steps": 12,
        "minutes": 1.5,
        "hardware": "a machine",
        "commit": "0123456789+",
        "date": "2026-01-01",
        "python": "3",
        "keras": "3",
        "tensorflow": "2",
        "scores": {"validation": {"bleu": 40.0 + seed}, "test": test},
        "curve": [{"step": 12, "val_loss": 1.25}],
        "test_counts": statistics.to_json()["counts"],
        **changes,
    }


def write_references(folder, language="de", end=""):
    """Writes a side of the test text, with something after each line."""
    text = "".join(f"{line}{end}\n" for line in REFERENCES)
    (folder / f"test.{language}").write_text(text)


class Bench:
    """A study's folders, and runs that take no time."""

    def __init__(self, study, output, corpus):
        self.study = study
        self.output = output
        self.results = output / "positions.json"
        self.corpus = corpus
        self.lines = []
        for row, rate in (("plain", 0.5), ("relative", 0.1)):
            for seed in (1, 2):
                self.make(row, seed, rate)

    def make(self, row, seed, rate=0.2, output=None, **changes):
        """Leaves what a run will give."""
        folder = (output or self.output) / "made"
        folder.mkdir(parents=True, exist_ok=True)
        results = results_of(seed, rate, **changes)
        (folder / f"{row}-{seed}.json").write_text(json.dumps(results))

    def finish(self, row, seed, output=None):
        """Makes the folder of a finished run, and returns its record."""
        output = output or self.output
        (found,) = (one for one in self.study.rows if one.name == row)
        recipe = self.study.recipe_for(found, seed)
        run = runs.StudyRun(row, seed, recipe, str(output))
        run.path().mkdir(parents=True)
        recipe.save(run.path() / "recipe.yaml")
        made = self.output / "made" / f"{run.name}.json"
        shutil.copyfile(made, run.path() / "results.json")
        return run.record()

    def finish_elsewhere(self, row, seed):
        return self.finish(row, seed, self.output.with_name("elsewhere"))

    def run(self, study=None, output=None, **arguments):
        return ra.run_study(
            study or self.study,
            output or self.output,
            self.corpus,
            **{"report": self.lines.append, **arguments},
        )

    def refused(self, message, study=None, **arguments):
        """Runs what is refused before anything is trained or changed."""
        before = self.order(), self.page()
        with pytest.raises(ra.InputError, match=message) as raised:
            self.run(study, **arguments)
        assert "\n" not in str(raised.value)
        assert (self.order(), self.page()) == before

    def change_references(self, end):
        write_references(self.corpus, end=end)

    def order(self, output=None):
        file = (output or self.output) / "order"
        return file.read_text().split() if file.exists() else []

    def records(self, path=None):
        return json.loads((path or self.results).read_text())["runs"]

    def page(self):
        """The table in Markdown, on one line."""
        page = self.output / "positions.md"
        return " ".join(page.read_text().split()) if page.exists() else ""


@pytest.fixture
def draw_study(monkeypatch):
    """Pictures take most of the time: a test that wants one calls this."""
    draw = runs._draw
    monkeypatch.setattr(runs, "_draw", lambda *_: None)
    return lambda: monkeypatch.setattr(runs, "_draw", draw)


@pytest.fixture
def study_bench(recipe_file, tmp_path, corpus, monkeypatch, draw_study):
    monkeypatch.setattr(runs, "_CHILD", CHILD)
    monkeypatch.setattr(runs, "_SECONDS_BETWEEN_LOOKS", 0.01)
    path = tmp_path / "positions.yaml"
    rows = [
        {"name": "plain", "overrides": {"model.position_encoding": None}},
        {"name": "relative", "compare_with": "plain", "paper": 26.5},
    ]
    mapping = {
        "description": "Which?",
        "recipe": str(recipe_file),
        "overrides": {"training.devices": 1},
        "seeds": [1, 2],
        "rows": rows,
    }
    path.write_text(yaml.safe_dump(mapping))
    texts = shutil.copytree(corpus, tmp_path / "texts")
    for language in ("en", "de"):
        write_references(texts, language)
    return Bench(ra.find_study(path), tmp_path / "out", texts)
