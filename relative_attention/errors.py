"""Errors that a user can mend."""


class InputError(ValueError):
    """Something given by the user is wrong: a file, a recipe, a directory.

    The message says what, what is allowed and the way out; commands print it
    alone, without a traceback.
    """


class NotFiniteError(InputError):
    """A model's weights or logits are not finite, so it says nothing."""
