/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool: encoded profiles between the flush that makes them and the connection that takes them. First in, first out,
 * bounded in bytes: when the server is away for longer than the spool lasts, the oldest go, counted. In memory; what is here is
 * lost when the agent ends, after it has tried to send it. Thread-safe.
 */
#ifndef WICK_AGENT_SPOOL_H
#define WICK_AGENT_SPOOL_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

struct spool;
int spool_new(size_t bytes_max, struct spool **ret, struct error *err);
struct spool *spool_free(struct spool *spool);
DEFINE_CLEANUP_POINTER(spool_free, struct spool);
/* Takes the buffer's bytes (the buffer is empty afterwards). -E2BIG when one record is larger than the whole spool: it is
 * counted as dropped. */
int spool_push(struct spool *spool, struct buffer *record, struct error *err);
/* Waits up to timeout_ns for a record and hands over the oldest: 1 and *ret, which the caller releases; 0 on timeout, or at
 * once when the spool is closed and empty. The record counts as open until spool_done(). */
int spool_pop(struct spool *spool, int64_t timeout_ns, struct buffer *ret);
/* The record popped last was delivered, or is put back at the front (false) to be tried again. A record put back is released by
 * the spool. */
void spool_done(struct spool *spool, struct buffer *record, bool delivered);
void spool_close(struct spool *spool); /* no more pushes; wakes the waiter */
bool spool_is_closed(struct spool *spool);
struct spool_stats {
	uint64_t records, bytes, dropped; /* waiting, waiting, dropped since the start */
};
void spool_get_stats(struct spool *spool, struct spool_stats *ret);

#endif
