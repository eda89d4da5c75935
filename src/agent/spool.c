/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/spool.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/alloc.h"
#include "base/time.h"

struct spool_record {
	struct spool_record *next;
	struct buffer bytes;
};

struct spool {
	pthread_mutex_t lock;
	pthread_cond_t arrived;
	struct spool_record *first, *last;
	size_t bytes_max;
	struct spool_stats stats;
	bool closed;
};

int spool_new(size_t bytes_max, struct spool **ret, struct error *err)
{
	struct spool *spool = mem_zalloc(sizeof(*spool));
	if (!spool)
		return error_nomem(err);
	spool->bytes_max = bytes_max;
	pthread_mutex_init(&spool->lock, NULL);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* waits must not end early or late when the clock is set */
	pthread_cond_init(&spool->arrived, &attributes);
	pthread_condattr_destroy(&attributes);
	*ret = spool;
	return 0;
}

static void record_free(struct spool_record *record)
{
	buffer_release(&record->bytes);
	mem_free(record);
}

/* With the lock held: takes the oldest record off the list. */
static struct spool_record *take_first(struct spool *spool)
{
	struct spool_record *record = spool->first;
	if (!record)
		return NULL;
	spool->first = record->next;
	if (!spool->first)
		spool->last = NULL;
	spool->stats.records--;
	spool->stats.bytes -= record->bytes.len;
	return record;
}

struct spool *spool_free(struct spool *spool)
{
	if (!spool)
		return NULL;
	for (struct spool_record *record; (record = take_first(spool));)
		record_free(record);
	pthread_cond_destroy(&spool->arrived);
	pthread_mutex_destroy(&spool->lock);
	return mem_free(spool);
}

static void drop_oldest(struct spool *spool, size_t needed)
{
	while (spool->first && spool->stats.bytes + needed > spool->bytes_max) {
		record_free(take_first(spool));
		spool->stats.dropped++;
	}
}

int spool_push(struct spool *spool, struct buffer *record, struct error *err)
{
	struct spool_record *entry = mem_zalloc(sizeof(*entry));
	pthread_mutex_lock(&spool->lock);
	int r = !entry ? -ENOMEM : spool->closed ? -EPIPE : record->len > spool->bytes_max ? -E2BIG : 0;
	if (r) {
		spool->stats.dropped++;
		pthread_mutex_unlock(&spool->lock);
		mem_free(entry);
		return error_set_errno(err, r, "a profile of %zu bytes was dropped", record->len);
	}
	drop_oldest(spool, record->len);
	entry->bytes = *record;
	buffer_init(record, record->max);
	if (spool->last)
		spool->last->next = entry;
	else
		spool->first = entry;
	spool->last = entry;
	spool->stats.records++;
	spool->stats.bytes += entry->bytes.len;
	pthread_cond_signal(&spool->arrived);
	pthread_mutex_unlock(&spool->lock);
	return 0;
}

int spool_pop(struct spool *spool, int64_t timeout_ns, struct buffer *ret)
{
	int64_t deadline_ns = time_monotonic_ns() + timeout_ns;
	struct timespec deadline = {.tv_sec = deadline_ns / NS_PER_S, .tv_nsec = deadline_ns % NS_PER_S};
	pthread_mutex_lock(&spool->lock);
	while (!spool->first && !spool->closed)
		if (pthread_cond_timedwait(&spool->arrived, &spool->lock, &deadline))
			break;
	struct spool_record *record = take_first(spool);
	pthread_mutex_unlock(&spool->lock);
	if (!record)
		return 0;
	*ret = record->bytes;
	mem_free(record);
	return 1;
}

void spool_done(struct spool *spool, struct buffer *record, bool delivered)
{
	struct spool_record *entry = delivered ? NULL : mem_zalloc(sizeof(*entry));
	if (!entry)
		buffer_release(record);
	pthread_mutex_lock(&spool->lock);
	if (!delivered && (!entry || spool->stats.bytes + record->len > spool->bytes_max)) {
		spool->stats.dropped++; /* newer ones have taken its place */
		if (entry)
			buffer_release(record);
		entry = mem_free(entry);
	}
	if (entry) {
		entry->bytes = *record;
		entry->next = spool->first;
		spool->first = entry;
		if (!spool->last)
			spool->last = entry;
		spool->stats.records++;
		spool->stats.bytes += entry->bytes.len;
	}
	pthread_mutex_unlock(&spool->lock);
}

void spool_close(struct spool *spool)
{
	pthread_mutex_lock(&spool->lock);
	spool->closed = true;
	pthread_cond_broadcast(&spool->arrived);
	pthread_mutex_unlock(&spool->lock);
}

bool spool_is_closed(struct spool *spool)
{
	pthread_mutex_lock(&spool->lock);
	bool closed = spool->closed;
	pthread_mutex_unlock(&spool->lock);
	return closed;
}

void spool_get_stats(struct spool *spool, struct spool_stats *ret)
{
	pthread_mutex_lock(&spool->lock);
	*ret = spool->stats;
	pthread_mutex_unlock(&spool->lock);
}
