"""The same words in other forms, as files, pages and clipboards give them."""

import unicodedata

# Has accents to decompose.
CLEAN = "ein Häuschen by the old street"

FORMS = {
    "line_end": f"{CLEAN}\n",
    "windows_line_end": f"{CLEAN}\r\n",
    "double_blanks": CLEAN.replace(" ", "  "),
    "tab": CLEAN.replace(" ", "\t", 1),
    "line_end_inside": CLEAN.replace(" ", "\n", 1),
    "byte_order_mark": f"\ufeff{CLEAN}",
    "no_break_spaces": CLEAN.replace(" ", "\u00a0"),
    "wide_spaces": CLEAN.replace(" ", "\u2003").replace("the ", "the\u3000"),
    "mark_of_sentencepiece": CLEAN.replace(" ", "\u2581"),
    "decomposed": unicodedata.normalize("NFD", CLEAN),
    "blanks_around": f"  {CLEAN} \u202f",
    "zero_width_space": CLEAN.replace("str", "\u200bstr"),
    "soft_hyphen": CLEAN.replace("schen", "\u00adschen"),
    "control_character": CLEAN.replace("by", "b\x00y\x1b"),
    # Accents that follow something invisible are composed as well.
    "zero_width_inside_an_accent": CLEAN.replace("ä", "a\u200b\u0308"),
}
