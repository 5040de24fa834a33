"""35 · A study: where a four-bar's crank ends when masses scatter; stopped in the middle, and gone on with."""

import dalembert as da
from dalembert.studies import Normal, Uniform, open_study, study

vary = {
    "crank.mass": Uniform(0.5, 2.0),
    ("coupler.mass", "rocker.mass"): Normal([1.0, 1.0], [[0.01, 0.008], [0.008, 0.01]]),
    "D.point_i": [[2.0, 0.0], [2.05, 0.0], [9.0, 0.0]],  # with the last one it does not close
}
measure = {"end": "final(A.angle)", "fastest": "peak(A.angle_rate)"}


def stop(done, failed, count):
    """Ctrl-C after a while."""
    if done >= 100:
        raise KeyboardInterrupt


def run(**options):
    return study(
        da.mechanism("four-bar"), vary, measure, 1.0, out="four-bars", count=80, sampling="sobol", chunk=30, samples=41,
        rtol=1e-7, **options,
    )  # fmt: skip


try:
    run(progress=stop)
except KeyboardInterrupt:
    print("stopped:", open_study("four-bars"))
found = run()
print("now:    ", found)
data = found.dataset
done = data.where(data["status"] == "done", drop=True)
print(f"the crank ends at {float(done['end'].mean()):.2f} ± {float(done['end'].std()):.2f} rad")
print(f"why {found.status()['failed']} failed: {set(data['message'].values.tolist()) - {''}}")
best = found.best("fastest", 1)[0]
print(f"the calmest is case {best}, with a crank of {float(data['crank.mass'][best]):.3f} kg")
motion = found.simulate(best)
print(f"its energy drifts by {motion.energy_drift:.0e} of what moves")
