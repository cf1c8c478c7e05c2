"""Expressions that find what must not be translated."""

import re
import string

from relative_attention.text.form import UNSPACED_LETTERS

# Where words have no blanks around them, a thing stands among letters: as 2012
# in "彼は2012年に".
_IN_WORD = rf"[^\W_{UNSPACED_LETTERS}]"
_START = rf"(?<!{_IN_WORD})"
_END = rf"(?!{_IN_WORD})"
# Letters of Japanese and Chinese multiply the number before them, by 100 to
# 10 ** 12. What they make is translated: "2万5000" is 25,000.
_FACTOR = "[百千万萬亿億兆]"
# Part of a number, unless it stands between two things: "10-20".
_MINUS = rf"{_START}(?<!-)-"
_NUMBER_START = rf"{_START}(?<!{_FACTOR})"
_NUMBER_END = rf"{_END}(?![\d.,]{{0,20}}[ 多余]?{_FACTOR})"
# Things that are counted are no codes: "CD3枚".
_CODE_END = rf"{_END}(?![枚台回人個本匹冊杯])"
# Wide letters and digits, and what they are elsewhere; and what is wide between
# them. After other digits a wide comma divides a sentence.
NARROW = {
    0xFEE0 + ord(narrow): narrow
    for narrow in f"{string.digits}{string.ascii_letters}$+,-./:"
} | {0xFFE1: "\u00a3", 0xFFE5: "\u00a5"}
NARROW_LETTERS = {
    wide: narrow for wide, narrow in NARROW.items() if narrow.isalpha()
}
_WIDE = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"
WIDE_RUN = re.compile(
    rf"[\uff04\uffe1\uffe5]?[{_WIDE}]+(?:[\uff0b-\uff0f\uff1a][{_WIDE}]+)*"
    r"[\uff04\uffe1\uffe5]?"
)
# What ends an address without a blank: hiragana, and wide marks.
_ADDRESS_END = "\u3000-\u309f\uff00-\uff0f\uff1a-\uff20"
# Letters and digits of words in the Latin script, and what addresses have.
_LATIN = "0-9A-Za-z\u00c0-\u024f"
_IN_ADDRESS = rf"[{_LATIN}@%+~&=.:/?#_-]"
# Hosts and files without anything else are known by their ends.
_ENDS = (
    "com|org|net|edu|gov|info|io|app|dev|eu|at|be|ch|cn|co|cz|de|dk|es|fi|fr|"
    "ie|in|it|jp|kr|nl|no|pl|pt|ru|se|tr|tv|ua|uk|us|"
    "bat|bmp|c|cfg|conf|cpp|csv|css|doc|docx|epub|exe|gif|gz|h|htm|html|ini|"
    "ipynb|jar|java|jpeg|jpg|js|json|log|md|mkv|mov|mp3|mp4|odt|pdf|php|png|"
    "ppt|pptx|py|rar|rb|rs|rtf|sh|sql|svg|tar|tex|tif|toml|ts|tsv|txt|wav|webp|"
    "xls|xlsx|xml|yaml|yml|zip"
)
# A value in quotation marks may have ">". Numbers stand for tags in texts of
# programs: "<0>here</0>".
TAG = re.compile(
    r"<!--.{0,2000}?-->|</?[A-Za-z][\w:.-]*"
    r"(?:\s(?>[^<>=]+|=\"[^\"<]*\"|='[^'<]*'|=)*)?/?>|</?\d{1,3}/?>"
)
_ENTITY = re.compile(r"&(?:[A-Za-z]\w{1,31}|#\d{1,7}|#x[\dA-Fa-f]{1,6});")
# Of lists: "[x]", "(a)", and "a)" before an item; ":-)".
_ITEM = re.compile(
    rf"\[[ xX]\]|\({_IN_WORD}\)|(?m:^){_IN_WORD}\)"
    r"|(?<!\S)[:;=]['\u2019]?-?[()DPpOo|*/](?![^\s.,!?])"
)
# Of Markdown: code, and the address of a link. In "`so' and `so'" no code ends
# before the second word.
CODE_SPAN = re.compile(rf"``[^`]+``|(?<!{_IN_WORD})`[^`]+`(?!{_IN_WORD}{{2}})")
# The line that opens or ends a block of code.
_FENCE = re.compile(r"(?m:^(?:`{3,}|~{3,})[^\n`]*$)")
# Marks between letters that stand for an apostrophe, as in "don`t", and
# entities, which may stand for a letter.
IN_LETTERS = re.compile(
    rf"({CODE_SPAN.pattern}|{TAG.pattern})"
    rf"|(?<=[^\W\d_{UNSPACED_LETTERS}])(?:\\?[`\u00b4]|\\['\u2019])"
    rf"(?=[^\W\d_{UNSPACED_LETTERS}])|{_ENTITY.pattern}"
)
_LINK_END = re.compile(r"\]\([^\s()]+\)")
_PHONE = re.compile(rf"{_START}\+\d[\d ()/.-]{{4,}}\d{_END}")
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IP = re.compile(
    rf"(?<![\w.])(?:{_BYTE}\.){{3}}{_BYTE}(?::\d+)?(?!\.?\w)"
    r"|(?<![\w:])(?:[\dA-Fa-f]{1,4}::?){3,7}[\dA-Fa-f]{1,4}(?![\w:])"
)
ADDRESS = re.compile(
    # E-mail; any scheme; a host or a file, but not "B.C."; paths; names after
    # "@" and "#".
    rf"(?<![{_LATIN}.%+_-])(?:[{_LATIN}.%+_-]+@[{_LATIN}-]+(?:\.[{_LATIN}-]+)+"
    r"|(?:[A-Za-z][A-Za-z\d+.-]*://|(?i:www)\.|mailto:)"
    rf"[^\s<>\"|{_ADDRESS_END}]*[{_LATIN}/_-]"
    rf"|(?![^\W\d_](?:\.[^\W\d_])+{_END})(?:[{_LATIN}_.-]+/){{0,16}}"
    rf"[{_LATIN}_-]+(?:\.[{_LATIN}_-]+)*\.(?:{_ENDS}|{_ENDS.upper()})"
    rf"(?![{_LATIN}_])"
    rf"(?:[:/?#]{_IN_ADDRESS}*(?<=[{_LATIN}/_]))?"
    rf"|localhost[:/]{_IN_ADDRESS}*(?<=[{_LATIN}/_])"
    rf"|[A-Za-z]:\\[^\s<>\"|?*{_ADDRESS_END}]*[\w\\]"
    rf"|@(?=[{_LATIN}_]*[A-Za-z])[{_LATIN}_]+(?:[.-][{_LATIN}_]+)*"
    rf"|#(?=\w*[^\W\d_])\w+(?:[.-][{_LATIN}_]+)*)"
    rf"|(?<![\w/.])(?:~|\.{{1,2}})?/[{_LATIN}_.-]+(?:/[{_LATIN}_.-]+)+"
)
NAMED_FIELD = re.compile(
    r"\{\{[^{}]*\}\}|\$\{[^{}]*\}|%?\{[^\W\d][\w.:!-]*\}"
    r"|\{\w+, ?(?:number|date|time)(?:,[^{}]*)?\}|%\([^()\s]+\)[#0 +-]*\d*"
    rf"(?:\.\d+)?[A-Za-z]|%[{_LATIN}_]{{2,}}%(?![%A-Za-z])"
    rf"|\$[A-Za-z_][{_LATIN}_]*"
    r"|%\d+\$[A-Za-z@]|\{\d[\w.:]*\}|__\w+?__|\\[nrt](?![a-z])"
    r"|(?<![\w:]):[a-z+-][a-z\d_+-]*:(?!\w)"
)
# Around the cases of a message of ICU: "{n, plural, one {day} other {days}}".
FIRST_CASE = re.compile(
    r"\{\w+, ?(?:plural|select|selectordinal),(?: ?offset:\d+)? ?=?\w+ ?\{"
)
CASE = re.compile(rf"{FIRST_CASE.pattern}|\}} ?=?\w+ ?\{{")
FIELD = re.compile(
    r"\{\}|%%|%[+#0-]*(?:\d+|\*)?(?:\.\d+)?(?:l{0,2}[diouxX]|[sfFeEgGcrap@])"
    r"(?![A-Za-z])"
)
# Before a term that begins a sentence: tags, and marks but for those of ends.
# Atomic, as a comment is also a run of marks.
BEFORE_TERM = re.compile(rf"(?>{TAG.pattern}|[^\w.!?\u2026:\n])++$")
_CURRENCY = "[$\u00a3\u00a5\u20ac]"
# After a number, the same in most languages.
_MEASURE = r"(?: ?%| (?:[kMGT]B|[kcm]?m|[km]?g|[mc]?l|k?Wh?|V|[kMG]?Hz)(?!\w))"
# Dates, times and versions; and all other numbers but those of one and two
# digits, which models know as words. Models may leave out what is beside one.
DIGITS = re.compile(
    rf"(?:(?:{_MINUS})?{_NUMBER_START}(?<![_.])"
    r"(?:\d{1,3}(?:['\u2019]\d{3})+(?:[.,]\d+)?|\d+(?:[.,:/\u2013-]\d+)+"
    # Groups of digits, as in telephone numbers.
    r"|\d{2,}(?: \d{2,}){2,}|\d{3,})"
    rf"|{_MINUS}\d\d?|{_NUMBER_START}(?<![.,:/])\d\d?(?={_MEASURE}))"
    rf"{_NUMBER_END}{_MEASURE}?"
)
# Those of two digits. In Japanese and Chinese some are parts of words: "12月"
# is December. The translation of one digit is often a word.
SMALL_NUMBER = re.compile(
    rf"{_NUMBER_START}(?<![.,:/])\d\d{_NUMBER_END}(?![.,:/]\d)(?![月代])"
)
# Names in programs: "user_name", "userName" and "main()".
_NAME = re.compile(
    rf"{_START}(?:(?:[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+)"
    rf"(?:\(\))?|[A-Za-z]\w{{0,80}}\(\)){_END}"
)
# Letters and digits mixed, but not "21st", "5km" or "20-year-old". The bounds
# keep the time linear.
CODE = re.compile(
    rf"{_START}(?=[A-Za-z0-9_./-]{{0,80}}[0-9])"
    r"(?=[A-Za-z0-9_./-]{0,80}[A-Za-z])"
    rf"(?!\d+[.,]?\d*[a-z\u00c0-\u024f]{{1,4}}{_END}(?![-_/\d]))"
    r"[A-Za-z0-9_]+(?:[./-](?![a-z]{3})[A-Za-z0-9_]+)*"
    rf"{_CODE_END}(?!-[a-z\u00c0-\u024f])"
)
# "C++", "C#", "AT&T" and "Ctrl+C"; and formulas of numbers and single letters.
_JOINED = re.compile(
    rf"{_START}(?:[A-Z](?:\+\+|#)|[A-Z]+(?:&[A-Z]+)+"
    rf"|[A-Za-z\d]+(?:\+[A-Za-z\d]+)+){_END}"
)
_OPERAND = rf"(?:{_START}(?<![.,])(?:\d+|[A-Za-z])(?![.,]?\d){_END})"
_FORMULA = re.compile(
    rf"{_OPERAND}(?: ?[-*/] ?{_OPERAND}){{0,8}} ?[+=\u00d7\u00f7\u2264\u2265] ?"
    rf"{_OPERAND}(?: ?[-+*/=\u00d7\u00f7\u2264\u2265] ?{_OPERAND})*"
)
_SMALL = "\u00b2\u00b3\u00b9\u2070-\u208e"
_UNIT = re.compile(
    # Degrees; the number of French; "m\u00b2" and "CO\u2082".
    rf"(?:(?:{_MINUS})?{_NUMBER_START}(?<![\d.,:/_\u2013-])\d{{1,3}} ?)?"
    rf"\u00b0(?:[CFK]{_END})?|{_START}[nN]\u00b0 ?\d+"
    rf"|(?<![^\W\d_])[A-Za-z\u00b5]{{1,3}}[{_SMALL}]+{_END}"
    rf"|{_START}(?:[A-Z][a-z]?(?:\d+|[{_SMALL}]+)?){{1,16}}(?<=[{_SMALL}]){_END}"
    # Not "and/or" in Italian and Spanish.
    rf"|{_START}[^\W\d_{UNSPACED_LETTERS}]{{1,3}}/(?!o)"
    rf"[^\W\d_{UNSPACED_LETTERS}]{_END}"
)
# Before an item of a list or what someone says, or without blanks; arrows; dots
# at the end.
_DASH = re.compile(
    r"(?:(?m:^)|(?<=[.!?\u2026] ))(?:[-\u2013\u2014]{1,2}(?= )|\u2014)"
    r"|(?<=[^\W\d_])[\u2013\u2014](?=[^\W\d_])"
    r"|[-!<=>]+[<=>]|<-+(?!\d)"
    r"|\u2026(?=[\"\u201d\u00bb) ]{0,3}(?m:$))"
)
# Of commands. "-x" has a word before it, as "-Yes" may begin what someone says.
_OPTION = re.compile(r"(?<=\w )-[a-z](?!\w)|(?<![^\s(])--[a-z][a-z\d-]+(?!\w)")
# What belongs together if a thing is on both sides.
BETWEEN = re.compile(r" *|[-\u2013:'\u2019/=]{1,2}")
# The number of a line in a list. Other languages write "1." for "1st".
LINE_NUMBER = re.compile(
    r"(?m:^)(?:\d{1,3}[.\uff0e](?!\d)|[IVX]{1,6}\.(?= )|\uff08\w{1,2}\uff09)"
)
_BRACKET = re.compile(r"[()\[\]{}]")
# A model may end with other quotation marks than those it began with.
QUOTATION_MARK = re.compile("[\u201c-\u201f\u00ab\u00bb\u2039\u203a]")
ENDS_IN_ORDINAL = re.compile(r"(?<!\d)\d{1,3}$")
# What closes, with no blank before it, and what opens, with none after it.
CLOSING = re.compile(r"^(?:</[A-Za-z\d][^<>]*>|[)\]}])")
OPENING = re.compile(r"(?:<[A-Za-z\d][^<>]*(?<!/)>|[(\[{])$")
# Tags and brackets; and marks of Markdown and quotation marks, which open what
# they close, too.
PAIRED = re.compile(
    r"<(?P<end>/?)(?P<tag>[A-Za-z][\w:.-]*|\d+)[^<>]*>"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    rf"|(?P<mark>[*_~]+|{QUOTATION_MARK.pattern})"
)

# What finds things of each kind, whether they are words, and their order.
KINDS = (
    (_FENCE, False, ""),
    (CODE_SPAN, True, ""),
    (TAG, False, "tag"),
    (_ENTITY, False, ""),
    (_LINK_END, False, ""),
    (ADDRESS, True, ""),
    (NAMED_FIELD, True, ""),
    (FIELD, True, "field"),
    (_NAME, True, ""),
    (_FORMULA, True, ""),
    (_JOINED, True, ""),
    (_PHONE, True, ""),
    (_IP, True, ""),
    (_UNIT, True, ""),
    (_ITEM, False, ""),
    (_DASH, False, ""),
    (_OPTION, True, ""),
    (_BRACKET, False, "bracket"),
    (QUOTATION_MARK, False, "bracket"),
)


def amounts(group: str, decimal: str) -> re.Pattern[str]:
    """Returns a pattern of numbers with separators, and of sums of money.

    As "1,500", "10,000-20,000", "2.5GB" and "US$ 50".
    """
    group = " " if group.isspace() else re.escape(group)
    decimal = re.escape(decimal)
    one = (
        rf"(?:[1-9]\d{{0,2}}(?:{group}\d{{2,3}})*{group}\d{{3}}"
        rf"(?:{decimal}\d+)?|\d+{decimal}\d+)"
    )
    number = rf"(?:(?:{one}|\d+)[-\u2013])?{one}"
    before = rf"(?:{_MINUS})?{_NUMBER_START}(?<![_.,:/])"
    start = rf"{before}(?<!\w-)(?<!\d{group})(?<!\d['\u2019])"
    end = rf"(?!{decimal}?\d|{group}\d|[:/-]\d)(?![ 多余]?{_FACTOR})"
    return re.compile(
        rf"{before}[A-Z]{{0,3}}{_CURRENCY} ?(?:{number}|\d+){end}"
        rf"(?:(?:[kKMmBbT]|[bmt]n){_END})?"
        rf"|{start}(?:(?:{number}|\d+){end} ?{_CURRENCY}"
        # Not "3.30pm".
        rf"|{number}{end}(?:{_MEASURE}"
        rf"|(?:(?!st|nd|rd|th|[ap]m)[A-Za-z\u00b5]{{1,3}})?{_END}))"
    )
