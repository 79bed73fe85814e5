"""Algorithm 1 on the paper's kind of data: far fewer labels than asking about everything, at the same final error.

6,000 rows in 30 dimensions, a linear separator, 5 % of the labels flipped, and a log that the "certainty" policy filled:
labels far from an old boundary are known, labels near it are not. The class is 4,000 linear classifiers made from other
rows of the same kind, before the log, pool and test rows were drawn, as a bank might keep the scorecards of earlier years.
Run it with ``python examples/exact_fewer_labels.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import observal as ob
from observal_research.datasets import Dataset, fit_policy, make_linear, simulate

GAMMAS = (0.03, 0.1, 0.3)  # practical γ1, all of them shown: smaller asks for less and dares more


def scorecards(X: np.ndarray, y: np.ndarray, seed: int, count: int = 4000) -> np.ndarray:
    """Return unit normals around the least-squares fit on earlier rows, from close to it to unrelated."""
    rng = np.random.default_rng(seed)
    earlier = np.linalg.lstsq(X, y.astype(float), rcond=None)[0]
    earlier /= np.linalg.norm(earlier)
    spread = np.geomspace(0.02, 5.0, count)[:, None]
    normals = earlier + spread * rng.standard_normal((count, earlier.size)) / np.sqrt(earlier.size)
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def one_trial(seed: int) -> dict[str, tuple[int, float, list[tuple[int, float]]]]:
    both = make_linear(n_rows=12_000, random_state=seed)
    normals = scorecards(both.X[:6000], both.y[:6000], seed)
    data = Dataset(both.X[6000:], both.y[6000:], both.name, both.description)
    sim = simulate(data, fit_policy("certainty", data, random_state=seed), random_state=seed)
    rows = np.vstack([sim.logged.X, sim.pool.X])
    hypotheses = ob.FiniteClass(normals @ rows.T > 0)
    test_signs = normals @ sim.X_test.T > 0
    errors = (test_signs != (sim.y_test > 0)).mean(axis=1)

    def error_of(estimator) -> float:
        # A class given as predictions knows its members by what they say on the rows.
        member = (hypotheses.predictions.signs(np.arange(len(normals))) == estimator.member.predictions).all(axis=1)
        return float(errors[int(np.argmax(member))])

    methods = {f"Algorithm 1, γ = {gamma}": ob.ExactDBAL(hypotheses, gamma=gamma) for gamma in GAMMAS}
    methods["ask about everything"] = ob.ExactDBAL(hypotheses, gamma=0.1, disagreement=False, bias_correction=False)
    outcome = {}
    for name, method in methods.items():
        result = ob.run(sim.logged, sim.pool, sim.oracle, method)
        curve = [(r.labels, error_of(r.estimator)) for r in result.rounds]
        outcome[name] = (len(result.queries), curve[-1][1], curve)
    return outcome


def draw(trials: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    colours = ("#9ecae1", "#4292c6", "#08519c", "#8a8a8a")
    for name, colour in zip(trials[0], colours, strict=True):
        labels = np.array([t[name][0] for t in trials])
        errors = 100 * np.array([t[name][1] for t in trials])
        spread = errors.std(ddof=1) / np.sqrt(len(trials))
        axes.plot(labels, errors, ".", color=colour, alpha=0.5)
        axes.errorbar(
            labels.mean(),
            errors.mean(),
            spread,
            fmt="o",
            color=colour,
            markersize=9,
            capsize=4,
            label=(f"{name}: {labels.mean():.0f} labels, {errors.mean():.1f} ± {spread:.1f} %"),
        )
    log_alone = 100 * np.mean([t[name][2][0][1] for t in trials])
    axes.axhline(log_alone, color="#c44e52", linestyle="--", linewidth=1)
    axes.annotate(
        f"the log alone: {log_alone:.1f} %",
        (1, log_alone),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        color="#c44e52",
    )
    axes.set(xlabel="labels bought (log scale)", ylabel="test error at the end, %", xscale="log", ylim=(0, None))
    axes.set_title("A fraction of the labels, the same error", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left", title="mean ± standard error; a dot is a trial", fontsize=8.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main(trials: int, out: Path) -> dict[str, tuple[float, float]]:
    runs = [one_trial(seed) for seed in range(trials)]
    draw(runs, out)
    means = {
        name: (float(np.mean([r[name][0] for r in runs])), float(np.mean([r[name][1] for r in runs])))
        for name in runs[0]
    }
    for name, (labels, error) in means.items():
        print(f"{name}: {labels:.0f} labels, test error {100 * error:.2f} %")
    print(f"Figure: {out}")
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--out", type=Path, default=Path("out/exact_fewer_labels.png"))
    arguments = parser.parse_args()
    main(arguments.trials, arguments.out)
