/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer's lifecycle, its inputs, and its statistics. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/io.h"
#include "base/order.h"
#include "base/thread.h"
#include "base/time.h"
#include "symbol/debuginfod.h"
#include "symbol/symbol_int.h"

const char *const symbol_state_names[SYMBOL_STATES] = {
	[SYMBOL_QUEUED] = "queued",   [SYMBOL_WORKING] = "working", [SYMBOL_COMPLETE] = "complete",
	[SYMBOL_PARTIAL] = "partial", [SYMBOL_MISSING] = "missing", [SYMBOL_FAILED] = "failed",
};

/* ---- life ---- */

int symbolizer_new(const struct symbolizer_options *options, struct symbolizer **ret, struct error *err)
{
	_cleanup_(symbolizer_freep) struct symbolizer *s = mem_zalloc(sizeof(*s));
	if (!s)
		return error_nomem(err);
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->build_lock, NULL);
	pthread_mutex_init(&s->evict_lock, NULL);
	thread_condition_init(&s->work);
	thread_condition_init(&s->done);
	s->cache_max_bytes = options->cache_max_bytes ? options->cache_max_bytes : SYMBOL_CACHE_DEFAULT;
	s->memory_max_bytes = options->memory_max_bytes ? options->memory_max_bytes : SYMBOL_MEMORY_DEFAULT;
	s->no_host_files = options->no_host_files;
	s->own_files = options->own_files;
	s->worker = options->worker;
	s->uploads = options->uploads;
	s->scope = options->scope;
	s->turns = options->turns;
	s->debuginfod = options->debuginfod;
	s->debug_directory = SYMBOL_DEBUG_DIRECTORY;
	s->entries_max = SYMBOL_ENTRIES_MAX;
	s->retry_interval_ns = options->retry_ns > 0 ? options->retry_ns : SYMBOL_RETRY_NS_DEFAULT;
	if (options->cache_directory) {
		s->cache_directory = mem_strdup(options->cache_directory);
		if (!s->cache_directory)
			return error_nomem(err);
		int r = io_make_dirs(options->cache_directory, 0755, err);
		if (r < 0)
			return r;
		cache_scan(s);
		contents_load(s);
	}
	if (options->file_cache_directory && !s->uploads && !s->debuginfod)
		file_cache_open(options->file_cache_directory, SYMBOL_FILE_CACHE_BYTES, &s->file_cache, NULL);
	int r = jobs_start(s, options->workers < SYMBOL_WORKERS_MAX ? options->workers : SYMBOL_WORKERS_MAX, err);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

struct symbolizer *symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return NULL;
	jobs_stop(s);
	entries_free_all(s);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->build_lock);
	pthread_mutex_destroy(&s->evict_lock);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->done);
	mem_free(s->cache_directory);
	file_cache_close(s->file_cache);
	return mem_free(s);
}

void symbolizer_set_limits(struct symbolizer *s, const struct symbolizer_limits *limits)
{
	pthread_mutex_lock(&s->lock);
	s->memory_max_bytes = limits->memory_max_bytes ? limits->memory_max_bytes : s->memory_max_bytes;
	s->cache_max_bytes = limits->cache_max_bytes ? limits->cache_max_bytes : s->cache_max_bytes;
	s->entries_max = limits->entries_max ? limits->entries_max : s->entries_max;
	entries_unmap_excess(s, NULL);
	pthread_mutex_unlock(&s->lock);
}

/* ---- what arrives ---- */

void symbolizer_note(struct symbolizer *s, const char *build_id, const char *path, uint64_t samples)
{
	if (!build_id_is_valid(build_id))
		return;
	int64_t now = time_now_ns();
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = entries_get(s, build_id, path);
	if (entry) {
		entry->samples += samples;
		if (!entry->first_seen_ns)
			entry->first_seen_ns = now;
		entry->last_seen_ns = now;
		if (s->worker_count > 0)
			jobs_want(s, entry, SYMBOL_QUEUE_SEEN);
	}
	pthread_mutex_unlock(&s->lock);
}

/* With the lock held: whatever is known of it, it is built anew. */
static void build_anew(struct symbolizer *s, struct symbol_entry *entry, enum symbol_queue queue)
{
	entry->failures = 0;
	entry->retry_ns = 0;
	if (entry->state == SYMBOL_WORKING)
		entry->again = true;
	else
		entries_enqueue(s, entry, queue);
}

void symbolizer_note_go_id(struct symbolizer *s, const char *hash, const char *go_id)
{
	if (!build_id_is_valid(hash) || !build_id_is_valid(go_id))
		return;
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = entries_find(s, hash);
	entry = entry ? entry : entries_get(s, hash, NULL);
	bool is_new = entry && (!entry->go_id || strcmp(entry->go_id, go_id) != 0);
	if (is_new) {
		entries_set_text(&entry->go_id, go_id);
		/* Whose table was made of what it is not alone to have gets another. */
		struct symbol_entry *other = entries_find_go_id(s, entry);
		if (other && other->is_by_go_id)
			build_anew(s, other, SYMBOL_QUEUE_SEEN);
		if (entry->was_built && entry->state != SYMBOL_COMPLETE)
			build_anew(s, entry, SYMBOL_QUEUE_SEEN);
	}
	pthread_mutex_unlock(&s->lock);
}

static bool is_known(const struct symbol_entry *entry)
{
	return entry->was_built && entry->sources && !entry->no_offsets;
}

static int take_offer(struct symbolizer *s, struct symbol_entry *entry, int fd)
{
	entry->offered_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (entry->offered_fd < 0)
		return -errno;
	s->offers++;
	entry->retry_ns = 0;
	if (entry->state == SYMBOL_WORKING)
		entry->again = true;
	else if (s->worker_count > 0)
		jobs_want(s, entry, SYMBOL_QUEUE_SEEN);
	return 0;
}

/* With the lock held: where a file goes that was passed. One of several of its id is read for itself, too. */
static struct symbol_entry *entry_of_offer(struct symbolizer *s, struct symbol_entry *entry, const char *content,
					   const char *build_id, const char *path)
{
	char key[SYMBOL_KEY_MAX];
	if (!content[0])
		return entry;
	bool is_several = contents_note(s, entry, content, path) && entry->content_count > 1;
	if (!is_several || strcmp(entry->main_content, content) == 0) {
		if (!is_known(entry) && entry->offered_fd < 0)
			memcpy(entry->main_content, content, sizeof(entry->main_content));
		return entry;
	}
	jobs_content_key(build_id, content, key);
	return entries_get(s, key, path);
}

int symbolizer_offer(struct symbolizer *s, const char *build_id, const char *content, const char *path, int fd,
		     struct error *err)
{
	if (!build_id_is_valid(build_id))
		return error_set(err, -EINVAL, "'%.140s' is not a build-id: expected 2 to 128 lower-case hex digits", build_id);
	int r = 0;
	pthread_mutex_lock(&s->lock);
	/* The id's own entry is of the first; another one's path would lead it astray. */
	struct symbol_entry *entry = entries_find(s, build_id);
	bool is_other = entry && entry->main_content[0] && strcmp(entry->main_content, content) != 0;
	entry = entries_get(s, build_id, is_other ? NULL : path);
	if (entry)
		entry = entry_of_offer(s, entry, content_key_is_valid(content) ? content : "", build_id, path);
	if (!entry)
		r = error_set(err, -EAGAIN, "the limit of tracked binaries is reached");
	else if (is_known(entry) || entry->offered_fd >= 0)
		r = 0;
	else if (s->offers >= SYMBOL_OFFERS_MAX)
		r = error_set(err, -EAGAIN, "%u binaries are queued for symbols already", SYMBOL_OFFERS_MAX);
	else
		r = take_offer(s, entry, fd);
	pthread_mutex_unlock(&s->lock);
	contents_save(s, build_id);
	return r;
}

void symbolizer_arrived(struct symbolizer *s, const char *build_id)
{
	if (!build_id_is_valid(build_id))
		return;
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = entries_get(s, build_id, NULL);
	if (entry)
		build_anew(s, entry, SYMBOL_QUEUE_REQUESTED);
	s->arrivals++;
	for (entry = s->newest; entry; entry = entry->older)
		if ((entry->lacks && strcmp(entry->lacks, build_id) == 0) ||
		    (entry->go_id && strcmp(entry->go_id, build_id) == 0))
			build_anew(s, entry, SYMBOL_QUEUE_REQUESTED);
	pthread_mutex_unlock(&s->lock);
}

bool symbolizer_wants(struct symbolizer *s, const char *build_id, const char *path, bool *ret_later)
{
	bool later = false, wants = false;
	if (build_id_is_valid(build_id)) {
		pthread_mutex_lock(&s->lock);
		struct symbol_entry *entry = entries_get(s, build_id, path);
		if (entry && s->worker_count > 0 && !entry->was_built)
			jobs_want(s, entry, SYMBOL_QUEUE_SEEN);
		/* Without an entry there is no room to find out. */
		later = !entry || !entry->was_built || entry->state == SYMBOL_WORKING || entry->queue != SYMBOL_QUEUE_NONE;
		wants = !later && (entry->state == SYMBOL_PARTIAL || entry->state == SYMBOL_MISSING);
		pthread_mutex_unlock(&s->lock);
	}
	if (wants && s->uploads && uploads_has(s->uploads, &s->scope, build_id, UPLOAD_DEBUGINFO))
		wants = false;
	if (ret_later)
		*ret_later = later;
	return wants;
}

bool symbolizer_wants_content(struct symbolizer *s, const char *build_id, const char *content, const char *path,
			      bool *ret_later)
{
	char key[SYMBOL_KEY_MAX];
	if (!build_id_is_valid(build_id) || !content_key_is_valid(content))
		return false;
	jobs_content_key(build_id, content, key);
	pthread_mutex_lock(&s->lock);
	/* What cannot be had on this host is not looked for there. */
	bool is_local = entries_find(s, key) || (!s->no_host_files && source_is_host_path(path));
	struct symbol_entry *entry = is_local ? entries_get(s, key, path) : NULL;
	if (entry && s->worker_count > 0 && !entry->was_built)
		jobs_want(s, entry, SYMBOL_QUEUE_SEEN);
	bool later = is_local &&
		     (!entry || !entry->was_built || entry->state == SYMBOL_WORKING || entry->queue != SYMBOL_QUEUE_NONE);
	bool wants = !later && (!entry || entry->state == SYMBOL_PARTIAL || entry->state == SYMBOL_MISSING);
	struct symbol_entry *id = entries_find(s, build_id);
	struct symbol_content *noted = wants && id ? contents_note(s, id, content, path) : NULL;
	if (noted)
		noted->wanted_ns = time_monotonic_ns();
	pthread_mutex_unlock(&s->lock);
	if (ret_later)
		*ret_later = later;
	return wants;
}

bool symbolizer_names_kernel(struct symbolizer *s, const char *build_id)
{
	pthread_mutex_lock(&s->lock);
	const struct symbol_entry *entry = entries_find(s, build_id);
	bool names = entry && entry->was_built && entry->sources && entry->names_kernel;
	pthread_mutex_unlock(&s->lock);
	return names;
}

int symbolizer_retry(struct symbolizer *s, const char *build_id, struct error *err)
{
	debuginfod_forget(s->debuginfod, build_id);
	pthread_mutex_lock(&s->lock);
	struct symbol_entry *entry = build_id_is_valid(build_id) ? entries_find(s, build_id) : NULL;
	if (entry)
		build_anew(s, entry, SYMBOL_QUEUE_REQUESTED);
	pthread_mutex_unlock(&s->lock);
	return entry ? 0 : error_set(err, -ENOENT, "no binary with the build-id %.140s has been seen", build_id);
}

/* ---- status ---- */

const char *symbol_sources_text(uint32_t sources, char out[static 64])
{
	static const char *const names[] = {"dynsym", "symtab", "minidebug", "pclntab", "dwarf", "kallsyms"};
	size_t len = 0;
	out[0] = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (sources & (1u << i))
			len += (size_t)snprintf(out + len, 64 - len, "%s%s", len ? "," : "", names[i]);
	return out;
}

static void fill_status(const struct symbol_entry *entry, struct symbol_status *ret)
{
	*ret = (struct symbol_status){
		.state = entry->state,
		.sources = entry->sources,
		.samples = entry->samples,
		.first_seen_ns = entry->first_seen_ns,
		.last_seen_ns = entry->last_seen_ns,
		.built_ns = entry->built_ns,
		.functions = entry->functions,
		.ranges = entry->ranges,
		.rows = entry->rows,
		.table_bytes = entry->table_bytes,
		.input_bytes = entry->input_bytes,
		.memory_peak_bytes = entry->memory_peak_bytes,
		.build_ns = entry->build_ns,
		.cpu_ns = entry->cpu_ns,
	};
	const char *path = entry->path ? entry->path : "";
	size_t len = strlen(path), cut = len < sizeof(ret->path) ? 0 : len - sizeof(ret->path) + 1;
	snprintf(ret->path, sizeof(ret->path), "%s", path + cut);
	snprintf(ret->build_id, sizeof(ret->build_id), "%s", entry->by_path ? "" : entry->key);
	snprintf(ret->why, sizeof(ret->why), "%s", entry->why ? entry->why : "");
	snprintf(ret->from, sizeof(ret->from), "%s", entry->from ? entry->from : "");
	if (entry->state != SYMBOL_COMPLETE && entry->retry_ns)
		ret->retry_ns = time_now_ns() + (entry->retry_ns - time_monotonic_ns());
}

/* Without the lock. */
static void count_contents(struct symbolizer *s, struct symbol_status *status)
{
	bool is_hopeless;
	if (!status->build_id[0])
		return;
	status->contents = (uint32_t)others_count(s, status->build_id, &is_hopeless);
	size_t len = strlen(status->why);
	if (is_hopeless)
		snprintf(status->why + len, sizeof(status->why) - len,
			 "%sambiguous: too many different files have this id to be compared; its code has no names",
			 len ? "; " : "");
	else if (status->contents > 1)
		snprintf(status->why + len, sizeof(status->why) - len,
			 "%sambiguous: %u different files have this id; code that they name differently has no name",
			 len ? "; " : "", status->contents);
}

static bool is_wanted(const struct symbol_list_options *options, const struct symbol_entry *entry)
{
	if (entry->by_content)
		return false;
	if (options->states && !(options->states & (1u << entry->state)))
		return false;
	return !options->text || !options->text[0] || strstr(entry->key, options->text) ||
	       (entry->path && strstr(entry->path, options->text));
}

DEFINE_ORDER(compare_entries, struct symbol_entry *const, ORDER((*b)->samples, (*a)->samples) ?: strcmp((*a)->key, (*b)->key));

int symbolizer_list(struct symbolizer *s, const struct symbol_list_options *options, struct symbol_status **ret,
		    size_t *ret_count, size_t *ret_total, size_t ret_counts[SYMBOL_STATES], struct error *err)
{
	size_t counts[SYMBOL_STATES] = {0}, total = 0, count = 0;
	pthread_mutex_lock(&s->lock);
	_cleanup_(mem_freep) struct symbol_entry **all = mem_alloc_array(s->entry_count, sizeof(*all));
	for (struct symbol_entry *entry = all ? s->newest : NULL; entry; entry = entry->older) {
		counts[entry->state] += !entry->by_content;
		if (is_wanted(options, entry))
			all[total++] = entry;
	}
	sort_array(all, total, compare_entries);
	if (options->offset < total)
		count = total - options->offset;
	if (options->limit && count > options->limit)
		count = options->limit;
	struct symbol_status *list = all ? mem_alloc_array(count, sizeof(*list)) : NULL;
	for (size_t i = 0; list && i < count; i++)
		fill_status(all[options->offset + i], &list[i]);
	pthread_mutex_unlock(&s->lock);
	if (!list)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++)
		count_contents(s, &list[i]);
	*ret = list;
	*ret_count = count;
	if (ret_total)
		*ret_total = total;
	if (ret_counts)
		memcpy(ret_counts, counts, sizeof(counts));
	return 0;
}

void symbolizer_get_stats(struct symbolizer *s, struct symbolizer_stats *ret)
{
	pthread_mutex_lock(&s->lock);
	*ret = s->stats;
	ret->disk_bytes = s->disk_bytes;
	pthread_mutex_unlock(&s->lock);
}

/* ---- one binary ---- */

struct symbol_view {
	struct symbolizer *symbolizer;
	struct shared_table *shared;
	struct symbol_others others;
};

int symbolizer_view(struct symbolizer *s, const char *build_id, const char *path, const struct symbolizer_want *want,
		    struct symbol_view **ret, struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	char key[SYMBOL_KEY_MAX];
	struct shared_table *shared = NULL;
	bool pending = false;
	if (!jobs_key(s, build_id, path, key))
		return error_set(err, -ENOENT, "no symbols of %s", build_id[0] ? build_id : path);
	int r = jobs_acquire(s, key, path, &shared, &pending, err);
	if (r == 0 && pending && want && want->wait_ns) {
		const char *keys[] = {key};
		jobs_wait(s, keys, 1, want);
		r = jobs_acquire(s, key, path, &shared, &pending, err);
	}
	if (r < 0)
		return r;
	if (!shared)
		return error_set(err, -ENOENT, "no symbols of %s%s", build_id[0] ? build_id : path, pending ? " yet" : "");
	*ret = mem_alloc(sizeof(**ret));
	if (!*ret) {
		jobs_release(s, shared, 0, 0);
		return error_nomem(err);
	}
	**ret = (struct symbol_view){.symbolizer = s, .shared = shared};
	int waiting = build_id[0] ? others_acquire_wait(s, build_id, want, &(*ret)->others, err) : 0;
	if (waiting == 0)
		return 0;
	*ret = symbol_view_free(*ret);
	return waiting < 0 ? waiting : error_set(err, -ENOENT, "no symbols of %s yet", build_id);
}

struct symbol_view *symbol_view_free(struct symbol_view *view)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	if (!view)
		return NULL;
	others_release(view->symbolizer, &view->others);
	jobs_release(view->symbolizer, view->shared, 0, 0);
	return mem_free(view);
}

const struct symbol_table *symbol_view_table(const struct symbol_view *view)
{
	return view->shared->table;
}

bool symbol_view_address(const struct symbol_view *view, const struct symbol_place *place, uint64_t *ret_address)
{
	return symbol_place_to_address(view->shared->table, place, ret_address);
}

/* Another file of the id may have been laid out in another way. One that has no offsets has the addresses of its binary. */
static bool address_in(const struct symbol_view *view, const struct symbol_table *other, uint64_t address, uint64_t *ret)
{
	uint64_t offset;
	*ret = address;
	if ((symbol_table_flags(view->shared->table) | symbol_table_flags(other)) & SYMBOL_TABLE_NO_OFFSETS)
		return true;
	return symbol_table_address_to_offset(view->shared->table, address, &offset) &&
	       symbol_table_offset_to_address(other, offset, ret);
}

size_t symbol_view_contents(const struct symbol_view *view)
{
	return view->others.contents;
}

size_t symbol_view_frames(const struct symbol_view *view, uint64_t address, struct symbol_frame *ret, size_t max)
{
	uint32_t range = symbol_table_find(view->shared->table, address);
	size_t count = range == CODE_NONE ? 0 : symbol_table_frames(view->shared->table, address, range, ret, max);
	count = view->others.is_hopeless ? 0 : count;
	for (size_t i = 0; i < view->others.count; i++) {
		const struct symbol_table *other = view->others.tables[i]->table;
		uint64_t there;
		if (address_in(view, other, address, &there))
			count = others_reduce(&view->others, other, there, ret, count);
		else if (view->others.are_programs)
			count = 0;
	}
	return symbol_table_is_broken(view->shared->table) ? 0 : count;
}

bool symbol_view_bounds(const struct symbol_view *view, uint64_t address, uint64_t *ret_start, uint64_t *ret_end)
{
	uint32_t range = symbol_table_find(view->shared->table, address);
	struct symbol_frame frames[SYMBOL_FRAMES_MAX];
	if (range == CODE_NONE)
		return false;
	if (view->others.contents && symbol_view_frames(view, address, frames, SYMBOL_FRAMES_MAX) == 0)
		return false;
	symbol_table_bounds(view->shared->table, range, ret_start, ret_end);
	return !symbol_table_is_broken(view->shared->table);
}
