"""Tables that are not of robots: columns go where they belong, and foreign files are refused."""

from pathlib import Path

import numpy as np
import pytest

from mogul.errors import DataError
from mogul.lab.datasets import files as tables

ARFF = """% a comment
@relation rivers
@attribute 'a b' numeric
@ATTRIBUTE c numeric

@data
1,2
?,4
"""


def put(folder: Path, place: str, text: str) -> None:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_arff_has_names_and_missing_values(tmp_path: Path) -> None:
    put(tmp_path, "x.arff", ARFF)
    table = tables.read_arff(tmp_path / "x.arff")
    assert list(table.columns) == ["a b", "c"]
    np.testing.assert_array_equal(table.to_numpy(), [[1.0, 2.0], [np.nan, 4.0]])


def test_a_category_has_a_column_for_each_kind(tmp_path: Path) -> None:
    put(tmp_path, "x.arff", "@attribute size {S, L}\n@attribute y numeric\n@data\nL, 1\n?, 2\nS, ?\n")
    table = tables.read_arff(tmp_path / "x.arff")
    assert list(table.columns) == ["size=S", "size=L", "y"]
    np.testing.assert_array_equal(table.to_numpy(), [[0, 1, 1], [np.nan, np.nan, 2], [1, 0, np.nan]])


def test_what_is_not_arff_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "x.arff", "a,b\n1,2\n")
    with pytest.raises(DataError, match="must be ARFF with an @data line"):
        tables.read_arff(tmp_path / "x.arff")


def test_rock_and_land_are_kinds_and_not_amounts(tmp_path: Path) -> None:
    header = "X,Y,Rock,Land,Cd,Cu,Pb,Co,Cr,Ni,Zn"
    put(tmp_path, "jura/jura.csv", f"{header}\n0.5,1.5,3,1,1,2,3,4,5,6,7\n0.25,2.5,1,1,8,9,10,11,12,13,14\n")
    data, groups = tables.read_jura(tmp_path)
    assert data.input_names == ["X", "Y", "Rock1", "Rock3", "Land1"]
    np.testing.assert_array_equal(data.x, [[0.5, 1.5, 0, 1, 1], [0.25, 2.5, 1, 0, 1]])
    np.testing.assert_array_equal(data.y, np.arange(1.0, 15.0).reshape(2, 7))
    np.testing.assert_array_equal(groups, [1, 1])


def test_a_table_without_the_columns_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "jura/jura.csv", "X,Y\n1,2\n")
    with pytest.raises(DataError, match="must have a column 'Rock'"):
        tables.read_jura(tmp_path)


def test_rows_without_all_inputs_are_left_out(tmp_path: Path) -> None:
    names = "".join(f"@attribute v{number} numeric\n" for number in range(10))
    rows = "1,2,3,4,5,6,7,8,9,10\n1,?,3,4,5,6,7,8,9,10\n1,2,3,4,5,6,7,8,9,?\n"
    put(tmp_path, "mulan-mtr/rf1.arff", f"@relation x\n{names}@data\n{rows}")
    data, groups = tables.read_rf1(tmp_path)
    assert (data.num_rows, data.num_inputs, data.num_outputs, data.num_missing) == (2, 2, 8, 1)
    assert len(groups) == 2


def test_the_groups_of_oil_flow_are_its_files(tmp_path: Path) -> None:
    for number, part in enumerate(tables.OIL_FLOW_PARTS):
        put(tmp_path, f"oil-flow/Data{part}.txt", f"{number} 1 2\n{number} 3 4\n")
        put(tmp_path, f"oil-flow/Data{part}Lbls.txt", "0 0 1\n1 0 0\n")
    data, groups = tables.read_oil_flow(tmp_path)
    assert (data.num_rows, data.num_inputs, data.num_outputs) == (6, 0, 3)
    np.testing.assert_array_equal(groups, [1, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(tables.read_oil_flow_classes(tmp_path), [2, 0] * 3)
