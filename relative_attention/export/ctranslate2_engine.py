"""Translates with CTranslate2 in the place of Keras.

`load_translator(..., engine="ctranslate2")` makes a `Translator` whose model is
a `CTranslate2Model`. The translator is the usual one: it reads and writes
strings, sorts and batches. The model runs a whole search at a time, with what
`export_ctranslate2` writes of a model directory into a cache folder.
"""

import hashlib
import json
import os
import pathlib
import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np

from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.constraints import padded_rows
from relative_attention.decoding.searcher import Searcher
from relative_attention.errors import InputError
from relative_attention.errors import check_packages
from relative_attention.export.ctranslate2 import check_config
from relative_attention.export.ctranslate2 import write_ctranslate2
from relative_attention.files import atomic_directory
from relative_attention.files import delete_directory
from relative_attention.files import file_sha256
from relative_attention.files import locked_directory
from relative_attention.files import read_json
from relative_attention.files import read_json_object
from relative_attention.models import TransformerConfig
from relative_attention.models.config import END_ID
from relative_attention.models.weights import load_arrays
from relative_attention.saving.model_directory import model_sha256
from relative_attention.version import __version__

DTYPES = ("float32", "bfloat16", "int8")
CACHE_VARIABLE = "RELATIVE_ATTENTION_CACHE"

# `beam_search` divides log P by `((5 + len) / 6) ** alpha`, CTranslate2 by
# `len ** alpha`. So CTranslate2 returns its hypotheses without a penalty, and
# they are ranked here. With exactly 0, CTranslate2 would end a search early.
_NO_PENALTY = 1e-9
# CTranslate2 ends a search when as many hypotheses have ended as there are
# beams, which is too early for a length penalty. With one more, nearly all
# translations are the same as by `beam_search`: 1,995 of 2,000 of
# `tatoeba_de_en`, with an alpha of 1.
_MORE_HYPOTHESES = 1


def load_model(
    directory: pathlib.Path,
    config: TransformerConfig,
    vocabularies: tuple[AnyVocabulary, AnyVocabulary],
    num_positions: int,
    dtype: str = "float32",
    threads: int | None = None,
) -> "CTranslate2Model":
    """Loads a model directory in CTranslate2, on the CPU.

    The first time the model is converted, into the folder that the variable
    `RELATIVE_ATTENTION_CACHE` names (default: `relative_attention` in
    `XDG_CACHE_HOME` or `~/.cache`).

    Args:
        directory: path of the model directory.
        config: `TransformerConfig` of the model.
        vocabularies: those of source and target.
        num_positions: int. How long a table of absolute positions is at least.
        dtype: string, one of `"float32"`, `"bfloat16"` and `"int8"`.
        threads: int. Defaults to `None`, as many as CTranslate2 chooses.

    Raises:
        InputError: if `dtype` or `threads` is something else, `ctranslate2`
            is not installed, CTranslate2 or this processor cannot compute
            the model, or the cache folder cannot be written.
    """
    if dtype not in DTYPES:
        raise InputError(
            "With an engine, `dtype` must be one of "
            f"{', '.join(DTYPES)}. Received: dtype={dtype!r}."
        )
    if threads is not None and threads < 1:
        raise InputError(f"`threads` must be at least 1. Received: {threads}.")
    check_packages(
        "The engine ctranslate2 needs `ctranslate2`",
        "ctranslate2",
        "ctranslate2",
    )
    import ctranslate2

    check_config(config, "Leave out `engine` (`--engine`).")
    known = ctranslate2.get_supported_compute_types("cpu")
    if dtype not in known:
        others = " or ".join(name for name in DTYPES if name in known)
        raise InputError(
            f"CTranslate2 cannot compute in {dtype} on this processor. Choose "
            f"{others} as `dtype`, or leave out `engine` (`--engine`)."
        )
    has_table = config.position_encoding in ("sinusoidal", "learned")
    origin = {
        "model": model_sha256(directory, config),
        "num_positions": num_positions if has_table else None,
        "versions": [__version__, ctranslate2.__version__],
    }
    place = _cache_folder(directory) / dtype
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # Another process converts, or loads, before or after this one.
        with locked_directory(place.parent):
            if not _is_whole(place, origin):
                # What was left by a process that was killed.
                for left in place.parent.glob(f".{place.name}-*"):
                    delete_directory(left)
                with atomic_directory(place) as folder:
                    write_ctranslate2(
                        config,
                        load_arrays(directory / "model.safetensors"),
                        vocabularies,
                        num_positions,
                        folder / "model",
                        dtype,
                    )
                    record = {**origin, "files": _checksums(folder)}
                    (folder / "origin.json").write_text(json.dumps(record))
            return CTranslate2Model(place / "model", config, dtype, threads)
    except OSError as error:
        raise InputError(
            f"The converted model cannot be kept in {place}: {error}. Name "
            f"another folder by the variable {CACHE_VARIABLE}."
        ) from error


def _cache_folder(directory: pathlib.Path) -> pathlib.Path:
    """Returns the folder for what a model directory was converted to."""
    cache = os.environ.get(CACHE_VARIABLE)
    if not cache:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(
            "~/.cache"
        )
        cache = os.path.join(home, "relative_attention")
    path = directory.resolve()
    # One folder for each path, so that a model that changes has one copy.
    number = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "_", path.name)
    return pathlib.Path(cache, "ctranslate2", f"{name}-{number}")


def _is_whole(place: pathlib.Path, origin: Mapping[str, Any]) -> bool:
    """Returns whether a folder has what was made of `origin`, undamaged."""
    try:
        record = read_json(place / "origin.json")
        return record == {**origin, "files": _checksums(place)}
    except (OSError, ValueError):
        return False


def _checksums(folder: pathlib.Path) -> dict[str, str]:
    """Returns a checksum of each file of a converted model."""
    paths = (folder / "model").iterdir()
    return {path.name: file_sha256(path) for path in paths}


class CTranslate2Model(Searcher):
    """A trained model in CTranslate2, which `beam_search` hands searches to.

    Args:
        folder: path of what `export_ctranslate2` wrote.
        config: `TransformerConfig` of the model.
        dtype: string, what CTranslate2 computes in.
        threads: int, or `None` for as many as CTranslate2 chooses.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        config: TransformerConfig,
        dtype: str,
        threads: int | None,
    ) -> None:
        import ctranslate2

        self.config = config
        self.start_token_id = config.start_token_id
        self._engine = ctranslate2.Translator(
            str(folder),
            device="cpu",
            compute_type=dtype,
            intra_threads=threads or 0,
        )
        settings = read_json_object(folder / "config.json")
        # What CTranslate2 itself adds to a source.
        self._adds_start = settings["add_source_bos"]
        self._adds_end = settings["add_source_eos"]
        joint = folder / "shared_vocabulary.json"
        self._source_tokens, self._target_tokens = (
            read_json(joint if joint.is_file() else folder / name)
            for name in ("source_vocabulary.json", "target_vocabulary.json")
        )
        self._target_ids = {
            token: number for number, token in enumerate(self._target_tokens)
        }

    def search(
        self,
        constraints: Constraints,
        *,
        length_penalty: float,
        num_beams: int,
        num_results: int,
        no_repeat_ngram: int,
    ) -> dict[str, np.ndarray]:
        """Returns what `beam_search` does, see `Searcher`."""
        lists: dict[str, Any] = {
            name: None if value is None else np.asarray(value).tolist()
            for name, value in constraints._asdict().items()
        }
        rows, begun = lists["source_token_ids"], lists["target_prefix"]
        limits, min_lengths = lists["limits"], lists["min_lengths"]
        sources = [self._source(row) for row in rows]
        prefixes = [self._prefix(row) for row in begun or [[]] * len(rows)]
        # CTranslate2 counts no end of sentence.
        least = max(max(min_lengths or [0]) - 1, 0)
        num_hypotheses = num_beams
        if num_beams > 1 and length_penalty:
            num_hypotheses += _MORE_HYPOTHESES
        found = [[_Hypothesis([], 0.0)] for _ in rows]

        def find(numbers: list[int], limit: int) -> None:
            results = self._engine.translate_batch(
                [sources[number] for number in numbers],
                [prefixes[number] for number in numbers] if begun else None,
                beam_size=num_beams,
                patience=num_hypotheses / num_beams,
                num_hypotheses=num_hypotheses,
                length_penalty=_NO_PENALTY,
                max_decoding_length=limit,
                min_decoding_length=min(least, limit - 1),
                max_input_length=0,
                no_repeat_ngram_size=no_repeat_ngram,
                return_scores=True,
                return_end_token=True,
            )
            for number, result in zip(numbers, results):
                found[number] = [
                    _Hypothesis([self._target_ids[t] for t in tokens], score)
                    for tokens, score in zip(result.hypotheses, result.scores)
                ]

        # A call has one limit: first the greatest, for all sentences, ...
        numbers = [number for number, limit in enumerate(limits) if limit]
        if numbers:
            find(numbers, max(limits))
        # ... then sentences with a longer result are searched with their own.
        too_long: dict[int, list[int]] = {}
        for number, limit in enumerate(limits):
            if any(len(one.token_ids) > limit for one in found[number]):
                too_long.setdefault(limit, []).append(number)
        for limit, numbers in too_long.items():
            find(numbers, limit)
        if begun or least or no_repeat_ngram:
            self._score_again(found, sources)
        return _results(found, length_penalty, num_results)

    def _score_again(
        self, found: list[list["_Hypothesis"]], sources: list[list[str]]
    ) -> None:
        """Replaces the scores of a constrained search by log P.

        CTranslate2 leaves out the probability of a prefix. It also divides the
        probability of what may not follow, such as an end that is too early,
        among the other tokens.
        """
        places = [
            (number, rank)
            for number, hypotheses in enumerate(found)
            for rank, one in enumerate(hypotheses)
            if one.token_ids
        ]
        if not places:
            return
        texts = [found[number][rank].text_ids for number, rank in places]
        scores = self._engine.score_batch(
            [sources[number] for number, _ in places],
            [[self._target_tokens[i] for i in ids] for ids in texts],
            max_input_length=0,
        )
        for (number, rank), score in zip(places, scores):
            one = found[number][rank]
            # A score has an end, which a hypothesis at its limit lacks.
            log_prob = sum(score.log_probs[: len(one.token_ids)])
            found[number][rank] = one._replace(log_prob=log_prob)

    def likeliest_tokens(
        self, source: Sequence[int], prefix: Sequence[int], num_tokens: int
    ) -> list[int]:
        """Returns ids of the tokens that most likely follow a prefix."""
        (result,) = self._engine.translate_batch(
            [self._source(source)],
            [self._prefix(prefix)],
            num_hypotheses=num_tokens,
            return_alternatives=True,
            max_decoding_length=len(prefix) + 1,
            min_decoding_length=0,
            max_input_length=0,
        )
        return [self._target_ids[one[-1]] for one in result.hypotheses if one]

    def _source(self, row: Sequence[int]) -> list[str]:
        """Returns the tokens of a padded row, as CTranslate2 wants them."""
        ids = np.trim_zeros(row, "b")
        ids = ids[self._adds_start : len(ids) - self._adds_end]
        return [self._source_tokens[token_id] for token_id in ids]

    def _prefix(self, row: Sequence[int]) -> list[str]:
        ids = np.trim_zeros(row, "b")
        return [self._target_tokens[token_id] for token_id in ids]


class _Hypothesis(NamedTuple):
    """A translation with its end, if it has ended, and log P of it."""

    token_ids: list[int]
    log_prob: float

    @property
    def text_ids(self) -> list[int]:
        """The ids without the end."""
        has_ended = self.token_ids[-1:] == [END_ID]
        return self.token_ids[:-1] if has_ended else self.token_ids

    def score(self, alpha: float) -> float:
        """Returns the score of a hypothesis that has ended."""
        return self.log_prob / ((5 + len(self.token_ids)) / 6) ** alpha


def _results(
    found: list[list[_Hypothesis]], length_penalty: float, num_results: int
) -> dict[str, np.ndarray]:
    """Ranks hypotheses as `beam_search` does, into its arrays."""
    results: list[tuple[float, list[int]]] = []
    for hypotheses in found:
        ended = [
            (one.score(length_penalty), one.token_ids)
            for one in hypotheses
            if one.text_ids != one.token_ids
        ]
        # Where none has ended, the beams without a penalty.
        ranked = ended or [(one.log_prob, one.token_ids) for one in hypotheses]
        ranked = sorted(ranked, reverse=True) + [(IMPOSSIBLE, [])] * num_results
        results += ranked[:num_results]
    scores, rows = zip(*results)
    shape = (len(found), num_results)
    return {
        "token_ids": padded_rows(rows).reshape(*shape, -1),
        "scores": np.array(scores, np.float32).reshape(shape),
    }
