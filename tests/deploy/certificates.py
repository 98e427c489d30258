"""certs/dev-ca makes what a proxy and its agents need, and renews it without a moment in which key and certificate are lost."""

import json
import socket
import ssl
import subprocess

from report import faults_of


def check(root, program, report):
    script, folder = root / "certs/dev-ca", report.work / "certs"
    report.hold("certs/dev-ca makes certificates", faults_of(script, folder, "localhost", "127.0.0.1"))
    names = ["ca.crt", "server.crt", "server.key", "client.crt", "client.key"]
    report.hold("all files are there", [f"{name} is missing" for name in names if not (folder / name).stat().st_size])
    modes = [f"{name} can be read by others" for name in ("ca.key", "server.key", "client.key") if (folder / name).stat().st_mode & 0o077]
    report.hold("keys are private", modes)
    config = report.work / "tls.toml"
    config.write_text(f'listen = "127.0.0.1:0"\nadmin = "off"\n[tls]\ncertificate = "{folder}/server.crt"\nkey = "{folder}/server.key"\n')
    report.hold("a proxy shows the certificate to those who trust the authority", handshake(program, config, folder))

    before = {name: (folder / name).read_bytes() for name in names}
    report.hold("certs/dev-ca renews", faults_of(script, folder, "localhost", "127.0.0.1"))
    changed = [f"{name} is the old one" for name in names[1:] if (folder / name).read_bytes() == before[name]]
    changed += [] if (folder / "ca.crt").read_bytes() == before["ca.crt"] else ["the authority changed"]
    changed += [f"left over: {left.name}" for left in folder.glob(".new*")]
    report.hold("a renewal keeps the authority and nothing else", changed)


def handshake(program, config, folder):
    with subprocess.Popen([program, "serve", "--config", config, "--log-format", "json"], stdout=subprocess.PIPE, text=True) as proxy:
        try:
            line = json.loads(proxy.stdout.readline())
            host, _, port = line["address"].rpartition(":")
            trusting = ssl.create_default_context(cafile=folder / "ca.crt")
            with socket.create_connection((host, int(port)), timeout=10) as plain:
                with trusting.wrap_socket(plain, server_hostname="localhost") as secure:
                    secure.getpeercert()
        except (OSError, KeyError, ValueError) as error:
            return [str(error)]
        finally:
            proxy.terminate()
    return []
