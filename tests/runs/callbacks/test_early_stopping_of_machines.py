"""The first of several machines decides when the score is no better."""

import types

import pytest

from relative_attention.runs.callbacks.run_keeper import RunKeeper

# Two machines that translate alike, but for one word at the third validation.
BLEU_OF_FIRST = (20.0, 19.0, 21.0, 20.0)
BLEU_OF_SECOND = (20.0, 19.0, 18.0, 17.0)


class Machines:
    """Stand-in for what machines ask one another, one after the other."""

    def __init__(self, tmp_path, scores):
        self.flags = []
        self.keepers = [
            RunKeeper(
                tmp_path,
                best_by="bleu",
                early_stopping=2,
                writes=number == 0,
                any_machine=self.flags.append,
            )
            for number in range(len(scores))
        ]
        for keeper, bleu in zip(self.keepers, scores):
            keeper.set_model(types.SimpleNamespace(stop_training=False))
            keeper.history = [
                {"val_bleu": score, "val_loss": 1.0, "seconds": 0.0}
                for score in bleu
            ]

    def are_over(self):
        """What each machine does, once all have been asked."""
        for keeper in self.keepers:
            keeper.is_over()
        # Each asks once, whatever it thinks: the others wait for it.
        assert len(self.flags) == len(self.keepers)
        answer = any(self.flags)
        for keeper in self.keepers:
            keeper.any_machine = lambda flag: answer
        return [keeper.is_over() for keeper in self.keepers]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_machines_end_when_the_first_has_stopped_getting_better(
    tmp_path, number
):
    for scores in (
        (BLEU_OF_FIRST, BLEU_OF_SECOND),
        (BLEU_OF_SECOND, BLEU_OF_FIRST),
    ):
        machines = Machines(tmp_path, [bleu[:number] for bleu in scores])
        first_alone = Machines(tmp_path, [scores[0][:number]])
        assert machines.are_over() == first_alone.are_over() * 2


def test_the_first_of_two_stops_after_three(tmp_path):
    scores = [BLEU_OF_SECOND[:3], BLEU_OF_FIRST[:3]]
    assert Machines(tmp_path, scores).are_over() == [True, True]
    assert Machines(tmp_path, scores[::-1]).are_over() == [False, False]


def test_time_is_up_when_it_is_on_any_machine(tmp_path):
    machines = Machines(tmp_path, [BLEU_OF_FIRST[:1]] * 2)
    for keeper, minutes in zip(machines.keepers, (60, 1)):
        keeper.minutes = minutes
        keeper.history[-1]["seconds"] = 70.0
    assert machines.are_over() == [True, True]
