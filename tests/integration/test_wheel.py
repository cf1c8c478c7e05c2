"""What an installation without the checkout has."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_recipes_and_types_are_in_the_package_that_is_built(tmp_path):
    build = ["setup.py", "--quiet", "build_py", "--build-lib", tmp_path]
    subprocess.run([sys.executable, *build], cwd=ROOT, check=True)
    names = subprocess.run(
        [
            sys.executable,
            "-c",
            "from relative_attention.zoo import zoo_directory\n"
            "from relative_attention.zoo import zoo_recipes\n"
            "from relative_attention.zoo import zoo_models\n"
            "from relative_attention.zoo import zoo_studies\n"
            "from relative_attention.zoo import studies_directory\n"
            "from relative_attention.zoo import is_installed\n"
            "print(zoo_directory(), *zoo_recipes())\n"
            "print(*zoo_models())\n"
            "print(is_installed(), studies_directory(), *zoo_studies())",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    recipes, models, studies = names.splitlines()
    names = recipes.split()
    assert names[0] == str(tmp_path / "relative_attention" / "zoo")
    in_checkout = {
        path.parent.name for path in ROOT.glob("models/*/recipe.yaml")
    }
    assert set(names[1:]) == in_checkout
    assert models.split() == [
        path.parent.name
        for path in sorted(ROOT.glob("models/*/model.safetensors"))
    ]
    assert studies.split() == [
        "True",
        str(tmp_path / "relative_attention" / "zoo" / "studies"),
        *[path.stem for path in sorted(ROOT.glob("models/studies/*.yaml"))],
    ]
    # What type checkers and editors look for.
    package = tmp_path / "relative_attention"
    assert (package / "py.typed").is_file()
    assert (package / "__init__.pyi").is_file()
    # What the page of an attention view is made of.
    page = pathlib.Path("relative_attention", "plot", "page")
    parts = [file.name for file in (ROOT / page).iterdir()]
    assert len(parts) > 2
    assert sorted(parts) == sorted(
        file.name for file in (tmp_path / page).iterdir()
    )
    # What the server's page consists of.
    page = {path.name for path in (package / "serve" / "page").iterdir()}
    assert page == {"index.html", "page.css", "page.js", "icon.svg"}
