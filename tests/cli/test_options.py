"""What each command calls, with what its command line says."""

import functools
import inspect
import pkgutil
import re

import pytest

import relative_attention as ra
from tests.cli.conftest import check_refused

# A command line, and below it what it calls with what: of a recipe its name and
# updates. {model} is a folder, `lines` a file, and runs/mine a run.
CALLS = """
train small_relative training.steps=4 --data texts
    runs.train recipe=small_relative,4 output=runs/small_relative
    data_directory=texts resume=False overwrite=False
train small_relative training.steps=4 --output other --overwrite
    runs.train output=other data_directory=None overwrite=True
train --resume runs/mine training.steps=16
    runs.train recipe=small,16 output=runs/mine resume=True overwrite=False
train runs/mine --resume training.steps=16
    runs.train recipe=small,16 output=runs/mine resume=True
train runs/mine training.steps=16 --resume
    runs.train recipe=small,16 output=runs/mine resume=True
train --resume runs/mine --output runs/mine training.steps=16
    runs.train recipe=small,16 output=runs/mine resume=True
train runs/mine training.steps=16 --resume=auto
    runs.train recipe=small,16 output=runs/mine resume=auto
distill small_relative --teachers a b --backward c training.steps=3
    runs.distill recipe=small_relative,3 teachers=a,b backward=c
    output=runs/small_relative_distilled separately=False overwrite=False
distill small_relative training.steps=3 --teachers a b --backward c
    runs.distill recipe=small_relative,3 teachers=a,b backward=c
distill training.steps=3 small_relative --backward c --teachers a b \
--closest-of 2 --num-beams 5 --batch-tokens 9 --separately
    runs.distill recipe=small_relative,3 teachers=a,b backward=c
    closest_of=2 num_beams=5 batch_tokens=9 separately=True
study table1 --jobs 2 --rows a,b --seeds 1,2 --data texts
    studies.run_study num_jobs=2 rows=a,b seeds=1,2 data_directory=texts
data pairs a.tsv --keep-equal b.csv --output here --columns en 2 \
--delimiter ; --max-words 9 --max-ratio 2.5 --val 3 --test 4 --seed 5
    corpora.pairs.write_pairs files=a.tsv,b.csv output=here keep_equal=True
    columns=en,2 delimiter=; max_words=9 max_ratio=2.5 val=3 test=4 seed=5
data pairs a.tmx --output here --languages de en --split-as tatoeba_en_de
    corpora.pairs.write_pairs files=a.tmx languages=de,en keep_equal=False
    max_words=80 max_ratio=9 split_as=tatoeba_en_de
average runs/mine --last 2 --in-place
    runs.average.average_run directory=runs/mine last=2 in_place=True
export --format saved_model m out --num-beams=2 --length-penalty=2 \
--min-length=3 --max-length=9 --dtype=float16
    saving.load_translator directory=m num_beams=2 length_penalty=2.0
    min_length=3 max_length=9
export --format saved_model {model} out --nbest=2 --dtype=float16 --warmup lines
    export_saved_model directory=out num_results=2 dtype=float16
    warmup=yes,ten token_ids_only=False
translate m --num-beams=2 --length-penalty=3 --min-length=2 --max-length=5 \
--no-repeat-ngram=1 --batch-tokens=7 --dtype=bfloat16
    saving.load_translator directory=m num_beams=2 length_penalty=3.0
    min_length=2 max_length=5 no_repeat_ngram=1 batch_tokens=7 dtype=bfloat16
translate {model} --engine ctranslate2 --threads 1
    saving.load_translator engine=ctranslate2 threads=1
evaluate {model} --source lines --reference lines --engine ctranslate2 \
--threads 1 --max-length 9
    saving.load_translator engine=ctranslate2 threads=1 max_length=9
score m --source lines --target lines
    saving.load_translator directory=m
translate a --batch-tokens 8192 b c
    saving.load_translator directory=a,b,c
translate {model} --input lines --sample --nbest=6 --temperature=1.7 \
--top-k=50 --top-p=0.9 --seed=5
    Translator.sample sentences=yes,ten num_results=6 temperature=1.7
    top_k=50 top_p=0.9 seed=5
"""


def shown(value):
    """A value as it is written in the table."""
    if isinstance(value, ra.Recipe):
        value = [value.name, value.training.steps]
    is_list = isinstance(value, (list, tuple))
    return ",".join(map(str, value)) if is_list else str(value)


@pytest.mark.usefixtures("load_once")
@pytest.mark.parametrize("case", re.split(r"\n(?=\w)", CALLS.strip()))
def test_options_are_passed_on(
    case, run, model, trained, elsewhere, monkeypatch
):
    (elsewhere / "runs").mkdir()
    (elsewhere / "runs" / "mine").symlink_to(trained)
    (elsewhere / "lines").write_text("yes\nten\n")
    monkeypatch.setenv("RELATIVE_ATTENTION_DATA", "corpora")
    words, call = case.split("\n", 1)
    name, *expected = call.split()
    owner, _, name = f"relative_attention.{name}".rpartition(".")
    owner, given = pkgutil.resolve_name(owner), {}
    function = getattr(owner, name)

    @functools.wraps(function)
    def called(*arguments, **named):
        bound = inspect.signature(function).bind(*arguments, **named)
        given.update(bound.arguments, **named)
        raise ra.InputError("as far as here")

    monkeypatch.setattr(owner, name, called)
    check_refused(run(*words.format(model=model).split()), "as far as here")
    for name, value in (pair.split("=") for pair in expected):
        assert shown(given[name]) == value, name


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ("train small_relative", "small_relative"),
        ("distill small_relative --teachers a", "small_relative_distilled"),
    ],
)
def test_scores_and_folder_are_printed(words, folder, run, monkeypatch):
    test = {"bleu": 12.5, "bleu_signature": "sig"}
    for name in ("train", "distill"):
        monkeypatch.setattr(
            f"relative_attention.runs.{name}",
            lambda **_: {"scores": {"test": test}},
        )
    printed = f"test: BLEU 12.5 (sig)\nmodel: runs/{folder}\n"
    assert run(*words.split()) == (0, printed, "")
