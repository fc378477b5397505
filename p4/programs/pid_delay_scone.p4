// SPDX-License-Identifier: Apache-2.0
// pid_delay.p4 that also advises QUIC flows of a rate (SCONE) on each port that has an entry in the table `advice`.
#define WEIR_SCONE
#include "pid_delay.p4"
