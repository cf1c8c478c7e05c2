"""Callbacks of a run, which need its folder, scores, decoding or plots."""
