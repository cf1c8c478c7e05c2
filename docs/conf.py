"""How Sphinx makes the site of Markdown and notebooks.

`make docs` runs it with the repository as its source folder, so that a link
from one Markdown file to another, or to a file of code, is the same on the site
as where the repository is browsed. Every warning is an error, such as a link to
nothing.
"""

import pathlib
import re
import sys

from relative_attention.quiet_tensorflow import load_tensorflow_quietly
from relative_attention.version import __version__

# Sphinx looks for extensions where Python looks for modules. One of them reads
# which page of `docs/api` has which name.
_DOCS = pathlib.Path(__file__).parent
sys.path[:0] = [str(_DOCS / "_ext"), str(_DOCS)]
# To look at public names imports it; here it is imported without its banner.
load_tensorflow_quietly()

project = "relative-attention"
author = "The relative-attention authors"
copyright = f"{author}. Apache License 2.0"
version = release = __version__
root_doc = "docs/index"
# Where the repository is, from the only place that says it. Until there is
# such a place, pages have no links to it.
(ADDRESS,) = re.findall(
    r'^ADDRESS = "(.*)"', (_DOCS.parent / "setup.py").read_text("utf-8"), re.M
)
HAS_ADDRESS = not ADDRESS.endswith(".invalid")
include_patterns = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "docs/**.md",
    "models/**.md",
    "notebooks/README.md",
    "notebooks/*.ipynb",
]
# Before those above: what may be large need not be looked through.
exclude_patterns = [
    ".*",
    "**/.ipynb_checkpoints",
    "build",
    "dist",
    "docs/_build",
    # Several models have the same license; one page has it (`licenses`).
    "models/multi30k_*/LICENSE.md",
    "models/tatoeba_*/LICENSE.md",
    "relative_attention",
    "runs",
    "tests",
]
extensions = [
    "myst_nb",
    "sphinx_copybutton",
    # Of docs/_ext:
    "math_font",
    "mathml",
    "name_links",
    "repository_links",
]
nitpicky = True

# -- Markdown and notebooks --------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
_DESCRIPTION = (
    "Self-attention with relative positions for Keras 3, on TensorFlow, JAX "
    "and PyTorch, and translation models built on it"
)
# What a search and a link on another site show.
myst_html_meta = {
    "description": _DESCRIPTION,
    "property=og:title": "relative-attention",
    "property=og:description": _DESCRIPTION,
    "property=og:type": "website",
}
if HAS_ADDRESS:
    myst_html_meta["property=og:image"] = (
        f"{ADDRESS}/raw/main/docs/images/attention_view.png"
    )
# Notebooks are shown with the outputs that they are committed with; tests run
# them.
nb_execution_mode = "off"
nb_render_image_options = {"alt": "what the cell draws"}
copybutton_exclude = ".linenos, .gp, .go"

# -- What is shown -----------------------------------------------------------

html_theme = "furo"
html_title = f"relative-attention {__version__}"
html_static_path = ["_static"]
html_favicon = "../relative_attention/serve/page/icon.svg"
if HAS_ADDRESS:
    html_theme_options = {
        "source_view_link": f"{ADDRESS}/blob/main/{{filename}}",
        "source_edit_link": f"{ADDRESS}/edit/main/{{filename}}",
        "top_of_page_buttons": ["view", "edit"],
        "announcement": f'<a href="{ADDRESS}">Repository</a>',
    }
    # GitHub's place for the pages of a repository.
    html_baseurl = re.sub(
        r"https://github\.com/([^/]+)/(.*)",
        r"https://\1.github.io/\2/",
        ADDRESS,
    )
# The first page of the site is docs/index.html; a page above it leads there.
html_extra_path = ["_root"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
