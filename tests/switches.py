"""Combinations of the modes that users switch: pairs of values, and random.

A table of switches is a dict, by name, of the values of a switch, cheapest
first. A case has a value for each. `rules` say which cases cannot be built:
pairs of a reason and a function of a case that tells whether it applies; on a
part of a case it may raise `KeyError`, which means that it does not apply yet.
"""

import itertools


def reason_against(case, rules):
    """The first reason why a case, or a part of one, cannot be built."""
    for reason, applies in rules:
        try:
            if applies(case):
                return reason
        except KeyError:
            continue
    return None


def pairs_of(case):
    return set(itertools.combinations(sorted(case.items()), 2))


def pairwise(switches, rules, rng, more=(), tries=8):
    """Cases with every value of a switch beside every value of every other.

    Args:
        rng: `random.Random`.
        more: list of dicts of values of some switches, every combination of
            which is wanted, too.
        tries: number of cases of which the one with most new pairs is taken.

    Returns:
        Pair: list of cases, and dict of the pairs that no case can have, with
        the reason.
    """
    wanted = set()
    for names in itertools.combinations(sorted(switches), 2):
        for values in itertools.product(*(switches[name] for name in names)):
            wanted.add(tuple(zip(names, values)))
    missing = {pair: reason_against(dict(pair), rules) for pair in wanted}
    missing = {pair: reason for pair, reason in missing.items() if reason}
    wanted -= missing.keys()
    first = [
        tuple(zip(some, values))
        for some in more
        for values in itertools.product(*some.values())
    ]
    cases = []
    # Sorted, as the order of a set changes from one process to the next.
    for part in first + sorted(wanted, key=repr):
        if part in wanted or part in first:
            found = [
                completed(dict(part), switches, rules, rng, wanted)
                for _ in range(tries)
            ]
            found = [case for case in found if case]
            if not found:
                missing[part] = "other switches allow no value"
                wanted.discard(part)
                continue
            best = max(found, key=lambda case: len(pairs_of(case) & wanted))
            wanted -= pairs_of(best)
            cases.append(best)
    return cases, missing


def completed(case, switches, rules, rng, wanted=()):
    """A case with these values; the others bring many wanted pairs.

    `None` if a switch was left without a value.
    """
    case = dict(case)
    others = [name for name in switches if name not in case]
    rng.shuffle(others)
    for name in others:
        allowed = [
            value
            for value in switches[name]
            if not reason_against({**case, name: value}, rules)
        ]
        if not allowed:
            return None
        if not wanted:
            case[name] = rng.choice(allowed)
            continue

        def news(value, name=name):
            new = (name, value)
            return sum(
                tuple(sorted((new, old))) in wanted for old in case.items()
            )

        # Of equals the first, which is the cheapest.
        case[name] = max(allowed, key=news)
    return {name: case[name] for name in switches}


def at_random(switches, rules, rng, count):
    """Cases with each value drawn alone, and how many each rule refused."""
    cases, refused = [], {}
    while len(cases) < count:
        case = {name: rng.choice(switches[name]) for name in switches}
        reason = reason_against(case, rules)
        if reason is None:
            cases.append(case)
        else:
            refused[reason] = refused.get(reason, 0) + 1
    return cases, refused
