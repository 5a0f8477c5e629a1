"""The example programs, as a user runs them."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from river import base, datasets, metrics

from streamtree import ModelTreeClassifier

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).parents[2] / "examples"
OURS, RIVERS = "ModelTreeClassifier", "tree.HoeffdingTreeClassifier"


@pytest.fixture(scope="module")
def prequential() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("prequential", EXAMPLES / "prequential.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written elsewhere, nor found that someone has downloaded before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIVER_DATA", str(tmp_path / "river_data"))


@pytest.fixture
def table(
    prequential: ModuleType, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, list[str]]]:
    """Run without a plot and give the cells of the table without the times, by learner."""

    def run(*argv: object) -> dict[str, list[str]]:
        assert prequential.main([*map(str, argv), "--no-plot"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        lines = captured.out.split("\n\n")[1].splitlines()
        assert lines[0].split()[0] == "learner"
        return {line.split()[0]: line.split()[1:4] for line in lines[1:]}

    return run


@pytest.fixture
def complaint(prequential: ModuleType, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run on bad input and give what is said about it."""

    def run(*argv: object) -> str:
        assert prequential.main([*map(str, argv)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        start = "prequential.py: error: "
        assert captured.err.startswith(start)
        assert captured.err.count("\n") == 1
        assert captured.err.endswith("\n")
        assert not Path("prequential.png").exists()
        return captured.err.removeprefix(start)

    return run


def learnable(n_rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two numeric columns, three codes and a constant; the label follows the first and third."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    X[:, 2] = rng.integers(3, size=n_rows)
    X[:, 3] = 1
    y = ((X[:, 0] > 0) + (X[:, 2] > 1)).astype(np.int32)
    return X, y


def csv_text(n_rows: int = 300) -> str:
    X, y = learnable(n_rows)
    lines = [
        f"{a:.4f},{'' if i % 7 == 0 else f'{b:.4f}'},{'rgb'[int(c)]},class {label}"
        for i, ((a, b, c, _), label) in enumerate(zip(X, y, strict=True))
    ]
    return "\n".join(["first,second,colour,label", *lines]) + "\n"


def percent(cell: str) -> float:
    assert cell.endswith("%")
    return float(cell[:-1])


def run_script(name: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *argv],
        capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip


# As programs


def test_quickstart() -> None:
    done = run_script("quickstart.py")
    assert done.returncode == 0
    assert done.stderr == ""
    name, _, score = done.stdout.partition(":")
    assert name == "Accuracy"
    assert percent(score.strip()) > 70  # always saying the same class gives 14


@pytest.mark.slow
def test_as_a_program() -> None:
    done = run_script("prequential.py", "--rows", "200")
    assert done.returncode == 0
    assert done.stderr == ""  # no progress bar where nobody sees it move
    assert OURS in done.stdout
    assert Path("prequential.png").stat().st_size > 0
    failed = run_script("prequential.py", "--csv", "none.csv", "--target", "y")
    assert failed.returncode == 2
    assert failed.stderr.startswith("prequential.py: error: cannot read none.csv: ")
    assert failed.stderr.count("\n") == 1


# The run


def test_default_run(
    prequential: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "curves.png"
    assert prequential.main(["--rows", "500", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    heading, table, rest = out.split("\n\n")
    assert heading == "Progressive validation on ImageSegments, 500 examples"
    header, *rows = table.splitlines()
    assert header.split("  ")[0] == "learner"
    assert [row.split()[0] for row in rows] == [OURS, RIVERS]
    assert len({len(line) for line in (header, *rows)}) == 1
    assert all(row.endswith("iB") for row in rows)
    assert str(picture) in rest
    assert rest.splitlines()[-1].endswith(f" times as fast as {RIVERS}")


def test_scores_are_those_of_a_plain_loop(table: Callable[..., dict[str, list[str]]]) -> None:
    model = ModelTreeClassifier(seed=42)
    accuracy, macro_f1, losses = metrics.Accuracy(), metrics.MacroF1(), []
    for x, y in datasets.ImageSegments().take(400):
        probabilities = model.predict_proba_one(x)
        predicted = max(probabilities, key=probabilities.get, default=None)
        accuracy.update(y, predicted)
        if probabilities:
            macro_f1.update(y, predicted)
            losses.append(-np.log(max(probabilities.get(y, 0), 1e-15)))
        model.learn_one(x, y)
    expected = [f"{accuracy.get():.2%}", f"{macro_f1.get():.2%}", f"{np.mean(losses):.3f}"]
    assert table("--learner", OURS, "--rows", 400) == {OURS: expected}


def test_generator_and_other_learners(table: Callable[..., dict[str, list[str]]]) -> None:
    arguments = ["--dataset", "synth.SEA", "--rows", 300]
    for name in (OURS, "naive_bayes.GaussianNB", "linear_model.LogisticRegression"):
        arguments += ["--learner", name]
    scores = table(*arguments)
    assert list(scores) == arguments[5::2]
    assert all(percent(cells[0]) > 60 for cells in scores.values())
    assert scores == table(*arguments)


def test_learner_without_probabilities(prequential: ModuleType) -> None:
    class Constant(base.Classifier):
        def learn_one(self, x: dict[str, float], y: str) -> None:
            pass

        def predict_one(self, x: dict[str, float], **kwargs: object) -> str:
            return "b"

        @property
        def _multiclass(self) -> bool:
            return True

    trial = prequential.Trial("Constant", Constant())
    for y in "abb":
        trial.step({"f": 1.0}, y)
    assert trial.accuracy.get() == 2 / 3
    assert trial.log_loss is None
    assert prequential.table([trial]).splitlines()[1].split()[3] == "-"


def test_log_loss_is_clipped(prequential: ModuleType) -> None:
    trial = prequential.Trial(OURS, ModelTreeClassifier())
    trial.step({"f": 1.0}, "a")
    assert trial.log_loss is None  # nothing was known, so nothing was said
    assert trial.accuracy.get() == 0
    trial.step({"f": 1.0}, "b")
    assert trial.log_loss == pytest.approx(15 * np.log(10))  # b was not yet a label


def test_shuffle_is_deterministic(table: Callable[..., dict[str, list[str]]]) -> None:
    def scores(*shuffle: object) -> dict[str, list[str]]:
        return table("--learner", OURS, "--rows", 400, *shuffle)

    assert scores("--shuffle", 1) == scores("--shuffle", 1)
    assert scores("--shuffle", 1) != scores("--shuffle", 2)
    assert scores("--shuffle", 1) != scores()


@pytest.mark.parametrize("n_before", [0, 60])
def test_interrupted(
    n_before: int,
    prequential: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped() -> Iterator[tuple[dict[str, Any], Any]]:
        yield from datasets.ImageSegments().take(n_before)
        raise KeyboardInterrupt

    monkeypatch.setattr(
        prequential, "read_dataset", lambda name: prequential.Stream(name, stopped())
    )
    assert prequential.main([]) == 130
    out = capsys.readouterr().out
    if n_before:
        assert out.startswith("Progressive validation on ImageSegments, 60 examples (stopped)\n")
        assert OURS in out
        assert RIVERS in out
    else:
        assert out == "stopped before the first example\n"
    assert Path("prequential.png").exists() == bool(n_before)


def test_interrupted_while_shuffling(
    prequential: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> Iterator[tuple[dict[str, Any], Any]]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(
        prequential, "read_dataset", lambda name: prequential.Stream(name, stopped())
    )
    assert prequential.main(["--shuffle", "1"]) == 130


def test_list(prequential: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert prequential.main(["--list"]) == 0
    out = capsys.readouterr().out
    words = out.split()
    assert {"ImageSegments", "synth.SEA", OURS, RIVERS} <= set(words)
    # regression; not downloaded; not made without arguments; of streamtree but no classifier
    assert not {"TrumpApproval", "Elec2", "ensemble.BaggingClassifier", "__version__"} & set(words)


# CSV


def test_csv_plain_and_gz(table: Callable[..., dict[str, list[str]]]) -> None:
    text = csv_text()
    Path("a.csv").write_text(text, encoding="utf-8")
    Path("a.csv.gz").write_bytes(gzip.compress(text.encode()))
    # as a spreadsheet writes it: byte order mark, CRLF, an empty line at the end
    Path("b.csv").write_bytes((text + "\n").replace("\n", "\r\n").encode("utf-8-sig"))
    arguments = ("--target", "label", "--learner", OURS, "--csv")
    plain = table(*arguments, "a.csv")
    assert percent(plain[OURS][0]) > 60  # the largest class has half of the rows
    assert table(*arguments, "a.csv.gz") == plain
    assert table(*arguments, "b.csv") == plain


def test_csv_cells(prequential: ModuleType) -> None:
    Path("a.csv").write_text(
        'n, text,empty,code,nan,y\n 1e3 ,"a, b",,1_000,NaN,1\n-2,b ,  ,7,,007\n', encoding="utf-8"
    )
    assert list(prequential.csv_examples(Path("a.csv"), "y")) == [
        ({"n": 1000.0, "text": "a, b", "code": "1_000"}, 1),
        ({"n": -2.0, "text": "b", "code": 7.0}, "007"),
    ]


def test_file_name_is_no_formula(prequential: ModuleType) -> None:
    Path("$^$.csv").write_text(csv_text(20), encoding="utf-8")
    assert prequential.main(["--csv", "$^$.csv", "--target", "label"]) == 0
    assert Path("prequential.png").exists()


CSV_FAULTS = {
    "no file": (None, ["a.csv", "No such file"]),
    "nothing": (b"", ["a.csv", "empty"]),
    "blank": (b"\n\n", ["a.csv", "empty"]),
    "header only": (b"a,y\n", ["a.csv", "no data"]),
    "column": (b"a,Yes\n1,2\n", ["'y'", "'a', 'Yes'"]),
    "close column": (b"a,yy\n1,2\n", ["'y'", "did you mean yy?"]),
    "twice": (b"a,b,a,y\n1,2,3,4\n", ["'a'"]),
    "long line": (b"a,y\n1,2\n1,2,3\n", ["line 3", "expected 2 fields, found 3"]),
    "short line": (b"a,y\n1,2\n\n1\n", ["line 4", "expected 2 fields, found 1"]),
    "target": (b"a,y\n1,2\n1, \n", ["line 3", "'y' is empty"]),
    "quote": (b'a,y\n1,2\n"1,2\n', ["a.csv, line 3"]),
    "not text": (b"a,y\n\xff\xfe,2\n", ["a.csv", "UTF-8"]),
    "infinity": (b"a,y\n1,2\ninf,2\n", [OURS, "example 2", "'a'"]),
}


@pytest.mark.parametrize("fault", CSV_FAULTS)
def test_bad_csv(fault: str, complaint: Callable[..., str]) -> None:
    content, expected = CSV_FAULTS[fault]
    if content is not None:
        Path("a.csv").write_bytes(content)
    message = complaint("--csv", "a.csv", "--target", "y")
    assert all(part in message for part in expected), message


@pytest.mark.parametrize("content", [b"a,y\n1,2\n", gzip.compress(csv_text().encode())[:-20], b""])
def test_bad_gzip(content: bytes, complaint: Callable[..., str]) -> None:
    Path("a.csv.gz").write_bytes(content)
    assert "a.csv.gz" in complaint("--csv", "a.csv.gz", "--target", "label")


# npz


def test_npz_dense(prequential: ModuleType, table: Callable[..., dict[str, list[str]]]) -> None:
    X, y = learnable()
    X[::5, 1] = np.nan
    X[1, 2] = np.nan
    arrays = {
        "X": X,
        "y": y,
        "feature_names": np.array(["u", "v", "colour", "one"]),
        "class_names": np.array(["low", "middle", "high"]),
        "categorical": np.array([False, False, True, False]),
    }
    np.savez_compressed("a.npz", **arrays)
    stream = prequential.read_npz(Path("a.npz"), None)
    assert stream.n_rows == len(y)
    (x0, y0), (x1, _) = itertools.islice(stream.examples, 2)
    assert x0 == {"u": float(X[0, 0]), "colour": str(int(X[0, 2])), "one": 1.0}
    assert y0 == arrays["class_names"][y[0]]
    assert set(x1) == {"u", "v", "one"}
    assert percent(table("--npz", "a.npz")[OURS][0]) > 60

    shuffled = list(prequential.read_npz(Path("a.npz"), 3).examples)
    order = np.random.default_rng(3).permutation(len(y))
    assert [label for _, label in shuffled] == arrays["class_names"][y[order]].tolist()


def test_npz_sparse(prequential: ModuleType, table: Callable[..., dict[str, list[str]]]) -> None:
    X, y = learnable()
    X[X < 0] = 0
    cells = [np.flatnonzero(row) for row in X]
    np.savez(
        "a.npz",
        data=np.concatenate([row[i] for row, i in zip(X, cells, strict=True)]),
        indices=np.concatenate(cells).astype(np.uint16),
        indptr=np.cumsum([0, *map(len, cells)]).astype(np.int32),
        shape=np.array(X.shape),
        y=y,
    )
    examples = list(prequential.read_npz(Path("a.npz"), None).examples)
    expected = [{i: float(v) for i, v in enumerate(row) if v} for row in X]
    assert [x for x, _ in examples] == expected
    assert [label for _, label in examples] == y.tolist()
    assert percent(table("--npz", "a.npz", "--learner", OURS)[OURS][0]) > 60


COLUMNS = np.arange(6.0).reshape(3, 2)
LABELS = np.array([0, 1, 0])
CSR = {
    "data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 1, 2]),
    "shape": np.array([3, 2]), "y": LABELS,
}  # fmt: skip
NPZ_FAULTS = {
    "no X": ({"y": LABELS}, "X"),
    "no y": ({"X": COLUMNS}, "no y"),
    "regression": ({"X": COLUMNS, "y": LABELS / 2}, "only classification"),
    "no rows": ({"X": COLUMNS[:0], "y": LABELS[:0]}, "no rows"),
    "lengths": ({"X": COLUMNS, "y": LABELS[:2]}, "row for each of y"),
    "one column": ({"X": COLUMNS[:, 0], "y": LABELS}, "table of numbers"),
    "text": ({"X": COLUMNS.astype(str), "y": LABELS}, "table of numbers"),
    "target table": ({"X": COLUMNS, "y": COLUMNS.astype(int)}, "y must be a line"),
    "objects": ({"X": COLUMNS, "y": LABELS.astype(object)}, "allow_pickle=False"),
    "few classes": ({"X": COLUMNS, "y": LABELS, "class_names": np.array(["a"])}, "class_names"),
    "negative": ({"X": COLUMNS, "y": -LABELS, "class_names": np.array(["a"])}, "class_names"),
    "names": ({"X": COLUMNS, "y": LABELS, "feature_names": np.array(["a"])}, "feature_names"),
    "same names": ({"X": COLUMNS, "y": LABELS, "feature_names": np.array(["a", "a"])}, "different"),
    "mask": ({"X": COLUMNS, "y": LABELS, "categorical": np.array([True])}, "categorical"),
    "column": ({**CSR, "indices": np.array([0, 2])}, "fit together"),
    "rows": ({**CSR, "indptr": np.array([0, 1, 2])}, "fit together"),
    "descending": ({**CSR, "indptr": np.array([0, 2, 1, 2])}, "fit together"),
    "no shape": ({name: CSR[name] for name in CSR if name != "shape"}, "neither X nor"),
}


@pytest.mark.parametrize("fault", NPZ_FAULTS)
def test_bad_npz(fault: str, complaint: Callable[..., str]) -> None:
    arrays, expected = NPZ_FAULTS[fault]
    np.savez("a.npz", **arrays)
    message = complaint("--npz", "a.npz")
    assert "a.npz" in message
    assert expected in message


def test_unreadable_npz(complaint: Callable[..., str]) -> None:
    assert "none.npz: No such file" in complaint("--npz", "none.npz")
    Path("a.npz").write_bytes(b"a,y\n1,2\n")
    assert "a.npz is not an .npz file" in complaint("--npz", "a.npz")
    np.savez_compressed("b.npz", X=np.arange(2000.0).reshape(1000, 2), y=np.arange(1000))
    damaged = bytearray(Path("b.npz").read_bytes())
    damaged[200:400] = bytes(200)
    Path("b.npz").write_bytes(damaged)
    assert "cannot read b.npz" in complaint("--npz", "b.npz")


# The command line


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--learner", "ModelTreeClasifier"], "did you mean ModelTreeClassifier"),
        (["--learner", "HoeffdingTreeClassifier"], f"did you mean {RIVERS}"),
        (["--learner", "zzz"], "--list"),
        (["--learner", "tree.HoeffdingTreeRegressor"], "unknown learner"),
        (["--learner", "ensemble.BaggingClassifier"], "without model"),
        (["--dataset", "imagesegment"], "did you mean ImageSegments"),
        (["--dataset", "zzz"], "--list"),
        (["--dataset", "TrumpApproval"], "only classification"),
        (["--dataset", "Elec2"], "download"),
        (["--dataset", "synth.SEA"], "--rows"),
        (["--dataset", "synth.SEA", "--rows", "9", "--shuffle", "1"], "shuffled"),
        (["--learner", "linear_model.LogisticRegression"], "labels 0 and 1"),
        (["--rows", "0"], "--rows"),
        (["--rows", "many"], "'many'"),
        (["--shuffle", "-1"], "--shuffle"),
        (["--csv", "a.csv"], "--target"),
        (["--target", "y"], "--csv"),
        (["--csv", "a.csv", "--target", "y", "--npz", "a.npz"], "--npz"),
        (["--plot", "no/such/folder.png"], "folder.png"),
        (["--csv", ".", "--target", "y"], "directory"),
        (["--nonsense"], "--nonsense"),
        (["--dataset", "two\nlines"], "two"),
    ],
)
def test_bad_command_line(argv: list[str], expected: str, complaint: Callable[..., str]) -> None:
    assert expected in complaint(*argv)


def test_picture_that_cannot_be_written(
    prequential: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prequential.main(["--rows", "20", "--plot", "x" * 300]) == 2
    captured = capsys.readouterr()
    assert OURS in captured.out  # the run was not for nothing
    assert captured.err.startswith("prequential.py: error: cannot write xxx")
    assert captured.err.count("\n") == 1
