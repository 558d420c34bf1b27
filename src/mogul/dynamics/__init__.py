"""Learnt dynamics: from trajectories of states and actions to rollouts with their uncertainty."""

from mogul.dynamics.dynamics import Dynamics
from mogul.dynamics.rollout import Rollout
from mogul.dynamics.scores import HorizonScores

__all__ = ["Dynamics", "HorizonScores", "Rollout"]
