"""CTranslate2 as the engine of a translator: the same strings as Keras."""

import threading

import ctranslate2
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.export import ctranslate2_engine
from relative_attention.export.ctranslate2 import write_ctranslate2
from tests.export.conftest import log_probs
from tests.small_models import SENTENCES
from tests.small_models import make_model

LINES = [*SENTENCES, "", "   ", "a man " * 9]
ENGINE = {"engine": "ctranslate2", "threads": 1}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of converted models, of each test its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("RELATIVE_ATTENTION_CACHE", str(folder))
    return folder


@pytest.fixture
def folder(several, tmp_path):
    """A model that the test may change."""
    translator = ra.load_translator(several / "a")
    ra.save_translator(translator, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def exports(monkeypatch):
    """A list that grows with each conversion."""
    done = []

    def export(*arguments):
        done.append(arguments)
        write_ctranslate2(*arguments)

    monkeypatch.setattr(ctranslate2_engine, "write_ctranslate2", export)
    return done


def both(folder, **settings):
    """A model in Keras and in CTranslate2."""
    return (
        ra.load_translator(folder, **settings),
        ra.load_translator(folder, **ENGINE, **settings),
    )


def check_same(expected, found, atol=1e-3):
    assert [one.text for one in found] == [one.text for one in expected]
    assert [one.token_ids for one in found] == [
        one.token_ids for one in expected
    ]
    np.testing.assert_allclose(
        [one.score for one in found],
        [one.score for one in expected],
        atol=atol,
    )


def check_scores(ours, found, alpha):
    """Each ended result has the score that our model gives it, best first."""
    for results in found:
        scores = [one.score for one in results]
        assert scores == sorted(scores, reverse=True)
        for one in results:
            *ids, end = one.token_ids or [1]
            if ids and end == 1:
                source = one.source_token_ids[:-1]
                (expected,) = log_probs(ours, [source], [ids])
                penalty = ((5 + len(ids) + 1) / 6) ** alpha
                assert one.score == pytest.approx(
                    expected.sum() / penalty, abs=1e-3
                )


# === What is found ===


def test_greedy_translations_equal_keras(several):
    # Batches of several sentences, one of which is cut; each has its limit.
    ours, theirs = both(
        several / "a", num_beams=1, max_source_length=12, batch_tokens=40
    )
    expected, found = ours.search(LINES), theirs.search(LINES)
    check_same(expected, found)
    assert [one.was_cut for one in found] == [one.was_cut for one in expected]
    assert any(one.was_cut for one in found)
    assert found[len(SENTENCES)].text == "" == found[len(SENTENCES) + 1].text
    assert len({one.text for one in found}) > 3
    assert theirs.translate(LINES) == ours.translate(LINES)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_beams_are_scored_and_ranked(alpha, make_translator, tmp_path):
    talker = make_translator(output_bias=True)
    bias = np.array(talker.model.output_bias)
    bias[1] = 5  # Most translations end before they are too long.
    talker.model.output_bias.assign(bias)
    ra.save_translator(talker, tmp_path / "model")
    ours, theirs = both(tmp_path / "model", num_beams=3, length_penalty=alpha)
    found = theirs.search(LINES, num_results=3)
    check_scores(ours, found, alpha)
    assert any(
        1 in one.token_ids and len(one.token_ids) > 2
        for results in found
        for one in results
    )
    for results in found:
        for one in results:
            longest = len(one.source_token_ids) + theirs.max_extra_length
            assert len(one.token_ids) <= longest


def test_prefixes_and_length_limits_hold(several):
    ours, theirs = both(several / "a", num_beams=1, max_length=6)
    prefixes = ["the", "", "a man", "two", "", "dogs run by", "the", "", "a"]
    arguments = (LINES, None, prefixes)
    check_same(ours.search(*arguments), theirs.search(*arguments))
    for translator in (ours, theirs):
        translator.min_length = 4
    check_same(ours.search(*arguments), theirs.search(*arguments))
    found = theirs.search(LINES, 2, num_beams=2)
    check_scores(ours, found, ours.length_penalty)
    for translator in (ours, theirs):
        translator.min_length = 0
    found = theirs.search(LINES, 2, prefixes, num_beams=2)
    check_scores(ours, found, ours.length_penalty)
    for results, prefix in zip(found[:4], prefixes):
        assert all(one.text.startswith(prefix) for one in results)
    # No translation at all.
    theirs.max_length, theirs.min_length = 0, 4
    assert set(theirs.translate(LINES)) == {""}


@pytest.mark.large
def test_no_ngram_is_repeated(several):
    ours, theirs = both(several / "a", num_beams=1)
    free = theirs.translate(LINES)
    for translator in (ours, theirs):
        translator.no_repeat_ngram = 2
    found = theirs.search(LINES)
    check_same(ours.search(LINES), found)
    assert [one.text for one in found] != free
    found = theirs.search(LINES, 2, num_beams=2)
    check_scores(ours, found, ours.length_penalty)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    "start, end",
    [
        (True, True),
        *(
            pytest.param(start, end, marks=pytest.mark.large)
            for start, end in ((False, False), (False, True), (True, False))
        ),
    ],
)
def test_every_vocabulary_translates(start, end, rng, tmp_path):
    tokens = ["<blank>", "</s>", "<s>", "a", "man", "rides", "<unk>"]
    source = ra.TokenVocabulary(tokens, start=start, end=end)
    target = ra.SubwordVocabulary(
        "\n".join(["<pad>_", "<EOS>_", *"\\_u;0123456789abr"]).encode()
    )
    model = make_model(
        rng,
        vocabulary_size=len(target),
        source_vocabulary_size=len(source),
        share_embeddings="none",
    )
    translator = ra.Translator(
        model, target, source_vocabulary=source, num_beams=1, max_length=9
    )
    ra.save_translator(translator, tmp_path / "model")
    lines = ["a man runs", "rides", "man man a"]
    theirs = ra.load_translator(tmp_path / "model", max_length=9, **ENGINE)
    check_same(translator.search(lines), theirs.search(lines))


@pytest.mark.large
def test_position_table_grows_with_the_settings(make_translator, tmp_path):
    translator = make_translator(position_encoding="sinusoidal")
    ra.save_translator(translator, tmp_path / "model")
    settings = {"max_source_length": 1100, "max_length": 3}
    lines = ["dogs " * 500]
    for extra in ({}, settings):
        ours, theirs = both(tmp_path / "model", **extra)
        check_same(ours.search(lines), theirs.search(lines))


def test_int8_is_close(several):
    ours, theirs = both(several / "a", num_beams=1)
    theirs = ra.load_translator(
        several / "a", dtype="int8", num_beams=1, **ENGINE
    )
    expected, found = ours.search(SENTENCES), theirs.search(SENTENCES)
    same = [
        abs(one.score - other.score)
        for one, other in zip(expected, found)
        if one.text == other.text
    ]
    assert same and 0 < max(same) < 1


def test_bfloat16_is_refused_when_unsupported(several):
    arguments = {"directory": several / "a", "dtype": "bfloat16", **ENGINE}
    if "bfloat16" in ctranslate2.get_supported_compute_types("cpu"):
        assert ra.load_translator(**arguments).translate(SENTENCES)
    else:
        with pytest.raises(ra.InputError, match="Choose float32 or int8"):
            ra.load_translator(**arguments)


# === The folder of converted models ===


def test_model_is_converted_again_when_changed(folder, several, exports, cache):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    first = ra.load_translator(folder, **ENGINE).translate(LINES)
    assert ra.load_translator(folder, **ENGINE).translate(LINES) == first
    assert len(exports) == 1
    # Nothing is written beside the model.
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (folder / "model.safetensors").write_bytes(
        (several / "stranger" / "model.safetensors").read_bytes()
    )
    ours, theirs = both(folder, num_beams=1)
    assert len(exports) == 2
    assert theirs.translate(LINES) == ours.translate(LINES) != first
    # One copy is kept.
    assert len(list(cache.rglob("model.bin"))) == 1


@pytest.mark.parametrize(
    "name, change",
    [
        ("model.bin", lambda content: content[:20]),
        ("model.bin", lambda content: content[:-4] + b"\1\2\3\4"),
        ("shared_vocabulary.json", lambda content: b"[]"),
        ("config.json", lambda content: content[:20]),
        ("origin.json", lambda content: content[:20]),
        # Another CTranslate2 made it.
        (
            "origin.json",
            lambda content: content.replace(
                ctranslate2.__version__.encode(), b"0.0"
            ),
        ),
    ],
    ids=["model", "number", "vocabulary", "config", "origin", "version"],
)
def test_unusable_copy_is_converted_again(name, change, folder, exports, cache):
    expected = ra.load_translator(folder, **ENGINE).translate(LINES)
    (file,) = cache.rglob(name)
    content = file.read_bytes()
    file.write_bytes(change(content))
    assert file.read_bytes() != content
    assert ra.load_translator(folder, **ENGINE).translate(LINES) == expected
    assert len(exports) == 2


def test_interrupted_conversion_leaves_nothing(folder, cache, monkeypatch):
    def interrupted(*arguments):
        write_ctranslate2(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ctranslate2_engine, "write_ctranslate2", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ra.load_translator(folder, **ENGINE)
    (place,) = cache.glob("ctranslate2/*")
    assert not any(place.iterdir())
    # What a killed process left goes with the next conversion.
    (place / ".float32-01234567" / "model").mkdir(parents=True)
    ra.load_translator(folder, **ENGINE)
    assert [path.name for path in place.iterdir()] == ["float32"]


def test_simultaneous_loads_convert_once(folder, exports):
    # Locks are of open files: those of threads are as those of processes.
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(ra.load_translator(folder, **ENGINE))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(exports) == 1
    assert found[0].translate(LINES) == found[1].translate(LINES)


def test_unwritable_cache_is_refused(folder, cache):
    cache.write_text("no folder")
    with pytest.raises(ra.InputError, match="variable RELATIVE_ATTENTION_C"):
        ra.load_translator(folder, **ENGINE)


# === What is refused ===


@pytest.mark.parametrize(
    "use",
    [
        lambda t, path: t.sample(["dogs"]),
        lambda t, path: t.search(["dogs"], return_attention=True),
        lambda t, path: ra.score_translations(t, ["dogs"], ["dogs"]),
        lambda t, path: ra.plot.attention_view(t, "dogs"),
        lambda t, path: ra.plot.relation_tables(t.model),
        lambda t, path: ra.export_saved_model(t, path),
        lambda t, path: ra.save_translator(t, path),
    ],
    ids=["sample", "attention", "score", "view", "tables", "export", "save"],
)
def test_unsupported_use_is_refused(use, several, tmp_path):
    translator = ra.load_translator(several / "a", **ENGINE)
    with pytest.raises(ra.InputError, match="without `engine`") as error:
        use(translator, tmp_path / "output")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ("ab", ENGINE, "with one model. Received: 2.*leave out `engine`"),
        ("a", {"engine": "ctranslate"}, "Did you mean 'ctranslate2'"),
        ("a", {"threads": 2}, "`threads` is for `engine`"),
        ("a", {"dtype": "int8"}, '`dtype="int8"` is for `engine`'),
        ("a", {**ENGINE, "dtype": "float16"}, "one of float32, bfloat16, int8"),
        ("a", {**ENGINE, "threads": 0}, "`threads` must be at least 1"),
    ],
)
def test_wrong_arguments_are_refused(
    names, settings, message, several, exports
):
    with pytest.raises(ValueError, match=message):
        ra.load_translator([several / name for name in names], **settings)
    assert not exports


def test_unsupported_model_is_refused(make_translator, tmp_path, exports):
    translator = make_translator(share_relations_across_heads=False)
    ra.save_translator(translator, tmp_path / "model")
    with pytest.raises(ra.InputError, match="Leave out `engine`"):
        ra.load_translator(tmp_path / "model", **ENGINE)
    assert not exports
