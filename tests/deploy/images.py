"""The Dockerfile: what a linter says, and that ports, folders and user are those that the manifests count on."""

import re
import shutil
import tomllib

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

    report.hold("Dockerfile: its context is all that Cargo asks for", context_faults(root, report.work / "context"))


def context_faults(root, copy):
    """What Cargo misses in the files that .dockerignore lets in: targets of Cargo.toml, and files that the source includes."""
    copy.mkdir()
    ignore = (root / "deploy/Dockerfile.dockerignore").read_text().splitlines()
    for name in [line[1:] for line in ignore if line.startswith("!")]:
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name)
        elif (root / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, copy / name)
    yield from faults_of("cargo", "metadata", "--offline", "--no-deps", "--format-version=1", "--manifest-path", copy / "Cargo.toml")
    manifest = tomllib.loads((copy / "Cargo.toml").read_text())
    for kind, folder in (("bench", "benches"), ("bin", "src/bin"), ("example", "examples"), ("test", "tests")):
        for target in manifest.get(kind, []):
            path = target.get("path", f"{folder}/{target['name']}.rs")
            yield not (copy / path).exists() and f"Cargo.toml names {path}"
    for source in (copy / "src").rglob("*.rs"):
        for included in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', source.read_text()):
            if not (source.parent / included).exists():
                yield f"{source.relative_to(copy)} includes {included}"
