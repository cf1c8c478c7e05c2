"""README and pages of the documentation: links, length, figures."""

import json
import re

from benchmarks.decoding.prepared_engines import OURS
from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result
from benchmarks.harness.spread import median
from tests.integration.readme_blocks import OTHER_GUIDES
from tests.integration.readme_blocks import PAGES
from tests.integration.readme_blocks import README
from tests.integration.readme_blocks import ROOT


def test_every_link_to_a_file_is_right():
    names = ("*.md", "docs/**/*.md", "models/**/*.md", "benchmarks/*.md")
    pages = [page for name in names for page in ROOT.glob(name)]
    assert len(pages) > 40
    for page in pages:
        text = re.sub(
            r"^```.*?^```",
            "",
            page.read_text("utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
        for link in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", text):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page}: {link}"


def test_no_guide_is_left_out():
    guides = {page.stem for page in ROOT.glob("docs/guides/*.md")}
    shown = {page.stem for page in PAGES if page.parent.name == "guides"}
    assert guides == shown | set(OTHER_GUIDES.split())
    moving_in = set(ROOT.glob("docs/moving_in/*.md"))
    assert moving_in and moving_in <= set(PAGES)


def test_scores_of_the_guide_are_those_of_the_models():
    page = (ROOT / "docs" / "guides" / "translate.md").read_text("utf-8")
    rows = re.findall(r"^\| \[`(\w+)`\].*\| ([\d.]+) \|", page, re.M)
    assert len(rows) == 7
    for name, bleu in rows:
        text = (ROOT / "models" / name / "results.json").read_text("utf-8")
        results = json.loads(text)
        scores = results.get("scores_of_weights", results["scores"])
        assert f"{scores['test']['bleu']:.2f}" == bleu, name


def test_readme_is_short():
    assert len(README.read_bytes()) <= 6144


def test_speeds_of_the_readme_are_those_that_were_stored():
    text = " ".join(README.read_text("utf-8").split())
    attention, training, translation = (
        Result.read(RESULTS / f"{name}_speed.json").rows
        for name in ("attention", "training", "translation")
    )
    over_keras = {
        row["tokens"]: f"{median(row['backward']['over']['keras']):.2f}"
        for row in attention
    }
    assert (
        f"**{over_keras[32]}** times the time of "
        "`keras.layers.MultiHeadAttention`, which has no positions, at 32 "
        f"tokens, {over_keras[128]} at 128, {over_keras[512]} at 512."
    ) in text
    (tokens,) = (
        row["ratio_to_peer"]
        for row in training
        if row["engine"] == "relative, mixed_bfloat16"
    )
    assert f"**{median(tokens):.2f}** times the tokens" in text
    (sentences,) = (
        row["ratio_to_base"]
        for row in translation
        if (row["engine"], row["num_beams"], row["batch_size"]) == (OURS, 4, 32)
    )
    assert f"**{median(sentences):.2f}** times the sentences" in text
