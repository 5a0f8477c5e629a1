"""Ensembles: what the members say, and how it is pooled, against a plain reference."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from reference.extratree import ReferenceExtraTree, Strength, name_hash
from reference.lomtree import splitmix64
from reference.pooling import Frequencies, Linear, LogLinear
from support.streams import as_dicts, changing_rows

import streamtree
from streamtree._core.ensembles.ensemble import MeanPool
from streamtree._core.ensembles.extratrees import extra_trees
from streamtree._core.ensembles.pools import LinearPool, LogLinearPool
from streamtree._core.learners.classifier import Classifier
from streamtree._core.learners.explaining import ask_members
from streamtree._core.learners.regressor import Regressor
from streamtree._core.store.checks import StateError
from streamtree._core.trees.contexts.tree import ContextMeans
from streamtree._core.trees.extra.tree import ExtraTree
from streamtree._core.trees.frequencies import FrequencyTree

CLASSIFIERS = [
    "ModelTreeClassifier", "LOMTreeClassifier", "SoftTreeClassifier",
    "NonGreedyTreeClassifier", "SelfTerminatingTreeClassifier",
]
REGRESSORS = ["SoftTreeRegressor", "NonGreedyTreeRegressor", "SelfTerminatingTreeRegressor"]


def tree_of(name):
    return FrequencyTree(2) if name == "RecentLabels" else getattr(streamtree, name)()._core.tree


def forest(names, weights):
    return Classifier(LogLinearPool([tree_of(name) for name in names], weights))


def number_stream(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return as_dicts(X), (3 * X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)).tolist()


def test_a_log_linear_pool_equals_the_reference_after_every_row():
    names, weights = [*CLASSIFIERS, "RecentLabels"], [0.4, 0.2, 0.2, 0.2, 0.2, 0.0]
    pooled, reference = forest(names, weights), LogLinear(weights)
    alone = [Classifier(tree_of(name)) for name in names]
    known = []
    for i, (x, y) in enumerate(zip(*changing_rows(600, 4), strict=True)):
        w = (1.0, 0.5, 30.0)[i % 7 % 3]
        if known:
            shares = [list(core.predict_proba_one(x).values()) for core in alone]
            expected = reference(shares)
            if i % 2:  # else the pool looks at the row once, while it learns
                assert list(pooled.predict_proba_one(x).values()) == pytest.approx(expected)
                assert pooled.predict_one(x) == known[np.argmax(expected)]
            if y in known:
                reference.learn(shares, known.index(y), w)
        if y not in known:
            known.append(y)
        for core in [pooled, *alone]:
            core.learn_one(x, y, w)
        assert pooled.tree.weights == pytest.approx(reference.b, abs=1e-9)
    assert len(known) == 5
    assert max(pooled.tree.weights) > 0.5


@pytest.mark.slow
def test_a_member_that_adds_nothing_rests_until_it_may_be_needed():
    """One that says the last labels, of rows that tell the label until it is repeated."""

    def members():
        last = MeanPool([FrequencyTree(2)])  # by itself it is light, and never rests
        return [last, tree_of("ModelTreeClassifier"), tree_of("SelfTerminatingTreeClassifier")]

    weights = [0.0, 0.5, 0.5]
    pooled, reference = Classifier(LogLinearPool(members(), weights)), LogLinear(weights)
    alone = [Classifier(member) for member in members()]
    rng, known, y, rests = np.random.default_rng(2), [], 0, []
    for i in range(11_000):
        x = {"a": rng.normal(), "b": rng.normal()}
        told = int(x["a"] + 0.3 * rng.normal() > 0)
        y = "new" if i == 8500 else told if i <= 8501 or rng.random() < 0.5 else y
        learns = reference.meet(y not in known)
        if y in known:
            shares = [list(core.predict_proba_one(x).values()) for core in alone]
            if i % 3 == 0:
                said = list(pooled.predict_proba_one(x).values())
                assert said == pytest.approx(reference(shares), abs=1e-9)
            reference.learn(shares, known.index(y))
        else:
            known.append(y)
        pooled.learn_one(x, y, 1.0)
        for m in np.flatnonzero(learns):
            alone[m].learn_one(x, y, 1.0)
        rests.append(reference.rest > 0)
        assert pooled.tree.weights == pytest.approx(reference.b, abs=1e-9)
        if i % 500 == 0:
            copied = Classifier(LogLinearPool(members(), weights))
            copied.check_state(pooled.snapshot())
            copied.restore(pooled.snapshot())
            pooled = copied
    changes = np.argwhere(np.diff(np.array(rests).astype(int), axis=0)).tolist()
    # the first rest ends by itself, the second by a new label
    assert changes == [[2000, 0], [6000, 0], [8000, 0], [8499, 0]]
    assert reference.b[0] > 0.5


def noise(n, seed=0):
    rng = np.random.default_rng(seed)
    return [({"a": a, "b": b}, int(c > 0)) for a, b, c in rng.normal(size=(n, 3))]


def test_members_that_say_the_same_do_not_rest_together():
    """What they are worth together stays with those that are asked."""
    members = [tree_of("ModelTreeClassifier") for _ in range(5)]
    core = Classifier(LogLinearPool(members, [0.2] * 5))
    rng, sums = np.random.default_rng(0), []
    for a, c in rng.normal(size=(2100, 2)):
        core.learn_one({"a": a}, int(a + c > 0), 1.0)
        sums.append(sum(core.tree.weights))
    rests = core.snapshot()["tree"]["watches"]["left"] > 0
    assert rests.sum() == 3
    assert np.ptp(sums[1990:2010]) < 0.05


def test_none_rests_before_rows_have_told_what_members_are_worth():
    core = Classifier(LogLinearPool([tree_of(name) for name in CLASSIFIERS], [0.2] * 5))
    for x, y in noise(3000):
        core.learn_one(x, y, 1e-20)
    assert not core.snapshot()["tree"]["watches"]["left"].any()


def test_two_members_that_look_at_rows_are_always_asked():
    """Those that know how often labels came do not count, and never rest."""
    names = ["ModelTreeClassifier", "SoftTreeClassifier", "SelfTerminatingTreeClassifier"]
    members = [*map(tree_of, names), FrequencyTree(20), FrequencyTree(1000)]
    core = Classifier(LogLinearPool(members, [0.3, 0.3, 0.4, 0.0, 0.0]))
    for x, y in noise(4000):
        core.learn_one(x, y, 1.0)
    left = core.snapshot()["tree"]["watches"]["left"]
    assert (left[:3] > 0).sum() == 1
    assert not left[3:].any()
    hits = 0
    for i, (x, _) in enumerate(noise(1500, seed=1)):
        hits += core.predict_one(x) == int(x["a"] > 0) if i >= 500 else 0
        core.learn_one(x, int(x["a"] > 0), 1.0)
    assert hits > 900


@pytest.mark.parametrize("lets_rest", [True, False])
def test_none_rests_where_none_may(lets_rest):
    members = [MeanPool([FrequencyTree(2)]), *map(tree_of, CLASSIFIERS[:2])]
    core = Classifier(LogLinearPool(members, [0.0, 0.5, 0.5], lets_rest=lets_rest))
    rng, n_rests = np.random.default_rng(6), 0
    for _ in range(9):
        for a, noise in rng.normal(size=(1000, 2)):
            core.learn_one({"a": a}, int(a + 0.3 * noise > 0), 1.0)
        n_rests += core.snapshot()["tree"]["watches"]["left"].any()
    assert bool(n_rests) == lets_rest


def test_a_member_that_is_woken_after_a_prediction_says_what_it_knows():
    """The row that was predicted last was not asked of it."""

    def learner():
        members = [MeanPool([FrequencyTree(2)]), *map(tree_of, CLASSIFIERS[:2])]
        core = Classifier(LogLinearPool(members, [0.0, 0.5, 0.5]))
        for x, y in told:
            core.learn_one(x, y, 1.0)
        assert core.snapshot()["tree"]["watches"]["left"].any()
        return core

    told = [({"a": x["a"]}, int(x["a"] + 0.3 * x["b"] > 0)) for x, _ in noise(3500)]
    cores = learner(), learner()
    cores[0].predict_proba_one(told[0][0])
    for core in cores:
        core.configure(lets_rest=False, restarts=False)
        core.learn_one(*told[0], 1.0)
    assert pickle.dumps(cores[0].snapshot()) == pickle.dumps(cores[1].snapshot())


def test_rests_may_be_allowed_and_not_amid_a_stream():
    members = [MeanPool([FrequencyTree(2)]), *map(tree_of, CLASSIFIERS[:2])]
    core = Classifier(LogLinearPool(members, [0.0, 0.5, 0.5], lets_rest=False))
    rng, found = np.random.default_rng(6), []
    for lets_rest in (False, True, False):
        core.configure(lets_rest=lets_rest, restarts=False)
        assert not core.snapshot()["tree"]["watches"]["left"].any()
        for a, noise in rng.normal(size=(4000, 2)):
            core.learn_one({"a": a}, int(a + 0.3 * noise > 0), 1.0)
        found.append(bool(core.snapshot()["tree"]["watches"]["left"].any()))
        core.check_state(core.snapshot())
    assert found == [False, True, False]
    assert all(core.tree.weights)


def drifting_numbers(n, seed=0):
    """Numbers that rows tell, and a walk that only those before tell."""
    rows, targets = number_stream(n, seed)
    walk = np.cumsum(np.random.default_rng(seed + 1).normal(size=n))
    return rows, (np.array(targets) + walk).tolist()


@pytest.mark.parametrize("follows", [True, False])
def test_a_linear_pool_equals_the_reference_after_every_row(follows):
    weights = [0.5, 0.3, 0.2]
    pooled = Regressor(
        LinearPool(list(map(tree_of, REGRESSORS)), weights, rate=0.1, follows=follows),
        shrinks=False,
    )
    alone = [Regressor(tree_of(name), shrinks=False) for name in REGRESSORS]
    reference = Linear(weights, follows=follows)
    corrections = []
    for i, (x, y) in enumerate(zip(*drifting_numbers(500), strict=True)):
        w = (1.0, 2.0, 20.0)[i % 5 % 3]
        said = np.array([core.predict_one(x) for core in alone])
        expected = reference(said)
        corrections.append(expected - reference.w @ said)
        if i % 2:  # else the pool looks at the row once, while it learns
            assert pooled.predict_one(x) == pytest.approx(expected)
        reference.learn(said, y, w)
        for core in [pooled, *alone]:
            core.learn_one(x, y, w)
        assert pooled.tree.weights == pytest.approx(reference.w, abs=1e-9)
    assert np.std(corrections[100:]) > 0.2


def shifted_numbers(n):
    """Numbers that drift, and are more or less by a category."""
    rng = np.random.default_rng(2)
    shifts = 4.0 * rng.normal(size=12)
    rows, targets = drifting_numbers(n)
    for i, kind in enumerate(rng.integers(12, size=n).tolist()):
        rows[i]["kind"] = f"k{kind}"
        targets[i] += float(shifts[kind])
    return rows, targets


@pytest.mark.slow
@pytest.mark.parametrize("follows", [True, False])
def test_a_linear_pool_learns_what_one_leaves_that_corrects(follows):
    """The reference is told what the corrector of a twin adds."""
    names, weights = REGRESSORS[:2], [0.6, 0.4]

    def pool():
        members = [*map(tree_of, names), ContextMeans()]
        return Regressor(
            LinearPool(members, [*weights, 0.5], rate=0.1, follows=follows), shrinks=False
        )

    pooled, twin, reference = pool(), pool(), Linear(weights, follows=follows)
    alone = [Regressor(tree_of(name), shrinks=False) for name in names]
    n_slopes, added, trusts = len(reference.ridge.slopes), [], []
    for i, (x, y) in enumerate(zip(*shifted_numbers(500), strict=True)):
        w = (1.0, 2.0, 20.0)[i % 5 % 3]
        said = np.array([core.predict_one(x) for core in alone])
        added.append(float(ask_members(twin, x)[-1][0]))
        if i % 2:  # else the pool looks at the row once, while it learns
            assert pooled.predict_one(x) == pytest.approx(reference(said, added[-1]))
        reference.learn(said, y, w, added[-1])
        for core in [pooled, twin, *alone]:
            core.learn_one(x, y, w)
        state = pooled.snapshot()["tree"]
        trusts.append(reference.trust())
        assert state["says"] == pytest.approx([*reference.w, trusts[-1]], abs=1e-9)
        assert state["squares"] == pytest.approx(reference.squares, abs=1e-9)
        assert state["trust"] == pytest.approx(reference.followed, abs=1e-9)
        assert state["worth"] == pytest.approx(reference.worth, abs=1e-9)
        assert state["ridge"][:n_slopes] == pytest.approx(reference.ridge.slopes, abs=1e-9)
        last = [reference.errors[-1], reference.recent_error, y, reference.recent_target]
        assert state["recent"] == pytest.approx(last)
    assert pickle.dumps(pooled.snapshot()) == pickle.dumps(twin.snapshot())
    # it adds much, and is followed not at all at first, and then in part
    assert np.std(added[100:]) > 1.0
    assert min(trusts) == 0.0
    assert len(set(trusts)) > 400
    assert 0.2 < max(trusts[200:]) < 1.0


def test_a_linear_pool_follows_what_came_last_where_that_pays():
    def error(follows, stream):
        core = Regressor(LinearPool([tree_of(REGRESSORS[0])], [1.0], rate=0.3, follows=follows))
        rows, targets = stream(2000)
        total = 0.0
        for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
            total += (core.predict_one(x) - y) ** 2 if i >= 200 else 0.0
            core.learn_one(x, y, 1.0)
        return total

    assert error(True, drifting_numbers) < 0.5 * error(False, drifting_numbers)
    assert error(True, number_stream) < 1.02 * error(False, number_stream)


def test_a_mean_pool_says_the_mean():
    trees = [tree_of("ModelTreeClassifier"), tree_of("SoftTreeClassifier")]
    alone = [Classifier(tree_of("ModelTreeClassifier")), Classifier(tree_of("SoftTreeClassifier"))]
    pooled = Classifier(MeanPool(trees))
    for x, y in zip(*changing_rows(200, 3), strict=True):
        for core in [pooled, *alone]:
            core.learn_one(x, y, 1.0)
        said = [list(core.predict_proba_one(x).values()) for core in alone]
        assert list(pooled.predict_proba_one(x).values()) == pytest.approx(np.mean(said, axis=0))


def test_ensembles_nest():
    def nested():
        inner = MeanPool([tree_of("ModelTreeClassifier"), tree_of("ModelTreeClassifier")])
        return Classifier(LogLinearPool([inner, tree_of("SoftTreeClassifier")], [0.5, 0.5]))

    # two equal members say the same as one
    flat = forest(["ModelTreeClassifier", "SoftTreeClassifier"], [0.5, 0.5])
    core = nested()
    for x, y in zip(*changing_rows(300, 3), strict=True):
        assert core.predict_one(x) == flat.predict_one(x)
        core.learn_one(x, y, 1.0)
        flat.learn_one(x, y, 1.0)
    assert core.tree.weights == pytest.approx(flat.tree.weights)
    snapshot = core.snapshot()
    copied = nested()
    copied.check_state(snapshot)
    copied.restore(snapshot)
    assert pickle.dumps(copied.snapshot()) == pickle.dumps(snapshot)


def test_one_member_keeps_its_labels():
    single, alone = forest(["ModelTreeClassifier"], [1.0]), Classifier(tree_of(CLASSIFIERS[0]))
    for x, y in zip(*changing_rows(300, 3), strict=True):
        assert single.predict_one(x) == alone.predict_one(x)
        single.learn_one(x, y, 1.0)
        alone.learn_one(x, y, 1.0)


def test_a_copy_goes_on_as_if_nothing_had_happened():
    names, weights = [*CLASSIFIERS, "RecentLabels"], [0.2] * 6
    rows, labels = changing_rows(400, 4)
    core, copied = forest(names, weights), forest(names, weights)
    for x, y in itertools.islice(zip(rows, labels, strict=True), 200):
        core.learn_one(x, y, 1.0)
    copied.check_state(core.snapshot())
    copied.restore(copy.deepcopy(core.snapshot()))
    for x, y in zip(rows[200:], labels[200:], strict=True):
        core.learn_one(x, y, 1.0)
        copied.predict_one(x)
        copied.learn_one(x, y, 1.0)
    assert pickle.dumps(copied.snapshot()) == pickle.dumps(core.snapshot())


@pytest.mark.parametrize("damage", [
    lambda tree: tree["says"].__setitem__(0, np.nan),
    # predictions would not be finite
    lambda tree: tree["says"].__setitem__(0, 1.7e308),
    lambda tree: tree["watches"]["left"].__setitem__(1, 100),
    lambda tree: tree["curvatures"].__setitem__((0, 0), -1.0),
    lambda tree: tree["curvatures"].__setitem__((1, 0), np.nan),
    lambda tree: tree["curvatures"].__setitem__((1, 0), 1e4),
    lambda tree: tree["curvatures"].__setitem__((0, 1), 1e-3),
    lambda tree: tree.update(curvatures=tree["curvatures"][:1]),
    lambda tree: tree.update(says=tree["says"][:1]),
    lambda tree: tree.update(shares=tree["shares"][:1]),
    lambda tree: tree["shares"].__setitem__(0, np.nan),
    lambda tree: tree["shares"].__setitem__(0, 1.5),
    lambda tree: tree.update(refused=tree["refused"][:1]),
    lambda tree: tree.update(rows=-1),
    lambda tree: tree.update(next_sharing=0.5),
    lambda tree: tree.update(watches=tree["watches"][:1]),
    lambda tree: tree["watches"]["left"].__setitem__(0, -1),
    lambda tree: tree["watches"]["left"].__setitem__(0, 9000),
    lambda tree: tree["watches"]["left"].__setitem__(slice(None), 1),
    lambda tree: tree["watches"]["next_rest"].__setitem__(0, 0),
    lambda tree: tree["watches"]["rows"].__setitem__(0, -1),
    lambda tree: tree.update(losses=np.nan),
    lambda tree: tree.update(losses=-1.0),
    lambda tree: tree["watches"]["rows"].__setitem__(0, 2**62),
    lambda tree: tree["members"]["1"].update(counts=np.full(7, 0.1), weight=0.7),
    lambda tree: tree["members"]["1"].update(weight=np.inf),
    lambda tree: tree["members"]["1"].update(counts=tree["members"]["1"]["counts"] + 1.0),
    lambda tree: tree["members"]["1"]["counts"].__setitem__(0, np.nan),
    lambda tree: tree["members"].pop("0"),
    lambda tree: tree["members"]["0"]["nodes"]["column"].__setitem__(0, 99),
])
def test_a_damaged_state_is_refused(damage):
    names = ["ModelTreeClassifier", "RecentLabels"]
    core = forest(names, [1.0, 0.0])
    for x, y in zip(*changing_rows(50, 3), strict=True):
        core.learn_one(x, y, 1.0)
    state = copy.deepcopy(core.snapshot())
    damage(state["tree"])
    with pytest.raises(StateError):
        forest(names, [1.0, 0.0]).check_state(state)


@pytest.mark.parametrize("memory", [20, 1000])
def test_frequencies_are_those_of_the_last_rows(memory):
    core, reference, known = Classifier(FrequencyTree(memory)), Frequencies(memory), []
    rng = np.random.default_rng(memory)
    for i in range(900):
        y = "abcde"[rng.integers(1 + i // 200)]
        w = (1.0, 0.3, 40.0)[i % 7 % 3]
        if known:
            shares = list(core.predict_proba_one({}).values())
            assert shares == pytest.approx(reference(len(known)), rel=1e-9)
            assert core.predict_one({}) == known[np.argmax(shares)]
        known += [] if y in known else [y]
        core.learn_one({}, y, w)
        reference.learn(known.index(y), w)
        if i == 500:
            copied = Classifier(FrequencyTree(memory))
            copied.check_state(core.snapshot())
            copied.restore(core.snapshot())
            core = copied
    assert len(known) == 5
    assert len(set(np.round(shares, 3))) == 5


def trees(n, has_numbers=False, strength=1.0, window=200):
    return extra_trees(
        list(range(n)), window_length=window, has_numbers=has_numbers, strength=strength
    )


def test_trees_over_one_window_say_what_trees_with_windows_of_their_own_say():
    # five of them never grow more than two at a time, so that none waits for others
    shared = Classifier(trees(5))
    alone = [
        Classifier(ExtraTree(
            has_numbers=False, seed=i, strength=1.0, stagger=stagger, window_length=200,
            is_member=True,
        ))
        for i, stagger in enumerate([0.0, 0.4, 0.8, 0.4, 0.0])
    ]
    for x, y in zip(*changing_rows(500, 3), strict=True):
        for core in [shared, *alone]:
            core.learn_one(x, y, 1.0)
        said = [list(core.predict_proba_one(x).values()) for core in alone]
        assert list(shared.predict_proba_one(x).values()) == pytest.approx(np.mean(said, axis=0))
    # the window is there once
    assert shared.n_bytes < sum(core.n_bytes for core in alone) / 1.5


def shares_of(core, x):
    return list(core.predict_proba_one(x).values())


@pytest.mark.parametrize("has_numbers", [False, True])
def test_trees_over_one_window_learn_the_strength_of_shrinking_for_their_mean(has_numbers):
    core = (Regressor if has_numbers else Classifier)(trees(3, has_numbers, strength=None))
    shared, n = Strength(None), 0
    alone = [ReferenceExtraTree(numbers=has_numbers, strength=shared, seed=i) for i in range(3)]
    # none is grown from the window, for what these draw then differs
    state = core.snapshot()
    for i, tree in enumerate(alone):
        tree.next_growth = state["tree"]["members"][str(i)]["next_growth"] = 1000
    core.restore(state)
    rows, targets = number_stream(95)
    if not has_numbers:
        seen = {}
        labels = np.digitize(targets, [-1.0, 1.0]).tolist()
        targets = [seen.setdefault(label, len(seen)) for label in labels]
    order = sorted(rows[0], key=lambda name: splitmix64(name_hash(name)) % 2**32)
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        cells = [np.float32(x[name]) for name in order]
        said, slopes = np.mean([tree.said_of(tree.leaf(cells)) for tree in alone], axis=0)
        if i:
            found = core.predict_one(x) if has_numbers else shares_of(core, x)
            assert found == pytest.approx(said, rel=1e-9)
        shared.is_learned = False
        for tree in alone:
            tree.learn(cells, y)
        shared.is_learned = True
        if has_numbers:
            shared.learn_number(y, float(said), float(slopes), 1.0)
        elif y < n:
            shared.learn_label(y, said, slopes, 1.0)
        n = n if has_numbers else max(n, y + 1)
        core.learn_one(x, y, 1.0)
    assert core.tree.shrinkage == pytest.approx(shared.value, rel=1e-9)
    assert abs(np.log(shared.value)) > 0.1


def test_the_mean_of_many_trees_is_shrunk_less_than_each_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = (X[:, 0] * X[:, 1] + rng.normal(size=2000) > 0).tolist()
    found = []
    for n in (1, 10):
        core = Classifier(trees(n, strength=None, window=1000))
        for x, label in zip(as_dicts(X), y, strict=True):
            core.learn_one(x, label, 1.0)
        found.append(core.tree.shrinkage)
    assert 1.0 < 2 * found[1] < found[0]


def test_light_members_have_little_memory_at_first_and_later():
    names = ["ModelTreeClassifier", "SoftTreeClassifier"]
    members = [trees(3), *map(tree_of, names), FrequencyTree(20), FrequencyTree(1000)]
    core = Classifier(LogLinearPool(members, [0.5, 0.25, 0.25, 0.0, 0.0]), max_bytes=400_000)
    little = 1 / 64
    shares = core.snapshot()["tree"]["shares"]
    assert shares == pytest.approx([(1 - 2 * little) / k for k in (2, 4, 4)] + [little] * 2)
    for x, y in noise(600):
        core.learn_one(x, y, 1.0)
    later = core.snapshot()["tree"]["shares"]
    assert later.sum() <= 1.0001
    assert later[0] > shares[0]
    assert max(later[3:]) <= little


def test_what_members_have_to_say_counts_among_the_bytes():
    pools = [
        Classifier(MeanPool([FrequencyTree(20) for _ in range(100)])),
        Classifier(LogLinearPool([FrequencyTree(20) for _ in range(100)], [0.01] * 100)),
    ]
    assert pools[1].n_bytes - pools[0].n_bytes >= 100 * 100 * 8


def test_trees_over_one_window_are_grown_at_different_times_two_at_a_time():
    members = Classifier(trees(6)).snapshot()["tree"]["members"]
    due = [members[str(m)]["next_growth"] for m in range(6)]
    assert due == due[::-1]
    assert due[0] < due[1] < due[2]


@pytest.mark.parametrize("has_numbers", [False, True])
def test_a_copy_over_one_window_goes_on_as_if_nothing_had_happened(has_numbers):
    kind = Regressor if has_numbers else Classifier
    rows, targets = number_stream(500) if has_numbers else changing_rows(500, 3)
    core = kind(trees(3, has_numbers))
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        if i == 377:
            copied = kind(trees(3, has_numbers))
            copied.check_state(core.snapshot())
            copied.restore(copy.deepcopy(core.snapshot()))
        core.learn_one(x, y, 1.0)
        if i >= 377:
            copied.learn_one(x, y, 1.0)
    assert pickle.dumps(copied.snapshot()) == pickle.dumps(core.snapshot())


@pytest.mark.parametrize("damage", [
    lambda tree: tree.update(ridge=tree["ridge"][1:]),
    lambda tree: tree["ridge"].__setitem__(0, np.nan),
    lambda tree: tree["ridge"].__setitem__(0, 1e300),
    lambda tree: tree["ridge"].__setitem__(-1, -1.0),
    lambda tree: tree["ridge"].__setitem__(-2, 0.5),
    lambda tree: tree.update(recent=tree["recent"][1:]),
    lambda tree: tree["recent"].__setitem__(0, np.inf),
    lambda tree: tree.update(worth=tree["worth"][1:]),
    lambda tree: tree["worth"].__setitem__(1, -1.0),
    lambda tree: tree.update(judged=-1),
    lambda tree: tree.update(judged=2**63 - 1),
    # predictions would not be finite
    lambda tree: tree["targets"].update(mean=1e300),
    lambda tree: tree["targets"].update(weight=1e-300, squares=1e300),
    lambda tree: tree["says"].__setitem__(0, 1e300),
    lambda tree: tree["squares"].__setitem__(0, -1.0),
    lambda tree: tree.update(squares=tree["squares"][:1]),
])
def test_a_damaged_state_of_corrections_is_refused(damage):
    def pool():
        members = [tree_of(name) for name in REGRESSORS]
        return Regressor(LinearPool(members, [0.5, 0.3, 0.2], rate=0.1))

    core = pool()
    for x, y in zip(*number_stream(50), strict=True):
        core.learn_one(x, y, 1.0)
    state = copy.deepcopy(core.snapshot())
    pool().check_state(state)
    damage(state["tree"])
    with pytest.raises(StateError):
        pool().check_state(state)


@pytest.mark.parametrize("damage", [
    lambda tree: tree["window"].update(size=7),
    lambda tree: tree["members"]["1"].update(random=-1),
    lambda tree: tree["members"]["0"]["grown"]["nodes"]["column"].__setitem__(0, 99),
])
def test_a_damaged_state_over_a_window_is_refused(damage):
    core = Classifier(trees(2))
    for x, y in zip(*changing_rows(300, 3), strict=True):
        core.learn_one(x, y, 1.0)
    state = copy.deepcopy(core.snapshot())
    damage(state["tree"])
    with pytest.raises(StateError):
        Classifier(trees(2)).check_state(state)
