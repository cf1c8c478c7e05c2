"""What contributors are told, and what runs for them, is there."""

import pathlib
import re

import pytest
import yaml

import relative_attention as ra

ROOT = pathlib.Path(__file__).parents[1]
TARGETS = set(
    re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.M)
)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_targets_and_paths_of_the_page_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for target in re.findall(r"make ([\w-]+)`", text):
        assert target in TARGETS
    paths = re.findall(r"`((?:\w+/|\.)[\w./-]+)`", text)
    assert len(paths) > 10
    for path in paths:
        # Git ignores these.
        is_made = path.startswith((".venv", "docs/_build"))
        assert is_made or (ROOT / path).exists(), path


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_of_the_makefile(path):
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    commands = [
        step["run"]
        for job in jobs.values()
        for step in job["steps"]
        if "run" in step
    ]
    assert commands
    for command in commands:
        make, target = command.split()
        assert make == "make" and target in TARGETS


def test_oldest_versions_equal_the_lower_bounds():
    """What `make test-oldest` installs is what `pip` may."""
    setup = (ROOT / "setup.py").read_text("utf-8")
    (required,) = re.findall(r"install_requires=\[(.*?)\]", setup, re.DOTALL)
    bounds = re.findall(r'"([\w-]+)>=([\d.]+)', required)
    text = (ROOT / "tests" / "oldest.txt").read_text("utf-8")
    oldest = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text, re.M))
    assert len(bounds) > 10
    for name, version in bounds:
        # 2.18 and 2.18.0 are one version.
        assert oldest[name].removesuffix(".0") == version.removesuffix(".0")


def test_forms_and_citation_are_readable():
    forms = set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    for path in forms - {ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"}:
        form = yaml.safe_load(path.read_text("utf-8"))
        assert form["name"] and form["description"] and form["body"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["version"] == ra.__version__
    names = [
        a["family-names"] for a in citation["preferred-citation"]["authors"]
    ]
    assert names == ["Shaw", "Uszkoreit", "Vaswani"]
