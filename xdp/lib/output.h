/* SPDX-License-Identifier: Apache-2.0 */
/* Files for output, where another user may have put a link, a pipe or a file of that name. */
#ifndef WEIR_OUTPUT_H
#define WEIR_OUTPUT_H

#include <limits.h>
#include <stdio.h>

#define WEIR_DRAFT_LEN (PATH_MAX + sizeof(".part"))

/*
 * Opens a file for writing from its beginning. In a folder of root or of the caller, to which others can't write, as
 * fopen does; elsewhere it has to be a new file or a file of the caller with one name (CWE-59). NULL with errno.
 */
FILE *weir_output_open(const char *path);

/*
 * Makes the file PATH.part anew, for rename() to take the place of `path`. `draft` gets its name. Everybody may read
 * it. NULL with errno.
 */
FILE *weir_draft_open(const char *path, char draft[WEIR_DRAFT_LEN]);

/* Standard output that is closed fails to write, and no file gets its number. For the begin of a program. */
void weir_output_begin(void);
/* The exit status of a program with its output: where that could not be written, a line, and 1 instead of 0. */
int weir_output_end(int status);

#endif /* WEIR_OUTPUT_H */
