"""reference machines shared by tests, examples, benchmarks and the command line."""

from dalembert.mechanisms._registry import Mechanism, find, mechanism, mechanisms

__all__ = ["Mechanism", "find", "mechanism", "mechanisms"]
