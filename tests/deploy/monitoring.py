"""Dashboard and alert rules: they are what Prometheus and Grafana read, and speak of metrics, labels and values that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import yaml

from report import faults_of

# What Prometheus adds to every sample, and its functions name.
ALWAYS = {"job", "instance", "le"}
FILES = Path("deploy/chart/files")


def check(root, program, report):
    alerts, dashboard = root / FILES / "alerts.yaml", root / FILES / "dashboard.json"
    rules = [rule for group in yaml.safe_load(alerts.read_text())["groups"] for rule in group["rules"]]
    board = json.loads(dashboard.read_text())
    expressions = [(rule["alert"], rule["expr"]) for rule in rules] + queries(board)
    report.hold("alerts: each says what to do", list(incomplete(rules)))
    report.hold("dashboard: panels have room of their own", list(overlaps(board)))

    if shutil.which("promtool"):
        report.hold("alerts: promtool check rules", faults_of("promtool", "check", "rules", alerts))
        report.hold("alerts: promtool test rules", faults_of("promtool", "test", "rules", Path(__file__).parent / "alerts.test.yaml"))
        report.hold("dashboard: promtool parses every query", parsed(report.work, expressions))
    else:
        report.skip("alerts and dashboard by promtool", "it is not installed")

    listing = subprocess.run([program, "metrics"], capture_output=True, text=True, timeout=60)
    if listing.returncode == 64:
        report.skip("metrics by the program's own list", "this program has none")
        return
    metrics = {name: (kind, set(filter(None, labels.split(",")))) for name, kind, labels, _ in map(lambda line: line.split("\t"), listing.stdout.splitlines())}
    assert len(metrics) > 20, listing.stdout
    report.hold("dashboard and alerts: metrics and labels exist", [fault for named in expressions for fault in unknown(metrics, *named)])
    shown = {name for _, expression in queries(board) for name, _ in selectors(expression)}
    report.hold("dashboard: every metric is shown", [f"{name} is not" for name in metrics if not shown & samples(name, metrics[name][0])])


def queries(board):
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", [])]


def incomplete(rules):
    for rule in rules:
        if rule["labels"].get("severity") not in ("info", "warning", "critical"):
            yield f"{rule['alert']}: severity"
        if not {"summary", "description"} <= rule["annotations"].keys():
            yield f"{rule['alert']}: annotations"


def overlaps(board):
    taken = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        if place["x"] + place["w"] > 24:
            yield f"{panel['title']} is wider than the page"
        for cell in ((x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])):
            if taken.setdefault(cell, panel["title"]) != panel["title"]:
                yield f"{panel['title']} lies on {taken[cell]}"
                break
    ids = [panel["id"] for panel in board["panels"]]
    if len(ids) != len(set(ids)):
        yield "an id is there twice"


def plain(expression):
    """A query as Prometheus gets it from Grafana."""
    return expression.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$instance", ".*")


def parsed(work, expressions):
    rules = [{"record": f"query:{n}", "expr": plain(expression)} for n, (_, expression) in enumerate(expressions)]
    file = work / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    return faults_of("promtool", "check", "rules", file)


def selectors(expression):
    """The metrics of an expression, each with what it asks of labels."""
    for name, matchers in re.findall(r"\b((?:plimsoll|gen_ai|process)_\w+)\s*(?:\{([^}]*)\})?", expression):
        # A label of that prefix is in a grouping, where no selector stands.
        if not re.search(rf"by \([^)]*\b{name}\b[^)]*\)", expression):
            yield name, re.findall(r"(\w+)\s*(=~|!~|!=|=)\s*\"", matchers or "")


def samples(name, kind):
    return {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}


def unknown(metrics, title, expression):
    known = {sample: labels for name, (kind, labels) in metrics.items() for sample in samples(name, kind)}
    used = list(selectors(expression))
    for name, matchers in used:
        if name not in known:
            yield f"{title}: no metric {name}"
        else:
            yield from (f"{title}: {name} has no label {label}" for label, _ in matchers if label not in known[name] | ALWAYS)
    for group in re.findall(r"by \(([^)]*)\)", expression):
        for label in filter(None, (label.strip() for label in group.split(","))):
            if label not in ALWAYS and not any(label in known.get(name, set()) for name, _ in used):
                yield f"{title}: nothing here has a label {label}"
