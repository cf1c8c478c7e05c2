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


def is_ours(cls):
    return cls.__module__.startswith("relative_attention")


def own_members(cls):
    """What the package defines of a class: names and what they are."""
    members = {}
    for base in reversed([base for base in cls.__mro__ if is_ours(base)]):
        members |= vars(base)
    return members


def overrides(cls, name):
    """Whether Keras or Python says what the method of this name does."""
    return any(name in vars(base) for base in cls.__mro__ if not is_ours(base))


def methods():
    for name in CLASSES:
        cls = getattr(ra, name)
        for method, member in own_members(cls).items():
            if isinstance(member, classmethod | staticmethod):
                member = member.__func__
            if inspect.isfunction(member) and not method.startswith("_"):
                yield pytest.param(cls, method, member, id=f"{name}.{method}")


@pytest.mark.parametrize("name", NAMES)
def test_public_name_has_a_docstring_with_its_arguments(name):
    public = getattr(ra, name)
    assert public.__doc__, f"{name} has no docstring"
    if name in CLASSES and "__init__" not in own_members(public):
        return
    explained = documented(inspect.getdoc(public), "Args", "Attributes")
    arguments = public.__init__ if name in CLASSES else public
    assert set(parameters(arguments)) <= explained


@pytest.mark.parametrize("name", CLASSES)
def test_class_explains_the_arguments_of_its_call(name):
    cls = getattr(ra, name)
    called = [call for call in CALLS if call in own_members(cls)]
    explained = documented(inspect.getdoc(cls), "Call arguments")
    # A loss has both, `__call__` and `call`, with the same arguments.
    for call in called:
        assert set(parameters(getattr(cls, call))) <= explained, call


@pytest.mark.parametrize(("cls", "name", "method"), methods())
def test_public_method_explains_its_arguments(cls, name, method):
    if method.__doc__ is None and overrides(cls, name):
        return
    assert method.__doc__, "no docstring"
    explained = documented(inspect.getdoc(method), "Args")
    assert set(parameters(method)) <= explained


@pytest.mark.parametrize("name", CLASSES)
def test_property_has_a_docstring(name):
    for attribute, member in own_members(getattr(ra, name)).items():
        if isinstance(member, property) and not attribute.startswith("_"):
            assert member.__doc__, attribute
