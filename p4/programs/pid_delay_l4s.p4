// SPDX-License-Identifier: Apache-2.0
// pid_delay.p4 with two coupled bands for L4S (docs/design/coupled.md) on each port that has an entry in the table
// `coupling`. The switch needs two queues a port: `--priority-queues 2`.
#define WEIR_L4S
#include "pid_delay.p4"
