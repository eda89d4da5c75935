/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local store's table of hosts: in memory, and in DATA/hosts.journal (hosts/host_journal.c).
 *
 * A profile that says nothing new costs a look at the table. News are synced to the file first and get into the table then, so
 * that nobody reads what a crash could take back; write_lock is held meanwhile, and readers are not kept waiting by the disk.
 */
#include <errno.h>

#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "store/store_int.h"

/* Times of last profiles are no news. They are written once in a while, and after a crash may be earlier by so much. */
#define WRITE_EVERY_NS (3600 * NS_PER_S)

static int load(struct local_store *store, struct error *err)
{
	struct local_hosts *hosts = &store->hosts;
	_cleanup_(buffer_release) struct buffer contents = {0};
	struct host_journal_result found;
	char to[PATH_MAX];
	int r = host_file_read(&hosts->file, hosts->table, &contents, &found, err);
	if (r == 0 && found.damaged_bytes) {
		r = host_file_mend(&hosts->file, hosts->table, buffer_bytes(&contents), store->quarantine_path, to, err);
		if (r == 0)
			store_problem(store,
				      HOST_JOURNAL_NAME ": %llu bytes of labels of hosts are damaged, and lost; %llu records "
							"are whole. The file as it was is set aside as %s",
				      (unsigned long long)found.damaged_bytes, (unsigned long long)found.records, to);
	}
	return r;
}

int local_hosts_open(struct local_store *store, struct error *err)
{
	struct local_hosts *hosts = &store->hosts;
	int r = host_file_init(&hosts->file, store->directory, err);
	if (r == 0)
		r = host_table_new(&hosts->table, err);
	if (r == 0)
		r = load(store, err);
	hosts->written_ns = time_monotonic_ns();
	return r;
}

/* write_lock held: nobody else changes the table. */
static int write_all(struct local_hosts *hosts, struct error *err)
{
	hosts->written_ns = time_monotonic_ns();
	hosts->is_stale = false;
	return host_file_write(&hosts->file, hosts->table, err);
}

void local_hosts_close(struct local_store *store, bool keep)
{
	struct local_hosts *hosts = &store->hosts;
	if (hosts->table && keep && (hosts->is_stale || host_file_is_long(&hosts->file)))
		write_all(hosts, NULL);
	host_file_release(&hosts->file);
	hosts->table = host_table_free(hosts->table);
}

/* ---- noting ---- */

static int refuse(struct local_store *store)
{
	THREAD_LOCK_SCOPE(&store->state_lock);
	store->stats.hosts_refused++;
	return STORE_HOST_REFUSED;
}

static bool is_out_of_bounds(const struct local_store *store, int64_t time_ns)
{
	int64_t now_ns = time_now_ns(), late_ns = store->options.late_window_ns;
	return time_ns <= 0 || time_ns > now_ns + STORE_FUTURE_NS || (late_ns > 0 && time_ns < now_ns - late_ns);
}

static int check(struct local_hosts *hosts, const char *host, const struct labels *labels, int64_t time_ns, struct error *err)
{
	pthread_rwlock_rdlock(&hosts->lock);
	int r = host_table_check(hosts->table, host, labels, time_ns, time_ns, err);
	pthread_rwlock_unlock(&hosts->lock);
	return r;
}

static int take(struct local_hosts *hosts, const char *host, const struct labels *labels, int64_t time_ns, struct error *err)
{
	pthread_rwlock_wrlock(&hosts->lock);
	int r = host_table_note(hosts->table, host, labels, time_ns, time_ns, err);
	hosts->is_stale |= r == 0;
	pthread_rwlock_unlock(&hosts->lock);
	return r < 0 ? r : 0;
}

/* Another profile may have said the same meanwhile. */
static int take_news(struct local_hosts *hosts, const char *host, const struct labels *labels, int64_t time_ns,
		     struct error *err)
{
	THREAD_LOCK_SCOPE(&hosts->write_lock);
	int r = check(hosts, host, labels, time_ns, err);
	if (r > 0)
		r = host_file_append(&hosts->file, hosts->table, host, labels, time_ns, err);
	return r < 0 ? r : take(hosts, host, labels, time_ns, err);
}

int local_note_host(struct local_store *store, const char *host, const struct labels *labels, int64_t time_ns,
		    struct error *err)
{
	if (is_out_of_bounds(store, time_ns) || !*host || !labels->count || !text_is_utf8(bytes_of_string(host))) {
		error_set(err, -EINVAL, "too old, too far in the future, or without a name");
		return refuse(store);
	}
	time_ns = time_floor(time_ns, NS_PER_MS);
	int r = check(&store->hosts, host, labels, time_ns, err);
	if (r == 0)
		r = take(&store->hosts, host, labels, time_ns, err);
	else if (r > 0)
		r = take_news(&store->hosts, host, labels, time_ns, err);
	return r == -EDQUOT ? refuse(store) : r;
}

/* ---- the rest ---- */

int local_read_hosts(struct local_store *store, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
		     store_on_host on_host, void *context, struct error *err)
{
	pthread_rwlock_rdlock(&store->hosts.lock);
	int r = host_table_read(store->hosts.table, names, name_count, from_ns, to_ns, on_host, context, err);
	pthread_rwlock_unlock(&store->hosts.lock);
	return r;
}

void local_hosts_get_stats(struct local_store *store, struct store_stats *ret)
{
	pthread_rwlock_rdlock(&store->hosts.lock);
	struct host_table_figures figures = host_table_figures(store->hosts.table);
	pthread_rwlock_unlock(&store->hosts.lock);
	ret->hosts = figures.hosts;
	ret->host_runs = figures.runs;
	ret->host_bytes = figures.bytes;
	ret->host_runs_dropped = figures.dropped;
}

/* What is older than all data describes nothing any more. */
void local_hosts_retain(struct local_store *store, int64_t now_ns)
{
	struct local_hosts *hosts = &store->hosts;
	struct store_stats stats;
	struct error err = {0};
	local_get_stats(store, &stats);
	int64_t oldest_ns = stats.oldest_ns, age_ns = store->options.retention_age_ns;
	if (!oldest_ns)
		oldest_ns = age_ns > 0 ? now_ns - age_ns : INT64_MIN / 2;
	THREAD_LOCK_SCOPE(&hosts->write_lock);
	pthread_rwlock_wrlock(&hosts->lock);
	size_t forgotten = host_table_forget(hosts->table, oldest_ns - 2 * WRITE_EVERY_NS);
	bool late = hosts->is_stale && time_monotonic_ns() - hosts->written_ns >= WRITE_EVERY_NS;
	pthread_rwlock_unlock(&hosts->lock);
	if ((forgotten || late || host_file_is_long(&hosts->file)) && write_all(hosts, &err) < 0)
		store_problem(store, "labels of hosts: %s", err.message);
}
