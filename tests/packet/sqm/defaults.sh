# shellcheck shell=dash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Settings that sqm-scripts hands to a queue script, at their defaults. start.sh and weir.qos source this file.
: "${UPLINK:=0}" "${DOWNLINK:=0}" "${QDISC:=fq_codel}"
: "${LINKLAYER:=none}" "${OVERHEAD:=0}" "${STAB_MPU:=0}"
: "${ELIMIT:=}" "${ILIMIT:=}" "${ETARGET:=}" "${ITARGET:=}" "${EECN:=ECN}" "${IECN:=ECN}"
: "${EQDISC_OPTS:=}" "${IQDISC_OPTS:=}"
: "${ESHAPER_BURST_DUR_US:=1000}" "${ISHAPER_BURST_DUR_US:=1000}"
TC_BINARY=$(command -v tc)
TC=run_tc
IP=run_ip
