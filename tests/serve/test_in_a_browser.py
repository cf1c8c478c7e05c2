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
    expect(page.locator("#best-list")).to_be_hidden()
    page.get_by_text("Best translations").click()
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
    example = page.get_by_role("button", name="Two dogs run along the beach.")
    example.click()
    expect(text_box(page)).to_have_value("Two dogs run along the beach.")
    expect(example).to_be_hidden()
    expect(page.locator("#target .word").first).to_be_visible()
    german = page.locator("#target").inner_text().strip()
    page.get_by_role("button", name="Swap").click()
    expect(page.locator("#model")).to_have_value(OPPOSITE)
    expect(page.locator("#target-title")).to_have_text("Translation to English")
    expect(text_box(page)).to_have_value(german)
    expect(page.locator("#target")).to_contain_text("beach")


def test_text_from_right_to_left_is_aligned_so(open_page, server):
    page = open_page(server.url)
    text_box(page).fill("\u0645\u0631\u062d\u0628\u0627\ndogs")
    expect(text_box(page)).to_have_css("direction", "rtl")
    # Each line of the translation has its own direction.
    for number in range(2):
        line = page.locator("#target p").nth(number)
        expect(line).to_have_attribute("dir", "auto")


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
    page.locator("#target .sentence").nth(1).locator(".word").first.click()
    page.get_by_text("Best translations").click()
    (expected,) = translator.search([second], translator.num_beams)
    expect(page.locator("#best-list li")).to_contain_text(
        [result.text for result in expected]
    )
    expect(page.locator("#alternatives-list button").first).to_be_visible()
    page.get_by_role("button", name="Show").click()
    frame = page.frame_locator("#view")
    expect(frame.locator("#queries")).to_contain_text("sleeping")
    # What was not searched cannot be continued.
    kept = lines.nth(2).locator(".sentence").first
    assert kept.locator(".word").count() == 0


def test_page_says_which_lines_were_cut(open_page, server):
    page = open_page(server.url)
    text_box(page).fill("A man rides a bike in the snow. " * 160)
    expect(page.locator("#target .sentence")).to_have_count(160)
    expect(page.locator("#status")).to_contain_text("160 sentences translated")
    text_box(page).fill("A dog.\n" + "a man rides a bike and " * 220)
    status = page.locator("#status")
    expect(status).to_contain_text("Not all is translated: a sentence was cut")
    expect(status).to_contain_text("512 tokens, on line 2.")


def test_too_many_lines_are_translated_as_far_as_possible(open_page, server):
    page = open_page(server.url, viewport={"width": 390, "height": 844})
    lines = page.locator("#target p")
    text_box(page).fill("dogs\n" * 96)
    expect(page.locator("#count")).to_have_text("")
    text_box(page).fill("dogs\n" * 130)
    expect(page.locator("#count")).to_have_text("130 of at most 128 lines")
    status = page.locator("#status")
    expect(status).to_contain_text("its last 2 lines are not translated.")
    expect(lines).to_have_count(131)
    expect(lines.nth(127)).not_to_be_empty()
    expect(lines.nth(128)).to_be_empty()
    # On a phone it has no scroll bar, and what is said of it stays in view.
    target = page.locator("#target")
    assert target.evaluate("box => box.scrollHeight == box.clientHeight")
    lines.nth(127).scroll_into_view_if_needed()
    expect(status).to_be_in_viewport(ratio=1)
    # Other ways to continue do not cover the word that they belong to.
    word = lines.nth(64).locator(".word").first
    word.scroll_into_view_if_needed()
    word.click()
    found = page.locator("#alternatives")
    expect(found).to_be_visible()
    expect(found).to_be_in_viewport()
    middle = "box => document.elementFromPoint("
    middle += "box.getBoundingClientRect().x + 2, "
    middle += "box.getBoundingClientRect().y + 2) === box"
    assert word.evaluate(middle)
    # The page itself does not scroll sideways.
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_unsure_sentences_are_marked(open_page, server):
    page = open_page(server.url)
    text_box(page).fill("Two dogs run.\n\nOf thy self be ye the epistemology.")
    marked = page.locator("#target .unsure")
    expect(marked).to_have_count(1)
    expect(marked).to_have_attribute("title", re.compile("unsure"))
    assert marked.evaluate("it => it.closest('p').dataset.row") == "2"
    expect(page.locator("#status")).to_contain_text(
        "The model is unsure of 1 sentence, on line 3."
    )


def test_other_ways_to_continue_by_keyboard(open_page, server, translator):
    # So low that they would be below the fold.
    page = open_page(server.url, viewport={"width": 800, "height": 420})
    expect(text_box(page)).to_be_focused()
    page.keyboard.type("A man rides a bike.")
    words = page.locator("#target button")
    (best,) = translator.translate(["A man rides a bike."])
    expect(page.locator("#target")).to_have_text(best)
    # It is read as text.
    group = page.get_by_role("group", name="Translation to German")
    expect(group).to_match_aria_snapshot(
        f'- group "Translation to German":\n  - paragraph: {best}'
    )
    switch = page.get_by_role("button", name="Choose words")
    while not switch.evaluate("it => it === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(words.first).to_be_focused()
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
    expect(words.first).to_be_focused()
    page.keyboard.press("Escape")
    expect(switch).to_be_focused()
    expect(words).to_have_count(0)
    expect(page.locator("#target")).to_have_text(text)


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
    expect(page.locator("#target .word").first).to_be_visible()
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
        expect(page.locator("#target .word").first).to_be_visible()
        page.close()


def test_attention_view_opens_in_a_frame(open_page, server):
    page = open_page(server.url, viewport={"width": 1280, "height": 800})
    text_box(page).fill("Two red dogs run.")
    page.get_by_role("button", name="Show").click()
    frame = page.frame_locator("#view")
    # What it is about is seen without scrolling.
    expect(frame.locator("#queries li").first).to_be_in_viewport()
    expect(frame.locator("#queries")).to_contain_text("dogs")
    # Nothing scrolls inside the frame.
    height = frame.locator("html").evaluate("it => it.scrollHeight")
    assert height > 800
    expect(page.locator("#view")).to_have_js_property("offsetHeight", height)
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Open in a tab").click()
    expect(opened.value.locator("#queries")).to_contain_text("dogs")
    page.get_by_role("button", name="Hide").click()
    expect(page.locator("#view")).to_be_hidden()
