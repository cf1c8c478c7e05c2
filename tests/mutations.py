"""Breaks the package in small ways, and checks that a test notices each.

    python tests/mutations.py

`mutations.yaml` lists the mutations: a text that stands once in a file, what
replaces it, what that breaks, and the test that catches it. Each is made in a
copy of the checkout, where that test must fail. If it passes or is gone, the
tests nearby run, and the first of them that fails is shown, to be written into
the list. Exits with 1 if no test fails.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).parents[1]
LIST = ROOT / "tests" / "mutations.yaml"
# A broken loop may never end. No folder of tests takes so long.
MOST_SECONDS = 1800


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="a part of the files' names")
    only = parser.parse_args().only
    lost = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        # What git knows of, as it is in this checkout.
        command = "git ls-files -z | xargs -0 cp --parents -t"
        subprocess.run([*("sh", "-c", f'{command} "$0"'), folder], cwd=ROOT)
        mutations = yaml.safe_load(LIST.read_text("utf-8"))
        for mutation in [m for m in mutations if only in m["file"]]:
            test = catcher(pathlib.Path(folder), mutation)
            lost += test is None
            note = "" if test == mutation["caught_by"] else f": {test}"
            print(f"{'caught' if test else 'LOST'}{note}: ", end="")
            print(f"{mutation['file']}: {mutation['breaks']}", flush=True)
    sys.exit(lost > 0)


def catcher(copy, mutation):
    """The first test that fails with a mutation, or `None`."""
    path = copy / "relative_attention" / mutation["file"]
    whole, old = path.read_text("utf-8"), mutation["old"]
    if whole.count(old) != 1:
        sys.exit(
            f"{mutation['file']} must have {old!r} once. It has it "
            f"{whole.count(old)} times. If the code has moved or changed, "
            f"correct the entry in {LIST.name}: {mutation['breaks']}"
        )
    room = f"tests/{mutation['room']}"
    near = [room] if (copy / room).exists() else []
    near += [str(p.relative_to(copy)) for p in copy.glob("tests/test_*.py")]
    path.write_text(whole.replace(old, mutation["new"]), "utf-8")
    try:
        return first_failure(copy, [mutation["caught_by"]]) or first_failure(
            copy, near
        )
    finally:
        path.write_text(whole, "utf-8")


def first_failure(copy, tests):
    command = [sys.executable, "-m", "pytest", "-m", "", "--exitfirst"]
    command += ["--tb=no", "-rfE", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            # Processes that tests start must find the copy, too.
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return tests[0]
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.M)
    if found is not None:
        return found[1]
    output = done.stdout + done.stderr
    if done.returncode == 0 or "ERROR: not found" in output:
        return None
    if re.search(r"relative_attention/\S+:\d+: in ", output):
        # The package cannot be imported.
        return tests[0]
    sys.exit(output)


if __name__ == "__main__":
    main()
