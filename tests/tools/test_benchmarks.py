"""The benchmark programs: what they load, whom they compare, and how they measure."""

from __future__ import annotations

import dataclasses
import gc
import sys

import numpy as np
import pytest
from scipy import sparse
from support.programs import FOLDER, program

data = program("data")
peers = program("peers")
reports = program("report")
lomtree = program("lomtree")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder."""
    monkeypatch.setenv("STREAMTREE_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_peers(monkeypatch):
    """A registry in which every library but river is absent."""
    for name, peer in peers.PEERS.items():
        if peer.module is not None:
            absent = dataclasses.replace(peer, module="no_such_library")
            monkeypatch.setitem(peers.PEERS, name, absent)


# ---------------------------------------------------------------------------------- data


def test_dense_set_loads_with_all_its_fields(folder):
    X = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, 1.0]], dtype=np.float32)
    np.savez(
        folder / "small.npz",
        X=X,
        y=np.array([0, 2, 1], dtype=np.int32),
        train_size=2,
        feature_names=np.array(["size", "colour"]),
        categorical=np.array([False, True]),
    )
    loaded = data.load("small")
    np.testing.assert_array_equal(loaded.X, X)
    assert loaded.name == "small"
    assert loaded.y.tolist() == [0, 2, 1]
    assert loaded.split == loaded.train_size == 2
    assert loaded.n_classes == 3
    assert loaded.feature_names == ["size", "colour"]
    assert loaded.categorical.tolist() == [False, True]


def test_sparse_set_loads_as_csr_with_columns_for_names(folder):
    X = sparse.csr_matrix(np.array([[0, 2, 0], [1, 0, 3]], dtype=np.uint8))
    np.savez(
        folder / "words.npz",
        data=X.data,
        indices=X.indices.astype(np.uint16),
        indptr=X.indptr,
        shape=np.array(X.shape),
        y=np.array([1, 0], dtype=np.int32),
    )
    loaded = data.load("words")
    assert sparse.issparse(loaded.X)
    assert loaded.X.format == "csr"
    np.testing.assert_array_equal(loaded.X.toarray(), X.toarray())
    assert loaded.feature_names == [0, 1, 2]
    assert not loaded.categorical.any()
    assert loaded.train_size is None
    with pytest.raises(ValueError, match="words has no split"):
        _ = loaded.split


def test_absent_set_names_the_variable(folder):
    with pytest.raises(FileNotFoundError, match=r"nowhere.*STREAMTREE_DATA"):
        data.load("nowhere")


def test_folder_defaults_to_the_one_beside_the_repository(monkeypatch):
    monkeypatch.delenv("STREAMTREE_DATA", raising=False)
    assert data.data_folder() == FOLDER.parents[1] / "shared" / "data"


def test_true_streams_keep_their_order_and_others_are_shuffled_alike():
    assert data.stream_order("elec2", 100, 10).tolist() == list(range(10))
    expected = np.random.default_rng(42).permutation(100)[:10]
    assert data.stream_order("letter", 100, 10).tolist() == expected.tolist()
    assert len(data.stream_order("letter", 60_000)) == 50_000
    assert sorted(data.stream_order("letter", 100, None).tolist()) == list(range(100))


def test_dicts_of_a_dense_array_have_strings_for_codes_and_no_missing_cells():
    X = np.array([[1.5, 2.0, 0.0], [np.nan, np.nan, 7.0]], dtype=np.float32)
    rows = data.as_dicts(X, ["a", "b", "c"], np.array([False, True, False]))
    assert rows == [{"a": 1.5, "b": "2", "c": 0.0}, {"c": 7.0}]
    assert [type(value) for value in rows[0].values()] == [float, str, float]


def test_dicts_of_integers_keep_zeros_and_go_by_column():
    rows = data.as_dicts(np.array([[0, 3], [4, 0]], dtype=np.uint8))
    assert rows == [{0: 0, 1: 3}, {0: 4, 1: 0}]
    assert data.as_dicts(np.empty((2, 0))) == [{}, {}]


def test_dicts_of_a_sparse_matrix_have_the_non_zero_cells_only():
    X = sparse.csr_matrix(np.array([[0.0, 2.0], [0.0, 0.0], [np.nan, 1.0]]))
    X.data[X.data == 1.0] = 0.0  # a zero that is stored
    assert data.as_dicts(X, ["a", "b"]) == [{"b": 2.0}, {}, {}]


@pytest.mark.parametrize(("n_features", "n_classes"), [(2, 3), (20, 200), (5, 1)])
def test_blobs_are_separable_balanced_and_seeded(n_features, n_classes):
    X, y = data.blobs(7 * n_classes, n_features, n_classes, seed=5)
    assert X.shape == (7 * n_classes, n_features)
    # every block of n_classes rows holds each class once
    assert (np.sort(y.reshape(7, n_classes), axis=1) == np.arange(n_classes)).all()
    means = np.array([X[y == label].mean(axis=0) for label in range(n_classes)])
    distances = ((X[:, None, :] - means) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) == y).all()
    again, y_again = data.blobs(7 * n_classes, n_features, n_classes, seed=5)
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, y_again)
    assert not np.array_equal(X, data.blobs(7 * n_classes, n_features, n_classes, seed=6)[0])


def test_smallest_distance_equals_that_of_all_pairs():
    points = np.random.default_rng(0).normal(size=(1_200, 3))  # more than one slice
    distances = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    np.fill_diagonal(distances, np.inf)
    # the slices use |a|^2 + |b|^2 - 2ab, which cancels digits of close points
    assert data._smallest_distance(points) == pytest.approx(distances.min(), rel=1e-6)


def test_generators_have_the_noise_that_they_promise():
    X, y = data.noisy_halfspace(4_000, 10, seed=1)
    assert X.shape == (4_000, 10)
    assert 0.4 < y.mean() < 0.6
    X, y = data.rare_class(4_000, seed=1)
    assert X.shape == (4_000, 4)
    assert 0.01 < (y == 3).mean() < 0.03


# --------------------------------------------------------------------------------- peers


@pytest.mark.usefixtures("no_peers")
def test_absent_peers_are_named_with_the_reason(capsys):
    found, absent = peers.present(["LOMTreeClassifier", "VW log_multi", "CapyMOA EFDT"])
    assert [peer.name for peer in found] == ["LOMTreeClassifier"]
    assert absent == {
        "VW log_multi": "no_such_library is not installed",
        "CapyMOA EFDT": "no_such_library is not installed",
    }
    reports.Report().skipped(absent)
    assert "skipped VW log_multi: no_such_library is not installed" in capsys.readouterr().out


def test_peer_that_does_not_start_is_absent_too(tmp_path, monkeypatch):
    (tmp_path / "library_without_java.py").write_text("raise RuntimeError('no Java')")
    monkeypatch.syspath_prepend(tmp_path)
    peer = peers.Peer("broken", lambda task: None, module="library_without_java")
    assert peer.why_absent() == "library_without_java does not start: RuntimeError: no Java"


def test_peers_of_the_base_install_learn_dicts():
    rows = [{"a": i % 7 - 3.0, "b": ("x", "y")[i % 2]} for i in range(60)]
    labels = [int(x["a"] > 0) for x in rows]
    task = peers.Task(2, ["a", "b"], {"b": ["x", "y"]})
    for name, peer in peers.PEERS.items():
        if peer.module is None and name != "river LogisticRegression":  # it takes numbers only
            accuracy = peers.prequential_accuracy(peer.make(task), rows, labels)
            assert 0 < accuracy <= 1, name


def test_vw_lines_count_labels_from_one_and_hide_reserved_characters():
    assert peers.vw_line({"a": 0.5, 7: 2}, 0) == "1 | a:0.5 7:2"
    assert peers.vw_line({"a b": 1, "wind:speed": "N|E"}) == "| a_b:1 wind_speed=N_E"
    X = sparse.csr_matrix(np.array([[0, 2.5], [1, 0], [0, 0]]))
    assert list(peers._text_lines(X, np.array([0, 1, 2]))) == ["1 | 1:2.5\n", "2 | 0:1\n", "3 |\n"]


# --------------------------------------------------------------------------------- clock


class Clock:
    """A clock that only the timed functions advance."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def __call__(self):
        return self.now

    def job(self, name, *seconds):
        """A job whose single phase takes the given seconds, one repetition after the other."""
        left = iter(seconds)

        def run():
            self.log.append(name)
            assert not gc.isenabled()
            self.now += next(left)

        return lambda: {"learn": run}


@pytest.mark.slow
def test_jobs_take_turns_and_ratios_are_those_of_each_turn():
    clock = Clock()
    jobs = {"slow": clock.job("slow", 8.0, 30.0, 20.0), "fast": clock.job("fast", 2.0, 3.0, 4.0)}
    times = peers.interleaved(jobs, 3, clock=clock)
    assert clock.log == ["slow", "fast"] * 3
    assert times["slow"]["learn"] == [8.0, 30.0, 20.0]
    ratio = peers.ratios(times["slow"]["learn"], times["fast"]["learn"])
    assert ratio == peers.Spread(median=5.0, low=4.0, high=10.0)


@pytest.mark.slow
def test_every_repetition_gets_a_fresh_model():
    made = []

    def job():
        made.append(object())
        return {"learn": lambda: None, "predict": lambda: None}

    times = peers.interleaved({"a": job}, 4)
    assert len(made) == 4
    assert [len(seconds) for seconds in times["a"].values()] == [4, 4]


def test_collector_runs_again_after_an_error():
    def fail():
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        peers.interleaved({"a": lambda: {"learn": fail}}, 1)
    assert gc.isenabled()


def test_one_by_one_times_only_the_rows_that_follow():
    class Model:
        def __init__(self):
            self.learned = []
            self.asked = []

        def learn_one(self, x, y):
            self.learned.append((x, y))

        def predict_one(self, x):
            self.asked.append(x)

    model = Model()
    rows, labels = [{"a": i} for i in range(6)], list(range(6))
    phases = reports.one_by_one(lambda: model, rows, labels, n_before=3, n_timed=2)()
    assert len(model.learned) == 3
    phases["learn"]()
    phases["predict"]()
    assert model.learned == list(zip(rows[:5], labels[:5], strict=True))
    assert model.asked == rows[3:5]


# ------------------------------------------------------------------------------- program


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (45.67, "45.7"), (1234.5, "1234")],
)
def test_numbers_have_three_digits(value, text):
    assert reports.short(value) == text


def test_goals_are_judged_by_the_median_and_counted(capsys):
    report = reports.Report()
    report.begin("speed", "how fast")
    report.speed_goal("learn", peers.Spread(3.0, 1.0, 9.0), 3)
    report.speed_goal("predict", peers.Spread(2.9, 2.0, 9.0), 3)
    report.speed_goal("many", None, 3)
    report.error_goal("error", 0.1, 0.1)
    report.end()
    out = capsys.readouterr().out
    assert "goal: learn: >= 3x as fast; measured: 3.00x [1.00, 9.00]: ok" in out
    assert "goal: predict: >= 3x as fast; measured: 2.90x [2.00, 9.00]: MISS" in out
    assert "goal: many: >= 3x as fast; measured: -: not measured" in out
    assert "2 goals ok, 1 missed, 1 not measured" in out
    assert "MISS speed: predict: >= 3x as fast" in out


@pytest.mark.parametrize("algorithm", ["stream", "paper"])
def test_tree_survives_the_stream_that_recycles_a_child_of_the_root(algorithm):
    rows, labels = lomtree.swap_stream(seed=29)
    assert lomtree.second_half_margin(lomtree.swap_model(algorithm), rows, labels) > 0


def test_constant_answer_has_no_margin():
    class Constant:
        def learn_one(self, x, y):
            pass

        def predict_one(self, x):
            return 0

    assert lomtree.second_half_margin(Constant(), [{}] * 8, [1, 1, 1, 1, 0, 0, 0, 1]) == 0


@pytest.mark.usefixtures("no_peers")
def test_program_runs_a_section_without_peers_and_says_so(monkeypatch, capsys):
    monkeypatch.setattr(lomtree, "SWAP_STREAMS", 1)
    lomtree.main(["swap", "--repeats", "1"])
    out = capsys.readouterr().out
    assert out.startswith(reports.versions())
    assert "skipped CapyMOA EFDT: no_such_library is not installed" in out
    assert "## swap" in out
    assert "2 goals ok, 0 missed, 0 not measured" in out


@pytest.mark.parametrize("arguments", [["no_such_section"], ["swap", "--repeats", "0"]])
def test_program_refuses_what_it_does_not_know(arguments, capsys):
    with pytest.raises(SystemExit):
        lomtree.main(arguments)
    assert "error:" in capsys.readouterr().err


# ---------------------------------------------------------------------------- two versions


def test_a_version_compared_with_itself_says_the_same(folder, monkeypatch, capsys):
    compare = program("compare")
    version = compare.Version
    # the other interpreter is this one, which may find the package by its path only
    monkeypatch.setattr(compare, "Version", lambda python, is_other: version(python, False))
    X = np.random.default_rng(0).normal(size=(200, 3))
    np.savez(folder / "elec2.npz", X=X, y=(X[:, 0] > 0).astype(np.int32))
    np.savez(folder / "abalone.npz", X=X, y=X[:, 0].astype(np.float32))
    compare.main([
        "accuracy", "speed", "--other", sys.executable, "--sets", "elec2", "abalone", "letter",
        "--learners", "ModelTree*", "*majority", "SoftTreeR*", "--repeats", "1", "--names", "3",
        "--shuffled",
    ])
    out = capsys.readouterr().out
    assert out.count("+0.0000  0.0000  same") == 3
    assert "skipped letter: it is not in" in out
    speeds = out.split("## speed")[1].splitlines()
    assert len([line for line in speeds if line.startswith("elec2  ") and "x [" in line]) == 2


def test_versions_that_cannot_be_compared_are_named(capsys):
    compare = program("compare")
    for arguments in (["nothing"], ["--rows", "0"]):
        with pytest.raises(SystemExit):
            compare.main(["--other", "python", *arguments])
        assert "error:" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="has ended"):
        compare.Version("false", True)
