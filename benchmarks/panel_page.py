"""docs/panel.md from the records of the panel: every data set, and every row where mogul loses."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.panel_data import DATA
from mogul.comparison.rivals import RIVALS

MOGUL = "mogul"
_LABELS = {MOGUL: "**mogul**", "least-squares": "least squares"} | {name: rival.label for name, rival in RIVALS.items()}
# Whether more is better; coverage and seconds have no winner.
_HIGHER = {"ll": True, "crps": False, "energy": False, "arrmse": False, "score": False}
_NAMES = {"ll": "LL", "crps": "CRPS", "energy": "energy", "arrmse": "aRRMSE"}
Records = Sequence[Mapping[str, Any]]

_INTRODUCTION = """# The panel

Written by `python -m benchmarks panel` from `results/panel.csv`: `MultiOutputGPRegressor()` with no argument beside its
rivals, on the same rows. A record that is there is not measured again; what is missing is added by the same command
(`--data`, `--methods`, `--folds` choose), with the folder of the data in `MOGUL_DATA`.

LL is the log density of a held-out row over all its outputs; CRPS is per output, the energy score is the CRPS of whole
rows. These are in units of an output's standard deviation in training. aRRMSE is √(Σ squared error / Σ squared error
of the training mean), averaged over outputs. 95 % is the share of the truth inside bands of that probability, s the
seconds of fit and prediction by one thread on a machine with other work to do. LL: higher is better; CRPS, energy,
aRRMSE: lower. Numbers are means over the folds that a method has, of rows drawn at random (seed 7), ten for
Mulan's data (edm to osales, and those whose name begins with mulan), five for others; `-trajectories` holds out whole
trajectories.

Rivals: `extra trees` are 300 of leaf 2 with out-of-bag noise; `boosted trees` are scikit-learn's histogram boosting,
300 rounds, with noise from five folds. Up to 2,500 rows both have noise that is correlated across outputs by the rule
that mogul and least squares use. CatBoost (RMSEWithUncertainty) and NGBoost stop by a sixth of the rows; quantile
forests have a variance scaled by errors out of bag; scikit-learn's exact GPs and GPAR run up to 1,200 rows. These
have independent outputs, GPAR's given its draws. The packages come with `pip install 'mogul[rivals]'`; GPAR has the
outputs in the order of the file and one setting for all data, not the recipes of its authors.

Categories are columns of zeros and ones, and a missing input is the median in training with a column that says so.
"""

_CHOICES = """## Which choices were made on which data

- The default of mogul was chosen on Kuka, F-Baxter, BaxterRand, SARCOS' test file, Jura, EEG, rf1 and generated
  functions: see [The default](defaults.md). Some of its settings were compared on rows of these data, so that
  their rows here are not those of new data.
- Mulan's edm, atp1d, oes10, osales, scpf and sf2, and eeg337 and fx2007, had no part in that, as far as is recorded.
  `mulan-jura`, `mulan-rf1` and `jura-cd` hold the same measurements as Jura and rf1, with other columns.
- The forest's 300 trees of leaf 2 were chosen for recordings of robots. Boosting, CatBoost and NGBoost have rounds that
  were chosen by no data here. No method is tuned on a data set of this page, nor told its name.
- Published numbers are for other folds or by their authors' recipes: read them as reported.
"""


def panel_page(records: Records) -> str:
    """The whole page."""
    names = [name for name in DATA if any(record["data"] == name for record in records)]
    parts = [_INTRODUCTION, _losses(names, records)]
    parts += [_table(name, [record for record in records if record["data"] == name]) for name in names]
    notes = [
        f"- {each['data']}, fold {each['fold']}, {each['method']}: {each['note']}" for each in records if each["note"]
    ]
    if notes:
        parts.append("\n".join(["## What failed, and why", "", *notes]) + "\n")
    missing = [name for name in DATA if name not in names]
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}.\n")
    return "\n".join([*parts, _CHOICES])


def losses(name: str, records: Records) -> list[tuple[str, str, float, float, int]]:
    """Each rival and metric by which it is ahead of mogul on the folds that both have: rival, metric, both, folds."""
    own = {record["fold"]: record for record in records if record["data"] == name and record["method"] == MOGUL}
    found = []
    methods = dict.fromkeys(r["method"] for r in records if r["data"] == name and r["method"] != MOGUL)
    for method in methods:
        theirs = {r["fold"]: r for r in records if r["data"] == name and r["method"] == method}
        for metric, higher in _HIGHER.items():
            shared = [
                fold for fold in own.keys() & theirs if not any(math.isnan(r[fold][metric]) for r in (own, theirs))
            ]
            if not shared:
                continue
            us, them = (fmean(of[fold][metric] for fold in shared) for of in (own, theirs))
            if them > us if higher else them < us:
                found.append((method, metric, us, them, len(shared)))
    return found


def _losses(names: Sequence[str], records: Records) -> str:
    measured = [name for name in names if any(r["data"] == name and r["method"] == MOGUL for r in records)]
    lines = [
        "## Where mogul loses",
        "",
        "Every rival that is ahead by any score, however little, on the folds that both have.",
        "",
        "| data | rival | score | mogul | rival's | folds |",
        "|---|---|---|---|---|---|",
    ]
    for name in measured:
        for method, metric, us, them, folds in losses(name, records):
            title = _NAMES.get(metric, DATA[name].score_name)
            lines.append(f"| {name} | {_label(method)} | {title} | {_number(us)} | {_number(them)} | {folds} |")
    rest = [name for name in names if name not in measured]
    clean = [name for name in measured if not losses(name, records)]
    lines += ["", f"No rival that was run is ahead by any score on: {', '.join(clean) or 'none'}."]
    if rest:
        lines.append(f"mogul itself is not measured yet on: {', '.join(rest)}.")
    return "\n".join(lines) + "\n"


def _table(name: str, records: Records) -> str:
    data = DATA[name]
    of_score = [data.score_name] if data.score else []
    heads = ["method", "folds", *of_score, "LL", "CRPS", "energy", "aRRMSE", "95 %", "s"]
    lines = [f"## {name}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        own = [record for record in records if record["method"] == method and not record["note"]]
        if not own:
            continue
        means = {key: fmean(record[key] for record in own) for key in (*_HIGHER, "coverage", "seconds")}
        keys = [*(["score"] if data.score else []), "ll", "crps", "energy", "arrmse"]
        cells = [_label(method), str(len(own)), *(_number(means[key]) for key in keys)]
        rows.append((means["ll"], [*cells, f"{means['coverage']:.1%}", f"{means['seconds']:.0f}"]))
    lines += [f"| {' | '.join(cells)} |" for _, cells in sorted(rows, key=lambda row: -row[0])]
    if data.published:
        what = data.score_name or "aRRMSE"
        lines += ["", f"Published {what}: {data.published}."]
    return "\n".join(lines) + "\n"


def _label(method: str) -> str:
    return _LABELS.get(method, method)


def _number(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{'−' if value < 0 else ''}10^{math.floor(math.log10(abs(value)))}"
    return f"{value:,.3f}".replace("-", "−")
