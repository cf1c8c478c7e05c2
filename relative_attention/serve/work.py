"""What the thread of the translator does."""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from relative_attention.decoding import Translation
from relative_attention.serve.served_models import ServedModel


@dataclasses.dataclass(frozen=True)
class Translate:
    """Translates sentences; those of all requests for a model go together.

    Attributes:
        model: `ServedModel`.
        num_results: int, or `None`, the best one.
    """

    model: ServedModel
    num_results: int | None

    def run(self, items: Sequence[str], /) -> list[list[Translation]]:
        """Returns for each sentence its translations, best first."""
        search = self.model.translator.search
        if self.num_results is None:
            return [[best] for best in search(items)]
        return search(items, self.num_results)

    def length(self, item: str, /) -> int:
        """Returns the characters of a sentence, as good as its tokens."""
        return len(item)


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """Calls a function, once, in a batch of its own.

    Attributes:
        function: function without arguments.
    """

    function: Callable[[], Any]

    def run(self, items: Sequence[None], /) -> list[Any]:
        """Returns what the function returns, as the answer to each item."""
        return [self.function() for _ in items]

    def length(self, item: None, /) -> int:
        """Returns nought: there is nothing that it goes together with."""
        return 0
