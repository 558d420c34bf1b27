"""The map from the paper to the code stays true."""

import re
from importlib import import_module
from pathlib import Path

import pytest

MAP = (Path(__file__).parents[1] / "docs" / "paper_map.md").read_text(encoding="utf-8")
PAPER = Path(__file__).parents[2] / "shared" / "paper" / "neural-likelihoods.tex"
NAMED = sorted(set(re.findall(r"`(mogul\.[\w.]+)`", MAP)))
# Every \label{eqn:…} of the paper, so that the list is checked where the paper itself is not at hand.
MODELS = ["mogp", "gprn", "dgp", "sbgprn", "nmogp", "nsbgprn", "ndgp", "mogplvm"]
INFERENCE = ["regressor", "regressorelbo", "regressorell", "meanvar", "nmogpmean", "nmogpvar"]
EQUATIONS = [*MODELS, *INFERENCE, "erfmean", "bivariate"]


def resolve(name: str) -> object:
    """Import the longest module prefix, then follow attributes."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("name", NAMED)
def test_each_function_of_the_map_exists(name: str) -> None:
    assert resolve(name) is not None


def test_a_wrong_name_would_be_found() -> None:
    with pytest.raises(AttributeError):
        resolve("mogul.models.no_such_model")


@pytest.mark.parametrize("equation", EQUATIONS)
def test_each_equation_is_mapped_to_a_function(equation: str) -> None:
    rows = [line for line in MAP.splitlines() if line.startswith(f"| eqn:{equation} |")]
    assert len(rows) == 1
    assert "`mogul." in rows[0]


def test_the_list_of_equations_is_the_papers() -> None:
    if not PAPER.exists():
        pytest.skip("the paper's source is not part of this repository")
    labels = re.findall(r"\\label\{eqn:(\w+)\}", PAPER.read_text(encoding="utf-8"))
    assert sorted(labels) == sorted(EQUATIONS)
