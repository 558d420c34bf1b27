"""Which model? Ask the data: cross-validation with scikit-learn, and a linear model in the race.

python examples/cross_validation.py
"""

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import mogul


def main(num_rows: int = 200, epochs: int | None = None, num_folds: int = 5) -> dict[str, dict[str, float]]:
    """R² by cross-validation on data with a curve, and on data that are linear: there a GP gains nothing."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (num_rows, 3))
    weights = rng.standard_normal((3, 4))
    noise = 0.2 * rng.standard_normal((num_rows, 4))
    tables = {"curved": np.sin(X @ weights) + noise, "linear": X @ weights + noise}

    folds = KFold(num_folds, shuffle=True, random_state=0)
    found = {}
    for kind, Y in tables.items():
        plane = cross_val_score(LinearRegression(), X, Y, cv=folds).mean()
        search = GridSearchCV(
            mogul.MultiOutputGPRegressor(num_inducing=30),
            [{"model": ["mogp"]}, {"model": ["n-sbgprn"], "epochs": [epochs]}],  # exact GPs have no epochs
            cv=folds,
        ).fit(X, Y)
        scores = dict(zip(search.cv_results_["param_model"], search.cv_results_["mean_test_score"], strict=True))
        found[kind] = {"least squares": float(plane)} | {name: float(score) for name, score in scores.items()}
        print(f"{kind}: " + ", ".join(f"{name} R² {score:.3f}" for name, score in found[kind].items()))
    return found


if __name__ == "__main__":
    main()
