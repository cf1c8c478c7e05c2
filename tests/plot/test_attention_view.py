"""The attention view: its numbers, its page, and what it refuses."""

import base64
import hashlib
import html.parser
import json
import re
import types

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.positions import POSITION_ENCODINGS
from relative_attention.models.transformer import decoder_inputs
from relative_attention.plot.attention_terms import _shown_of
from tests.small_models import make_model

SENTENCE, TRANSLATION = "he paid ten euros.", "er hat zehn Euro gezahlt."
# The logits of these are no sum of terms of content and of positions.
NO_SUM = {
    "rotary": "mixed",
    "sinusoidal": "embeddings",
    "learned": "embeddings",
    None: "none",
}
MODELS = {
    "relative": {},
    "a table per head": {"share_relations_across_heads": False},
    "K = 0": {"max_relative_position": 0},
    "values alone": {"use_key_relations": False},
    **{name: {"position_encoding": name} for name in POSITION_ENCODINGS},
}
# Those of the other models are `large`.
BRIEF_MODELS = ("relative", "a table per head", "values alone", "t5")
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


def numbers_of(layer, terms):
    """What the page shows of a layer, from the terms, in float64."""
    terms = {
        name: np.array(array, "float64")[0]
        for name, array in terms._asdict().items()
        if array is not None
    }
    context = terms["value_context"] + terms.get("position_context", 0)
    along = context / np.square(context).sum(-1, keepdims=True)
    shares = np.einsum("nth,nsh->nts", along, terms["value"])
    numbers = {
        "scores": terms["scores"],
        "content_logits": terms["content_logits"],
        "position_logits": terms.get("position_logits"),
        "value_shares": terms["scores"] * shares,
    }
    encoding = layer.position_encoding
    tables = encoding.distance_tables(layer) or (None, None)
    keys, values = (None if t is None else np.array(t) for t in tables)
    if values is not None:
        num_queries, num_keys = shares.shape[1:]
        far = values.shape[-2] // 2
        distances = np.arange(num_keys) - np.arange(num_queries)[:, None]
        rows = np.broadcast_to(values, (len(along), *values.shape[-2:]))
        edges = rows[:, np.clip(distances, -far, far) + far]
        shares = (along[:, :, None] * edges).sum(-1)
        numbers["relation_shares"] = terms["scores"] * shares
    is_relative = type(encoding) is ra.positions.Relative
    if is_relative and keys is not None:
        rows = np.swapaxes(keys, -1, -2)
        numbers["distance_logits"] = terms["query"] @ rows
    return numbers


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=() if name in BRIEF_MODELS else pytest.mark.large
        )
        for name in MODELS
    ],
    ids=str,
)
def test_page_has_the_numbers_of_the_layers(name, translator_of):
    translator = translator_of(name)
    model, vocabulary = translator.model, translator.vocabulary
    view = ra.plot.attention_view(translator, SENTENCE, TRANSLATION)
    data = Page(view.to_html()).data
    source, target = (
        np.array([vocabulary.encode([text])[0] + [vocabulary.end_id]])
        for text in (SENTENCE, TRANSLATION)
    )
    terms = model.attention_terms(
        {"source_token_ids": source, "target_token_ids": decoder_inputs(target)}
    )
    layers = {
        "encoder": model.encoder_blocks[0].self_attention,
        "decoder": model.decoder_blocks[0].self_attention,
        "cross": model.decoder_blocks[0].cross_attention,
    }
    assert data["model"]["position_terms"] == NO_SUM.get(name, "apart")
    has_chart = name in ("relative", "relative+sinusoidal")
    for kind in data["kinds"]:
        (block,) = kind["blocks"]
        if name in POSITION_ENCODINGS:
            assert (data["model"]["max_relative_position"] == 3) == has_chart
            is_self = kind["name"] != "cross"
            is_apart = is_self and name not in NO_SUM
            assert any(block["position_shares"]) == is_apart
            for array in ("distance_logits", "key_table", "value_table"):
                assert (array in block) == (is_self and has_chart)
        (of_block,) = terms[kind["name"]]
        layer = layers[kind["name"]]
        shape = (len(kind["queries"]), len(kind["keys"]))
        seen = np.ones(shape, bool)
        if kind["name"] == "decoder":
            seen = np.tril(seen)
        for field, wanted in numbers_of(layer, of_block).items():
            if field not in block:
                assert wanted is None or not wanted.any(), field
                continue
            assert wanted.shape[1] == shape[0]
            if field in ("content_logits", "position_logits"):
                wanted = np.where(seen, wanted, 0)
            error = np.abs(unpacked(block[field]) - wanted).max()
            # Rounded to 16 bits of the largest.
            assert error <= np.abs(wanted).max() / 60_000, field
        shares = unpacked(block["value_shares"])
        if "relation_shares" in block:
            shares = shares + unpacked(block["relation_shares"])
        np.testing.assert_allclose(shares.sum(-1), 1, atol=1e-2)
        for side in ("key", "value"):
            if f"{side}_table" in block:
                table = getattr(layer, f"{side}_relation_embeddings")
                shown = unpacked(block[f"{side}_table"])
                np.testing.assert_allclose(shown, table, atol=1e-4)
        wanted = numbers_of(layer, of_block)
        for head, share in enumerate(block["position_shares"]):
            content, position = (
                sum(np.var(row[mask]) for row, mask in zip(term, seen))
                for term in (
                    wanted["content_logits"][head],
                    np.zeros(shape)
                    if wanted["position_logits"] is None
                    else wanted["position_logits"][head],
                )
            )
            assert abs(share - position / (content + position)) < 1e-3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_shares_of_a_short_output_sum_to_one_in_half_precision(dtype):
    rng = np.random.default_rng(3)
    layer = ra.RelativeSelfAttention(3, 5, 2, dtype=f"mixed_{dtype}")
    layer.build((None, None, 11))
    # So short that their squares are zero in float16.
    for weight in (layer.value_dense.kernel, layer.value_relation_embeddings):
        weight.assign(1e-4 * rng.normal(size=weight.shape))
    inputs = keras.ops.cast(rng.normal(size=(1, 7, 11)), dtype)
    shown = _shown_of(layer, layer.attention_terms(inputs)[1])
    shares = shown["value_shares"] + shown["relation_shares"]
    # The output itself has been rounded to 11 or 8 bits.
    np.testing.assert_allclose(keras.ops.sum(shares, -1), 1, atol=0.1)


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
