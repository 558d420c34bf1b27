"""Labels are rendered from fields, and a stored label gives the same fields back."""

import csv
from pathlib import Path

import pytest

from mogul.heads.noise import noise_varies
from mogul.lab.experiments.declarations import EXPERIMENTS
from mogul.lab.experiments.lines import Line, Variant, line, mixed_line
from mogul.registry import names

RESULTS = Path(__file__).parents[2] / "results"


def departures(one: Line) -> list[Line]:
    """The line with every noise, with and without the linear mean, another objective and restarts."""
    found = one.variants(linear=True, noises=names("noise"))
    found += [each.maximising("balanced") for each in found if noise_varies(each.noise)]
    return found + [each.mixed(4) for each in found if one.can_be_linear]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_label_gives_its_fields_back(experiment: str) -> None:
    for one in EXPERIMENTS[experiment].lines:
        for each in departures(one):
            assert Variant.parse(each.label) == each.variant


def test_a_mixture_of_models_gives_its_models_back() -> None:
    for each in departures(mixed_line([line("mogp"), line("n-sbgprn")])):
        found = Variant.parse(each.label)
        assert found == each.variant
        assert found.families == ("MOGP", "N-SBGPRN")
        assert found.is_mixture


def test_every_published_label_is_rendered_as_it_was() -> None:
    labels = set()
    for path in RESULTS.glob("*/results.csv"):
        with path.open(encoding="utf-8") as content:
            labels |= {(row["label"], row["kind"]) for row in csv.DictReader(content)}
    assert len(labels) > 40
    for label, kind in labels:
        assert Variant.parse(label, kind).label == label


@pytest.mark.parametrize("label", ["MOGP + linear, noise by hand", "a\nb", "MOGP × many starts", ""])
def test_an_unknown_label_is_kept_whole(label: str) -> None:
    assert Variant.parse(label) == Variant((label,))


def test_a_baseline_has_no_departures() -> None:
    assert Variant.parse("trees + linear", "baseline") == Variant(("trees + linear",))


def test_a_noise_of_a_users_own_has_its_name_in_the_label() -> None:
    assert Variant(("MOGP",), noise="polynomial").label == "MOGP + polynomial noise"
