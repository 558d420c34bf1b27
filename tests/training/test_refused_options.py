"""Options that a fit has no use for, or does not know, are refused before any work."""

import pytest
from tests.helpers.quick_fits import waves

from mogul.errors import ConfigError, UnknownNameError
from mogul.training import TrainingConfig, fit


def test_an_unknown_option_is_refused_before_any_work():
    with pytest.raises(UnknownNameError, match="Did you mean 'num_inducing'"):
        fit(waves(), model="mogp", num_induc=5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "mogp",
            {"num_hidden": 5},
            r"num_hidden must be left out .*; mogp does not; got 5\. Leave .* among n-mogp, n-s",
        ),
        ("mogp", {"nonlinearity": "relu"}, r"; got 'relu'\. Leave it out, or choose among n-mogp, n-sbgprn, n-dgp"),
        ("n-mogp", {"dropout": 0.1}, r"dropout .* n-mogp does not; got 0\.1\. .* choose among sbgprn, n-sbgprn\."),
        ("sbgprn", {"correlated_mixing": True}, "choose among mogp, dgp, n-mogp, n-dgp"),
        ("dgp", {"num_mixing_inducing": 5}, "choose among gprn"),
        ("n-sbgprn", {"num_top_inducing": 5}, "choose among dgp, n-dgp"),
        (
            "mogp",
            {"num_noise_latents": 3, "noise": "constant"},
            r"num_noise_latents must be left out .*; constant noise does not; got 3\. .* choose among noise='gp', "
            r"noise='gp-student-t'\.",
        ),
        ("dgp", {"num_noise_inducing": 5, "noise": "net"}, "; net noise does not; got 5.* among noise='gp'"),
        ("mogp-lvm", {"noise_rank": 1, "noise": "gp"}, "; gp noise does not; got 1.* among noise='low-rank'"),
        ("mogp", {"noise_rank": 1, "noise": "gpp"}, "noise must be one of .*; got 'gpp'"),
        ("mogp", {"num_inputs": 3}, r"num_inputs is for latent inputs; got 3 for mogp\. Leave it out"),
        (
            "dgp",
            {"layers": [(2, 5), (2, 4)], "num_inducing": 5},
            "layers has all sizes .*; got num_inducing beside it",
        ),
    ],
)
def test_an_option_that_the_model_has_no_use_for_is_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        fit(waves(), model=name, **options)


def test_a_preset_takes_a_seed_and_excludes_a_config():
    with pytest.raises(ConfigError, match="config or preset, not both"):
        fit(waves(), model="mogp", config=TrainingConfig(), preset="paper")
    with pytest.raises(UnknownNameError, match="preset must be one of"):
        fit(waves(), model="mogp", preset="papers", seed=3)
