# SPDX-License-Identifier: Apache-2.0
"""`weir-xdp daemon` at the rig's router, and its metrics."""

import json
import re
import signal

from packet_rig import WEIR, until


class Daemon:
    """A daemon in the router's namespace, and what it says."""

    def __init__(self, rig, folder):
        self.rig, self.folder = rig, folder
        self.file, self.metrics_file = folder / "xdp.toml", folder / "xdp.prom"
        self.process = None

    def configure(self, tables: str, drift: str = "mend") -> None:
        own = f'drift = "{drift}"\ncheck = "200ms"\nmetrics = "{self.metrics_file}"\n'
        self.file.write_text(own + tables)

    def start(self) -> None:
        with (self.folder / "log").open("a") as log:
            self.process = self.rig.router.start(WEIR, "daemon", "--config", self.file, stderr=log)

    def stop(self, how: int = signal.SIGTERM) -> int:
        if self.process is None or self.process.poll() is not None:
            return 0
        self.process.send_signal(how)
        return self.process.wait()

    def metric(self, name: str, **labels: str) -> int:
        """A sample of the metrics; -1 where there is none (yet)."""
        text = self.metrics_file.read_text() if self.metrics_file.exists() else ""
        wanted = "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else ""
        found = re.search(rf"^weir_xdp_{name}{re.escape(wanted)} (\d+)$", text, re.MULTILINE)
        return int(found[1]) if found else -1

    def looked(self, dev: str = "rb") -> None:
        """Waits until it has looked at an interface twice more, so once from begin to end."""
        seen = self.metric("looks_total", dev=dev)
        until(lambda: self.metric("looks_total", dev=dev) >= seen + 2, "two looks", 60)


def attachments(rig) -> str:
    """The folders of what is attached, beside which the daemon's lock lies."""
    return rig.router.sh("find /sys/fs/bpf/weir -mindepth 1 ! -name 'lock-*' 2>/dev/null || true")


def attached(rig, dev: str = "rb") -> bool:
    done = rig.weir("status", dev, "--json", check=False)
    return done.returncode == 0 and not json.loads(done.stdout)["gone"]
