/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers that agents send all the time: windows, each one host's markers of a minute or less, as files in a directory beside
 * the ordered recordings (recordings.h), which they never cost any room. One struct a tenant. It knows nothing of HTTP, and of
 * time only what it is told. Thread-safe.
 */
#ifndef WICK_SERVER_STORES_WINDOWS_H
#define WICK_SERVER_STORES_WINDOWS_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "control/orders.h"
#include "server/stores/recordings.h"

/* LIMITs: windows that are kept, how long one may be, and how long before it what ends in it may have begun. */
#define WINDOWS_MAX	50000
#define WINDOW_NS_MAX	ORDERS_DURATION_MAX_NS
#define WINDOW_REACH_NS (366 * 24 * 3600 * 1000000000ll)

struct windows;
/* options: those of the ordered recordings, with a directory of their own. bytes_max is of these and ordered recordings
 * together; these have half of it at most. Reads what is there. Files that are not whole get the ending ".torn" and are left
 * out. */
int windows_open(const struct recordings_options *options, int64_t now_ns, struct windows **ret, struct error *err);
struct windows *windows_close(struct windows *windows); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(windows_close, struct windows);

struct window {
	char host[ORDERS_HOST_SIZE];
	int64_t from_ns, to_ns;	     /* by the host's clock, which names it */
	int64_t first_ns;	     /* by the host's clock: the first beginning of what ended in it, or from_ns */
	struct orders_clock clock;   /* of the host */
	uint64_t bytes, plain_bytes; /* on disk, and unpacked */
};
/* What the server's clock showed when the host's showed host_ns. */
int64_t window_time(const struct window *window, int64_t host_ns);

/* A window, gzip of one member, which is checked. host, from_ns, to_ns, first_ns and clock of `window` count. On disk, synced,
 * when it returns 0; the oldest go for it. others: bytes that ordered recordings take. -EINVAL the times make no sense; -EEXIST
 * it is there already; -EAGAIN it is being written; -EBADMSG no gzip, or torn; -E2BIG; -ENOSPC more than all may take, or a
 * full disk. */
int windows_put(struct windows *windows, const struct window *window, struct bytes gzip, uint64_t others, int64_t now_ns,
		struct error *err);
/* Those of which something may lie in from_ns..to_ns (the server's clock), the one that ended last first. *ret from
 * mem_alloc(). */
int windows_find(struct windows *windows, int64_t from_ns, int64_t to_ns, struct window **ret, size_t *ret_count,
		 struct error *err);
/* The file as it was put, checked. -ENOENT: it had to make room meanwhile; -EBADMSG: torn, and set aside. */
int windows_read(struct windows *windows, const struct window *window, struct buffer *ret, struct error *err);
/* Removes those that are too old, or have no room beside `others`. */
void windows_make_room(struct windows *windows, uint64_t others, int64_t now_ns);
/* All of them. */
void windows_remove(struct windows *windows);

struct windows_stats {
	uint64_t windows, bytes, bytes_max;			   /* now */
	uint64_t received, refused, evicted, torn, bytes_received; /* since the start */
};
void windows_get_stats(struct windows *windows, struct windows_stats *ret);

#endif
