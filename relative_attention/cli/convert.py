"""Converts models of other systems: `relative-attention convert`."""

from relative_attention.cli import convert_opennmt_tf
from relative_attention.cli import convert_tensor2tensor
from relative_attention.cli.command import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Adds the command to the command line."""
    parser = subparsers.add_parser(
        "convert",
        help="bring a model of another system here",
        description="Bring a model of another system here.",
    )
    systems = parser.add_subparsers(
        dest="system", required=True, metavar="SYSTEM"
    )
    convert_opennmt_tf.add_parser(systems)
    convert_tensor2tensor.add_parser(systems)
