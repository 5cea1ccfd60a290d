"""The loops that look for changes and dependent rows, against their definitions in NumPy."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.naive import add_up

from fires.kernels.assimilate import ADDED, N_LINES, N_STATS, WIDTH, add_scores, note_scores
from fires.kernels.changes import fill_blocks, find_moves, increments, inflate, take_batch


def increments_plain(y, log_p, f, g, bend, inflation, even, share):
    if share > 0.0:
        log_level = np.where(y > 0.0, math.log(share), math.log(1.0 - share))
        odds = np.exp(np.minimum(log_level - log_p, 50.0))
        return np.minimum(np.log(0.25 + 0.75 * odds), 3.0)
    u, expected, wide = f * g, f * f * bend, inflation[:, None]
    cut = np.clip(u, -2.0, 2.0)
    if even:
        u, expected = cut, np.minimum(expected, 4.0)
    else:
        expected = wide * expected
    step = 0.4 / wide
    return np.minimum(-step * u - 0.5 * step**2 * np.maximum(cut**2, expected), 3.0)


@pytest.mark.parametrize("n_sums", [1, 3])
@pytest.mark.parametrize(("even", "share"), [(True, 0.0), (False, 0.0), (False, 0.02)])
def test_rows_are_taken_as_they_are_defined(n_sums, even, share):
    rng, n = np.random.default_rng(0), 70
    y = rng.choice([-1.0, 1.0], (n_sums, n))
    weight, kept = rng.choice([0.0, 1.0, 2.5], n), rng.random(n)
    stats = rng.normal(size=(n_sums, N_STATS, n))
    stats[:, [2, WIDTH]] = np.abs(stats[:, [2, WIDTH]])
    local, found = rng.normal(size=(2, n_sums)), 1.0 + rng.random((2, n_sums))
    inflation = found[1] if even else np.minimum(found[1], 2.0 * found[0])
    sums, shared = rng.random((4, n_sums)), rng.random((2, n_sums, 2))
    bend = stats[:, 2] / (1.0 + stats[:, WIDTH] * stats[:, 2])
    g, f = bend * stats[:, 3], stats[:, ADDED] - local[0][:, None]
    square = kept**2 * (g * g if even else np.maximum(g * g, bend))
    seen = np.stack([y, stats[:, 1], f, g, bend])
    more = increments_plain(*seen, inflation, even, share)
    assert_allclose(increments(seen, inflation, even, share), more, rtol=1e-12)
    after = sums.copy()
    greatest = add_up(more, weight, 30.0, *after[:3])
    along = square if even else kept**2 * bend
    parts = [kept * g, f * kept * g, square, f * f * along, weight * stats[:, ADDED]]
    expected = np.sum([*parts, weight * (y > 0.0)], axis=2)
    level = local + 0.3 * (expected[4:] - local * weight.sum())
    shares = shared + expected[:4].reshape(2, 2, n_sums).swapaxes(1, 2)
    lines, told = np.empty((N_LINES, n_sums, n)), np.zeros((n_sums, 7))
    note_scores(stats, 0, 40, kept, even, lines)
    note_scores(stats, 40, n, kept, even, lines)
    take_batch(y, weight, stats, even, local, share, 0.3, found, 30.0, sums, shared, lines, told)
    calm = np.ones((n_sums, 1)) if even else greatest[:, None] < 5.0
    assert_allclose(lines, [kept * g, square, f, calm * g, calm * bend, along], rtol=1e-12)
    assert_allclose(told, np.vstack([expected, greatest]).T, rtol=1e-12)
    assert_allclose(sums, after, rtol=1e-12)
    assert_allclose(local, level, rtol=1e-12)
    assert_allclose(shared, shares, rtol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 3, 4, 70])
def test_scores_add_up_along_each_coefficient(n_rows):
    rng = np.random.default_rng(n_rows)
    Z, lines, sums = rng.normal(size=(n_rows, 11)), rng.normal(size=(6, 2, 90)), np.ones((2, 2, 11))
    add_scores(Z, 20, lines[3:5], sums)
    scores = lines[3:5, :, 20 : 20 + n_rows]
    assert_allclose(sums - 1.0, [scores[0] @ Z, scores[1] @ (Z * Z)], rtol=1e-9, atol=1e-12)


def ratio_plain(blocks):
    squares, expected = blocks[..., 2, :], blocks[..., 3, :]
    return np.divide(squares, expected, out=np.zeros(squares.shape), where=expected > 0.0)


def inflation_plain(blocks, filled):
    """That of each row of parameters, and along the predictor, from whole blocks."""
    pooled, along = np.ones((2, len(blocks)))
    n_columns = blocks.shape[-1] - 1
    few = 6.0 * max(20 / max(n_columns, 1), 1.0)
    for i, n in enumerate(filled[:, 1]):
        if n < 3.0:
            continue
        ratio, part = ratio_plain(blocks[:, i]), 2.0 / (9.0 * n)
        along = np.maximum(along, (n * ratio[:, -1] + few) / (n + few))
        seen = blocks[0, i, 3, :-1] > 0.0
        if seen.any():
            some = np.sort(ratio[:, :-1][:, seen], axis=1)
            quartile = (1.0 - part - 0.6745 * math.sqrt(part)) ** 3
            low = some[:, (some.shape[1] - 1) // 4] / quartile
            low = (n * low + few) / (n + few)
            growing = np.maximum(low / (2.5 * pooled), 1.0) if i else 1.0
            pooled = np.maximum(pooled, low * growing)
    return pooled, np.maximum(along, pooled)


def filled_plain(Z, lines, gamma, blocks, filled):
    """Blocks after some rows, which fit into the open short one."""
    f, g, bend = lines[2:5]
    own = np.stack([g @ Z, bend @ (Z * Z)], axis=1)
    along = np.stack([(g * f).sum(axis=1), (bend * f * f).sum(axis=1)], axis=1)
    blocks, filled = blocks.copy(), filled + np.array([len(Z), 0.0])
    blocks[:, :, :2] += np.concatenate([own, along[:, :, None]], axis=2)[:, None]
    for i, length in enumerate((100.0, 1000.0)):
        if filled[i, 0] >= length:
            block, fade = blocks[:, i], gamma ** filled[i, 0]
            most = 9.0 * np.maximum(ratio_plain(block), 1.0) * block[:, 1]
            block[:, 2] = fade * block[:, 2] + np.minimum(block[:, 0] ** 2, most)
            block[:, 3] = fade * block[:, 3] + block[:, 1]
            block[:, :2] = 0.0
            filled[i] = 0.0, filled[i, 1] * fade + 1.0
    return blocks, filled


@pytest.mark.parametrize("n_sums", [1, 3])
@pytest.mark.parametrize("size", [0, 1, 7, 60])
def test_blocks_are_filled_as_they_are_defined(n_sums, size):
    rng, gamma = np.random.default_rng(0), 0.999
    blocks, filled = np.zeros((n_sums, 2, 4, size + 1)), np.zeros((2, 2))
    pooled, along = np.ones((2, n_sums))
    for n in [100, 40, 60, *[100] * 40, 7]:
        Z, lines = rng.normal(size=(n, size)), rng.normal(size=(5, n_sums, n))
        lines[3] *= 3.0  # scores vary more than expected
        lines[4], Z[:, 3:5] = np.abs(lines[4]), 0.0  # and of some columns nothing is known
        Z.setflags(write=False)
        expected, counts = filled_plain(Z, lines, gamma, blocks, filled)
        ended = fill_blocks(Z, lines, gamma, blocks, filled)
        assert ended == (filled[0, 0] == 0.0)
        inflate(blocks, filled, pooled, along)
        assert_allclose(blocks, expected, rtol=1e-10, atol=1e-10)
        assert_allclose(filled, counts, rtol=1e-12)
        assert_allclose((pooled, along), inflation_plain(blocks, filled), rtol=1e-12)
    assert pooled.max() > 1.5 or size == 0


def test_a_long_batch_fills_blocks_as_its_parts_do():
    rng, gamma, cuts = np.random.default_rng(0), 0.999, [0, 60, 100, 200, 260, 1100, 1250]
    Z, lines = rng.normal(size=(1250, 3)), rng.normal(size=(5, 2, 1250))
    blocks, filled = np.zeros((2, 2, 2, 4, 4)), np.zeros((2, 2, 2))
    fill_blocks(Z, lines, gamma, blocks[0], filled[0])
    for start, stop in itertools.pairwise(cuts):
        part = np.ascontiguousarray(lines[:, :, start:stop])
        fill_blocks(Z[start:stop], part, gamma, blocks[1], filled[1])
    assert_allclose(blocks[0], blocks[1], rtol=1e-10, atol=1e-10)
    assert_allclose(filled[0], filled[1], rtol=1e-12)


def moves_plain(total, square, shared, usual, least, inflation, n_rows, limits, columns, led):
    """The new usual squares, and all sums that are beyond their limits."""
    leading, mu, products = led
    size = len(leading)
    with_predictor = np.einsum("kij,kj->ki", products[:, :size, :size], mu)
    variance = np.einsum("ki,ki->k", with_predictor, mu)
    share = with_predictor / np.where(variance > 0.0, variance, np.inf)[:, None]
    own = total.copy()
    own[:, leading] -= share * shared[0, :, 1:]
    known, wide = shared[1, :, 1] > least, inflation
    far = np.divide(shared[0, :, 1] ** 2, shared[1, :, 1] * wide, where=known, out=np.ones(len(mu)))
    usual = usual + (np.minimum(far, 16.0) - usual) * min(n_rows / 10_000.0, 1.0)
    if size >= 10:
        seen = square[:, leading]
        far = np.divide(
            own[:, leading] ** 2, seen, where=seen > 0.0, out=np.full(seen.shape, 0.455)
        )
        wide = np.maximum(inflation, np.sort(far, axis=1)[:, size // 2] / 0.455)
    found = []
    for k in range(len(total)):
        for i, place in enumerate((-2, -1)):
            t, s = shared[:, k, i]
            if s > 0.0 and t * t > s * inflation[k] * limits[place] ** 2 and (known[k] or not i):
                found.append((k, place, t, s, inflation[k]))
        for j in columns:
            t, s = own[k, j], square[k, j]
            if s > 0.0 and t * t > s * wide[k] * limits[0] ** 2:
                found.append((k, j, t, s, wide[k]))
    return usual, np.array(found).reshape(-1, 5)


@pytest.mark.parametrize("n_sums", [1, 3])
@pytest.mark.parametrize("size", [0, 5, 20])
@pytest.mark.parametrize("some", [False, True])
def test_moves_are_those_of_the_definition(n_sums, size, some):
    n_found = 0
    for seed in range(10):
        rng, n_features = np.random.default_rng(seed), 40
        total, square = rng.normal(size=(2, n_sums, n_features))
        square, inflation = square**2, 1.0 + rng.random(n_sums)
        square[:, :3] = 0.0
        shared, usual = rng.normal(size=(2, n_sums, 2)), rng.random(n_sums)
        shared[1] **= 2
        leading = np.sort(rng.permutation(n_features)[:size])
        Z, mu = rng.normal(size=(100, size + 1)), rng.normal(size=(n_sums, size))
        products = np.array([Z.T @ Z + k for k in range(n_sums)])
        columns = np.sort(rng.permutation(n_features)[:15]) if some else np.arange(n_features)
        where = np.array([list(columns).index(j) if j in columns else -1 for j in leading], int)
        facts = 0.3, inflation, 100.0, np.array([1.5, 0.6, 0.7])
        expected = moves_plain(
            total, square, shared, usual, *facts, columns, (leading, mu, products)
        )
        named = columns if some else np.empty(0, dtype=np.intp)
        sums = total, square, shared, usual
        found = find_moves(*sums, *facts, named, len(columns), leading, where, mu, products)
        assert_allclose(usual, expected[0], rtol=1e-12)
        assert_allclose(found, expected[1], rtol=1e-10)
        n_found += len(found)
    assert n_found > 20
