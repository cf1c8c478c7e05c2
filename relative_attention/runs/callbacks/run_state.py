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
        sums: A list of floats, the variables of the model's metrics in the
            middle of an epoch, or `None` elsewhere, and in checkpoints from
            before they were kept.
        logs: A dict, what these metrics gave, or `None`.
    """

    step: int
    history: list[Record]
    unvalidated: Record | None
    seconds: float
    run: dict[str, Any]
    joules: float | None = None
    sums: list[float] | None = None
    logs: Record | None = None

    @property
    def is_within_epoch(self) -> bool:
        """Whether updates were done whose validation is not due yet."""
        validated = self.history[-1]["step"] if self.history else 0
        return self.unvalidated is None and self.step > validated

    @classmethod
    def from_json(cls, content: Any) -> "RunState":
        """Returns the state that JSON gave back.

        Args:
            content: What the file holds.

        Raises:
            ValueError: if it is of another shape.
        """
        fields = dataclasses.fields(cls)
        # Checkpoints of earlier versions lack those that have a default.
        needed = [
            field.name
            for field in fields
            if field.default is dataclasses.MISSING
        ]
        if not isinstance(content, dict) or not content.keys() >= {*needed}:
            raise ValueError(f"its state must have {', '.join(needed)}")
        state = cls(
            **{
                field.name: content[field.name]
                for field in fields
                if field.name in content
            }
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
            and (
                state.sums is None
                or (
                    isinstance(state.sums, list)
                    and all(map(_is_number, state.sums))
                )
            )
            and (state.logs is None or _is_numbers(state.logs))
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
