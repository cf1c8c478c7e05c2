"""Exports trained translators to other engines.

`ctranslate2_engine` translates with what `ctranslate2` writes.
"""

from typing import TYPE_CHECKING

from relative_attention.lazy_names import lazy_names

__all__ = ["export_ctranslate2", "export_saved_model"]

# Each imports packages that the other does without.
_MODULES = {
    "export_ctranslate2": "ctranslate2",
    "export_saved_model": "saved_model",
}

if TYPE_CHECKING:
    # What type checkers see of the names that `__getattr__` imports.
    from relative_attention.export.ctranslate2 import (
        export_ctranslate2 as export_ctranslate2,
    )
    from relative_attention.export.saved_model import (
        export_saved_model as export_saved_model,
    )
else:
    __getattr__ = lazy_names(__name__, _MODULES)
