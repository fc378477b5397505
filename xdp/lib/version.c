/* SPDX-License-Identifier: Apache-2.0 */
#include "version.h"

#ifdef WEIR_BUILD
const char weir_version[] = WEIR_BUILD;
#else
const char weir_version[] = WEIR_VERSION;
#endif
