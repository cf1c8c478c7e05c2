"""Pages that were made for one client, until it has fetched them."""

import secrets
import time
from collections import OrderedDict

# So many are kept, so long.
_MOST = 16
_SECONDS = 600.0


class Views:
    """Pages by a name that nobody can guess.

    A frame brings no token with it when it loads its page, so the name is
    what lets it in.
    """

    def __init__(self) -> None:
        self._pages: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def put(self, page: str) -> str:
        """Keeps a page of HTML, and returns its name."""
        name = secrets.token_urlsafe(24)
        self._pages[name] = (time.monotonic() + _SECONDS, page)
        while len(self._pages) > _MOST:
            self._pages.popitem(last=False)
        return name

    def get(self, name: str) -> str | None:
        """Returns the page of a name, if it is still there."""
        until, page = self._pages.get(name, (0.0, ""))
        return page if until > time.monotonic() else None
