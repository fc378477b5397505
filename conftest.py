# SPDX-License-Identifier: Apache-2.0
"""Tiers of the tests, marks, the order of a run, and the counts at its end.

Tests have no time limit on a single example, which only a busy machine would exceed. Tests that take the fixture
`exact` run in the exact lab and get the mark `lab`, so that `./run check` can leave them out. Files that take longest
come first: otherwise one worker would be alone at the end of a run.
"""

import collections
import functools
import os
import re
from collections.abc import Iterable

import pytest
from hypothesis import settings

settings.register_profile("weir", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)  # of ./run check
settings.register_profile("fuzz", deadline=None, max_examples=300)  # of ./run fuzz, again and again
settings.load_profile("weir")

TIERS = ("default", "long", "release")
"""`./run test`, `./run test --long`, `./run test --release`. A run includes the tiers before its own."""

TABLE = (
    # Packages, and all that is built from them.
    ("release", "tests/package/"),
    # Attacks and faults: floods, malformed input, full disks.
    ("long", "tests/hostile/"),
    ("default", "tests/hostile/test_clocks.py"),
    ("default", "tests/hostile/test_server_rights.py"),
    ("default", "tests/hostile/test_switch_rights.py"),
    ("long", "mininet/tests/bench/test_bench_hostile.py::test_who_stops_it"),
    ("long", "mininet/tests/evaluation/test_evaluate.py::test_(damage_in|a_disk_that|a_cluster_gives)"),
    ("long", "tests/lab/test_flood_lab.py"),
    ("long", "tests/packet/test_names_attacks.py"),
    ("long", "tests/packet/test_names_loops.py"),
    ("long", "tests/packet/test_names_objects.py::test_one_address_takes_a_part"),
    ("long", "tests/packet/test_p4_service.py"),
    ("long", "tests/quic/test_malformed_http3.py"),
    # Processes killed at any moment, and commands that race.
    ("long", "mininet/tests/evaluation/test_evaluate.py::test_killed"),
    ("long", "tests/lab/test_(runs|p4_switch).py::test_a_stopped_experiment"),
    ("long", "tests/lab/test_campus_runs.py::test_what_is_killed"),
    ("long", "tests/packet/test_controller_faults.py"),
    ("long", "tests/packet/test_p4_robustness.py::test_(a_controller_that_dies|strangers)"),
    ("long", "tests/packet/test_xdp_.*kill"),
    ("long", "tests/lab/test_leaf_lab.py::test_killed"),
    ("long", "tests/packet/test_xdp_ensure.py::test_no_packet_passes_the_law_by"),
    ("long", "tests/packet/test_xdp_loader.py::test_(a_set_cut_short|attach_and_detach_at_the_same_time)"),
    # Mobility.
    ("long", "tests/lab/test_access_runs.py::test_a_(path_that_dies|policy_sends)"),
    ("long", "tests/lab/test_aggregate_lab.py"),
    ("long", "tests/lab/test_edge_runs.py::test_a_receiver_that_moves"),
    ("long", "tests/packet/test_names_moving.py"),
    ("long", "tests/quic/test_proxy_moves.py::test_(a_browser|.*(carrier|address|vanishes))"),
    # The Python module, which the set-up of the default tier does not build.
    ("long", "tests/quic/test_(early_data|python_module).py"),
    # Programs of other projects.
    ("long", r"tests/quic/.*\[[^]]*(aioquic|quic-go|quiche)"),
    ("long", "tests/quic/test_(connection_ids|names_gets|server_clients|server_table).py"),
    ("long", r"tests/quic/test_ecn.py::test_(a_server_without|.*\[(quinn|mark-all|ect1|bleach-later))"),
    ("long", "tests/lab/test_senders_lab.py::.*noq"),
    ("long", "tests/quic/test_stacks.py"),
    ("default", r"tests/quic/test_stacks.py::.*\[(weir-server|aioquic)\]"),
    ("long", "mininet/tests/bench/test_bench_servers.py::test_a_server_in_the_lab"),
    # Runs of the lab that differ from one of the default tier in the kind of flow, link or data plane.
    ("long", "tests/lab/test_dumbbell_scenarios.py::test_(the_tuner_.*p4|one_packet_in_some)"),
    ("long", "tests/lab/test_edge_runs.py::test_(a_broadcast_segment|on_one_segment|what_one_receiver)"),
    ("long", "tests/lab/test_coupled_lab.py::test_(classic_flows|quic_with_prague|scalable_packets)"),
    ("long", "tests/lab/test_(advice|both_ways|rate)_lab.py"),
    ("long", "tests/lab/test_links_and_pacing_lab.py::test_the_rate_follows"),
    ("long", "tests/lab/test_runs.py::test_other_kinds_of_flow.*tcp"),
    ("long", "tests/lab/test_senders_lab.py::test_(congestion_controls_.*all|quic_flows_of|short_transfers_of)"),
    # The same loss of pins at other hooks, and by an unmounted file system.
    ("long", r"tests/packet/test_xdp_pins.py::.*\[.*(mount|bands|poll|clsact)"),
    ("default", r"tests/packet/test_xdp_pins.py::test_ensure_brings.*clsact-mount"),
    # The same packets, framings and set-ups at another program, line or direction.
    ("long", r"tests/packet/test_xdp_bad_input.py::.*\[(bands1|bands-|tc-|changing|hash|other1|.*pfifo)"),
    ("long", r"tests/packet/test_xdp_advise.py::.*\[(veth|virtual-tc|poll)"),
    ("long", r"tests/packet/test_p4_advise.py::test_(?!scone_packets.*-ipv[46]\])"),
    ("long", r"tests/quic/test_scone.py::test_(?!a_download_follows.*(segments-weir|weir-segments)|scone)"),
    ("long", r"tests/packet/test_p4_bands.py::test_l_is_marked.*(-0-0-0-|ipv4)"),
    ("long", r"tests/packet/test_p4_flow_bands.py::test_(?!a_flood|deploy).*-edge"),
    ("long", r"tests/packet/test_p4_differential.py::test_two_targets.*-[34]\]"),
    ("long", "tests/packet/test_xdp_daemon_many.py"),
    ("long", "tests/packet/test_xdp_hosts.py::test_a_host_with_one"),
    ("long", "tests/packet/test_xdp_coupled_poll.py::test_(marks|overload|the_shaper)"),
    ("long", "tests/packet/test_bench_xdp.py::test_(laws_of|a_shaper)"),
    ("long", "tests/packet/test_names_edge.py::test_(a_line_that_would|who_leaves)"),
    ("long", "tests/packet/test_names_rekeying.py::test_members_that_come"),
    ("long", "tests/packet/test_p4_aqm.py::test_flows_are_told"),
    ("long", "tests/packet/test_rate_shaper.py::test_an_address_of_the_other_family"),
    ("long", r"tests/packet/test_names_converter.py::test_an_opening_in.*\[1000\]"),
    ("long", r"tests/packet/test_xdp_framing.py::test_the_shaper_counts_frames\[(?!all|nothing)"),
    ("long", r"tests/packet/test_xdp_(pins.py::test_ensure_brings.*xdp|records.py::test_hosts.*bands)"),
    ("long", r"tests/packet/test_sqm_scripts.py::test_(an_in.*(another|gone)|sett.*_wi|.*(clsact|IQDISC|UPL|5000))"),
    # Repeatability; pages of a kind that another test has drawn.
    ("long", "mininet/tests/.*test_(the_same_(results|rows)_give|part_of_a)"),
    ("long", "mininet/tests/topologies/.*test_each_of_our_scenarios_has_a_report"),
    ("long", "mininet/tests/topologies/.*test_a_page_fits.*voice-game"),
    ("long", "mininet/tests/evaluation/test_(controls|envelope).py::test_a_small_.*_in_the_lab"),
    ("long", "mininet/tests/evaluation/test_own_stack_lab.py"),
    ("release", "mininet/tests/evaluation/test_own_stack_lab.py::test_a_type_in_rust"),
    ("long", "mininet/tests/(lab/test_controller_fork|evaluation/test_evaluate.py::test_a_run_that_fails_holds)"),
    ("long", "tests/lab/(?!.*noq).*repeat"),
    ("long", "tests/lab/test_experiment_cache.py"),
    ("long", "tests/lab/test_(campus_runs.py::test_everything_is_at_work|first_look.py::test_a_run_that_the_kernel)"),
    ("long", "tests/lab/test_installations.py"),
    # Checks of what pages say that take more than a few seconds.
    ("long", "tests/lab/test_links_and_pacing_lab.py::test_beside_a_flood"),
    ("long", r"tests/docs/test_page_commands.py::test_the_commands_of_a_page.*p4-switch"),
    ("long", "mininet/tests/evaluation/test_committed_pages.py::test_a_page_fits"),
    # Other releases: of Linux, Debian and Python.
    ("long", "mininet/tests/lab/test_lab_kernel.py::test_(dualpi2|a_line_for_tc|ends_of_the_ranges)"),
    ("long", "tests/setup/test_other_release.py"),
    ("long", "tests/packet/test_xdp_qdisc.py::test_(?!a_kernel_without|options_of)"),
    # Published vulnerabilities of packages, where their databases can be reached.
    ("long", "tests/setup/test_dependencies.py"),
    # Training, where PyTorch is (setup/test.sh).
    ("long", "train/tests/test_torch_"),
)
"""Tier of a test: that of the last row whose regular expression matches the beginning of the test's id; `default` if no
row matches. tests/structure/test_tiers.py checks that each row decides the tier of a test."""

BUSY = ("tests/lab/", "tests/package/", "mininet/tests/evaluation/", "mininet/tests/")
"""Folders whose files keep processors busy, those that take minutes first. Files of the others wait for packets and
servers most of their time."""
WAITING = ("tests/hostile/", "tests/packet/", "tests/quic/", "tests/setup/", "tests/docs/", "controller/")
"""Of the others, those that take longest."""


@functools.cache
def _rows() -> list[tuple[str, re.Pattern[str]]]:
    return [(tier, re.compile(pattern)) for tier, pattern in reversed(TABLE)]


def row_of(test: str) -> int | None:
    """Place in TABLE of the row that decides the tier of a test."""
    for place, (_, pattern) in enumerate(_rows()):
        if pattern.match(test):
            return len(TABLE) - 1 - place
    return None


def tier_of(test: str) -> str:
    """Tier of a test, by its id."""
    place = row_of(test)
    return TIERS[0] if place is None else TABLE[place][0]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("weir")
    group.addoption("--tier", choices=TIERS, help="tests of this tier and those before it")
    for tier in TIERS[1:]:
        group.addoption(f"--{tier}", dest="tier", action="store_const", const=tier, help=f"the same as --tier {tier}")


def tier_of_run(config: pytest.Config) -> str | None:
    """The tier that a run was started for. Files and tests named on the command line run whatever their tier: None."""
    if config.option.tier is None and config.args_source is not pytest.Config.ArgsSource.ARGS:
        return TIERS[0]
    return config.option.tier


def pytest_configure(config: pytest.Config) -> None:
    os.environ["WEIR_TEST_TIER"] = tier_of_run(config) or TIERS[0]


def _place(folders: tuple[str, ...], file: str) -> int:
    return next((place for place, folder in enumerate(folders) if file.startswith(folder)), len(folders))


def order_of(files: Iterable[str]) -> list[str]:
    """Order of a run's files: busy ones among the first two thirds of those that wait, so that at any time some workers
    compute while others wait; the longest of each kind first."""
    files = list(dict.fromkeys(files))
    busy = sorted((file for file in files if file.startswith(BUSY)), key=lambda file: _place(BUSY, file))
    waiting = sorted((file for file in files if not file.startswith(BUSY)), key=lambda file: _place(WAITING, file))
    apart = 2 / 3 * len(waiting) / max(len(busy), 1)
    places = [(number * apart, file) for number, file in enumerate(busy)]
    places += [(number + 0.5, file) for number, file in enumerate(waiting)]
    return [file for _, file in sorted(places)]


COLLECTED = pytest.StashKey[list[str]]()
NOT_IN_TIER = pytest.StashKey[dict[str, int]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "exact" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)
    config.stash[COLLECTED] = [item.nodeid for item in items]
    chosen = tier_of_run(config)
    later = TIERS[TIERS.index(chosen) + 1 :] if chosen else ()
    left_out = [item for item in items if tier_of(item.nodeid) in later]
    if left_out:
        items[:] = [item for item in items if tier_of(item.nodeid) not in later]
        config.hook.pytest_deselected(items=left_out)
    counts = dict(collections.Counter(tier_of(item.nodeid) for item in left_out))
    config.stash[NOT_IN_TIER] = counts
    if hasattr(config, "workeroutput"):  # a worker of xdist
        config.workeroutput["not_in_tier"] = counts
    files = [item.nodeid.partition("::")[0] for item in items]
    places = {file: place for place, file in enumerate(order_of(files))}
    items.sort(key=lambda item: places[item.nodeid.partition("::")[0]])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """A worker of xdist ended. Each has collected all tests."""
    counts = getattr(node, "workeroutput", {}).get("not_in_tier")
    if counts is not None:
        node.config.stash[NOT_IN_TIER] = counts  # type: ignore[attr-defined]


def skips_by_reason(reports: Iterable[object]) -> list[tuple[str, int]]:
    """Reasons for which tests were skipped, the most frequent first. A file that is skipped whole counts as one."""
    reasons = (getattr(report, "longrepr", None) for report in reports)
    found = collections.Counter(reason[2].removeprefix("Skipped: ") for reason in reasons if isinstance(reason, tuple))
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """The tests that did not run, by tier and by reason, before pytest's own closing line."""
    chosen = tier_of_run(config)
    lines = [
        f"{tier} tier, not part of this run (./run test --{tier}): {count} tests"
        for tier, count in config.stash.get(NOT_IN_TIER, {}).items()
    ]
    for reason, count in skips_by_reason(terminalreporter.stats.get("skipped", ())):
        lines.append(f"{reason}: {count} {'test' if count == 1 else 'tests'} skipped")
    if chosen or lines:
        terminalreporter.section(f"{chosen} tier" if chosen else "tests named on the command line")
    for line in lines:
        terminalreporter.line(line)
