"""What the README shows runs, and what it links to is there."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_first_example_runs(capsys):
    exec(EXAMPLES[0], {})
    out = capsys.readouterr().out
    assert out.startswith("(2, 10, 512) (2, 8, 10, 10)\n")
    assert out.endswith(" parameters\n")


def test_weights_of_multi_head_attention_can_be_brought_along(capsys):
    (example,) = (text for text in EXAMPLES if "MultiHeadAttention" in text)
    exec(example, {})
    assert capsys.readouterr().out == "True\n"


def test_every_link_to_a_file_is_right():
    for card in [ROOT / "README.md", *ROOT.glob("models/**/README.md")]:
        links = re.findall(r"\]\(([^)#]+)\)", card.read_text("utf-8"))
        for link in links:
            if not link.startswith("http"):
                assert (card.parent / link).exists(), f"{card}: {link}"


def test_table_of_relative_positions_is_that_of_the_op():
    import relative_attention as ra

    rows = re.findall(r"^ .{12,}((?: +\d){5})$", README, re.MULTILINE)
    first = re.findall(r"^query:.*?((?: +\d){5})$", README, re.MULTILINE)
    table = [[int(i) for i in row.split()] for row in first + rows]
    assert (
        table
        == ra.clipped_relative_positions(range(5), range(5), 2).numpy().tolist()
    )
