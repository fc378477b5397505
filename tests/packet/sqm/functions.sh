# shellcheck shell=dash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Functions of sqm-scripts that weir.qos calls or that call it, reduced to their contract: log functions write to standard
# error, $TC and $IP report a failure unless SILENT is 1, sqm_start_default ignores the status of egress and ingress.
sqm_error() { echo "ERROR: $*" >&2; }
sqm_warn() { echo "WARNING: $*" >&2; }
sqm_debug() { :; }

run_it() {
    local output
    output=$("$@" 2>&1) && { SILENT=0; return 0; }
    [ "${SILENT:-0}" = 1 ] || sqm_error "$*: $output"
    SILENT=0
    return 1
}
run_tc() { run_it tc "$@"; }
run_ip() { run_it ip "$@"; }

ifb_of() { printf 'ifb4%s' "$1" | cut -c 1-15; }

sqm_start_default() {
    sqm_prepare_script
    DEV=$(ifb_of "$IFACE")
    $IP link add name "$DEV" type ifb
    if [ "$UPLINK" -ne 0 ]; then egress || true; fi
    if [ "$DOWNLINK" -ne 0 ]; then ingress || true; fi
}
