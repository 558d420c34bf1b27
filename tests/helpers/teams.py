"""Two processes that train together, and what they and one process alone find."""

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import torch
from tests.helpers.row_tables import TARGETS
from tests.helpers.separate import CONTEXT
from tests.helpers.small_models import sizes_of, small_batch, small_model

from mogul import TrainingConfig, registry
from mogul.cli.workers import worker_environments
from mogul.data import Share
from mogul.data.sources.row_files import RowFiles
from mogul.errors import FitError
from mogul.training import FitRequest, NaturalGradient, NoiseUpdate, Run
from mogul.training.starts import Place, Saving
from mogul.training.team import Team

PATIENCE = 120
NAMES = ("mogp", "gprn", "sbgprn", "n-mogp", "n-sbgprn", "dk-mogp")
Found = dict[str, torch.Tensor]


def in_team(work: Callable[[Team, Path], Found], folder: Path, count: int = 2) -> tuple[list[Found], list[int | None]]:
    """What each of these workers finds, and their exit codes."""
    places = [folder / f"{rank}.pt" for rank in range(count)]
    workers = [
        CONTEXT.Process(target=_worker, args=(work, environment, folder, place))
        for environment, place in zip(worker_environments(count, 1), places, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
        worker.kill()
    found = [torch.load(place) if place.exists() else {} for place in places]
    return found, [worker.exitcode for worker in workers]


def _worker(work: Callable[[Team, Path], Found], environment: dict[str, str], folder: Path, place: Path) -> None:
    torch.set_num_threads(1)
    os.environ.update(environment)
    team = Team.of_environment()
    try:
        torch.save(work(team, folder), place)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        with suppress(RuntimeError):
            team.leave()


def cases() -> Iterator[tuple[str, str]]:
    """Models of one layer with observed inputs, which draw nothing, and each kind of noise."""
    yield from ((name, "constant") for name in NAMES)
    yield from (("n-sbgprn", noise) for noise in registry.names("noise") if noise != "constant")


def one_step(team: Team) -> Found:
    """Terms and gradients of one step of each model on twelve rows, some outputs missing, and what the step changed."""
    found: Found = {}
    batch = small_batch(missing=True)
    for name, noise in cases():
        model = small_model(name, noise=noise, **sizes_of(name, noise))
        config = TrainingConfig(updates=(NoiseUpdate(), NaturalGradient(ramp_steps=0)), num_starts=1)
        run = Run(model, batch, config, torch.Generator().manual_seed(0), team=team)
        share = Share(0, 1) if team.share is None else team.share
        own = batch.rows(share.of(torch.arange(len(batch))))
        terms = run.step(own, 0.7)
        each = {part: getattr(terms, part) for part in ("ell", "kl_local", "kl_global", "log_prior")}
        each |= {f"gradient of {key}": one.grad for key, one in model.named_parameters() if one.grad is not None}
        each |= {key: one for key, one in model.named_parameters() if "log_precision" in key}
        found |= {f"{name}, {noise}: {key}": value.detach().clone() for key, value in each.items()}
    return found


def steps_and_a_training(team: Team, folder: Path) -> Found:
    """One step of each model, then a whole training from files."""
    return one_step(team) | from_files(team, folder)


def from_files(team: Team, folder: Path) -> Found:
    """A training from files, in double precision; the first worker reads them."""
    return trained(request(team), folder)


def request(team: Team, saving: Saving | None = None) -> FitRequest:
    """A small training by four epochs of large batches."""
    return FitRequest(
        model="n-sbgprn",
        settings={"epochs": 4, "batch_size": 500, "precision": "float64"},
        options={"num_inducing": 8, "noise": "gp", "dropout": 0.0},
        check=True,
        saving=saving or Saving(),
        place=Place(team=team),
    )


def trained(asked: FitRequest, folder: Path) -> Found:
    """Parameters and the course of a training."""
    files = RowFiles.of(str(folder / "rows" / "*.parquet"), TARGETS)
    fitted = asked.fit_files(files, folder / "copy", sample_rows=1000)
    course = torch.tensor(fitted.history.elbo, dtype=torch.float64)
    return {**fitted.model.state_dict(), "course of the ELBO": course}


def killed_in_its_third_epoch(team: Team, folder: Path) -> Found:
    """The same training, whose second worker is gone when three epochs have ended."""
    seen: list[object] = []

    def on_epoch(record: object, model: object) -> None:
        seen.append(record)
        if team.rank and len(seen) == 3:
            os._exit(9)

    return trained(request(team, Saving(on_epoch, folder / "states", 0.0)), folder)


def resumed(team: Team, folder: Path) -> Found:
    """The rest of it."""
    return trained(request(team, Saving(None, folder / "states", 0.0)), folder)


def not_a_number(team: Team, folder: Path) -> Found:
    """The second worker's rows are not numbers, and then it ends; what the first says of both."""
    batch = small_batch()
    run = Run(small_model("mogp"), batch, TrainingConfig(num_starts=1), torch.Generator().manual_seed(0), team=team)
    own = batch.rows(torch.arange(team.rank, 12, 2))
    if team.rank:
        own.y[:] = torch.nan
    said = []
    try:
        run.step(own, 1.0)
    except ArithmeticError as error:
        said.append(str(error))
    if team.rank:
        os._exit(3)
    try:
        team.sum(torch.ones(1))
    except FitError as error:
        said.append(str(error))
    (folder / "said.txt").write_text("\n".join(said), encoding="utf-8")
    return {}
