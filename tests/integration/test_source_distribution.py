"""What an sdist holds, and what the metadata says of licenses."""

import email
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The sdist, opened."""
    folder = tmp_path_factory.mktemp("sdist")
    command = ["setup.py", "--quiet", "egg_info", "--egg-base", folder]
    command += ["sdist", "--formats=tar", "--dist-dir", folder]
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    (path,) = folder.glob("*.tar")
    with tarfile.open(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def names(archive):
    """Paths in the sdist, below its one folder."""
    return {name.partition("/")[2] for name in archive.getnames()}


def test_source_distribution_has_its_tests(names):
    for folder in ("tests", "notebooks", "benchmarks", "models"):
        files = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".py", ".ipynb", ".yaml", ".npz", ".json")
        }
        assert files and files <= names, folder
    assert {"Makefile", "docs/conf.py", "pyproject.toml"} <= names
    assert not [name for name in names if "__pycache__" in name]


def test_source_distribution_has_every_tracked_file(names):
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    command = ["git", "ls-files"]
    listed = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    # Weights for research only are not published.
    assert {
        name
        for name in set(listed) - names
        if not re.match(r"models/multi30k_.*\.(safetensors|model)$", name)
    } == set()


@pytest.fixture(scope="module")
def metadata(archive):
    (path,) = [
        name
        for name in archive.getnames()
        if name.count("/") == 1 and name.endswith("/PKG-INFO")
    ]
    text = archive.extractfile(path).read().decode("utf-8")
    return email.message_from_string(text)


def test_links_of_the_description_are_absolute(metadata):
    description = metadata.get_payload()
    targets = re.findall(r"\]\(([^)]*)\)", description)
    assert len(targets) > 30
    assert all(target.startswith("https://") for target in targets)
    assert re.search(
        r"!\[[^]]*\]\(https://[\w.-]+/raw/main/docs/images/", description
    )


def test_research_weights_are_not_published(metadata, names):
    free = "LicenseRef-CC-BY-2.0-FR"
    assert metadata["License-Expression"] == f"Apache-2.0 AND {free}"
    licenses = {"LICENSE"}
    for weights in (ROOT / "models").glob("*/model.safetensors"):
        beside = weights.with_name("LICENSE.md")
        name = weights.relative_to(ROOT).as_posix()
        if f"`{free}`" in beside.read_text("utf-8"):
            assert name in names
            licenses.add(beside.relative_to(ROOT).as_posix())
        else:
            # For research only: it stays in the checkout.
            assert name not in names
    assert set(metadata.get_all("License-File")) == licenses


@pytest.mark.parametrize(
    ("address", "status"),
    [("https://relative-attention.invalid", 2), ("https://example.org/a", 0)],
)
def test_publishing_needs_an_address(address, status, tmp_path):
    (tmp_path / "setup.py").write_text(f'ADDRESS = "{address}"\n')
    command = ["make", "--silent", "-f", ROOT / "Makefile", "publishable"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status
    assert ("set ADDRESS in setup.py" in done.stderr + done.stdout) == (
        status != 0
    )
