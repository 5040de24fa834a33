"""06 · A driver on a joint: torque of a motor that turns a crank at constant speed, and the work it does."""

import dalembert as da

solution = da.simulate(da.mechanism("slider-crank"), 1.0, samples=401)
motor = solution.reactions("motor")
energy = solution.energy
print(f"motor torque between {float(motor['torque'].min()):.1f} and {float(motor['torque'].max()):.1f} N m")
print(f"work of the motor in one turn {float(energy['work_of_constraints'][-1]):.3f} J, "
      f"lost in the damper {-float(energy['work'][-1]):.3f} J, balance {float(energy['drift'][-1]):.1e} J")  # fmt: skip
