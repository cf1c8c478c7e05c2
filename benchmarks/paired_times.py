"""Times of functions that are called in turns, in this process."""

import time


def paired_times(functions, rounds, seconds):
    """Milliseconds of a call of each function, by round.

    What is compared is measured right after one another, in an order that
    turns round with each round: machines that others share drift.

    Args:
        functions: dict of functions without arguments, each of which returns
            a tensor; it is waited for.
        rounds: int. How often each has its turn, after one to make graphs.
        seconds: float. The least length of a turn.

    Returns:
        Dict of lists of floats, the mean milliseconds of a call in each round.
    """
    times = {name: [] for name in functions}
    names = list(functions)
    for number in range(rounds + 1):
        for name in names:
            milliseconds = _mean_time(functions[name], seconds)
            if number:
                times[name].append(milliseconds)
        names.reverse()
    return times


def _mean_time(function, seconds):
    start = time.perf_counter()
    count = 0
    while not count or time.perf_counter() - start < seconds:
        function().numpy()
        count += 1
    return 1000 * (time.perf_counter() - start) / count
