"""The attention view: its numbers, its page, and what it refuses."""

import base64
import hashlib
import html.parser
import json
import re
import types

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.positions import POSITION_ENCODINGS
from relative_attention.models.transformer import decoder_inputs
from tests.small_models import make_model

SENTENCE, TRANSLATION = "he paid ten euros.", "er hat zehn Euro gezahlt."
MODELS = {
    "relative": {},
    "a table per head": {"share_relations_across_heads": False},
    "K = 0": {"max_relative_position": 0},
    "values alone": {"use_key_relations": False},
    **{name: {"position_encoding": name} for name in POSITION_ENCODINGS},
}
# Scripts, quotes, placeholders, right to left, combining characters.
TRICKY = (
    "</script><script>alert(1)</script><!-- <script> \"&quot;' &amp; "
    "`${alert(1)}` \\u003c \\ {{script}} {{policy}} \\1 \\g<0> "
    "שלום \u202eabc e\u0301 \U0001f469\u200d\U0001f680 \u2028"
)


class Page(html.parser.HTMLParser):
    """Reads a page as a browser would.

    Attributes:
        elements: list of pairs of a tag and a dict of its attributes.
        texts: dict of lists: the text of each `script` and `style`.
    """

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.texts = {"script": [], "style": []}
        self._inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in self.texts:
            self._inside = tag
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.texts[self._inside][-1] += data

    @property
    def data(self):
        return json.loads(self.texts["script"][0])


def unpacked(packed):
    """The numbers of a packed array."""
    integers = np.frombuffer(base64.b64decode(packed["data"]), "<i2")
    return integers.reshape(packed["shape"]) * packed["scale"]


@pytest.fixture(scope="module")
def translator_of(trained):
    """`translator_of(name)`: a random model of `MODELS`, kept."""
    vocabulary = ra.load_translator(trained).vocabulary
    kept = {}

    def make(name):
        if name not in kept:
            fields = {"vocabulary_size": len(vocabulary), "hidden_dim": 16}
            rng = np.random.default_rng(5)
            model = make_model(rng, **fields, **MODELS[name])
            kept[name] = ra.Translator(model, vocabulary, max_extra_length=2)
        return kept[name]

    return make


@pytest.fixture(scope="module")
def view(translator_of):
    return ra.plot.attention_view(
        translator_of("relative"), SENTENCE, TRANSLATION
    )


# === Numbers ===


def parts_of(translator):
    vocabulary = translator.vocabulary
    source, target = (
        np.array([vocabulary.encode([text])[0] + [vocabulary.end_id]])
        for text in (SENTENCE, TRANSLATION)
    )
    parts = translator.model.attention_parts(
        {
            "source_token_ids": source,
            "target_token_ids": decoder_inputs(target),
        }
    )
    return parts, source.shape[1], target.shape[1]


@pytest.mark.parametrize("name", MODELS, ids=str)
def test_page_has_the_numbers_of_the_layers(name, translator_of):
    translator = translator_of(name)
    view = ra.plot.attention_view(translator, SENTENCE, TRANSLATION)
    data = Page(view.to_html()).data
    parts, num_source, num_target = parts_of(translator)
    sizes = {"encoder": num_source, "decoder": num_target, "cross": num_source}
    for kind in data["kinds"]:
        (block,) = kind["blocks"]
        (expected,) = parts[kind["name"]]
        shape = (len(kind["queries"]), len(kind["keys"]))
        assert shape[1] == sizes[kind["name"]]
        seen = np.ones(shape, bool)
        if kind["name"] == "decoder":
            seen = np.tril(seen)
        for field, array in expected._asdict().items():
            if field not in block:
                assert (
                    array is None
                    or field.endswith("context")
                    or (not np.asarray(array).any())
                )
                continue
            wanted = np.array(array, "float64")[0]
            if field.endswith("_logits") and field != "distance_logits":
                wanted = np.where(seen, wanted, 0)
            error = np.abs(unpacked(block[field]) - wanted).max()
            # Rounded to 16 bits of the largest.
            assert error <= np.abs(wanted).max() / 60_000, field
        for side in ("key", "value"):
            if f"{side}_table" in block:
                blocks = getattr(translator.model, f"{kind['name']}_blocks")
                layer = blocks[0].self_attention
                table = getattr(layer, f"{side}_relation_embeddings")
                shown = unpacked(block[f"{side}_table"])
                np.testing.assert_allclose(shown, table, atol=1e-4)
        for head, share in enumerate(block["position_shares"]):
            content, position = (
                sum(np.var(row[mask]) for row, mask in zip(term, seen))
                for term in (
                    np.asarray(expected.content_logits)[0, head],
                    np.asarray(expected.position_logits)[0, head],
                )
            )
            assert abs(share - position / (content + position)) < 1e-3


TERMS = {
    "relative": "apart",
    "relative+sinusoidal": "apart",
    "relative_global": "apart",
    "alibi": "apart",
    "t5": "apart",
    "rotary": "mixed",
    "sinusoidal": "embeddings",
    "learned": "embeddings",
    None: "none",
}


@pytest.mark.parametrize("name", POSITION_ENCODINGS, ids=str)
def test_terms_are_separate_when_logits_are_a_sum(name, translator_of):
    translator = translator_of(name)
    data = ra.plot.attention_view(translator, SENTENCE, TRANSLATION).data
    assert data["model"]["position_terms"] == TERMS[name]
    has_chart = name in ("relative", "relative+sinusoidal")
    assert (data["model"]["max_relative_position"] == 3) == has_chart
    for kind in data["kinds"]:
        (block,) = kind["blocks"]
        is_self = kind["name"] != "cross"
        is_apart = is_self and TERMS[name] == "apart"
        assert any(block["position_shares"]) == is_apart
        for array in ("distance_logits", "key_table", "value_table"):
            assert (array in block) == (is_self and has_chart)


def test_decoder_queries_follow_their_keys(view):
    _, decoder, cross = view.data["kinds"]
    pieces = [token["text"] for token in decoder["queries"]]
    assert pieces[-1] == "end" and pieces == [
        token["text"] for token in cross["queries"]
    ]
    read = [token["text"] for token in decoder["keys"]]
    assert read == ["start", *pieces[:-1]]
    assert "".join(pieces[:-1]).replace("▁", " ").strip() == TRANSLATION


def test_minimal_vocabulary_is_shown(translator_of):
    translator = translator_of("relative")
    vocabulary = translator.vocabulary
    plain = types.SimpleNamespace(
        encode=vocabulary.encode,
        decode=vocabulary.decode,
        end_id=vocabulary.end_id,
    )
    view = ra.plot.attention_view(
        ra.Translator(translator.model, plain), SENTENCE, TRANSLATION
    )
    tokens = view.data["kinds"][0]["keys"][:-1]
    text = "".join(token["text"] for token in tokens)
    assert text.replace(" ", "") == SENTENCE.replace(" ", "")


def test_translation_is_made_when_none_is_given(translator_of):
    translator = translator_of("relative")
    view = ra.plot.attention_view(translator, SENTENCE)
    assert [view.translation] == translator.translate([SENTENCE])
    # That of an empty sentence is its end alone.
    view = ra.plot.attention_view(translator, "")
    for kind in Page(view.to_html()).data["kinds"]:
        (block,) = kind["blocks"]
        np.testing.assert_allclose(unpacked(block["scores"]), 1, atol=1e-4)


# === The page ===


def test_page_allows_only_its_own_script(view):
    page = Page(view.to_html())
    policies = [
        attributes["content"]
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    (style,), (_, script) = page.texts["style"], page.texts["script"]
    directives = dict(
        directive.split(" ", 1) for directive in policies[0].split("; ")
    )
    assert directives["default-src"] == "'none'"
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest())
        assert directives[name] == f"'sha256-{digest.decode()}'"
    assert policies == [ra.plot.content_security_policy()]
    for _, attributes in page.elements:
        assert not {"src", "style", "onclick"} & attributes.keys()
        assert re.match("#|data:|$", attributes.get("href", "")), attributes
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", style)
    assert "{{" not in view.to_html().replace(page.texts["script"][0], "")


def test_elements_are_named_for_screen_readers(view):
    page = Page(view.to_html())
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    named = [
        a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a
    ]
    assert len(named) >= 6 and set(named) <= set(ids)
    roles = {a["role"] for _, a in page.elements if "role" in a}
    assert roles == {"radiogroup", "group", "listbox", "img", "status"}
    assert ("html", {"lang": "en"}) in page.elements


def test_markup_in_a_sentence_is_escaped(translator_of):
    translator = translator_of("relative")
    view = ra.plot.attention_view(translator, TRICKY, TRICKY)
    page = Page(view.to_html())
    assert page.data["sentence"] == page.data["translation"] == TRICKY
    # As many elements as with any other sentence, and none has its text.
    plain = ra.plot.attention_view(translator, "a", "b")
    assert page.elements == Page(plain.to_html()).elements
    outside = view.to_html().replace(page.texts["script"][0], "")
    assert "alert(1)" not in outside
    # A notebook shows the page in a frame that is shut off.
    ((tag, frame),) = Page(view._repr_html_()).elements
    assert tag == "iframe" and frame["sandbox"] == "allow-scripts"
    assert frame["srcdoc"] == view.to_html()


# === What is refused ===


def test_unsupported_input_is_refused(translator_of):
    translator = translator_of("relative")
    for name, arguments in (("sentence", [None]), ("translation", ["a", 0])):
        with pytest.raises(TypeError, match=f"`{name}` must be a string"):
            ra.plot.attention_view(translator, *arguments)
    with pytest.raises(ra.InputError, match="at most about .* tokens"):
        ra.plot.attention_view(translator, "paid " * 1500, TRANSLATION)
    ensemble = ra.Translator(
        ra.Ensemble([translator.model] * 2), translator.vocabulary
    )
    with pytest.raises(ra.InputError, match="Received: Ensemble"):
        ra.plot.attention_view(ensemble, SENTENCE)


def test_model_with_nan_is_refused(trained):
    translator = ra.load_translator(trained)
    block = translator.model.encoder_blocks[0]
    kernel = block.self_attention.query_dense.kernel
    kernel.assign(np.full(kernel.shape, np.nan))
    with pytest.raises(ra.InputError, match="query"):
        ra.plot.attention_view(translator, SENTENCE, TRANSLATION)
