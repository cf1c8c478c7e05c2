"""The saved page of an attention view in a real browser."""

import re

import pytest

import relative_attention as ra
from relative_attention.layers.positions import POSITION_ENCODINGS

pytestmark = pytest.mark.large

MODEL = "multi30k_en_de_tiny_relative"
SENTENCE = "Two dogs run through the snow."
SIZES = {"wide": (1320, 900), "tablet": (820, 1100), "phone": (375, 812)}
TRICKY = '</script><img src=x onerror=alert(1)> "quoted" שלום e\u0301 &lt;'


@pytest.fixture(scope="module")
def translator():
    return ra.load_translator(MODEL)


@pytest.fixture(scope="module")
def saved(translator, tmp_path_factory):
    """Where a page is that was saved."""
    path = tmp_path_factory.mktemp("view") / "view.html"
    ra.plot.attention_view(translator, SENTENCE).save(path)
    return path.as_uri()


def chosen(page):
    """The token whose attention is shown."""
    return page.locator("#queries [aria-selected=true]").inner_text()


def weights(page):
    """What stands in the column of weights, as numbers."""
    cells = page.locator("#keys tr:not([hidden]) td:nth-child(2)")
    return [float(text.strip("%\n ")) for text in cells.all_inner_texts()]


def focused(page):
    return page.evaluate(
        "(document.activeElement.closest('[id]') ?? {}).id"
    ), page.evaluate("document.activeElement.innerText")


# === Pointer ===


def test_hovered_token_is_shown(saved, open_page):
    page = open_page(saved)
    tokens = page.locator("#queries li")
    before = weights(page)
    tokens.nth(4).hover()
    assert chosen(page) == tokens.nth(4).inner_text()
    assert weights(page) != before
    # Each weight is rounded on its own.
    assert abs(sum(weights(page)) - 100) < 0.5 * len(weights(page))
    assert page.locator("#lines path[data-key]").count() > 1
    assert (
        page.locator("#edge-title")
        .inner_text()
        .startswith(f"\u201c\u2068{chosen(page).strip('▁')}")
    )
    # A click holds it; another on it lets it go.
    tokens.nth(4).click()
    tokens.nth(1).hover()
    assert chosen(page) == tokens.nth(4).inner_text()
    tokens.nth(4).click()
    tokens.nth(1).hover()
    assert chosen(page) == tokens.nth(1).inner_text()


def test_terms_sum_to_the_logit(saved, open_page):
    page = open_page(saved)
    for index in range(3):
        page.locator("#keys tr").nth(index).hover()
        text = page.locator("#edge").inner_text().replace("\u2212", "-")
        logit, content, position = map(
            float, re.findall(r"-?\d+\.\d\d", text)[:3]
        )
        assert abs(logit - content - position) < 0.016
        assert f"{index - 2:+d}".replace("+0", "0") in text


def test_clicks_choose_block_head_and_kind(saved, open_page):
    page = open_page(saved)
    shown = {tuple(weights(page))}
    for name in ("block 2, head 1", "block 2, head 3", "block 4, head 2"):
        button = page.get_by_role("button", name=re.compile(name))
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator("#heads [aria-pressed=true]").count() == 1
        shown.add(tuple(weights(page)))
    page.get_by_role("radio", name="Decoder").click()
    assert "Decoder self-attention" in page.locator("h2").all_inner_texts()
    # A token sees itself, as what was written last, and those before it.
    assert page.locator("#queries li").count() > len(weights(page)) == 3
    assert page.locator("#distance").is_visible()
    shown.add(tuple(weights(page)))
    page.get_by_role("radio", name="Cross").click()
    assert not page.locator("#distance").is_visible()
    assert page.locator("#edge").inner_text().count("position") == 0
    shown.add(tuple(weights(page)))
    assert len(shown) == 6


# === Keyboard ===


def test_tab_reaches_every_control(saved, open_page):
    page = open_page(saved)
    page.keyboard.press("Tab")
    assert focused(page)[1] == "Skip to the tokens"
    for name in ("theme", "kinds", "compare", "heads", "queries", "keys"):
        page.keyboard.press("Tab")
        assert focused(page)[0] == name
        outline = page.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle"
        )
        assert outline == "solid"


def test_arrow_keys_choose_tokens_heads_and_kinds(saved, open_page):
    page = open_page(saved)
    names = page.locator("#queries li").all_inner_texts()
    page.locator("#queries [tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    assert chosen(page) == names[3] == focused(page)[1]
    page.keyboard.press("End")
    assert chosen(page) == names[-1]
    page.keyboard.press("Home")
    assert chosen(page) == names[0]
    said = page.locator("#live", has_text="block 1, head 1: ")
    said.wait_for(state="attached")
    page.keyboard.press("ArrowRight")
    assert focused(page)[0] == "keys"
    before = page.locator("#edge").inner_text()
    page.keyboard.press("ArrowDown")
    assert page.locator("#edge").inner_text() != before
    page.keyboard.press("ArrowLeft")
    assert focused(page) == ("queries", names[0])
    page.keyboard.press("Escape")
    assert page.locator("#queries .held").count() == 0
    page.locator("#heads [tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    pressed = page.locator("#heads [aria-pressed=true]")
    assert "block 2, head 2" in pressed.get_attribute("aria-label")
    page.locator("#kinds [tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    radio = page.get_by_role("radio", checked=True)
    assert radio.inner_text() == "Decoder" == focused(page)[1]


# === What it looks like, and whose text it shows ===


@pytest.mark.parametrize(
    ("size", "scheme"),
    [("wide", "light"), ("tablet", "light"), ("phone", "dark")],
)
def test_page_fits_in_light_and_dark(size, scheme, saved, open_page):
    width, height = SIZES[size]
    page = open_page(
        saved, viewport={"width": width, "height": height}, color_scheme=scheme
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    picture = page.screenshot(full_page=True)
    assert len(picture) > 50_000

    def brightness():
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", color)[:3])) / 765

    assert (brightness() > 0.5) == (scheme == "light")
    page.locator("#theme").click()
    assert (brightness() > 0.5) == (scheme == "dark")


def test_markup_is_shown_as_text(translator, open_page, tmp_path):
    path = tmp_path / "tricky.html"
    ra.plot.attention_view(translator, TRICKY, TRICKY).save(path)
    page = open_page(path.as_uri())
    for name in ("sentence", "translation"):
        assert page.locator(f"#{name}").text_content() == TRICKY
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


@pytest.mark.parametrize(
    "overrides",
    [
        *({"position_encoding": name} for name in POSITION_ENCODINGS),
        {"max_relative_position": 0, "use_value_relations": False},
        {"use_key_relations": False},
        {"share_relations_across_heads": False, "num_heads": 8},
    ],
    ids=str,
)
def test_other_models_are_shown(overrides, translator, open_page, tmp_path):
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        **{
            "vocabulary_size": len(translator.vocabulary),
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            **overrides,
        },
    )
    path = tmp_path / "other.html"
    ra.plot.attention_view(
        ra.Translator(model, translator.vocabulary), SENTENCE, "Zwei Hunde."
    ).save(path)
    page = open_page(path.as_uri())
    for name in ("Decoder", "Cross", "Encoder"):
        page.get_by_role("radio", name=name).click()
        page.locator("#queries li").nth(1).hover()
        assert len(weights(page)) >= 2
    encoding = model.config.position_encoding or ""
    is_relative = "relative" in encoding.split("+")
    for part in ("#distance", "#table-term"):
        assert page.locator(part).is_visible() == is_relative
    assert "NaN" not in page.locator("body").inner_text()


def test_notebook_frame_works(translator, open_page, tmp_path):
    path = tmp_path / "notebook.html"
    view = ra.plot.attention_view(translator, SENTENCE)
    path.write_text(f"<!doctype html>{view._repr_html_()}", "utf-8")
    frame = open_page(path.as_uri()).frame_locator("iframe")
    frame.locator("#queries li").nth(3).hover()
    shown = frame.locator("#queries [aria-selected=true]").inner_text()
    assert shown == frame.locator("#queries li").nth(3).inner_text()
