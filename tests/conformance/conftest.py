"""Closing lines of the conformance run."""


def pytest_terminal_summary(terminalreporter):
    checks = failures = 0
    ops = set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            properties = dict(getattr(report, "user_properties", ()))
            if "conformance_op" in properties and report.when == "call":
                ops.add(properties["conformance_op"])
                checks += properties["conformance_checks"]
                failures += properties["conformance_failures"]
    if ops:
        terminalreporter.write_line(f"conformance: {checks} checks over {len(ops)} ops, {failures} failures")
