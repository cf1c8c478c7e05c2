"""An engine that translates as a server does, without one."""

import json
import sys
import time

from benchmarks.harness.turns import Turns


def main(model: str, sentences: str) -> None:
    """Translates in batches of the order of arrival, whenever it is its turn.

    Args:
        model: A string, the folder of a model or a name of the zoo.
        sentences: The path of a JSON list of lines.
    """
    import relative_attention as ra

    translator = ra.load_translator(model)
    with open(sentences) as file:
        lines = json.load(file)
    turns = Turns()
    while line := turns.wait():
        order = json.loads(line)
        chosen, size = lines[: order["num_sentences"]], order["batch_size"]
        translations: list[str] = []
        seconds: list[float] = []
        for first in range(0, len(chosen), size):
            start = time.perf_counter()
            translations += translator.translate(chosen[first : first + size])
            seconds.append(time.perf_counter() - start)
        turns.report(seconds=seconds, translations=translations)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
