"""Each example is short, and runs: small here, as it is from the command line."""

import importlib.util
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

# Long fits, whose lines quicker tests run too: tracing them would cost as much again.
pytestmark = pytest.mark.no_cover

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
QUICK = {
    "bayesian_optimisation": {"num_rounds": 4, "maxiter": 3},
    "cross_validation": {"num_rows": 60, "epochs": 3, "num_folds": 2},
    "latent_map": {"num_rows": 40, "inference_steps": 20},
    "matern_kernel": {"num_rows": 80, "epochs": 3},
    "missing_sensors": {"num_rows": 200, "epochs": 3},
    "pendulum": {"num_episodes": 3, "num_steps": 12, "horizon": 5, "num_inducing": 5},
    "quickstart": {"num_rows": 80, "epochs": 5},
    "robot_arm": {"num_segments": 6, "every": 60, "epochs": 2, "num_inducing": 10},
    "save_and_serve": {"num_rows": 80, "num_calls": 3},
}


@pytest.fixture
def run(tmp_path, monkeypatch, botorch_compiles_nothing):
    """Run an example in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def start(name):
        spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.main(**QUICK[name])

    yield start
    plt.close("all")


def test_there_are_examples_and_each_is_run():
    assert len(SCRIPTS) >= 6
    assert set(QUICK) == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_is_short_and_says_how_to_run_it(name):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    assert f"python examples/{name}.py" in text
    assert text.endswith('if __name__ == "__main__":\n    main()\n')


def test_the_quickstart_prints_and_draws(run, capsys):
    assert 0 < run("quickstart").mrmse < 2
    assert Path("quickstart.png").is_file()
    assert "10–90 % interval" in capsys.readouterr().out


def test_the_pendulum_draws_its_learning_curve(run):
    pytest.importorskip("gymnasium", reason="mogul[robots] is not installed")
    rewards = run("pendulum")
    assert len(rewards) == 3
    assert max(rewards) <= 0
    assert Path("pendulum.png").is_file()


def test_the_robot_arm_prints_least_squares_beside_the_models(run):
    errors = run("robot_arm")
    assert list(errors) == ["least squares", "mogp", "n-sbgprn"]
    assert all(0 < error < 50 for error in errors.values())


def test_sensors_are_modelled_together_and_each_alone(run):
    errors = run("missing_sensors")
    assert list(errors) == ["one model for all", "one for each"]
    assert all(0 < error < 5 for error in errors.values())


def test_the_latent_map_fills_in_better_than_means(run):
    errors = run("latent_map")
    assert errors["latent-variable model"] < errors["mean of each column"]
    assert Path("latent_map.png").is_file()


def test_cross_validation_finds_lines_where_there_are_lines(run):
    found = run("cross_validation")
    assert list(found["curved"]) == ["least squares", "mogp", "n-sbgprn"]
    assert abs(found["linear"]["mogp"] - found["linear"]["least squares"]) < 0.05


def test_the_matern_kernel_trains(run):
    assert set(run("matern_kernel")) == {"RBF, the default", "Matérn 3/2"}


def test_a_saved_model_serves_slopes_that_match_differences(run):
    assert run("save_and_serve") < 1e-5


def test_bayesian_optimisation_runs_to_its_last_line(run, capsys):
    found, random = run("bayesian_optimisation")
    assert found > 0
    assert random >= 0
    assert "as many random points" in capsys.readouterr().out
