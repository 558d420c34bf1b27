"""Forests and boosted trees as plain arrays, which predict what scikit-learn predicts, bit for bit."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from torch import Tensor, nn

from mogul._typing import Array, BoolArray, IntArray
from mogul.errors import FileError

_FORESTS = (ExtraTreesRegressor, RandomForestRegressor)
_ARRAYS = ("columns", "roots", "feature", "threshold_bits", "below", "value_bits", "baseline_bits", "kind")


class TreeSum(nn.Module):
    """(baseline + Σₜ tree t(x)) / divisor for some of the outputs.

    Inner nodes of all trees are numbered together, and so are leaves. A child c ≥ 0 is an inner node, c < 0 is leaf
    −1 − c. Float64 numbers are stored by their bits, as int64: a change of the model's precision leaves them alone.

    Args:
        columns: the C outputs that these trees predict.
        roots: of the T trees.
        feature: the input that each of I inner nodes looks at.
        threshold_bits: inputs up to this go left.
        below: left and right child.
        value_bits: of each of the L leaves.
        baseline_bits: what the sum begins with.
        kind: the divisor, and 1 where inputs are rounded to float32 before they are compared, as forests do.

    Example:
        >>> x = np.arange(8.0)[:, None]
        >>> forest = RandomForestRegressor(3, random_state=0).fit(x, x[:, 0] ** 2)
        >>> trees = TreeSum.of(forest, np.array([0]))
        >>> bool((trees(torch.as_tensor(x))[:, 0].numpy() == forest.predict(x)).all())
        True
    """

    columns: Tensor
    roots: Tensor
    feature: Tensor
    threshold_bits: Tensor
    below: Tensor
    value_bits: Tensor
    baseline_bits: Tensor
    kind: Tensor

    def __init__(
        self,
        columns: Int[Tensor, "C"],
        roots: Int[Tensor, "T"],
        feature: Int[Tensor, "I"],
        threshold_bits: Int[Tensor, "I"],
        below: Int[Tensor, "I 2"],
        value_bits: Int[Tensor, "L C"],
        baseline_bits: Int[Tensor, "C"],
        kind: Int[Tensor, "2"],
    ) -> None:
        super().__init__()
        arrays = (columns, roots, feature, threshold_bits, below, value_bits, baseline_bits, kind)
        _require_kinds(columns, baseline_bits, value_bits, kind, (roots, feature, threshold_bits, below))
        _require_trees(roots, feature, threshold_bits, below, value_bits)
        for name, array in zip(_ARRAYS, arrays, strict=True):
            self.register_buffer(name, array)
        # Plain numbers, which torch.export takes for constants.
        self.divisor, self.rounded = int(kind[0]), bool(kind[1])
        self.depth = _depth(roots.numpy(), below.numpy())

    @staticmethod
    def of(regressor: Any, columns: Int[IntArray, "C"]) -> "TreeSum":
        """The trees of a fitted forest or of fitted boosting: see `has_arrays`."""
        if isinstance(regressor, _FORESTS):
            trees = [_forest_tree(tree.tree_) for tree in regressor.estimators_]
            return _joined(columns, trees, np.zeros(len(columns)), len(trees), rounded=True)
        trees = [_boosting_tree(tree.nodes) for (tree,) in regressor._predictors]
        return _joined(columns, trees, np.ravel(regressor._baseline_prediction), 1, rounded=False)

    @staticmethod
    def constant(values: Float[Array, "C"], columns: Int[IntArray, "C"]) -> "TreeSum":
        """No trees."""
        return _joined(columns, [], values, 1, rounded=False)

    @staticmethod
    def stored(state: dict[str, Tensor], prefix: str) -> "TreeSum":
        """From the tensors of a model file."""
        return TreeSum(*(state[prefix + name] for name in _ARRAYS))

    def only(self, wanted: Bool[BoolArray, "P"]) -> "TreeSum":
        """The same trees, which predict zero for all but the wanted outputs."""
        columns = self.columns.numpy()
        if not wanted[columns].any():
            return TreeSum.constant(np.zeros(len(columns)), columns)
        arrays = {name: getattr(self, name).clone() for name in _ARRAYS}
        for name in ("value_bits", "baseline_bits"):
            arrays[name][..., ~wanted[columns]] = 0  # the bits of 0.0
        return TreeSum(*arrays.values())

    @property
    def used(self) -> Int[IntArray, "U"]:
        """The outputs that are not zero for every input."""
        bits = torch.cat([self.value_bits, self.baseline_bits.unsqueeze(0)])
        used: IntArray = self.columns.numpy()[(bits != 0).any(0).numpy()]
        return used

    @property
    def numbers_per_row(self) -> int:
        """How many numbers the trees hold for each row: nodes, inputs and thresholds of each tree."""
        return 4 * len(self.roots) + len(self.columns)

    @torch.no_grad()
    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N C"]:
        """In float64, summed in scikit-learn's order."""
        inputs = x.float() if self.rounded else x
        threshold, values = self.threshold_bits.view(torch.float64), self.value_bits.view(torch.float64)
        flat = inputs.double().flatten()
        rows = x.shape[1] * torch.arange(len(x), device=x.device)
        children = self.below.flatten()
        node = self.roots.long().unsqueeze(-1).expand(-1, len(x))
        for _ in range(self.depth):
            inner = node.clamp_min(0)
            right = flat[rows + self.feature[inner]] > threshold[inner]
            node = torch.where(node < 0, node, children[2 * inner + right].long())
        total = self.baseline_bits.view(torch.float64).expand(len(x), -1).clone()
        for leaves in -1 - node:
            total += values[leaves]
        return total / self.divisor


class TraceableTrees(nn.Module):
    """The same sums for `torch.export`: float64 numbers in place of bits, which ONNX cannot decode, and one sum."""

    def __init__(self, trees: TreeSum) -> None:
        super().__init__()
        # Plain attributes: buffers would follow the model's precision.
        self.threshold = trees.threshold_bits.view(torch.float64).clone()
        self.values = trees.value_bits.view(torch.float64).clone()
        self.baseline = trees.baseline_bits.view(torch.float64).clone()
        self.roots, self.below = trees.roots.long(), trees.below.flatten().long()
        self.feature = trees.feature.long()
        self.depth, self.divisor, self.rounded = trees.depth, trees.divisor, trees.rounded

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N C"]:
        """In float64; rows are (N, T) of trees, node by node."""
        inputs = (x.float() if self.rounded else x).double()
        node = self.roots.expand(x.shape[0], -1)
        for _ in range(self.depth):
            inner = node.clamp_min(0)
            right = inputs.gather(1, self.feature[inner]) > self.threshold[inner]
            node = torch.where(node < 0, node, self.below[2 * inner + right])
        total = self.values[-1 - node].sum(1) if self.roots.numel() else 0.0
        result: Tensor = (self.baseline + total) / self.divisor
        return result.expand(x.shape[0], -1)


def has_arrays(regressor: Any) -> bool:
    """Whether a fitted or unfitted regressor can be stored as arrays."""
    if type(regressor) in _FORESTS:
        return True
    if type(regressor) is not HistGradientBoostingRegressor:
        return False
    # Other losses have links, and categories have bitsets.
    return regressor.loss in ("squared_error", "absolute_error") and regressor.categorical_features in (
        None,
        "from_dtype",
    )


Tree = tuple[IntArray, Array, IntArray, IntArray, Array]


def _forest_tree(tree: Any) -> Tree:
    """Feature, threshold, left, right (−1 at leaves) and values of all nodes."""
    return tree.feature, tree.threshold, tree.children_left, tree.children_right, tree.value[:, :, 0]


def _boosting_tree(nodes: Any) -> Tree:
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    return nodes["feature_idx"].astype(np.int64), nodes["num_threshold"], left, right, nodes["value"][:, None]


def _joined(
    columns: Int[IntArray, "C"], trees: list[Tree], baseline: Float[Array, "C"], divisor: int, *, rounded: bool
) -> TreeSum:
    """Number inner nodes and leaves of all trees, in the order of the trees."""
    roots, features, thresholds, children, values = [], [], [], [], []
    num_inner = num_leaves = 0
    for feature, threshold, left, right, value in trees:
        leaf = left < 0
        number = np.where(leaf, -1 * np.cumsum(leaf) - num_leaves, np.cumsum(~leaf) - 1 + num_inner)
        roots.append(number[0])
        features.append(feature[~leaf])
        thresholds.append(threshold[~leaf])
        children.append(np.stack([number[left[~leaf]], number[right[~leaf]]], axis=1))
        values.append(value[leaf])
        num_inner, num_leaves = num_inner + int((~leaf).sum()), num_leaves + int(leaf.sum())
    return TreeSum(
        torch.as_tensor(columns),
        torch.as_tensor(np.array(roots, dtype=np.int32)),
        torch.as_tensor(np.concatenate([np.empty(0), *features]).astype(np.int32)),
        _bits(np.concatenate([np.empty(0), *thresholds])),
        torch.as_tensor(np.concatenate([np.empty((0, 2)), *children]).astype(np.int32)),
        _bits(np.concatenate([np.empty((0, len(columns))), *values])),
        _bits(baseline),
        torch.tensor([divisor, int(rounded)]),
    )


def _bits(values: Array) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float64)).view(torch.int64)


def _depth(roots: IntArray, children: IntArray) -> int:
    """The most inner nodes on a way from a root to a leaf."""
    depth, level = 0, roots[roots >= 0]
    while len(level):
        below = children[level].ravel()
        depth, level = depth + 1, below[below >= 0]
    return depth


def _require_kinds(columns: Tensor, baseline: Tensor, values: Tensor, kind: Tensor, nodes: tuple[Tensor, ...]) -> None:
    """Types and sizes, and finite values; thresholds may be infinite."""
    roots, feature, threshold, below = nodes
    wide = (columns, threshold, values, baseline, kind)
    sound = (
        all(each.dtype == torch.int64 for each in wide)
        and all(each.dtype == torch.int32 for each in (roots, feature, below))
        and all(each.dim() == 1 for each in (columns, roots, feature, threshold, baseline))
        and values.dim() == below.dim() == 2
        and len(columns) == len(baseline) == values.shape[1]
        and kind.shape == (2,)
        and int(kind[0]) > 0
        and all(bool(torch.isfinite(each.view(torch.float64)).all()) for each in (values, baseline))
    )
    if not sound:
        raise FileError(
            f"Trees must be arrays of their types and sizes; these {len(columns)} outputs' are not. "
            "Do not trust this file."
        )


def _require_trees(roots: Tensor, feature: Tensor, threshold: Tensor, children: Tensor, values: Tensor) -> None:
    """Children come after their parents and no node has two parents, so that every way ends at a leaf."""
    num_inner = len(feature)
    below, after = children.flatten(), torch.arange(num_inner).repeat_interleave(2)
    inner = torch.cat([roots, below[below >= 0]])
    inner = inner[inner >= 0]
    sound = (
        children.shape == (num_inner, 2)
        and len(threshold) == num_inner
        and bool(((below < 0) | (below > after)).all())
        and len(np.unique(inner.numpy())) == len(inner)
        and bool((inner < num_inner).all())
        and bool((torch.cat([roots, below]) >= -len(values)).all())
        and bool((feature >= 0).all())
    )
    if not sound:
        raise FileError(f"Trees must lead from roots to leaves; these {len(roots)} do not. Do not trust this file.")
