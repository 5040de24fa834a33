# %% [markdown]
# # A door on two hinges
# Ten constraint rows hold five directions. The motion is unique; no component of a single hinge's reaction is.

# %%
import warnings

import dalembert as da

warnings.simplefilter("ignore", da.errors.RedundancyWarning)  # that reactions are open is the subject here
system = da.build(da.mechanism("door-two-hinges", swing=0.0))
print(da.check(system))

# %% [markdown]
# ## Four rules
# Each gives other hinge forces. The sum of both is the weight, under every rule.

# %%
solution = da.simulate(system, 0.1, samples=3)
rules = {
    "minimum norm": da.reactions.MinimumNorm(),
    "equal stiffness": da.reactions.Weighted(),
    "top hinge ten times as stiff": da.reactions.Weighted(
        {"top": {"F": 1e7, "M": 1e5}, "bottom": {"F": 1e6, "M": 1e4}}
    ),
    "rows dropped": da.reactions.RowElimination(),
}
for words, rule in rules.items():
    top, bottom = (solution.reactions(j, rule=rule)["force"].sel(axis="z")[0] for j in ("top", "bottom"))
    print(f"{words:30s} top {float(top):7.2f} N, bottom {float(bottom):7.2f} N, together {float(top + bottom):.2f} N")

# %% [markdown]
# ## No rule
# `RequireUnique` picks nothing, and says so.

# %%
try:
    solution.reactions("top", rule=da.reactions.RequireUnique())
except da.errors.DalembertError as refusal:
    print(refusal)
