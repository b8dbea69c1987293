"""A pytest plugin: writes to the file named in RESULTS_FILE, as JSON, the ids of the tests that passed, and of those that
passed although the server gave Triton's answer where a better one is asked for."""

import json
import os

passed = set()
warned = set()


def short(nodeid):
    file, name = nodeid.split("::", 1)
    return f"{os.path.basename(file)}::{name}"


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        passed.add(short(report.nodeid))
    elif report.failed:
        passed.discard(short(report.nodeid))


def pytest_warning_recorded(warning_message, nodeid):
    if warning_message.category.__name__ == "TritonAnswer":
        warned.add(short(nodeid))


def pytest_sessionfinish():
    with open(os.environ["RESULTS_FILE"], "w", encoding="utf-8") as file:
        json.dump({"passed": sorted(passed), "warned": sorted(warned)}, file)
