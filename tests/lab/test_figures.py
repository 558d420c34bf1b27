"""Figures, drawn without a screen."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from mogul.lab.experiments.synthetic import Slice, synthetic_figure
from mogul.plot.style import save_figure


@pytest.fixture
def slices() -> dict[str, Slice]:
    radius = np.linspace(0, 1.5, 31)
    truth = np.cos(4 * radius)
    wide = Slice(radius, truth, 0.9 * truth, truth - 0.7, truth + 0.6)
    return {"mogp": wide, "n-mogp": Slice(radius, truth, truth, truth - 0.1, truth + 0.1)}


def test_each_model_has_a_panel_with_its_name(slices):
    panels = synthetic_figure(slices).axes
    assert [panel.get_title(loc="left") for panel in panels] == ["MOGP", "N-MOGP"]
    assert panels[-1].get_xlabel() == "distance ‖x‖ from the origin"


def test_mean_and_truth_are_drawn_as_given(slices):
    for panel, line in zip(synthetic_figure(slices).axes, slices.values(), strict=True):
        drawn = {curve.get_label(): curve for curve in panel.get_lines()}
        np.testing.assert_array_equal(drawn["predicted mean"].get_ydata(), line.mean)
        np.testing.assert_array_equal(drawn["truth"].get_ydata(), line.truth)
        np.testing.assert_array_equal(drawn["truth"].get_xdata(), line.radius)


def test_the_band_lies_between_low_and_high(slices):
    for panel, line in zip(synthetic_figure(slices).axes, slices.values(), strict=True):
        band = next(part for part in panel.collections if part.get_label() == "10–90 %")
        corners = band.get_paths()[0].vertices
        assert corners[:, 1].min() == pytest.approx(line.low.min())
        assert corners[:, 1].max() == pytest.approx(line.high.max())


def test_the_legend_names_all_that_is_drawn(slices):
    legend = synthetic_figure(slices).axes[0].get_legend()
    labels = {text.get_text() for text in legend.get_texts()}
    assert labels == {"10–90 %", "predicted mean", "truth", "no data: extrapolation"}


def test_one_model_is_enough(slices):
    assert len(synthetic_figure({"mogp": slices["mogp"]}).axes) == 1


def test_a_figure_is_saved_as_png_and_svg(slices, tmp_path: Path):
    folder = tmp_path / "new" / "folder"
    paths = save_figure(synthetic_figure(slices), folder, "rays")
    assert paths == [folder / "rays.png", folder / "rays.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG\r\n")
    assert ET.parse(paths[1]).getroot().tag.endswith("svg")


def test_saving_again_replaces_what_was_there(slices, tmp_path: Path):
    save_figure(synthetic_figure({"mogp": slices["mogp"]}), tmp_path, "rays")
    before = (tmp_path / "rays.png").read_bytes()
    save_figure(synthetic_figure(slices), tmp_path, "rays")
    assert (tmp_path / "rays.png").read_bytes() != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rays.png", "rays.svg"]
