"""Trains OpenNMT-tf's model in turns, in OpenNMT-tf's own environment.

Started by `training_speed.py`, which writes the configuration.
"""

import json
import sys

import opennmt
import opennmt.training
import turns


def make_model():
    """The architecture of `transformer_small_relative`.

    Attention and output have no bias there, so they have none here.
    """
    return opennmt.models.Transformer(
        source_inputter=opennmt.inputters.WordEmbedder(embedding_size=256),
        target_inputter=opennmt.inputters.WordEmbedder(embedding_size=256),
        num_layers=3,
        num_units=256,
        num_heads=4,
        ffn_inner_dim=1024,
        dropout=0.1,
        attention_dropout=0.1,
        ffn_dropout=0.1,
        mha_bias=False,
        output_layer_bias=False,
        position_encoder_class=None,
        maximum_relative_position=16,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )


class WindowStats(opennmt.training.TrainingStats):
    """Hands on what OpenNMT-tf logs, and waits for the next turn.

    The trainer calls `log` every `save_summary_steps` and then sets counters
    and clock back, so that waiting is not counted.
    """

    def __init__(self, *args, **kwargs):
        self.turns = turns.Turns()
        self._wait()
        super().__init__(*args, **kwargs)

    def log(self, is_master=True):
        summary = self.get_last_summary()
        steps = summary["step"] - self._last_logged_step
        seconds = steps / summary["steps_per_sec"]
        tokens = sum(summary["words_per_sec"].values()) * seconds
        super().log(is_master)
        self.turns.report(steps=steps, seconds=seconds, tokens=tokens)
        self._wait()

    def _wait(self):
        if not self.turns.wait():
            # Before OpenNMT-tf writes its last checkpoint, which would count
            # as memory of training.
            raise SystemExit


def main(config):
    opennmt.training.TrainingStats = WindowStats
    opennmt.Runner(make_model, config).train()


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        main(json.load(file))
