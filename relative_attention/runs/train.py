"""From a recipe to a trained model."""

import pathlib
import sys

import keras

from relative_attention.corpora.find_corpus import find_corpus
from relative_attention.corpora.find_corpus import named_files
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.runs.batch_budget import choose_batch_tokens
from relative_attention.runs.callbacks.run_keeper import RunKeeper
from relative_attention.runs.callbacks.validation_bleu import ValidationBleu
from relative_attention.runs.callbacks.watching import draw_curves
from relative_attention.runs.callbacks.watching import watching_callbacks
from relative_attention.runs.devices import any_machine
from relative_attention.runs.devices import chief_first
from relative_attention.runs.devices import choose_strategy
from relative_attention.runs.devices import is_chief
from relative_attention.runs.disk_space import check_disk_space
from relative_attention.runs.given_vocabulary import load_given
from relative_attention.runs.given_vocabulary import named_vocabularies
from relative_attention.runs.prepared_data import check_texts
from relative_attention.runs.prepared_data import prepare_data
from relative_attention.runs.provenance import provenance
from relative_attention.runs.results import write_results
from relative_attention.runs.run_directory import check_resume
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.runs.run_files import files_of_ids
from relative_attention.runs.run_files import recorded_files
from relative_attention.runs.start_from import load_start
from relative_attention.runs.training_length import training_length
from relative_attention.saving.model_config import save_config
from relative_attention.saving.model_directory import load_translator
from relative_attention.saving.results import load_results
from relative_attention.saving.run_lock import lock_run
from relative_attention.training import AveragedValidation
from relative_attention.training import AveragingAdam
from relative_attention.training import FiniteGuard
from relative_attention.training import MaskedCrossEntropy
from relative_attention.training import Perplexity
from relative_attention.training import StopSignals
from relative_attention.training import TokenAccuracy
from relative_attention.training import TransformerSchedule
from relative_attention.training import average_checkpoints
from relative_attention.training import checkpoint_bytes
from relative_attention.training import choose_precision


def train(
    recipe,
    output,
    data_directory=None,
    resume=False,
    overwrite=False,
    report=None,
):
    """Train the model of a recipe and score it.

    On the devices of the recipe; with `TF_CONFIG` in the environment as one
    of several machines, which all see the same `output`. The first of them
    writes it.

    Args:
        recipe: `Recipe`.
        output: path of the folder to fill; afterwards `load_translator` reads
            it.
        data_directory: path of a folder in which to look for the texts; see
            `find_corpus`.
        resume: bool. Go on with the run in `output`; its texts are found
            where they were when it was started. With `"auto"`, go on if
            there is a run, else start one.
        overwrite: bool. Delete the run in `output` first.
        report: called with each line for the log. Defaults to printing to
            standard error.

    Returns:
        Dict, what was written to `results.json`.

    Raises:
        InputError: if a text is missing or unusable, there is no run to go
            on with, there are too few devices, `output` holds something that
            must not be lost or is written by another process, or the disk has
            too little room, all before any work is done; or if an update is
            not finite, or does not fit into the memory.
        KeyboardInterrupt, SystemExit: on SIGINT or SIGTERM, after a
            checkpoint was saved.
    """
    resume = check_resume(output, resume)
    # TensorFlow wants its devices before it does anything else.
    strategy = choose_strategy(recipe.training.devices)
    report = report if is_chief(strategy) else _no_report
    report = report or _print_error
    known = {}
    if resume:
        known = recorded_files(output) or files_of_ids(
            output, named_files(recipe.data)
        )
    files = find_corpus(recipe.data, data_directory, known)
    check_texts(files, None if overwrite else output)
    # Noted now: the code may change while a long run goes on.
    origin = provenance()
    precision, reason = choose_precision(recipe.training.precision)
    start = load_start(recipe, output, resume, known)
    own_vocabularies = named_vocabularies(recipe, data_directory, known)
    given = load_given(recipe, own_vocabularies, output, resume)
    reads = {**known, **named_files(recipe.data, files), **own_vocabularies}
    if start is not None:
        reads[recipe.training.start_from] = str(start.directory)
    output = pathlib.Path(output)
    # Before anything of a run that is there is changed.
    with lock_run(output, is_chief(strategy), report):
        with chief_first(strategy):
            if is_chief(strategy):
                claim_run_directory(output, recipe, resume, overwrite, reads)
            data = prepare_data(recipe, files, output, report, start, given)
        report(f"precision: {precision} ({reason})")
        run = _Run(recipe, data, strategy, precision, output, report)
        if start is not None:
            for line in start.put_weights(
                run.model, data.source_vocabulary, data.target_vocabulary
            ):
                report(line)
        with StopSignals() as signals:
            run.fit(signals)
        with chief_first(strategy):
            if is_chief(strategy):
                return run.results({**origin, "precision": precision})
        return load_results(output)


class _Run:
    """A model, its data and its devices, from the first step to the last."""

    def __init__(self, recipe, data, strategy, precision, output, report):
        training = recipe.training
        self.recipe = recipe
        self.strategy = strategy
        self.output = output
        self.report = report
        num_replicas = strategy.num_replicas_in_sync

        def make_model(accumulation_steps=1):
            with strategy.scope():
                return build_model(recipe, data, precision, accumulation_steps)

        batch_tokens = choose_batch_tokens(recipe, make_model, report)
        update_tokens = (
            training.effective_batch_tokens or batch_tokens * num_replicas
        )
        self.data = data.batched(
            update_tokens,
            batch_tokens * num_replicas,
            training.seed,
            recipe.model_config(len(data.target_vocabulary)).start_token_id,
        )
        # Rounded up: a device never takes more than its `batch_tokens`.
        accumulation_steps = -(-update_tokens // (batch_tokens * num_replicas))
        keras.utils.set_random_seed(training.seed)
        self.model = make_model(accumulation_steps)
        check_disk_space(
            output, checkpoint_bytes(self.model), training.keep_checkpoints
        )
        if is_chief(strategy):
            save_config(self.model.config, recipe.decoding, output)
        self.total_steps = training_length(
            training, len(self.data.train_batches), report
        )
        self._batch_tokens = batch_tokens
        report(
            f"model: {self.model.count_params():,} parameters; "
            f"{len(self.data.train_batches):,} updates a pass over the corpus, "
            f"of {update_tokens:,} tokens on {num_replicas} "
            f"device{'s' * (num_replicas > 1)}, each in {accumulation_steps} "
            f"part{'s' * (accumulation_steps > 1)}"
        )

    def fit(self, signals):
        """Train to the end, from the last checkpoint if there is one."""
        import tensorflow as tf

        self.keeper = self._keeper(signals)
        self.keeper.restore(self.model)
        try:
            self._fit()
        except tf.errors.ResourceExhaustedError as error:
            smaller = max(self._batch_tokens // 2, 1)
            raise InputError(
                f"Out of memory with `training.batch_tokens` "
                f"{self._batch_tokens}. Go on with `train --resume "
                f"{self.output} training.batch_tokens={smaller} "
                "training.effective_batch_tokens="
                f"{self.data.train_batches.batch_tokens}`, which makes the "
                "same updates in smaller parts."
            ) from error
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            raise InputError(
                "Another machine was lost, and the machines can only go on "
                "together. Start all of them again with `--resume`: they go "
                "on from the last checkpoint."
            ) from error

    def _fit(self):
        keeper = self.keeper
        callbacks = self._callbacks()
        if keeper.unvalidated is not None:
            self._validate(callbacks)
        while keeper.step < self.total_steps and not keeper.is_over():
            # All but the first and the last of what `fit` calls an epoch end
            # with the validation that is due; a run may stop, and go on,
            # between two of them.
            due, done = self._steps_between_validations, keeper.step
            steps = min(due - done % due, self.total_steps - done)
            num_epochs = (self.total_steps - done) // due if steps == due else 1
            first_epoch = len(keeper.history)
            self.model.fit(
                self.data.train_batches.train_dataset(first_step=done),
                steps_per_epoch=steps,
                initial_epoch=first_epoch,
                epochs=first_epoch + num_epochs,
                validation_data=self._validation_dataset(),
                callbacks=callbacks,
                # The data set shuffles itself.
                shuffle=False,
                verbose=0,
            )

    def _validate(self, callbacks):
        """What ends an epoch, for one whose training was done before."""
        logs = dict(self.keeper.unvalidated)
        epoch = len(self.keeper.history)
        callbacks = keras.callbacks.CallbackList(callbacks, model=self.model)
        callbacks.on_train_begin()
        callbacks.on_epoch_begin(epoch)
        scores = self.model.evaluate(
            self._validation_dataset(),
            callbacks=callbacks,
            verbose=0,
            return_dict=True,
        )
        logs.update({f"val_{name}": value for name, value in scores.items()})
        callbacks.on_epoch_end(epoch, logs)
        callbacks.on_train_end()

    def _validation_dataset(self):
        return self.data.validation_batches.evaluation_dataset()

    @property
    def _steps_between_validations(self):
        return self.recipe.training.validate_every or len(
            self.data.train_batches
        )

    def _keeper(self, signals):
        training = self.recipe.training
        return RunKeeper(
            self.output,
            keep_checkpoints=training.keep_checkpoints,
            best_by=training.best_by,
            early_stopping=training.early_stopping,
            minutes=training.minutes,
            save_every=training.save_every,
            save_minutes=training.save_minutes,
            validate_at=lambda step: (
                step % self._steps_between_validations == 0
                or step == self.total_steps
            ),
            signals=signals,
            run={"update_tokens": self.data.train_batches.batch_tokens},
            writes=is_chief(self.strategy),
            any_machine=lambda flag: any_machine(self.strategy, flag),
        )

    def _callbacks(self):
        training = self.recipe.training
        callbacks = [
            AveragedValidation(),
            FiniteGuard(
                training.on_nonfinite,
                self.keeper.step,
                self.data.train_batches.line_numbers,
            ),
        ]
        if training.bleu_every:
            # Before those that show its figure.
            callbacks.append(ValidationBleu(self.data, training.bleu_every))
        if is_chief(self.strategy):
            callbacks += watching_callbacks(
                self.keeper,
                self.data,
                self.total_steps,
                pictures=training.pictures,
                report=self.report,
            )
        return [*callbacks, self.keeper]

    def results(self, origin):
        """Average if asked to, score the finished model, write it down."""
        keeper = self.keeper
        draw_curves(self.output, keeper.history, self.report)
        average_last = self.recipe.training.average_last
        if not (self.output / "best.safetensors").exists():
            raise InputError(
                "No validation had a finite loss, so there is no model to "
                f"keep; the checkpoints of {self.output} are as training left "
                "them. Train anew with a lower `training.learning_rate_scale`, "
                "or with `training.gradient_clip`."
            )
        if average_last:
            average_checkpoints(
                keeper.checkpoints()[-average_last:],
                self.output / "model.safetensors",
            )
        return write_results(
            self.output,
            self.recipe,
            origin,
            keeper.history,
            load_translator(self.output),
            self.data,
        )


def build_model(recipe, data, precision, accumulation_steps=1):
    """The compiled `Transformer` of a recipe.

    Adam has beta 1 0.9 and epsilon 1e-9, as in section 4.1 of Shaw et al.
    (2018) and in tensor2tensor.
    """
    training = recipe.training
    source_size = None if data.is_joint else len(data.source_vocabulary)
    config = recipe.model_config(len(data.target_vocabulary), source_size)
    model = Transformer(config, dtype=precision)
    model.compile(
        optimizer=AveragingAdam(
            TransformerSchedule(
                config.hidden_dim,
                warmup_steps=training.warmup_steps,
                scale=training.learning_rate_scale,
                zero_first_step=training.zero_first_step,
            ),
            ema_momentum=training.ema_momentum,
            beta_1=0.9,
            beta_2=training.adam_beta_2,
            epsilon=1e-9,
            global_clipnorm=training.gradient_clip,
        ),
        loss=MaskedCrossEntropy(training.label_smoothing),
        metrics=[Perplexity(), TokenAccuracy()],
        accumulation_steps=accumulation_steps,
    )
    # Here, as its variables belong to the strategy whose scope this is.
    model.optimizer.build(model.trainable_variables)
    return model


def _no_report(line):
    """Of several machines the first one speaks."""


def _print_error(line):
    print(line, file=sys.stderr, flush=True)
