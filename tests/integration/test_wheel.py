"""What an installation without the checkout has."""

import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).parents[2]


def test_wheel_has_recipes_weights_types_and_pages(tmp_path, run_python):
    build = ["setup.py", "--quiet", "build_py", "--build-lib", tmp_path]
    subprocess.run([sys.executable, *build], cwd=ROOT, check=True)
    names = run_python(
        "from relative_attention import zoo\n"
        "print(zoo.zoo_directory(), *zoo.zoo_recipes())\n"
        "print(*zoo.zoo_models())\n"
        "print(zoo.is_installed(), zoo.studies_directory())\n"
        "print(*zoo.zoo_studies())\n"
        "from relative_attention.models.presets import find_preset\n"
        "for find in (zoo.find_model, lambda name: find_preset(name, {})):\n"
        "    try:\n"
        "        find('multi30k_en_de_tiny')\n"
        "    except ValueError as error:\n"
        "        print(error)\n",
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path),
    )
    *names, missing, missing_preset = names.splitlines()
    recipes, models, place, studies = map(str.split, names)
    zoo = tmp_path / "relative_attention" / "zoo"
    in_checkout = sorted(ROOT.glob("models/*/recipe.yaml"))
    assert recipes[0] == str(zoo)
    assert set(recipes[1:]) == {path.parent.name for path in in_checkout}
    in_checkout = sorted(ROOT.glob("models/*/model.safetensors"))
    # Those for research only stay in the checkout.
    assert models == [
        path.parent.name
        for path in in_checkout
        if not path.parent.name.startswith("multi30k")
    ]
    assert "give the folder models/multi30k_en_de_tiny of a" in missing
    assert f"Installed are: {', '.join(models)}." in missing
    assert missing_preset == missing
    assert place == ["True", str(zoo / "studies")]
    in_checkout = sorted(ROOT.glob("models/studies/*.yaml"))
    assert studies == [path.stem for path in in_checkout]
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
    # Which sentences are in the validation and test texts of bundled models.
    hashes = package / "corpora" / "tatoeba_pairs"
    sizes = [path.stat().st_size for path in sorted(hashes.iterdir())]
    assert sizes == 3 * [12_000, 9_000] + 4 * [6_000]
    # What the server's page consists of.
    page = {path.name for path in (package / "serve" / "page").iterdir()}
    assert page == {"index.html", "page.css", "page.js", "icon.svg"}


def test_editable_installation_is_a_path_that_type_checkers_follow(tmp_path):
    build = ["setup.py", "--quiet", "egg_info", "--egg-base", tmp_path]
    build += ["editable_wheel", "--dist-dir", tmp_path]
    subprocess.run([sys.executable, *build], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name[-4:] == ".pth"]
        assert archive.read(path).decode().split() == [str(ROOT)]
