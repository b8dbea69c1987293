"""A pytest plugin: writes the id of every test that passed, one a line, to the file named in PASSES_FILE."""

import os

passed = set()


def pytest_runtest_logreport(report):
    file, name = report.nodeid.split("::", 1)
    name = f"{os.path.basename(file)}::{name}"
    if report.when == "call" and report.passed:
        passed.add(name)
    elif report.failed:
        passed.discard(name)


def pytest_sessionfinish():
    with open(os.environ["PASSES_FILE"], "w", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in sorted(passed))
