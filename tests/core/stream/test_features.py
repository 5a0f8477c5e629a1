"""What a feature may be called and what it may hold, seen through learn_one and predict_one."""

import collections
import dataclasses
import datetime
import enum
import fractions
import pickle
import re
import types
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.lomtree import ReferenceLOMTree
from support.isolated import run_isolated
from support.lomtrees import majority_tree
from support.strategies import names
from support.streams import changing_rows

from streamtree import LOMTreeClassifier, ModelTreeClassifier
from streamtree._core.stream.features import Category


def trained():
    """A model of two features, "size" (a number) and "colour" (a category)."""
    model = ModelTreeClassifier(grace_period=5)
    for i in range(60):
        model.learn_one({"size": float(i % 5), "colour": "red" if i % 2 else "blue"}, i % 2)
    return model


def features(model):
    return model.snapshot()["features"]


# ------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    "value",
    [
        1, True, np.True_, np.int8(1), np.uint64(1), np.float16(1), np.float32(1), np.float64(1),
        np.longdouble(1),
    ],
    ids=repr,
)
def test_every_kind_of_number_is_the_same_number(value):
    model, plain = trained(), trained()
    for i in range(30):
        model.learn_one({"size": value, "new": value}, i % 2)
        plain.learn_one({"size": 1.0, "new": 1.0}, i % 2)
    assert pickle.dumps(model) == pickle.dumps(plain)


@pytest.mark.parametrize("value", [2**63, -(2**64) + 1, 2**1000], ids=["2^63", "-2^64", "2^1000"])
def test_an_int_counts_as_the_nearest_float(value):
    model, plain = trained(), trained()
    model.learn_one({"size": value}, 1)
    plain.learn_one({"size": float(value)}, 1)
    assert pickle.dumps(model) == pickle.dumps(plain)


@pytest.mark.parametrize(
    "value", [None, float("nan"), np.float32("nan"), np.float64("nan")], ids=repr
)
@pytest.mark.parametrize("name", ["size", "colour", "unseen"])
def test_a_missing_value_is_no_feature(name, value):
    x = {"size": 1.0, "colour": "red"}
    without = {k: v for k, v in x.items() if k != name}
    model, plain = trained(), trained()
    assert model.predict_proba_one({**x, name: value}) == plain.predict_proba_one(without)
    model.learn_one({**x, name: value}, 1)
    plain.learn_one(without, 1)
    assert pickle.dumps(model) == pickle.dumps(plain)
    assert "unseen" not in features(model)


BAD_VALUES = [
    (float("inf"), ValueError),
    (-np.inf, ValueError),
    (np.float32("inf"), ValueError),
    (np.float64("-inf"), ValueError),
    (10**400, ValueError),
    (-(10**5000), ValueError),  # too long for repr
    (1j, TypeError),
    (np.complex64(1), TypeError),
    (b"red", TypeError),
    (np.bytes_(b"red"), TypeError),
    (bytearray(b"red"), TypeError),
    ([1.0], TypeError),
    ((1.0,), TypeError),
    ({"a": 1.0}, TypeError),
    (np.array(1.0), TypeError),
    (np.array([1.0, 2.0]), TypeError),
    (datetime.datetime(2024, 2, 29), TypeError),
    (datetime.timedelta(1), TypeError),
    (np.datetime64("2024-02-29"), TypeError),
    (np.timedelta64(1, "s"), TypeError),
    (pd.Timestamp(2024, 2, 29), TypeError),
    (fractions.Fraction(1, 2), TypeError),
    (object(), TypeError),
]


@pytest.mark.parametrize(
    ("value", "error"),
    BAD_VALUES,
    ids=[f"{type(value).__name__}-{i}" for i, (value, _) in enumerate(BAD_VALUES)],
)
@pytest.mark.parametrize("name", ["size", "colour", "unseen", ("a", 7)], ids=repr)
def test_a_bad_value_names_the_feature_and_changes_nothing(name, value, error):
    model = trained()
    before = pickle.dumps(model)
    # good features before and after it: they must not have got in either
    x = {"fresh": 1.0, "size": 2.0, name: value, "fresh too": "green"}
    for call in (
        lambda: model.learn_one(x, 0),
        lambda: model.learn_one(x, "a new label"),
        lambda: model.learn_one(x, 0, w=0.0),
        lambda: model.predict_one(x),
        lambda: model.predict_proba_one(x),
        lambda: model.predict_topk_one(x),
    ):
        with pytest.raises(error) as caught:
            call()
        assert repr(name) in str(caught.value)
    assert pickle.dumps(model) == before
    model.learn_one({"size": 1.0}, 0)
    assert features(model) == features(trained())


# --------------------------------------------------------------------- categories


def test_a_string_is_a_category_of_its_feature():
    model = ModelTreeClassifier(grace_period=5)
    answers = {"red": 0, "blue": 1, "": 0, "größe": 1}
    for _ in range(40):
        for colour, y in answers.items():
            model.learn_one({"colour": colour}, y)
    assert {c: model.predict_one({"colour": c}) for c in answers} == answers
    assert [tuple(name) for name in features(model)] == [("colour", c) for c in answers]


def test_a_category_is_the_indicator_of_its_value():
    """The same stream with indicators spelled out gives the same model but for the names."""
    with_text, spelled = majority_tree(grace_period=5), majority_tree(grace_period=5)
    rng = np.random.default_rng(0)
    for _ in range(300):
        colour, shape, y = "rgb"[rng.integers(3)], "ab"[rng.integers(2)], int(rng.integers(3))
        noise = float(rng.normal())
        with_text.learn_one({"c": colour, "n": noise + y, "s": shape}, y)
        spelled.learn_one({f"c is {colour}": 1, "n": noise + y, f"s is {shape}": 1.0}, y)
    a, b = with_text.snapshot(), spelled.snapshot()
    del a["features"], b["features"]
    assert pickle.dumps(a) == pickle.dumps(b)
    assert with_text.n_splits > 1


def test_numpy_strings_leave_no_trace():
    model, plain = trained(), trained()
    for text in ("red", "green"):
        model.learn_one({"colour": np.str_(text)}, 1)
        plain.learn_one({"colour": text}, 1)
    assert pickle.dumps(model) == pickle.dumps(plain)


def test_a_feature_may_be_a_number_here_and_a_string_there():
    rng = np.random.default_rng(1)
    params = {
        "max_splits": 20, "swap_resistance": 4.0, "learning_rate": 4.0, "loss": "hinge",
        "forgetting": 0.003, "grace_period": 5.0, "delta": 0.1, "algorithm": "stream",
        "seed": None,
    }
    model, reference = majority_tree(**params), ReferenceLOMTree(**params)
    for _ in range(400):
        y = int(rng.integers(3))
        value = "low" if rng.random() < 0.5 and y == 0 else float(y + rng.normal() / 3)
        x = {"level": value, "other": "n/a" if rng.random() < 0.2 else int(rng.integers(4))}
        assert model.predict_one(x) == reference.predict_one(x)
        model.learn_one(x, y)
        reference.learn_one(x, y)
    assert len(features(model)) == 4
    assert model.n_splits == reference.n_splits >= 2


def test_a_tuple_name_is_not_a_category():
    """("colour", "red") as a name and "red" under "colour" are two columns, after a trip too."""
    model, apart = majority_tree(grace_period=5), majority_tree(grace_period=5)
    for i in range(200):
        tuple_value, colour = float((i * i) % 7), "red" if i % 3 else "blue"
        model.learn_one({("colour", "red"): tuple_value, "colour": colour}, i % 2)
        apart.learn_one({"a number": tuple_value, "colour": colour}, i % 2)
        if i % 50 == 0:
            model = pickle.loads(pickle.dumps(model))
    a, b = model.snapshot(), apart.snapshot()
    assert len(a["features"]) == 3
    del a["features"], b["features"]
    assert pickle.dumps(a) == pickle.dumps(b)


@pytest.mark.parametrize("value", [1.0, "red", None])
def test_the_name_of_a_category_is_refused(value):
    """Taken from a snapshot it would mean a column that a row can already mean by its text."""
    model = trained()
    category = next(name for name in features(model) if tuple(name) == ("colour", "red"))
    before = pickle.dumps(model)
    for call in (lambda x: model.learn_one(x, 0), model.predict_one, model.predict_proba_one):
        with pytest.raises(TypeError, match=re.escape(repr(category))):
            call({"size": 1.0, "colour": "red", category: value})
    assert pickle.dumps(model) == before


# -------------------------------------------------------------------------- names


@given(pool=st.lists(names, min_size=1, max_size=5, unique=True), data=st.data())
def test_any_hashable_is_a_name(pool, data):
    """The same stream under the names 0, 1, 2, ... gives the same model but for the names."""
    params = {"grace_period": 3, "leaf_model": "majority"}  # others go by names
    model, plain = LOMTreeClassifier(**params), LOMTreeClassifier(**params)
    for i in range(20):
        row = data.draw(st.dictionaries(st.integers(0, len(pool) - 1), st.floats(-9, 9)))
        model.learn_one({pool[j]: v for j, v in row.items()}, i % 3)
        plain.learn_one(row, i % 3)
    a, b = model.snapshot(), plain.snapshot()
    assert a.pop("features") == [pool[j] for j in b.pop("features")]
    assert pickle.dumps(a) == pickle.dumps(b)


def test_equal_names_are_one_feature():
    model, plain = trained(), trained()
    for name in (1, 1.0, True, np.int64(1), np.float32(1)):
        model.learn_one({name: 3.0}, 0)
        plain.learn_one({1: 3.0}, 0)
    assert pickle.dumps(model) == pickle.dumps(plain)


def test_equal_but_distinct_objects_are_one_feature():
    """The index compares by pointer first; the hash table must catch all other equals."""
    model, plain = trained(), trained()
    for i in range(20):
        x = {"si" + chr(122) + "e": 1.0, ("a", i % 2): 2.0, "col" + "our"[:3]: "re" + "d"[:1]}
        assert len(x) == 3
        model.learn_one(x, i % 2)
        plain.learn_one({"size": 1.0, ("a", i % 2): 2.0, "colour": "red"}, i % 2)
    assert features(model) == features(plain)
    a, b = model.snapshot(), plain.snapshot()
    del a["features"], b["features"]
    assert pickle.dumps(a) == pickle.dumps(b)


@pytest.mark.parametrize(
    "kind",
    [
        collections.OrderedDict,
        collections.UserDict,
        collections.ChainMap,
        types.MappingProxyType,
        lambda x: collections.defaultdict(int, x),
        type("Subclass", (dict,), {}),
    ],
    ids=["OrderedDict", "UserDict", "ChainMap", "MappingProxyType", "defaultdict", "subclass"],
)
def test_any_mapping_is_an_example(kind):
    model, plain = trained(), trained()
    x = {"size": 1.0}
    assert model.predict_one(kind(x)) == plain.predict_one(x)
    assert model.predict_proba_one(kind(x)) == plain.predict_proba_one(x)
    assert model.predict_topk_one(kind(x)) == plain.predict_topk_one(x)
    model.learn_one(kind(x), 1)
    plain.learn_one(x, 1)
    assert pickle.dumps(model) == pickle.dumps(plain)


def test_a_counter_of_words_is_an_example():
    model = ModelTreeClassifier(grace_period=5)
    for _ in range(40):
        model.learn_one(collections.Counter(["spam", "spam", "eggs"]), "spam")
        model.learn_one(collections.Counter(["ham", "eggs"]), "ham")
    assert model.predict_one(collections.Counter(["ham"])) == "ham"
    assert model.predict_one(collections.Counter(["spam"])) == "spam"


@pytest.mark.parametrize("x", [[1.0], (1.0,), "size", None, 3, np.ones(2), {"size"}], ids=repr)
def test_what_is_no_mapping_is_refused(x):
    model = trained()
    before = pickle.dumps(model)
    for call in (model.predict_one, model.predict_proba_one, lambda x: model.learn_one(x, 0)):
        with pytest.raises(TypeError, match=r"\bx\b.*dict.*" + type(x).__name__):
            call(x)
    assert pickle.dumps(model) == before


def test_inputs_stay_as_they_are():
    model = trained()
    rows, labels = changing_rows(50, classes=3)
    copies = [dict(x) for x in rows]
    for x, y in zip(rows, labels, strict=True):
        model.learn_one(x, y)
        model.predict_one(x)
    assert [list(x.items()) for x in rows] == [list(x.items()) for x in copies]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.update(size=3.0),
        lambda x: x.update(colour="red"),
        lambda x: (x.pop("size"), x.update(size=0.5)),
        lambda x: (x.pop("size"), x.update(shape=1.0)),
        lambda x: x.update(kind=7),
        lambda x: x.clear(),
    ],
    ids=["number", "text", "order", "name", "nominal", "all"],
)
def test_a_dict_may_change_between_a_prediction_and_learning(change):
    """The dict that was read last is not read again only where it holds what it held."""

    def rows():
        for i in range(60):
            yield {"size": float(i % 5), "colour": "red" if i % 2 else "blue", "kind": i % 3}

    models = [ModelTreeClassifier(grace_period=5, nominal_attributes=["kind"]) for _ in range(2)]
    for i, x in enumerate(rows()):
        later = dict(x)
        change(later)
        models[0].predict_one(x)
        if i % 2:
            change(x)
            models[0].learn_one(x, i % 2)
            models[1].learn_one(later, i % 2)
        else:
            models[0].learn_one(x, i % 2)
            models[1].learn_one(dict(x), i % 2)
    assert pickle.dumps(models[0].snapshot()) == pickle.dumps(models[1].snapshot())


def test_unknown_features_are_ignored_by_predictions():
    model = trained()
    before = pickle.dumps(model)
    x = {"size": 3.0, "colour": "red"}
    for extra in ({"unseen": 1e9}, {"colour too": "red"}, {"size2": "text"}, {3: -1.0}):
        assert model.predict_proba_one({**extra, **x, **extra}) == model.predict_proba_one(x)
    unseen_colour = {"size": 3.0, "colour": "no such colour"}
    assert model.predict_proba_one(unseen_colour) == model.predict_proba_one({"size": 3.0})
    assert pickle.dumps(model) == before


def test_an_example_without_features_is_an_example():
    model = ModelTreeClassifier()
    assert model.predict_one({}) is None
    for _ in range(3):
        model.learn_one({}, "only label")
    assert model.predict_one({}) == "only label"
    assert model.predict_one({"unseen": 1.0}) == "only label"
    assert features(model) == []


# -------------------------------------------------- names whose own code misbehaves


class Touchy:
    """A name that raises at the `raise_at`-th call of its hash or comparison."""

    calls = 0
    raise_at = -1

    def __init__(self, key):
        self.key = key

    def __repr__(self):
        return f"Touchy({self.key})"

    def __reduce__(self):
        return (Touchy, (self.key,))

    @classmethod
    def count(cls):
        cls.calls += 1
        if cls.calls == cls.raise_at:
            raise LookupError("this name does not want to be looked at")

    def __hash__(self):
        self.count()
        return 7  # all collide, so that names are compared as well

    def __eq__(self, other):
        self.count()
        return isinstance(other, Touchy) and self.key == other.key


@pytest.mark.parametrize("role", ["names", "labels"])
def test_a_name_or_label_that_raises_leaves_the_model_as_it_was(role):
    """At whichever call it raises: nothing is half-done."""
    raised = 0
    for raise_at in range(1, 60):
        Touchy.calls, Touchy.raise_at = 0, -1
        model = ModelTreeClassifier()
        if role == "names":
            model.learn_one({"first": 1.0, Touchy(0): 1.0}, 0)
            x, y = {"first": 2.0, Touchy(1): 1.0, Touchy(0): 3.0, Touchy(2): 2.0}, 1
        else:
            model.learn_one({"first": 1.0}, Touchy(0))
            x, y = {"first": 2.0, "new": 1.0, "text": "new"}, Touchy(1)
        before = pickle.dumps(model)
        Touchy.calls, Touchy.raise_at = 0, raise_at
        try:
            model.learn_one(x, y)
        except LookupError:
            raised += 1
            Touchy.raise_at = -1
            assert pickle.dumps(model) == before, raise_at
            model.predict_one({Touchy(1): 1.0, Touchy(2): 1.0})
            model.learn_one(x, y)  # as usable as before
    Touchy.raise_at = -1
    assert raised > 2


def test_names_that_call_the_model_do_not_break_it():
    run_isolated(
        """
        from streamtree import LOMTreeClassifier, ModelTreeClassifier

        class Caller:
            def __init__(self, key):
                self.key = key
            def __repr__(self):
                return f"Caller({self.key})"
            def __hash__(self):
                act()
                return hash(self.key)
            def __eq__(self, other):
                act()
                return isinstance(other, Caller) and self.key == other.key

        depth = 0
        seen = set()

        def act():
            global depth
            if depth > 1 or busy is None:
                return
            depth += 1
            try:
                for call in (
                    lambda: model.predict_one({Caller(3): 1.0, "plain": 2.0, "c": "t"}),
                    lambda: model.predict_proba_one({"plain": 2.0, **wide}),
                    lambda: model.predict_many(table),
                    lambda: model.learn_one({"plain": 1.0, "x": 2.0}, 1),
                ):
                    try:
                        call()
                        seen.add("done")
                    except RuntimeError as error:
                        assert "in use" in str(error) or "learning" in str(error), error
                        seen.add("refused")
            finally:
                depth -= 1

        import numpy as np
        import pickle
        busy = None
        table = np.ones((3, 2))
        wide = {i: 1.0 for i in range(200)}
        model = ModelTreeClassifier(grace_period=5)
        for i in range(60):
            model.learn_one({"plain": float(i % 5), Caller(i % 4): 1.0, "c": "t", **wide}, i % 3)
        before = pickle.dumps(model.snapshot()["tree"])
        x = {"plain": 1.0, Caller(1): 2.0, Caller(9): 3.0, "c": "t", **wide}
        expected = model.predict_proba_one(x)
        # other objects than those seen last, or nothing would be compared
        y = {"plain": 1.0, Caller(1): 2.0, Caller(9): 3.0, "c": "t", **wide}
        z = {"plain": 1.0, Caller(1): 2.0, Caller(12): 3.0}
        busy = True
        # what a nested prediction reads must not land in the row of the outer one
        assert model.predict_proba_one(y) == expected
        assert seen == {"done", "refused"}, seen
        assert pickle.dumps(model.snapshot()["tree"]) == before
        seen.clear()
        model.learn_one(z, 1)
        assert seen == {"refused"}, seen
        busy = None
        model.learn_one({"plain": 1.0, Caller(1): 2.0}, 1)
        model.predict_one(x)
        """
    )


@pytest.mark.parametrize("action", ["clear", "refill"])
@pytest.mark.parametrize("base", ["float", "int"])
@pytest.mark.parametrize("what", ["value", "name"])
def test_a_row_that_changes_while_it_is_read_does_not_crash(what, base, action):
    run_isolated(
        f"""
        from streamtree import LOMTreeClassifier, ModelTreeClassifier

        def act():
            if armed:
                X.clear()
                if {action!r} == "refill":
                    X.update({{("other", j): 1.0 for j in range(300)}})

        class Value({base}):
            def __float__(self):
                act()
                return 1.0

        class Name:
            def __init__(self, key):
                self.key = key
            def __repr__(self):
                return f"Name({{self.key}})"
            def __hash__(self):
                return 7
            def __eq__(self, other):
                act()
                return isinstance(other, Name) and self.key == other.key

        armed = False
        model = ModelTreeClassifier()
        model.learn_one({{Name(-1): 1.0}}, 0)
        for i in range(300):
            if {what!r} == "value":
                X = {{("key", i, j): Value(j) for j in range(8)}}
            else:
                X = {{Name((i, j)): float(j) for j in range(3)}}
            armed = True
            for call in (lambda: model.predict_one(X), lambda: model.learn_one(X, i % 3)):
                try:
                    call()
                except RuntimeError as error:
                    assert "changed" in str(error), error
            armed = False
        model.learn_one({{"after": 1.0}}, 1)
        assert model.predict_one({{"after": 1.0}}) is not None
        """
    )


# ------------------------------------------------------------------ names that are none


class Plain:
    pass


@dataclasses.dataclass(frozen=True)
class Holder:
    inside: object


UNSTABLE = [
    Plain(), frozenset("abc"), ("a", Plain()), ("a", (1, frozenset("ab"))), Holder(Plain()),
    Holder(frozenset("abc")),
]
NAN = [float("nan"), np.float64("nan"), ("a", float("nan")), ("a", ("b", float("nan")))]


@pytest.mark.parametrize("name", [*UNSTABLE, *NAN], ids=lambda name: type(name).__name__)
@pytest.mark.parametrize("value", [1.0, "text"])
def test_names_that_are_others_in_another_process_are_refused(name, value):
    model = ModelTreeClassifier()
    model.learn_one({"a": 1.0}, 0)
    before = pickle.dumps(model)
    frames = [pd.DataFrame([[value, 1.0]], columns=pd.Index([name, "new"], tupleize_cols=False))]
    for call in (
        lambda: model.learn_one({"new": 1.0, name: value}, 1),
        *(lambda frame=frame: model.learn_many(frame, [1]) for frame in frames),
    ):
        with pytest.raises((TypeError, ValueError), match="cannot be a name"):
            call()
        assert pickle.dumps(model) == before
    # they are never known
    assert model.predict_one({name: value}) == 0


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "name",
    [Colour.RED, Holder(("a", 1)), int, datetime.date(2020, 1, 1), fractions.Fraction(1, 3), b"x",
     None, ("a", None, 2.5), float("inf"), np.int64(3), np.str_("a"), pd.Timestamp("2020"), ()],
    ids=repr,
)
def test_names_with_a_stable_representation_are_taken(name):
    model = ModelTreeClassifier()
    model.learn_one({name: 1.0, ("kind", name): "text"}, 0)
    assert model.snapshot()["features"][0] == name


def test_a_numpy_name_is_hashed_as_what_it_is_equal_to():
    """Its representation is another one in another version of numpy."""
    models = [ModelTreeClassifier(), ModelTreeClassifier()]
    rng = np.random.default_rng(0)
    for row in rng.normal(size=(500, 3)).tolist():
        for model, kind in zip(models, (np.int64, int), strict=True):
            model.learn_one({kind(i): value for i, value in enumerate(row)}, row[0] > row[1])
    assert repr(models[0].snapshot()["tree"]) == repr(models[1].snapshot()["tree"])


class Mute:
    """A name that does not say what it is called."""

    def __repr__(self):
        raise LookupError("no")


@pytest.mark.parametrize("rows", [[{"new": 1.0, Mute(): 1.0}], [{"new": "text", Mute(): "text"}]])
def test_a_name_that_cannot_be_told_leaves_nothing_behind(rows):
    model = ModelTreeClassifier()
    model.learn_one({"a": 1.0}, 0)
    before = pickle.dumps(model)
    with pytest.raises(LookupError):
        model.learn_one(rows[0], 1)
    columns = pd.Index(list(rows[0]), tupleize_cols=False)
    late = pd.DataFrame([["early", None], list(rows[0].values())], columns=columns, dtype=object)
    with pytest.raises(LookupError):
        model.learn_many(late, [1, 2])
    assert pickle.dumps(model) == before


def test_a_category_is_no_name_of_a_column_of_a_frame():
    columns = pd.Index([Category("a", "b")], tupleize_cols=False, dtype=object)
    model = ModelTreeClassifier()
    model.learn_one({"a": "b"}, 0)
    for call in (model.predict_many, model.predict_proba_many):
        with pytest.raises(TypeError, match="Category"):
            call(pd.DataFrame([[1.0]], columns=columns))


@pytest.mark.parametrize("label", [("a", float("nan")), (1, (None, np.float32("nan")))])
def test_a_label_that_holds_nan_is_missing(label):
    model = ModelTreeClassifier()
    with pytest.raises(ValueError, match="missing"):
        model.learn_one({"a": 1.0}, label)
    assert model.labels == []


def test_durations_are_refused_with_what_to_do():
    for span in (datetime.timedelta(1), pd.Timedelta(1), np.timedelta64(1, "s")):
        with pytest.raises(TypeError, match=r"'span': .* of a duration give the seconds"):
            ModelTreeClassifier().learn_one({"span": span}, 1)


def test_what_pandas_calls_missing_is_missing_in_a_row_but_no_name():
    model, other = ModelTreeClassifier(), ModelTreeClassifier()
    for missing in (pd.NA, pd.NaT):
        model.learn_one({"a": missing, "b": 1.0}, 1)
        other.learn_one({"a": None, "b": 1.0}, 1)
    assert pickle.dumps(model) == pickle.dumps(other)
    with pytest.raises(ValueError, match="<NA> does not equal itself"):
        model.learn_one({pd.NA: 1.0}, 1)


@pytest.mark.parametrize("when", [
    datetime.datetime(2025, 1, 1, 12), datetime.date(2025, 1, 1), datetime.time(3),
    np.datetime64("2025-01-01"),
])
def test_dates_are_refused_with_what_to_do(when):
    model = ModelTreeClassifier()
    with pytest.raises(TypeError, match=r"'when': .* give the parts .* hour and weekday"):
        model.learn_one({"when": when}, 1)
    with pytest.raises(TypeError) as caught:
        model.learn_one({"when": [1]}, 1)
    assert "weekday" not in str(caught.value)


def test_frames_with_dates_are_refused_with_what_to_do():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"when": [datetime.datetime(2025, 1, 1)] * 2, "a": [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"'when': .* give the parts"):
        ModelTreeClassifier().learn_many(frame, [0, 1])


def test_numbers_that_come_as_strings_are_warned_of_once():
    model = ModelTreeClassifier()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(1200):
            model.learn_one({"a": str(i / 8), "id": str(i), "b": f"no. {i}"}, i % 2)
        named = ModelTreeClassifier(nominal_attributes=["a"])
        for i in range(1200):
            named.learn_one({"a": str(i / 8)}, i % 2)
        # nor is a copy, which has the same names
        pickle.loads(pickle.dumps(model))
    assert len(told) == 1
    assert "'a' has 1,000 categories that are numbers, such as '125.0'" in str(told[0].message)
    # the line that calls
    assert told[0].filename == __file__


def test_a_refused_row_leaves_the_counts_of_labels_as_they_were():
    """Its label is known, its column is not, and somebody turns warnings into errors."""
    model = LOMTreeClassifier(max_bytes=2**18)
    model.learn_one({"a": 1.0}, "x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(5000):
            before = pickle.dumps(model)
            try:
                model.learn_one({f"name {number}": 1.0}, "x")
            except UserWarning:
                break
        else:
            pytest.fail("nothing was warned of")
    assert pickle.dumps(model) == before
