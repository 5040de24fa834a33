"""1 · functions of time for drivers and forces: `da.functions.harmonic(0.1, 6.28)`, `step`, `table`, sums, products.

The makers of `dalembert.model._functions`, under a short public name.
"""

from dalembert.model._functions import Function, constant, expression, harmonic, polynomial, product, step, table, total

__all__ = ["Function", "constant", "expression", "harmonic", "polynomial", "product", "step", "table", "total"]
