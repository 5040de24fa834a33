"""mechanisms · `python -m dalembert.mechanisms` writes every built-in mechanism as a model file into files/."""

from __future__ import annotations

from dalembert.io import save
from dalembert.mechanisms import FILES, mechanisms


def write_files() -> None:
    FILES.mkdir(exist_ok=True)
    table = mechanisms()
    for entry in table.values():
        save(entry.model(), FILES / f"{entry.name}.yaml", run=entry.settings(), summary=entry.summary)
    for path in FILES.glob("*.yaml"):
        if path.stem not in table:
            path.unlink()


if __name__ == "__main__":
    write_files()
