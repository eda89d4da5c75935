/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marker batches that agents send continuously: each has one host's markers of a minute or less, as a file in a directory
 * beside the requested recordings (recordings.h), whose space they never take. One struct per tenant. It knows nothing of HTTP,
 * and callers pass the time. Thread-safe.
 */
#ifndef WICK_SERVER_STORES_MARKER_BATCHES_H
#define WICK_SERVER_STORES_MARKER_BATCHES_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "control/protocol.h"
#include "server/stores/recordings.h"

/* LIMITs: batches that are kept, the longest time range of one, and how long before it what ends in it may have begun. */
#define MARKER_BATCHES_MAX    50000
#define MARKER_BATCH_NS_MAX   RECORDING_DURATION_MAX_NS
#define MARKER_BATCH_REACH_NS (366 * 24 * 3600 * 1000000000ll)

struct marker_batches;
/* options: those of the requested recordings, with a directory of their own. bytes_max is of these and requested recordings
 * together; these have half of it at most. Reads the directory. Incomplete files get the ending ".torn" and are skipped. */
int marker_batches_open(const struct recordings_options *options, int64_t now_ns, struct marker_batches **ret,
			struct error *err);
struct marker_batches *marker_batches_close(struct marker_batches *batches); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(marker_batches_close, struct marker_batches);

struct marker_batch {
	char host[CONTROL_HOST_SIZE];
	int64_t from_ns, to_ns;	     /* by the host's clock, which names it */
	int64_t first_ns;	     /* by the host's clock: the first beginning of what ended in it, or from_ns */
	struct host_clock clock;     /* of the host */
	uint64_t bytes, plain_bytes; /* on disk, and unpacked */
};
/* What the server's clock showed when the host's showed host_ns. */
int64_t marker_batch_time(const struct marker_batch *batch, int64_t host_ns);

/* Stores a batch, gzip of one member, which is checked. Of `batch` it takes host, from_ns, to_ns, first_ns and clock. On disk,
 * synced, when it returns 0; the oldest are evicted for it. others: bytes that requested recordings take. -EINVAL the times are
 * inconsistent; -EEXIST it exists already; -EAGAIN it is being written; -EBADMSG no gzip, or torn; -E2BIG; -ENOSPC more than
 * all may take, or a full disk. */
int marker_batches_put(struct marker_batches *batches, const struct marker_batch *batch, struct bytes gzip, uint64_t others,
		       int64_t now_ns, struct error *err);
/* Those of which something may lie in from_ns..to_ns (the server's clock), the one that ended last first. *ret from
 * mem_alloc(). */
int marker_batches_find(struct marker_batches *batches, int64_t from_ns, int64_t to_ns, struct marker_batch **ret,
			size_t *ret_count, struct error *err);
/* The file as it was put, checked. -ENOENT: it had to make room meanwhile; -EBADMSG: torn, and set aside. */
int marker_batches_read(struct marker_batches *batches, const struct marker_batch *batch, struct buffer *ret,
			struct error *err);
/* Removes those that are too old, or have no room beside `others`. */
void marker_batches_make_room(struct marker_batches *batches, uint64_t others, int64_t now_ns);
/* All of them. */
void marker_batches_remove(struct marker_batches *batches);

struct marker_batches_stats {
	uint64_t batches, bytes, bytes_max;			   /* now */
	uint64_t received, refused, evicted, torn, bytes_received; /* since the start */
};
void marker_batches_get_stats(struct marker_batches *batches, struct marker_batches_stats *ret);

#endif
