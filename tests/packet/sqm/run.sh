#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh start|stop|cleanup with IFACE, SCRIPT and the settings in the environment: the part of sqm-scripts' start-sqm and
# stop-sqm that a queue script meets. SQM_STATE_DIR/IFACE.state is there while the script is active.
# shellcheck source=tests/packet/sqm/functions.sh
. "$SQM_LIB_DIR/functions.sh"
# shellcheck source=tests/packet/sqm/defaults.sh
. "$SQM_LIB_DIR/defaults.sh"
state=$SQM_STATE_DIR/$IFACE.state
if [ "$1" != start ]; then
    [ -f "$state" ] || exit 1
    CUR_IFB=$(ifb_of "$IFACE")
fi
# shellcheck source=xdp/openwrt/weir.qos
. "$SQM_LIB_DIR/$SCRIPT"
case $1 in
    start) sqm_start && : >"$state" ;;
    stop) sqm_stop; rm -f "$state" ;;
    cleanup) sqm_cleanup 1; rm -f "$state" ;;
esac
exit 0
