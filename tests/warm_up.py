"""Compile the kernels that most tests use, before the workers start: they find them in the cache.

Two processes compile different kernels at once. Left to themselves, both workers would compile
the same ones. Where the cache is filled already, this takes seconds.
"""

import multiprocessing
import sys
import warnings

import numpy as np
import scipy.sparse as sp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6)) * (RNG.random((60, 6)) < 0.8)
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
SIGNAL = X[:, 0] - X[:, 1]
TWO, THREE = SIGNAL > 0, np.digitize(SIGNAL, [-0.5, 0.5])
COUNTS = RNG.poisson(np.exp(0.3 * SIGNAL))
FORMS = (X, GAPS, X.astype(np.float32), sp.csr_array(X), sp.csr_array(GAPS))
GRADIENT = {"update": "gradient", "score": "omega"}

# Those that need different kernels are in different processes.
SHARES = (
    [
        ("FIRES", {}, TWO),
        ("FIRES", {}, THREE),
        ("FIRES", {"model": "logistic"}, TWO),
        ("FIRES", {"scale": "minmax"}, TWO),
        ("FIRES", {"redundancy": "drop"}, TWO),
        ("FIRES", {"relations": "auto"}, TWO),  # each `fires select` looks for curves
        ("EFS", {}, TWO),
        ("OFS", {}, TWO),
        ("OFSPartial", {}, TWO),
        ("PEtrun", {}, TWO),
    ],
    [
        ("FIRES", GRADIENT, TWO),
        ("FIRES", GRADIENT, THREE),
        ("FIRES", {"model": "gaussian"}, SIGNAL),
        ("FIRES", {"model": "poisson"}, COUNTS),
        ("FIRES", {"model": "gaussian", **GRADIENT}, SIGNAL),
        ("FIRES", {"model": "poisson", **GRADIENT}, COUNTS),
        ("AROW", {}, TWO),
        ("SCW", {}, TWO),
        ("FTRL", {}, TWO),
        ("IncrementalPermutation", {}, TWO),
    ],
)


def learn(share):
    """Each selector of a share learns from one batch of every form, and twice from the first."""
    import fires

    warnings.simplefilter("ignore")
    for name, settings, y in SHARES[share]:
        for form in FORMS:
            selector = getattr(fires, name)(2, **settings)
            selector.partial_fit(form, y).partial_fit(form, y).get_support()
        pipeline = fires.OnlinePipeline(getattr(fires, name)(2, **settings))
        for _ in range(14):  # some kernels are needed after some hundred rows only
            pipeline.partial_fit(X, y)
        pipeline.predict(X)


def main():
    """Compile both shares at once; what goes wrong is for the tests to tell."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=learn, args=(share,)) for share in range(len(SHARES))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return any(process.exitcode for process in processes)


if __name__ == "__main__":
    sys.exit(main())
