"""Converts OpenNMT-tf's checkpoints to models of this package."""

from relative_attention.convert.opennmt_tf.convert_opennmt_tf import (
    convert_opennmt_tf,
)
from relative_attention.convert.opennmt_tf.load_opennmt_tf import (
    load_opennmt_tf,
)

__all__ = ["convert_opennmt_tf", "load_opennmt_tf"]
