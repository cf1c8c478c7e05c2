"""How much of a text is translated, and when the rest will be."""

from relative_attention.runs.translate_text import TranslationProgress


def test_time_left_ignores_lines_of_an_earlier_process():
    """An hour for 18,000 lines, after 2,000 that took no time of its own."""
    seconds = iter([50.0, 50.0 + 3600, 50.0 + 2 * 3600])
    progress = TranslationProgress(1_000_000, 2_000, lambda: next(seconds))
    assert progress.line(2_000) == "2,000 of 1,000,000 lines"
    assert (
        progress.line(20_000)
        == "20,000 of 1,000,000 lines, 5.0 a second, 2 days, 6:26:40 left"
    )
    assert (
        progress.line(1_000_000)
        == "1,000,000 of 1,000,000 lines, 139 a second, 0:00:00 left"
    )
