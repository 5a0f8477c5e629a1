"""Forests: their members, what these have to say, and parameters that are estimators."""

import pickle
import zipfile

import numpy as np
import pytest
from attack.files import closed, opened
from river import base, checks
from river.preprocessing import StandardScaler
from scipy import sparse
from support.estimators import TREES, as_batch, learned, stream_of, targets_of
from support.streams import changing_rows

import streamtree
from streamtree import (
    ForestClassifier,
    ForestRegressor,
    ModelFileError,
    ModelTreeClassifier,
    SelfTerminatingTreeClassifier,
    SoftTreeClassifier,
    SoftTreeRegressor,
)
from streamtree._core.learners.explaining import ask_members

FORESTS = [ForestClassifier, ForestRegressor]
forests = pytest.mark.parametrize("estimator", FORESTS)
# members that stand in forests only, and randomised trees
NO_TREES = (
    "extra", "additive", "boosted", "contexts", "neighbors", "recent_labels", "frequencies",
)


def grown(estimator, n=600, **params):
    rows, classes = changing_rows(n, 4)
    return learned(estimator, params, rows, targets_of(estimator, classes)), rows


def shares_of(model, x):
    if isinstance(model, base.Classifier):
        return list(model.predict_proba_one(x).values())
    return [model.predict_one(x)]


def corrected(forest, mean, numbers):
    """What a pool of numbers says, by its state, where the mean of its members is `mean`."""
    tree = forest.snapshot()["tree"]
    targets, recent, (product, spread) = tree["targets"], tree["recent"], tree["worth"]
    deviation = np.sqrt(targets["squares"] / targets["weight"])
    distances = [*(numbers - mean), targets["mean"] - mean, *recent[:2], *(recent[2:] - mean)]
    inputs = np.clip(np.array(distances) / deviation, -3, 3)
    error = np.clip(tree["ridge"][:len(inputs)] @ inputs, -3, 3) * deviation
    return mean + np.clip(product / spread, 0, 1) * tree["judged"] / (tree["judged"] + 10) * error


@forests
def test_copies_of_members_say_what_the_pool_was_given(estimator):
    """The pool by hand, of what the copies predict, is what the forest says."""
    learner, rows = grown(estimator, n_trees=3)
    # of these numbers contexts know nothing that would be worth adding
    state, forest = learner.snapshot(), learner.clone()
    state["tree"]["says"][-1] = 0.5
    forest._core.restore(state)
    weights = forest.member_weights
    assert list(weights)[-1] == "contexts"
    names = [name for name in weights if name not in NO_TREES]
    members = {name: forest.member(name) for name in names}
    trees, corrections = [forest.member("extra", tree=i) for i in range(3)], []
    for x in [*rows[:30], {}, {"never": 1.0}]:
        said = {name: shares_of(member, x) for name, member in members.items()}
        said["extra"] = np.mean([shares_of(tree, x) for tree in trees], axis=0)
        for name in {"additive", "boosted", "contexts", "neighbors"} & set(weights):
            said[name] = ask_members(forest._core, x)[list(weights).index(name)]
        # what contexts say is added
        correction = np.array(said.pop("contexts"))
        if estimator is ForestRegressor:
            numbers = np.array([said[name][0] for name in list(weights)[:-1]])
            mean = np.array(list(weights.values())[:-1]) @ numbers
            expected = corrected(forest, mean, numbers) + weights["contexts"] * correction
        else:
            n = len(forest.labels)
            for name in ("recent_labels", "frequencies"):
                one = forest.snapshot()["tree"]["members"][str(list(weights).index(name))]
                said[name] = (one["counts"] + 1 / n) / (one["weight"] + 1)
            logs = sum(
                weight * np.log(np.maximum(said[name], 1e-3 / n))
                for name, weight in weights.items() if name != "contexts"
            )
            logs += weights["contexts"] * correction
            expected = np.exp(logs) / np.exp(logs).sum()
        assert shares_of(forest, x) == pytest.approx(expected, rel=1e-9)
        corrections.append(np.abs(weights["contexts"] * correction).max())
    assert max(corrections) > 1e-3


@forests
def test_a_copy_of_a_member_is_a_model_of_its_own(estimator):
    forest, rows = grown(estimator)
    before = pickle.dumps(forest)
    target = targets_of(estimator, [1])[0]
    for name in forest.member_weights:
        if name in NO_TREES[1:]:
            with pytest.raises(ValueError, match=f"no estimator for {name!r}"):
                forest.member(name)
            continue
        tree = forest.member(name, tree=0 if name == "extra" else None)
        assert type(tree) in TREES
        assert tree.draw().source.startswith("digraph")
        assert tree.decision_path(rows[0])[-1]["prediction"] == tree.predict_one(rows[0])
        assert len(tree.to_dataframe()) == tree.n_nodes
        again = pickle.loads(pickle.dumps(tree))
        for x in rows[:50]:
            tree.learn_one(x, target)
            again.learn_one(x, target)
        assert pickle.dumps(again) == pickle.dumps(tree)
    assert pickle.dumps(forest) == before


@forests
def test_wrong_members_are_named(estimator):
    other = FORESTS[1 - FORESTS.index(estimator)]
    for members, error, words in [
        (("extra", "oak"), ValueError, r"members must be 'extra', .* or estimators, got 'oak'"),
        (("soft", "soft"), ValueError, "members must be different, 'soft' is there twice"),
        ((), ValueError, r"members must hold at least one that predicts$"),
        ("soft", TypeError, "members must be a tuple of names and estimators, got str"),
        ((1,), TypeError, r"members must be names or .* of streamtree, got builtins.int"),
        ((("extra", "soft"),), TypeError, "members must be names or .*, got builtins.tuple"),
        ((other(),), TypeError, f"members must be names or .*, got .*{other.__name__}"),
        ((estimator,), TypeError, "members must be names or .*, got .*EstimatorMeta"),
        ((StandardScaler() | estimator(),), TypeError, "members must be .*, got river.*Pipeline"),
    ]:
        with pytest.raises(error, match=words):
            estimator(members=members)
    with pytest.raises(ValueError, match="n_trees=0 leaves out 'extra'"):
        estimator(n_trees=0, members=("extra",))
    for name, value in [("n_trees", -1), ("n_trees", 1001), ("window", 99), ("seed", -1)]:
        with pytest.raises(ValueError, match=f"^{name} must be from"):
            estimator(**{name: value})
        with pytest.raises(TypeError, match=f"^{name} must be an integer"):
            estimator(**{name: "1"})
    forest = grown(estimator, 100)[0]
    with pytest.raises(ValueError, match=r"the members are 'extra', .*; there is no 'oak'"):
        forest.member("oak")
    with pytest.raises(ValueError, match="member 'soft' has one tree"):
        forest.member("soft", tree=1)
    with pytest.raises(ValueError, match="`tree` must say which"):
        forest.member("extra")
    with pytest.raises(ValueError, match="tree must be from 0 to 9"):
        forest.member("extra", tree=10)


@forests
def test_a_randomised_tree_as_a_member_of_its_own(estimator):
    """What it said is what the pool learns from, whether it was asked before or not."""
    rows, classes = changing_rows(300, 4)
    y = targets_of(estimator, classes)
    made = [estimator(n_trees=0, members=("soft", estimator._extra())) for _ in "ab"]
    for x, target in zip(rows, y, strict=True):
        made[0].predict_one(x)
        for forest in made:
            forest.learn_one(x, target)
    assert pickle.dumps(made[0]) == pickle.dumps(made[1])
    tree = made[0].member(estimator._extra.__name__)
    assert type(tree) is estimator._extra
    assert tree.predict_one(rows[0]) is not None


@forests
def test_without_randomised_trees(estimator):
    forest, rows = grown(estimator, 300, n_trees=0)
    assert "extra" not in forest.member_weights
    assert forest.predict_one(rows[0]) is not None


def test_members_that_were_given_are_models_for_new_ones():
    """Parameters are taken, what was learned is not, and nothing is shared."""
    rows, classes = changing_rows(300, 3)
    y = targets_of(ModelTreeClassifier, classes)
    given = learned(ModelTreeClassifier, {"grace_period": 5.0}, rows, y)
    forest = ForestClassifier(members=("extra", given))
    assert list(forest.member_weights) == ["extra", "ModelTreeClassifier"]
    given.grace_period = 77.0
    assert forest.members[1].grace_period == 5.0
    assert forest.members[1].labels == []
    assert pickle.dumps(forest) == pickle.dumps(
        ForestClassifier(members=("extra", ModelTreeClassifier(grace_period=5.0)))
    )
    twice = ForestClassifier(
        members=(SoftTreeClassifier(), SoftTreeClassifier(max_nodes=3), "soft")
    )
    assert list(twice.member_weights) == ["SoftTreeClassifier", "SoftTreeClassifier 2", "soft"]
    assert twice.member("SoftTreeClassifier 2").max_nodes == 3
    for x, label in zip(rows, y, strict=True):
        forest.learn_one(x, label)
    assert forest.members[1].labels == given.clone().labels == []


@forests
def test_clones_and_rivers_parameters(estimator):
    members = (SoftTreeClassifier(max_nodes=7), "extra")
    if estimator is ForestRegressor:
        members = (SoftTreeRegressor(max_nodes=7), "extra")
    forest = estimator(n_trees=2, members=members)
    assert forest._get_params() == forest.clone()._get_params()
    assert forest._get_params() != estimator(n_trees=2)._get_params()
    assert forest.clone({"members": members[:1]}).members[0].max_nodes == 7
    assert pickle.dumps(estimator(**forest._get_params())) == pickle.dumps(forest)
    assert "SoftTree" in repr(forest)
    for check in checks.yield_checks(forest):
        check(forest.clone())


def nested(depth):
    forest = ForestClassifier(n_trees=1, members=("extra", "model"))
    for _ in range(depth):
        forest = ForestClassifier(n_trees=1, members=("extra", forest))
    return forest


def test_forests_nest():
    forest, (rows, classes) = nested(3), changing_rows(200, 3)
    forest = learned(lambda: forest, {}, rows, targets_of(ForestClassifier, classes))
    inner = forest.member("ForestClassifier").member("ForestClassifier")
    assert list(inner.member_weights) == ["extra", "ForestClassifier"]
    assert inner.member("ForestClassifier").member("model").n_nodes >= 1
    assert sum(forest.feature_importances().values()) == pytest.approx(1.0)
    score = forest.contributions_one(rows[0])
    assert score["score"] == pytest.approx(score["bias"] + sum(score["features"].values()))


def test_members_that_are_estimators_are_kept_in_files(tmp_path):
    path = tmp_path / "forest"
    forest, (rows, classes) = nested(2), changing_rows(200, 3)
    forest = learned(lambda: forest, {}, rows, targets_of(ForestClassifier, classes))
    forest.save(path)
    loaded = streamtree.load(path)
    assert pickle.dumps(loaded) == pickle.dumps(forest)
    assert loaded._get_params() == forest._get_params()

    class Own(SoftTreeClassifier):
        pass

    with pytest.raises(TypeError, match="Own is not an estimator of streamtree"):
        ForestClassifier(members=(Own(),)).save(path)
    assert pickle.dumps(streamtree.load(path)) == pickle.dumps(forest)


def changed_members(header, change):
    """Change what stands in a file for the member that is an estimator."""
    header["parameters"]["members"]["tuple"][1] = change(
        header["parameters"]["members"]["tuple"][1]
    )


@pytest.mark.parametrize("change", [
    lambda member: {"estimator": ["Popen", {}]},
    lambda member: {"estimator": ["SoftTreeClassifier", {}]},
    lambda member: {"estimator": ["SoftTreeRegressor", member["estimator"][1]]},
    lambda member: {"estimator": ["ModelTreeClassifier", member["estimator"][1]]},
    lambda member: {"estimator": ["SoftTreeClassifier", member["estimator"][1], 1]},
    lambda member: {"estimator": ["SoftTreeClassifier", [1]]},
    lambda member: {"estimator": [1, member["estimator"][1]]},
    lambda member: {"estimator": [
        "SoftTreeClassifier", {**member["estimator"][1], "delta": {"float": 7.0}}]},
    lambda member: {"estimator": ["ForestClassifier", member["estimator"][1]]},
    lambda member: {"tuple": [member, {"int": 1}]},
    lambda member: "nothing",
    lambda member: {"int": 1},
    lambda member: None,
], ids=range(13))
def test_forged_members_are_refused(change, tmp_path):
    path = tmp_path / "forest"
    forest = ForestClassifier(n_trees=1, members=("extra", SoftTreeClassifier(max_nodes=3)))
    rows, classes = changing_rows(60, 3)
    learned(lambda: forest, {}, rows, targets_of(ForestClassifier, classes)).save(path)
    header, arrays = opened(path.read_bytes())
    changed_members(header, change)
    path.write_bytes(closed(header, arrays))
    with pytest.raises(ModelFileError):
        streamtree.load(path)


def test_a_small_file_cannot_ask_for_many_trees(tmp_path):
    path = tmp_path / "forest"
    inner = ForestClassifier(n_trees=1, members=("extra",))
    ForestClassifier(n_trees=1, members=("extra", inner)).save(path)
    header, arrays = opened(path.read_bytes())
    member = header["parameters"]["members"]["tuple"][1]
    member["estimator"][1]["n_trees"] = {"int": 1000}
    header["parameters"]["members"]["tuple"] += [member] * 50
    path.write_bytes(closed(header, arrays))
    assert zipfile.is_zipfile(path)
    with pytest.raises(ModelFileError, match="more than 10000 trees"):
        streamtree.load(path)


def test_a_label_that_a_member_cannot_take_is_refused_by_name():
    forest = ForestClassifier(
        n_trees=1, members=("extra", SelfTerminatingTreeClassifier(loss="hinge"))
    )
    for label in "ab":
        forest.learn_one({"x": 1.0}, label)
    before = pickle.dumps(forest)
    words = "member 'SelfTerminatingTreeClassifier' of the forest: y: 'c' would be a third label"
    with pytest.raises(ValueError, match=words):
        forest.learn_one({"x": 1.0}, "c")
    assert pickle.dumps(forest) == before


@forests
def test_debug_one_shows_every_member_and_ends_in_the_prediction(estimator):
    forest, rows = grown(estimator, n_trees=3)
    for x in rows[:5]:
        lines = forest.debug_one(x).splitlines()
        for line, (name, weight) in zip(lines, forest.member_weights.items(), strict=False):
            assert line.split()[:3] == [name, "weight", f"{weight:+.4f}:"]
            if name not in NO_TREES:
                said = forest.member(name).predict_one(x)
                said = said if isinstance(said, str) else f"{said:.6g}"
                assert f": {said}" in line
        assert lines[-1].startswith("predicts ")


def test_importances_find_the_columns_that_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = ((X[:, 1] > 0) ^ (X[:, 3] > 0)).astype(int)
    forest = ForestClassifier()
    forest.learn_many(X, y)
    shares = forest.feature_importances()
    assert set(list(shares)[:2]) == {1, 3}
    assert shares[1] + shares[3] > 0.7


@forests
def test_it_is_at_least_as_good_as_its_members(estimator):
    """But for what chance does to a share of 2,700 rows."""
    X, y = stream_of(estimator, 3000, classes=3, seed=5)
    forest = estimator()
    is_classifier = issubclass(estimator, base.Classifier)

    def score(model):
        said = np.asarray(model.test_then_learn_many(X, as_batch(y)))[300:]
        if is_classifier:
            return np.mean(said == np.array(y[300:], dtype=object))
        return -np.mean((said - np.array(y[300:])) ** 2)

    best = max(
        score(estimator._families[name]()) for name in forest.member_weights
        if estimator._families.get(name)
    )
    found = score(forest)
    assert found >= best - (0.01 if is_classifier else 0.05 * abs(best))


def test_whether_members_rest_may_change():
    with pytest.raises(TypeError, match="rests must be True or False, got 1"):
        ForestClassifier(rests=1)
    forest = ForestClassifier(members=("model", "soft"))
    forest.learn_one({"a": 1.0}, "y")
    forest.rests = False
    with pytest.raises(TypeError, match="rests must be True or False, got 'no'"):
        forest.rests = "no"
    assert forest.rests is False
    assert forest.clone().rests is False
    assert pickle.loads(pickle.dumps(forest)).rests is False


def test_no_two_seeds_give_the_same_tree():
    seeds = [high * 2**54 + low for high in range(1024) for low in (0, 1, 2**54 - 1)]
    for i in (0, 9):
        trees = [ForestClassifier(10, ("extra",), seed=s)._seed_of_tree(i) for s in seeds]
        assert len(set(trees)) == len(seeds)
        assert all(0 <= seed < 2**64 for seed in trees)
    assert trees[:3] == [9, 1024 + 9, 2**64 - 1024 + 9]


def test_seeds_give_other_forests():
    rows, classes = changing_rows(300, 3)
    y = targets_of(ForestClassifier, classes)
    said = {
        repr(learned(ForestClassifier, {"seed": seed, "n_trees": 2}, rows, y).predict_proba_one(
            rows[0])) for seed in (None, 0, 1, 2**64 - 1)
    }
    assert len(said) == 3


@pytest.mark.parametrize("make", FORESTS)
def test_threads_leave_the_very_same_forest(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=600)
    y = y if make is ForestRegressor else (y > 0).astype(int)
    one, several = make(window=200), make(window=200)
    several.n_jobs = 2
    said = one.test_then_learn_many(X[:300], y[:300])
    assert np.array_equal(several.test_then_learn_many(X[:300], y[:300]), said)
    several.max_bytes = one.max_bytes = 50_000_000
    assert several.n_jobs == 2
    one.learn_many(X[300:], y[300:])
    several.learn_many(X[300:], y[300:])
    assert pickle.dumps(several) == pickle.dumps(one)
    assert np.array_equal(several.predict_many(X), one.predict_many(X))
    assert several.clone().n_jobs == pickle.loads(pickle.dumps(several)).n_jobs == 1
    several.n_jobs = -1
    assert several.n_jobs >= 1
    for n_jobs in (0, -2, 1.5):
        with pytest.raises((ValueError, TypeError), match="n_jobs"):
            several.n_jobs = n_jobs


# ----------------------------------------------------------------------------------- memory


def text_of_topics(n, n_topics=20, n_words=2000):
    """Rows of 20 words, 6 of them of the topic: additive models know it if they have room."""
    rng = np.random.default_rng(1)
    y = rng.integers(n_topics, size=n)
    own = rng.integers(n_words, size=(n_topics, 60))
    chosen = np.take_along_axis(own[y], rng.integers(60, size=(n, 6)), axis=1)
    words = np.hstack([chosen, rng.integers(n_words, size=(n, 14))])
    X = sparse.csr_array((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, 20)))
    X.resize(n, n_words)
    X.sum_duplicates()
    return X, y


def test_a_member_that_is_short_of_memory_gets_what_others_do_not_need():
    """The shares that members begin with let .77 be right."""
    X, y = text_of_topics(5000)
    forest = ForestClassifier(max_bytes=8_000_000)
    said = np.array(forest.test_then_learn_many(X, y))
    assert (said[2500:] == y[2500:]).mean() > 0.97
    shares = forest.snapshot()["tree"]["shares"]
    assert shares.sum() <= 1.0 + 1e-9
    tree_bytes = 5 / 8 * 8_000_000
    for share, taken in zip(shares, forest._core.tree.taken, strict=True):
        assert taken <= share * tree_bytes
    assert forest._core.n_bytes <= 8_000_000


def test_another_bound_is_shared_out_before_the_next_row():
    X, y = text_of_topics(1500)
    forest = ForestClassifier(n_trees=3, max_bytes=None)
    forest.learn_many(X[:1499], y[:1499])
    taken = forest._core.tree.taken
    forest.max_bytes = 2_000_000
    forest.learn_many(X[1499:], y[1499:])
    # more is taken than may be: nobody is to take more
    shares = forest.snapshot()["tree"]["shares"]
    assert sum(taken) > forest._core.tree.bytes
    assert (shares * forest._core.tree.bytes <= taken).all()


@forests
def test_how_memory_is_shared_out_is_part_of_a_model(estimator):
    X, y = text_of_topics(1800)
    one, other = (estimator(n_trees=3, max_bytes=2_000_000) for _ in range(2))
    for start in range(0, 1800, 300):
        part = slice(start, start + 300)
        for model in (one, other):
            model.learn_many(X[part], y[part])
        # blocks of a copy are those of the original: so it shares out the same
        taken = other._core.tree.taken
        other = pickle.loads(pickle.dumps(other))
        assert other._core.tree.taken == taken
    fresh = estimator(n_trees=3, max_bytes=2_000_000)
    assert (one.snapshot()["tree"]["shares"] != fresh.snapshot()["tree"]["shares"]).any()
    assert pickle.dumps(other) == pickle.dumps(one)


def test_a_member_that_cannot_be_made_is_named():
    with pytest.raises(ValueError, match="member 'non_greedy': depth=8 needs max_bytes"):
        ForestClassifier(members=("extra", "non_greedy"), max_bytes=2**18)
    forest = ForestClassifier(n_trees=2, members=("extra", "non_greedy"))
    with pytest.raises(ValueError, match="member 'non_greedy': depth=8 needs max_bytes"):
        forest.max_bytes = 2**18
    assert forest.max_bytes == ForestClassifier().max_bytes
    assert pickle.loads(pickle.dumps(forest)).max_bytes == forest.max_bytes


def test_last_targets_are_for_the_pool_and_can_be_left_out():
    """Where numbers wander, what came last tells most; it is no member that could be asked."""
    def missed(**params):
        forest = ForestRegressor(n_trees=2, **params)
        said = np.array([predict_then_learn(forest, x, y) for x, y in zip(rows, walk, strict=True)])
        return np.mean(np.abs(said - walk)[100:]), forest

    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=600)).tolist()
    rows = [{"a": a} for a in rng.normal(size=600).tolist()]
    error, forest = missed(members=("extra", "soft", "last_targets"))
    assert list(forest.member_weights) == ["extra", "soft"]
    assert "corrected by" in forest.debug_one({"a": 1.0})
    assert error < 0.5 * missed(members=("extra", "soft"))[0]
    with pytest.raises(ValueError, match=r"at least one that predicts$"):
        ForestRegressor(members=("last_targets",))


def predict_then_learn(model, x, y):
    said = model.predict_one(x)
    model.learn_one(x, y)
    return said


def test_boosted_trees_keep_their_rows_where_randomised_ones_are_short_of_memory():
    """What does not need more lends only what it will not need as its window fills."""
    rng = np.random.default_rng(0)
    members = ("extra", "boosted", "soft", "self_terminating", "contexts")
    forest = ForestRegressor(members=members, max_bytes=6 * 10**6)
    forest.learn_many(rng.normal(size=(9_000, 4)), rng.normal(size=9_000))
    state = forest.snapshot()["tree"]
    assert state["shares"][0] > 0.45
    assert len(state["members"]["1"]["window"]["targets"]) == 9_000


def test_a_forest_without_nodes_has_a_summary():
    forest = ForestClassifier(members=("boosted",))
    forest.learn_one({"a": 1.0}, "x")
    assert forest.n_nodes == forest.height == forest.summary["height"] == 0
