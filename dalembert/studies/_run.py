"""8 · studies: computing chunks: in this process, in processes of this machine, or on a Dask cluster.

Only the client writes. A chunk whose worker is killed is split until the case that does it stands alone; that case is
tried by itself, and marked. A chunk that has taken this process with it twice is computed in a process of its own.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert._results import DalembertError
from dalembert.io import read_from_text
from dalembert.studies._store import Store, need
from dalembert.studies._tasks import FAILED, Found, Machines, machines
from dalembert.studies._vary import Cases

KILLED = "killed"
"""Status of a case that ends the process that computes it."""
KILLS = 3
"""How often a case alone must have ended its process to be marked."""
PARTS = 8
"""Into so many parts cases are split that have killed their worker together."""
TAKEN = 2
"""A chunk that was begun so often and never finished is computed in a process of its own."""
NOBODY = 60.0
"""Seconds to wait for a worker where there is none."""
ANSWERS = 10.0
"""Seconds until a scheduler must have answered."""
ALOUD = 0.5
"""Seconds between looks at a cluster on which nothing has finished."""

_HERE: dict[str, Machines] = {}
_ONE = threading.Lock()


def machines_of(plan: Mapping[str, Any], function: Callable | None) -> Machines:
    """The machines of a manifest, made once in each process."""
    key = str((plan["models"], plan["task"], plan["settings"], plan["measure"], plan["function"]))
    if key not in _HERE:
        from pathlib import Path

        models = {name: read_from_text(text, Path(f"{name}.yaml")).model for name, text in plan["models"].items()}
        while len(_HERE) >= 4:
            _HERE.pop(next(iter(_HERE)))
        _HERE[key] = machines(plan["task"], models, plan["settings"], plan["measure"], function)
    for task in _HERE[key].tasks.values():
        task.function = function  # of the same source, but what it refers to may be new
    return _HERE[key]


def compute_piece(plan: Mapping[str, Any], function: Callable | None, cases: Cases) -> Found:
    """Some cases, on a worker: one piece at a time, with all the cores that the worker has."""
    from distributed import get_worker

    import dalembert

    own, wanted = dalembert.__version__, plan["versions"]["dalembert"]
    if own != wanted:
        raise DalembertError(f"A worker has dalembert {own}, the study {wanted}; install the same version there.")
    with _ONE:
        return machines_of(plan, function).compute(cases, threads=max(1, get_worker().state.nthreads))


@dataclass
class _Piece:
    """Some cases of a chunk that are computed together."""

    chunk: int
    rows: np.ndarray
    kills: int = 0


@dataclass
class _Chunk:
    """A chunk of which parts are there."""

    rows: np.ndarray
    begun: float
    parts: dict[int, tuple[np.ndarray, Found]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return sum(len(rows) for rows, _ in self.parts.values()) == len(self.rows)

    def joined(self) -> Found:
        pieces = [self.parts[k] for k in sorted(self.parts)]
        order = np.argsort(np.concatenate([rows for rows, _ in pieces]))
        founds = [found for _, found in pieces]
        numbers = {n: np.concatenate([f.numbers[n] for f in founds])[order] for n in founds[0].numbers}
        status, message = ([x for f in founds for x in getattr(f, w)] for w in ("status", "message"))
        return Found(numbers, [status[k] for k in order], [message[k] for k in order])


class Run:
    """One session of computing a study's chunks."""

    def __init__(self, store: Store, plan, cases: Cases, here: Machines, function, report: Callable[[int, int], None]):
        self.store, self.plan, self.cases, self.here, self.function = store, plan, cases, here, function
        self.report, self.session = report, uuid.uuid4().hex[:8]
        self.size = int(plan["chunk"])
        done = store.done()
        self.pending = [k for k in range(-(-cases.count // self.size)) if k not in done]

    def rows(self, chunk: int) -> np.ndarray:
        return np.arange(chunk * self.size, min((chunk + 1) * self.size, self.cases.count))

    def finish(self, chunk: int, found: Found, begun: float) -> None:
        self.store.write(chunk, chunk * self.size, found, time.time() - begun, self.session)
        self.report(len(found.status), found.failed)

    def in_this_process(self) -> None:
        """Chunk by chunk, each on all cores."""
        suspects = []
        for chunk in self.pending:
            if self.store.begin(chunk) >= TAKEN:
                suspects.append(chunk)
                continue
            begun = time.time()
            try:
                self.finish(chunk, self.here.compute(self.cases.part(self.rows(chunk))), begun)
            except BaseException:
                self.store.stopped(chunk)
                raise
        if suspects:
            with local_cluster(1) as client:
                self.on(client, suspects)

    def on(self, client, chunks: list[int] | None = None) -> None:
        """On the workers of a Dask cluster."""
        distributed = need("distributed")
        # the last come first out: pieces of a split chunk before others
        waiting = [_Piece(k, self.rows(k)) for k in reversed(self.pending if chunks is None else chunks)]
        alone: list[_Piece] = []
        open_: dict[int, _Chunk] = {}
        running: dict[Any, _Piece] = {}
        name, lonely = uuid.uuid4().hex[:8], None

        def submit(piece: _Piece) -> None:
            open_.setdefault(piece.chunk, _Chunk(self.rows(piece.chunk), time.time()))
            some = self.cases.part(piece.rows)
            key = f"study-{name}-{piece.chunk}-{piece.rows[0]}-{len(piece.rows)}-{uuid.uuid4().hex[:6]}"
            running[client.submit(compute_piece, self.plan, self.function, some, key=key, pure=False)] = piece

        def take(piece: _Piece, found: Found) -> None:
            chunk = open_[piece.chunk]
            chunk.parts[int(piece.rows[0])] = (piece.rows, found)
            if chunk.whole:
                self.finish(piece.chunk, chunk.joined(), chunk.begun)
                del open_[piece.chunk]

        def again(piece: _Piece, status: str, sentence: str) -> None:
            if len(piece.rows) > 1:
                parts = np.array_split(piece.rows, min(PARTS, len(piece.rows)))
                waiting.extend(_Piece(piece.chunk, rows) for rows in reversed(parts))
                return
            piece.kills += 1
            if piece.kills < KILLS:
                alone.append(piece)
                return
            found = self.here.empty(1)
            found.status[0], found.message[0] = status, sentence
            take(piece, found)

        try:
            while waiting or running or alone:
                room = 1 + 2 * len(self._workers(client))
                while waiting and len(running) < room:
                    submit(waiting.pop())
                if not running and alone:
                    submit(alone.pop(0))
                late = contextlib.suppress(distributed.TimeoutError, TimeoutError, distributed.CancelledError)
                with late, client.as_current():
                    distributed.wait(list(running), timeout=ALOUD, return_when="FIRST_COMPLETED")
                lonely = self._watch(client, lonely)
                for future in [f for f in running if f.done()]:
                    piece = running.pop(future)
                    if future.status == "finished":
                        found = future.result()
                        # before it is written: if its worker is killed meanwhile, nobody wants it again
                        future.release()
                        take(piece, found)
                    elif future.status == "error":
                        error = future.exception()
                        if isinstance(error, DalembertError):
                            raise error
                        killed = isinstance(error, distributed.KilledWorker)
                        sentence = (
                            f"The process that computes this case ends with it, {KILLS} times, alone."
                            if killed
                            else f"A worker failed: {type(error).__name__}: {error}"
                        )
                        again(piece, KILLED if killed else FAILED, sentence)
                    else:  # cancelled or lost: nobody's fault
                        self._watch(client, None)
                        waiting.append(piece)
                    with contextlib.suppress(Exception):
                        future.release()
        except (OSError, RuntimeError, distributed.TimeoutError, distributed.CancelledError) as error:
            raise self._gone() from error  # errors of a worker or of the disk are reported elsewhere
        finally:
            with contextlib.suppress(Exception):
                if client.status == "running":
                    client.cancel(list(running))

    @staticmethod
    def _workers(client) -> Mapping[str, Any]:
        with contextlib.suppress(Exception):
            return client.scheduler_info(n_workers=-1)["workers"]
        return {}

    def _gone(self) -> DalembertError:
        return DalembertError(
            "The scheduler of the Dask cluster is gone. What is finished is kept: start one, then dalembert resume "
            f"{self.store.folder}"
        )

    def _watch(self, client, lonely: float | None) -> float | None:
        """Refuse to wait for what has gone: the scheduler, or all workers for long."""
        if client.status != "running":
            raise self._gone()
        if self._workers(client):
            return None
        lonely = lonely or time.monotonic()
        if time.monotonic() - lonely > NOBODY:
            raise DalembertError(
                f"There has been no worker for {NOBODY:g} s. What is finished is kept: start workers, then dalembert "
                f"resume {self.store.folder}"
            )
        return lonely


@contextlib.contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Processes of this machine as a Dask cluster."""
    distributed = need("distributed")
    dask = need("dask")
    quiet = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
        "distributed.logging.distributed": "critical",
        "distributed.admin.tick.limit": "1h",
    }
    with dask.config.set(quiet):
        try:
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
                silence_logs="CRITICAL",
                # its page on any free port: other clusters run on this machine
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            )  # fmt: skip
        except RuntimeError as error:
            raise DalembertError(
                f"The processes of a study did not start ({error}) Each of them runs the script from its beginning: "
                'what computes must stand under `if __name__ == "__main__":`.'
            ) from None
        try:
            # not the client that a process uses by default: what else it does with Dask is no business of a study
            with distributed.Client(cluster, set_as_default=False) as client:
                yield client
        finally:
            with contextlib.suppress(Exception):
                cluster.close(timeout=5)


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of a cluster that runs."""
    distributed = need("distributed")
    try:
        client = distributed.Client(address, timeout=ANSWERS, set_as_default=False)
    except (OSError, ValueError, distributed.TimeoutError) as error:
        raise DalembertError(
            f"There is no Dask scheduler at {address} ({type(error).__name__}); start one: dask scheduler."
        ) from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=5)
