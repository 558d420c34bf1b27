"""Where the jobs of an experiment run: processes of this machine, or the workers of a Dask or a Ray cluster.

joblib runs them, on Dask too; on Ray they are its tasks. A cluster that is started here is bounded, and is ended.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, get_args

from joblib import Parallel, parallel_config

from mogul.errors import ConfigError, MogulError, import_extra, unknown_name

BackendName = Literal["loky", "dask", "ray"]
RunCalls = Callable[[Iterable[Any]], Iterator[Any]]
_STORE_BYTES = 200 * 2**20  # of Ray's store of objects on this machine: jobs send little
_SECONDS = 30  # to reach a cluster


class ClusterError(MogulError, RuntimeError):
    """A cluster cannot be reached."""


def require_backend(name: str, address: str | None) -> BackendName:
    """Check a backend and its address before any work.

    >>> require_backend("loky", None)
    'loky'
    """
    for known in get_args(BackendName):
        if name == known:
            if known == "loky" and address is not None:
                raise ConfigError(f"--address is for dask and ray; got {address} for loky. Leave it out.")
            if known != "loky":
                import_extra(f"--backend {known}", known, "distributed" if known == "dask" else "ray")
            return known  # type: ignore[no-any-return]  # one of the names
    raise unknown_name("--backend", name, get_args(BackendName))


@contextmanager
def jobs_on(backend: BackendName, address: str | None, num_jobs: int) -> Iterator[RunCalls]:
    """What runs delayed calls on this backend, and gives their results as they end.

    Args:
        backend: its name.
        address: of a cluster that is there; by default one is started on this machine.
        num_jobs: how many workers are started; on a cluster that is there, all that it has are used.
    """
    match backend:
        case "loky":
            yield partial(_as_they_end, num_jobs)
        case "dask":
            with _dask(address, num_jobs) as count, parallel_config("dask", wait_for_workers_timeout=_SECONDS):
                yield partial(_as_they_end, count)
        case "ray":
            with _ray(address, num_jobs) as ray:
                yield partial(_as_ray_ends, ray)


def _as_they_end(num_workers: int, calls: Iterable[Any]) -> Iterator[Any]:
    # One by one: quick jobs that come first would have slow ones sent in batches, stored only when all are done.
    yield from Parallel(n_jobs=num_workers, batch_size=1, return_as="generator_unordered")(calls)


def _as_ray_ends(ray: Any, calls: Iterable[Any]) -> Iterator[Any]:
    """As tasks of one core each: joblib's backend for Ray gives no results before all are there."""
    task = ray.remote(num_cpus=1)(_called)
    left = [task.remote(call) for call in calls]
    while left:
        done, left = ray.wait(left)
        yield from ray.get(done)


def _called(call: Any) -> Any:
    """What a delayed call gives."""
    function, arguments, named = call
    return function(*arguments, **named)


@contextmanager
def _dask(address: str | None, num_jobs: int) -> Iterator[int]:
    distributed = import_extra("--backend dask", "dask", "distributed")
    given: dict[str, Any] = {"n_workers": num_jobs, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = distributed.Client(timeout=_SECONDS, **(given if address is None else {"address": address}))
    except (OSError, TimeoutError, ValueError) as error:
        raise _out_of_reach("Dask scheduler", address, error) from error
    with client:
        yield len(client.scheduler_info(n_workers=-1)["workers"])


@contextmanager
def _ray(address: str | None, num_jobs: int) -> Iterator[Any]:
    ray = import_extra("--backend ray", "ray", "ray")
    own: dict[str, Any] = {"num_cpus": num_jobs, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    try:
        ray.init(configure_logging=False, log_to_driver=False, **(own if address is None else {"address": address}))
    except (OSError, ValueError, RuntimeError) as error:
        raise _out_of_reach("Ray cluster", address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _out_of_reach(what: str, address: str | None, error: Exception) -> ClusterError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return ClusterError(
        f"The {what} must be reached within {_SECONDS} s; {address or 'that of this machine'} was not: {reason}. "
        "Check --address, and that the versions there are those here."
    )
