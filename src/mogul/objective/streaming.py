"""Streaming variational inference: q(u) learns new rows with the old posterior as its prior, without the old rows.

Bui, Nguyen and Turner (2017). Let a be function values at the old inducing points with q(a) = N(m_a, S_a) and b those
at the new ones. What the old rows said of a is q(a)/p(a), a Normal with the precision S_a⁻¹ − K_aa⁻¹. The bound is

    Σ E log p(y | f) + E log q(a)/p(a) − KL(q(b) ‖ p(b))        over q(b) p(f, a | b)

with sums over new rows alone. In whitened values v of b, with H = L_a⁻¹ K_ab L_b⁻ᵀ, a is L_a H v and a part that no
q(b) changes. With the old q(v_a) = N(m, S Sᵀ) the optimum has

    precision  I + Hᵀ((S Sᵀ)⁻¹ − I)H + Σ w A Aᵀ          A = L_b⁻¹ k(Z_b, x),   w = −2 ∂E log p/∂Var f
    mean       where the gradient of the bound is 0

For Normal noise and features that are the GPs themselves w is known, the bound is quadratic in the means of all GPs,
and one step by conjugate gradients is the optimum. Other models repeat it, as natural-gradient steps (Khan and Lin
2017), and shorten steps that lower the bound.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.errors import ConfigError
from mogul.heads.noise.laws import NoiseLaw, NormalLaw
from mogul.means.linear import LinearOutputMean
from mogul.means.plane import PlaneUncertainty
from mogul.means.regressor import RegressorMean
from mogul.models.model import Latent, Model
from mogul.objective.elbo import row_log_likelihood
from mogul.priors import IndependentGPs
from mogul.priors._frozen import whitening_of

# Steps at most, the gain in nats per row at which they end, and directions of conjugate gradients in each.
_MOST_STEPS, _LEAST_GAIN, _MOST_DIRECTIONS = 15, 1e-6, 30
_MOST_HALVINGS = 8
# Rows that the uncertainty of a plane learns from at a time and in all, as each costs time in predictions; and the
# share of the noise's variance from which on it matters.
_ROWS_OF_PLANE, _MOST_ROWS_OF_PLANE, _KNOWN = 100, 500, 0.01
# Nats that a row must tell to become a further inducing point, and to be looked at at all.
_WORTH, _LEAST_TOLD = 0.1, 1e-3


@dataclass(frozen=True)
class Belief:
    """q(v) of L GPs by precision and mean, in float64."""

    precision: Float[Tensor, "L M M"]
    mean: Float[Tensor, "L M"]

    def root(self) -> Float[Tensor, "L M M"]:
        """Lower triangular S with S Sᵀ the covariance."""
        # The inverse of an upper Cholesky factor's transpose is lower triangular.
        upper = torch.linalg.cholesky(self.precision.flip(-2, -1)).flip(-2, -1)  # precision = U Uᵀ
        identity = torch.eye(upper.shape[-1]).to(upper).expand_as(upper)
        lower: Tensor = torch.linalg.solve_triangular(upper, identity, upper=True).mT
        return lower


@dataclass(frozen=True)
class Streamed:
    """A model that has learnt new rows, how many steps it took, and which inducing points moved to new rows."""

    model: Model
    num_steps: int
    num_new_points: int


@torch.no_grad()
def stream(
    model: Model, batch: Batch, num_old: int | None = None, num_inducing: int | None = None, *, move: bool = True
) -> Streamed:
    """The model after new rows; the one given is left as it is.

    Args:
        model: with observed inputs and one layer of GPs.
        batch: the new rows, standardised as the old ones were.
        num_old: how many rows it knows, by which the noise level is learnt further; None leaves it as it is.
        num_inducing: the most inducing points; None for as many as there are.
        move: whether inducing points may move from where they are idle to where rows are new.
    """
    require_streamable(model)
    own, rows = deepcopy(model), _double(batch)
    gps = own.prior
    assert isinstance(gps, IndependentGPs)
    num_new = 0
    if move:
        points, num_new = points_after(model, rows, num_inducing or 0)
        gps.inducing_points = nn.Parameter(points.to(gps.inducing_points))
    exact = deepcopy(own).double().eval()
    problem = _Problem.of(model.prior, gps, exact, rows, changed=num_new > 0)  # type: ignore[arg-type]  # one layer
    belief, num_steps = problem.solve(exact, rows)
    if num_old:
        _learn_level(exact, problem, belief, rows, num_old)
        own.head.noise.log_precision.copy_(exact.head.noise.log_precision)
        problem = replace(problem, noise=_known_variance(exact.head.noise.forward(rows.x, torch.Generator())))
        belief, more = problem.solve(exact, rows, belief)
        num_steps += more
    gps.variational_mean = nn.Parameter(belief.mean.to(gps.variational_mean))
    gps.variational_root = nn.Parameter(belief.root().to(gps.variational_root))
    _narrow_plane(own, rows)
    return Streamed(own, num_steps, num_new)


def require_streamable(model: Model) -> None:
    """An error that names the remedy for models whose q(u) this cannot move."""
    if isinstance(model.inputs, Latent):
        raise ConfigError("An update needs observed inputs; this model infers its inputs. Fit anew with all rows.")
    if not isinstance(model.prior, IndependentGPs):
        raise ConfigError(
            "An update needs one layer of GPs; this model has a deep prior. Fit anew with all rows, or continue by "
            "gradient steps on old and new rows: partial_fit(X, y, epochs=…)."
        )


@dataclass(frozen=True)
class _Problem:
    """The bound as a function of q(v): a quadratic by the old posterior, and new rows through marginals of F."""

    precision: Float[Tensor, "L M M"]  # of the prior and the old rows
    linear: Float[Tensor, "L M"]
    cross: Float[Tensor, "L M N"]
    prior_mean: Float[Tensor, "N L"]
    prior_var: Float[Tensor, "L N"]
    noise: NoiseLaw

    @staticmethod
    def of(before: IndependentGPs, after: IndependentGPs, exact: Model, batch: Batch, *, changed: bool) -> "_Problem":
        old, new = deepcopy(before).double(), exact.prior
        assert isinstance(new, IndependentGPs)
        root = old.variational_root.tril()
        identity = torch.eye(root.shape[-1]).to(root).expand_as(root)
        inverse = torch.linalg.solve_triangular(root, identity, upper=False)
        precision = inverse.mT @ inverse
        linear = (precision @ old.variational_mean.unsqueeze(-1)).squeeze(-1)
        whitening = whitening_of(after, new)
        if changed:
            own = whitening_of(before, old)
            project = own @ _shared_covariance(old, new, own) @ whitening.mT
            learnt = project.mT @ _positive(precision - identity) @ project
            precision = learnt + torch.eye(learnt.shape[-1]).to(learnt)
            linear = (project.mT @ linear.unsqueeze(-1)).squeeze(-1)
        kzx = new.kernel(new.inducing_points, batch.x).to_dense()
        cross = (whitening @ kzx).expand(new.num_latents, -1, -1)
        white = 0.0 if new.log_white_noise is None else new.log_white_noise.exp().unsqueeze(-1)
        var = (new.kernel(batch.x.unsqueeze(0), diag=True) + white).expand(new.num_latents, -1)
        law = _known_variance(exact.head.noise.forward(batch.x, torch.Generator()))
        return _Problem(precision, linear, cross, new.mean(batch.x), var, law)

    def start(self) -> Belief:
        """q(v) before the new rows."""
        factor = torch.linalg.cholesky(self.precision)
        return Belief(self.precision, torch.cholesky_solve(self.linear.unsqueeze(-1), factor).squeeze(-1))

    def marginals(self, belief: Belief, covariance: Float[Tensor, "L M M"]) -> Marginals:
        """Of F at the new rows."""
        update = (belief.mean.unsqueeze(-2) @ self.cross).squeeze(-2)
        spread = (self.cross * (covariance @ self.cross)).sum(-2)
        var = self.prior_var - self.cross.square().sum(-2) + spread
        return Marginals(self.prior_mean + update.T, var.T.clamp_min(torch.finfo(var.dtype).tiny))

    def solve(self, model: Model, batch: Batch, start: Belief | None = None) -> tuple[Belief, int]:
        """The optimum, and the steps it took."""
        belief = self.start() if start is None else start
        covariance = _inverse(belief.precision)
        bound = self.bound(model, batch, belief, covariance)
        rate, halvings = 1.0, 0
        for step in range(1, _MOST_STEPS + 1):
            moved = self._step(model, batch, belief, covariance, rate)
            spread = _inverse(moved.precision)
            new = self.bound(model, batch, moved, spread)
            tolerance = _LEAST_GAIN * len(batch)
            if not new > bound - tolerance:  # NaN is no gain either
                rate, halvings = 0.5 * rate, halvings + 1
                if halvings > _MOST_HALVINGS:
                    return belief, step
                continue
            gain, belief, covariance, bound = new - bound, moved, spread, max(new, bound)
            if gain < tolerance:
                return belief, step
        return belief, _MOST_STEPS

    def _step(
        self, model: Model, batch: Batch, belief: Belief, covariance: Float[Tensor, "L M M"], rate: float
    ) -> Belief:
        """Precisions given the means, then the means given these."""
        _, of_var = self.slopes(model, batch, self.marginals(belief, covariance))
        weights = (-2 * of_var).clamp_min(0).T.unsqueeze(-2)
        target = self.precision + (self.cross * weights) @ self.cross.mT
        moved = Belief(torch.lerp(belief.precision, target, rate), belief.mean)
        mean = self._best_mean(model, batch, moved, _inverse(moved.precision))
        return replace(moved, mean=torch.lerp(belief.mean, mean, rate))

    def _best_mean(
        self, model: Model, batch: Batch, belief: Belief, covariance: Float[Tensor, "L M M"]
    ) -> Float[Tensor, "L M"]:
        """By conjugate gradients over all GPs, which share outputs, with each one's covariance as preconditioner.

        For a quadratic bound, the step that makes the slope along a direction 0 is exact.
        """
        q, mean = self.marginals(belief, covariance), belief.mean

        def slope_at(point: Float[Tensor, "L M"]) -> Float[Tensor, "L M"]:
            update = ((point - belief.mean).unsqueeze(-2) @ self.cross).squeeze(-2)
            of_mean, _ = self.slopes(model, batch, replace(q, mean=q.mean + update.T))
            of_rows = (self.cross @ of_mean.T.unsqueeze(-1)).squeeze(-1)
            return of_rows + self.linear - (self.precision @ point.unsqueeze(-1)).squeeze(-1)

        slope = slope_at(mean)
        towards = (covariance @ slope.unsqueeze(-1)).squeeze(-1)
        direction, size = towards, float((slope * towards).sum())
        enough = _LEAST_GAIN * len(batch)  # half of it is what a Newton step would gain
        for _ in range(_MOST_DIRECTIONS):
            if not size > enough:
                break
            along = float((slope * direction).sum())
            curvature = along - float((slope_at(mean + direction) * direction).sum())
            mean = mean + (along / curvature if curvature > 0 else 1.0) * direction
            before, slope = slope, slope_at(mean)
            towards = (covariance @ slope.unsqueeze(-1)).squeeze(-1)
            # Polak and Ribière's, never negative.
            share = max(0.0, float(((slope - before) * towards).sum()) / size)
            size, direction = float((slope * towards).sum()), towards + share * direction
        return mean

    def bound(self, model: Model, batch: Batch, belief: Belief, covariance: Float[Tensor, "L M M"]) -> float:
        """Up to a constant; NaN where the covariance is none."""
        quadratic = -0.5 * (belief.mean * (self.precision @ belief.mean.unsqueeze(-1)).squeeze(-1)).sum()
        quadratic = quadratic + (self.linear * belief.mean).sum() - 0.5 * (self.precision * covariance).sum()
        factor, info = torch.linalg.cholesky_ex(belief.precision)
        if bool((info > 0).any()):
            return math.nan
        log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum()
        return float(self._log_likelihood(model, batch, self.marginals(belief, covariance)) + quadratic - log_det)

    def slopes(self, model: Model, batch: Batch, q: Marginals) -> tuple[Float[Tensor, "N L"], Float[Tensor, "N L"]]:
        """Of the expected log likelihood by mean and variance of F at each row."""
        with torch.enable_grad():
            mean, var = (part.detach().clone().requires_grad_() for part in (q.mean, q.var))
            total = self._log_likelihood(model, batch, Marginals(mean, var))
            of_mean, of_var = torch.autograd.grad(total, (mean, var))
        return of_mean, of_var

    def _log_likelihood(self, model: Model, batch: Batch, q: Marginals) -> Float[Tensor, ""]:
        signal = model.head.moments(q, batch.x, torch.Generator())
        return row_log_likelihood(model, batch, signal, self.noise).sum()


def _known_variance(law: NoiseLaw) -> NoiseLaw:
    """Normal noise with the mean variance, where the variance is random.

    The bound weighs a row by the mean of its precision. Few new rows with next to no noise would outweigh all others:
    on Kuka, 200 rows of a new trajectory took its test log density from 65.7 to 56.0 so, and to 70.9 by the mean
    variance.
    """
    if not law.is_drawn:
        return law
    var = law.pooled_var()
    return NormalLaw(-var.log(), torch.zeros_like(var), torch.zeros_like(var[..., 0, :] if var.dim() > 1 else var))


def _inverse(precision: Float[Tensor, "L M M"]) -> Float[Tensor, "L M M"]:
    factor, info = torch.linalg.cholesky_ex(precision)
    if bool((info > 0).any()):
        return torch.full_like(precision, math.nan)
    return torch.cholesky_inverse(factor)


def _positive(symmetric: Float[Tensor, "L M M"]) -> Float[Tensor, "L M M"]:
    """Without directions in which q was wider than the prior: rounding, or what training had not yet learnt."""
    _, info = torch.linalg.cholesky_ex(symmetric + 1e-9 * torch.eye(symmetric.shape[-1]).to(symmetric))
    if not bool((info > 0).any()):
        return symmetric
    values, vectors = torch.linalg.eigh(symmetric)
    positive: Tensor = (vectors * values.clamp_min(0).unsqueeze(-2)) @ vectors.mT
    return positive


def _shared_covariance(
    old: IndependentGPs, new: IndependentGPs, whitening: Float[Tensor, "K M M"]
) -> Float[Tensor, "K M J"]:
    """K_ab, with the jitter of K_aa where a point stayed: so that H is the identity there."""
    cross: Tensor = old.kernel(old.inducing_points, new.inducing_points).to_dense()
    cross = cross.reshape(-1, *cross.shape[-2:])
    own = old.kernel(old.inducing_points, diag=True).reshape(-1, cross.shape[-2])
    jitter = torch.linalg.inv(whitening).square().sum(-1) - own
    size, added = own.shape[-1], new.inducing_points.shape[-2] - own.shape[-1]
    stayed = (old.inducing_points == new.inducing_points[..., :size, :]).all(-1).expand(len(cross), -1)
    return cross + nn.functional.pad(torch.diag_embed(torch.where(stayed, jitter, 0.0)), (0, added))


def _double(batch: Batch) -> Batch:
    return replace(batch, x=batch.x.double(), y=batch.y.double())


def _learn_level(model: Model, problem: _Problem, belief: Belief, batch: Batch, num_old: int) -> None:
    """1/β is a mean over rows: that of the old ones, of which it is the mean now, and of the new ones."""
    generator = torch.Generator()
    signal = model.head.moments(problem.marginals(belief, _inverse(belief.precision)), batch.x, generator)
    misfit = (
        model.head.noise.forward(batch.x, generator)
        .misfit(model.mean.residual(batch.y, batch.x), batch.observed, signal)
        .reshape(-1, *batch.y.shape)
    )
    count = batch.observed.sum(0)
    level = torch.exp(-model.head.noise.log_precision)
    total = num_old * level + (misfit.mean(0) * batch.observed).sum(0)
    model.head.noise.log_precision.copy_(-(total / (num_old + count)).log())


def _narrow_plane(model: Model, batch: Batch) -> None:
    """What new rows say of the plane under the GPs, where it is not known well beside the noise."""
    mean = model.mean.base if isinstance(model.mean, RegressorMean) else model.mean
    plane = mean.uncertainty if isinstance(mean, LinearOutputMean) else None
    if not isinstance(mean, LinearOutputMean) or not isinstance(plane, PlaneUncertainty):
        return
    exact, generator = deepcopy(model).double().eval(), torch.Generator()
    rows = batch.rows(torch.arange(0, len(batch), math.ceil(len(batch) / _ROWS_OF_PLANE)))
    noise = exact.noise_var(rows.x, generator)
    unknown = deepcopy(plane).double().var(rows.x)
    if len(plane.rows) > _MOST_ROWS_OF_PLANE or bool((unknown.mean(0) < _KNOWN * noise).all()):
        return
    # The GPs' own variance, the same for each row of a stationary kernel.
    fresh = deepcopy(exact.prior)
    assert isinstance(fresh, IndependentGPs)
    signal = exact.head.moments(_prior_marginals(fresh, rows.x), rows.x, generator)
    outputscale = (exact.mean.scale.square() * signal.var).mean(0)
    mean.uncertainty = plane.with_rows(rows.x, rows.observed, outputscale, noise)


def _prior_marginals(gps: IndependentGPs, x: Float[Tensor, "N D"]) -> Marginals:
    mean = gps.mean(x)
    return Marginals(mean, gps.kernel(x.unsqueeze(0), diag=True).T.expand(mean.shape))


@torch.no_grad()
def points_after(model: Model, batch: Batch, most: int) -> tuple[Float[Tensor, "*L M D"], int]:
    """Inducing points for old and new rows, and how many are new.

    Rows come in the order of what each would tell, in nats, given the points and the rows before it. While there are
    fewer than `most` points they are added; then each takes the place of the idlest point while it tells more.
    """
    exact, gps = deepcopy(model).double().eval(), model.prior
    assert isinstance(gps, IndependentGPs)
    problem = _Problem.of(gps, gps, exact, batch, changed=False)
    belief = problem.start()
    _, of_var = problem.slopes(exact, batch, problem.marginals(belief, _inverse(belief.precision)))
    assert isinstance(exact.prior, IndependentGPs)
    rows = _RowGains(exact.prior, batch.x, problem.cross, (-2 * of_var).clamp_min(0).T)
    points = gps.inducing_points.detach().double()
    shared = points.dim() == 2
    losses = _losses(whitening_of(gps, exact.prior), belief.precision)
    num_points, room = points.shape[-2], max(0, most - points.shape[-2])
    each = [slice(None)] if shared else [slice(latent, latent + 1) for latent in range(gps.num_latents)]
    picks = [rows.greedy(own, room + num_points // 2) for own in each]
    # Each GP has as many points.
    num_added = min(room, max(sum(gain > _WORTH for _, gain in own) for own in picks), *map(len, picks))
    found, num_new = [], 0
    for own, of_own in zip(each, picks, strict=True):
        old, loss = points if shared else points[own][0], losses[own].sum(0)
        pairs = zip(loss.argsort()[: num_points // 2], of_own[num_added:], strict=False)
        swaps = [(place, row) for place, (row, gain) in pairs if gain > loss[place]]
        kept = old.clone()
        for place, row in swaps:
            kept[place] = batch.x[row]
        found.append(torch.cat([kept, batch.x[[row for row, _ in of_own[:num_added]]]]))
        num_new += num_added + len(swaps)
    return found[0] if shared else torch.stack(found), num_new


def _losses(whitening: Float[Tensor, "K M M"], precision: Float[Tensor, "L M M"]) -> Float[Tensor, "L M"]:
    """Nats that rows told about each value, beyond what the values at other points say: ½ log(1 + c P).

    c is the prior's variance of a value given all others, P what the data added to its precision.
    """
    inverse = whitening.mT @ whitening
    identity = torch.eye(precision.shape[-1]).to(precision)
    learnt = (whitening.mT @ (precision - identity) @ whitening).diagonal(dim1=-2, dim2=-1)
    return 0.5 * torch.log1p(learnt.clamp_min(0) / inverse.diagonal(dim1=-2, dim2=-1))


@dataclass(frozen=True)
class _RowGains:
    """What rows would tell as inducing points: ½ log(1 + c w), c their prior variance given the points."""

    gps: IndependentGPs
    x: Float[Tensor, "N D"]
    cross: Float[Tensor, "L M N"]
    weights: Float[Tensor, "L N"]

    def greedy(self, own: slice, most: int) -> list[tuple[int, float]]:
        """Rows and their gains, each given those before it, by a pivoted Cholesky factor of what is left."""
        cross, weights, kernel = self.cross[own], self.weights[own], self.gps.kernel
        left = kernel(self.x.unsqueeze(0), diag=True).expand(len(self.cross), -1)[own]
        left = (left - cross.square().sum(-2)).clamp_min(0)
        picks: list[tuple[int, float]] = []
        taken: list[Tensor] = []
        for _ in range(min(most, len(self.x))):
            gains = 0.5 * torch.log1p(left * weights).sum(0)
            best = int(gains.argmax())
            gain, pivot = float(gains[best]), left[:, best : best + 1]
            if gain < _LEAST_TOLD:
                break
            between = kernel(self.x, self.x[best : best + 1]).to_dense().reshape(-1, len(self.x))
            between = between.expand(len(self.cross), -1)[own]
            column = between - (cross.mT @ cross[:, :, best].unsqueeze(-1)).squeeze(-1)
            for known in taken:
                column = column - known * known[:, best : best + 1]
            column = torch.where(pivot > 0, column / pivot.sqrt(), 0.0)
            taken.append(column)
            left = (left - column.square()).clamp_min(0)
            left[:, best] = 0
            picks.append((best, gain))
        return picks
