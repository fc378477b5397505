/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

#define WEIR_VERSION "0.12.0" /* the newest of CHANGELOG.md; tests/structure/test_versions.py holds it */

/* Version, with the commit of the sources where the build names it. */
extern const char weir_version[];

#endif /* WEIR_VERSION_H */
