"""A file that was tampered with, and has a right checksum, is refused or does no harm.

Every array and every entry of the header is changed in ways listed here, one at a time. What
loads all the same has to go on learning, transforming and saving. This is done by a program of its
own, so that one that dies is seen and named; where every change is tried, it forks for each object.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import traceback
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fires
from fires.core.belief import Belief
from fires.core.errors import NotPassedAgain, StateError
from fires.core.state import read_state, write_state

N_FEATURES, N_ROWS = 6, 40
MOST_MEMORY = 16 << 30  # of addresses: what asks for more gets a MemoryError, which is a failure


class Mine:
    """A user's model: a coefficient per feature that follows the target."""

    def init(self, n_features, n_classes, rng):
        return Belief(np.zeros(n_features), np.ones(n_features), {"level": np.zeros(2)})

    def gradient(self, belief, X, y, weight, rng):
        along = X.T @ (2.0 * y - 1.0 if weight is None else weight * (2.0 * y - 1.0))
        return Belief(along, np.zeros(len(along)), {"level": np.zeros(2)})

    def to_features(self, belief):
        return Belief(belief.mu, belief.sigma)


# --- one object of every kind -------------------------------------------------------------------


def batch(seed, kind="classes"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    signal = X[:, 0] - X[:, 1]
    y = {
        "classes": (signal > 0).astype(int),
        "three": np.array(["a", "b", "c"])[np.digitize(signal, [-0.5, 0.5])],
        "numbers": 10.0 * signal,
        "counts": rng.poisson(np.exp(np.clip(signal, -2, 2))),
    }[kind]
    return X, y


def by_rows(make, kind="classes", sparse=False, **given):
    """How to fit an object of rows, how it goes on, and what makes what ``load`` is to be given."""

    def rows(seed, sparse=sparse):
        X, y = batch(seed, kind)
        return (sp.csr_array(np.where(X > 0.0, X, 0.0)) if sparse else X), y

    def go_on(selector):
        if hasattr(selector, "get_support"):
            selector.get_support()
        for form in (sparse, True) if sparse or type(selector).__name__ in BOTH else (sparse,):
            X, y = rows(2, form)
            selector.partial_fit(X, y)
            (selector.transform if hasattr(selector, "transform") else selector.predict)(X)

    def fit():
        return make().partial_fit(*rows(0)).partial_fit(*rows(1))

    return fit, go_on, given


BOTH = {
    "ASCW",
    "OFS",
    "OFSPartial",
    "PEtrun",
    "EFS",
    "AROW",
    "SCW",
    "FTRL",
}  # a loop for CSR of their own


def by_columns(make, levels=False):
    def columns(start, stop):
        X, y = batch(0)
        X = np.digitize(X, [-0.5, 0.5]).astype(float) if levels else X
        return np.tile(X, 2)[:, start:stop], y

    def fit():
        return make().partial_fit_features(*columns(0, 3)).partial_fit_features(*columns(3, 6))

    def go_on(selector):
        selector.get_support()
        selector.partial_fit_features(*columns(6, 8))
        selector.transform(np.ones((2, selector.n_features_in_)))

    return fit, go_on, {}


def groups():
    """The objects, by name, in groups of about the same length."""
    from sklearn.linear_model import Ridge, SGDClassifier
    from sklearn.naive_bayes import GaussianNB

    from fires.models import NeuralNet, SoftTree

    def pipeline(selector, predictor, **kind):
        ours = predictor.__module__.startswith("fires.")
        given = {} if ours else {"predictor": predictor}
        return by_rows(lambda: fires.OnlinePipeline(selector(), predictor()), **kind, **given)

    def module():
        import torch

        return torch.nn.Linear(N_FEATURES, 3)

    found = {
        "rows": {
            "OFS": by_rows(lambda: fires.OFS(3)),
            "OFS of CSR": by_rows(lambda: fires.OFS(3), sparse=True),
            "OFSPartial": by_rows(lambda: fires.OFSPartial(3, random_state=0)),
            "PEtrun": by_rows(lambda: fires.PEtrun(3)),
            "EFS": by_rows(lambda: fires.EFS(3, bottom_fraction=0.4)),
            "AROW": by_rows(lambda: fires.AROW(3)),
            "AROW truncated": by_rows(lambda: fires.AROW(3, truncate="weight")),
            "SCW": by_rows(lambda: fires.SCW(3, truncate="confidence")),
            "ASCW": by_rows(lambda: fires.ASCW(3, n_learners=2)),
            "FTRL": by_rows(lambda: fires.FTRL(3)),
            "OLI2DS": by_rows(lambda: fires.OLI2DS(3)),
            "FSDS": by_rows(lambda: fires.FSDS(3)),
            "Screening": by_rows(lambda: fires.Screening(3), "three"),
            "Screening of numbers": by_rows(lambda: fires.Screening(3), "numbers"),
            "Screening by t": by_rows(lambda: fires.Screening(3, measure="t"), "three"),
            "ChiSquared": by_rows(lambda: fires.ChiSquared(3), "three"),
            "HEFT": by_rows(lambda: fires.HEFT(3), "three"),
            "DXMiner": by_rows(lambda: fires.DXMiner(3), "three"),
            "AllFeatures": by_rows(fires.AllFeatures),
            "FixedFeatures": by_rows(lambda: fires.FixedFeatures([1, 2])),
            "RandomFeatures": by_rows(lambda: fires.RandomFeatures(3, random_state=0)),
        },
        "columns and nets": {
            "AlphaInvesting": by_columns(fires.AlphaInvesting),
            "OSFS": by_columns(fires.OSFS),
            "FastOSFS": by_columns(lambda: fires.FastOSFS(test="g2"), levels=True),
            "SAOLA": by_columns(fires.SAOLA),
            "GroupSAOLA": by_columns(lambda: fires.GroupSAOLA(measure="su"), levels=True),
            "OGFS": by_columns(fires.OGFS),
            "GFSFS": by_columns(fires.GFSFS),
            "LeverageScores": by_columns(lambda: fires.LeverageScores(random_state=0)),
            "Grafting": by_columns(fires.Grafting),
            "FromModel": by_rows(
                lambda: fires.FromModel(3, estimator=SGDClassifier(), random_state=0),
                "three",
                model=SGDClassifier,
            ),
            "WindowRefit": by_rows(lambda: fires.WindowRefit(3, random_state=0), "three"),
            "WindowRefit of CSR": by_rows(lambda: fires.WindowRefit(3, window=60), sparse=True),
            "WindowRefit of numbers": by_rows(
                lambda: fires.WindowRefit(3, estimator=Ridge()), "numbers", model=Ridge
            ),
            "IncrementalPermutation": by_rows(
                lambda: fires.IncrementalPermutation(3, random_state=0), "three"
            ),
            "IncrementalPermutation of CSR": by_rows(
                lambda: fires.IncrementalPermutation(3, random_state=0), sparse=True
            ),
            "IncrementalPermutation of numbers": by_rows(
                lambda: fires.IncrementalPermutation(3, random_state=0), "numbers"
            ),
            "IncrementalPermutation, GaussianNB": by_rows(
                lambda: fires.IncrementalPermutation(3, model=GaussianNB(), random_state=0),
                "three",
                model=GaussianNB,
            ),
            "LICON": by_rows(lambda: fires.LICON(3), "three"),
            "LICON of numbers": by_rows(lambda: fires.LICON(3), "numbers"),
            "LICON, a module": by_rows(
                lambda: fires.LICON(3, model=module()), "three", model=module
            ),
            "CancelOut": by_rows(lambda: fires.CancelOut(3, hidden=(4,), random_state=0)),
            "CancelOut of numbers": by_rows(lambda: fires.CancelOut(3, hidden=(4,)), "numbers"),
            "NeuralNet": by_rows(
                lambda: fires.FIRES(3, model=NeuralNet(hidden=(4,)), random_state=0)
            ),
            "SoftTree": by_rows(lambda: fires.FIRES(3, model=SoftTree(depth=2), random_state=0)),
        },
        "FIRES": {
            **{
                f"FIRES, {family}, {update}": by_rows(
                    lambda family=family, update=update: fires.FIRES(
                        3, model=family, update=update
                    ),
                    kind,
                )
                for update in ("bayes", "gradient")
                for family, kind in (
                    ("probit", "classes"),
                    ("logistic", "classes"),
                    ("gaussian", "numbers"),
                    ("poisson", "counts"),
                )
            },
            "FIRES as published": by_rows(lambda: fires.FIRES.as_published(3)),
            "FIRES of CSR": by_rows(lambda: fires.FIRES(3), sparse=True),
            "FIRES of CSR, gradient": by_rows(
                lambda: fires.FIRES(3, update="gradient"), sparse=True
            ),
            "FIRES of CSR, three classes": by_rows(lambda: fires.FIRES(3), "three", sparse=True),
            "FIRES, pairs": by_rows(lambda: fires.FIRES(3, relations="auto")),
            "FIRES of CSR, curves": by_rows(
                lambda: fires.FIRES(3, relations="curves"), sparse=True
            ),
            "FIRES, minmax": by_rows(lambda: fires.FIRES(3, scale="minmax")),
            "FIRES, three classes": by_rows(lambda: fires.FIRES(3), "three"),
            "FIRES, three classes, gradient": by_rows(
                lambda: fires.FIRES(3, update="gradient"), "three"
            ),
            "FIRES, erics": by_rows(lambda: fires.FIRES(3, update="gradient", drift="erics")),
            "FIRES, variational": by_rows(lambda: fires.FIRES(3, update="variational"), "three"),
            "FIRES, as many as are there": by_rows(lambda: fires.FIRES("auto"), "three"),
            "FIRES, a user's model": by_rows(lambda: fires.FIRES(3, model=Mine()), model=Mine),
            "pipeline, BayesLinear": pipeline(lambda: fires.FIRES(3), fires.predictors.BayesLinear),
            "pipeline, BayesLinear, numbers": pipeline(
                lambda: fires.FIRES(3), fires.predictors.BayesLinear, kind="numbers"
            ),
            "pipeline, Perceptron": pipeline(lambda: fires.FIRES(3), fires.predictors.Perceptron),
            "pipeline, LinearRegressor": pipeline(
                lambda: fires.FIRES(3), fires.predictors.LinearRegressor, kind="numbers"
            ),
            "pipeline, GaussianNB": pipeline(lambda: fires.FIRES(3), GaussianNB, kind="three"),
        },
    }
    missing = set(fires.rivals.REGISTRY) - {
        name.replace(",", " ").split()[0] for group in found.values() for name in group
    }
    assert not missing, f"no object of {missing}"
    return found


GROUPS = ("rows", "columns and nets", "FIRES")


# --- what is changed ----------------------------------------------------------------------------


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


REMOVED = object()
HEADER_VALUES = {
    "removed": REMOVED,
    "null": None,
    "text": "text",
    "a flag": True,
    "zero": 0,
    "a fraction": 0.5,
    "negative": -1,
    "huge": 10**30,
    "beyond any float": 10**400,
    "not a number": float("nan"),
    "infinite": float("inf"),
    "empty list": [],
    "empty object": {},
    "list": [1, "a", None],
    "deep": nested(300),
}


def other_arrays(array):
    """What an array may be replaced with, by what was done to it."""
    flat = array.reshape(-1)
    yield "removed", REMOVED
    yield "empty", array[:0] if array.ndim else np.zeros(0, array.dtype)
    yield "shorter", array[:-1] if array.ndim else array
    yield "longer", np.concatenate([array, array]) if array.ndim else array
    yield "narrower", array[..., :-1] if array.ndim else array
    yield "wider", np.concatenate([array, array], axis=-1) if array.ndim else array
    yield "with another axis", array[None]
    yield "flat", flat
    for kind in ("float32", "float64", "int64", "int8", "bool", "uint8"):
        if array.dtype != kind:
            with np.errstate(all="ignore"):
                yield f"as {kind}", array.astype(kind)
    values = (-1, 10**9, 2**62) if array.dtype.kind in "iu" else (np.nan, np.inf, 1e308, -1.0, 0.0)
    for value in values:
        for where, places in (("all", slice(None)), ("last", slice(-1, None))):
            changed = flat.copy()
            with np.errstate(all="ignore"):
                changed[places] = np.array(value).astype(array.dtype)
            yield f"{where} {value}", changed.reshape(array.shape)
    if array.size > 1:
        yield "first twice", np.concatenate([flat[:1], flat[:1], flat[2:]]).reshape(array.shape)


def entries(value, path=()):
    """The path of every entry of a header; of a list, only the first two."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from entries(part, (*path, name))
    if isinstance(value, list):
        for place, part in enumerate(value[:2]):
            yield from entries(part, (*path, place))


def replaced(header, path, value):
    """A header with one entry changed; the parts around it are copied, the others shared."""
    name, *rest = path
    changed = header.copy()
    if rest:
        changed[name] = replaced(header[name], rest, value)
    elif value is REMOVED:
        del changed[name]
    else:
        changed[name] = value
    return changed


def mutations(header, arrays):
    """Every change; not those of the selector of a pipeline, which has its turn on its own."""
    for name in [name for name in arrays if not name.startswith("selector.")]:
        array = arrays[name]
        for change, other in other_arrays(array):
            rest = {n: a for n, a in arrays.items() if n != name}
            yield f"{name} {change}", header, rest if other is REMOVED else rest | {name: other}
    for path in [path for path in entries(header) if path[:-1][:1] != ("selector",)]:
        for change, value in HEADER_VALUES.items():
            yield f"{'.'.join(map(str, path))} {change}", replaced(header, path, value), arrays


# --- one process for each object ----------------------------------------------------------------


def attempt(path, go_on, given):
    """None, or what went wrong; an error that says what is wrong with a value is all right."""
    try:
        again = fires.load(path, **{name: made() for name, made in given.items()})
    except (StateError, NotPassedAgain):
        return None
    except Exception as error:
        # of an object that is passed in, it may be the caller who is wrong
        return None if given and isinstance(error, ValueError) else f"loading: {error!r}"
    try:
        go_on(again)
        again.save(path)
    except ValueError:
        return None
    except Exception as error:
        return f"going on: {error!r}"
    return None


def tamper(fit, go_on, given, path, log, step):
    """Try every ``step``-th mutation, and write those that went wrong to the log."""
    fitted = fit()
    fitted.save(path)
    header, arrays = read_state(path)
    assert attempt(path, go_on, given) is None
    go_on(fires.load(path, **{name: made() for name, made in given.items()}))
    n_tried = 0
    for what, changed, others in islice(mutations(header, arrays), 0, None, step):
        log.write(f"trying {what}\n")
        write_state(path, changed, others)
        wrong = attempt(path, go_on, given)
        n_tried += 1
        if wrong:
            log.write(f"WRONG {what}: {wrong:.300}\n")
    log.write(f"done {n_tried}\n")


def here(path, case, step):
    """What came of an object in this process: how many changes were tried, what went wrong."""
    log = path.with_suffix(".log")
    with open(log, "w", buffering=1) as file:
        tamper(*case, path, file, step)
    return outcome(log)


def in_a_process(path, case, step):
    """The same in a process of its own, which may die."""
    log = path.with_suffix(".log")
    process = os.fork()
    if not process:
        code = 1
        try:
            limit_memory()
            here(path, case, step)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    found = outcome(log)
    if status:
        last = log.read_text().splitlines()[-1:]
        found["wrong"].append(f"process ended with {status} after: {last}")
    return found


def outcome(log):
    lines = log.read_text().splitlines()
    wrong = [line.removeprefix("WRONG ") for line in lines if line.startswith("WRONG ")]
    return {"tried": sum(line.startswith("trying") for line in lines), "wrong": wrong}


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def main(wanted, step, only=""):
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.fsync = lambda descriptor: None  # nothing here has to outlive a power cut
    cases = [(group, *each) for group in wanted.split(";") for each in groups()[group].items()]
    together = int(step) > 1  # one that dies is the last that was named
    if together:
        limit_memory()
    with tempfile.TemporaryDirectory() as folder:
        for group, name, case in cases:
            if only not in name:
                continue
            path = Path(folder) / f"{name}.fires"
            print(name, file=sys.stderr)
            if together:
                found = here(path, case, int(step))
            else:
                if group != "columns and nets":  # torch that has learnt does not after a fork
                    fit, go_on, _ = case
                    go_on(fit())  # what is compiled and loaded here, each process has
                found = in_a_process(path, case, int(step))
            print(json.dumps([name, found]), flush=True)


# All groups in one program, and of every other entry one change: over all, each as often.
ALL = ";".join(GROUPS)


@pytest.mark.parametrize(
    ("wanted", "step"), [(ALL, 97), *(pytest.param(g, 1, marks=pytest.mark.slow) for g in GROUPS)]
)
def test_a_state_that_was_tampered_with_is_refused_or_harmless(wanted, step):
    command = [sys.executable, __file__, wanted, str(step)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = dict(map(json.loads, ran.stdout.splitlines()))
    assert len(found) == sum(len(groups()[group]) for group in wanted.split(";"))
    assert {name: outcome["wrong"] for name, outcome in found.items() if outcome["wrong"]} == {}
    assert min(outcome["tried"] for outcome in found.values()) > 100 // step


# --- what the issue names -----------------------------------------------------------------------


def tampered(selector, path, **changes):
    """The file of a fitted selector, with changes to its header or arrays."""
    selector.partial_fit(*batch(0)).save(path)
    header, arrays = read_state(path)
    for name, change in changes.items():
        part = arrays if name in arrays else header
        part[name] = change(part[name])
    write_state(path, header, arrays)
    return path


@pytest.mark.parametrize(
    ("selector", "changes"),
    [
        (fires.FIRES(3), {"dense.spread": lambda spread: spread[:-1]}),
        (fires.OFS(3), {"kept": lambda kept: np.array([10**9])}),
        (fires.OFS(3), {"kept": lambda kept: np.repeat(kept[:1], 2)}),
        (fires.AROW(3), {"n_features": lambda n: 1000 * n}),
        (fires.FIRES(3), {"n_features": lambda n: 10**9}),
    ],
)
def test_what_a_compiled_loop_would_follow_out_of_an_array_is_refused(selector, changes, tmp_path):
    path = tampered(selector, tmp_path / "state.fires", **changes)
    with pytest.raises(StateError):
        fires.load(path)


@pytest.mark.parametrize("value", [1, True, 1.5, "x", [], ["a"], {}, [[1]] * N_FEATURES])
def test_settings_of_a_wrong_type_are_a_fault_of_the_file(value, tmp_path):
    path = tmp_path / "state.fires"
    tampered(fires.FIRES(3), path, params=lambda params: params | {"groups": value})
    with pytest.raises(StateError, match="groups must have a label for each of the 6 features"):
        fires.load(path)
    pipeline = fires.OnlinePipeline(fires.FIRES(3), None)
    tampered(pipeline, path, preprocess=lambda _: value)
    with pytest.raises(StateError, match="preprocess must be 'standard', 'minmax' or None"):
        fires.load(path)


def test_a_header_that_is_nested_too_deep_to_be_read_is_refused(tmp_path):
    path = tmp_path / "state.fires"
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        tampered(fires.OFS(3), path, n_missing=lambda _: nested(5_000))
    finally:
        sys.setrecursionlimit(before)
    with pytest.raises(StateError):
        fires.load(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
