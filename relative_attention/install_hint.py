"""Says how to install what the package needs only sometimes."""


def install_hint(extra: str) -> str:
    """Returns a command that installs an extra of the package, for messages.

    The package's name is on no index yet, so that an extra is asked for in a
    checkout; when the name is there, this is the place to say so.

    Args:
        extra: string. A key of `extras_require` in `setup.py`.

    Returns:
        string.
    """
    return f"`pip install '.[{extra}]'` in a checkout of relative-attention"
