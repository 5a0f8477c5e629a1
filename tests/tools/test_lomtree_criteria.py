"""The benchmark of the criteria: what it measures, on small sets, and that its claims can fail."""

import re

import numpy as np
import pytest
from scipy import sparse, stats
from support import programs
from support.streams import blobs


@pytest.fixture(scope="module")
def program():
    return programs.program("lomtree_criteria")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with a dense set that has a split, and a sparse one that has none."""
    X, y = blobs(1_500, classes=8, features=6, spread=2.0, seed=1)
    y = y.astype(np.int32)
    np.savez(tmp_path / "isolet.npz", X=X, y=y, train_size=1_200)
    words = sparse.csr_matrix(np.where(X > 1.0, X, 0.0))
    np.savez(
        tmp_path / "sector.npz", data=words.data, indices=words.indices, indptr=words.indptr,
        shape=np.array(words.shape), y=y,
    )
    monkeypatch.setenv("STREAMTREE_DATA", str(tmp_path))
    return tmp_path


def test_every_set_that_is_there_is_measured_and_drawn(program, folder, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    program.main(["--folder", str(tmp_path / "pictures"), "--spacing", "1.2"])
    out = capsys.readouterr().out
    parts = dict(zip(program.SETS, re.split(r"^## ", out, flags=re.MULTILINE)[1:], strict=True))
    for name in ("mnist", "aloi"):
        assert f"skipped: there is no data set {name!r}" in parts[name]
    for name in ("isolet", "sector"):
        claims = re.findall(r"^claim: .*measured: .*: (?:holds|DOES NOT HOLD)$", parts[name], re.M)
        assert len(claims) == 8  # four of the paper's on test rows, and on the leaves' weights
        assert re.search(r"\d+ records from [12] to \d\d splits", parts[name])
        assert (tmp_path / "pictures" / f"criteria_{name}_stream.png").stat().st_size > 10_000
    assert "all three criteria fall" in parts["isolet"]
    assert re.search(r"criteria fall.*: holds$", parts["isolet"], re.MULTILINE)


@pytest.mark.parametrize("name", ["isolet", "sector"])
def test_the_algorithm_of_the_paper_gets_rows_of_norm_1(program, folder, name, capsys):
    rows = program.rows_of(program.load(name), is_paper=True)
    squares = rows[0].multiply(rows[0]) if sparse.issparse(rows[0]) else rows[0] ** 2
    assert squares.sum() / len(rows[1]) == pytest.approx(1.0)
    assert (len(rows[1]), len(rows[3])) == ((1_200, 300) if name == "isolet" else (1_350, 150))
    program.main([name, "--algorithm", "paper", "--max-splits", "20", "--passes", "2"])
    assert "to 20 splits" in capsys.readouterr().out
    program.main([name, "--algorithm", "paper"])
    out = capsys.readouterr().out
    assert out.endswith("every leaf holds one class: there is nothing to compare\n")
    assert out.count("claim: ") == 4  # on the test rows


def records_of(**curves):
    n = len(next(iter(curves.values())))
    return [
        {"n_splits": 2 * i + 1, **{name: curve[i] for name, curve in curves.items()}}
        for i in range(n)
    ]


def test_findings_are_those_of_scipy(program):
    rng = np.random.default_rng(0)
    curves = {
        name: rng.integers(0, 8, 30) / 7  # with ties
        for name in ("entropy", "gini", "modified_gini", "test_error")
    }
    found = program.findings(records_of(**curves), "")
    splits = np.arange(30) * 2 + 1
    for name, curve in curves.items():
        row = found[name.replace("_error", " error")]
        assert row["rank correlation"] == pytest.approx(stats.spearmanr(splits, curve).statistic)
        assert row["correlation"] == pytest.approx(
            stats.pearsonr(curve, curves["test_error"]).statistic
        )
        height = (curve - curve.min()) / np.ptp(curve)
        assert row["mean height"] == pytest.approx(
            ((height[1:] + height[:-1]) / 2).mean()  # equally spaced
        )
    still = program.findings(records_of(**{name: np.ones(3) for name in curves}), "")
    assert still["gini"]["rank correlation"] == still["gini"]["mean height"] == 0.0


def test_claims_hold_where_they_do_and_fail_where_they_do_not(program, capsys):
    line = np.linspace(1.0, 0.0, 20)
    as_claimed = {
        "entropy": line**2, "gini": line, "modified_gini": line**3, "test_error": line**1.1,
    }
    program.judge(program.findings(records_of(**as_claimed), ""))
    assert capsys.readouterr().out.count(": holds\n") == 4
    reversed_roles = {
        "entropy": line, "gini": line**9, "modified_gini": 1.0 - line, "test_error": line,
    }
    program.judge(program.findings(records_of(**reversed_roles), ""))
    assert capsys.readouterr().out.count(": DOES NOT HOLD\n") == 4


@pytest.mark.parametrize("arguments", [["--passes", "0"], ["--algorithm", "none"]])
def test_bad_arguments_are_refused(program, arguments, capsys):
    with pytest.raises(SystemExit):
        program.main(arguments)
    assert "error:" in capsys.readouterr().err
