"""The command line, as a person uses it."""

import csv
import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from river import datasets, linear_model, metrics, tree

pytest.importorskip("click")
pytest.importorskip("rich")
pl = pytest.importorskip("polars")

from click.testing import CliRunner  # noqa: E402
from support.estimators import ESTIMATORS  # noqa: E402

import streamtree  # noqa: E402
from streamtree import ModelTreeClassifier, cli  # noqa: E402
from streamtree.base import StreamClassifier, StreamRegressor  # noqa: E402
from streamtree.checkpoint import Checkpoint  # noqa: E402
from streamtree.scores import ClassScore, Curve, NumberScore  # noqa: E402
from streamtree.serialization import load_at  # noqa: E402


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*argv, stdin=None, code=0):
    """Run a command; its standard output and standard error."""
    done = CliRunner().invoke(cli.commands, [str(each) for each in argv], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, (done.output, done.exit_code)
    return done.stdout, done.stderr


def complaint(*argv, code=1, stdin=None):
    out, err = call(*argv, code=code, stdin=stdin)
    assert out == ""
    if code == 1:
        assert err.count("\n") == 1
        assert err.startswith("streamtree-learn: ")
    return err


def scores(*argv, **kwargs):
    return json.loads(call("evaluate", *argv, "--json", "--quiet", **kwargs)[0])["models"]


def notes_of(path):
    return load_at(path)[2]


def sources_of(path):
    """How many first rows of files a model knows, and how many it has learned of each."""
    sources = notes_of(path)["streamtree-learn"]["sources"]
    return [[len(fingerprint) // 4, rows] for fingerprint, rows in sources]


def stream(n=600, seed=0):
    """A frame of two numbers and a category, with a label and an amount that follow them."""
    rng = np.random.default_rng(seed)
    X, kind = rng.normal(size=(n, 2)), rng.choice(["u", "v", "w"], n)
    label = np.where(X[:, 0] > 1.0 * (kind == "u"), "yes", "no")
    amount = X[:, 0] + 2.0 * (kind == "v") + 0.1 * rng.normal(size=n)
    code = rng.integers(3, size=n)
    return pl.DataFrame({
        "a": X[:, 0], "b": X[:, 1], "kind": kind, "code": code, "label": label, "amount": amount,
    })


@pytest.fixture
def data(tmp_path):
    """A CSV and its frame."""
    frame = stream()
    frame.write_csv(tmp_path / "data.csv")
    return frame


# ------------------------------------------------------------------------- evaluate


def test_scores_are_those_of_a_plain_loop(data):
    (found,) = scores("data.csv", "--target", "label", "--drop", "amount", "--log-loss")
    model, losses = ModelTreeClassifier(), []
    accuracy, f1 = metrics.Accuracy(), metrics.MacroF1()
    for row in data.iter_rows(named=True):
        x = {name: row[name] for name in ("a", "b", "kind", "code")}
        said = model.predict_one(x)
        accuracy.update(row["label"], said)
        if shares := model.predict_proba_one(x):
            f1.update(row["label"], said)
            losses.append(-np.log(max(shares.get(row["label"], 0.0), 1e-15)))
        model.learn_one(x, row["label"])
    assert accuracy.get() > 0.9
    assert found["accuracy"] == accuracy.get()
    assert found["macro_f1"] == pytest.approx(f1.get(), abs=1 / 600)  # the first row
    assert found["log_loss"] == pytest.approx(np.mean(losses), rel=1e-12)
    assert found["model"] == "ModelTreeClassifier"
    assert found["bytes"] > 1000
    assert found["rows_per_second"] > 0


def test_numbers_are_scored(data):
    (found,) = scores("data.csv", "--target", "amount", "--drop", "label", "--model", "soft")
    model = streamtree.SoftTreeRegressor()
    X = data.select("a", "b", "kind", "code")
    y = data["amount"].to_numpy()
    errors = y - model.test_then_learn_many(X, y).to_numpy()
    assert found["model"] == "SoftTreeRegressor"
    assert found["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-9)
    assert found["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-9)
    assert found["r2"] == pytest.approx(1 - (errors**2).mean() / y.var(), rel=1e-9)
    assert found["r2"] > 0.6


def test_a_missing_cell_is_not_there_for_a_learner_of_river():
    cells = [i % 7 if i % 5 else None for i in range(200)]
    frame = pl.DataFrame({"a": cells, "b": [1.0, float("nan")] * 100, "y": [0, 1] * 100})
    frame.write_parquet("data.parquet")
    frame.with_columns(pl.col("b").fill_nan(None)).write_csv("data.csv")
    Path("data.jsonl").write_text(frame.fill_nan(None).write_ndjson())
    argv = ["--target", "y", "--model", "naive_bayes.GaussianNB"]
    found = {
        scores(f"data.{ending}", *argv)[0]["accuracy"] for ending in ("parquet", "csv", "jsonl")
    }
    assert len(found) == 1


def test_every_learner_is_found_by_its_name():
    kinds = {"classification": StreamClassifier, "regression": StreamRegressor}
    for task, kind in kinds.items():
        ours = [each for each in ESTIMATORS if issubclass(each, kind)]
        assert ours
        assert {*cli.estimators_of(task).values()} == {*ours}
        for each in ours:
            assert cli.model_class(each.__name__, task) is each
            assert cli.model_class(cli._word(each.__name__), task) is each
    assert cli.model_class("self-terminating", "regression").__name__.endswith("TreeRegressor")
    assert cli.model_class("tree.HoeffdingTreeClassifier", "classification") is (
        tree.HoeffdingTreeClassifier
    )
    assert cli.model_class("river.linear_model.LinearRegression", "regression") is (
        linear_model.LinearRegression
    )


def test_models_side_by_side(data):
    names = ["model", "SelfTerminatingTreeClassifier", "tree.HoeffdingTreeClassifier"]
    options = [each for name in names for each in ("--model", name)]
    argv = ["data.csv", "--target", "label", "--drop", "amount", *options, "--set", "seed=3"]
    found = scores(*argv)
    assert [each["model"] for each in found] == [
        "ModelTreeClassifier", "SelfTerminatingTreeClassifier", "river HoeffdingTreeClassifier",
    ]
    river = tree.HoeffdingTreeClassifier()
    hits = 0
    for row in data.drop("amount").iter_rows(named=True):
        y = row.pop("label")
        hits += river.predict_one(row) == y
        river.learn_one(row, y)
    assert found[2]["accuracy"] == hits / len(data)
    table, _ = call("evaluate", *argv)
    assert "accuracy" in table
    assert all(each["model"] in table for each in found)
    assert f"{found[0]['accuracy']:.2%}" in table
    assert "600 rows" in table


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_with_log_loss_the_answers_are_the_same(data, estimator):
    if not issubclass(estimator, StreamClassifier):
        pytest.skip("has no probabilities")
    argv = ["data.csv", "--target", "label", "--drop", "amount", "--model", estimator.__name__]
    (plain,), (with_loss,) = scores(*argv), scores(*argv, "--log-loss")
    assert plain["accuracy"] == with_loss["accuracy"]
    assert 0.0 < with_loss["log_loss"] < 1.0


def test_labels_beyond_64_bits_are_scored():
    labels = pl.Series([7, 2**63 + 5] * 100, dtype=pl.UInt64)
    pl.DataFrame({"a": [0.0, 1.0] * 100, "y": labels}).write_parquet("data.parquet")
    for argv in ([], ["--log-loss"]):
        assert scores("data.parquet", "--target", "y", *argv)[0]["accuracy"] > 0.9


def test_a_label_that_waits_has_probability_0():
    labels = pl.DataFrame({"a": [0.5] * 10, "y": [f"label {i}" for i in range(10)]})
    labels.write_csv("data.csv")
    labels.write_ndjson("data.jsonl")  # one row after the other
    argv = ["--target", "y", "--log-loss", "--set", "max_bytes=300_000"]
    (table,), (rows,) = scores("data.csv", *argv), scores("data.jsonl", *argv)
    assert table["log_loss"] == pytest.approx(rows["log_loss"])


def test_the_formats_give_the_same_scores(data):
    data.write_parquet("data.parquet")
    data.write_ndjson("data.jsonl")
    text = data.write_csv()
    wanted = None
    for source in ("data.csv", "data.parquet", "data.jsonl", "-"):
        argv = [source, "--target", "label", "--drop", "amount"]
        (found,) = scores(*argv, stdin=text if source == "-" else None)
        found = {k: v for k, v in found.items() if k not in ("rows_per_second", "bytes")}
        wanted = wanted or found
        assert found == wanted


def test_the_demo_draws_its_picture(tmp_path):
    out, err = call("evaluate", "--demo", "--rows", 300)
    assert "ModelTreeClassifier" in out
    assert "river HoeffdingTreeClassifier" in out
    assert "evaluate.png" in err
    assert (tmp_path / "evaluate.png").read_bytes().startswith(b"\x89PNG")
    (found,) = scores("--demo", "--model", "model", "--plot", "demo.svg")
    model, hits = ModelTreeClassifier(), 0
    for x, y in datasets.ImageSegments():
        hits += model.predict_one(x) == y
        model.learn_one(x, y)
    assert found["accuracy"] == hits / 2310
    assert b"<svg" in (tmp_path / "demo.svg").read_bytes()


def test_progress_is_said_where_no_bar_moves(data, monkeypatch):
    monkeypatch.setattr(cli, "LINE_SECONDS", 0.0)
    _, err = call("evaluate", "data.csv", "--target", "label")
    assert "600 rows" in err
    assert "ModelTreeClassifier" in err
    assert call("evaluate", "data.csv", "--target", "label", "--quiet")[1] == ""


# ---------------------------------------------------------------------------- train


def test_train_predict_inspect(data):
    out, _ = call("train", "data.csv", "--target", "label", "--drop", "amount", "-o", "m.st",
                  "--nominal", "code", "--set", "seed=1")
    assert out.startswith("m.st: 600 rows, ModelTreeClassifier 9")
    model = ModelTreeClassifier(seed=1, nominal_attributes=["code"])
    X = data.drop("label", "amount").with_columns(pl.col("code").cast(pl.String))
    model.learn_many(X, data["label"])
    notes = notes_of("m.st")
    assert sources_of("m.st") == [[100, 600]]
    assert notes["streamtree-learn"]["reading"] == {"dates": {}, "missing": []}
    model.save("again.st", position=600, notes=notes)
    assert Path("m.st").read_bytes() == Path("again.st").read_bytes()

    out, err = call("predict", "m.st", "data.csv")  # --nominal is known from the model
    assert err == ""
    assert out.splitlines() == ["prediction", *model.predict_many(X).to_list()]
    rows = list(csv.DictReader(io.StringIO(call("predict", "m.st", "data.csv", "--proba")[0])))
    for row, shares in zip(rows, model.predict_proba_many(X).to_dicts(), strict=True):
        assert {k: float(v) for k, v in row.items()} == shares
    data.write_ndjson("data.jsonl")
    said = call("predict", "m.st", "data.jsonl", "--json", "--rows", 5)[0].splitlines()
    assert [json.loads(each)["prediction"] for each in said] == model.predict_many(X)[:5].to_list()

    out, _ = call("inspect", "m.st")
    assert "ModelTreeClassifier" in out
    assert "600" in out
    found = json.loads(call("inspect", "m.st", "--json")[0])
    assert found["rows"] == 600
    assert found["parameters"]["seed"] == 1
    assert found["summary"] == model.summary
    assert found["tree"] == model.to_dict()
    call("inspect", "m.st", "--draw", "tree.dot")
    assert Path("tree.dot").read_text() == model.draw().source
    for argv in (["inspect", "m.st", "--draw", "tree"],
                 ["evaluate", "data.csv", "--target", "label", "--plot", "tree"]):
        assert call(*argv)[1].endswith(" is in tree.png\n")
        Path("tree.png").unlink()


def test_parameters_of_numpy_are_numbers_in_json():
    given = {"learning_rate": np.float32(0.5), "seed": np.int64(3), "restarts": np.False_}
    ModelTreeClassifier(**given).save("m.st")
    found = json.loads(call("inspect", "m.st", "--json")[0])["parameters"]
    assert {name: found[name] for name in given} == {
        "learning_rate": 0.5, "seed": 3, "restarts": False
    }


def test_labels_that_are_dates_are_text():
    days = pl.Series(["2025-01-01", "2025-01-02"] * 20)
    frame = pl.DataFrame({"a": np.arange(40) % 2, "day": days.str.to_date()})
    frame.write_parquet("data.parquet")
    call("train", "data.parquet", "--target", "day", "-o", "model.st")
    out, _ = call("predict", "model.st", "data.parquet")
    assert out.split() == ["prediction", *days]


def test_predictions_that_json_has_no_type_for_are_text():
    model = ModelTreeClassifier()
    for i in range(40):
        model.learn_one({"a": float(i % 2)}, date(2025, 1, 1 + i % 2))
    model.save("model.st")
    Path("data.jsonl").write_text('{"a": 1.0}\n')
    out, _ = call("predict", "model.st", "data.jsonl", "--json")
    assert json.loads(out) == {"prediction": "2025-01-02"}


@pytest.mark.parametrize("end", ["csv", "jsonl"])
def test_predicted_labels_keep_their_types(end):
    model = ModelTreeClassifier()
    for _ in range(30):
        model.learn_many(pl.DataFrame({"a": [0.0, 1.0]}), [2, "b"])
    model.save("model.st")
    Path("data.csv").write_text("a\n0\n1\n")
    Path("data.jsonl").write_text('{"a": 0}\n{"a": 1}\n')
    out, _ = call("predict", "model.st", f"data.{end}", "--json")
    assert [json.loads(line)["prediction"] for line in out.splitlines()] == [2, "b"]


def test_every_label_has_a_name_of_its_own():
    model = ModelTreeClassifier()
    for label in (1, "1", 1, "1"):
        model.learn_one({"a": 1.0}, label)
    model.save("model.st")
    Path("data.csv").write_text("a\n1\n2\n")
    argv = ["predict", "model.st", "data.csv", "--proba"]
    table, lines = call(*argv)[0].splitlines(), call(*argv, "--json")[0].splitlines()
    assert table[0] == "1,'1'"
    for cells, line in zip(table[1:], lines, strict=True):
        shares = map(float, cells.split(","))
        assert json.loads(line) == dict(zip(["1", "'1'"], shares, strict=True))


def test_importances(data):
    call("train", "data.csv", "--target", "amount", "--drop", "label", "-o", "m.st",
         "--model", "self-terminating")
    out, _ = call("inspect", "m.st", "--importances")
    expected = streamtree.load("m.st").feature_importances()
    assert expected
    for name, share in expected.items():
        assert str(name) in out
        assert f"{share:.4f}" in out


def test_importances_of_names_that_look_alike():
    model = ModelTreeClassifier()
    for i in range(300):
        model.learn_one({1: i % 2, "1": i % 3}, i % 2)
    model.save("m.st")
    found = json.loads(call("inspect", "m.st", "--json")[0])["importances"]
    assert sum(found.values()) == pytest.approx(1.0)
    assert set(found) == {"1", "'1'"}


def test_numbers_are_predicted(data):
    call("train", "data.csv", "--target", "amount", "--drop", "label", "-o", "m.st")
    model = streamtree.load("m.st")
    assert type(model) is streamtree.SoftTreeRegressor
    out, _ = call("predict", "m.st", "data.csv")
    said = model.predict_many(data.drop("label", "amount")).to_list()
    assert [float(each) for each in out.splitlines()[1:]] == said
    complaint("predict", "m.st", "data.csv", "--proba", code=2)


def test_resume_gives_the_file_of_one_run(data):
    argv = ["train", "data.csv", "--target", "label", "--nominal", "code"]
    call(*argv, "-o", "whole.st")
    call(*argv, "-o", "m.st", "--rows", 250)
    assert Path("whole.st").read_bytes() != Path("m.st").read_bytes()
    call(*argv[:4], "-o", "m.st", "--resume")
    assert Path("whole.st").read_bytes() == Path("m.st").read_bytes()
    _, err = call(*argv, "-o", "m.st", "--resume")
    assert "nothing new" in err
    # another target: what is to be predicted now was a feature then
    before = Path("m.st").read_bytes()
    argv_of_other = ("train", "data.csv", "--target", "kind", "-o", "m.st", "--resume")
    assert "'kind' is a feature of the model" in complaint(*argv_of_other, code=2)
    assert Path("m.st").read_bytes() == before
    # standard input has only new rows
    data[:250].write_csv("first.csv")
    call("train", "first.csv", *argv[2:], "-o", "pipe.st")
    known = notes_of("pipe.st")
    call("train", "-", *argv[2:], "-o", "pipe.st", "--resume", stdin=data[250:].write_csv())
    assert notes_of("pipe.st") == known
    model, position, _ = load_at("pipe.st")
    model.save("pipe.st", position=position, notes=notes_of("whole.st"))
    assert Path("whole.st").read_bytes() == Path("pipe.st").read_bytes()


def learned(*argv):
    """What `train --resume` says, and how many rows it has learned."""
    before = load_at("m.st")[1] or 0 if Path("m.st").exists() else 0
    _, err = call("train", *argv, "--target", "label", "-o", "m.st", "--resume")
    return load_at("m.st")[1] - before, err


def test_resume_skips_what_was_learned_of_the_same_file_only(data):
    other = stream(400, seed=5)
    other.write_csv("other.csv")
    assert learned("data.csv", "--rows", 250) == (250, "")
    rows, err = learned("other.csv")
    assert rows == 400
    assert err == "other.csv was not learned before: all its rows are new\n"
    assert learned("other.csv", "--quiet") == (0, "")
    assert learned("data.csv") == (350, "250 rows of data.csv were learned before\n")
    # known by its content, wherever it is
    Path("moved.gz").write_bytes(gzip.compress(Path("data.csv").read_bytes()))
    rows, err = learned("moved.gz")
    assert (rows, err) == (0, "m.st: nothing new, all rows of moved.gz were learned before\n")
    model = ModelTreeClassifier()
    for part in (data[:250], other, data[250:]):
        model.learn_many(part.drop("label"), part["label"])
    model.save("again.st", position=1000, notes=notes_of("m.st"))
    assert Path("m.st").read_bytes() == Path("again.st").read_bytes()
    # a file that no command has taught says nothing of files
    model.save("m.st", position=1000)
    assert learned("data.csv")[0] == 600


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_resume_knows_a_file_that_has_grown(end):
    # a category and an empty cell that make dicts of a frame
    frame = stream(300).with_columns(code=pl.col("code").cast(pl.String))
    strange = frame[:1].with_columns(code=pl.lit("x"), a=pl.lit(None, pl.Float64))
    frame = pl.concat([frame[:60], strange, frame[60:]])
    write = {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}[end]
    for n, rows in ((40, 40), (60, 20), (61, 1), (301, 240)):
        getattr(frame[:n], write)(f"data.{end}")
        assert learned(f"data.{end}")[0] == rows
    assert sources_of("m.st") == [[100, 301]]
    # a copy of its beginning is no other file
    for n in (1, 50, 200):
        getattr(frame[:n], write)(f"copy.{end}")
        said = f"m.st: nothing new, 301 rows that begin like copy.{end} were learned before\n"
        assert learned(f"copy.{end}") == (0, said)
    assert sources_of("m.st") == [[100, 301]]


def test_what_stands_for_a_missing_value_makes_no_other_file(data):
    rows = [f"{'?' if i % 3 else i},{'-9' if i % 4 else i},{'ab'[i % 2]}" for i in range(40)]
    Path("data.csv").write_text("\n".join(["n,size,label", *rows]))
    for missing in ("?", "-9", "b"):
        assert learned("data.csv", "--missing", missing, "--rows", 30)[0] in (30, 0)
    assert sources_of("m.st") == [[40, 30]]


def test_rows_that_are_skipped_are_told_of(data):
    data[:1].write_csv("one.csv")
    assert learned("one.csv") == (1, "")
    pl.concat([data[:1], stream(50, seed=3)]).write_csv("other.csv")
    assert learned("other.csv") == (50, "1 rows of other.csv were learned before\n")
    # two files that begin alike and go on otherwise are two
    assert learned("data.csv")[1] == "data.csv was not learned before: all its rows are new\n"
    argv = ["other.csv", "--rows", 60]
    assert learned(*argv)[1].startswith("m.st: nothing new, all rows of other.csv")
    assert learned(*argv, "--quiet") == (0, "")


@pytest.mark.parametrize(("kind", "what"), [(bool, "true and false"), (float, "numbers")])
def test_labels_that_were_no_text_are_none_in_a_csv(kind, what):
    frame = pl.DataFrame({"a": np.arange(60) % 7, "label": (np.arange(60) % 7 > 3).astype(kind)})
    frame.write_parquet("data.parquet")
    frame.write_csv("again.csv")
    call("train", "data.parquet", "--target", "label", "-o", "m.st")
    assert learned("again.csv")[0] == 60
    assert [type(label) for label in streamtree.load("m.st").labels] == [kind, kind]
    Path("other.csv").write_text("a,label\n1,maybe\n")
    err = complaint("train", "other.csv", "--target", "label", "-o", "m.st", "--resume")
    assert f"row 1: the target 'label' is 'maybe', after {what}\n" in err


def test_a_column_that_was_true_and_false_is_so_in_a_csv():
    flag = np.random.default_rng(0).integers(2, size=200).astype(bool)
    frame = pl.DataFrame({"flag": flag, "label": np.where(flag, "p", "q")})
    frame.write_parquet("data.parquet")
    frame.write_csv("data.csv")
    call("train", "data.parquet", "--target", "label", "-o", "m.st")
    out, err = call("predict", "m.st", "data.csv")
    assert (out, err) == call("predict", "m.st", "data.parquet")
    assert set(out.split()[1:]) == {"p", "q"}


def test_labels_that_were_whole_numbers_stay_so():
    Path("data.csv").write_text("a,label\n" + "1,0\n2,1\n" * 20)
    call("train", "data.csv", "--target", "label", "-o", "m.st")
    before = Path("m.st").read_bytes()
    Path("b.csv").write_text("a,label\n1,0\n2,b\n")
    Path("b.jsonl").write_text('{"a": 1, "label": 0}\n{"a": 2, "label": "b"}\n')
    pl.DataFrame({"a": [1, 2], "label": ["0", "b"]}).write_parquet("b.parquet")
    for name in ("b.csv", "b.jsonl", "b.parquet"):
        err = complaint("train", name, "--target", "label", "-o", "m.st", "--resume")
        assert f"{name}, row 2: the target 'label' is 'b', after whole numbers\n" in err
    day = pl.Series(["2025-01-01"]).str.to_date()
    pl.DataFrame({"a": [1], "label": day}).write_parquet("day.parquet")
    err = complaint("train", "day.parquet", "--target", "label", "-o", "m.st", "--resume")
    assert "row 1: the target 'label' is '2025-01-01', after whole numbers" in err
    Path("half.jsonl").write_text('{"a": 1, "label": 1.5}\n')
    pl.DataFrame({"a": [1], "label": [True]}).write_parquet("true.parquet")
    for name, label in (("half.jsonl", "1.5"), ("true.parquet", "true")):
        err = complaint("train", name, "--target", "label", "-o", "m.st", "--resume")
        assert f"row 1: the target 'label' is {label!r}, after whole numbers" in err
    assert Path("m.st").read_bytes() == before
    for end, text in (("csv", "a,label\n5,0\n"), ("jsonl", '{"a": 3, "label": "1"}\n')):
        Path(f"c.{end}").write_text(text)
        assert learned(f"c.{end}")[0] == 1
    assert streamtree.load("m.st").labels == [0, 1]


def test_rows_of_a_resumed_training_are_rows_of_its_file(data):
    assert learned("data.csv", "--rows", 300) == (300, "")
    assert learned("data.csv", "--rows", 350)[0] == 50
    rows, err = learned("data.csv", "--rows", 200)
    assert (rows, err) == (
        0, "m.st: nothing new, the first 200 rows of data.csv were learned before\n"
    )


def test_of_many_files_the_last_are_known(monkeypatch):
    monkeypatch.setattr(cli, "MOST_SOURCES", 2)
    for seed in (1, 2, 3):
        stream(20, seed).write_csv(f"{seed}.csv")
        assert learned(f"{seed}.csv")[0] == 20
    assert [learned(f"{seed}.csv")[0] for seed in (3, 2, 1)] == [0, 0, 20]


def test_notes_of_others_are_kept_or_refused(data):
    model = ModelTreeClassifier()
    others = {"author": "me", "sources": 1, "reading": "of mine"}
    model.save("m.st", notes=others)
    assert learned("data.csv")[0] == 600
    assert others.items() <= notes_of("m.st").items()
    assert notes_of("m.st").keys() - others == {"streamtree-learn"}
    for notes in ([], {"sources": 1}, {"sources": [["a"]]}, {"reading": []},
                  {"sources": [["a", "b"]]}, {"sources": [[1, 1]]}, {"reading": {"missing": 1}},
                  {"reading": {"missing": ["\udcff"]}},
                  {"reading": {"dates": {"day": "\udcff"}}}):
        model.save("m.st", notes={"streamtree-learn": notes})
        assert "its notes are of another program" in complaint("predict", "m.st", "data.csv")


def test_a_checkpoint_of_the_library_keeps_what_the_command_line_knows(data):
    assert learned("data.csv", "--rows", 250)[0] == 250
    checkpoint = Checkpoint("m.st", examples=10)
    model, position = checkpoint.resume(ModelTreeClassifier())
    model.learn_many(stream(50, seed=7).drop("label"), stream(50, seed=7)["label"])
    assert checkpoint.update(model, position + 50)
    assert learned("data.csv") == (350, "250 rows of data.csv were learned before\n")
    assert load_at("m.st")[1] == 650


def test_a_file_is_looked_up_at_once(monkeypatch):
    calls = []
    found = cli.fingerprint
    monkeypatch.setattr(cli, "fingerprint", lambda rows: calls.append(1) or found(rows))
    sources = [["abcd" * n, n] for n in range(1, 1001)]
    notes = cli.Notes.of_file({"streamtree-learn": {"sources": sources}}, "m.st")
    assert notes.sources == sources[-100:]
    notes.begin([{"a": i} for i in range(100)])
    assert calls == [1]
    assert len(notes.sources) == 100


def test_dates_and_what_is_missing_are_read_as_they_were_learned():
    rows = [f"{1 + i % 28}.3.2025,{'?' if i % 3 else i},{'ab'[i % 28 > 14]}" for i in range(200)]
    Path("data.csv").write_text("\n".join(["day,n,label", *rows]))
    options = ["--date", "day=%d.%m.%Y", "--missing", "?"]
    call("train", "data.csv", "--target", "label", "-o", "m.st", "--rows", 100, *options)
    assert learned("data.csv")[0] == 100
    model = streamtree.load("m.st")
    assert cli.known_columns(model)[0] == {"day.weekday", "day.days", "n"}
    out, err = call("predict", "m.st", "data.csv")
    assert err == ""
    assert out == call("predict", "m.st", "data.csv", *options)[0]
    # they are no columns that must be there; what is given again counts
    Path("few.csv").write_text("n\n1\n!\n")
    assert "lacks day.days" in call("predict", "m.st", "few.csv")[1]
    assert call("predict", "m.st", "few.csv", "--missing", "!", "--quiet")[1] == ""
    err = complaint("predict", "m.st", "data.csv", "--date", "day=%Y")
    assert "not a date like '%Y'" in err


def test_parameters_that_may_change_are_set_when_it_goes_on(data):
    argv = ["train", "data.csv", "--target", "amount", "-o", "m.st"]
    call(*argv, "--set", "seed=1", "--rows", 100)
    call(*argv, "--resume", "--set", "learning_rate=0.25", "--rows", 200)
    assert streamtree.load("m.st").learning_rate == 0.25
    # where nothing is new, too
    _, err = call(*argv, "--resume", "--set", "learning_rate=0.125", "--rows", 200)
    assert "nothing new" in err
    assert streamtree.load("m.st").learning_rate == 0.125
    assert sources_of("m.st") == [[100, 200]]
    before = Path("m.st").read_bytes()
    err = complaint(*argv, "--resume", "--set", "learning_rate=-1", code=2)
    assert "learning_rate must be" in err
    assert "seed=1, not 2" in complaint(*argv, "--resume", "--set", "seed=2")
    assert Path("m.st").read_bytes() == before


def test_no_output_takes_the_place_of_what_is_read(data):
    before = Path("data.csv").read_bytes()
    os.link("data.csv", "hard.csv")
    os.symlink("data.csv", "soft.csv")
    for path in ("data.csv", "./data.csv", "hard.csv", "soft.csv"):
        err = complaint("train", "data.csv", "--target", "label", "-o", path, code=2)
        assert f"{path} is data.csv itself" in err
    err = complaint("evaluate", "data.csv", "--target", "label", "--plot", "soft.csv", code=2)
    assert "soft.csv is data.csv itself" in err
    assert Path("data.csv").read_bytes() == before
    call("train", "data.csv", "--target", "label", "-o", "m.st")
    before = Path("m.st").read_bytes()
    assert "itself" in complaint("inspect", "m.st", "--draw", "m.st", code=2)
    assert "m.st is no text" in complaint("evaluate", "m.st", "--target", "label")
    assert Path("m.st").read_bytes() == before


def test_what_differs_from_the_file_is_refused(data):
    argv = ["train", "data.csv", "--target", "label", "-o", "m.st"]
    call(*argv, "--rows", 100)
    before = Path("m.st").read_bytes()
    assert "ModelTreeClassifier, not a SoftTreeClassifier" in complaint(
        *argv, "--resume", "--model", "soft"
    )
    assert "seed=None, not 5" in complaint(*argv, "--resume", "--set", "seed=5")
    assert Path("m.st").read_bytes() == before


def test_a_stream_that_never_ends_can_be_stopped(tmp_path):
    program = [sys.executable, "-m", "streamtree", "train", "-", "--target", "y", "-o", "m.st"]
    with subprocess.Popen(
        [*program, "--every", "0"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write("x,y\n" + "1,a\n2,b\n" * 50)
        process.stdin.flush()
        for _ in range(1200):
            time.sleep(0.05)
            if (tmp_path / "m.st").exists():  # the rows so far are learned, and more waited for
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "--resume" in err
    assert json.loads(call("inspect", "m.st", "--json")[0])["rows"] == 100


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_training_that_is_stopped_goes_on(tmp_path, number):
    frame = stream(300_000, seed=1).drop("amount")
    frame.write_csv("data.csv")
    argv = ["train", "data.csv", "--target", "label", "-o", "m.st"]
    with subprocess.Popen(
        [sys.executable, "-m", "streamtree", *argv, "--every", "0"], stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(1200):
            time.sleep(0.05)
            if (tmp_path / "m.st").exists():  # after the first chunk
                process.send_signal(number)
                break
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "--resume" in err
    position = json.loads(call("inspect", "m.st", "--json")[0])["rows"]
    assert 0 < position < 300_000
    call(*argv, "--resume", "--rows", position + 10_000)
    model = ModelTreeClassifier()
    part = frame[: position + 10_000]
    model.learn_many(part.drop("label"), part["label"])
    notes = notes_of("m.st")
    assert sources_of("m.st") == [[100, position + 10_000]]
    model.save("again.st", position=position + 10_000, notes=notes)
    assert Path("m.st").read_bytes() == Path("again.st").read_bytes()
    assert [name for name in os.listdir() if name.endswith(".tmp")] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "m.st", "größe.csv", "--proba"),
        ("predict", "m.st", "größe.csv", "--json"),
        ("inspect", "m.st", "--importances"),
        ("inspect", "m.st", "--draw", "m.dot"),
        ("inspect", os.fsdecode(b"m\xff.st")),
    ],
)
def test_what_is_written_is_utf8_whatever_the_locale(arguments):
    kinds, labels = ("rot", "日本"), ("süß", "né")
    rows = [f"{i % 7},{kinds[i % 2]},{labels[i % 7 > 3]}" for i in range(90)]
    Path("größe.csv").write_text("\n".join(["größe,farbe,ziel", *rows]), encoding="utf-8")
    call("train", "größe.csv", "--target", "ziel", "-o", "m.st")
    Path(os.fsdecode(b"m\xff.st")).write_bytes(Path("m.st").read_bytes())
    narrow = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    written = set()
    for locale in ({"PYTHONIOENCODING": "utf-8"}, narrow):
        program = [sys.executable, "-m", "streamtree", *arguments]
        environment = {**os.environ, **locale}
        done = subprocess.run(program, capture_output=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        drawn = Path("m.dot").read_text(encoding="utf-8") if "m.dot" in arguments else ""
        written.add((done.stdout.decode(), drawn))
    assert len(written) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_predictions_that_are_stopped_are_whole_lines(data, tmp_path, number):
    call("train", "data.csv", "--target", "label", "--drop", "amount", "-o", "m.st")
    program = [sys.executable, "-m", "streamtree", "predict", "m.st", "-"]
    with subprocess.Popen(
        program, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(data.select("a", "b", "kind", "code")[:50].write_csv().encode())
        head = process.stdout.readline()  # and now it waits for more
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"stopped\n")
    assert (head + out).decode() == call("predict", "m.st", "data.csv", "--rows", 50)[0]


def test_an_interrupt_beside_a_stream_ends_a_command(data, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    call("train", "data.csv", "--target", "label", "-o", "m.st")
    monkeypatch.setattr(cli, "load_at", interrupted)
    assert call("inspect", "m.st", code=130) == ("", "stopped\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt, TypeError])
def test_an_interrupt_ends_a_stream_whatever_it_is_turned_into(error):
    def source():
        yield "a chunk"
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            raise error("an unprintable type") from None

    with cli.Interrupts() as interrupts:
        assert list(interrupts.chunks(source())) == ["a chunk"]
    assert interrupts.stopped


def test_bad_data_leave_the_file_as_it_was(data):
    argv = ["--target", "label", "-o", "m.st"]
    call("train", "data.csv", *argv)
    before = Path("m.st").read_bytes()
    Path("bad.csv").write_text(data.write_csv() + "1,2\n")
    assert "line 602: expected 6 fields, found 2" in complaint("train", "bad.csv", *argv)
    assert Path("m.st").read_bytes() == before


# --------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("argv", "code", "expected"),
    [
        (["evaluate"], 2, "which data?"),
        (["evaluate", "data.csv"], 2, "--target"),
        (["evaluate", "none.csv", "--target", "y"], 1, "cannot read none.csv: No such file"),
        (["evaluate", "data.csv", "--target", "lable"], 1, "did you mean 'label'?"),
        (["evaluate", "data.csv", "--target", "label", "--model", "modl"], 2, "did you mean"),
        (["evaluate", "data.csv", "--target", "label", "--model", "tree"], 2, "may be"),
        (["evaluate", "data.csv", "--target", "label", "--model", "soft", "--model", "Soft-Tree"],
         2, "SoftTreeClassifier is named twice"),
        (["evaluate", "data.csv", "--target", "label", "--model", "tree.H"], 2, "river has"),
        (["evaluate", "data.csv", "--target", "label", "--set", "sed=1"], 2, "did you mean 'seed'"),
        (["evaluate", "data.csv", "--target", "label", "--set", "seed"], 2, "NAME=VALUE"),
        (["evaluate", "data.csv", "--target", "label", "--set", "seed={[]:1}"], 2, "seed must be"),
        (["evaluate", "data.csv", "--target", "label", "--set", "delta=7"], 2, "delta must be"),
        (["evaluate", "data.csv", "--target", "label", "--task", "regression"], 1, "row 1"),
        (["evaluate", "data.csv", "--target", "label", "--drop", "label"], 2, "cannot be dropped"),
        (["evaluate", "data.csv", "--target", "label", "--drop", "amont"], 1, "mean 'amount'?"),
        (["evaluate", "data.csv", "--target", "label", "--model", "softregressor"], 2,
         "no model 'softregressor' for classification: there are"),
        (["evaluate", "data.csv", "--target", "amount", "--model", "SoftTreeClassifier"], 2,
         "no model 'SoftTreeClassifier' for regression"),
        (["evaluate", "data.csv", "--target", "label", "--plot", "no/a.png"], 2, "no folder"),
        (["evaluate", "data.csv", "--target", "label", "--delimiter", "ab"], 2, "one character"),
        (["evaluate", "data.csv", "--target", "label", "--missing", "\udcff"], 2, "no text in UTF"),
        (["evaluate", "data.csv", "--target", "label", "--header", "\udcff"], 2, "no text in UTF"),
        (["evaluate", "data.csv", "--target", "label", "--delimiter", "\udcff"], 2, "no text in"),
        (["evaluate", "data.csv", "--target", "label", "--date", "a=\udcff"], 2, "no text in UTF"),
        (["evaluate", "data.csv", "--demo"], 2, "its own data"),
        (["evaluate", "data.csv", "--target", "label", "--model",
          "linear_model.LogisticRegression"], 1, "labels 0 and 1"),
        (["train", "data.csv", "--target", "label"], 2, "--output"),
        (["train", "data.csv", "--target", "label", "-o", "no/m.st"], 2, "no folder"),
        (["train", "data.csv", "--target", "label", "-o", "m.st", "--every", "nan"], 2,
         "seconds must be at least 0"),
        (["train", "data.csv", "--target", "label", "-o", "m.st", "--model",
          "tree.HoeffdingTreeClassifier"], 2, "cannot be kept"),
        (["predict", "none.st", "data.csv"], 2, "none.st"),
        (["predict", "data.csv", "data.csv"], 1, "is not a model"),
        (["inspect", "data.csv"], 1, "is not a model"),
        (["inspect", "data.csv", "--draw", "a.svg", "--max-depth", 2**31], 2, "--max-depth"),
    ],
)
def test_what_is_wrong_is_said(data, argv, code, expected):
    assert expected in " ".join(complaint(*argv, code=code).split())


def test_an_error_without_a_file_names_none(data, monkeypatch):
    def load_at(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cli, "load_at", load_at)
    assert complaint("inspect", "data.csv") == "streamtree-learn: No space left on device\n"


def test_a_value_that_no_model_takes_is_named(data):
    call("train", "data.csv", "--target", "label", "-o", "m.st")
    row = pl.int_range(pl.len())
    data = data.with_columns(a=pl.when((row == 41) | (row == 99)).then(np.inf).otherwise("a"))
    data.write_csv("data.csv")
    # in a frame and in dicts
    for _ in range(2):
        for argv in (["evaluate", "--target", "label"], ["predict", "m.st"]):
            err = complaint(*argv, "data.csv")
            assert "data.csv, row 42: " in err
            assert "feature 'a': the value inf is infinite" in err
        Path("data.csv").write_text(Path("data.csv").read_text() + "x,1,u,1,yes,2\n")


def test_warnings_are_one_line(data):
    names = [f"{i:0100} m" for i in range(20)] * 30
    data.select("label", name=pl.Series(names)).write_csv("data.csv")
    argv = ["evaluate", "data.csv", "--target", "label", "--set", "max_bytes=300_000"]
    before = warnings.showwarning
    _, err = call(*argv)
    assert err.startswith("streamtree-learn: warning: feature 'name' has had ")
    assert err.count("\n") == 1
    assert call(*argv, "--quiet")[1] == ""
    assert warnings.showwarning is before


def test_data_that_the_model_does_not_know(data):
    call("train", "data.csv", "--target", "label", "-o", "m.st")
    data.select("a", "b").write_csv("few.csv")
    out, err = call("predict", "m.st", "few.csv")
    assert len(out.splitlines()) == 601
    assert "few.csv lacks amount, code, kind" in err
    data.select("a", "b").write_ndjson("few.jsonl")
    assert "few.jsonl lacks amount, code, kind" in call("predict", "m.st", "few.jsonl")[1]
    Path("mixed.csv").write_text("a,b\n1,x\n2,3\n")
    assert "mixed.csv lacks amount, code, kind" in call("predict", "m.st", "mixed.csv")[1]
    data.select(z="a").write_csv("none.csv")
    assert "none of the columns" in complaint("predict", "m.st", "none.csv")


def test_info_and_help():
    found = json.loads(call("info", "--json")[0])
    assert {*found["models"]} == {each.__name__ for each in ESTIMATORS}
    assert found["versions"]["streamtree"] == streamtree.__version__
    assert "ModelTreeClassifier" in call("info")[0]
    for command in cli.commands.commands:
        assert "Usage:" in call(command, "--help")[0]


def test_what_is_not_installed_is_named(tmp_path):
    program = (
        "import sys; sys.modules['click'] = None; sys.argv = ['streamtree-learn'];"
        "from streamtree.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert 'pip install "streamtree-learn[cli]"' in done.stderr
    assert done.stderr.count("\n") == 1


# --------------------------------------------------------------------------- scores


def test_a_curve_does_not_grow():
    rng = np.random.default_rng(0)
    values = (rng.random(100_000) < 0.3).astype(float)
    curve = Curve()
    for start in range(0, len(values), 777):
        curve.add(values[start : start + 777])
    n, means = curve.points(10_000)
    assert len(n) <= 4096
    for end, mean in zip(n[::50].tolist(), means[::50].tolist(), strict=True):
        width = 10_000 // curve.block * curve.block
        assert mean == pytest.approx(values[end - width : end].mean(), rel=1e-12)


def test_scores_do_not_depend_on_the_cut():
    rng = np.random.default_rng(1)
    y, said = rng.integers(4, size=500).tolist(), rng.integers(5, size=500).tolist()
    whole, parts = ClassScore(), ClassScore()
    whole.update(y, said)
    for i in range(0, 500, 7):
        parts.update(y[i : i + 7], said[i : i + 7])
    assert whole.values() == parts.values()
    f1 = metrics.MacroF1()
    for a, b in zip(y, said, strict=True):
        f1.update(a, b)
    assert whole.values()["macro_f1"] == pytest.approx(f1.get(), rel=1e-12)
    numbers = rng.normal(1e6, 1.0, size=500)
    score = NumberScore()
    for part in np.split(numbers, [3, 100]):
        score.update(part, np.zeros_like(part) + 1e6)
    r2 = 1 - ((numbers - 1e6) ** 2).mean() / numbers.var()
    assert score.values()["r2"] == pytest.approx(r2, rel=1e-6)


# --------------------------------------------------------------------- several targets


def several(n=500):
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, n))
    return pl.DataFrame({"a": a, "b": b, "sum": a + b, "ten times": 10.0 * a})


def test_several_targets_are_predicted_together():
    frame = several()
    frame.write_csv("data.csv")
    frame.write_ndjson("data.jsonl")
    targets = ["--target", "sum", "--target", "ten times"]
    (found,) = scores("data.csv", *targets)
    assert found["model"] == "NonGreedyTreeMultiTargetRegressor"
    assert found["r2"] == pytest.approx((found["r2 sum"] + found["r2 ten times"]) / 2)
    assert found["r2 sum"] > 0.5
    # by dicts as by frames
    (by_rows,) = scores("data.jsonl", *targets)
    assert {k: v for k, v in by_rows.items() if "r2" in k} == {
        k: v for k, v in found.items() if "r2" in k
    }
    out, _ = call("evaluate", "data.csv", *targets, "--quiet", "--plot", "picture.png",
                  "--model", "nongreedy", "--model", "tree.ISOUPTreeRegressor")
    assert "R2 ten times" in out
    assert "river ISOUPTreeRegressor" in out
    assert Path("picture.png").stat().st_size > 1000


def test_a_model_of_several_targets_is_kept_and_goes_on():
    several().write_csv("data.csv")
    targets = ["--target", "sum", "--target", "ten times"]
    call("train", "data.csv", *targets, "-o", "m.st", "--rows", 300, "--quiet")
    call("train", "data.csv", *targets, "-o", "m.st", "--resume", "--quiet")
    call("train", "data.csv", *targets, "-o", "whole.st", "--quiet")
    assert Path("m.st").read_bytes() == Path("whole.st").read_bytes()
    out, _ = call("predict", "m.st", "data.csv", "--drop", "sum", "--drop", "ten times")
    assert out.splitlines()[0] == "sum,ten times"
    assert len(out.splitlines()) == 501
    err = complaint("train", "data.csv", "--target", "sum", "-o", "m.st", "--resume", code=2)
    assert "predicts several numbers" in err


def test_several_targets_must_be_numbers_and_different():
    Path("data.csv").write_text("a,b,c\n1,x,3\n2,y,4\n")
    both = ["--target", "a", "--target", "b"]
    assert "not a number" in complaint("evaluate", "data.csv", *both)
    for option in (["--nominal", "a"], ["--task", "classification"]):
        assert "must be numbers" in complaint("evaluate", "d", *both, *option, code=2)
    assert "named twice" in complaint("evaluate", "d", *both, "--target", "a", code=2)
    assert "no model 'soft'" in complaint("evaluate", "data.csv", "--target", "a", "--target", "c",
                                          "--model", "soft", code=2)


# ------------------------------------------------------------------------------ forests


def test_a_forest_is_trained_and_looked_into():
    stream(400).write_csv("data.csv")
    call("train", "data.csv", "--target", "label", "--model", "forest", "-o", "m.st", "--quiet",
         "--set", "n_trees=2")
    found = json.loads(call("inspect", "m.st", "--json")[0])
    assert found["class"] == "ForestClassifier"
    assert "tree" not in found
    assert {"extra", "model"} <= found["members"].keys()
    assert "weight of model" in call("inspect", "m.st")[0]
    assert "has many trees: which?" in complaint("inspect", "m.st", "--draw", "t.dot", code=2)
    for name in ("model", "extra:1", "extra"):
        call("inspect", "m.st", "--draw", "t.dot", "--member", name)
        assert Path("t.dot").read_text().startswith("digraph")
    member = json.loads(call("inspect", "m.st", "--json", "--member", "soft")[0])
    assert member["class"] == "SoftTreeClassifier"
    assert "tree" in member
    assert "members are" in complaint("inspect", "m.st", "--member", "hedge", code=2)
    assert "from 0 to 1" in complaint("inspect", "m.st", "--member", "extra:2", code=2)
    for name in ("extra:one", "extra:", "model:one"):
        err = complaint("inspect", "m.st", "--member", name, code=2)
        assert f"--member {name}: " in err
        assert "is no number of a tree" in err
    call("train", "data.csv", "--target", "label", "-o", "t.st", "--quiet")
    assert "is a tree" in complaint("inspect", "t.st", "--member", "model", code=2)
