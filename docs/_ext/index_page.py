"""The page that a folder of HTML is opened with.

The first page of the site is `docs/index.html`, since the site has the
repository's folders; `index.html` above it leads there.
"""

import pathlib

from sphinx.application import Sphinx

_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={url}">
<title>{title}</title>
<a href="{url}">{title}</a>
"""


def write_index(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        url = app.builder.get_target_uri(app.config.root_doc)
        page = _PAGE.format(url=url, title=app.config.html_title)
        pathlib.Path(app.outdir, "index.html").write_text(page, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
