"""From a recipe to a trained model."""

import sys

import keras

from relative_attention.experiments.find_corpus import find_corpus
from relative_attention.experiments.model_directory import load_translator
from relative_attention.experiments.model_directory import save_config
from relative_attention.experiments.prepared_data import check_texts
from relative_attention.experiments.prepared_data import prepare_data
from relative_attention.experiments.provenance import provenance
from relative_attention.experiments.results import write_results
from relative_attention.experiments.run_directory import claim_run_directory
from relative_attention.experiments.validation_bleu import ValidationBleu
from relative_attention.models import Transformer
from relative_attention.training import MaskedCrossEntropy
from relative_attention.training import Perplexity
from relative_attention.training import ProgressLine
from relative_attention.training import RunKeeper
from relative_attention.training import TokenAccuracy
from relative_attention.training import TransformerSchedule
from relative_attention.training import average_checkpoints
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

    Args:
        recipe: `Recipe`.
        output: path of the folder to fill; afterwards `load_translator` reads
            it.
        data_directory: path of a folder in which to look for the texts; see
            `find_corpus`.
        resume: bool. Go on with the run in `output`.
        overwrite: bool. Delete the run in `output` first.
        report: called with each line for the log. Defaults to printing to
            standard error.

    Returns:
        Dict, what was written to `results.json`.

    Raises:
        InputError: if a text is missing or unusable, or `output` holds
            something that must not be lost; before any work is done.
    """
    report = report or _print_error
    files = find_corpus(recipe.data, data_directory)
    check_texts(files)
    # Noted now: the code may change while a long run goes on.
    origin = provenance()
    precision, reason = choose_precision(recipe.training.precision)
    output = claim_run_directory(output, recipe, resume, overwrite)
    data = prepare_data(recipe, files, output, report)
    report(f"precision: {precision} ({reason})")
    keras.utils.set_random_seed(recipe.training.seed)
    model = build_model(recipe, data, precision)
    save_config(model.config, recipe.decoding, output)
    report(
        f"model: {model.count_params():,} parameters; "
        f"{len(data.train_batches):,} batches a pass over the corpus"
    )
    keeper = RunKeeper(
        output,
        keep_checkpoints=recipe.training.keep_checkpoints,
        early_stopping=recipe.training.early_stopping,
        minutes=recipe.training.minutes,
    )
    _fit(model, recipe.training, data, keeper)
    if recipe.training.average_last:
        average_checkpoints(
            keeper.checkpoints()[-recipe.training.average_last :],
            output / "model.safetensors",
        )
    return write_results(
        output,
        recipe,
        {**origin, "precision": precision},
        keeper.history,
        load_translator(output),
        data,
    )


def build_model(recipe, data, precision):
    """The compiled `Transformer` of a recipe.

    Adam has beta 1 0.9 and epsilon 1e-9, as in section 4.1 of Shaw et al.
    (2018) and in tensor2tensor.
    """
    training = recipe.training
    source_size = None if data.is_joint else len(data.source_vocabulary)
    config = recipe.model_config(len(data.target_vocabulary), source_size)
    model = Transformer(config, dtype=precision)
    model.compile(
        optimizer=keras.optimizers.Adam(
            TransformerSchedule(
                config.hidden_dim,
                warmup_steps=training.warmup_steps,
                scale=training.learning_rate_scale,
                zero_first_step=training.zero_first_step,
            ),
            beta_1=0.9,
            beta_2=training.adam_beta_2,
            epsilon=1e-9,
        ),
        loss=MaskedCrossEntropy(training.label_smoothing),
        metrics=[Perplexity(), TokenAccuracy()],
    )
    return model


def _fit(model, training, data, keeper):
    steps_a_pass = len(data.train_batches)
    total = _total_steps(training, steps_a_pass)
    callbacks = _callbacks(training, data, keeper, total)
    done = keeper.restore(model)
    while done < total and not keeper.is_over():
        # All but the first and the last of what `fit` calls an epoch end
        # with the validation that is due; a run may stop, and go on, between
        # two of them.
        due = training.validate_every or steps_a_pass
        steps = min(due - done % due, total - done)
        num_epochs = (total - done) // due if steps == due else 1
        first_epoch = len(keeper.history)
        model.fit(
            data.train_batches.train_dataset(first_step=done),
            steps_per_epoch=steps,
            initial_epoch=first_epoch,
            epochs=first_epoch + num_epochs,
            validation_data=data.validation_batches.evaluation_dataset(),
            callbacks=callbacks,
            # The data set shuffles itself.
            shuffle=False,
            verbose=0,
        )
        done = keeper.history[-1]["step"]


def _callbacks(training, data, keeper, total_steps):
    callbacks = [
        ProgressLine(total_steps),
        keras.callbacks.TensorBoard(
            log_dir=str(keeper.directory / "logs"),
            write_graph=False,
            profile_batch=0,
        ),
        keeper,
    ]
    if training.bleu_every:
        # First, so that the others see its figure.
        callbacks.insert(0, ValidationBleu(data, training.bleu_every))
    return callbacks


def _total_steps(training, steps_a_pass):
    limits = [
        limit
        for limit in (
            training.steps,
            training.epochs and training.epochs * steps_a_pass,
        )
        if limit is not None
    ]
    return min(limits)


def _print_error(line):
    print(line, file=sys.stderr, flush=True)
