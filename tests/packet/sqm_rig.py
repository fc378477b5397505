# SPDX-License-Identifier: Apache-2.0
"""sqm-scripts at the rig's router: the real ones of a clone that WEIR_SQM_SCRIPTS names, started as on Debian or as on
OpenWrt, or `sqm/`, which has only what weir.qos meets of them."""

import os
import re
import shutil
from pathlib import Path

import pytest
from packet_rig import BUILD, REPO

CLONE = Path(os.environ.get("WEIR_SQM_SCRIPTS", "/nonexistent"))
NEEDS_CLONE = pytest.mark.skipif(
    not (CLONE / "src" / "start-sqm").exists(), reason="WEIR_SQM_SCRIPTS names no clone of sqm-scripts"
)
FORMS = ["contract", pytest.param("debian", marks=NEEDS_CLONE), pytest.param("openwrt", marks=NEEDS_CLONE)]
SCRIPTS = ("weir.qos", "weir.qos.help")
UCI_NAMES = {
    "UPLINK": "upload", "DOWNLINK": "download", "SCRIPT": "script", "LINKLAYER": "linklayer", "OVERHEAD": "overhead",
    "STAB_MPU": "tcMPU", "ELIMIT": "elimit", "ILIMIT": "ilimit", "ETARGET": "etarget", "ITARGET": "itarget",
    "EECN": "egress_ecn", "IECN": "ingress_ecn", "EQDISC_OPTS": "eqdisc_opts", "IQDISC_OPTS": "iqdisc_opts",
}  # fmt: skip


class Sqm:
    """An installation in its own folder. `log` has the output of the last command."""

    def __init__(self, rig, form: str, folder: Path):
        self.rig, self.form, self.folder, self.log = rig, form, folder, ""
        self.dev, self.settings = "rb", {}
        self.library, self.state = folder / "lib", folder / "state"
        self.library.mkdir()
        self.state.mkdir(mode=0o700)
        for source in (CLONE / "src" if form != "contract" else Path(__file__).parent / "sqm").iterdir():
            self._installed(source)
        for name in SCRIPTS:
            shutil.copy(REPO / "xdp" / "openwrt" / name, self.library)
        (folder / "sqm.conf").write_text(
            f"SQM_LIB_DIR={self.library}\nSQM_STATE_DIR={self.state}\nSQM_QDISC_STATE_DIR={self.state}/qdiscs\n"
            "SQM_CHECK_QDISCS=\nSQM_SYSLOG=0\nPATH=$PATH:/usr/sbin:/sbin\n"
        )
        if form == "debian":
            self._installed(CLONE / "platform" / "linux" / "sqm-bin")

    def _installed(self, source: Path) -> None:
        """With the folders of this installation in the place of those in /etc and /lib."""
        text = source.read_text(encoding="utf-8")
        text = text.replace("/etc/sqm", str(self.folder)).replace("\n. /lib/functions.sh", f"\n. {self.folder}/uci.sh")
        (self.library / source.name).write_text(text)
        (self.library / source.name).chmod(0o755)

    def configure(self, **settings: object) -> None:
        self.settings = {"SCRIPT": "weir.qos", **settings}
        if self.form == "debian":
            lines = "".join(f"{name}='{value}'\n" for name, value in self.settings.items())
            (self.folder / f"{self.dev}.iface.conf").write_text(lines)
        else:  # a stand-in for UCI, with one section
            of_section = {UCI_NAMES[name]: value for name, value in self.settings.items()}
            cases = "".join(f"    {name}) echo '{value}' ;;\n" for name, value in of_section.items())
            (self.folder / "uci.sh").write_text(
                f"config_load() {{ :; }}\nconfig_foreach() {{ $1 wan; }}\nconfig_get() {{ case $2 in\n{cases}"
                f"    interface) echo {self.dev} ;;\n    enabled) echo 1 ;;\n    linklayer) echo none ;;\n"
                "    esac; }\n"
            )

    def __call__(self, action: str, **environment: str) -> None:
        environment = {"WEIR_XDP": str(BUILD / "weir-xdp"), **environment}
        if self.form == "debian":
            words = ["sh", self.library / "sqm-bin", action, self.dev]
        elif self.form == "openwrt":
            words = ["sh", self.library / "run-openwrt.sh", action, self.dev]
        else:
            words = ["sh", self.library / "run.sh", action]
            environment |= {name: str(value) for name, value in self.settings.items()}
            environment |= {"IFACE": self.dev, "SQM_LIB_DIR": str(self.library), "SQM_STATE_DIR": str(self.state)}
        done = self.rig.router.run(*words, env=environment, check=False)
        self.log = done.stdout + done.stderr

    def is_active(self) -> bool:
        return (self.state / f"{self.dev}.state").exists()

    def reported(self) -> set[str]:
        """Settings and words that warnings and errors name."""
        return set(re.findall(r"(?:WARNING|ERROR): (?:option |target )?(\S+?)(?:=| )", self.log))
