// SPDX-License-Identifier: Apache-2.0
#define V1MODEL_VERSION 20000101
#include <v1model.p4>
