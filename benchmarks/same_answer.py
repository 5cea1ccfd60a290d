"""Two trees, one answer: ``python -m benchmarks.same_answer OLD NEW`` says what has changed.

OLD and NEW are checkouts of this repository. Settings of FIRES meet kinds of rows: the selected
features and the alarms have to be equal, importances, uncertainties and weights equal to 1e-9, and
equal to the bit for the paper's settings. Public names only, so that any two trees can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

TOLERANCE = 1e-9

WORK = r"""
import hashlib, itertools, json, warnings
import numpy as np, scipy.sparse as sp
import fires
warnings.simplefilter("ignore")

def stream(kind, form, weighted, seed):
    rng = np.random.default_rng(seed)
    n, J = 120, 130 if seed % 2 else 12
    for step in range(14):
        X = rng.normal(size=(n, J)) * np.linspace(0.5, 20.0, J) + np.linspace(-3.0, 3.0, J)
        if form in ("sparse", "rare"):
            X[rng.random(X.shape) > (0.4 if form == "sparse" else 0.08)] = 0.0
        X[:, 5] = X[:, 4] + 0.01 * rng.normal(size=n)
        Z = X / np.linspace(0.5, 20.0, J)
        first = 0 if step < 8 else 7  # what matters changes
        s = 1.5 * Z[:, first] - Z[:, 1] + 0.7 * Z[:, 4] + 0.5 * rng.normal(size=n)
        y = {"two": s > 0, "three": np.digitize(s, [-0.8, 0.8]), "numbers": 40 * s + 7,
             "counts": rng.poisson(np.exp(np.clip(0.3 * s, -3, 3)))}[kind]
        if form == "gaps":
            X[rng.random(X.shape) < 0.1] = np.nan
            if step > 4:
                X[:, 3] = np.nan
        if form == "float32":
            X = X.astype(np.float32)
        if form == "fortran":
            X = np.asfortranarray(X)
        if form in ("sparse", "rare"):
            X = sp.csr_array(X)
        w = rng.lognormal(size=n) if weighted else None
        yield X, y, w

F = fires.FIRES
makers = {
    "default": lambda: F(4),
    "auto": lambda: F("auto"),
    "drop": lambda: F(4, redundancy="drop"),
    "auto, drop": lambda: F("auto", redundancy="drop"),
    "omega": lambda: F(4, score="omega"),
    "minmax": lambda: F(4, scale="minmax"),
    "no scale": lambda: F(4, scale=None),
    "no intercept": lambda: F(4, fit_intercept=False),
    "short memory": lambda: F(0.3, memory=500),
    "no drift": lambda: F(4, drift=None),
    "gradient": lambda: F(4, update="gradient"),
    "gradient, alarm": lambda: F(4, update="gradient", drift="alarm"),
    "gradient, minmax": lambda: F(4, update="gradient", scale="minmax"),
    "as published": lambda: F.as_published(4),
    "as published, scaled": lambda: F.as_published(4, scale="standard"),
    "as published, intercept": lambda: F.as_published(4, fit_intercept=True),
    "groups": lambda: F(2, groups="groups"),
    "logistic": lambda: F(4, model="logistic"),
    "logistic, gradient": lambda: F.as_published(4, model="logistic"),
}
found = {}
kinds = "two", "three", "numbers", "counts"
forms = "dense", "gaps", "float32", "fortran", "sparse", "rare"
for (name, make), kind, form in itertools.product(makers.items(), kinds, forms):
    if name.startswith(("logistic", "as published")) and kind in ("numbers", "counts"):
        continue
    number = len(found)
    weighted = number % 3 == 2
    key = f"{name} | {kind} | {form} | {'weighted' if weighted else ''} | {number % 5}"
    try:
        one = make()
        if kind == "counts" and one.model == "auto":
            one.set_params(model="poisson")
        batches = list(stream(kind, form, weighted, number % 5))
        if one.groups == "groups":
            one.set_params(groups=[j // 3 for j in range(batches[0][0].shape[1])])
        sets = []
        for X, y, w in batches:
            one.partial_fit(X, y, sample_weight=w)
            sets.append(one.get_support(indices=True).tolist())
        numbers = [one.importances_, one.uncertainties_, one.weights_, one.class_importances_]
        numbers += one.interval(0.9) if one.update == "bayes" else ()
        numbers = [np.ravel(x).astype(float) for x in numbers]
        found[key] = {
            "sets": sets,
            "alarms": [[alarm.row, alarm.feature] for alarm in one.alarms_],
            "why": one.why(),
            "missing": one.n_missing_,
            "numbers": [x.tolist() for x in numbers],
            "bits": hashlib.blake2b(b"".join(x.tobytes() for x in numbers)).hexdigest(),
        }
    except Exception as error:
        found[key] = {"error": f"{type(error).__name__}: {error}"}
print(json.dumps(found))
"""


def answers(tree: Path) -> dict[str, dict[str, object]]:
    """What one tree answers to every case."""
    threads = {f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env=os.environ | threads | {"PYTHONPATH": str(tree / "src")},
        cwd=tree,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


def distance(old: list[list[float]], new: list[list[float]]) -> float:
    """The largest difference, relative to the largest number of its array."""
    worst = 0.0
    for a, b in zip(old, new, strict=True):
        if len(a) != len(b):
            return float("inf")
        unit = max((abs(x) for x in a if x == x), default=1.0) or 1.0
        worst = max([worst, *(abs(x - y) / unit for x, y in zip(a, b, strict=True) if x == x)])
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_answer", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    asked = parser.parse_args()
    old, new = answers(asked.old.resolve()), answers(asked.new.resolve())
    n_bits = n_other = 0
    for case, was in old.items():
        now = new[case]
        exact = [name for name in was if name not in ("numbers", "bits")]
        other = [name for name in exact if was[name] != now.get(name)]
        if "numbers" in was and "numbers" in now:
            far = distance(was["numbers"], now["numbers"])  # type: ignore[arg-type]
            other += [f"numbers ({far:.1e})"] * (far > TOLERANCE)
            n_bits += was["bits"] == now["bits"]
            if case.startswith("as published") and was["bits"] != now["bits"]:
                other.append("bits")
        n_other += bool(other)
        if other:
            print(f"{case}: {', '.join(other)} {was.get('error', '')} {now.get('error', '')}")
    print(f"{len(old)} cases, {n_bits} equal to the bit, {n_other} with another answer")
    sys.exit(n_other > 0)


if __name__ == "__main__":
    main()
