"""The guide of the server, `docs/guides/serve.md`."""

from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks

GUIDE = (ROOT / "docs" / "guides" / "serve.md").read_text("utf-8")


def guide_blocks():
    """Language and text of every block, see `blocks`."""
    return blocks(GUIDE)
