"""The command `relative-attention`.

`main.py` reads the command line; `translate.py`, `evaluate.py`, `train.py`,
`convert.py`, `show.py`, `serve.py` and `benchmark.py` add the commands.
`command.py` and `streams.py` have what they share. Commands import the package
when they run, so that `--help` is quick; `demo.py` and `preset_speed.py`,
the work of `demo` and `benchmark`, are imported then, too.
"""

from relative_attention.cli.main import main
from relative_attention.cli.main import parse

__all__ = ["main", "parse"]
