"""An engine that needs nothing; the tests of engines start it."""

import json
import sys

from benchmarks.harness.turns import Turns


def main(fails_at):
    turns = Turns()
    # Libraries print what they like, and it is no report.
    print("noise")
    count = 0
    while order := turns.wait():
        count += 1
        if count == fails_at:
            raise RuntimeError("no more turns")
        turns.report(count=count, order=order)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
