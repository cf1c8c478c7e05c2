"""When a run ends before its last step, on one machine and on several."""

import pytest

from relative_attention.runs.callbacks.run_history import RunHistory
from relative_attention.runs.callbacks.stop_rule import StopRule

# Two machines that translate alike, but for one word at the third validation.
BLEU_OF_FIRST = (20.0, 19.0, 21.0, 20.0)
BLEU_OF_SECOND = (20.0, 19.0, 18.0, 17.0)


class OneMachine:
    is_chief = True

    def any(self, flag):
        return flag


def history(*losses, seconds=0.0):
    result = RunHistory(".")
    result.records = [{"val_loss": x, "seconds": seconds} for x in losses]
    return result


@pytest.mark.parametrize(
    ("losses", "is_over"),
    [
        ((), False),
        ((2.0, 3.0), False),
        ((2.0, 3.0, 3.0), True),
        ((2.0, 3.0, 1.0), False),
        # As good is no better.
        ((2.0, 2.0, 2.0), True),
        # Of what is not finite the first counts as the best.
        ((float("nan"), float("inf"), float("nan")), True),
    ],
    ids=str,
)
def test_two_validations_without_a_better_one_end_a_run(losses, is_over):
    rule = StopRule(early_stopping=2)
    assert rule.is_over(history(*losses), OneMachine()) is is_over


def test_no_rule_never_ends_a_run():
    assert not StopRule().is_over(history(*range(9), seconds=1e9), OneMachine())


@pytest.mark.parametrize(("seconds", "is_over"), [(89.0, False), (90.0, True)])
def test_validation_beyond_the_time_limit_is_the_last(seconds, is_over):
    rule = StopRule(minutes=1.5)
    assert rule.is_over(history(1.0, seconds=seconds), OneMachine()) is is_over


class Machine:
    """Stands in for one of several, which say their flags one after another."""

    def __init__(self, is_chief, flags):
        self.is_chief = is_chief
        self.flags = flags
        self.answer = None

    def any(self, flag):
        self.flags.append(flag)
        return self.answer


def are_over(rules, scores, seconds=0.0):
    """What each machine does, once all have been asked."""
    flags = []
    machines = [Machine(number == 0, flags) for number in range(len(scores))]
    histories = [RunHistory(".", best_by="bleu") for _ in machines]
    for each, bleu in zip(histories, scores):
        each.records = [{"val_bleu": x, "seconds": seconds} for x in bleu]

    def ask():
        return [
            rule.is_over(history, machine)
            for rule, history, machine in zip(rules, histories, machines)
        ]

    ask()
    # Each asks once, whatever it thinks: the others wait for it.
    assert len(flags) == len(machines)
    for machine in machines:
        machine.answer = any(flags)
    return ask()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_machines_end_when_the_first_has_stopped_getting_better(number):
    rules = [StopRule(early_stopping=2)] * 2
    for scores in (
        (BLEU_OF_FIRST, BLEU_OF_SECOND),
        (BLEU_OF_SECOND, BLEU_OF_FIRST),
    ):
        first_alone = are_over(rules[:1], [scores[0][:number]])
        both = are_over(rules, [bleu[:number] for bleu in scores])
        assert both == first_alone * 2


def test_the_first_of_two_stops_after_three():
    rules = [StopRule(early_stopping=2)] * 2
    scores = [BLEU_OF_SECOND[:3], BLEU_OF_FIRST[:3]]
    assert are_over(rules, scores) == [True, True]
    assert are_over(rules, scores[::-1]) == [False, False]


def test_time_is_up_when_it_is_on_any_machine():
    rules = [StopRule(minutes=60), StopRule(minutes=1)]
    scores = [BLEU_OF_FIRST[:1]] * 2
    assert are_over(rules, scores, seconds=70.0) == [True, True]
