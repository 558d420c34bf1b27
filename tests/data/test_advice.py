"""What is said of data before they are trained on, and that training takes no harm from it."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mogul import Dataset, MultiOutputGPRegressor, TrainingConfig, fit
from mogul.data.advice import advice, row_advice
from mogul.errors import MogulWarning
from mogul.training import Stopping

NAN = float("nan")
RNG = np.random.default_rng(0)
A, B, C = RNG.standard_normal((3, 30))
QUICK = TrainingConfig(epochs=40, num_starts=1)


def found(x: dict[str, Any], y: dict[str, Any], **num_inducing: int) -> dict[str, tuple[str, ...]]:
    data = Dataset(pd.DataFrame(x), pd.DataFrame(y, index=range(len(A))))
    findings = advice(data, num_inducing)
    assert len({finding.rule for finding in findings}) == len(findings)
    return {finding.rule: finding.columns for finding in findings}


SPARSE = np.where(np.arange(30) % 9, NAN, C)  # four values


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ({"a": A, "b": B}, {"c": C}, {}),
        ({"a": A, "b": 7.0}, {"c": C}, {"constant input": ("b",)}),
        ({"a": A, "b": 0.0, "c": 0.1 + 0.2}, {"c": C}, {"constant input": ("b", "c")}),
        ({"a": A, "b": A}, {"c": C}, {"duplicate input": ("b",)}),
        (
            {"a": A, "b": B, "c": B, "d": A, "e": 1.0},
            {"c": C},
            {"constant input": ("e",), "duplicate input": ("c", "d")},
        ),
        ({"a": A, "b": 2 * A + 3}, {"c": C}, {"collinear inputs": ("a", "b")}),
        ({"a": A, "b": B, "c": C, "d": A - 3 * C}, {"c": C}, {"collinear inputs": ("a", "c", "d")}),
        ({"a": A, "b": A + 1e-3 * B}, {"c": C}, {}),
        ({"a": A, "b": 1e-7 * B}, {"c": C}, {"scales of inputs": ("b", "a")}),
        ({"a": A, "b": 1e-5 * B}, {"c": C}, {}),
        ({"a": 1e9 + A, "b": B}, {"c": C}, {}),
        ({"a": 1e13 + A, "b": B}, {"c": C}, {"input near rounding": ("a",)}),
        ({"a": 1e13 + A, "b": 1e13}, {"c": C}, {"constant input": ("b",), "input near rounding": ("a",)}),
        ({"a": A}, {"b": B, "c": 1e13 + C}, {"output near rounding": ("c",)}),
        ({"a": A}, {"b": 42.0, "c": C}, {"constant output": ("b",)}),
        ({"a": A}, {"b": np.where(A > 0, NAN, 42.0), "c": C}, {"constant output": ("b",)}),
        ({"a": A}, {"b": B, "c": B}, {"duplicate output": ("c",)}),
        ({"a": A}, {"b": np.where(A > 0, NAN, B), "c": np.where(A > 0, NAN, B)}, {"duplicate output": ("c",)}),
        ({"a": A}, {"b": B, "c": SPARSE}, {"few values": ("c",)}),
        ({"a": A}, {"b": B, "c": np.where(np.arange(30) == 4, 5.0, NAN)}, {"few values": ("c",)}),
        ({"a": A}, {"b": 1e4 * B, "c": 1e-4 * C}, {"scales of outputs": ("c", "b")}),
    ],
)
def test_each_oddity_is_found_once_with_its_columns(x: Any, y: Any, expected: Any):
    assert found(x, y) == expected


def test_few_rows_are_no_few_values_and_have_no_relations():
    assert advice(Dataset(RNG.standard_normal((5, 8)), RNG.standard_normal((5, 2)))) == []


def test_without_inputs_there_is_nothing_to_say_of_them():
    assert advice(Dataset(None, np.column_stack([A, B]))) == []
    assert [each.rule for each in advice(Dataset(None, np.column_stack([A, B])), {"num_inducing": 31})] == [
        "fewer rows than num_inducing"
    ]


@pytest.mark.parametrize(
    ("num_copies", "asked", "lowered"), [(1, 30, None), (1, 31, 30), (3, 30, None), (3, 50, 30), (3, 100, 30)]
)
def test_inducing_points_are_compared_with_different_rows(num_copies: int, asked: int, lowered: int | None):
    data = Dataset(np.tile(A, num_copies)[:, None], np.tile(B, num_copies)[:, None])
    messages = [finding.message for finding in advice(data, {"num_inducing": asked})]
    expected = (
        f"num_inducing should be at most the number of different rows, 30; got {asked}. Lowered to 30, one for each."
    )
    assert messages == ([] if lowered is None else [expected])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MogulWarning)
        fitted = fit(
            data, model="mogp", config=TrainingConfig(epochs=1, num_starts=1), noise="constant", num_inducing=asked
        )
    assert len(fitted.model.prior.inducing_points) == min(asked, 30)


@pytest.mark.parametrize(
    ("x", "y", "rules"),
    [
        (A, B, []),
        (A[:4], B[:4], ["few rows"]),
        (A[:5], B[:5], []),
        (np.append(A, A[:2]), np.append(B, B[:2]), []),  # 2 of 32
        (np.append(A, A[:4]), np.append(B, B[:4]), ["copied rows"]),  # 4 of 34
        (np.append(A, A[:4]), np.append(B, C[:4]), []),  # measured twice, with different results
        (np.tile(A, 2), np.tile(SPARSE, 2), ["copied rows"]),  # a missing value is one as well
    ],
)
def test_rows_should_be_several_and_their_own(x: np.ndarray, y: np.ndarray, rules: list[str]):
    assert [finding.rule for finding in row_advice(Dataset(x[:, None], y[:, None]))] == rules


def test_messages_have_rule_value_and_remedy():
    x = {f"x{number}": A for number in range(7)}
    (finding,) = advice(Dataset(pd.DataFrame(x), B[:, None]))
    assert finding.message.startswith(
        "Inputs should differ from each other; 'x1', 'x2', 'x3', 'x4' and 2 more repeat another. Kept, and harmless"
    )
    (finding,) = advice(Dataset(A[:, None], pd.DataFrame({"b": B, "c": SPARSE})))
    assert "; 'c' has 4 of 30. It can be learnt only through the other outputs" in finding.message
    (finding,) = advice(Dataset(pd.DataFrame({"a": A, "b": 7.0}), B[:, None]))
    assert finding.message.startswith("Inputs should vary; 'b' holds one value in all rows. Kept")
    (finding,) = advice(Dataset(A[:, None], pd.DataFrame({"b": B, "c": 1e13 + B})))
    assert finding.message == (
        "Outputs should vary by more than rounding; 'c' varies by less than 1e-12 of the values' size. "
        "Centred, and not scaled: subtract a constant from it first."
    )


class TestFit:
    """Said once for each fit, and no harm done."""

    def said(self, x: Any, y: Any, name: str = "n-mogp", config: TrainingConfig = QUICK, **options: Any) -> Any:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            fitted = fit(
                Dataset(pd.DataFrame(x), pd.DataFrame(y)),
                model=name,
                config=config,
                **({"noise": "constant"} | options),
            )
        assert all(each.category is MogulWarning for each in said)
        return fitted, [str(each.message).partition(";")[0] for each in said]

    def test_each_is_a_warning(self):
        config = TrainingConfig(epochs=1, num_starts=3, start_epochs=1)
        _, said = self.said({"a": A, "b": A, "c": 1.0}, {"b": B}, config=config, num_inducing=99)
        assert said == [
            "Inputs should vary",
            "Inputs should differ from each other",
            "num_inducing should be at most the number of different rows, 30",
        ]

    def test_copies_and_few_rows_are_warned_of_but_not_weights(self):
        _, said = self.said({"a": np.tile(A[:2], 2)}, {"b": np.tile(B[:2], 2)}, "mogp")
        assert said == ["There should be at least 5 rows", "Rows should be separate measurements"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            MultiOutputGPRegressor("mogp").fit(A[:, None], B, sample_weight=np.full(30, 2))

    def test_the_default_number_of_inducing_points_is_lowered_without_a_word(self):
        _, said = self.said({"a": A}, {"b": B}, config=TrainingConfig(epochs=1, num_starts=1))
        assert said == []

    def test_a_constant_input_changes_nothing_to_speak_of(self):
        fitted, said = self.said({"a": A, "b": 3.0}, {"c": np.sin(A)})
        assert said == ["Inputs should vary"]
        assert fitted.evaluate(Dataset(pd.DataFrame({"a": A, "b": 3.0}), np.sin(A)[:, None])).mrmse < 0.3

    @pytest.mark.parametrize("mean", ["linear", "paper"])
    @pytest.mark.parametrize("name", ["mogp", "n-sbgprn"])
    def test_a_constant_output_is_predicted_as_its_value(self, name: str, mean: Any):
        fitted, said = self.said({"a": A}, {"b": 42.0, "c": np.sin(A)}, name, mean=mean)
        assert said == ["Outputs should vary"]
        prediction = fitted.predict([[0.0], [10.0]])
        assert np.abs(prediction.mean[:, 0] - 42.0).max() < 0.5
        # The noise starts at 1, and ten epochs of Adam without a plane have only begun to lower it.
        assert prediction.std[:, 0].max() < (0.5 if mean == "linear" else 1.0)

    def test_only_rows_that_are_trained_on_count(self):
        config = TrainingConfig(epochs=1, num_starts=1, stopping=Stopping(held_out=0.5))
        _, said = self.said({"a": A}, {"b": B}, config=config, num_inducing=20)
        assert said == ["num_inducing should be at most the number of different rows, 15"]
