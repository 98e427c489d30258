"""The plain manifests and configurations of deploy/ and its examples."""

from kubernetes import configuration_faults, documents, pod_faults, pods, schema_faults


def check(root, program, report):
    for file in [root / "deploy/sidecar.yaml", root / "deploy/examples/redis.yaml"]:
        everything = documents(file.read_text())
        faults = [fault for document in everything for fault in schema_faults(document)]
        faults += [fault for document in everything for fault in pod_faults(document)]
        specs = [spec for document in everything for _, spec in pods(document)]
        for document in everything:
            if "config.toml" in document.get("data", {}):
                faults += configuration_faults(program, document["data"]["config.toml"], report.work, specs[0])
        report.hold(f"manifest: {file.relative_to(root)}", faults)
    for file in sorted((root / "deploy/examples").glob("*.toml")):
        report.hold(f"configuration: {file.relative_to(root)}", configuration_faults(program, file.read_text(), report.work))
