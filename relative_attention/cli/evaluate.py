"""`relative-attention evaluate`."""

from relative_attention.cli.command import add_command
from relative_attention.cli.decoding_options import add_decoding_options
from relative_attention.cli.decoding_options import translator_of
from relative_attention.cli.progress import report_cut
from relative_attention.cli.progress import show_progress


def add_parser(subparsers):
    parser = add_command(
        subparsers,
        "evaluate",
        _run,
        "translate a text and print BLEU with sacreBLEU's signature",
        "relative-attention evaluate runs/my_model --source test.en "
        "--reference test.de",
    )
    parser.add_argument("model_directory", help="what `train` filled")
    parser.add_argument("--source", metavar="F", required=True)
    parser.add_argument("--reference", metavar="F", required=True)
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
    parser.add_argument(
        "--hypotheses", metavar="F", help="also write the translations here"
    )
    add_decoding_options(parser)


def _run(options):
    from relative_attention.atomic_files import atomic_file
    from relative_attention.data import ParallelCorpus
    from relative_attention.evaluation import corpus_bleu

    corpus = ParallelCorpus(options.source, options.reference)
    corpus.check()
    translator = translator_of(options)
    sources, references = (list(side) for side in zip(*corpus))
    translations = translator.search(
        sources, report=lambda done: show_progress(done, len(sources))
    )
    hypotheses = [translation.text for translation in translations]
    report_cut(sum(t.was_cut for t in translations), translator)
    if options.hypotheses:
        with atomic_file(options.hypotheses, "w") as file:
            file.writelines(f"{line}\n" for line in hypotheses)
    print(corpus_bleu(hypotheses, references, lowercase=options.lowercase))
