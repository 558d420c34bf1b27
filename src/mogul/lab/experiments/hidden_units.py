"""The paper's section 5.5: what more hidden units bring. MOGP and DGP, which have none, are there to compare with."""

from dataclasses import replace

from mogul.lab.experiments.experiment import Experiment
from mogul.lab.experiments.lines import line

HIDDEN_UNITS = Experiment(
    name="hidden-units",
    section="5.5",
    title="varying the number of hidden units",
    groups={
        "all": [
            *(replace(line(model), swept=False) for model in ("mogp", "dgp")),
            *(line(model) for model in ("n-mogp", "n-sbgprn", "n-dgp")),
        ]
    },
    setting="num_hidden",
    points=(4, 8, 12, 16, 20),
    sweeps_baselines=False,
    holds_out_groups=True,
)
