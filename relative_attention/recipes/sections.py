"""Declares the keys of a recipe: their defaults, allowed values and meaning.

The section `decoding` is `DecodingSection` of `relative_attention.decoding`,
since a saved model has it too; `model` has a preset and the fields of
`TransformerConfig`. Rules that involve several keys are in `recipe.py`.
"""

import dataclasses

from relative_attention.schema import key

PRECISIONS = ("auto", "float32", "mixed_bfloat16", "mixed_float16")

# The value of a key that is left to the size of the corpus
# (`corpus_defaults.py`), or of the memory.
AUTO = "auto"


@dataclasses.dataclass(frozen=True)
class DataSection:
    """The texts to train, validate and test on."""

    source: str | None = key(None)
    """Text to translate, plain or `.gz`, one sentence per line."""
    target: str | None = key(None)
    """The translation of `source`, line by line."""
    validation_source: str | None = key(None)
    """Text to validate on. Without it, lines of the training text are held
    out, and others that share a sentence with them are left out."""
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
    vocabulary then holds their most frequent tokens, and BLEU is computed on
    tokens, which 13a splits again. The model expects text tokenized in the same
    way, and outputs tokens. The text is kept exactly, not cleaned
    (`clean_text`)."""
    source_language: str | None = key(None, is_language=True, may_change=True)
    """Language code of `source`, such as `en`, by which a model splits lines
    into sentences. `null`: the ending of `source`, such as `.en` or `.en.gz`.
    Pre-tokenized text is never split."""
    target_language: str | None = key(None, may_change=True)
    """Language code of `target`, such as `de`. If given, lowercased BLEU with
    Moses' tokenizer is reported as well. BLEU of `zh` has sacreBLEU's tokenizer
    `zh`, that of other languages without blanks (`ja`, `th`) `char`. Without
    the key, characters tell."""
    held_out: int = key(1000, at_least=1)
    """Lines to hold out if there is no validation text; at most a tenth of all
    lines."""
    max_length: int = key(256, at_least=2)
    """Longest source or target in training and in the validation loss, in
    tokens, with the end of sentence. Longer pairs are left out. Documents of
    thousands of tokens need `model.implementation: recompute` and a
    `batch_tokens` of at least their length."""
    variants: float = key(0.0, at_least=0, at_most=4)
    """Adds variants of training lines, this many per line: with signs in the
    place of words and around them, with other names and numbers, single words
    and sentences of them, in lowercase, without the final mark, in quotation
    marks. So a model learns what must not be translated, and
    `decoding.placeholders` and `decoding.usual_case` are set. `0` adds none;
    0.5 to 1 is enough. It needs a vocabulary of SentencePiece. See
    `relative-attention data variants`."""
    join: int | None = key(None, at_least=1, at_most=1000)
    """Joins up to this many training lines into one, on both sides, with a
    blank between them. Which lines are joined changes in every epoch. A model
    trained on single sentences only translates longer text badly. Lines that
    together would exceed `max_length` or the size of a batch stay single.
    `null` or 1: no lines are joined. Validation and test text never are."""
    join_share: float = key(0.3, is_fraction=True, is_positive=True)
    """With `join`, the share of training rows that are joined lines, 2 to
    `join` of them each. For example, `join` 4 and a share of 0.3 put 56% of
    all lines into joined rows."""


@dataclasses.dataclass(frozen=True)
class VocabularySection:
    """The vocabulary: SentencePiece, or a list of tokens."""

    size: int | str = key(8000, at_least=1, at_most=1_000_000, choices=(AUTO,))
    """Number of pieces, including 259 bytes and special ones (of a list of
    tokens 4); fewer than those are an error when the text is read. A small
    text may give fewer. `auto`: 2,000 for fewer than 10,000 pairs, 4,000 for
    fewer than 500,000, else 8,000."""
    required_chars: str = key("")
    """Characters that get a piece each although the text lacks them, such as
    `#*_`. Without a piece, a character is written in bytes."""
    joint: bool = key(True)
    """Whether one vocabulary serves both languages, or each has its own."""
    model: str | None = key(None)
    """Path of a SentencePiece model to use instead of learning one. For
    pre-tokenized texts, path of a list of tokens, one per line, as
    OpenNMT-tf writes it. `size` is then ignored."""
    source_model: str | None = key(None)
    """Path of such a model for the source only, if `joint` is false."""
    target_model: str | None = key(None)
    """Path of such a model for the target only, if `joint` is false."""
    from_start: bool = key(True)
    """With `training.start_from`, whether to use that model's vocabulary.
    Otherwise a new one is learned; pieces in both keep their embeddings."""


@dataclasses.dataclass(frozen=True)
class ModelKeys:
    """Holds the keys of `model` that are not just fields of its config."""

    preset: str = key("")
    dropout: float | str = key(0.1, is_fraction=True, choices=(AUTO,))


@dataclasses.dataclass(frozen=True)
class TrainingSection:
    """How to train, and which weights to keep.

    The preset sets the defaults of `learning_rate_scale`, `warmup_steps`,
    `zero_first_step`, `adam_beta_2` and `label_smoothing`
    (`preset_training`). The list shows the paper's.
    """

    start_from: str | None = key(None)
    """Trained model whose weights to start from: a folder, or the name of a
    bundled model."""
    steps: int | None = key(None, at_least=1, may_change=True)
    """Number of updates. Give this, `epochs` or both; training ends at the
    first one reached."""
    epochs: int | None = key(None, at_least=1, may_change=True)
    """Passes over the corpus."""
    minutes: float | None = key(None, is_positive=True, may_change=True)
    """Time limit of training: the run ends after the update in which the limit
    passes, validates and saves; `null` for none."""
    devices: int | str = key(
        "all", at_least=1, at_most=1024, choices=("all",), may_change=True
    )
    """Number of GPUs of this machine to train on, or `all`. Without a GPU, the
    number of parts to divide the CPU into, to try it out; on JAX, `XLA_FLAGS`
    divides it. For several machines set `TF_CONFIG`, or on JAX
    `KERAS_DISTRIBUTION_JOB_ADDRESSES`."""
    validate_every: int | None = key(None, at_least=1)
    """Updates between two validations; `null` for one epoch."""
    bleu_every: int = key(5, at_least=0, may_change=True)
    """Compute BLEU, by greedy search, at every n-th validation; `0` for never.
    """
    pictures: bool = key(True, may_change=True)
    """Whether to write pictures of attention and relation embeddings, and
    sample translations, to TensorBoard."""
    batch_tokens: int | str = key(
        4096,
        at_least=1,
        at_most=10_000_000,
        choices=(AUTO,),
        may_change=True,
    )
    """Tokens that a device processes at a time, including padding, counted on
    the longer side; `auto` for nine tenths of what fits on a GPU (on a CPU
    4,096; not on JAX)."""
    effective_batch_tokens: int | None = key(
        None, at_least=1, at_most=100_000_000, may_change=True
    )
    """Tokens per update, counted the same way. Each device processes its share
    in parts of at most `batch_tokens` (gradient accumulation). `null`:
    `batch_tokens` times the number of devices."""
    schedule: str = key(
        "inverse_sqrt", choices=("inverse_sqrt", "constant", "cosine")
    )
    """What follows the warm-up of the learning rate: the Transformer's
    `inverse_sqrt` of the step, a `constant` rate, for fine-tuning, or a
    `cosine` that ends at 0 with the last update, best where that is known."""
    learning_rate: float | None = key(None, is_positive=True)
    """The highest learning rate, at the end of the warm-up; `null`: that of the
    Transformer schedule."""
    learning_rate_scale: float = key(1.0, is_positive=True)
    """Factor on the Transformer schedule, if `learning_rate` is null."""
    warmup_steps: int | str = key(4000, at_least=1, choices=(AUTO,))
    """Updates until the learning rate is highest. `auto`: 2,000, but at most a
    third of `steps`, and with `epochs` one per 1,200 training pairs (pairs
    times `epochs`); at least 400."""
    zero_first_step: bool = key(False)
    """Whether the first update has a learning rate of 0, as in tensor2tensor
    since its third version."""
    adam_beta_2: float = key(0.98, is_fraction=True)
    """Decay of Adam's mean of squared gradients."""
    adam_epsilon: float = key(1e-9, is_positive=True)
    """Adam's epsilon, added before the bias correction, as in tensor2tensor.
    fairseq adds 1e-8 after it, which differs in the first updates only."""
    gradient_clip: float | None = key(None, is_positive=True)
    """Largest norm of the gradient of the mean loss per token, over all
    weights; `null` for no limit. The same as fairseq's `--clip-norm`."""
    label_smoothing: float = key(0.1, is_fraction=True)
    """Probability spread over the wrong tokens."""
    ema_momentum: float | None = key(None, is_fraction=True)
    """Decay of a moving average of the weights, which is then validated and
    kept; `null` for none."""
    precision: str = key("auto", choices=PRECISIONS)
    """Dtype policy of training."""
    on_nonfinite: str = key("stop", choices=("stop", "skip"), may_change=True)
    """What to do if the loss or gradient of an update is not finite. Such an
    update is never applied: `stop` ends the run within 16 updates, `skip`
    continues."""
    save_every: int | None = key(None, at_least=1, may_change=True)
    """Updates between two checkpoints, besides one at each validation; `null`
    for those alone."""
    save_minutes: float | None = key(None, is_positive=True, may_change=True)
    """Minutes between two checkpoints, besides one at each validation; `null`
    for those alone. The next one replaces them, and they are not averaged:
    what is averaged does not depend on the clock."""
    keep_checkpoints: int = key(5, at_least=1, may_change=True)
    """Number of checkpoints to keep, the last ones."""
    average_last: int = key(0, at_least=0, may_change=True)
    """The finished model is the mean of this many last checkpoints; `0`: it is
    the best one by validation."""
    average_epochs: int = key(0, at_least=0)
    """The finished model is the mean of the weights at the ends of this many
    last epochs; `0`: see `average_last`."""
    best_by: str = key("loss", choices=("loss", "bleu"))
    """How the best model is chosen: by the lowest validation `loss` or the
    highest `bleu`."""
    early_stopping: int = key(0, at_least=0, may_change=True)
    """Stop after this many validations without an improvement; `0` for
    never."""
    seed: int = key(1, at_least=0)
    """Seed of the initial weights, dropout, the order of the batches, and which
    lines are held out or joined."""
