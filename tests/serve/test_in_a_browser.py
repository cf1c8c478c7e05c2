"""The page, used as people use it, in Chromium."""

import re

import pytest

import relative_attention as ra
from tests.serve.client import server_process

pytestmark = pytest.mark.large
MODEL = "multi30k_en_de_tiny_relative"
OPPOSITE = "multi30k_de_en_tiny_relative"


@pytest.fixture(scope="module")
def server():
    with server_process(MODEL, OPPOSITE, f"other={OPPOSITE}") as started:
        yield started


@pytest.fixture(scope="module")
def translator():
    return ra.load_translator(MODEL)


def expect(locator):
    from playwright.sync_api import expect

    # A busy machine may take long for a translation.
    expect.set_options(timeout=60_000)
    return expect(locator)


def text_box(page):
    return page.get_by_role("textbox", name="Text")


def test_typed_text_is_translated(open_page, server, translator):
    page = open_page(server.url)
    expect(page.locator("#target-title")).to_have_text("Translation to German")
    # For the voice that reads it.
    expect(text_box(page)).to_have_attribute("lang", "en")
    expect(page.locator("#target")).to_have_attribute("lang", "de")
    text_box(page).press_sequentially("Two red dogs run.", delay=20)
    (expected,) = translator.search(["Two red dogs run."], translator.num_beams)
    target = page.locator("#target")
    expect(target).to_have_text(expected[0].text)
    expect(page.locator("#best-list li")).to_contain_text(
        [result.text for result in expected]
    )
    expect(page.locator("#best")).to_contain_text("log-probability")
    text_box(page).press_sequentially("\n\ndogs")
    expect(page.locator("#target p")).to_have_count(3)
    page.get_by_role("button", name="Clear").click()
    expect(target).to_have_text("")
    expect(page.locator("#best")).to_be_hidden()


def test_an_example_is_translated_there_and_back(open_page, server):
    page = open_page(server.url)
    expect(page.locator("#model option").first).to_have_text(
        f"English \u2192 German ({MODEL})"
    )
    title = page.get_by_text("License of the weights: research")
    expect(title).to_be_visible()
    title.click()
    expect(page.get_by_text("captions of Flickr30k")).to_be_visible()
    page.get_by_role("button", name="Two dogs run along the beach.").click()
    expect(text_box(page)).to_have_value("Two dogs run along the beach.")
    expect(page.locator("#target button").first).to_be_visible()
    german = page.locator("#target").inner_text().strip()
    page.get_by_role("button", name="Swap").click()
    expect(page.locator("#model")).to_have_value(OPPOSITE)
    expect(page.locator("#target-title")).to_have_text("Translation to English")
    expect(text_box(page)).to_have_value(german)
    expect(page.locator("#target")).to_contain_text("beach")


def test_text_from_right_to_left_is_aligned_so(open_page, server):
    page = open_page(server.url)
    text_box(page).fill("\u0645\u0631\u062d\u0628\u0627\ndogs")
    for shown in (text_box(page), page.locator("#target p").first):
        expect(shown).to_have_css("direction", "rtl")
    expect(page.locator("#target p").last).to_have_css("direction", "ltr")


def test_paragraphs_keep_their_lines(open_page, server, translator):
    page = open_page(server.url)
    expect(page.locator("#unit")).to_contain_text("Each sentence is")
    first, second = "Two dogs run.", "A man is sleeping!"
    text_box(page).fill(f"  {first}  {second}\n\n 5 + 5 = 10! {second}")
    lines = page.locator("#target p")
    expect(lines).to_have_count(3)
    texts = translator.translate([first, second])
    shown = page.evaluate(
        "[...document.querySelectorAll('#target p')].map(p => p.textContent)"
    )
    assert shown == [f"  {' '.join(texts)}", "", f" 5 + 5 = 10! {texts[1]}"]
    # The second sentence has an n-best list and attention of its own.
    page.locator("#target .sentence").nth(1).locator("button").first.click()
    (expected,) = translator.search([second], translator.num_beams)
    expect(page.locator("#best-list li")).to_contain_text(
        [result.text for result in expected]
    )
    expect(page.locator("#alternatives-list button").first).to_be_visible()
    page.get_by_role("button", name="Show").click()
    frame = page.frame_locator("#view")
    expect(frame.locator("#queries")).to_contain_text("sleeping")
    # What was not searched has no buttons.
    kept = lines.nth(2).locator(".sentence").first
    assert kept.locator("button").count() == 0


def test_page_says_which_lines_were_cut(open_page, server):
    page = open_page(server.url)
    text_box(page).fill("A man rides a bike in the snow. " * 160)
    expect(page.locator("#target .sentence")).to_have_count(160)
    expect(page.locator("#status")).to_have_text(re.compile("Translated in"))
    text_box(page).fill("A dog.\n" + "a man rides a bike and " * 220)
    status = page.locator("#status")
    expect(status).to_contain_text("Not all is translated: a sentence was cut")
    expect(status).to_contain_text("512 tokens, on line 2.")


def test_other_ways_to_continue_by_keyboard(open_page, server, translator):
    # So low that they would be below the fold.
    page = open_page(server.url, viewport={"width": 800, "height": 420})
    expect(text_box(page)).to_be_focused()
    page.keyboard.type("A man rides a bike.")
    words = page.locator("#target button")
    (best,) = translator.translate(["A man rides a bike."])
    expect(page.locator("#target")).to_have_text(best)
    while not page.evaluate("document.activeElement.matches('#target *')"):
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(words.nth(1)).to_be_focused()
    page.keyboard.press("Home")
    expect(words.first).to_be_focused()
    page.keyboard.press("Enter")
    found = page.locator("#alternatives-list button")
    expect(found.nth(1)).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.locator("#alternatives")).to_be_hidden()
    expect(words.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(found.nth(1)).to_be_visible()
    text = " ".join(found.nth(1).inner_text().split())
    found.nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#target")).to_have_text(text)
    expect(page.locator("#alternatives")).to_be_hidden()


def test_bleu_against_a_reference(open_page, server, translator):
    page = open_page(server.url)
    reference = page.get_by_role("textbox", name="Compare")
    text_box(page).fill("Two red dogs run.")
    reference.fill(translator.translate(["Two red dogs run."])[0])
    expect(page.locator("#bleu")).to_have_text("BLEU 100.0")
    signature = page.locator("#signature")
    text_box(page).fill("dogs\ndogs")
    reference.fill("a")
    expect(signature).to_contain_text("Yours has 1 line, the translation 2.")


def test_text_is_shown_as_text(open_page, server):
    page = open_page(server.url)
    markup = "<img src=x onerror=alert(1)><b>dogs</b>"
    text_box(page).fill(markup)
    expect(page.locator("#target button").first).to_be_visible()
    page.get_by_role("textbox", name="Compare").fill(markup)
    expect(page.locator("#bleu")).to_contain_text("BLEU")
    assert page.locator("main img, main b").count() == 0


def test_page_asks_for_the_token(browser, model_folder, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-of-words")
    with server_process(model_folder, "--token-file", token) as server:
        page = browser.new_page()
        page.goto(server.url)
        field = page.get_by_label("This server asks for a token")
        expect(field).to_be_focused()
        field.fill("wrong")
        field.press("Enter")
        expect(page.locator("#status")).to_contain_text("asks for its token")
        field.fill("a-token-of-words")
        field.press("Enter")
        expect(field).to_be_hidden()
        text_box(page).fill("dogs")
        expect(page.locator("#target button").first).to_be_visible()
        page.close()


def test_attention_view_opens_in_a_frame(open_page, server):
    page = open_page(server.url, viewport={"width": 1280, "height": 800})
    text_box(page).fill("Two red dogs run.")
    page.get_by_role("button", name="Show").click()
    frame = page.frame_locator("#view")
    # What it is about is seen without scrolling.
    expect(frame.locator("#queries li").first).to_be_in_viewport()
    expect(frame.locator("#queries")).to_contain_text("dogs")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Open in a tab").click()
    expect(opened.value.locator("#queries")).to_contain_text("dogs")
    page.get_by_role("button", name="Hide").click()
    expect(page.locator("#view")).to_be_hidden()
