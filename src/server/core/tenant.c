/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: whose data a request is about.
 *
 * Each tenant is a store of its own in a directory of its own, so that no query can reach another's data by any mistake in a
 * selector, a tenant is backed up or removed as a directory, and one tenant's cardinality is not another's latency. The tenant
 * without a name, "anonymous", is the data directory itself: a server becomes one of many tenants, and back, without moving a
 * file.
 *
 *   DATA/                  anonymous
 *   DATA/tenants/NAME/     NAME
 *
 * Names of functions are a tenant's like all else (symbols.c); its uploads lie beside those of others
 * (symbol/uploads_layout.c).
 *
 * A tenant is made by its first profile and stays open until the server ends; questions about one that is not there make
 * nothing. So the number of directories and open stores is bounded by tenants_max and by who may send profiles. A store is
 * opened outside of the table's lock: recovering one tenant's log must not hold up the others.
 *
 * Tenants share what one store would have. The heads share a sum of memory: a thread looks at it and has the largest cut, which
 * costs nothing where samples come in, and may be late by what comes in within half a second. It also divides the memory for
 * indexes among those who were asked lately. Compaction is by turns.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/time.h"
#include "server/core/server_int.h"
#include "server/stores/agents.h"
#include "server/stores/marker_batches.h"
#include "server/stores/recordings.h"
#include "server/stores/snapshots.h"

#define TENANTS_DEFAULT		 64
#define HEAD_SIZE_DEFAULT	 (64 * MIB)
#define HEAD_TOTAL_FACTOR	 4
#define WATCH_INTERVAL_NS	 (NS_PER_S / 2)
#define TENANTS_DIRECTORY	 "tenants"
#define RECORDINGS_DIRECTORY	 "recordings"
#define MARKER_BATCHES_DIRECTORY RECORDINGS_DIRECTORY "/" CONTROL_CONTINUOUS
#define SNAPSHOTS_DIRECTORY	 "snapshots"
#define ADHOC_DIRECTORY		 "adhoc"
#define CACHE_IDLE		 (MIB / 2)
/* Of memory, or of what a control group leaves of it: blocks of a day of some hundred hosts have indexes of about this size. */
#define CACHE_MEMORY_PART 32
#define CACHE_LEAST	  (32 * MIB)
#define CACHE_MOST	  (256 * MIB)
#define CACHE_KEPT_NS	  (300 * NS_PER_S)

static void on_store_problem(void *context, const char *message)
{
	const struct tenant *tenant = context;
	if (tenant->is_default)
		log_warn("store: %s", message);
	else
		log_warn("store of tenant '%s': %s", tenant->name, message);
}

static void on_recordings_problem(void *context, const char *message)
{
	const struct tenant *tenant = context;
	log_warn("recordings of tenant '%s': %s", tenant->name, message);
}

static void on_snapshots_problem(void *context, const char *message)
{
	const struct tenant *tenant = context;
	log_warn("snapshots of tenant '%s': %s", tenant->name, message);
}

static const struct server_tenant_settings *find_settings(const struct server *server, const char *name)
{
	for (size_t i = 0; i < server->options.tenant_settings_count; i++)
		if (strcmp(server->options.tenant_settings[i].name, name) == 0)
			return &server->options.tenant_settings[i];
	return NULL;
}

static int tenant_directory(const struct server *server, const struct tenant *tenant, char *out, size_t size, struct error *err)
{
	int r, len = snprintf(out, size, "%s", server->data_directory);
	if (!tenant->is_default)
		len = snprintf(out, size, "%s/" TENANTS_DIRECTORY "/%s", server->data_directory, tenant->name);
	r = len < (int)size ? 0 : -ENAMETOOLONG;
	return r < 0 ? error_set(err, r, "the data directory's path is too long") : 0;
}

int tenant_path(const struct server *server, const struct tenant *tenant, const char *name, char *out, size_t size,
		struct error *err)
{
	char directory[PATH_BYTES_MAX];
	int r = tenant_directory(server, tenant, directory, sizeof(directory), err);
	if (r < 0)
		return r;
	return io_join_path(out, size, directory, name) < 0
		       ? error_set(err, -ENAMETOOLONG, "the data directory's path is too long")
		       : 0;
}

/* The entry of a new directory must be on disk before anything in it is acknowledged. */
static int make_directory(const struct server *server, const struct tenant *tenant, const char *path, struct error *err)
{
	char parent[PATH_BYTES_MAX];
	struct stat info;
	if (tenant->is_default || stat(path, &info) == 0)
		return 0;
	int r = io_join_path(parent, sizeof(parent), server->data_directory, TENANTS_DIRECTORY);
	if (!r)
		r = io_make_dirs(path, 0750, err);
	if (!r)
		r = io_sync_dir(parent, err);
	return r < 0 ? r : io_sync_dir(server->data_directory, err);
}

/* For the indexes of a tenant that nobody asks; of many, half of all memory for them. */
static uint64_t cache_of_idle(const struct server *server, size_t tenants)
{
	uint64_t share = server->index_cache_bytes / (2 * (tenants ? tenants : 1));
	return share < CACHE_IDLE ? share : CACHE_IDLE;
}

static void store_options_of(struct server *server, struct tenant *tenant, const char *directory, struct store_options *ret)
{
	const struct server_options *options = &server->options;
	const struct server_tenant_settings *own = find_settings(server, tenant->name);
	*ret = (struct store_options){
		.directory = directory,
		.retention_age_ns = own && own->retention_age_ns ? own->retention_age_ns : options->retention_age_ns,
		.retention_size_bytes =
			own && own->retention_size_bytes ? own->retention_size_bytes : options->retention_size_bytes,
		.samples_age_ns = options->samples_age_ns,
		.rules = server->rules,
		.rule_count = options->rule_count,
		.window_ns = {options->window_ns[0], options->window_ns[1]},
		.compact_memory_bytes = options->compact_memory_bytes,
		.late_window_ns = options->late_window_ns,
		.stacks_max = tenant->limits.stacks_per_block,
		.head_size_bytes = options->head_size_bytes,
		.cut_age_ns = options->cut_age_ns,
		.series_max = tenant->limits.series,
		.compact_turn = options->tenants ? &server->compact_turn : NULL,
		.on_problem = on_store_problem,
		.context = tenant,
	};
}

static int open_recordings(struct server *server, struct tenant *tenant, struct error *err)
{
	char directory[PATH_BYTES_MAX];
	struct recordings_options options = {.directory = directory,
					     .bytes_max = server->options.recordings_bytes,
					     .age_ns = server->options.recordings_age_ns,
					     .problems = {on_recordings_problem, tenant}};
	int r = tenant_path(server, tenant, RECORDINGS_DIRECTORY, directory, sizeof(directory), err);
	if (!r)
		r = recordings_open(&options, time_now_ns(), &tenant->recordings, err);
	if (!r)
		r = tenant_path(server, tenant, MARKER_BATCHES_DIRECTORY, directory, sizeof(directory), err);
	return r < 0 ? r : marker_batches_open(&options, time_now_ns(), &tenant->batches, err);
}

static int open_snapshots(struct server *server, struct tenant *tenant, const char *name, struct snapshots **ret,
			  struct error *err)
{
	char directory[PATH_BYTES_MAX];
	struct snapshots_options options = {.directory = directory,
					    .bytes_max = server->options.snapshots_bytes,
					    .age_ns = server->options.snapshots_age_ns,
					    .count_max = server->options.snapshots_max,
					    .problems = {on_snapshots_problem, tenant}};
	int r = tenant_path(server, tenant, name, directory, sizeof(directory), err);
	return r < 0 ? r : snapshots_open(&options, time_now_ns(), ret, err);
}

/* Nobody was promised what a crash kept from being written, but a file that lost its end looks the same. */
static void warn_of_cut(struct store *store, const char *directory)
{
	struct store_stats stats;
	store_get_stats(store, &stats);
	if (stats.log_cut_bytes && stats.log_cut_record_bytes)
		log_warn("%s: the log ended inside a record; its last %llu bytes, of a record of %llu bytes, were cut off",
			 directory, (unsigned long long)stats.log_cut_bytes, (unsigned long long)stats.log_cut_record_bytes);
	else if (stats.log_cut_bytes)
		log_warn("%s: the log ended inside a record; its last %llu bytes were cut off", directory,
			 (unsigned long long)stats.log_cut_bytes);
	if (stats.log_lost_records || stats.log_lost_rows)
		log_warn("%s: %llu records of the log are lost, %llu bytes, and %llu samples of later ones", directory,
			 (unsigned long long)stats.log_lost_records, (unsigned long long)stats.log_lost_bytes,
			 (unsigned long long)stats.log_lost_rows);
}

/* What a tenant has beside the store: all of it, or none. */
static int open_others(struct server *server, struct tenant *tenant, struct error *err)
{
	int r = open_recordings(server, tenant, err);
	if (!r)
		r = open_snapshots(server, tenant, SNAPSHOTS_DIRECTORY, &tenant->snapshots, err);
	if (!r)
		r = open_snapshots(server, tenant, ADHOC_DIRECTORY, &tenant->adhoc, err);
	if (!r)
		r = symbols_open_tenant(server, tenant, err);
	if (!r)
		return 0;
	tenant->adhoc = snapshots_close(tenant->adhoc);
	tenant->snapshots = snapshots_close(tenant->snapshots);
	tenant->batches = marker_batches_close(tenant->batches);
	tenant->recordings = recordings_close(tenant->recordings);
	return r;
}

static int tenant_open(struct server *server, struct tenant *tenant, struct error *err)
{
	char directory[PATH_BYTES_MAX];
	struct store *store = NULL;
	THREAD_LOCK_SCOPE(&tenant->open_lock);
	int r = 0;
	if (!tenant->store) {
		struct store_options options;
		r = tenant_directory(server, tenant, directory, sizeof(directory), err);
		if (!r)
			r = make_directory(server, tenant, directory, err);
		store_options_of(server, tenant, directory, &options);
		if (!r)
			r = store_open(&options, &store, err);
		if (!r) {
			warn_of_cut(store, directory);
			/* Of several, share_cache() gives it to those who ask. */
			store_set_cache(store, server->options.tenants ? cache_of_idle(server, 1) : server->index_cache_bytes);
		}
		if (!r) {
			r = open_others(server, tenant, err);
			if (r < 0)
				store_close(store);
		}
		if (!r)
			atomic_store_explicit(&tenant->store, store, memory_order_release);
	}
	return r;
}

static struct tenant *tenant_free(struct tenant *tenant)
{
	if (!tenant)
		return NULL;
	store_close(tenant->store);
	recordings_close(tenant->recordings);
	marker_batches_close(tenant->batches);
	agents_free(tenant->agents);
	snapshots_close(tenant->snapshots);
	snapshots_close(tenant->adhoc);
	symbols_close_tenant(tenant);
	pthread_mutex_destroy(&tenant->open_lock);
	pthread_mutex_destroy(&tenant->bucket_lock);
	pthread_mutex_destroy(&tenant->settings_lock);
	return mem_free(tenant);
}

static struct tenant *tenant_new(const struct server *server, const char *name)
{
	struct tenant *tenant = mem_zalloc(sizeof(*tenant));
	if (!tenant || !(tenant->agents = agents_new()))
		return mem_free(tenant);
	const struct server_tenant_settings *own = find_settings(server, name);
	snprintf(tenant->name, sizeof(tenant->name), "%s", name);
	tenant->is_default = strcmp(name, TENANT_DEFAULT) == 0;
	tenant->limits = own ? own->limits : server->options.limits;
	pthread_mutex_init(&tenant->open_lock, NULL);
	pthread_mutex_init(&tenant->bucket_lock, NULL);
	pthread_mutex_init(&tenant->settings_lock, NULL);
	return tenant;
}

/* With the table's lock held. */
static struct tenant *find(struct server *server, const char *name)
{
	for (size_t i = 0; i < server->tenant_count; i++)
		if (strcmp(server->tenants[i]->name, name) == 0)
			return server->tenants[i];
	return NULL;
}

static int add(struct server *server, const char *name, struct tenant **ret, struct error *err)
{
	int r = array_reserve(&server->tenants, &server->tenant_capacity, server->tenant_count + 1, SIZE_MAX);
	struct tenant *tenant = r < 0 ? NULL : tenant_new(server, name);
	if (!tenant)
		return error_nomem(err);
	server->tenants[server->tenant_count++] = tenant;
	*ret = tenant;
	return 0;
}

static int take(struct server *server, const char *name, bool create, struct tenant **ret, struct error *err)
{
	unsigned max = server->options.tenants_max ? server->options.tenants_max : TENANTS_DEFAULT;
	THREAD_LOCK_SCOPE(&server->tenants_lock);
	int r = 0;
	struct tenant *tenant = find(server, name);
	if (!tenant && !create)
		r = error_set(err, -ENOENT, "no tenant '%s': nothing was stored for it yet", name);
	else if (!tenant && server->tenant_count >= max)
		r = error_set(err, -EDQUOT, "limit tenants_max: there are %zu tenants already, the limit is %u",
			      server->tenant_count, max);
	else if (!tenant)
		r = add(server, name, &tenant, err);
	*ret = tenant;
	return r;
}

const char *tenant_name_of_request(const struct net_request *request)
{
	const struct caller *caller = caller_of(request);
	return caller && *caller->tenant ? caller->tenant : net_request_header(request, TENANT_HEADER);
}

int tenant_of_request(struct server *server, const struct net_request *request, bool create, struct tenant **ret,
		      struct error *err)
{
	return tenant_by_name(server, tenant_name_of_request(request), create, ret, err);
}

int tenant_by_name(struct server *server, const char *name, bool create, struct tenant **ret, struct error *err)
{
	name = server->options.tenants ? name : NULL;
	struct tenant *tenant = server->default_tenant;
	*ret = NULL;
	if (!name || strcmp(name, TENANT_DEFAULT) == 0) {
		*ret = tenant;
		return 0;
	}
	int r = tenant_name_check(name, err);
	if (!r)
		r = take(server, name, create, &tenant, err);
	if (!r && !atomic_load_explicit(&tenant->store, memory_order_acquire))
		r = tenant_open(server, tenant, err);
	if (!r)
		*ret = tenant;
	return r;
}

bool tenant_owns(const struct server *server, const struct net_request *request, const char *name)
{
	const char *own = tenant_name_of_request(request);
	return !server->options.tenants || strcmp(own ? own : TENANT_DEFAULT, name ? name : TENANT_DEFAULT) == 0;
}

uint64_t tenant_fair_key(void *context, const struct net_request *request)
{
	const struct server *server = context;
	const char *name = server->options.tenants ? tenant_name_of_request(request) : NULL;
	return name ? hash64_seed(name, strlen(name), net_request_peer(request)) : net_request_peer(request);
}

uint64_t tenant_fair_group(void *context, const struct net_request *request)
{
	const struct server *server = context;
	const char *name = server->options.tenants ? tenant_name_of_request(request) : NULL;
	return name ? hash64(name, strlen(name)) | 1 : 0;
}

size_t tenants_snapshot(struct server *server, struct tenant ***ret)
{
	THREAD_LOCK_SCOPE(&server->tenants_lock);
	size_t count = server->tenant_count;
	struct tenant **copy = mem_alloc_array(count, sizeof(*copy));
	for (size_t i = 0; i < count && copy; i++)
		copy[i] = server->tenants[i];
	*ret = copy;
	return copy ? count : 0;
}

/* ---- the thread ---- */

static void cut_largest(struct server *server, uint64_t total_max)
{
	struct tenant **tenants, *largest = NULL;
	size_t count = tenants_snapshot(server, &tenants);
	uint64_t total = 0, most = 0;
	for (size_t i = 0; i < count; i++) {
		struct store *store = atomic_load_explicit(&tenants[i]->store, memory_order_acquire);
		struct store_stats stats = {0};
		if (store)
			store_get_stats(store, &stats);
		total += stats.head_bytes;
		if (stats.head_bytes > most) {
			most = stats.head_bytes;
			largest = tenants[i];
		}
	}
	mem_free(tenants);
	struct error err = {0};
	if (total > total_max && largest && store_cut(largest->store, &err) < 0)
		log_warn("store of tenant '%s': %s", largest->name, err.message);
}

static void share_cache(struct server *server)
{
	struct tenant **tenants;
	size_t count = tenants_snapshot(server, &tenants), active = 0;
	int64_t now_ns = time_monotonic_ns();
	for (size_t i = 0; i < count; i++) {
		uint64_t queries = atomic_load(&tenants[i]->counters.queries);
		if (queries != tenants[i]->queries_seen)
			tenants[i]->active_ns = now_ns;
		tenants[i]->queries_seen = queries;
		active += tenants[i]->active_ns && now_ns - tenants[i]->active_ns < CACHE_KEPT_NS;
	}
	uint64_t idle = cache_of_idle(server, count), rest = server->index_cache_bytes - (count - active) * idle;
	for (size_t i = 0; i < count; i++) {
		struct store *store = atomic_load_explicit(&tenants[i]->store, memory_order_acquire);
		bool is_active = tenants[i]->active_ns && now_ns - tenants[i]->active_ns < CACHE_KEPT_NS;
		if (!store)
			continue;
		store_set_cache(store, is_active ? rest / active : idle);
		symbols_share(server, tenants[i], count, active, is_active);
	}
	mem_free(tenants);
}

static void *watch(void *context)
{
	struct server *server = context;
	uint64_t size = server->options.head_size_bytes ? server->options.head_size_bytes : HEAD_SIZE_DEFAULT;
	uint64_t total_max = server->options.head_total_bytes ? server->options.head_total_bytes : size * HEAD_TOTAL_FACTOR;
	pthread_mutex_lock(&server->tenants_lock);
	while (!server->watch_stop) {
		thread_wait_until(&server->watch_wake, &server->tenants_lock, time_monotonic_ns() + WATCH_INTERVAL_NS);
		if (server->watch_stop)
			break;
		pthread_mutex_unlock(&server->tenants_lock);
		cut_largest(server, total_max);
		share_cache(server);
		pthread_mutex_lock(&server->tenants_lock);
	}
	pthread_mutex_unlock(&server->tenants_lock);
	return NULL;
}

/* ---- life ---- */

static int open_listed(struct server *server, DIR *directory, struct error *err)
{
	const struct dirent *entry;
	while ((entry = readdir(directory))) {
		struct tenant *tenant;
		struct error problem = {0};
		if (entry->d_name[0] == '.' && strspn(entry->d_name, ".") == strlen(entry->d_name))
			continue;
		if (tenant_name_check(entry->d_name, NULL) < 0 || strcmp(entry->d_name, TENANT_DEFAULT) == 0) {
			log_warn("%s/" TENANTS_DIRECTORY "/%s is not a tenant's directory; it is ignored",
				 server->data_directory, entry->d_name);
			continue;
		}
		int r = add(server, entry->d_name, &tenant, err);
		if (r < 0)
			return r;
		if (tenant_open(server, tenant, &problem) < 0) /* tried again when it is used */
			log_error("tenant '%s': %s", tenant->name, problem.message);
	}
	return 0;
}

int tenants_open(struct server *server, struct error *err)
{
	server->index_cache_bytes = server->options.index_cache_bytes;
	if (!server->index_cache_bytes)
		server->index_cache_bytes = memory_share(memory_limit_bytes(""), CACHE_MEMORY_PART, CACHE_LEAST, CACHE_MOST);
	char path[PATH_BYTES_MAX];
	int r = add(server, TENANT_DEFAULT, &server->default_tenant, err);
	if (!r)
		r = tenant_open(server, server->default_tenant, err);
	if (r < 0 || !server->options.tenants)
		return r;
	r = io_join_path(path, sizeof(path), server->data_directory, TENANTS_DIRECTORY);
	if (r < 0)
		return error_set(err, r, "the data directory's path is too long");
	DIR *directory = opendir(path);
	if (directory) {
		r = open_listed(server, directory, err);
		closedir(directory);
	} else if (errno != ENOENT) {
		r = error_set_errno(err, -errno, "cannot list %s", path);
	}
	if (!r)
		r = thread_start(&server->watch_thread, "wick-tenants", watch, server, err);
	server->watch_running = r == 0;
	return r;
}

void tenants_close(struct server *server)
{
	pthread_mutex_lock(&server->tenants_lock);
	server->watch_stop = true;
	pthread_cond_signal(&server->watch_wake);
	pthread_mutex_unlock(&server->tenants_lock);
	if (server->watch_running)
		pthread_join(server->watch_thread, NULL);
	server->watch_running = false;
	for (size_t i = 0; i < server->tenant_count; i++)
		tenant_free(server->tenants[i]);
	server->tenants = mem_free(server->tenants);
	server->tenant_count = 0;
}
