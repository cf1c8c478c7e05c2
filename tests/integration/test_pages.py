"""README and pages of the documentation: links, length, figures."""

import re

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


def test_readme_is_short():
    assert len(README.read_bytes()) <= 7168


def test_speeds_of_the_readme_are_those_that_were_stored():
    text = " ".join(README.read_text("utf-8").split())
    tables = (ROOT / "docs" / "science" / "speed.md").read_text("utf-8")
    short, layer, _, layer_on_avx2, *others = (
        [cell.strip() for cell in line.split("|")[1:-1]]
        for start in (
            ("512 ", "2,048 "),
            ("beam 4, batch 32 ",),
            ("relative, mixed_bfloat16",),
        )
        for line in tables.splitlines()
        if line.startswith(tuple(f"| {words}" for words in start))
    )
    # Training has two tables with such a row: its speed, then its memory.
    translation, on_avx2, training, _ = others
    assert f"at 512 tokens, on two cores: **{short[3].split()[0]}**" in text
    ratio, without = (row[3].split()[0] for row in (layer, layer_on_avx2))
    assert f"tokens {ratio} with AVX-512, {without} without" in text
    assert f"in {layer[7]} MB where tensor2tensor's way takes" in text
    assert f"takes {layer[6]} MB" in text
    assert f"**{training[3].split()[0]}** times the tokens" in text
    ratio, without = (cells[1].split()[1] for cells in (translation, on_avx2))
    assert f"**{ratio}** times the sentences" in text
    assert f"with AVX-512, {without} without" in text
