// SPDX-License-Identifier: Apache-2.0
// The program is in programs/; this file keeps its short name.
#include "programs/pid_delay.p4"
