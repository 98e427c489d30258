"""Manifests as an API server would see them, and what we want of every pod of ours."""

import re
import subprocess

import kubernetes_validate
import yaml

# The oldest that has what we use (native sidecars), and the newest whose schemas are at hand.
VERSIONS = ["1.29", "1.37"]
# What the schemas do not know: custom resources, with the fields that their operators need.
CUSTOM = {
    "ServiceMonitor": ["spec.selector.matchLabels", "spec.endpoints"],
    "PodMonitor": ["spec.selector.matchLabels", "spec.podMetricsEndpoints"],
    "PrometheusRule": ["spec.groups"],
}


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def schema_faults(document):
    """Where a document is not what its kind says, strictly: no unknown field."""
    name = f"{document.get('kind')} {document.get('metadata', {}).get('name')}"
    if document.get("kind") in CUSTOM:
        return [f"{name}: no {path}" for path in CUSTOM[document["kind"]] if not at(document, path)]
    faults = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            faults.append(f"{name}: {version}: {getattr(error, 'message', error)}")
    return faults


def at(document, path):
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def pods(document):
    """The pod specs in a document, with their metadata."""
    if document["kind"] == "Pod":
        yield document["metadata"], document["spec"]
    elif document["kind"] in ("Deployment", "Job"):
        yield document["spec"]["template"]["metadata"], document["spec"]["template"]["spec"]


def pod_faults(document):
    """What is wrong with the proxy in the pods of a document."""
    for _, spec in pods(document):
        native = [container for container in spec.get("initContainers", []) if container["name"] == "plimsoll"]
        proxies = native + [container for container in spec["containers"] if container["name"] == "plimsoll"]
        for proxy in proxies:
            yield from container_faults(proxy, spec)
        for sidecar in native:
            if sidecar.get("restartPolicy") != "Always":
                yield "the sidecar is no native one: restartPolicy is missing"
            if not any(env.get("value") == "127.0.0.1:4790" for env in sidecar["env"]):
                yield "the sidecar does not listen on loopback"
            if not all({"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"} <= {env["name"] for env in agent["env"]} for agent in spec["containers"]):
                yield "an agent beside a sidecar does not know its address"


def container_faults(proxy, spec):
    security = proxy["securityContext"]
    wanted = {"runAsNonRoot": True, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "runAsUser": 65532}
    for key, value in wanted.items():
        if security.get(key) != value:
            yield f"{key} is {security.get(key)}"
    if security["capabilities"] != {"drop": ["ALL"]} or security["seccompProfile"] != {"type": "RuntimeDefault"}:
        yield "capabilities or seccomp"
    if spec.get("automountServiceAccountToken") is not False:
        yield "a token is mounted that nobody asks for"
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    for mount in proxy["volumeMounts"]:
        if mount["name"] not in volumes:
            yield f"no volume {mount['name']}"
        if "subPath" in mount:
            yield f"{mount['name']} is mounted by subPath and would never change"
    ports = {port["name"]: port["containerPort"] for port in proxy["ports"]}
    for probe, path in (("startupProbe", "/readyz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        get = proxy[probe]["httpGet"]
        if get["path"] != path or get["port"] not in ports:
            yield f"{probe} asks {get}"
    if not {"cpu", "memory"} <= set(proxy["resources"]["requests"]) or "memory" not in proxy["resources"]["limits"]:
        yield "requests or limits are missing"


def configuration_faults(program, text, work, spec=None):
    """What the program says of a configuration, with the paths of a container led to files that are there."""
    local = work / "mounted"
    (local / "secret").mkdir(parents=True, exist_ok=True)
    for name in set(re.findall(r"/run/plimsoll/secret/([\w.-]+)", text)):
        (local / "secret" / name).write_text("agent 0123456789abcdef0123456789abcdef\n" if name == "tokens" else "0123456789abcdef" * 4)
    text = text.replace("/run/plimsoll/tls/tls.", f"{work}/certs/server.").replace("/run/plimsoll/tls/ca.crt", f"{work}/certs/ca.crt")
    text = text.replace("/run/plimsoll/upstream-ca/ca.crt", f"{work}/certs/ca.crt")
    text = text.replace("/run/plimsoll", str(local)).replace("/var/lib/plimsoll", str(local))
    file = work / "config.toml"
    file.write_text(text)
    done = subprocess.run([program, "check", "--config", file], capture_output=True, text=True, timeout=60)
    faults = [] if done.returncode == 0 else [done.stderr.strip()]
    said = {key: float(value) for key, value in re.findall(r"(?m)^(grace|drain_delay) = ([\d.]+)", text)}
    if spec and spec["terminationGracePeriodSeconds"] <= said.get("grace", 600) + said.get("drain_delay", 0):
        faults.append("the pod is killed before its grace is over")
    return faults
