"""Breaks the package in small ways, and checks that a test notices each.

    python tests/mutations.py

`mutations.yaml` lists the mutations: a text that stands once in a file, what
replaces it, what that breaks, and the test that catches it. Each is made in a
copy of the checkout, where that test must fail. Exits with 1 if one does not.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[1]
LIST = ROOT / "tests" / "mutations.yaml"
# A broken loop may never end. No test takes so long.
MOST_SECONDS = 1800


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="a part of the files' names")
    only = parser.parse_args().only
    mutations = yaml.safe_load(LIST.read_text("utf-8"))
    lost = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        # What git knows of, as it is in this checkout.
        command = "git ls-files -z | xargs -0 cp --parents -t"
        subprocess.run([*("sh", "-c", f'{command} "$0"'), folder], cwd=ROOT)
        for mutation in [m for m in mutations if only in m["file"]]:
            caught = is_caught(mutation, pathlib.Path(folder))
            lost += not caught
            print("caught" if caught else f"LOST by {mutation['caught_by']}")
            print(f"    {mutation['file']}: {mutation['breaks']}", flush=True)
    sys.exit(lost > 0)


def is_caught(mutation, copy):
    path = copy / "relative_attention" / mutation["file"]
    whole, old = path.read_text("utf-8"), mutation["old"]
    if whole.count(old) != 1:
        sys.exit(
            f"{mutation['file']} must have {old!r} once. It has it "
            f"{whole.count(old)} times. If the code has moved or changed, "
            f"correct the entry in {LIST.name}: {mutation['breaks']}"
        )
    path.write_text(whole.replace(old, mutation["new"]), "utf-8")
    command = [sys.executable, "-m", "pytest", "-m", "", "--exitfirst"]
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", mutation["caught_by"]],
            cwd=copy,
            # Processes that tests start must find the copy, too.
            env={**os.environ, "PYTHONPATH": str(copy)},
            stdout=subprocess.DEVNULL,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(whole, "utf-8")
    # Not if there is no such test, or the package cannot even be imported.
    return done.returncode == pytest.ExitCode.TESTS_FAILED


if __name__ == "__main__":
    main()
