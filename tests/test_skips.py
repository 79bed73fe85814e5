"""With CI=true nothing can be skipped without being noticed."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CASES = {
    "in the test": "import pytest\ndef test_it():\n    pytest.skip('no server')",
    "by a mark": "import pytest\n@pytest.mark.skip(reason='no server')\ndef test_it(): pass",
    "in a fixture": "import pytest\n@pytest.fixture\ndef f(): pytest.skip('no server')\ndef test_it(f): pass",
    "a whole file": "import pytest\npytest.skip('no server', allow_module_level=True)",
}


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester, code):
    pytester.makepyfile(code)
    return pytester.runpytest_inprocess("-p", "tests.skips", "-rs")


@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_skip_is_a_failure_in_ci_and_says_why(pytester, monkeypatch, code):
    monkeypatch.setenv("CI", "true")
    result = run(pytester, code)
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    result.stdout.fnmatch_lines(["*skipped, which is a failure when CI=true*no server*"])


@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_elsewhere_a_skip_is_a_skip(pytester, monkeypatch, code):
    monkeypatch.delenv("CI", raising=False)
    result = run(pytester, code)
    assert result.ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    result.assert_outcomes(skipped=1)


def test_expected_failure_is_not_a_skip(pytester, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = run(pytester, "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False")
    result.assert_outcomes(xfailed=1)
    assert result.ret == pytest.ExitCode.OK
