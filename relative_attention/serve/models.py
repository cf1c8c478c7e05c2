"""The models of a server, and what it computes with them."""

import asyncio
import dataclasses
import logging
import pathlib
import re
import reprlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from relative_attention.decoding import Translation
from relative_attention.decoding import Translator
from relative_attention.decoding import beam_search
from relative_attention.decoding.constraints import known_ends
from relative_attention.decoding.searcher import Searcher
from relative_attention.decoding.translator import read_translations
from relative_attention.errors import InputError
from relative_attention.saving import load_translator
from relative_attention.serve.metrics import Metrics
from relative_attention.tensor_type import Tensor
from relative_attention.text.prepared import Sentence
from relative_attention.zoo import find_model
from relative_attention.zoo import model_examples
from relative_attention.zoo import model_license
from relative_attention.zoo import recipe_summary

_LOG = logging.getLogger("relative_attention.serve")
# Names of models that a path of the REST interface can have.
_NAME = re.compile(r"[\w.+ -]+")
# The number of ways shown to continue a translation.
_NUM_ALTERNATIVES = 6


@dataclasses.dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded model.

    Attributes:
        name: string. Its name in requests.
        folder: path of its folder.
        version: int. `1`, and one more for each replacement.
        stamp: identifies the file of its weights.
        loading: dict of the arguments of `load_translator`.
        translator: `Translator`.
        about: dict, what the page says about it: the `description` in its
            recipe; `languages`, a list of the codes of source and target,
            empty if unknown; its `license` and `examples`.
    """

    name: str
    folder: pathlib.Path
    version: int
    stamp: Any
    loading: Mapping[str, Any]
    translator: Translator
    about: Mapping[str, Any]

    def prepare(
        self,
        lines: Sequence[str],
        split_sentences: bool | None = None,
        is_n_best: bool = False,
        glossary: Mapping[str, str] | None = None,
    ) -> list[list[Sentence]]:
        """Returns the sentences of each line, see `Translator.prepare`."""
        if glossary and not self.translator.placeholders:
            raise InputError(
                "`glossary` must be left out for this model, which was not "
                "trained to carry signs over. Received: "
                f"{reprlib.repr(dict(glossary))}. Train it with "
                "`data.variants`."
            )
        if split_sentences and self.translator.source_language is None:
            raise InputError(
                "`split_sentences` must be false for this model: the language "
                "of its source is unknown. Received: true."
            )
        return self.translator.prepare(
            lines, split_sentences, is_n_best, glossary
        )

    def best(self, sentences: list[Sentence]) -> list[list[Translation]]:
        """Returns the best translation of each sentence, in a list."""
        return self.translator.search_prepared(sentences)

    def n_best(self, sentences: list[Sentence]) -> list[list[Translation]]:
        """Returns as many translations as beams, best first."""
        return self.translator.search_prepared(
            sentences, self.translator.num_beams
        )


def named_models(arguments: Sequence[str]) -> dict[str, pathlib.Path]:
    """Returns the folder of each model to serve, by name.

    Args:
        arguments: list of strings, each a bundled model, the path of a
            folder, whose base name is used, or `NAME=PATH`.

    Raises:
        InputError: if there is no such model, a name is invalid, or two models
            have the same name.
    """
    folders: dict[str, pathlib.Path] = {}
    for argument in arguments:
        name, is_named, path = argument.partition("=")
        # A folder whose name has this sign is a folder.
        if is_named and not pathlib.Path(argument).is_dir():
            folder = find_model(path)
        else:
            folder = find_model(argument)
            name = folder.resolve().name
        if not _NAME.fullmatch(name):
            raise InputError(
                "A model's name must be of letters, digits, blanks and any "
                f"of `_.+-`. Received: {name!r}. Give it another with "
                "NAME=PATH."
            )
        if name in folders:
            raise InputError(
                f"Two models have the name {name!r}: {folders[name]} and "
                f"{folder}. Give one another with NAME=PATH."
            )
        folders[name] = folder
    return folders


def load_models(
    folders: Mapping[str, pathlib.Path],
    report: Callable[[str], object] = lambda line: None,
    **loading: Any,
) -> dict[str, ServedModel]:
    """Loads models, so that they are ready to translate.

    Args:
        folders: dict of names to folders.
        report: called with a line before each model, as one may take a minute.
            Defaults to nothing.
        **loading: arguments of `load_translator`: `engine`, `dtype`,
            `threads`.

    Raises:
        InputError: if one cannot be loaded.
    """
    models = {}
    for number, (name, folder) in enumerate(folders.items(), start=1):
        report(f"Loading {name} ({number} of {len(folders)})")
        models[name] = _load_model(name, folder, 1, loading)
    return models


def _load_model(
    name: str, folder: pathlib.Path, version: int, loading: Mapping[str, Any]
) -> ServedModel:
    stamp = _stamp(folder)
    translator = load_translator(folder, **loading)
    description, languages = recipe_summary(folder)
    about = {
        "description": description,
        "languages": languages,
        "license": model_license(folder),
        "examples": model_examples(folder),
    }
    model = ServedModel(
        name, folder, version, stamp, loading, translator, about
    )
    # The first translation builds graphs for seconds; clients should not wait.
    model.best([Sentence(".")])
    model.n_best([Sentence(".")])
    find_alternatives(translator, ".", "")
    return model


def _stamp(folder: pathlib.Path) -> Any:
    """Returns a value that changes when the weights' file is replaced."""
    try:
        status = (folder / "model.safetensors").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


async def reload_models(
    models: dict[str, ServedModel], metrics: Metrics, seconds: float
) -> None:
    """Loads models again when their folders are replaced, forever.

    A request keeps the model that it began with. If a folder cannot be loaded,
    the old model stays.

    Args:
        models: dict to put changed models into.
        metrics: `Metrics` to keep up to date.
        seconds: float. How often to look at the folders.
    """
    tried = {name: model.stamp for name, model in models.items()}
    while True:
        await asyncio.sleep(seconds)
        for name, old in list(models.items()):
            stamp = _stamp(old.folder)
            if stamp is None or stamp == tried[name]:
                continue
            tried[name] = stamp
            try:
                new = await asyncio.to_thread(
                    _load_model, name, old.folder, old.version + 1, old.loading
                )
            except Exception as error:
                _LOG.warning(
                    "%s stays version %d: %s", name, old.version, error
                )
                continue
            # Otherwise its files may be of two models; it is loaded next time.
            if _stamp(old.folder) == stamp:
                models[name] = new
                metrics.model_version.labels(name).set(new.version)
                _LOG.warning("%s is now version %d.", name, new.version)


def find_alternatives(
    translator: Translator, sentence: str, prefix: str
) -> list[Translation]:
    """Finds translations that begin with the same words and then differ.

    Each of the most likely tokens after the prefix begins a translation, which
    a beam search continues. In an n-best list most translations have the same
    token there.

    Args:
        translator: `Translator`.
        sentence: string.
        prefix: string, the beginning of all translations; may be empty.

    Returns:
        List of `Translation`, with the most likely token first. There are fewer
        than 6 if two tokens give the same text.

    Raises:
        InputError: if the prefix has more tokens than any translation.
    """
    vocabulary = translator.source_vocabulary
    limit = translator.max_source_length - 1
    source = (*vocabulary.encode([sentence])[0][:limit], vocabulary.end_id)
    begun = list(translator.vocabulary.encode([prefix])[0])
    longest = translator.max_source_length + translator.max_extra_length
    if translator.max_length is not None:
        longest = min(longest, translator.max_length)
    # A search decodes the whole prefix, and all other requests wait for it.
    if len(begun) > longest:
        raise InputError(
            f"`prefix` must have at most {longest} tokens, as a translation. "
            f"Received: {len(begun)}.",
        )
    order = _likeliest_tokens(translator.model, source, begun)
    # Neither padding nor the end of the sentence.
    tokens = [t for t in order if t not in (0, translator.vocabulary.end_id)]
    prefixes = [[*begun, token] for token in tokens[:_NUM_ALTERNATIVES]]
    # An engine translates nothing to nothing.
    if not prefixes:
        return []
    sources = [source] * len(prefixes)
    with known_ends():
        results = beam_search(
            translator.model,
            np.array(sources),
            num_beams=translator.num_beams,
            length_penalty=translator.length_penalty,
            max_extra_length=translator.max_extra_length,
            max_length=translator.max_length,
            min_length=translator.min_length,
            no_repeat_ngram=translator.no_repeat_ngram,
            target_prefix=np.array(prefixes),
        )
    found = read_translations(
        results, sources, [False] * len(sources), translator.vocabulary
    )
    by_text: dict[str, Translation] = {}
    for best, *_ in found:
        by_text.setdefault(best.text, best)
    return list(by_text.values())


def _likeliest_tokens(
    model: Any, source: Sequence[int], begun: Sequence[int]
) -> list[int]:
    """Returns ids of tokens that may come next, the likeliest first."""
    if isinstance(model, Searcher):
        return model.likeliest_tokens(source, begun, _NUM_ALTERNATIVES + 2)
    from keras import ops

    from relative_attention.decoding.compiled import run_compiled

    target = [model.start_token_id, *begun]
    inputs = tuple(
        ops.convert_to_tensor([ids], "int32") for ids in (source, target)
    )
    logits = run_compiled(_last_logits, model, inputs)
    return np.argsort(-ops.convert_to_numpy(logits), kind="stable").tolist()


def _last_logits(model: Any, inputs: tuple[Tensor, Tensor]) -> Tensor:
    """Returns the logits `(V,)` that follow ids `(1, S)` and `(1, T)`."""
    source, target = inputs
    logits = model({"source_token_ids": source, "target_token_ids": target})
    return logits[0, -1]
