# SPDX-License-Identifier: Apache-2.0
"""A subscriber whose QUIC connection to its publisher is carried by name, as the data is: no IP is on the link."""

import json
import random
import signal
import subprocess
from pathlib import Path

import names_rig
import quic_rig
from names_rig import ICN, LISTEN, converters, said

NAME = "/weir/files"
FILE = random.Random(3).randbytes(500_000)


def test_a_file_comes_and_its_manifest_and_keys_came_over_names(link: names_rig.Link, tmp_path: Path):
    client, server = link
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "film").write_bytes(FILE)
    state, output = tmp_path / "state", tmp_path / "film"
    words = ["publish", tmp_path / "files", "--name", NAME, "--interface", "is", "--listen", LISTEN]
    publisher = server.start(ICN, *words, "--state-dir", state, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert said(publisher, "listening") == LISTEN
        key = said(publisher, "publisher")
        with converters(link, LISTEN) as (port, reports):
            asked = ["--from", f"127.0.0.1:{port}", "--ca", state / "weir-server-ca.pem", "--publisher", key]
            words = ["get", f"{NAME}/film", *asked, "--interface", "ic", "--output", output, "--json"]
            done = names_rig.run(client, ICN, *words)
        assert (done.returncode, done.stderr) == (0, b"")
        assert output.read_bytes() == FILE
        assert json.loads(done.stdout)["group"]["lost"] == 0
        # Without the group's key nothing can be opened, so the key came by this one session.
        assert [report["sessions_opened"] for report in reports] == [1, 1]
        assert all(report["datagrams_given"] > 0 for report in reports)
        publisher.send_signal(signal.SIGINT)
        report = json.loads(publisher.communicate(timeout=quic_rig.PATIENCE_S)[0])
        assert report["publisher"]["data"] > len(FILE) // 1440
    finally:
        publisher.kill()
        publisher.wait()
