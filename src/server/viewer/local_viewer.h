/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local viewer: a small server for one profile, for the user who opened it on this machine and for nobody else.
 *
 *   /TOKEN/                 a page that shows it
 *   /TOKEN/profile.json     the profile as Firefox Profiler reads it
 *   /TOKEN/symbolicate/v5   names of addresses: the API of Mozilla's symbol server (Tecken)
 *   /TOKEN/source/v1        the text of a source file  } as samply's symbol server
 *   /TOKEN/asm/v1           the code of a function     } has them (its API.md)
 *   /once/TOKEN             leads to one of the links, the first time that it is asked for
 *
 * Firefox Profiler is a page of another site, https://profiler.firefox.com, which asks this server from within the browser:
 * the profile does not leave the machine. Who else could ask, and what keeps them out:
 *
 *   - other machines: it listens on loopback only;
 *   - other users of this machine, who may connect: the token, 128 random bits that are new each time. The command line of a
 *     program that is started to open a link can be read by all of them, so what stands there is good for one request;
 *   - other sites' pages: a request with an Origin must come from Firefox Profiler or from here, and only these may read the
 *     response (CORS);
 *   - sites whose name begins to mean 127.0.0.1 after their page was loaded (DNS rebinding): the Host header must be this
 *     server's own address.
 *
 * Only what belongs to the profile can be requested: binaries are those that it maps, by the ids that it gives them; a
 * source file must be named by the debug information of the address that is given with it. Files are opened with the rights of
 * who runs this.
 */
#ifndef WICK_SERVER_VIEWER_LOCAL_VIEWER_H
#define WICK_SERVER_VIEWER_LOCAL_VIEWER_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

struct profile;
struct symbolizer;

struct local_viewer;
/* All borrowed until local_viewer_free(). */
struct local_viewer_options {
	const char *listen; /* "127.0.0.1:PORT" or "[::1]:PORT"; NULL = any port of 127.0.0.1 */
	const struct profile *profile;
	struct bytes page; /* HTML */
	struct symbolizer *symbolizer;
};
/* Whether that is an address of loopback, for checks before long work. NULL allowed. -EINVAL. */
int local_viewer_check_listen(const char *listen, struct error *err);
/* Writes the profile in Firefox Profiler's format and listens. -EINVAL: not an address of loopback. */
int local_viewer_new(const struct local_viewer_options *options, struct local_viewer **ret, struct error *err);
/* These live as long as it. */
const char *local_viewer_page_link(const struct local_viewer *viewer);
const char *local_viewer_profiler_link(const struct local_viewer *viewer);
/* Makes a link that leads to one of those, once. Before local_viewer_run(). */
const char *local_viewer_link_once(struct local_viewer *viewer, const char *link);
int local_viewer_run(struct local_viewer *viewer, struct error *err); /* until local_viewer_stop() */
void local_viewer_stop(void *viewer);				      /* from any thread; async-signal-safe */
struct local_viewer *local_viewer_free(struct local_viewer *viewer);
DEFINE_CLEANUP_POINTER(local_viewer_free, struct local_viewer);

#endif
