"""Pages that were made for one client, kept for a while."""

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
        self._drop_old()
        while len(self._pages) >= _MOST:
            self._pages.popitem(last=False)
        name = secrets.token_urlsafe(24)
        self._pages[name] = (time.monotonic() + _SECONDS, page)
        return name

    def get(self, name: str) -> str | None:
        """Returns the page of a name, if it is still there."""
        self._drop_old()
        found = self._pages.get(name)
        return None if found is None else found[1]

    def _drop_old(self) -> None:
        """Drops pages whose time is over; the oldest comes first."""
        now = time.monotonic()
        while self._pages and next(iter(self._pages.values()))[0] <= now:
            self._pages.popitem(last=False)
