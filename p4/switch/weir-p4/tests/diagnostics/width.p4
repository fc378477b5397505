// SPDX-License-Identifier: Apache-2.0
header a_t { bit<4096> x; }
const bit<8> c = 9q1;
const bit<0> d = 0;
