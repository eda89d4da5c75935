/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readiness: whether a profile that came now could be stored. A load balancer or an operator must learn that before clients do.
 *
 * Two questions. The stores say whether they have given up (a sync of the log failed), or are full and cannot write: that is
 * looked at. Whether the disk takes anything is tried: a small file is written, synced and removed in the data directory.
 * Trying costs a sync, and everybody may ask, so there is a try a second at most, and others get the last result. A disk that
 * hangs holds up one asker; whoever asks after SLOW_NS of it is told that.
 *
 * What is told names no path: whoever may ask need not be somebody. The log has the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "server/core/server_int.h"

#define PROBE_FILE  "ready.tmp"
#define PROBE_BYTES (64 * KIB) /* what an upload takes in the log, or more */
#define BETWEEN_NS  NS_PER_S
#define SLOW_NS	    (5 * NS_PER_S)
#define PROBE_BYTE  0x57 /* not zeros, which a file system may not have to store */

struct readiness {
	pthread_mutex_t lock;
	char path[PATH_BYTES_MAX];
	bool is_trying;
	int64_t began_ns, tried_ns; /* monotonic; 0 = not yet */
	int result;
	char why[128];
};

int readiness_open(struct server *server, struct error *err)
{
	struct readiness *ready = mem_zalloc(sizeof(*ready));
	if (!ready)
		return error_nomem(err);
	pthread_mutex_init(&ready->lock, NULL);
	server->readiness = ready;
	int r = io_join_path(ready->path, sizeof(ready->path), server->data_directory, PROBE_FILE);
	return r < 0 ? error_set(err, r, "the data directory's path is too long") : 0;
}

void readiness_close(struct server *server)
{
	if (server->readiness)
		pthread_mutex_destroy(&server->readiness->lock);
	server->readiness = mem_free(server->readiness);
}

/* ---- the disk ---- */

static int try_to_write(const char *path)
{
	uint8_t *data = mem_alloc(PROBE_BYTES);
	if (!data)
		return -ENOMEM;
	memset(data, PROBE_BYTE, PROBE_BYTES);
	int fd = io_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, NULL);
	int r = fd < 0 ? fd : io_write(fd, data, PROBE_BYTES, path, NULL);
	if (r == 0)
		r = io_sync(fd, path, NULL);
	mem_free(data);
	io_close(fd);
	if (fd >= 0)
		io_unlink(path, NULL);
	return r < 0 ? r : 0;
}

/* With the lock held, which is released while it tries. */
static void try_now(struct readiness *ready, int64_t now_ns)
{
	ready->is_trying = true;
	ready->began_ns = now_ns;
	pthread_mutex_unlock(&ready->lock);
	int r = try_to_write(ready->path);
	pthread_mutex_lock(&ready->lock);
	ready->is_trying = false;
	ready->tried_ns = time_monotonic_ns();
	ready->result = r;
	if (r < 0)
		snprintf(ready->why, sizeof(ready->why), "the data directory cannot be written: %s", strerror(-r));
}

static int check_disk(struct readiness *ready, struct error *err)
{
	THREAD_LOCK_SCOPE(&ready->lock);
	int64_t now_ns = time_monotonic_ns();
	if (ready->is_trying && now_ns - ready->began_ns > SLOW_NS)
		return error_set(err, -EIO, "writing to the data directory has taken more than %lld s",
				 (long long)((now_ns - ready->began_ns) / NS_PER_S));
	if (!ready->is_trying && (!ready->tried_ns || now_ns - ready->tried_ns >= BETWEEN_NS))
		try_now(ready, now_ns);
	return ready->result < 0 ? error_set(err, ready->result, "%s", ready->why) : 0;
}

/* ---- the stores ---- */

/* What one tenant's says is no reason to send the others elsewhere: none takes anything. */
static int check_stores(struct server *server, struct error *err)
{
	struct tenant **tenants;
	size_t count = tenants_snapshot(server, &tenants), open = 0, failed = 0, full = 0;
	for (size_t i = 0; i < count; i++) {
		struct store *store = atomic_load_explicit(&tenants[i]->store, memory_order_acquire);
		struct store_stats stats = {0};
		if (!store)
			continue;
		store_get_stats(store, &stats);
		open++;
		failed += stats.log_failed != 0;
		full += !stats.log_failed && stats.memory_full;
	}
	mem_free(tenants);
	if (!tenants)
		return error_nomem(err);
	if (!open || failed + full < open)
		return 0;
	if (failed)
		return error_set(err, -EIO, "the log could not be synced: check the disk, then restart");
	return error_set(err, -ENOSPC, "memory is full and cannot be written to disk");
}

int readiness_check(struct server *server, struct error *err)
{
	int r = check_stores(server, err);
	return r < 0 ? r : check_disk(server->readiness, err);
}
