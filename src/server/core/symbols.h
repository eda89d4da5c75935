/* SPDX-License-Identifier: Apache-2.0 */
/* Names for addresses: the symbolizer and what it takes from (symbols.c). */
#ifndef WICK_SERVER_CORE_SYMBOLS_H
#define WICK_SERVER_CORE_SYMBOLS_H

#include "profile/profile.h"

#include "symbol/uploads.h"

struct server;
/* Opens and closes server->symbolizer and what it takes from. The first before threads are started: it sets
 * environment variables, which a library reads. */
int symbols_open_debuginfod(struct server *server, struct error *err);
int symbols_open(struct server *server, struct error *err);
void symbols_close(struct server *server);
/* Tells the symbolizer which binaries a stored profile has no names of. */
void symbols_note(struct server *server, const struct profile *profile);

/* uploads_options.on_arrival; in debuginfo/. */
void debuginfo_on_arrival(void *context, const char *build_id, enum upload_kind kind);

#endif
