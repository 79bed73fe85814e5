from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from observal.errors import ObservalError
from observal.exchange.importers import from_libsvm, from_obp, from_vw_cb
from observal.exchange.vowpal_wabbit import parse_vw_line


def feedback(n=400, n_actions=3, positions=1, seed=0):
    """A softmax policy over actions, as Open Bandit Pipeline's synthetic data have it."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, 2))
    scores = np.exp(context @ rng.normal(size=(2, n_actions)))
    pi_b = np.repeat((scores / scores.sum(axis=1, keepdims=True))[:, :, None], positions, axis=2)
    position = rng.integers(0, positions, n)
    if positions > 1:
        pi_b[:, :, 1] = pi_b[:, ::-1, 0]
    chances = pi_b[np.arange(n), :, position]
    action = np.array([rng.choice(n_actions, p=p) for p in chances])
    return {
        "n_rounds": n,
        "n_actions": n_actions,
        "context": context,
        "action": action,
        "position": position if positions > 1 else None,
        "reward": (rng.random(n) < 0.3 + 0.2 * action).astype(int),
        "pscore": chances[np.arange(n), action],
        "pi_b": pi_b,
    }


def test_bandit_log_becomes_a_log_about_one_action():
    log = feedback()
    imported = from_obp(log, action=1)
    logged = imported.logged
    assert logged.revealed.tolist() == (log["action"] == 1).tolist()
    assert logged.y[logged.revealed].tolist() == log["reward"][log["action"] == 1].tolist()
    assert logged.propensity.tolist() == log["pi_b"][:, 1, 0].tolist()
    assert imported.pool is None
    assert imported.feature_names == ("context 0", "context 1")
    assert f"{logged.revealed.sum()} of 400" in imported.notes[0]


def test_weighting_a_bandit_log_gives_the_value_of_the_action():
    """Action 2 is rewarded with chance 0.7: the weighted mean of 20,000 rows is within 5 standard errors."""
    logged = from_obp(feedback(n=20_000), action=2).logged
    terms = np.where(logged.revealed, logged.codes / logged.propensity, 0.0)
    assert abs(terms.mean() - 0.7) < 5 * terms.std() / np.sqrt(terms.size)


def test_positions_choose_the_action_distribution():
    log = feedback(positions=2)
    expected = log["pi_b"][np.arange(400), 0, log["position"]]
    assert from_obp(log, action=0).logged.propensity.tolist() == expected.tolist()


def without(log, *names, **changes):
    return {name: value for name, value in log.items() if name not in names} | changes


def test_propensity_may_be_numbers_or_a_policy():
    log = feedback()
    bare = without(log, "pi_b")
    truth = log["pi_b"][:, 1, 0]
    for given in (truth, log["pi_b"], log["pi_b"][:, :, 0], lambda X: truth):
        assert from_obp(bare, 1, given).logged.propensity.tolist() == truth.tolist()
    assert from_obp(without(bare, action_dist=log["pi_b"]), 1).logged.propensity.tolist() == truth.tolist()
    with pytest.raises(ObservalError, match="must be numbers or a policy, but is 'estimate'"):
        from_obp(bare, 1, "estimate")


def test_two_actions_or_a_uniform_policy_give_all_propensities():
    two = feedback(n_actions=2)
    imported = from_obp(without(two, "pi_b"), action=0)
    np.testing.assert_allclose(imported.logged.propensity, two["pi_b"][:, 0, 0], rtol=1e-12)
    uniform = without(feedback(), "pi_b", pscore=np.full(400, 1 / 3))
    imported = from_obp(uniform, action=0)
    assert set(imported.logged.propensity.tolist()) == {1 / 3}
    assert "uniform" in imported.notes[-1]


def test_rewards_can_be_turned_into_labels():
    log = without(feedback(), reward=np.random.default_rng(0).normal(size=400))
    logged = from_obp(log, 1, label=lambda reward: "good" if reward > 0 else "bad").logged
    assert logged.classes.tolist() == ["bad", "good"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda log: from_obp([], 1), "must be a dictionary"),
        (lambda log: from_obp(without(log, "pscore"), 1), "has no pscore"),
        (lambda log: from_obp(log, 7), "0 to 2"),
        (lambda log: from_obp(without(log, n_actions=5, pi_b=None), 4), "never taken"),
        (lambda log: from_obp(without(log, "pi_b"), 1), "not known at .* of 400 rows"),
        (lambda log: from_obp(without(log, reward=np.arange(400)), 1), "label="),
        (lambda log: from_obp(without(log, reward=np.ones(3)), 1), "`reward` must have one value for each"),
        (lambda log: from_obp(without(log, pscore=np.zeros(400)), 1), r"in \(0, 1\]"),
        (lambda log: from_obp(without(log, pi_b=np.ones((400, 2))), 1), "action distribution must have shape"),
        (lambda log: from_obp(without(log, pi_b=1 - log["pi_b"]), 1), "must agree with pscore"),
        (lambda log: from_obp(log, 1, "sometimes"), "'sometimes'"),
        (lambda log: from_obp(without(log, action=np.full(400, 9)), 1), "below n_actions"),
        (lambda log: from_obp(without(log, position=np.full(400, 4)), 1), "`position` must be"),
    ],
)
def test_bad_feedback_raises_one_sentence(call, message):
    with pytest.raises(ObservalError, match=message) as caught:
        call(feedback())
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


VW = """\
1:0:0.5 | age:30 new
2:1:0.5 | age:40

1:1:0.5 |user age:2.5 |shop:2 size:3 open
"""


def test_vw_text_with_namespaces_weights_and_blank_lines_is_read(tmp_path):
    path = tmp_path / "log.dat"
    path.write_text(VW)
    for source in (path, str(path), VW.splitlines()):
        imported = from_vw_cb(source, action=1)
        assert imported.feature_names == ("age", "new", "user^age", "shop^size", "shop^open")
        assert imported.logged.X.tolist() == [[30, 1, 0, 0, 0], [40, 0, 0, 0, 0], [0, 0, 2.5, 6, 2]]
        assert imported.logged.y.tolist() == [0, None, 1]
        assert imported.logged.propensity.tolist() == [0.5, 0.5, 0.5]


def test_vw_lines_that_list_all_actions_are_read():
    lines = ["1:0:0.25 2 | a", "1 2:5:0.75 | b", "3:5:0.5 2 | c", "2 3 1:1:0.4 | d"]
    logged = from_vw_cb(lines, action=1).logged
    np.testing.assert_allclose(logged.propensity, [0.25, 0.25, 0.0, 0.4])  # in the third line it was not on offer
    with pytest.raises(ObservalError, match="not known at 1 of 5 rows"):
        from_vw_cb([*lines, "1 2 3:0:0.9 | e"], action=1)


def test_vw_lines_without_a_cost_become_the_pool():
    lines = ["1:0:0.5 | a", "2:1:0.5 | b", "1:1:0.5 | c", "| a:2", "1 3 2 | b", "2 3 | a"]
    with pytest.raises(ObservalError, match=r"without a cost \(1\) would be the pool"):
        from_vw_cb([*lines[:2], "1:1:0.7 | c", "| a"], action=1)
    imported = from_vw_cb(lines, action=1, propensity=lambda X: np.full(len(X), 0.5))
    assert imported.pool.X.tolist() == [[2, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert imported.pool.propensity.tolist() == [0.5, 0.5, 0.5]
    uniform = from_vw_cb([*lines[:3], "| a:2", "1 2 | b", "2 | a"], action=1)
    assert uniform.pool.propensity.tolist() == [0.5, 0.5, 0.0]


def test_vw_costs_can_be_turned_into_labels():
    lines = ["1:-3:0.5 | a", "1:0:0.5 | b", "1:2.5:0.5 | c", "2:1:0.5 | c"]
    assert from_vw_cb(lines, 1, label=lambda cost: cost > 0).logged.y.tolist() == [False, False, True, None]


def test_vowpal_wabbit_reads_the_same_lines():
    """Its own parser accepts the lines that ours does and sees as many features."""
    vowpalwabbit = pytest.importorskip("vowpalwabbit")
    with vowpalwabbit.Workspace("--cb 3 --quiet --noconstant") as vw:
        for line in ["1:0:0.5 | age:30 new", "2:1:0.5 1 3 |user age:2.5 |shop:2 size:3 open", "1:0.5:0.25 |u a:1 b:2"]:
            example = vw.parse(line, vowpalwabbit.LabelType.CONTEXTUAL_BANDIT)
            ours = parse_vw_line(line, 1)
            assert example.get_feature_number() == len(ours.features)
            vw.finish_example(example)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1:0:0.5 age:30", "has no '|'"),
        ("shared | a", "'shared' line"),
        ("1:0:0.5 'tag | a", "the tag"),
        ("1:0:0.5 tag| a", "the tag 'tag'"),
        ("1:0 | a", "'1:0' where action:cost:probability"),
        ("x:0:0.5 | a", "not a whole number"),
        ("1:no:0.5 | a", "'no' is not a number"),
        ("1:0:0 | a", r"probability 0 .* in \(0, 1\]"),
        ("1:0:1.5 | a", "probability 1.5"),
        ("1:0:0.5 2:1:0.5 | a", "more than one action"),
        ("1:0:0.5 1 | a", "an action twice"),
        ("1:0:0.5 | a:x", "'x' is not a number"),
        ("1:0:0.5 | a:nan", "'nan' is not a number"),
        ("1:0:0.5 | :2", "without a name"),
        ("1:0:0.5 |ns:x a", "'x' is not a number"),
    ],
)
def test_malformed_vw_lines_are_named_by_their_number(line, message):
    with pytest.raises(ObservalError, match=message) as caught:
        from_vw_cb(["1:0:0.5 | a", "", line], action=1)
    assert str(caught.value).startswith("Line 3 ")
    assert "\n" not in str(caught.value)


def test_unreadable_vw_file_raises(tmp_path):
    with pytest.raises(ObservalError, match="cannot be read"):
        from_vw_cb(tmp_path / "nope.dat", action=1)
    with pytest.raises(ObservalError, match="never taken"):
        from_vw_cb(["2:0:0.5 | a"], action=1)
    (tmp_path / "latin.dat").write_bytes("1:0:0.5 | caf\xe9".encode("latin-1"))
    with pytest.raises(ObservalError, match="not UTF-8"):
        from_vw_cb(tmp_path / "latin.dat", action=1)


def libsvm_files(folder):
    rng = np.random.default_rng(0)
    X, y = np.round(rng.normal(size=(60, 4)), 3), np.array([-1, 0, 1] * 20)
    dump_svmlight_file(X, y, str(folder / "log.txt"), zero_based=False)
    dump_svmlight_file(X[:10, :3], np.zeros(10), str(folder / "pool.txt"), zero_based=False)
    return X, y


def test_libsvm_files_become_a_log_and_a_pool(tmp_path):
    X, y = libsvm_files(tmp_path)
    imported = from_libsvm(tmp_path / "log.txt", 0.5, pool=tmp_path / "pool.txt", missing=0)
    np.testing.assert_allclose(imported.logged.X, X)
    assert imported.logged.revealed.tolist() == (y != 0).tolist()
    assert imported.logged.classes.tolist() == [-1, 1]
    np.testing.assert_allclose(imported.pool.X, np.column_stack([X[:10, :3], np.zeros(10)]))
    assert imported.pool.propensity.tolist() == [0.5] * 10
    merged = from_libsvm(tmp_path / "log.txt", np.full(60, 0.5), label=lambda value: value > 0)
    assert merged.logged.revealed.all()
    assert merged.logged.classes.tolist() == [False, True]


def test_large_sparse_files_stay_sparse(tmp_path):
    path = tmp_path / "wide.txt"
    path.write_text("1 1:1\n-1 20000000:2\n")
    assert hasattr(from_libsvm(path, 0.5).logged.X, "tocsr")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\nx 1:2\n", "Line 2 .* starts with 'x'"),
        ("1 1:2\n\n# note\n-1 1:2 two:3\n", "Line 4 .* 'two:3'"),
        ("1 1:2\n-1 3:1 2:1\n", "Line 2 .* index 2 after 3"),
        ("1 1:2\n-1 3\n", "Line 2 .* '3' where index:value"),
        ("1 1:2\n1 1:3\n", "must have two values"),
    ],
)
def test_malformed_libsvm_lines_are_named_by_their_number(tmp_path, text, message):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(ObservalError, match=message) as caught:
        from_libsvm(path, 0.5)
    assert "\n" not in str(caught.value)


def test_contradictory_libsvm_arguments_raise(tmp_path):
    libsvm_files(tmp_path)
    with pytest.raises(ObservalError, match="There is no file"):
        from_libsvm(tmp_path / "nope.txt", 0.5)
    with pytest.raises(ObservalError, match="for the log alone"):
        from_libsvm(tmp_path / "log.txt", np.full(60, 0.5), pool=tmp_path / "pool.txt", missing=0)
    with pytest.raises(ObservalError, match=r"in \[0, 1\]"):
        from_libsvm(tmp_path / "log.txt", 2.0, missing=0)
    with pytest.raises(ObservalError, match=r"has 3 \(-1, 0, 1\)"):
        from_libsvm(tmp_path / "log.txt", 0.5)
