"""A plane with random coefficients under a GP: generalised least squares, and what its error adds to predictions."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import standard_normal
from mogul.core.radial import RADIALS
from mogul.errors import ConfigError, NumericalError, ShapeError

# Shares of the outputscale that are added to the diagonal of V, one after another, until its Cholesky factor exists.
_JITTERS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
# A product of 500 × 200 numbers with 24 or 32 columns took 1.5 ms for 14 outputs, with 22 of them up to 6.
_COLUMNS = 8


class PlaneUncertainty(nn.Module):
    """What is not known of a plane whose residual a GP models: Rasmussen & Williams (2006), section 2.7.

    y = h(x)ᵀw + f(x) + noise, with h(x) = (x, 1), w ~ N(0, A), f a GP with kernel k and V = K + noise at K rows X:

        y = h(x)ᵀw̄ + (f given the residuals of w̄) + R(x)ᵀδ        δ ~ N(0, Σ), independent of the rest
        Σ = (A⁻¹ + HᵀV⁻¹H)⁻¹      R(x) = h(x) − HᵀV⁻¹k(X, x)

    R is the part of the plane that the GP cannot take up: about 0 between the rows, h(x) itself far from them. Outputs
    are independent, each with its own A, k and noise. All is in units of standardised x and y.

    Args:
        rows: X.
        lengthscale: of k, a radial ARD kernel, for each output.
        coefficients: V⁻¹H times the outputscale of k: Σₖ k(‖(x − xₖ)/ℓ‖²) coefficients[p, k] = h(x) − R(x).
        root: of Σ = root rootᵀ.
        shape: of k, where it has a shape parameter.
        kernel: the name of k, one of `mogul.core.radial.RADIALS`.

    Example:
        >>> x = torch.linspace(-1, 1, 9)[:, None]
        >>> seen, one = torch.ones(9, 1, dtype=torch.bool), torch.ones(1)
        >>> plane = PlaneUncertainty.of(x, seen, one[:, None], one, one, torch.ones(1, 2))
        >>> std = plane.float().var(torch.tensor([[0.0], [10.0]])).sqrt()
        >>> bool(10 * std[0] < std[1])
        True
    """

    rows: Tensor
    lengthscale: Tensor
    coefficients: Tensor
    root: Tensor
    shape: Tensor | None

    def __init__(
        self,
        rows: Float[Tensor, "K D"],
        lengthscale: Float[Tensor, "P D"],
        coefficients: Float[Tensor, "P K E"],
        root: Float[Tensor, "P E E"],
        shape: Float[Tensor, "P"] | None = None,
        kernel: str = "rbf",
    ) -> None:
        super().__init__()
        self.kernel = kernel
        parts = {"rows": rows, "lengthscale": lengthscale, "coefficients": coefficients, "root": root}
        _require_shapes(parts)
        for name, part in parts.items():
            self.register_buffer(name, part)
        self.register_buffer("shape", shape)

    @staticmethod
    def of(
        x: Float[Tensor, "K D"],
        observed: Bool[Tensor, "K P"],
        lengthscale: Float[Tensor, "P D"],
        outputscale: Float[Tensor, "P"],
        noise_var: Float[Tensor, "*K P"],
        prior_var: Float[Tensor, "P E"],
        times: float = 1.0,
        shape: Float[Tensor, "P"] | None = None,
        kernel: str = "rbf",
    ) -> "PlaneUncertainty":
        """Given K rows and the hyperparameters of each output, by Cholesky factors in double precision.

        Args:
            x: standardised inputs.
            observed: which outputs each row has; others have no influence.
            lengthscale: of k.
            outputscale: the variance of f.
            noise_var: of each output, or of each of its rows.
            prior_var: the diagonal of A: of the D slopes, then of the bias. 0 leaves a coefficient out.
            times: how many rows each of these stands for: Σ = (A⁻¹ + times HᵀV⁻¹H)⁻¹.
            shape: of k, where it has a shape parameter.
            kernel: the name of k.
        """
        correlation = _Correlation(kernel, lengthscale, shape)
        return _solve(x, observed, correlation, outputscale, noise_var, prior_var, times).uncertainty()

    def with_rows(
        self,
        x: Float[Tensor, "N D"],
        observed: Bool[Tensor, "N P"],
        outputscale: Float[Tensor, "P"],
        noise_var: Float[Tensor, "*N P"],
    ) -> "PlaneUncertainty":
        """Given further rows too: Σ⁻¹ grows by RᵀV⁻¹R, with V their covariance given the rows before.

        Example:
            >>> x, one = torch.linspace(-1, 1, 9)[:, None].double(), torch.ones(1)
            >>> seen = torch.ones(9, 1, dtype=torch.bool)
            >>> whole = PlaneUncertainty.of(x, seen, one[:, None], one, one, torch.ones(1, 2))
            >>> first = PlaneUncertainty.of(x[:4], seen[:4], one[:, None], one, one, torch.ones(1, 2))
            >>> both = first.with_rows(x[4:], seen[4:], one, one)
            >>> bool(torch.allclose(both.var(x + 3), whole.var(x + 3)))
            True
        """
        x, outputscale, noise_var = x.double(), outputscale.double(), noise_var.double()
        known = len(self.rows)
        rows = torch.cat([self.rows.double(), x])
        # Rows without an output have no coefficients.
        seen = torch.cat([(self.coefficients != 0).any(-1), observed.T], -1)
        noise = noise_var.expand(observed.shape).T
        noise = torch.cat([noise.mean(-1, keepdim=True).expand(-1, known), noise], -1)
        correlation = _Correlation(self.kernel, self.lengthscale, self.shape).double()
        pairs = (seen.unsqueeze(-1) & seen.unsqueeze(-2)).double()
        signal = outputscale[:, None, None] * correlation(rows, rows) * pairs
        factor = _cholesky(signal, torch.where(seen, noise, 1.0), outputscale)
        white = torch.linalg.solve_triangular(factor, _features(rows) * seen.unsqueeze(-1), upper=False)
        solved = torch.linalg.solve_triangular(factor.mT, white, upper=True)
        old = self.root.double()
        # The last rows of L⁻¹H are R over the root of V.
        told = white[:, known:] @ old
        inner = torch.linalg.cholesky(torch.eye(old.shape[-1]).to(old) + told.mT @ told)
        root = torch.linalg.solve_triangular(inner, old.mT, upper=False).mT
        parts = rows, self.lengthscale, outputscale[:, None, None] * solved, root
        rows, lengthscale, coefficients, root = (part.to(self.root).contiguous() for part in parts)
        return PlaneUncertainty(rows, lengthscale, coefficients, root, self.shape, self.kernel)

    @property
    def numbers_per_row(self) -> int:
        """How many numbers a variance at one row takes while it is made: kernels, and R before and after the root."""
        num_outputs, num_rows, num_features = self.coefficients.shape
        return num_outputs * (2 * num_rows + 3 * num_features)

    def residual_features(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P E"]:
        """R(x) of each output."""
        return self._residual_features(x).transpose(-3, -2)

    def var(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"]:
        """R(x)ᵀ Σ R(x)."""
        return (self._residual_features(x) @ self.root).square().sum(-1).mT

    def sample_joint(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "S *C N P"]:
        """R(x)ᵀδ with one δ for each draw and output, shared by all points."""
        num_outputs, num_features = self.root.shape[:2]
        numbers = normals.shared(num_outputs * num_features)
        numbers = numbers.reshape(*numbers.shape[:-2], num_outputs, num_features, 1)
        projected = self._residual_features(x) @ self.root
        return (projected @ numbers).squeeze(-1).mT

    def _residual_features(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S P N E"]:
        cross = _Correlation(self.kernel, self.lengthscale, self.shape)(x, self.rows)
        return _features(x).unsqueeze(-3) - cross @ self.coefficients


class FrozenPlaneUncertainty(nn.Module):
    """The variances of a `PlaneUncertainty` that will not change, quick for one row.

    As in `FrozenRBF`, kernels are 2 to the power of a product with (x, x²); here that of x² is made once for each
    output, since for one row the reading of factors is what takes time. Other kernels are functions of such a product.
    """

    center: Tensor
    kernel_slopes: Tensor
    kernel_offsets: Tensor
    curvature: Tensor
    plane_slopes: Tensor
    plane_offsets: Tensor
    coefficients: Tensor
    exponent: Tensor | None

    def __init__(self, uncertainty: PlaneUncertainty) -> None:
        super().__init__()
        parts = uncertainty.rows, uncertainty.lengthscale, uncertainty.coefficients, uncertainty.root
        rows, lengthscale, coefficients, root = (part.double() for part in parts)
        self.kernel = uncertainty.kernel
        # The product is log₂ of an RBF, or the squared distance.
        unit = math.log2(math.e) if self.kernel == "rbf" else -2.0
        self.shape = num_outputs, num_rows = len(root), len(rows)
        root = nn.functional.pad(root, (0, -root.shape[-1] % _COLUMNS))
        weights = unit * lengthscale.pow(-2).unsqueeze(-2)
        near = rows - rows.mean(0)
        linear = weights * near
        of_plane = root.transpose(0, 1).flatten(1)
        self.num_columns = root.shape[-1]
        self.register_buffer("center", rows.mean(0))
        self.register_buffer("kernel_slopes", linear.reshape(num_outputs * num_rows, -1).T.contiguous())
        self.register_buffer("kernel_offsets", -0.5 * (linear * near).sum(-1).flatten())
        self.register_buffer("curvature", -0.5 * weights.squeeze(-2).T.contiguous())
        self.register_buffer("plane_slopes", of_plane[:-1].contiguous())
        self.register_buffer("plane_offsets", of_plane[-1].clone())
        self.register_buffer("coefficients", coefficients @ root)
        shape = uncertainty.shape
        self.register_buffer("exponent", None if shape is None else shape.double().reshape(-1, 1, 1))

    @property
    def numbers_per_row(self) -> int:
        """How many numbers a variance at one row takes while it is made."""
        return self.shape[0] * self.shape[1] + 2 * len(self.plane_offsets)

    def var(self, x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N P"]:
        """‖rootᵀh(x) − Σₖ kernel(x, xₖ) coefficients[p, k] root‖²."""
        if x.dim() > 2:
            return self.var(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], self.shape[0])
        cross = self.cross(x)
        plane = torch.addmm(self.plane_offsets, x, self.plane_slopes).view(x.shape[0], self.shape[0], self.num_columns)
        # Not `baddbmm`, which took 7.9 ms for 500 rows, 14 outputs and 200 reference rows where `bmm` took 1.6.
        return (plane.transpose(0, 1) - torch.bmm(cross, self.coefficients)).square().sum(-1).T

    def cross(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "P N K"]:
        """kernel(x, xₖ) of each output."""
        near = x - self.center
        product = torch.addmm(self.kernel_offsets, near, self.kernel_slopes).view(x.shape[0], *self.shape)
        product.add_((near.square() @ self.curvature).unsqueeze(-1))
        if self.kernel == "rbf":
            return product.exp2_().transpose(0, 1)
        value: Tensor = RADIALS[self.kernel].value(product.clamp_(min=0).transpose(0, 1), self.exponent)
        return value


class PathwisePlane(FrozenPlaneUncertainty):
    """A `PlaneUncertainty` with S deviations δ that were drawn, as functions: R(x)ᵀδ for each draw and output."""

    drawn: Tensor
    pull: Tensor

    def __init__(self, uncertainty: PlaneUncertainty, num_draws: int, generator: torch.Generator) -> None:
        super().__init__(uncertainty)
        root = uncertainty.root.double()
        numbers = standard_normal((len(root), root.shape[-1], num_draws), generator, like=root)
        self.register_buffer("drawn", (root @ numbers).permute(2, 0, 1).unsqueeze(1).contiguous())
        self.register_buffer("pull", uncertainty.coefficients.double().clone())

    def sample_joint(self, x: Float[Tensor, "S N D"], normals: Normals) -> Float[Tensor, "S N P"]:
        """R(x)ᵀδ of each draw at its own points."""
        # One product for all draws, not one for each: as many numbers, and no copies.
        taken = torch.bmm(self.cross(x.reshape(-1, x.shape[-1])), self.pull).transpose(0, 1)
        left = _features(x).unsqueeze(-2) - taken.reshape(*x.shape[:-1], *taken.shape[1:])
        product: Tensor = torch.linalg.vecdot(left, self.drawn)
        return product


def generalised_least_squares(
    x: Float[Tensor, "K D"],
    y: Float[Tensor, "K P"],
    observed: Bool[Tensor, "K P"],
    lengthscale: Float[Tensor, "P D"],
    outputscale: Float[Tensor, "P"],
    noise_var: Float[Tensor, "*K P"],
    prior_var: Float[Tensor, "P E"],
    shape: Float[Tensor, "P"] | None = None,
    kernel: str = "rbf",
    times: float = 1.0,
) -> tuple[Float[Tensor, "D P"], Float[Tensor, "P"], PlaneUncertainty]:
    """Slopes and bias of the posterior mean w̄ = times Σ HᵀV⁻¹y of a plane under a GP, and what is not known of it.

    The arguments are those of `PlaneUncertainty.of`, and outputs: anything, be it NaN, where they are not observed.

    Example:
        >>> x = torch.tensor([[-1.0], [0.0], [1.0]])
        >>> seen, one = torch.ones(3, 1, dtype=torch.bool), torch.ones(1)
        >>> weights, bias, _ = generalised_least_squares(
        ...     x, 2 * x + 1, seen, one[:, None], 0 * one, 1e-9 * one, torch.ones(1, 2)
        ... )
        >>> round(weights.item(), 3), round(bias.item(), 3)
        (2.0, 1.0)
    """
    solved = _solve(x, observed, _Correlation(kernel, lengthscale, shape), outputscale, noise_var, prior_var, times)
    known = times * torch.where(observed, y.double(), 0.0).T.unsqueeze(-1)
    mean = (solved.root @ (solved.root.mT @ (solved.features.mT @ known))).squeeze(-1)
    return mean[:, :-1].T.contiguous(), mean[:, -1].contiguous(), solved.uncertainty()


@dataclass(frozen=True)
class _Correlation:
    """k(‖(x − x′)/ℓ‖²) of each output."""

    kernel: str
    lengthscale: Float[Tensor, "P D"]
    shape: Float[Tensor, "P"] | None

    def double(self) -> "_Correlation":
        shape = None if self.shape is None else self.shape.detach().double().clone()
        return _Correlation(self.kernel, self.lengthscale.detach().double().clone(), shape)

    def __call__(self, x: Float[Tensor, "*S N D"], rows: Float[Tensor, "K D"]) -> Float[Tensor, "*S P N K"]:
        """Between each x and each row: about the mean row, as products of large coordinates would lose digits."""
        center = rows.mean(0)
        near = (x - center).unsqueeze(-3) / self.lengthscale.unsqueeze(-2)
        others = (rows - center) / self.lengthscale.unsqueeze(-2)
        squares = near.square().sum(-1, keepdim=True) + others.square().sum(-1).unsqueeze(-2)
        exponent = (near @ others.mT - 0.5 * squares).clamp_max(0.0)
        if self.kernel == "rbf":
            return exponent.exp()
        value: Tensor = RADIALS[self.kernel].value(
            -2 * exponent, None if self.shape is None else self.shape[:, None, None]
        )
        return value


@dataclass(frozen=True)
class _SolvedPlane:
    """V⁻¹H and the root of Σ, of each output."""

    rows: Float[Tensor, "K D"]
    correlation: _Correlation
    outputscale: Float[Tensor, "P"]
    features: Float[Tensor, "P K E"]
    root: Float[Tensor, "P E E"]

    def uncertainty(self) -> PlaneUncertainty:
        coefficients = self.outputscale[:, None, None] * self.features
        own = self.correlation
        return PlaneUncertainty(self.rows, own.lengthscale, coefficients, self.root, own.shape, own.kernel)


@torch.no_grad()
def _solve(
    x: Float[Tensor, "K D"],
    observed: Bool[Tensor, "K P"],
    correlation: _Correlation,
    outputscale: Float[Tensor, "P"],
    noise_var: Float[Tensor, "*K P"],
    prior_var: Float[Tensor, "P E"],
    times: float = 1.0,
) -> _SolvedPlane:
    x, outputscale, noise_var, prior_var = (part.detach().double() for part in (x, outputscale, noise_var, prior_var))
    correlation = correlation.double()
    hyperparameters = {"outputscale": outputscale, "noise_var": noise_var, "prior_var": prior_var}
    _require_sound(lengthscale=correlation.lengthscale, **hyperparameters)
    seen = observed.T
    noise = noise_var.expand(observed.shape).T
    # A row that was not observed is one of its own, with a plane of zeros and the variance 1.
    pairs = (seen.unsqueeze(-1) & seen.unsqueeze(-2)).double()
    signal = outputscale[:, None, None] * correlation(x, x) * pairs
    own = torch.where(seen, noise, 1.0)
    features = _features(x) * seen.unsqueeze(-1)
    factor = _cholesky(signal, own, outputscale)
    white = torch.linalg.solve_triangular(factor, features, upper=False)
    solved = torch.linalg.solve_triangular(factor.mT, white, upper=True)
    # Σ = A^½ (I + A^½ HᵀV⁻¹H A^½)⁻¹ A^½: sound for vague priors, and for those of variance 0.
    prior_scale = prior_var.sqrt().unsqueeze(-2)
    scaled = white * prior_scale
    identity = torch.eye(features.shape[-1], dtype=x.dtype, device=x.device).expand(len(seen), -1, -1)
    precision = torch.linalg.cholesky(identity + times * scaled.mT @ scaled)
    root = prior_scale.mT * torch.linalg.solve_triangular(precision.mT, identity, upper=True)
    return _SolvedPlane(x.clone(), correlation, outputscale, solved.contiguous(), root.contiguous())


def _cholesky(
    signal: Float[Tensor, "P K K"], own: Float[Tensor, "P K"], outputscale: Float[Tensor, "P"]
) -> Float[Tensor, "P K K"]:
    """Of V, with as little jitter as each output needs: inputs may repeat where noise is 0."""
    whole = signal + torch.diag_embed(own)
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(whole)
    for jitter in _JITTERS:
        if not failed.any():
            return factor
        extra = torch.where(failed > 0, jitter * outputscale, 0.0)
        again = torch.diag_embed(extra.unsqueeze(-1).expand_as(own))
        retried, still = torch.linalg.cholesky_ex(whole + again)
        factor = torch.where((failed > 0)[:, None, None], retried, factor)
        failed = torch.where(failed > 0, still, failed)
    if failed.any():
        raise NumericalError(
            f"The covariance of the rows must be positive definite; that of output {int(failed.argmax())} is not. "
            "Give it more noise."
        )
    return factor


def _features(x: Float[Tensor, "*S N D"]) -> Float[Tensor, "*S N E"]:
    """h(x) = (x, 1)."""
    return nn.functional.pad(x, (0, 1), value=1.0)


def _require_shapes(parts: dict[str, Tensor]) -> None:
    """Sizes that do not belong together would multiply, not fail, where tensors are broadcast."""
    rows, lengthscale = parts["rows"], parts["lengthscale"]
    if rows.dim() != 2 or lengthscale.dim() != 2:
        raise ShapeError(
            f"rows must be (K, D) and lengthscale (P, D); got {tuple(rows.shape)} and {tuple(lengthscale.shape)}. "
            "Make them with PlaneUncertainty.of."
        )
    (num_rows, num_inputs), num_outputs, size = rows.shape, len(lengthscale), rows.shape[1] + 1
    expected = {
        "lengthscale": (num_outputs, num_inputs),
        "coefficients": (num_outputs, num_rows, size),
        "root": (num_outputs, size, size),
    }
    for name, shape in expected.items():
        if tuple(parts[name].shape) != shape:
            raise ShapeError(
                f"{name} must be {shape}; got {tuple(parts[name].shape)}. Make it with PlaneUncertainty.of."
            )


def _require_sound(**parts: Tensor) -> None:
    for name, part in parts.items():
        least = "positive" if name == "lengthscale" else "0 or more"
        sound = (part > 0 if name == "lengthscale" else part >= 0) & part.isfinite()
        if not bool(sound.all()):
            raise ConfigError(f"{name} must be finite and {least}; got {part[~sound][0].item()}. Look at its estimate.")
