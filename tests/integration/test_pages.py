"""README and pages of the documentation: links, length."""

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
    assert len(README.read_bytes()) <= 5120
