// SPDX-License-Identifier: Apache-2.0
#include <nothing.p4>
#define TWICE(x) x x
#if 1 / 0
#endif
#ifdef OPEN
const bit<8> A = TWICE(1, 2);
#else
const bit<8> A = TWICE(1, 2);
