"""Links from a page to what the repository has and the site shows otherwise.

Where the repository is browsed, a link to a folder shows what is in it, with
its `README.md`. The site has the latter alone: the link leads to it, and is
plain text where there is none. In place of the repository's own `README.md` the
site has its first page, and for the `LICENSE.md` beside weights a page for each
license.
"""

import pathlib
from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform


class RepositoryLinks(SphinxPostTransform):
    """Turns links to folders and to `README.md` into links to pages."""

    # Before MyST's own, which takes such links for broken ones.
    default_priority = 1

    def run(self, **kwargs: Any) -> None:
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("reftype") != "myst":
                continue
            target, domain = link["reftarget"], link.get("refdomain")
            if domain == "doc" and target == "README":
                self._lead_to(link, self.config.root_doc)
            elif domain == "doc" and target.endswith("/LICENSE"):
                corpus = "multi30k" if "multi30k" in target else "tatoeba"
                self._lead_to(link, f"docs/science/license_{corpus}")
            elif domain is None and target and not target.startswith("#"):
                self._lead_to_folder(link, target)

    def _lead_to_folder(self, link: addnodes.pending_xref, target: str) -> None:
        _, path = self.env.relfn2path(target, link["refdoc"])
        if not pathlib.Path(path).is_dir():
            return
        page = self.env.path2doc(str(pathlib.Path(path, "README.md")))
        if page in self.env.found_docs:
            self._lead_to(link, page)
        else:
            link.replace_self(link.children)

    @staticmethod
    def _lead_to(link: addnodes.pending_xref, page: str) -> None:
        link["refdomain"], link["reftarget"] = "doc", page
        link["reftargetid"] = None


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
