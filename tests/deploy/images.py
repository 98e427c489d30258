"""The Dockerfile: what a linter says, and that ports, folders and user are those that the manifests count on."""

import re
import shutil

from report import faults_of


def check(root, program, report):
    file = root / "deploy/Dockerfile"
    text = file.read_text()
    if shutil.which("hadolint"):
        report.hold("Dockerfile: hadolint", faults_of("hadolint", file))
    else:
        report.skip("Dockerfile: hadolint", "it is not installed")

    reference = (root / "config/reference.toml").read_text()
    ports = {re.search(rf'(?m)^{key} = ".*:(\d+)"', reference).group(1) for key in ("listen", "admin")}
    templates = "".join(template.read_text() for template in (root / "deploy/chart/templates").iterdir())
    faults = []
    for where, found in {
        "EXPOSE": set(re.search(r"(?m)^EXPOSE (.+)$", text).group(1).split()),
        "ENV": set(re.findall(r"PLIMSOLL_(?:LISTEN|ADMIN)=[\d.]+:(\d+)", text)),
        "the chart": set(re.findall(r"containerPort: (\d+)", templates)),
    }.items():
        if found != ports:
            faults.append(f"{where} has the ports {sorted(found)}, the program {sorted(ports)}")
    report.hold("Dockerfile: ports are the program's", faults)

    folder = re.search(r"XDG_CONFIG_HOME=(\S+)", text).group(1) + "/plimsoll"
    user = re.search(r"(?m)^USER (\d+):\d+$", text).group(1)
    faults = [f"mountPath: {folder}" not in templates and f"the chart does not mount {folder}"]
    faults += [f"runAsUser: {user}" not in templates and f"the chart does not run as {user}"]
    last = re.findall(r"(?m)^FROM (\S+)", text)[-1]
    faults += [last != "scratch" and f"the last stage is over {last}"]
    report.hold("Dockerfile: folder, user and base are as the chart has them", faults)

    # What the first stage compiles from has to be let in.
    context = (root / "deploy/Dockerfile.dockerignore").read_text().split()
    needed = ["Cargo.toml", "Cargo.lock", "build.rs", "src", "config", "benches", "README.md"]
    report.hold("Dockerfile: its context is whole", [f"!{name}" not in context and f"{name} is left out" for name in needed])
