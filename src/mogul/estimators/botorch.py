"""A fitted model as a BoTorch model, for Bayesian optimisation. Needs `mogul[botorch]`."""

from copy import deepcopy
from functools import cached_property
from typing import Any, NoReturn

import torch
from botorch.models.model import Model as BotorchModel
from botorch.posteriors.posterior import Posterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import IIDNormalSampler, NormalMCSampler, SobolQMCNormalSampler
from jaxtyping import Float
from torch import Tensor
from torch.quasirandom import SobolEngine

from mogul.core.base_samples import FreshNormals, GivenNormals
from mogul.core.moments import Marginals
from mogul.errors import ConfigError, ShapeError, UnsupportedError
from mogul.fitted.fitted import Fitted
from mogul.fitted.predictor import Predictor
from mogul.models.model import Model


class Surrogate(BotorchModel):
    """A model for BoTorch's acquisition functions: a posterior at any points, in the user's units.

    It is a frozen copy in float64: fit again for new observations. Means and variances are the model's moments; samples
    are draws of whole functions of the model, not of a Normal with those moments.

    Example:
        >>> import mogul
        >>> data = mogul.Dataset([[0.0], [1.0], [2.0]], [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
        >>> fitted = mogul.fit(data, model="mogp", config=mogul.TrainingConfig(epochs=2, num_starts=1))
        >>> Surrogate.of(fitted).posterior(torch.zeros(4, 3, 1)).rsample(torch.Size([8])).shape
        torch.Size([8, 4, 3, 2])
    """

    input_shift: Tensor
    input_scale: Tensor
    output_shift: Tensor
    output_scale: Tensor

    def __init__(self, model: Model, predictor: Predictor, units: dict[str, Tensor]) -> None:
        super().__init__()
        self.model = model
        self.predictor = predictor
        for name, values in units.items():
            self.register_buffer(name, values)
        # A dry run counts the Normal numbers per point of a draw.
        point = self.input_shift.new_zeros(1, len(self.input_shift))
        normals = FreshNormals(point, 1, torch.Generator())
        with torch.no_grad():
            model.functions(point, normals)
        self.numbers_per_point = normals.taken

    @staticmethod
    def of(fitted: Fitted, num_samples: int = 32, seed: int = 0) -> "Surrogate":
        """Freeze a fitted model.

        Args:
            fitted: a fitted model with observed inputs.
            num_samples: draws of a deep model's inner layers, for its means and variances.
            seed: seed of those draws.
        """
        if fitted.is_latent:
            raise ConfigError("A surrogate must have observed inputs; this model has latent inputs. Fit one with X.")
        if fitted.num_members > 1:
            raise ConfigError(
                f"A surrogate must be of one model; this is a mixture of {fitted.num_members}: {fitted.model_name}. "
                "Name one model, and leave num_kept out."
            )
        if fitted.transforms:
            name, words = next(iter(fitted.transforms.items()))
            raise ConfigError(
                f"A surrogate must be of outputs without a transform; {name!r} has {words}. Fit without one, to "
                "the transformed outputs."
            )
        fitted.require_unchained("A surrogate")
        inputs, outputs = fitted.scaling.inputs, fitted.scaling.outputs
        units = {
            "input_shift": torch.as_tensor(inputs.shift),
            "input_scale": torch.as_tensor(inputs.scale),
            "output_shift": torch.as_tensor(outputs.shift),
            "output_scale": torch.as_tensor(outputs.scale),
        }
        model = deepcopy(fitted.model).double().eval().requires_grad_(False)
        return Surrogate(model, Predictor.of(fitted.model, num_samples, seed, torch.float64), units).eval()

    @property
    def num_outputs(self) -> int:
        """The number P of outputs."""
        return len(self.output_shift)

    @property
    def batch_shape(self) -> torch.Size:
        """One model, not a batch of them."""
        return torch.Size()

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: Any = False,
        posterior_transform: Any = None,
    ) -> Any:
        """The posterior of the outputs at batches of q points, joint over the points of a batch.

        Args:
            X: points in the units of training, (…, q, D).
            output_indices: which outputs; all by default.
            observation_noise: whether outputs include observation noise.
            posterior_transform: BoTorch's transform, applied to the result.
        """
        if X.dim() < 2 or X.shape[-1] != len(self.input_shift):
            raise ShapeError(
                f"X must be (…, q, D) with D = {len(self.input_shift)}; got {tuple(X.shape)}. Give one point as (1, D)."
            )
        if not isinstance(observation_noise, bool):
            raise UnsupportedError(
                f"observation_noise must be True or False; got {type(observation_noise).__name__}. "
                "The noise is the model's own."
            )
        chosen = list(range(self.num_outputs)) if output_indices is None else output_indices
        x = (X.double() - self.input_shift) / self.input_scale
        result = SignalPosterior(self, x, chosen, observation_noise)
        return result if posterior_transform is None else posterior_transform(result)

    def condition_on_observations(self, X: Tensor, Y: Tensor, **options: Any) -> NoReturn:
        """Not supported: q(u) has no closed-form update for new rows."""
        raise UnsupportedError(
            "A surrogate cannot be conditioned on observations without training, so acquisition functions that "
            "fantasise do not work. Fit with the new rows, or call the estimator's partial_fit, and make a new "
            "surrogate; for pending points, use X_pending."
        )


class SignalPosterior(Posterior):
    """Posterior at batches of q points: exact moments, and draws of the model's mixture from given Normal numbers.

    Base samples are (…, q, K): K numbers per point of a draw. Shared numbers are read from the first point, so that
    draws at the first points do not change when points are added: acquisition functions with a baseline rely on this.
    """

    def __init__(self, surrogate: Surrogate, x: Float[Tensor, "*B Q D"], outputs: list[int], noisy: bool) -> None:
        self.surrogate = surrogate
        self.x = x
        self.outputs = outputs
        self.noisy = noisy

    @property
    def device(self) -> torch.device:
        """The device of the points."""
        return self.x.device

    @property
    def dtype(self) -> torch.dtype:
        """Always double precision."""
        return self.x.dtype

    @property
    def batch_shape(self) -> torch.Size:
        """The shape of the batches of q points."""
        return self.x.shape[:-2]

    @property
    def event_shape(self) -> torch.Size:
        """The shape of one draw."""
        return torch.Size([*self.x.shape[:-1], len(self.outputs)])

    @property
    def base_sample_shape(self) -> torch.Size:
        """The shape of the Normal numbers of one draw."""
        return torch.Size([*self.x.shape[:-1], self._numbers_per_point])

    @property
    def batch_range(self) -> tuple[int, int]:
        """The batch axes of base samples; samplers use the same numbers for all batches."""
        return 0, -2

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008  # BoTorch's own
        return sample_shape + self.event_shape

    @property
    def mean(self) -> Float[Tensor, "*B Q P"]:
        """E y."""
        scaled = self._moments.mean * self.surrogate.output_scale + self.surrogate.output_shift
        return scaled[..., self.outputs]

    @property
    def variance(self) -> Float[Tensor, "*B Q P"]:
        """Var y."""
        var = self._moments.var + self._noise_var if self.noisy else self._moments.var
        return (var * self.surrogate.output_scale.square())[..., self.outputs]

    def rsample(self, sample_shape: torch.Size | None = None) -> Float[Tensor, "... Q P"]:
        """Draws from new Normal numbers, by torch's global generator as in BoTorch."""
        shape = torch.Size() if sample_shape is None else sample_shape
        numbers = torch.randn(shape + self.base_sample_shape, dtype=self.dtype, device=self.device)
        return self.rsample_from_base_samples(shape, numbers)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Float[Tensor, "... Q P"]:
        """Draws from these Normal numbers: differentiable in X."""
        if base_samples.shape != sample_shape + self.base_sample_shape:
            raise ShapeError(
                f"base_samples must be {tuple(sample_shape + self.base_sample_shape)}; "
                f"got {tuple(base_samples.shape)}. Use a BoTorch sampler."
            )
        normals = GivenNormals(base_samples.reshape(-1, *self.base_sample_shape))
        model = self.surrogate.model
        draws = model.functions(self.x, normals)
        if self.noisy:
            draws = draws + self._noise_var.sqrt() * normals.per_point(self.surrogate.num_outputs)
        scaled = draws * self.surrogate.output_scale + self.surrogate.output_shift
        return scaled[..., self.outputs].reshape(self._extended_shape(sample_shape))

    @cached_property
    def _moments(self) -> Marginals:
        """Standardised moments of the signal; for a deep model from the predictor's fixed draws, so smooth in x."""
        predictor = self.surrogate.predictor
        rows = self.x.reshape(-1, self.x.shape[-1])
        signal = predictor.frozen.moments(rows, predictor.num_samples, torch.Generator())
        shape = (*self.x.shape[:-1], self.surrogate.num_outputs)
        return Marginals(signal.mean.reshape(shape), signal.var.reshape(shape))

    @cached_property
    def _noise_var(self) -> Float[Tensor, "*B Q P"]:
        """Standardised noise variance; noise is drawn as Normal even if its tails are heavy."""
        rows = self.x.reshape(-1, self.x.shape[-1])
        var = self.surrogate.model.noise_var(rows, torch.Generator())
        return var.expand(len(rows), -1).reshape(*self.x.shape[:-1], self.surrogate.num_outputs)

    @property
    def _numbers_per_point(self) -> int:
        return self.surrogate.numbers_per_point + (self.surrogate.num_outputs if self.noisy else 0)


@GetSampler.register(SignalPosterior)  # type: ignore[untyped-decorator]  # BoTorch's own
def _sampler(posterior: SignalPosterior, sample_shape: torch.Size, *, seed: int | None = None) -> NormalMCSampler:
    """A quasi-random sampler, or an independent one beyond the dimensions of Sobol sequences."""
    per_draw = posterior.base_sample_shape[-2:].numel()
    kind = SobolQMCNormalSampler if per_draw <= SobolEngine.MAXDIM else IIDNormalSampler
    return kind(sample_shape=sample_shape, seed=seed)
