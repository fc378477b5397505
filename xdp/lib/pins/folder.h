/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that strangers must not write to: the pins and the locks. They belong to root, to the caller, or to a user to
 * whom root gave one (that of a service).
 */
#ifndef WEIR_FOLDER_H
#define WEIR_FOLDER_H

/* Makes it, with mode 0700, where there is none. 0 or -1 after one line. */
int weir_folder_make(const char *path);

/* 0, or -1 after one line: pins can be there, in a BPF file system. */
int weir_pins_check(const char *pins);

/* 0, also where there is none or it can't be seen; -1 after one line if others could have made it or can write there.
 */
int weir_folder_check(const char *path);

/* Pins a map, a program or a link, for the owner of the folder. 0, or -1 with errno. */
int weir_pin(int fd, const char *pin);

/* Gives a file or folder that root has made in such a folder to the folder's owner, who has to read it as well. */
void weir_folder_give(const char *path);

#endif /* WEIR_FOLDER_H */
