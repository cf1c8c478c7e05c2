"""Defines the errors that a user can mend."""


class InputError(ValueError):
    """Raised when what a user gave is wrong: a file, a recipe, a directory.

    The message says what, what is allowed and the way out; commands print it
    alone, without a traceback.
    """


class NotFiniteError(InputError):
    """Raised when a model's weights or logits are not finite."""
