"""The systemd unit, as systemd sees it."""

import re
import shutil
import subprocess

# systemd's own scale goes from 0, nothing exposed, to 10. A service that talks to a network cannot come much below one.
EXPOSURE = 1.5


def check(root, program, report):
    unit = root / "deploy/systemd/plimsoll.service"
    text = unit.read_text()
    grace = float(re.search(r"(?m)^grace = ([\d.]+)", (root / "config/reference.toml").read_text()).group(1))
    stop = int(re.search(r"(?m)^TimeoutStopSec=(\d+)$", text).group(1))
    report.hold("unit: it is not killed before its grace is over", [stop <= grace and f"{stop} s, and a grace of {grace} s"])
    if not shutil.which("systemd-analyze"):
        report.skip("unit: systemd-analyze", "it is not installed")
        return
    # The program stands somewhere else here.
    local = report.work / "plimsoll.service"
    local.write_text(text.replace("/usr/local/bin/plimsoll", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", local], capture_output=True, text=True, timeout=60)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "plimsoll.service" in line]
    report.hold("unit: systemd-analyze verify", said + ([] if done.returncode == 0 or said else [done.stderr.strip()]))
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", local], capture_output=True, text=True, timeout=60)
    exposure = float(re.search(r"exposure level for \S+: ([\d.]+)", done.stdout).group(1))
    report.hold(f"unit: exposure {exposure} by systemd-analyze security", [exposure > EXPOSURE and f"more than {EXPOSURE}"])
