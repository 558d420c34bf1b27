"""The parts that models are composed of, in the sizes asked for, each at its random start."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from mogul.heads import (
    NOISE_FLOOR,
    BayesianMixing,
    ConstantNoise,
    CorrelatedMixing,
    Features,
    GPMixing,
    GPNoise,
    GPStudentTNoise,
    Head,
    LowRankNoise,
    Mixing,
    NetMixing,
    NetNoise,
    Neural,
    Noise,
    StudentTNoise,
)
from mogul.models.inputs import Inputs, Latent, Observed
from mogul.nonlinearities import Nonlinearity
from mogul.priors import (
    ConstantMean,
    DeepGPs,
    DeepKernel,
    IndependentGPs,
    MeanName,
    Sites,
    Solver,
    kmeans,
    mean_by_name,
    own_kernel,
    randomise,
    rbf,
)

FROM_RESIDUALS = "residuals"  # in place of a name: the kind that residuals of exact GPs ask for
NoiseName = Literal["constant", "net", "gp", "student-t", "gp-student-t", "low-rank"]
NoiseChoice = NoiseName | Literal["residuals"]
VARYING_NOISES: tuple[NoiseName, ...] = ("net", "gp", "gp-student-t")  # those that depend on the input: `Noise.varies`


@dataclass(frozen=True)
class Plan:
    """Everything a composition needs: where inputs are or start, sizes, choices, the generator of the random start."""

    x: Float[Tensor, "N D"]
    num_outputs: int
    num_latents: int
    layers: tuple[tuple[int, int], ...]
    num_sites: int | None
    num_hidden: int
    num_inducing: int
    num_mixing_inducing: int
    nonlinearity: Nonlinearity
    deep_kernel: bool
    latent: bool
    inner_mean: MeanName | None
    dropout: float
    correlated_mixing: bool
    solver: Solver | None
    latent_mean: MeanName | None
    given_kernel: Kernel | None
    given_points: Float[Tensor, "M D"] | None
    noise: NoiseName
    noise_floor: float | None
    num_noise_latents: int
    num_noise_inducing: int
    noise_rank: int
    output_scale: Float[Tensor, "P"]  # the units of the head
    generator: torch.Generator

    def inputs(self) -> Inputs:
        """Given inputs, or latent ones that start at x."""
        return Latent(self.x) if self.latent else Observed()

    def kernel(self, num_latents: int | None) -> Kernel:
        """An RBF on the inputs, deep if wished; one lengthscale per input, or one for all latent inputs."""
        return self._warped(rbf(self.x.shape[1], num_latents, ard=not self.latent))

    def latent_kernel(self, num_latents: int) -> Kernel:
        """Of the GPs on the inputs: a copy of the one given, for each start its own; else an RBF."""
        if self.given_kernel is None:
            return self.kernel(num_latents)
        return self._warped(own_kernel(self.given_kernel, self.x))

    def _warped(self, kernel: Kernel) -> Kernel:
        return DeepKernel(kernel, self.x.shape[1], self.generator) if self.deep_kernel else kernel

    def gps(self, mean: MeanName, white_noise: float | None = None) -> IndependentGPs:
        """L sparse GPs on the inputs, with k-means inducing points, at a random start; `mean` is the paper's."""
        return self._first_layer(self.num_latents, self.num_inducing, self.latent_mean or mean, white_noise)

    def _first_layer(
        self, num_latents: int, num_inducing: int, mean: MeanName, white_noise: float | None = None
    ) -> IndependentGPs:
        given = self.given_points
        points = kmeans(self.x, num_inducing, self.generator) if given is None else given.to(self.x)
        kernel = self.latent_kernel(num_latents)
        start = mean_by_name(mean, self.x, num_latents)
        gps = IndependentGPs(kernel, points, num_latents, mean=start, white_noise=white_noise, solver=self.solver)
        return randomise(gps, self.generator, spread=0.1, scale=0.1)

    def _next_layer(
        self, below: Float[Tensor, "N E"], num_latents: int, num_inducing: int, mean: MeanName
    ) -> IndependentGPs:
        """GPs with inducing points of their own, which start at random: what they live on is not known yet.

        A linear mean starts at the principal directions of the means of the layer below.
        """
        num_inputs = below.shape[-1]
        points = torch.randn((num_latents, num_inducing, num_inputs), generator=self.generator).to(self.x)
        kernel = rbf(num_inputs, num_latents, ard=not self.latent)
        start = mean_by_name(mean, below, num_latents)
        gps = IndependentGPs(kernel, points, num_latents, mean=start, solver=self.solver)
        return randomise(gps, self.generator, spread=0.1, scale=0.1)

    def deep_gps(self, mean: MeanName) -> DeepGPs:
        """Two layers, or as many as were asked for, by draws of the inner ones or at learnt sites."""
        outer = self.latent_mean or mean
        means = [self.inner_mean or outer] * (len(self.layers) - 1) + [outer]
        layers = [self._first_layer(*self.layers[0], means[0])]
        below = layers[0].mean(self.x).detach()
        for (num_latents, num_inducing), chosen in zip(self.layers[1:], means[1:], strict=True):
            layers.append(self._next_layer(below, num_latents, num_inducing, chosen))
            below = layers[-1].mean(below).detach()
        if self.num_sites is None:
            return DeepGPs(*layers)
        inner = [num_latents for num_latents, _ in self.layers[:-1]]
        return DeepGPs(*layers, inner=Sites(self.num_sites, inner, self.generator))

    @property
    def num_top_latents(self) -> int:
        """GPs in the last layer of a deep model."""
        return self.layers[-1][0]

    def hidden_units(self, num_latents: int) -> Neural:
        """H hidden units on top of latent functions."""
        return Neural(self.nonlinearity, num_latents, self.num_hidden, self.generator)

    def bayesian_mixing(self, features: Features) -> BayesianMixing:
        """One P × H matrix, with a posterior."""
        kind = CorrelatedMixing if self.correlated_mixing else BayesianMixing
        return kind(self.num_outputs, features.num_features, self.generator)

    def net_mixing(self, features: Features) -> NetMixing:
        """A P × H matrix by a net."""
        return NetMixing(self.x.shape[1], self.num_outputs, features.num_features, self.generator, dropout=self.dropout)

    def gp_mixing(self, features: Features) -> GPMixing:
        """A P × H matrix of GPs that share their kernel and inducing points, constant where training starts."""
        num_gps = self.num_outputs * features.num_features
        points = kmeans(self.x, self.num_mixing_inducing, self.generator)
        start = torch.randn(num_gps, generator=self.generator).to(points) / features.num_features**0.5
        gps = IndependentGPs(self.kernel(None), points, num_gps, mean=ConstantMean(start), solver=self.solver)
        return GPMixing(randomise(gps, self.generator, spread=0.1, scale=0.1), self.num_outputs)

    def head(self, features: Features, mixing: Mixing) -> Head:
        """Features and mixing with the noise that was asked for."""
        make: dict[NoiseName, Callable[[], Noise]] = {
            "constant": self.constant_noise,
            "net": self.net_noise,
            "gp": self.gp_noise,
            "student-t": self.student_t_noise,
            "gp-student-t": self.gp_student_t_noise,
            "low-rank": self.low_rank_noise,
        }
        return Head(features, mixing, make[self.noise]())

    def constant_noise(self) -> ConstantNoise:
        """The paper's, which has no floor."""
        return ConstantNoise(self.num_outputs, floor=self._floor(0.0))

    def net_noise(self) -> NetNoise:
        """Log variances by a net."""
        return NetNoise(self.x.shape[1], self.num_outputs, self.generator, floor=self._floor(NOISE_FLOOR))

    def gp_noise(self) -> GPNoise:
        """Log variances by GPs of their own, constant where training starts."""
        return GPNoise(self._noise_gps(), self.num_outputs, self.generator, floor=self._floor(NOISE_FLOOR))

    def gp_student_t_noise(self) -> GPStudentTNoise:
        """The same with heavy tails."""
        return GPStudentTNoise(self._noise_gps(), self.num_outputs, self.generator, floor=self._floor(NOISE_FLOOR))

    def _noise_gps(self) -> IndependentGPs:
        points = kmeans(self.x, self.num_noise_inducing, self.generator)
        kernel = rbf(self.x.shape[1], self.num_noise_latents, ard=not self.latent)
        gps = IndependentGPs(kernel, points, self.num_noise_latents, mean="zero", solver=self.solver)
        return randomise(gps, self.generator, spread=0.0, scale=0.1)

    def student_t_noise(self) -> StudentTNoise:
        """Heavy tails."""
        return StudentTNoise(self.num_outputs, floor=self._floor(NOISE_FLOOR))

    def low_rank_noise(self) -> LowRankNoise:
        """Correlated across outputs."""
        return LowRankNoise(self.num_outputs, self.noise_rank, self.generator, floor=self._floor(NOISE_FLOOR))

    def _floor(self, default: float) -> Float[Tensor, "P"]:
        """From a share of an output's scale to the units of the head."""
        share = default if self.noise_floor is None else self.noise_floor
        return share / self.output_scale if share else torch.zeros_like(self.output_scale)
