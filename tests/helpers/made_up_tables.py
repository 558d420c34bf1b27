"""Made-up tables in layouts that users have: the Air Quality download, text and gaps, a row for each value."""

from pathlib import Path

import numpy as np
import pandas as pd

AIR_TARGETS = ["CO(GT)", "C6H6(GT)", "NOx(GT)", "NO2(GT)"]
_SENSORS = ["PT08.S1(CO)", "PT08.S2(NMHC)", "PT08.S3(NOx)", "PT08.S4(NO2)", "PT08.S5(O3)"]
_HEADER = ["Date", "Time", "CO(GT)", _SENSORS[0], "NMHC(GT)", "C6H6(GT)", _SENSORS[1], "NOx(GT)", _SENSORS[2]]
_HEADER += ["NO2(GT)", _SENSORS[3], _SENSORS[4], "T", "RH", "AH"]


def air_quality(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """Hours of sensors in a street, with NaN where nothing was measured."""
    rng = np.random.default_rng(seed)
    hours = pd.date_range("2004-03-10 18:00", periods=num_rows, freq="h")
    time = np.asarray(hours.hour, dtype=float)
    traffic = 1 + 0.6 * np.sin(2 * np.pi * (time - 8) / 24) + 0.2 * np.asarray(hours.day_of_week < 5, dtype=float)
    level = traffic * np.exp(0.3 * rng.standard_normal(num_rows))
    season = np.sin(2 * np.pi * np.asarray(hours.day_of_year) / 365)

    def measured(scale: float, slope: float, noise: float) -> np.ndarray:
        return scale * (1 + slope * (level - 1) + noise * rng.standard_normal(num_rows))

    warmth = 18 + 8 * season + 3 * np.sin(2 * np.pi * (time - 14) / 24) + rng.standard_normal(num_rows)
    frame = pd.DataFrame(
        {
            "Date": hours.strftime("%d/%m/%Y"),
            "Time": hours.strftime("%H.%M.%S"),
            "CO(GT)": np.maximum(measured(2.1, 0.9, 0.1), 0.1).round(1),
            "PT08.S1(CO)": measured(1100, 0.3, 0.03).round(),
            "NMHC(GT)": np.maximum(measured(220, 0.8, 0.2), 7).round(),
            "C6H6(GT)": np.maximum(measured(10, 0.9, 0.05), 0.1).round(1),
            "PT08.S2(NMHC)": measured(940, 0.4, 0.03).round(),
            "NOx(GT)": np.maximum(measured(247, 0.9, 0.15), 2).round(),
            "PT08.S3(NOx)": np.maximum(measured(835, -0.3, 0.04), 300).round(),
            "NO2(GT)": np.maximum(measured(113, 0.5, 0.1), 2).round(),
            "PT08.S4(NO2)": measured(1456, 0.2, 0.04).round(),
            "PT08.S5(O3)": measured(1023, 0.5, 0.06).round(),
            "T": warmth.round(1),
            "RH": (49 - 1.5 * (warmth - 18) + 5 * rng.standard_normal(num_rows)).round(1),
            "AH": (1.0 + 0.03 * (warmth - 18) + 0.05 * rng.standard_normal(num_rows)).round(4),
        }
    )
    broken = rng.random(num_rows) < 0.04  # sensors fail together
    for name in [*_SENSORS, "T", "RH", "AH", "C6H6(GT)"]:
        frame.loc[broken, name] = np.nan
    for name, share in {"CO(GT)": 0.18, "NMHC(GT)": 0.9, "NOx(GT)": 0.17, "NO2(GT)": 0.17}.items():
        frame.loc[rng.random(num_rows) < share, name] = np.nan
    return frame[_HEADER]


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "-200" if np.isnan(value) else f"{value:g}".replace(".", ",")


def write_air_quality(path: Path, num_rows: int, seed: int = 0, empty_rows: int = 114) -> pd.DataFrame:
    """As downloaded: semicolons, decimal commas, −200 for gaps, two empty columns, empty rows at the end."""
    frame = air_quality(num_rows, seed)
    cells = frame.map(_cell)
    lines = [";".join([*_HEADER, "", ""]), *(";".join([*row, "", ""]) for row in cells.to_numpy().tolist())]
    path.write_text("\r\n".join([*lines, *[";" * (len(_HEADER) + 1)] * empty_rows]) + "\r\n", encoding="utf-8")
    return frame


def text_and_gaps(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """Three columns of text, a flag, and gaps in the inputs: prices of made-up flats."""
    rng = np.random.default_rng(seed)
    towns = np.array([f"town {number:02d}" for number in range(14)])
    town = rng.integers(len(towns), size=num_rows)
    kind = rng.choice(["flat", "house", "room"], num_rows)
    heating = rng.choice(["gas", "oil", "heat pump", "wood"], num_rows)
    size = rng.uniform(20, 150, num_rows).round()
    lift = rng.random(num_rows) < 0.4
    offsets = rng.normal(0, 2, len(towns))
    rent = 5 + offsets[town] + 0.08 * size + 2 * (kind == "house") + 1.5 * lift + 0.3 * rng.standard_normal(num_rows)
    cost = 1 + 0.02 * size + (heating == "oil") + 0.2 * rng.standard_normal(num_rows)
    frame = pd.DataFrame({"town": towns[town], "kind": kind, "heating": heating, "size": size, "lift": lift})
    frame.loc[rng.random(num_rows) < 0.1, "size"] = np.nan
    frame.loc[rng.random(num_rows) < 0.1, "heating"] = None
    return frame.assign(rent=rent.round(3), cost=cost.round(3))


def long_table(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """A row for each value: three sensors at places of their own, some of them shared."""
    rng = np.random.default_rng(seed)
    parts = []
    places = rng.uniform(0, 10, (num_rows, 2)).round(3)
    for number, sensor in enumerate(["Cd", "Ni", "Zn"]):
        chosen = places[rng.random(num_rows) < 0.7]
        value = np.sin(chosen[:, 0] + number) + 0.1 * chosen[:, 1] + 0.1 * rng.standard_normal(len(chosen))
        parts.append(pd.DataFrame({"x": chosen[:, 0], "y": chosen[:, 1], "sensor": sensor, "value": value.round(4)}))
    return pd.concat(parts).sample(frac=1, random_state=seed).reset_index(drop=True)
