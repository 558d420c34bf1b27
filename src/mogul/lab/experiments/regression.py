"""The paper's regression experiment, section 5.3: tables 2, 4, 5 and 6."""

from mogul.lab.experiments.experiment import Experiment
from mogul.lab.experiments.lines import line

_NAMES = ("mogp", "gprn", "dgp", "sbgprn", "n-mogp", "n-sbgprn", "n-dgp", "dk-n-sbgprn")
_MAIN = [line(model) for model in _NAMES] + [line(model, same_layers=True) for model in ("dgp", "n-dgp")]
_MOGP = [line("mogp"), line("dk-mogp"), line("n-mogp")]
_MOGP += [line("n-mogp", nonlinearity=sigma) for sigma in ("erf", "relu", "leaky")]
_GPRN = [line(model) for model in ("gprn", "dk-gprn", "sbgprn", "dk-sbgprn", "n-sbgprn", "dk-n-sbgprn")]
_GPRN += [
    line(model, nonlinearity=sigma) for model in ("n-sbgprn", "dk-n-sbgprn") for sigma in ("erf", "relu", "sherf")
]
_DGP = [
    each
    for same in (False, True)
    for each in (
        line("dgp", same_layers=same),
        line("n-dgp", same_layers=same),
        *(line("n-dgp", nonlinearity=sigma, same_layers=same) for sigma in ("sherf", "leaky")),
    )
]
_TABLE_2 = [line(model) for model in ("mogp", "dk-mogp", "gprn", "dk-gprn", "dgp", "n-mogp", "sbgprn", "n-sbgprn")]
_TABLE_2 += [line("dk-n-sbgprn"), line("n-dgp")]
# Not of the paper: the noise of its best model as it depends on where a row is, and with heavy tails; and the simplest
# model with the first of them, which new trajectories lead astray the least.
_NOISES = [line("n-sbgprn").on_a_plane.with_noise(noise) for noise in ("gp", "net", "student-t")]
_NOISES += [line("mogp").on_a_plane.with_noise("gp")]

REGRESSION = Experiment(
    name="regression",
    section="5.3",
    title="regression",
    groups={
        "main": _MAIN,
        "table-2": _TABLE_2,
        "table-4": _MOGP,
        "table-5": _GPRN,
        "table-6": _DGP,
        "all": [*_MOGP, *_GPRN, *_DGP],
        "noises": _NOISES,
    },
    added_groups=("noises",),
    holds_out_groups=True,
)
