"""A recurrent network for text: the next character from those before it."""

from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.errors import DataError
from fedseg.models.classifier import Classifier
from fedseg.registry import MODELS


@MODELS.register_module()
class CharLSTM(Classifier):
    """The next character after a sequence, by LEAF's network (Caldas et al., 2018) for Shakespeare.

    An embedding of 8, two LSTM layers of 256, a linear layer on the last step's activations:
    819,920 parameters for 80 characters.

    Args:
        num_classes: how many characters there are.
        length: characters of a sequence.
        kwargs: weights, projection: see ``Classifier``.
    """

    def __init__(self, num_classes: PositiveInt = 80, length: PositiveInt = 80, **kwargs) -> None:
        super().__init__(num_classes, in_channels=1, image_size=(length, 1), **kwargs)
        self.embedding = nn.Embedding(num_classes, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.add_head(256)

    def features(self, inputs: Tensor) -> Tensor:
        """Activations after the last character, float [B, 256], or their projection.

        Args:
            inputs: the characters' numbers in any type, [B, 1, length, 1].
        """
        steps, _ = self.lstm(self.embedding(inputs.flatten(1).long()))
        return self.projection(steps[:, -1])

    def _check_inputs(self, inputs: Tensor) -> None:
        length, _ = self.image_size
        if inputs.shape[1:] != (1, length, 1):
            raise DataError(
                f"inputs: CharLSTM takes characters [batch, 1, {length}, 1], not "
                f"{inputs.dtype} {list(inputs.shape)}: change dataset or model.length"
            )
