"""Whether two trainings ended alike, bit for bit."""

import torch

from mogul.training import Fitted


def same_parameters(one: Fitted, two: Fitted) -> bool:
    """Of models of one kind."""
    states = one.model.state_dict(), two.model.state_dict()
    assert states[0].keys() == states[1].keys()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def same_training(one: Fitted, two: Fitted) -> bool:
    """The same parameters, after the same course."""
    assert one.history.elbo == two.history.elbo
    assert one.history.chosen_start == two.history.chosen_start
    return same_parameters(one, two)
