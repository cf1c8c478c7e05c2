"""What each command calls.

The package is imported inside, so that `--help` answers at once.
"""

import pathlib
import sys

from relative_attention.errors import InputError

# Lines translated before any is written: enough to sort by length.
_CHUNK_LINES = 2000


def demo(options):
    from relative_attention.experiments.demo import run_demo

    run_demo(options.output, tuple(options.languages), options.overrides)


def train(options):
    from relative_attention import experiments

    recipe = experiments.find_recipe(options.recipe)
    recipe = recipe.override(options.overrides)
    output = options.output or pathlib.Path("runs", recipe.name)
    results = experiments.train(
        recipe,
        output,
        data_directory=options.data,
        resume=options.resume,
        overwrite=options.overwrite,
    )
    for name, scores in results["scores"].items():
        print(f"{name}: BLEU {scores['bleu']} ({scores['bleu_signature']})")
    print(f"model: {output}")


def translate(options):
    from relative_attention.data.lines import decode_lines
    from relative_attention.data.parallel_corpus import batched

    translator = _translator(options)
    lines = decode_lines(sys.stdin.buffer, "standard input")
    num_done = num_cut = 0
    for chunk in batched(lines, _CHUNK_LINES):
        translations = translator.search(
            chunk,
            report=lambda done, before=num_done: _progress(before + done),
        )
        for translation in translations:
            sys.stdout.buffer.write(f"{translation.text}\n".encode())
        sys.stdout.buffer.flush()
        num_done += len(chunk)
        num_cut += sum(t.was_cut for t in translations)
    _report_cut(num_cut, translator)


def evaluate(options):
    from relative_attention.atomic_files import atomic_file
    from relative_attention.data import ParallelCorpus
    from relative_attention.evaluation import corpus_bleu

    corpus = ParallelCorpus(options.source, options.reference)
    corpus.check()
    translator = _translator(options)
    sources, references = (list(side) for side in zip(*corpus))
    translations = translator.search(
        sources, report=lambda done: _progress(done, len(sources))
    )
    hypotheses = [translation.text for translation in translations]
    _report_cut(sum(t.was_cut for t in translations), translator)
    if options.hypotheses:
        with atomic_file(options.hypotheses, "w") as file:
            file.writelines(f"{line}\n" for line in hypotheses)
    print(corpus_bleu(hypotheses, references, lowercase=options.lowercase))


def plot(options):
    from relative_attention.experiments import load_translator
    from relative_attention.experiments.results import load_results
    from relative_attention.plot import model_picture
    from relative_attention.plot import training_curve

    output = pathlib.Path(options.output or options.model_directory)
    results = load_results(options.model_directory)
    translator = load_translator(options.model_directory)
    training_curve(results["curve"], output / "curve.png")
    print(model_picture(translator, options.sentence, output / "attention.png"))
    print(f"{output / 'curve.png'}\n{output / 'attention.png'}")


def convert_tensor2tensor(options):
    from relative_attention.experiments import convert_tensor2tensor

    def print_summary(line):
        # The names of the variables are many; they are in conversion.txt.
        if not line.startswith(" "):
            print(line)

    convert_tensor2tensor(
        options.checkpoint,
        options.hparams,
        options.output,
        vocabulary=options.vocabulary,
        source_vocabulary=options.source_vocabulary,
        target_space_id=options.target_space_id,
        report=print_summary,
    )
    print(f"model: {options.output} (every variable: conversion.txt there)")


def list_recipes(options):
    from relative_attention.experiments.zoo import find_recipe
    from relative_attention.experiments.zoo import zoo_recipes
    from relative_attention.experiments.zoo import zoo_results
    from relative_attention.models import presets

    print("recipes:")
    for name in zoo_recipes():
        print(f"  {name}\n    {find_recipe(name).description}")
        for part, scores in zoo_results(name).get("scores", {}).items():
            print(f"    {part}: BLEU {scores['bleu']}")
    print("presets (`model.preset`):")
    for name in presets():
        if options.parameters is None:
            print(f"  {name}")
        else:
            count = _count_parameters(name, options.parameters)
            print(f"  {name} {count:,}")


def _count_parameters(preset, vocabulary_size):
    from relative_attention.models import Transformer

    try:
        model = Transformer.from_preset(preset, vocabulary_size)
    except ValueError as error:
        raise InputError(str(error)) from error
    return model.count_params()


def _translator(options):
    from relative_attention.experiments import load_translator

    given = {
        name: getattr(options, name)
        for name in ("num_beams", "length_penalty")
        if getattr(options, name) is not None
    }
    try:
        return load_translator(options.model_directory, **given)
    except ValueError as error:
        raise InputError(str(error)) from error


def _progress(num_done, total=None):
    if sys.stderr.isatty():
        of_all = f" of {total:,}" if total else ""
        print(
            f"\r{num_done:,}{of_all} lines", end="", file=sys.stderr, flush=True
        )


def _report_cut(num_cut, translator):
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if num_cut:
        print(
            f"{num_cut:,} lines were cut at "
            f"{translator.max_source_length} tokens "
            "(`decoding.max_source_length` of the recipe)",
            file=sys.stderr,
        )
