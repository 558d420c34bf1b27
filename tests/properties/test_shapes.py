"""Whatever the sizes, a model can be built, trained by one step and asked for a prediction."""

import numpy as np
import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.helpers.perturbing import perturbed

from mogul import models, nonlinearities
from mogul.data import Batch
from mogul.metrics import score
from mogul.objective import Analytic, Elbo, MonteCarlo
from mogul.prediction import predict

SIZES = {
    "num_rows": st.integers(1, 6),
    "num_inputs": st.integers(1, 3),
    "num_outputs": st.integers(1, 4),
    "num_latents": st.integers(1, 5),
    "num_hidden": st.integers(1, 5),
    "num_inducing": st.integers(1, 8),
    "nonlinearity": st.sampled_from(nonlinearities.names()),
    "missing": st.booleans(),
    "seed": st.integers(0, 2**32),
}


def case(**sizes: object):
    """An example that must always be among those tried."""
    usual = {
        "num_rows": 4,
        "num_inputs": 2,
        "num_outputs": 2,
        "num_latents": 2,
        "num_hidden": 3,
        "num_inducing": 3,
        "nonlinearity": "sherf",
        "missing": False,
        "seed": 0,
    }
    return example(**(usual | sizes))


@pytest.mark.parametrize("name", ["mogp", "n-mogp"])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(**SIZES)
@case(num_rows=1)
@case(num_inputs=1)
@case(num_outputs=1)
@case(num_latents=5, num_outputs=1)
@case(num_hidden=1)
@case(num_rows=2, num_inducing=8)
@case(num_rows=1, num_inputs=1, num_outputs=1, num_latents=1, num_hidden=1, num_inducing=1, missing=True)
def test_any_sizes_give_finite_values_of_the_right_shape(
    name,
    num_rows,
    num_inputs,
    num_outputs,
    num_latents,
    num_hidden,
    num_inducing,
    nonlinearity,
    missing,
    seed,
):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_rows, num_inputs, generator=generator, dtype=torch.float64)
    y = torch.randn(num_rows, num_outputs, generator=generator, dtype=torch.float64)
    if missing:
        y[0, -1] = float("nan")
    model = models.build(
        name,
        x,
        num_outputs,
        generator,
        num_latents=num_latents,
        num_hidden=num_hidden,
        num_inducing=num_inducing,
        nonlinearity=nonlinearity,
    )
    assert model.prior.inducing_points.shape == (min(num_rows, num_inducing), num_inputs)
    batch = Batch.of(x, y)
    for ell in (Analytic(), MonteCarlo(3)):
        assert ell.signal(model, x, generator).var.shape == batch.y.shape
        model.zero_grad()
        total = Elbo(ell, num_data=10)(model, batch, generator).total()
        assert total.shape == ()
        assert torch.isfinite(total)
        total.backward()
        for parameter_name, parameter in model.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert torch.isfinite(parameter.grad).all(), parameter_name
    new = torch.randn(3, num_inputs, generator=generator, dtype=torch.float64)
    prediction = predict(model, new, 5, generator)
    assert prediction.mean.shape == prediction.var.shape == (3, num_outputs)
    assert prediction.component_mean.shape == prediction.component_var.shape == (5, 3, num_outputs)
    for part in (prediction.mean, prediction.component_mean):
        assert np.isfinite(part).all()
    for part in (prediction.var, prediction.component_var):
        assert np.isfinite(part).all()
        assert np.all(part > 0)
    assert model.sample_joint(new, 2, generator).shape == (2, 3, num_outputs)
    scores = score([(prediction, prediction.sample(1, seed=0)[0])], nested=True)
    assert np.isfinite([scores.ll, scores.ll_nested, scores.mrmse, scores.crps]).all()


@pytest.mark.parametrize("name", ["mogp", "n-mogp"])
@settings(max_examples=20, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(
    num_rows=st.integers(1, 6),
    num_latents=st.integers(1, 5),
    num_outputs=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_rows_do_not_depend_on_each_other(name, num_rows, num_latents, num_outputs, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 2, generator=generator, dtype=torch.float64)
    model = models.build(name, x, num_outputs, generator, num_latents=num_latents, num_hidden=3, num_inducing=4)
    perturbed(model, generator, 0.3)
    with torch.no_grad():
        whole, part = (model.moments(rows, 1, generator) for rows in (x, x[:num_rows]))
    torch.testing.assert_close(part.mean, whole.mean[:num_rows], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(part.var, whole.var[:num_rows], rtol=1e-10, atol=1e-10)
