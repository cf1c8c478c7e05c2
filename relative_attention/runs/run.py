"""Trains the model of a recipe, from its texts to its scores.

train                    what `relative-attention train RECIPE` calls
  find_inputs            finds all errors of the inputs (`prepare.py`)
  claim_run_directory    claims the folder of the run (`run_directory.py`)
  prepare_data           vocabularies and ids (`prepare.py`)
  TrainingRun.prepare    batches and the model
  TrainingRun.restore    the last checkpoint, if there is one (`progress.py`)
  record_run             the recipe, now that it fits the checkpoint
  TrainingRun.fit        `model.fit` (`training/trainable.py`; an update is in
                         `training/update.py`); `progress.py` saves and ends it
  TrainingRun.finish     the finished model and its scores (`report.py`)
"""

import dataclasses
import math
import pathlib
import shutil
import tempfile
from typing import Any

import keras

from relative_attention.data import FixedShapeBatches
from relative_attention.data import Vocabulary
from relative_attention.decoding.translator import DecodingSection
from relative_attention.errors import InputError
from relative_attention.errors import is_out_of_memory
from relative_attention.files import lock_directory
from relative_attention.models import Transformer
from relative_attention.recipes.recipe import Recipe
from relative_attention.recipes.sections import TrainingSection
from relative_attention.runs.batch_tokens import choose_batch_tokens
from relative_attention.runs.callbacks import FiniteGuard
from relative_attention.runs.callbacks import StopSignals
from relative_attention.runs.checkpoint import average_checkpoints
from relative_attention.runs.checkpoint import checkpoint_bytes
from relative_attention.runs.cluster import Cluster
from relative_attention.runs.cluster import choose_cluster
from relative_attention.runs.cluster import trains_on_tensorflow
from relative_attention.runs.corpus_defaults import with_values_for_corpus
from relative_attention.runs.distilled_text import distilled_from
from relative_attention.runs.logs import Record
from relative_attention.runs.monitoring import ValidationBleu
from relative_attention.runs.monitoring import draw_curves
from relative_attention.runs.monitoring import monitoring_callbacks
from relative_attention.runs.precision import choose_precision
from relative_attention.runs.prepare import PreparedData
from relative_attention.runs.prepare import find_inputs
from relative_attention.runs.prepare import learn_before
from relative_attention.runs.prepare import prepare_data
from relative_attention.runs.progress import TRAIN_IDS
from relative_attention.runs.progress import VALIDATION_IDS
from relative_attention.runs.progress import RunProgress
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.runs.report import provenance
from relative_attention.runs.report import say_nothing
from relative_attention.runs.report import write_results
from relative_attention.runs.run_directory import check_resume
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.runs.run_directory import has_trained
from relative_attention.runs.run_directory import is_run
from relative_attention.runs.run_directory import record_run
from relative_attention.runs.start_from import InitialWeights
from relative_attention.runs.start_from import with_values_of_start
from relative_attention.saving.model_directory import load_results
from relative_attention.saving.model_directory import load_translator
from relative_attention.saving.model_directory import save_config
from relative_attention.training import AveragingAdam
from relative_attention.training import MaskedCrossEntropy
from relative_attention.training import Perplexity
from relative_attention.training import TokenAccuracy
from relative_attention.training import TransformerSchedule
from relative_attention.training.optimizer import AveragedValidation
from relative_attention.training.trainable import evaluation_data
from relative_attention.training.trainable import train_data
from relative_attention.zoo import recipe_languages

# Source rows that are not longer than `decoding.trained_source_length`.
_SHARE_OF_ROWS = 0.999
# The finished model, by whether there are weights to average.
_MEAN_OR_BEST = ("the best by validation", "their mean")


def train(
    recipe: Recipe,
    output: pathlib.Path | str,
    data_directory: pathlib.Path | str | None = None,
    resume: bool | str = False,
    overwrite: bool = False,
    report: Report | None = None,
) -> dict[str, Any]:
    """Trains the model of a recipe and scores it.

    It uses the devices of the recipe. With `TF_CONFIG` in the environment, or
    on JAX `KERAS_DISTRIBUTION_JOB_ADDRESSES`, this process is one of several,
    which share `output`. The first writes it.

    Args:
        recipe: A `Recipe`.
        output: The path of the folder to fill, which `load_translator` reads
            afterwards.
        data_directory: The path of a folder with the texts; see
            `find_corpus`. Defaults to `None`.
        resume: A boolean to indicate whether to resume the run in `output`;
            its texts must be where they were when it was started. With
            `"auto"`, resume if there is a run, else start one.
        overwrite: A boolean to indicate whether to delete the run in `output`
            first.
        report: A function to call with each line for the log, but for the
            progress of training, which goes to standard error. Defaults to
            printing there.

    Returns:
        A dict, the content of `results.json`.

    Raises:
        InputError: before any work, if a text is missing or unusable, there is
            no run to resume, the backend cannot train the recipe, there are
            too few devices, or `output` holds other files or is written by
            another process; before the first update, if the disk is too full;
            later, if an update is not finite or does not fit in memory, or
            another machine is lost.
        KeyboardInterrupt, SystemExit: on SIGINT or SIGTERM, after saving a
            checkpoint.
    """
    output = pathlib.Path(output)
    resume = check_resume(output, resume)
    # Devices must be set, and machines connect, before anything else.
    cluster = choose_cluster(recipe)
    report = (report or print_error) if cluster.is_chief else say_nothing
    # All errors of the inputs, before anything is locked or written.
    inputs = find_inputs(recipe, output, data_directory, resume, overwrite)
    # Recorded now, as the code may change during a long run.
    origin = provenance()
    precision, reason = choose_precision(recipe.training.precision)
    # Before anything of an existing run is changed.
    lock = lock_directory(output, cluster.is_chief, report)
    with cluster.explain_lost_machine(), lock:
        with cluster.chief_first():
            # A run that has not trained yet has nothing to keep.
            before = output if resume and has_trained(output) else None
            recipe = with_values_of_start(
                recipe, inputs.initial_weights, before, report
            )
            recipe = with_values_for_corpus(recipe, inputs, before, report)
            # The old run is deleted only when the new one is sure to begin.
            if overwrite and cluster.is_chief and is_run(output):
                with tempfile.TemporaryDirectory(dir=output.parent) as folder:
                    inputs = learn_before(
                        recipe, inputs, pathlib.Path(folder), report
                    )
            if cluster.is_chief:
                claim_run_directory(
                    output, recipe, resume, overwrite, inputs.paths
                )
            # On the chief first; the others read what it wrote.
            data = prepare_data(recipe, inputs, output, report)
        report(f"precision: {precision} ({reason})")
        run = TrainingRun(recipe, data, cluster, precision, output, report)
        with cluster.fit_scope():
            run.prepare(inputs.initial_weights)
            # Earlier, a signal ends the process at once: nothing is lost.
            with StopSignals() as signals:
                run.restore(signals)
                if cluster.is_chief:
                    # Not before: the folder would keep a refused recipe.
                    record_run(output, recipe, inputs.paths)
                    save_config(run.config, run.decoding(), output)
                run.fit()
        with cluster.chief_first():
            if cluster.is_chief:
                origin.update(distilled_from(recipe, output))
                return run.finish({**origin, "precision": precision})
        # The other machines wait until the chief has written them.
        return load_results(output)


@dataclasses.dataclass
class TrainingRun:
    """Trains the model of a recipe: `prepare`, `restore`, `fit`, `finish`."""

    recipe: Recipe
    data: PreparedData
    cluster: Cluster
    precision: str
    output: pathlib.Path
    report: Report

    def prepare(self, initial_weights: InitialWeights | None = None) -> None:
        """Makes the batches and the model, and checks that the run fits."""
        training, data = self.recipe.training, self.data
        num_devices = self.cluster.num_replicas
        self.config = self.recipe.model_config(
            len(data.target_vocabulary),
            None if data.is_joint else len(data.source_vocabulary),
        )
        self.batch_tokens = choose_batch_tokens(
            self.recipe, self._make_model, self.report
        )
        tokens_at_a_time = self.batch_tokens * num_devices
        self.update_tokens = training.effective_batch_tokens or tokens_at_a_time
        # Rounded up: a device never gets more than `batch_tokens`.
        num_parts = -(-self.update_tokens // tokens_at_a_time)
        self.train_batches, self.validation_batches = data.batches(
            self.update_tokens,
            tokens_at_a_time,
            training.seed,
            self.config.start_token_id,
            # Otherwise XLA would compile a step for each of many shapes.
            fixed_shapes=not trains_on_tensorflow(),
        )
        steps_per_pass = len(self.train_batches)
        self.total_steps = training_length(
            training, steps_per_pass, self.report
        )
        # After trial steps, whose random draws must not change the weights.
        keras.utils.set_random_seed(training.seed)
        self.model = self._make_model(num_parts, self.total_steps)
        # Now, as the model's size is known and nothing is trained yet.
        self._check_disk_space()
        self.report(
            f"model: {self.model.count_params():,} parameters; "
            f"{steps_per_pass:,} updates per epoch, of "
            f"{self.update_tokens:,} tokens on {num_devices} "
            f"device{'s' * (num_devices > 1)}, each in {num_parts} "
            f"part{'s' * (num_parts > 1)}"
        )
        batches = self.train_batches
        if isinstance(batches, FixedShapeBatches):
            shapes = ", ".join(f"{n} x {size}" for n, size in batches.shapes)
            self.report(
                f"batches: {len(batches.shapes)} shapes (rows x tokens: "
                f"{shapes}); {batches.padding_share:.1%} of the positions are "
                "padding"
            )
        if initial_weights is not None:
            initial_weights.assign_to(
                self.model,
                data.source_vocabulary,
                data.target_vocabulary,
                self.report,
            )

    def restore(self, signals: StopSignals) -> None:
        """Loads the last checkpoint, if there is one."""
        # Other updates would see other batches.
        must_stay = {
            "update_tokens": self.update_tokens,
            TRAIN_IDS: self.data.train_corpus.checksum,
            VALIDATION_IDS: self.data.validation_corpus.checksum,
        }
        if isinstance(self.train_batches, FixedShapeBatches):
            must_stay["num_shapes"] = self.train_batches.num_shapes
        self.progress = RunProgress(
            self.output,
            self.recipe.training,
            self.cluster,
            len(self.train_batches),
            self.total_steps,
            must_stay,
            signals,
            self.report,
        )
        # After initial weights, which a checkpoint replaces.
        self.progress.restore(self.model)
        self._report_moved_end()

    def _report_moved_end(self) -> None:
        """Says if a resumed run now decays to another end than before."""
        training = self.recipe.training
        if training.schedule != "cosine" or not self.progress.step:
            return
        before = training_length(
            Recipe.load(self.output / "recipe.yaml").training,
            len(self.train_batches),
            say_nothing,
        )
        if before != self.total_steps:
            self.report(
                f"the learning rate now falls to 0 at update "
                f"{self.total_steps:,}, and not at {before:,}"
            )

    def fit(self) -> None:
        """Trains to the end."""
        try:
            self._fit(self._callbacks())
        except Exception as error:
            if is_out_of_memory(error):
                smaller = max(self.batch_tokens // 2, 1)
                raise InputError(
                    f"Out of memory with `training.batch_tokens` "
                    f"{self.batch_tokens}. Resume with `train --resume "
                    f"{self.output} training.batch_tokens={smaller} "
                    "training.effective_batch_tokens="
                    f"{self.update_tokens}`, which makes the "
                    "same updates in smaller parts."
                ) from error
            raise

    def finish(self, origin: dict[str, Any]) -> dict[str, Any]:
        """Scores the finished model, and writes `results.json`."""
        history = self.progress.records
        # Even without a model to keep: the curves show what went wrong.
        draw_curves(self.output, history, self.report)
        if not self.progress.has_finite_validation():
            raise InputError(
                "No validation had a finite loss, so there is no model to "
                f"keep; the checkpoints of {self.output} are as training left "
                "them. Train again with a lower "
                "`training.learning_rate_scale`, or with "
                "`training.gradient_clip`."
            )
        weights = self._averaged_weights()
        best = self.output / "best.safetensors"
        if not weights and not best.is_file():
            raise InputError(
                f"{best} is missing, which had the weights of the best "
                "validation. Put it back and resume with `train --resume "
                f"{self.output}`, or take the mean of the last checkpoints: "
                f"`relative-attention average {self.output}`."
            )
        # The best model is also written again, as an earlier part of the run
        # may have left the mean of other checkpoints.
        average_checkpoints(
            weights or [best], self.output / "model.safetensors"
        )
        return write_results(
            self.output,
            self.recipe,
            origin,
            history,
            # From its folder, as a user will: what is scored is what is saved.
            load_translator(self.output),
            {"validation": self.data.validation, "test": self.data.test},
        )

    def _averaged_weights(self) -> list[pathlib.Path]:
        """Returns the weights to average for the finished model, if any."""
        training, progress = self.recipe.training, self.progress
        if training.average_last:
            paths = progress.checkpoints.regular()[-training.average_last :]
            if len(paths) < training.average_last:
                self.report(
                    f"only {len(paths)} of the {training.average_last} "
                    "checkpoints of `training.average_last` are there: the "
                    f"finished model is {_MEAN_OR_BEST[bool(paths)]}"
                )
            return paths
        paths = progress.last_passes(progress.step)
        if training.average_epochs > len(paths):
            self.report(
                f"only {len(paths)} of the {training.average_epochs} passes of "
                "`training.average_epochs` came to an end: the finished model "
                f"is {_MEAN_OR_BEST[bool(paths)]}"
            )
        return paths

    def decoding(self) -> DecodingSection:
        """Returns the recipe's settings, with what its text says."""
        decoding = self.recipe.decoding
        length = decoding.trained_source_length
        if length is None:
            # A few long rows do not make a model good at long texts.
            length = self.train_batches.source_length(_SHARE_OF_ROWS)
        languages = decoding.source_language, decoding.target_language
        # Text that is kept exactly is not split either.
        if isinstance(self.data.source_vocabulary, Vocabulary):
            found = recipe_languages(dataclasses.asdict(self.recipe.data))
            languages = languages[0] or found[0], languages[1] or found[1]
        has_variants = self.recipe.data.variants > 0
        return dataclasses.replace(
            decoding,
            trained_source_length=length,
            source_language=languages[0],
            target_language=languages[1],
            usual_case=decoding.usual_case or has_variants,
            placeholders=decoding.placeholders or has_variants,
        )

    def _make_model(
        self, accumulation_steps: int = 1, total_steps: int = 1
    ) -> Transformer:
        """Returns the compiled model with initial weights, on all devices."""
        with self.cluster.scope():
            model = Transformer(self.config, dtype=self.precision)
            compile_model(
                model,
                self.recipe.training,
                total_steps,
                accumulation_steps,
            )
        return model

    def _check_disk_space(self) -> None:
        """Refuses a run whose checkpoints would fill the disk.

        It needs space for the checkpoints to keep, one more while it is
        written, the best and the finished model, and the epochs to average.
        Files that already exist are subtracted.
        """
        training = self.recipe.training
        num_checkpoints = training.keep_checkpoints + 2
        size = checkpoint_bytes(self.model)
        passes = 4 * self.model.count_params() * training.average_epochs
        there = sum(
            file.stat().st_size for file in self.output.rglob("*.safetensors")
        )
        needed = num_checkpoints * size + passes - there
        free = shutil.disk_usage(self.output).free
        if free < needed:
            others = f", and {_size(passes)} of epochs" if passes else ""
            raise InputError(
                f"The disk of {self.output} has {_size(free)} free; the run "
                f"needs {_size(needed)}: {num_checkpoints} checkpoints of "
                f"{_size(size)}{others}. Free some, choose another "
                "`--output`, or lower `training.keep_checkpoints`."
            )

    def _fit(self, callbacks: list[keras.callbacks.Callback]) -> None:
        progress = self.progress
        # The run was stopped in a validation, which is done first.
        if progress.unvalidated is not None:
            self._validate(progress.unvalidated, callbacks)
        elif progress.step >= self.total_steps and progress.is_in_round():
            # The run now has fewer updates than before, and ends here.
            self._validate(progress.resumed_logs, callbacks)
        if reason := progress.reason_to_train_no_more():
            self.report(f"no update is left to train: {reason}")
        while progress.step < self.total_steps and not progress.is_over():
            if self.cluster.is_chief:
                # Scores of a run that was finished before it went on.
                (self.output / "results.json").unlink(missing_ok=True)
            # An epoch of `fit` is a round, which ends with a validation. The
            # first is shorter if the run was stopped between two, and the last
            # may be shorter, too.
            due, done = progress.steps_per_round, progress.step
            left = self.total_steps - done
            steps = min(due - done % due, left)
            num_rounds = left // due if steps == due else 1
            first_round = len(progress.records)
            self.model.fit(
                train_data(self.train_batches, done),
                steps_per_epoch=steps,
                initial_epoch=first_round,
                epochs=first_round + num_rounds,
                validation_data=evaluation_data(self.validation_batches),
                callbacks=callbacks,
                # The data set shuffles itself.
                shuffle=False,
                verbose=0,
            )

    def _validate(
        self, logs: Record, callbacks: list[keras.callbacks.Callback]
    ) -> None:
        """Ends a round as `fit` does, if its training was already done."""
        number = len(self.progress.records)
        together = keras.callbacks.CallbackList(callbacks, model=self.model)
        together.on_train_begin()
        together.on_epoch_begin(number)
        scores = self.model.evaluate(
            evaluation_data(self.validation_batches),
            callbacks=together,
            verbose=0,
            return_dict=True,
        )
        validated = {f"val_{name}": value for name, value in scores.items()}
        together.on_epoch_end(number, {**logs, **validated})
        together.on_train_end()

    def _callbacks(self) -> list[keras.callbacks.Callback]:
        """Returns the callbacks, each after those whose logs it reads."""
        training, progress = self.recipe.training, self.progress
        callbacks = [
            AveragedValidation(),
            FiniteGuard(
                training.on_nonfinite,
                progress.step,
                self.train_batches.line_numbers,
                first_skipped=progress.resumed_logs.get("skipped", 0.0),
            ),
        ]
        if training.bleu_every:
            callbacks.append(self._validation_bleu())
        if self.cluster.is_chief:
            callbacks += monitoring_callbacks(self.data, progress)
        # Last: it records what the others have added to the logs.
        return [*callbacks, progress]

    def _validation_bleu(self) -> ValidationBleu:
        """Returns the callback of BLEU, which may choose the best weights."""
        training, data = self.recipe.training, self.recipe.data
        decoding = self.recipe.decoding
        limits = {
            name: getattr(decoding, name)
            for name in (
                "max_extra_length",
                "max_source_length",
                "no_repeat_ngram",
            )
        }
        callback = ValidationBleu(self.data, training.bleu_every, data, limits)
        # The usual one needs no word.
        if callback.tokenize != "13a":
            self.report(f"BLEU: of the tokens of {callback.tokenize}")
        if training.best_by == "bleu" and not callback.can_rise:
            raise InputError(
                "`training.best_by: bleu` needs validation targets of four "
                "tokens or more: BLEU of these is 0 even for a perfect "
                "translation. Add `training.best_by=loss`."
            )
        return callback


def training_length(
    section: TrainingSection, num_batches: int, report: Report
) -> int:
    """Returns the number of updates, by the recipe's steps or epochs."""
    if section.epochs is None:
        # A recipe has one of the two.
        return section.steps or 0
    steps = section.epochs * num_batches
    if section.steps is not None and section.steps > steps:
        report(
            f"training ends after {steps:,} updates, not the "
            f"{section.steps:,} of `training.steps`: `training.epochs` is "
            f"{section.epochs:,} (`training.epochs=null` for no such limit)"
        )
    return min(steps, section.steps or steps)


def learning_rate_of(
    training: TrainingSection, hidden_dim: int, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Returns the learning rate of a recipe, by the update."""
    warmup_steps = int(training.warmup_steps)
    root = math.sqrt(hidden_dim * warmup_steps)
    scale = training.learning_rate_scale
    if training.learning_rate is not None:
        scale = training.learning_rate * root
    if training.schedule == "inverse_sqrt":
        return TransformerSchedule(
            hidden_dim,
            warmup_steps=warmup_steps,
            scale=scale,
            zero_first_step=training.zero_first_step,
        )
    highest = scale / root
    return keras.optimizers.schedules.CosineDecay(
        0.0 if training.zero_first_step else highest / warmup_steps,
        decay_steps=max(total_steps - warmup_steps, 1),
        # A cosine that ends where it begins is constant.
        alpha=1.0 if training.schedule == "constant" else 0.0,
        warmup_target=highest,
        warmup_steps=warmup_steps,
    )


def compile_model(
    model: Transformer,
    training: TrainingSection,
    total_steps: int,
    accumulation_steps: int = 1,
) -> None:
    """Gives a model the optimizer, the loss and the metrics of a recipe."""
    model.compile(
        # Beta 1: Shaw et al. (2018), section 4.1; tensor2tensor has the same.
        optimizer=AveragingAdam(
            learning_rate_of(training, model.config.hidden_dim, total_steps),
            ema_momentum=training.ema_momentum,
            beta_1=0.9,
            beta_2=training.adam_beta_2,
            epsilon=training.adam_epsilon,
            global_clipnorm=training.gradient_clip,
        ),
        loss=MaskedCrossEntropy(training.label_smoothing),
        metrics=[Perplexity(), TokenAccuracy()],
        accumulation_steps=accumulation_steps,
    )
    # Here, as its variables belong to the strategy of this scope.
    model.optimizer.build(model.trainable_variables)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.0f} MB"
