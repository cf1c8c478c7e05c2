"""The floors of the house: who may import whom, and when TensorFlow."""

import ast
import pathlib
import subprocess
import sys

import pytest

import relative_attention

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "relative_attention"
FLOORS = (
    (
        "argument_checks",
        "errors",
        "file_lock",
        "install_hint",
        "json_file",
        "keras_registry",
        "quiet_tensorflow",
        "tensor_type",
        "version",
        "zoo_folder",
    ),
    ("atomic_files",),
    ("ops",),
    ("layers",),
    ("models",),
    ("data", "training", "decoding"),
    ("evaluation", "convert", "export", "plot"),
    ("experiments",),
    ("cli",),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# What runs on any backend computes with Keras alone; files are read and
# written as NumPy arrays.
ALLOWED_IN_ANY_BACKEND_ROOMS = {
    "ops": {"keras"},
    "layers": {"keras"},
    "models": {"keras", "numpy", "safetensors"},
}
# What `tf.distribute` needs, used under TensorFlow alone.
TENSORFLOW_FILES = {
    "ops/in_order.py",
    "ops/replicas.py",
    "models/batch_parts.py",
    "models/finite_update.py",
    "models/replica_function.py",
    "models/training_step.py",
}
FILES = [
    path.relative_to(PACKAGE)
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"
]


def room_of(file):
    return file.with_suffix("").parts[0]


def imported_names(tree, anywhere=True):
    """Dotted names imported by a module, in functions too or not."""
    names = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif anywhere or not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        ):
            pending += ast.iter_child_nodes(node)
    return names


def parse(file):
    return ast.parse((PACKAGE / file).read_text("utf-8"))


def test_imported_names_leave_out_functions_when_told():
    tree = ast.parse(
        "import a.b\nif x:\n    from c import d\ndef f():\n    import e\n"
    )
    assert sorted(imported_names(tree)) == ["a.b", "c.d", "e"]
    assert sorted(imported_names(tree, anywhere=False)) == ["a.b", "c.d"]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_file_imports_only_from_lower_floors_or_its_room(file):
    room = room_of(file)
    assert room in FLOOR_OF, f"{room} has no floor"
    for name in imported_names(parse(file)):
        top, *rest = name.split(".")
        if top != "relative_attention":
            continue
        if not rest or rest[0].startswith("__"):
            continue
        assert rest[0] in FLOOR_OF, name
        assert rest[0] == room or FLOOR_OF[rest[0]] < FLOOR_OF[room], (
            f"{file} imports {name}"
        )


@pytest.mark.parametrize("file", FILES, ids=str)
def test_file_takes_no_public_name_from_the_package_itself(file):
    # `relative_attention.Transformer` would pass every floor by.
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "relative_attention":
                assert node.attr.startswith("__"), node.attr


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if room_of(file) in ALLOWED_IN_ANY_BACKEND_ROOMS],
    ids=str,
)
def test_file_needs_no_backend_in_rooms_for_any_backend(file):
    allowed = {
        "relative_attention",
        *sys.stdlib_module_names,
        *ALLOWED_IN_ANY_BACKEND_ROOMS[room_of(file)],
    }
    if file.as_posix() in TENSORFLOW_FILES:
        allowed.add("tensorflow")
    assert {
        name.split(".")[0] for name in imported_names(parse(file))
    } <= allowed


@pytest.mark.parametrize("file", FILES, ids=str)
def test_file_imports_tensorflow_only_in_functions(file):
    names = imported_names(parse(file), anywhere=False)
    assert not {"tensorflow", "tensorflow_text"} & {
        name.split(".")[0] for name in names
    }


def test_package_imports_where_keras_and_tensorflow_are_absent():
    script = (
        "import sys\n"
        "sys.modules.update(tensorflow=None, keras=None)\n"
        "import relative_attention\n"
        "print(relative_attention.__version__)\n"
        "print('Transformer' in dir(relative_attention))\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [relative_attention.__version__, "True"]


@pytest.mark.parametrize("name", relative_attention.__all__)
def test_public_name_resolves(name):
    assert getattr(relative_attention, name) is not None


def test_unknown_name_raises():
    with pytest.raises(AttributeError, match="has no attribute 'Transfomer'"):
        relative_attention.Transfomer  # noqa: B018
