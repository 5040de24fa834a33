"""mechanisms · reference machines shared by tests, examples, benchmarks and the command line."""

from dalembert.mechanisms._registry import FILES, Mechanism, find, mechanism, mechanisms

__all__ = ["FILES", "Mechanism", "find", "mechanism", "mechanisms"]
