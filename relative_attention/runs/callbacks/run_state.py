"""What a checkpoint remembers of a run, besides its variables."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class RunState:
    """How far a run had come.

    Attributes:
        step: Updates done.
        history: List of dicts of numbers, one for each validation.
        unvalidated: Dict, the logs of an epoch that was left before its
            validation ended, or `None`.
        seconds: Seconds it took, over all its parts.
        run: Dict, what a run that goes on must have the same.
    """

    step: int
    history: list
    unvalidated: dict | None
    seconds: float
    run: dict

    @classmethod
    def from_json(cls, content):
        """The state that JSON gave back.

        Raises:
            ValueError: if it is of another shape.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(content, dict) or not content.keys() >= {*names}:
            raise ValueError(f"its state must have {', '.join(names)}")
        state = cls(**{name: content[name] for name in names})
        if not (
            isinstance(state.step, int)
            and state.step >= 0
            and isinstance(state.history, list)
            and all(map(_is_record, state.history))
            and (state.unvalidated is None or _is_numbers(state.unvalidated))
            and _is_number(state.seconds)
            and isinstance(state.run, dict)
        ):
            raise ValueError("its state has values of other types")
        return state


def _is_record(value):
    return _is_numbers(value) and {"step", "seconds"} <= value.keys()


def _is_numbers(value):
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)
