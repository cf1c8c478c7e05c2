"""How a model translates: the section `decoding` of its recipe and config."""

import dataclasses

from relative_attention.settings import key


@dataclasses.dataclass(frozen=True)
class DecodingSection:
    """How the finished model translates; see `Translator`."""

    num_beams: int = key(
        4, "Active hypotheses a sentence.", at_least=1, may_change=True
    )
    length_penalty: float = key(
        0.6, "GNMT's exponent alpha.", at_least=0, may_change=True
    )
    max_extra_length: int = key(
        50,
        "Tokens that a translation may be longer than its source.",
        at_least=0,
        may_change=True,
    )
    max_source_length: int = key(
        512,
        "Tokens at which longer sentences are cut.",
        at_least=2,
        may_change=True,
    )
