"""What Keras can know of a model's token ids before it has seen any."""

import keras

from relative_attention.models.trainable_model import TrainableModel
from relative_attention.models.transformer_inputs import input_specs
from relative_attention.models.transformer_inputs import token_id_signature


class TokenIdModel(TrainableModel):
    """A model from source and target ids to the logits of its `config`.

    Keras learns the shapes of a model's inputs from the first call; these
    are the same for all, so that they are checked, shown and exported without
    one.

    Args:
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.input_spec = input_specs()

    @property
    def start_token_id(self):
        """The id that the decoder's inputs start with."""
        return self.config.start_token_id

    @property
    def input_shape(self):
        """Shapes of the inputs, a dict; numbers and lengths are any."""
        return {spec.name: (None, None) for spec in self.input_spec}

    @property
    def output_shape(self):
        """Shape `(B, T, V)` of the logits."""
        return (None, None, self.config.vocabulary_size)

    def symbolic_batch(self):
        """See `TrainableModel.symbolic_batch`."""
        ids = keras.KerasTensor((None, None), "int32")
        return {"source_token_ids": ids, "target_token_ids": ids}, ids

    def export(
        self,
        filepath,
        format="tf_saved_model",
        verbose=None,
        input_signature=None,
        **kwargs,
    ):
        """As `keras.Model.export`: ids in, logits out.

        For translations of strings, `relative_attention.export_saved_model`.

        Args:
            filepath: path of what is to be written.
            format: string. As of `keras.Model.export`.
            verbose: bool. Whether to say what was written.
            input_signature: as of `keras.Model.export`. Defaults to ids of
                any number of sentences of any length.
            **kwargs: as for `keras.Model.export`.
        """
        if input_signature is None:
            input_signature = token_id_signature()
        super().export(
            filepath,
            format=format,
            verbose=verbose,
            input_signature=input_signature,
            **kwargs,
        )
