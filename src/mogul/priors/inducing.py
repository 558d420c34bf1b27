"""Where inducing points start."""

import warnings

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mogul.errors import require_positive

_ROWS_PER_CENTRE = 50


def kmeans(x: Float[Tensor, "N D"], num_inducing: int, generator: torch.Generator) -> Float[Tensor, "M D"]:
    """Cluster centres of the inputs; the distinct inputs themselves where there are no more than `num_inducing`.

    Of many inputs a random part is clustered: centres of more would hardly differ.

    >>> kmeans(torch.eye(3), 10, torch.Generator()).shape
    torch.Size([3, 3])
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    require_positive(num_inducing=num_inducing)
    if len(x) > (enough := _ROWS_PER_CENTRE * num_inducing):
        x = x[torch.randperm(len(x), generator=generator)[:enough].to(x.device)]
    distinct: Tensor = torch.unique(x, dim=0)
    if len(distinct) <= num_inducing:
        return distinct
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough clustering is all that is wanted
        centres = KMeans(num_inducing, n_init=1, max_iter=50, random_state=seed).fit(x.cpu().numpy()).cluster_centers_
    return torch.as_tensor(np.ascontiguousarray(centres), dtype=x.dtype, device=x.device)
