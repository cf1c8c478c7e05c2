"""`help` of every public name says what there is to know."""

import inspect
import re

import pytest

import relative_attention as ra

NAMES = [
    name
    for name in ra.__all__
    if name != "__version__" and not inspect.ismodule(getattr(ra, name))
]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(ra, name))]
# What takes the arguments of a call: of layers, of metrics, of the rest.
CALLS = ("call", "update_state", "__call__")


def documented(docstring, *sections):
    """Names that one of the sections of a docstring explains."""
    names, section = set(), None
    for line in docstring.splitlines():
        if re.match(r"\S", line):
            section = line.strip()
        named = re.match(r" {4}((?:\*{0,2}\w+, )*\*{0,2}\w+): ", f"{line} ")
        if named and section in [f"{name}:" for name in sections]:
            names |= {name.strip("*") for name in named[1].split(", ")}
    return names


def parameters(function):
    names = list(inspect.signature(function).parameters)
    return [name for name in names if name not in ("self", "cls")]


def own_members(cls):
    """What the package defines of a class, and the rest, by name."""
    own, others = {}, {}
    for base in reversed(cls.__mro__):
        is_ours = base.__module__.startswith("relative_attention")
        (own if is_ours else others).update(vars(base))
    return own, others


@pytest.mark.parametrize("name", NAMES)
def test_public_name_documents_its_arguments(name):
    public = getattr(ra, name)
    assert public.__doc__, f"{name} has no docstring"
    explained = documented(inspect.getdoc(public), "Args", "Attributes")
    own = own_members(public)[0] if name in CLASSES else {}
    if name not in CLASSES or "__init__" in own:
        arguments = own.get("__init__", public)
        assert set(parameters(arguments)) <= explained
    explained = documented(inspect.getdoc(public), "Call arguments")
    # A loss has both, `__call__` and `call`, with the same arguments.
    for call in CALLS:
        if call in own:
            assert set(parameters(own[call])) <= explained, call


@pytest.mark.parametrize("name", CLASSES)
def test_methods_and_properties_are_documented(name):
    own, others = own_members(getattr(ra, name))
    for method, member in own.items():
        member = getattr(member, "__func__", member)
        is_function = inspect.isfunction(member)
        if method.startswith("_") or not (
            is_function or isinstance(member, property)
        ):
            continue
        if is_function and member.__doc__ is None and method in others:
            continue  # Keras or Python says what it does.
        assert member.__doc__, method
        if is_function:
            explained = documented(inspect.getdoc(member), "Args")
            assert set(parameters(member)) <= explained, method
