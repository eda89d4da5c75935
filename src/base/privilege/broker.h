/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small process that stays root, for what a server needs root for after it has become another user: files that only root may
 * read and that are read again (certificates, keys, tokens), and ports below 1024. It opens what was on its list when it began,
 * and hands over descriptors. Essay at the top of broker.c.
 */
#ifndef WICK_BASE_PRIVILEGE_BROKER_H
#define WICK_BASE_PRIVILEGE_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

#define BROKER_PORTS_MAX 4
/* Borrowed for the life of the process. */
struct broker_grants {
	char *const *files; /* that may be read */
	size_t file_count;
	const char *log;		  /* that may be appended to, made, and renamed to LOG.1; NULL = none */
	uint16_t ports[BROKER_PORTS_MAX]; /* TCP; 0 = none */
};
/* Forks it; before there are threads. It ends with this process, and with those that this forks. */
int broker_start(const struct broker_grants *grants, struct error *err);
/* Any thread. The log for appending, made with mode 0600 if it is missing: a descriptor; -EACCES if there is no broker, or it
 * has another log. */
int broker_append(const char *path);
/* Renames it to PATH.1; 0. */
int broker_rotate(const char *path);
/* Any thread. A TCP socket that is bound to the address, with SO_REUSEADDR; or a negative errno: -EACCES if
 * there is no broker, or the port is not on its list. Files are opened by io_read_file() and io_stat() (base/io.h). */
int broker_bind(const struct sockaddr *address, size_t size);

#endif
