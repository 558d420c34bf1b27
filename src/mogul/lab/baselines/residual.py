"""The problem that nets and sparse GPs are given: standardised inputs → what a plane leaves over, in its own unit."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.core.moments import Marginals
from mogul.data import Batch, Dataset, Scaling
from mogul.lab.baselines.base import mixture
from mogul.means.linear import LinearOutputMean
from mogul.prediction import Prediction


@dataclass(frozen=True)
class ResidualProblem:
    """Rows whose outputs are residuals of unit size: without the plane, noise of 1e-3 drowns in a net's first outputs.

    The plane is that of the models "+ linear": what is compared with them starts where they start.
    """

    scaling: Scaling
    plane: LinearOutputMean
    rows: Batch

    @staticmethod
    def of(train: Dataset) -> "ResidualProblem":
        """Fit scaling and plane in double precision; the rows left are in single."""
        scaling = Scaling.of(train)
        x, y = scaling.inputs.apply(train.x), scaling.outputs.apply(train.y)
        plane = LinearOutputMean.fit(x, y)
        inputs = torch.as_tensor(x)
        residual = plane.residual(torch.as_tensor(y), inputs)
        return ResidualProblem(scaling, plane, Batch.of(inputs.float(), residual.float()))

    def inputs(self, test: Dataset) -> Float[Tensor, "N D"]:
        """The test inputs, standardised."""
        return torch.as_tensor(self.scaling.inputs.apply(test.x)).float()

    def restore(self, components: Marginals, test: Dataset) -> Prediction:
        """From S Normals on residuals at the test rows to a mixture in original units."""
        x = torch.as_tensor(self.scaling.inputs.apply(test.x))
        outputs = self.plane.restore(Marginals(components.mean.double(), components.var.double()), x)
        return mixture(outputs.mean.numpy(), outputs.var.numpy()).rescaled(self.scaling.outputs)
