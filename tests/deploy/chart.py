"""The Helm chart: it renders in every way that its values allow, to what an API server takes, and uses each of its values."""

import re
from pathlib import Path

import helm_python as helm
import yaml

from kubernetes import configuration_faults, documents, pod_faults, pods, schema_faults

ERROR = 3


def check(root, program, report):
    folder = root / "deploy/chart"
    messages = helm.lint(str(folder))["messages"]
    report.hold("chart: helm lint", [f"{message['path']}: {message['error']}" for message in messages if message["severity"] >= ERROR])
    defaults = yaml.safe_load((folder / "values.yaml").read_text())
    report.hold("chart: every value is used", unused(folder, defaults))
    report.hold("chart: every value is in the schema", unsaid(defaults, yaml.safe_load((folder / "values.schema.json").read_text())))
    versions = yaml.safe_load((folder / "Chart.yaml").read_text())
    crate = re.search(r'(?m)^version = "(.+)"', (root / "Cargo.toml").read_text()).group(1)
    report.hold("chart: appVersion is the program's", [versions["appVersion"] != crate and f"{versions['appVersion']}, not {crate}"])

    cases = sorted((Path(__file__).parent / "values").glob("*.yaml")) + sorted((root / "deploy/examples").glob("*-values.yaml"))
    assert len(cases) > 5, "values are missing"
    with helm.Chart.load(str(folder)) as chart:
        for case in cases:
            values = yaml.safe_load(case.read_text()) or {}
            refused = values.pop("refused", None)
            try:
                rendered = chart.render(values, name="demo", namespace="agents")
                chart.validate_schema(values)
            except helm.HelmError as error:
                report.hold(f"chart: {case.stem} is refused", [not (refused and refused in str(error)) and str(error)])
                continue
            report.hold(f"chart: {case.stem}", [refused and "was not refused"] + faults(rendered, program, report.work))


def faults(rendered, program, work):
    found = []
    everything = [
        document for name, text in rendered.items() if name.endswith((".yaml", ".yml")) for document in documents(text)
    ]
    names = [(document["kind"], document["metadata"]["name"]) for document in everything]
    found += [f"{name} twice" for name in names if names.count(name) > 1]
    specs = [spec for document in everything for _, spec in pods(document)]
    for document in everything:
        found += schema_faults(document)
        found += pod_faults(document)
        if "config.toml" in document.get("data", {}):
            found += configuration_faults(program, document["data"]["config.toml"], work, specs[0])
    labels = [metadata["labels"] for document in everything for metadata, _ in pods(document)]
    ports = {port["name"] for spec in specs for each in spec["containers"] + spec.get("initContainers", []) for port in each.get("ports", [])}
    for document in everything:
        selector = document["spec"].get("selector", {}) if document["kind"] == "Service" else None
        if selector is not None and not any(selector.items() <= each.items() for each in labels):
            found.append(f"{document['metadata']['name']} selects no pod")
        if document["kind"] == "Service":
            found += [f"no port {port['targetPort']}" for port in document["spec"]["ports"] if port["targetPort"] not in ports]
        if document["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            spec = document["spec"]
            wanted = spec.get("podSelector", spec.get("selector"))["matchLabels"]
            if not any(wanted.items() <= each.items() for each in labels):
                found.append(f"the {document['kind']} selects no pod")
            named = [port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]]
            found += [f"the NetworkPolicy opens no port {port}" for port in named if port not in ports]
        if document["kind"] == "NetworkPolicy":
            open_to = {port["port"] for rule in document["spec"]["egress"] for port in rule.get("ports", [])}
            found += [f"the NetworkPolicy does not let it out to {port}" for port in outside(everything) if port not in open_to]
        if document["kind"] == "HorizontalPodAutoscaler":
            target = document["spec"]["scaleTargetRef"]
            if (target["kind"], target["name"]) not in names:
                found.append(f"there is no {target} to scale")
            if any("replicas" in each["spec"] for each in everything if (each["kind"], each["metadata"]["name"]) == (target["kind"], target["name"])):
                found.append("the autoscaler and the Deployment both say how many replicas there are")
        if document["kind"] == "ServiceMonitor":
            wanted = document["spec"]["selector"]["matchLabels"]
            services = [each for each in everything if each["kind"] == "Service" and wanted.items() <= each["metadata"]["labels"].items()]
            if len(services) != 1:
                found.append(f"it scrapes {len(services)} services")
    return found


def outside(everything):
    """Ports that the configuration in these documents connects to, besides the upstreams'."""
    known = {"redis": 6379, "rediss": 6379, "http": 80, "https": 443}
    for document in everything:
        for line in document.get("data", {}).get("config.toml", "").splitlines():
            if found := re.match(r'(?:url|endpoint) = "(\w+)://[^/"]*?(?::(\d+))?(?:/[^"]*)?"', line):
                yield int(found.group(2) or known[found.group(1)])


def leaves(values, at=()):
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, at + (key,))
        else:
            yield at + (key,)


def unused(folder, defaults):
    """Values that no template reads: neither itself nor, whole, a table that it stands in."""
    text = "\n".join(file.read_text() for file in (folder / "templates").iterdir())
    read = set(re.findall(r"\.Values((?:\.\w+)+)", text))
    for path in leaves(defaults):
        if not any("." + ".".join(path[: n + 1]) in read for n in range(len(path))):
            yield f"{'.'.join(path)} is read by no template"


def unsaid(defaults, schema):
    for path in leaves(defaults):
        at = schema
        for key in path:
            if at.get("properties") is None:
                break
            if key not in at["properties"]:
                yield f"{'.'.join(path)} is not in the schema"
                break
            at = at["properties"][key]
