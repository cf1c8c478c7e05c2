"""Declares the keys of a recipe: what each is by default, may be, and means.

The section `decoding` is `DecodingSection` of `relative_attention.decoding`,
since a saved model has it too; `model` has a preset and the fields of
`TransformerConfig`. What several keys must be together is in `recipe.py`.
"""

import dataclasses

from relative_attention.settings import key
from relative_attention.training.precision import PRECISIONS

# The value of a key that is left to the size of the corpus
# (`corpus_defaults.py`), or of the memory.
AUTO = "auto"

# Keys that recipes had until commit 51ab9de, and the values at which they are
# ignored, as the runs of that time saved all keys.
GONE = {
    "vocabulary.sampling": (0, None),
    "training.bidirectional_steps": (0, None),
    "training.consistency": (None,),
    "training.consistency_weight": (None,),
    "training.consistency_from": (0, None),
    "training.cut_probability": (0.05, None),
}


@dataclasses.dataclass(frozen=True)
class DataSection:
    """Names the texts that a model learns from and is scored on."""

    source: str | None = key(None)
    """Text to translate, plain or `.gz`, one sentence per line."""
    target: str | None = key(None)
    """The translation of `source`, line by line."""
    validation_source: str | None = key(None)
    """Text to validate on; without it, some lines are held out of the training
    text."""
    validation_target: str | None = key(None)
    """The translation of `validation_source`."""
    test_source: str | None = key(None)
    """Text that the finished model is scored on."""
    test_target: str | None = key(None)
    """The translation of `test_source`."""
    corpus: str | None = key(None)
    """Subfolder of the data folder to look in."""
    origin: str | None = key(None)
    """Where to get the corpus, for the error when it is not found."""
    tokenized: bool = key(False)
    """Whether the texts are pre-tokenized, with blanks between the tokens. The
    vocabulary is then that of their most frequent tokens. What is translated
    must be tokenized in the same way, the output is tokenized, and BLEU is
    that of the tokens."""
    target_language: str | None = key(None, may_change=True)
    """Code of the language of `target`, such as `de`. With it, the results
    also have BLEU of lowercased text by Moses' tokenizer."""
    held_out: int = key(1000, at_least=1)
    """Lines held out where there is no validation text; at most a tenth of all
    lines."""
    max_length: int = key(256, at_least=2)
    """Tokens, the end of sentence included, above which a pair is left out of
    training."""
    join: int | None = key(None, at_least=1)
    """The most lines of the training text that are joined to one, with a blank
    between, on both sides; other lines in every epoch. A model that learns
    from single sentences alone translates longer text badly. Lines stay single
    where they would exceed `max_length` or the tokens of a batch together.
    `null` or 1: none are joined. Text to validate and test on is never joined.
    """
    join_share: float = key(0.3, is_fraction=True, is_positive=True)
    """With `join`, the share of rows that are joined, of 2 to `join` lines
    each. For example, with 4 and 0.3 they have 56% of all lines."""


@dataclasses.dataclass(frozen=True)
class VocabularySection:
    """Describes the SentencePiece vocabulary, or one of tokens."""

    size: int | str = key(8000, at_least=1, choices=(AUTO,))
    """Number of pieces, 259 of them bytes and special ones; fewer where the
    text carries no more. `auto`: 2,000 for fewer than 10,000 pairs, 4,000 for
    fewer than 50,000, else 8,000."""
    joint: bool = key(True)
    """Whether one vocabulary serves both languages, or each has its own."""
    model: str | None = key(None)
    """Path of a SentencePiece model to use instead of learning one. For
    pre-tokenized texts, path of a list of tokens, one per line, as
    OpenNMT-tf writes it. `size` is then not used."""
    source_model: str | None = key(None)
    """Path of such a model for the source alone, where `joint` is false."""
    target_model: str | None = key(None)
    """Path of such a model for the target alone, where `joint` is false."""
    from_start: bool = key(True)
    """With `training.start_from`, whether to take that model's vocabulary.
    Else a new one is learned; pieces that both have keep their rows."""


@dataclasses.dataclass(frozen=True)
class ModelKeys:
    """Holds the keys of `model` that are not just fields of its config."""

    preset: str = key("")
    dropout: float | str = key(0.1, is_fraction=True, choices=(AUTO,))


@dataclasses.dataclass(frozen=True)
class TrainingSection:
    """Says how the weights are learned, and what of them is kept.

    What a recipe leaves out of `learning_rate_scale`, `warmup_steps`,
    `zero_first_step`, `adam_beta_2` and `label_smoothing` is that of its
    preset (`preset_training`); the defaults here are the paper's.
    """

    start_from: str | None = key(None)
    """Folder of a trained model whose weights to start from, or the name of
    one of the zoo."""
    steps: int | None = key(None, at_least=1, may_change=True)
    """Updates. Either this or `epochs`, or both: what comes first."""
    epochs: int | None = key(None, at_least=1, may_change=True)
    """Passes over the corpus."""
    minutes: float | None = key(None, is_positive=True, may_change=True)
    """Stop after the first validation that ends beyond this time; `null` for
    no limit."""
    devices: int | str = key(
        "all", at_least=1, choices=("all",), may_change=True
    )
    """How many GPUs of this machine to train on, or `all` of them. Without a
    GPU, how many parts to divide the CPU into, to try it out. Several machines
    are set up by `TF_CONFIG`."""
    validate_every: int | None = key(None, at_least=1)
    """Updates between two validations; `null` for one pass over the corpus."""
    bleu_every: int = key(5, at_least=0, may_change=True)
    """Validations between two that translate the validation text greedily and
    compute BLEU; `0` for never."""
    pictures: bool = key(True, may_change=True)
    """Whether TensorBoard gets pictures of attention and relation embeddings,
    and sample translations."""
    batch_tokens: int | str = key(
        4096, at_least=1, choices=(AUTO,), may_change=True
    )
    """Padded positions, on the longer side, that a device takes at a time, or
    `auto` for the most that fit on a GPU."""
    effective_batch_tokens: int | None = key(None, at_least=1, may_change=True)
    """Padded positions of an update. Each device takes its share in parts of
    `batch_tokens` at most (gradient accumulation). `null`: what all devices
    take at a time."""
    learning_rate_scale: float = key(1.0, is_positive=True)
    """Factor on the Transformer schedule."""
    warmup_steps: int | str = key(4000, at_least=1, choices=(AUTO,))
    """Updates until the highest learning rate. `auto`: one for each 1,200
    pairs that are trained on (pairs times `epochs`), 50 to 2,000, and at most
    a third of `steps`."""
    zero_first_step: bool = key(False)
    """Whether the first update has the rate 0, as in tensor2tensor since its
    third version."""
    adam_beta_2: float = key(0.98, is_fraction=True)
    """Decay of Adam's mean of squared gradients."""
    adam_epsilon: float = key(1e-9, is_positive=True)
    """What Adam adds to the root of its mean of squared gradients, before the
    bias correction, as in tensor2tensor. fairseq adds 1e-8 after it: the same
    once `adam_beta_2` to the power of the update is close to 0."""
    gradient_clip: float | None = key(None, is_positive=True)
    """Greatest gradient norm, over all weights, of the mean loss of a token;
    `null` for no limit. fairseq's `--clip-norm` is the same: it divides by the
    number of tokens first."""
    label_smoothing: float = key(0.1, is_fraction=True)
    """Probability spread over the wrong tokens."""
    ema_momentum: float | None = key(None, is_fraction=True)
    """Decay of a moving average of the weights. The average is then what is
    validated and kept; `null` for none."""
    precision: str = key("auto", choices=PRECISIONS)
    """The dtype policy that training computes in."""
    on_nonfinite: str = key("stop", choices=("stop", "skip"), may_change=True)
    """What to do where the loss or gradient of an update is not finite:
    `stop`, or `skip` the update. It is never made."""
    save_every: int | None = key(None, at_least=1, may_change=True)
    """Updates between two checkpoints; `null` for one at each validation."""
    save_minutes: float | None = key(None, is_positive=True, may_change=True)
    """Minutes between two checkpoints; `null` for one at each validation."""
    keep_checkpoints: int = key(5, at_least=1, may_change=True)
    """How many of the last checkpoints are kept."""
    average_last: int = key(0, at_least=0, may_change=True)
    """How many of the last checkpoints the finished model is the mean of; `0`:
    it is the best by validation."""
    average_epochs: int = key(0, at_least=0)
    """How many of the last passes over the corpus the finished model is the
    mean of, each with the weights at its end, whenever checkpoints are saved;
    `0`: see `average_last`."""
    best_by: str = key("loss", choices=("loss", "bleu"))
    """What makes a model the best: the lowest validation `loss` or the highest
    `bleu`."""
    early_stopping: int = key(0, at_least=0, may_change=True)
    """Training ends after this many validations without a better one; `0` for
    never."""
    seed: int = key(1, at_least=0)
    """The seed of initial weights, dropout and the order of the batches."""
