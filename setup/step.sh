# SPDX-License-Identifier: Apache-2.0
# Common part of lint.sh, check.sh and test.sh; sourced by them.
# shellcheck shell=bash

# Folder of each Rust workspace, and the folder below build/ that its artefacts are in.
# shellcheck disable=SC2034  # the scripts that source this use it
RUST_WORKSPACES="quic-client:cargo quic-client/bench:cargo quic-client/bench/stacks:cargo quic-client/python:cargo p4/switch:cargo-p4 mininet/peers/noq:cargo-peers"
# Those with tests. The others are programs to measure and test with, which set-up builds.
# shellcheck disable=SC2034
RUST_TESTED="quic-client:cargo p4/switch:cargo-p4"

step() { printf '\n== %s\n' "$*"; }
