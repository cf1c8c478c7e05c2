"""The progress of a run, as a checkpoint stores it beside the variables."""

import dataclasses
from typing import Any
from typing import TypeGuard

# Numbers by name: what one validation, or one epoch, logged.
Record = dict[str, float]


@dataclasses.dataclass(frozen=True)
class RunState:
    """How far a run had come when its checkpoint was saved.

    Attributes:
        step: The number of updates that were done.
        history: A list of dicts of numbers, one for each validation.
        unvalidated: A dict, the logs of an epoch that was left before its
            validation ended, or `None`.
        seconds: The seconds that the run had taken, over all its parts.
        run: A dict of what must be the same when the run goes on.
        joules: The energy that the processors had taken meanwhile, or `None`
            if it is not known, as in checkpoints from before it was.
    """

    step: int
    history: list[Record]
    unvalidated: Record | None
    seconds: float
    run: dict[str, Any]
    joules: float | None = None

    @classmethod
    def from_json(cls, content: Any) -> "RunState":
        """Returns the state that JSON gave back.

        Args:
            content: What the file holds.

        Raises:
            ValueError: if it is of another shape.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        # Checkpoints from before it was known have none.
        needed = [name for name in names if name != "joules"]
        if not isinstance(content, dict) or not content.keys() >= {*needed}:
            raise ValueError(f"its state must have {', '.join(needed)}")
        state = cls(
            **{name: content[name] for name in needed},
            joules=content.get("joules"),
        )
        if not (
            isinstance(state.step, int)
            and state.step >= 0
            and isinstance(state.history, list)
            and all(map(_is_record, state.history))
            and (state.unvalidated is None or _is_numbers(state.unvalidated))
            and _is_number(state.seconds)
            and isinstance(state.run, dict)
            and (state.joules is None or _is_number(state.joules))
        ):
            raise ValueError("its state has values of other types")
        return state


def _is_record(value: Any) -> bool:
    return _is_numbers(value) and {"step", "seconds"} <= value.keys()


def _is_numbers(value: Any) -> TypeGuard[Record]:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_number(value: Any) -> bool:
    # To Python a bool is an int.
    return isinstance(value, int | float) and not isinstance(value, bool)
