/* SPDX-License-Identifier: Apache-2.0 */
/* Report of `status` on an attachment, and of `attach` on a new one. */
#ifndef WEIR_XDP_REPORT_H
#define WEIR_XDP_REPORT_H

#include "weir-xdp/request.h"

/*
 * Prints it, as text or JSON; dev: as asked for, or NULL. *printed: how many documents have been printed into the same
 * list before, to which are added those that are now: one, or one for each class that has a law. 0, or -1 after one
 * line.
 */
int print_status(const struct request *r, const char *dev, const char *path, unsigned int *printed);

/* One line on standard error if something keeps packets from the law. */
void warn_of_bypass(const struct request *r, const char *path);

#endif /* WEIR_XDP_REPORT_H */
