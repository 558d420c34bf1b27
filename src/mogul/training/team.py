"""Workers that train one model together: each has a share of every batch, and sums are over all of them.

A worker takes every K-th row of a batch of B. Its share of the ELBO's terms and gradients is weighted by its rows over
B, so that the sum over workers is that of one worker with all B rows, and KL and log prior count once. Reductions are
those of torch.distributed: gloo between processors, nccl between graphics cards.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mogul.data import Share
from mogul.errors import ConfigError, FitError, MogulError

T = TypeVar("T")
_SECONDS = 60.0  # to find each other; longer waits are for the slowest worker
_HOURS = 24.0
_NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Team:
    """The workers of a training, as one of them sees it; by default it is alone.

    Args:
        rank: its number, from 0.
        size: the number of workers.
        local_rank: its number among those of the same machine.

    Example:
        >>> Team().sum(torch.ones(2)), Team().agreed("a"), Team().share
        (tensor([1., 1.]), 'a', None)
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the worker that writes files and speaks."""
        return self.rank == 0

    @property
    def share(self) -> Share | None:
        """The worker's share of the rows of a batch; None: all of them."""
        return None if self.size == 1 else Share(self.rank, self.size)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of all workers' values."""
        if self.size > 1:
            values = values.contiguous().clone()
            self._together(lambda: dist.all_reduce(values))
        return values

    def count(self, number: int) -> int:
        """The sum of all workers' numbers."""
        return number if self.size == 1 else int(self.sum(torch.tensor(number)))

    def agreed(self, value: T) -> T:
        """The first worker's value."""
        if self.size == 1:
            return value
        box = [value if self.is_first else None]
        self._together(lambda: dist.broadcast_object_list(box))
        found: T = box[0]  # type: ignore[assignment]  # the first worker's
        return found

    def first(self, work: Callable[[], T]) -> T:
        """What the first worker's work gives; its errors are raised by all."""
        found: T | MogulError | None = None
        if self.is_first:
            try:
                found = work()
            except MogulError as error:
                if self.size == 1:
                    raise
                found = error
        found = self.agreed(found)
        if isinstance(found, MogulError):
            raise found
        return found  # type: ignore[return-value]  # the first worker's

    def on_each_machine(self, work: Callable[[], T]) -> T:
        """The work, done by the first worker of all, then of each machine, then by the others, who find it done."""
        if self.size == 1:
            return work()
        for its_turn in (self.is_first, self.local_rank == 0 and not self.is_first):
            if its_turn:
                work()
            self.agreed(None)
            self._together(dist.barrier)
        return work()

    @torch.no_grad()
    def align(self, model: nn.Module) -> None:
        """Set the model's parameters and buffers to the first worker's."""
        if self.size > 1:
            for tensor in model.state_dict().values():
                self._together(lambda tensor=tensor: dist.broadcast(tensor, 0))  # type: ignore[misc]

    @torch.no_grad()
    def sum_gradients(self, model: nn.Module, values: Tensor) -> Tensor:
        """Sum the workers' gradients in place, and these values beside them, by one message."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        parts = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        message = self.sum(torch.cat([values, *(part.reshape(-1).to(values) for part in parts)]))
        place = len(values)
        for each, part in zip(parameters, parts, strict=True):
            if each.grad is not None:
                each.grad.copy_(message[place : place + part.numel()].reshape(part.shape))
            place += part.numel()
        return message[: len(values)]

    def stream(self, generator: torch.Generator, device: torch.device) -> torch.Generator:
        """A random stream of this worker's own, on a device, from one that all share; alone on a processor the same."""
        if self.size == 1 and device.type == generator.device.type:
            return generator
        own = torch.Generator(generator.device)
        own.set_state(generator.get_state())  # a copy: the order of rows stays that of one worker
        seeds = torch.randint(2**62, (self.size,), generator=own, device=own.device)
        return torch.Generator(device).manual_seed(int(seeds[self.rank]))

    def _together(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except RuntimeError as error:
            found = re.sub(r"^\[.*?\]\s*", "", str(error).strip()) or type(error).__name__  # where in torch it is from
            reason = found.splitlines()[0].partition(". ")[0]
            raise FitError(
                f"All {self.size} workers must be there until training ends; worker {self.rank} lost another: "
                f"{reason}. Run the same command again: with a checkpoint it goes on from there."
            ) from error

    @staticmethod
    def of_environment(environment: Mapping[str, str] | None = None, seconds: float = _SECONDS) -> "Team":
        """Join the workers that torchrun started; alone where it did not.

        >>> Team.of_environment({}).size
        1
        """
        found = os.environ if environment is None else environment
        if int(found.get("WORLD_SIZE", "1")) == 1:
            return Team()
        missing = [name for name in _NAMES if name not in found]
        if missing:
            raise ConfigError(
                f"Workers must be told {', '.join(_NAMES)}; {missing[0]} is not set. Start them by torchrun, or by "
                "mogul fit --workers."
            )
        rank, size = int(found["RANK"]), int(found["WORLD_SIZE"])
        where = f"{found['MASTER_ADDR']}:{found['MASTER_PORT']}"
        try:
            store = dist.TCPStore(  # type: ignore[attr-defined]  # torch exports it
                found["MASTER_ADDR"],
                int(found["MASTER_PORT"]),
                size,
                is_master=rank == 0 and found.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
                timeout=timedelta(seconds=seconds),
            )
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(hours=_HOURS))
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"Workers must reach the first of them at {where} within {seconds:.0f} s; worker {rank} of {size} did "
                "not. Check that it runs, and that MASTER_ADDR and MASTER_PORT can be reached from here."
            ) from error
        return Team(rank, size, int(found.get("LOCAL_RANK", rank)))

    def leave(self) -> None:
        """End the connection to the others."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


ALONE = Team()


def device_by_name(name: str) -> torch.device:
    """The device of this name, checked; "auto" is a graphics card if there is one, and else the processor.

    >>> device_by_name("cpu")
    device(type='cpu')
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, is_there in there.items() if is_there))
    kind, _, number = str(name).partition(":")
    if kind not in there or not (not number or (kind == "cuda" and number.isdecimal())):
        raise ConfigError(f"device must be cpu, cuda, cuda:1, mps or auto; got {name!r}. Leave it out for cpu.")
    if not there[kind] or (number and int(number) >= torch.cuda.device_count()):
        raise ConfigError(f"device must be there; got {name!r}, and torch finds none. Use cpu, or auto.")
    return torch.device(name)
