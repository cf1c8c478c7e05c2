"""The keys of a recipe, what they mean, and what they are by default."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class DataSection:
    """What is learnt from.

    Attributes:
        source: Text to translate, plain or `.gz`, a sentence a line.
        target: Its translation, line by line.
        validation_source: Text to validate on; without it, some lines are
            held out of the training text.
        validation_target: Its translation.
        test_source: Text that the finished model is scored on.
        test_target: Its translation.
        corpus: Name of the folder that holds the files, for finding them.
        origin: Where to get the corpus, for the error when it is not found.
        tokenized: Whether the texts are tokenised already, with blanks between
            the tokens. The vocabulary is then that of their most frequent
            tokens; what is translated must be tokenised alike, what comes
            out is tokenised, and BLEU is that of the tokens.
        held_out: Lines held out where there is no validation text; at most a
            tenth of all.
        max_length: Tokens, the end of sentence included, above which a pair
            is left out of training.
    """

    source: str | None = None
    target: str | None = None
    validation_source: str | None = None
    validation_target: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    corpus: str | None = None
    origin: str | None = None
    tokenized: bool = False
    held_out: int = 1000
    max_length: int = 256


@dataclasses.dataclass(frozen=True)
class VocabularySection:
    """SentencePiece vocabulary.

    Attributes:
        size: Number of pieces, 259 of them bytes and special ones; fewer
            where the text carries no more.
        joint: One vocabulary for both languages, or one for each.
        model: Path of a SentencePiece model of one's own, in place of one
            that is learnt; where the texts are tokenised already, of a list
            of tokens, a token a line, as OpenNMT-tf writes it. `size` is then
            not used.
        source_model: The same for the source alone, where it is not joint.
        target_model: For the target.
        from_start: With `training.start_from`, whether to take that model's
            vocabulary; else a new one is learnt, and the rows of the pieces
            that both have are kept.
    """

    size: int = 8000
    joint: bool = True
    model: str | None = None
    source_model: str | None = None
    target_model: str | None = None
    from_start: bool = True


@dataclasses.dataclass(frozen=True)
class TrainingSection:
    """How the weights are learnt.

    What a recipe leaves out of `learning_rate_scale`, `warmup_steps`,
    `zero_first_step`, `adam_beta_2` and `label_smoothing` is that of its
    preset (`preset_training`); the defaults here are the paper's.

    Attributes:
        start_from: Folder of a trained model whose weights to start from, or
            the name of one of the zoo.
        steps: Updates. Either this or `epochs`, or both: what comes first.
        epochs: Passes over the corpus.
        minutes: Stop after the validation that ends beyond this time; `None`
            for no limit.
        devices: How many GPUs of this machine to train on, or `all` of them;
            where there is none, how many parts to divide the CPU into, for
            trying it out. Several machines are set up by `TF_CONFIG`.
        validate_every: Updates between two validations; `None` for one pass
            over the corpus.
        bleu_every: Validations between two that translate the validation
            text greedily and compute BLEU; `0` for never.
        pictures: Whether TensorBoard gets pictures of attention and relation
            embeddings, and sample translations.
        batch_tokens: Padded positions, on the longer side, that a device
            takes at a time; or `auto`, the most that fit on a GPU.
        effective_batch_tokens: Padded positions of an update. Each device
            takes its share in as many parts as `batch_tokens` asks for.
            `None`: what all devices take at a time.
        learning_rate_scale: Factor on the Transformer schedule.
        warmup_steps: Updates until the highest learning rate.
        zero_first_step: Whether the first update has the rate 0, as in
            tensor2tensor since its third version.
        adam_beta_2: Decay of Adam's mean of squared gradients.
        gradient_clip: Greatest length of the gradient, all weights together;
            `None` for no limit.
        label_smoothing: Probability spread over the wrong tokens.
        ema_momentum: Decay of a moving average of the weights, which is then
            what is validated and kept; `None` for none.
        precision: `auto`, `float32`, `mixed_bfloat16` or `mixed_float16`.
        on_nonfinite: What to do about an update whose loss or gradient is
            not finite, which is never made: `stop`, or `skip` it and go on.
        save_every: Updates between two checkpoints; `None` for one at each
            validation.
        save_minutes: Minutes between two checkpoints, likewise.
        keep_checkpoints: How many of the last checkpoints are kept.
        average_last: How many of the last checkpoints the finished model is
            the mean of; `0`: it is the best by validation.
        best_by: What the best model has: the lowest validation `loss` or the
            highest `bleu`.
        early_stopping: Validations without a better one after which training
            ends; `0` for never.
        seed: Of initial weights, dropout and the order of the batches.
    """

    start_from: str | None = None
    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    devices: int | str = "all"
    validate_every: int | None = None
    bleu_every: int = 5
    pictures: bool = True
    batch_tokens: int | str = 4096
    effective_batch_tokens: int | None = None
    learning_rate_scale: float = 1.0
    warmup_steps: int = 4000
    zero_first_step: bool = False
    adam_beta_2: float = 0.98
    gradient_clip: float | None = None
    label_smoothing: float = 0.1
    ema_momentum: float | None = None
    precision: str = "auto"
    on_nonfinite: str = "stop"
    save_every: int | None = None
    save_minutes: float | None = None
    keep_checkpoints: int = 5
    average_last: int = 0
    best_by: str = "loss"
    early_stopping: int = 0
    seed: int = 1


@dataclasses.dataclass(frozen=True)
class DecodingSection:
    """How the finished model translates; see `Translator`.

    Attributes:
        num_beams: Live hypotheses a sentence.
        length_penalty: GNMT's exponent alpha.
        max_extra_length: Tokens that a translation may be longer than its
            source.
        max_source_length: Tokens at which longer sentences are cut.
    """

    num_beams: int = 4
    length_penalty: float = 0.6
    max_extra_length: int = 50
    max_source_length: int = 512
