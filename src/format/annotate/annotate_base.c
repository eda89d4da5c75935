/* SPDX-License-Identifier: Apache-2.0 */
/* The first pass over the profile: what it is, its threads, from when to when it is, and which of the markers' strings it has.
 * All of it is checked to be JSON here, so that the second pass may copy. */
#include <errno.h>

#include "base/alloc.h"
#include "format/annotate/annotate_int.h"

struct pass {
	const struct annotate *annotate;
	struct base *base;
	struct json_scan *scan;
	struct error *err;
	struct arena *arena;
};

static void widen(struct base *base, int64_t ns)
{
	if (base->first_ns == ANNOTATE_UNKNOWN || ns < base->first_ns)
		base->first_ns = ns;
	if (base->last_ns == ANNOTATE_UNKNOWN || ns > base->last_ns)
		base->last_ns = ns;
}

/* The strings that markers refer to and that are here already. */
static int read_strings(struct pass *pass, size_t *ret_first, size_t *ret_known, size_t *ret_count)
{
	struct base *base = pass->base;
	struct bytes text;
	*ret_first = base->known_count;
	*ret_count = 0;
	int r = json_scan_open(pass->scan, '[');
	while (r == 0 && (r = json_scan_item(pass->scan)) > 0) {
		uint32_t id;
		bool is_text = json_scan_peek(pass->scan) == '"';
		r = is_text ? json_scan_text(pass->scan, &text) : json_scan_skip(pass->scan);
		if (r < 0)
			return r;
		if (*ret_count == LIMIT_PROFILE_ENTITIES)
			return annotate_room(-E2BIG, "strings", LIMIT_PROFILE_ENTITIES, pass->err);
		if (is_text && intern_find(&pass->annotate->strings, text.data, text.len, &id)) {
			if (array_push(&base->known, &base->known_count, &base->known_capacity, SIZE_MAX / 64,
				       (struct known_string){.id = id, .index = (uint32_t)*ret_count}) < 0)
				return error_nomem(pass->err);
		}
		++*ret_count;
	}
	*ret_known = base->known_count - *ret_first;
	return r;
}

static int read_shared(struct pass *pass)
{
	struct base *base = pass->base;
	struct bytes key;
	int r = json_scan_open(pass->scan, '{');
	while (r == 0 && (r = json_scan_member(pass->scan, &key)) > 0) {
		if (bytes_equal_string(key, "stringArray") && base->has_shared_strings)
			return json_scan_fail(pass->scan, "duplicate array stringArray");
		if (bytes_equal_string(key, "stringArray")) {
			base->has_shared_strings = true;
			r = read_strings(pass, &base->shared_first, &base->shared_count, &base->string_count);
		} else {
			r = json_scan_skip(pass->scan);
		}
	}
	return r;
}

/* ---- threads ---- */

static int read_times(struct pass *pass, struct base_thread *thread, bool deltas)
{
	int64_t now = 0, time;
	int r = json_scan_open(pass->scan, '[');
	while (r == 0 && (r = json_scan_item(pass->scan)) > 0) {
		r = json_scan_micro(pass->scan, &time);
		if (r < 0)
			return r;
		if (r == 1 || time < -1000000000000000000 || time > 1000000000000000000) {
			r = 0;
			continue;
		}
		if (deltas && __builtin_add_overflow(now, time, &now))
			return json_scan_fail(pass->scan, "a time is out of range");
		now = deltas ? now : time;
		if (thread->first_ns == ANNOTATE_UNKNOWN || now < thread->first_ns)
			thread->first_ns = now;
		if (thread->last_ns == ANNOTATE_UNKNOWN || now > thread->last_ns)
			thread->last_ns = now;
	}
	return r;
}

static int read_samples(struct pass *pass, struct base_thread *thread)
{
	struct bytes key;
	int r = json_scan_open(pass->scan, '{');
	while (r == 0 && (r = json_scan_member(pass->scan, &key)) > 0) {
		bool is_array = json_scan_peek(pass->scan) == '[', deltas = bytes_equal_string(key, "timeDeltas");
		r = is_array && (deltas || bytes_equal_string(key, "time")) ? read_times(pass, thread, deltas)
									    : json_scan_skip(pass->scan);
	}
	if (thread->first_ns != ANNOTATE_UNKNOWN) {
		widen(pass->base, thread->first_ns);
		widen(pass->base, thread->last_ns);
	}
	return r;
}

static int read_column(struct pass *pass, bool is_time, size_t *ret_count)
{
	int64_t time;
	int r = json_scan_open(pass->scan, '[');
	*ret_count = 0;
	while (r == 0 && (r = json_scan_item(pass->scan)) > 0) {
		r = is_time ? json_scan_micro(pass->scan, &time) : json_scan_skip(pass->scan);
		if (r < 0)
			return r;
		if (is_time && r == 0 && time > -1000000000000000000 && time < 1000000000000000000)
			widen(pass->base, time);
		r = 0;
		++*ret_count;
	}
	return r;
}

/* What is added to the end of each column must be in the same rows. */
static int read_markers(struct pass *pass)
{
	static const char *const needed[] = {"data", "name", "startTime", "endTime", "phase", "category", "length"};
	struct json_scan *scan = pass->scan;
	unsigned seen = 0;
	int64_t length = -1, count = -1;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0) {
		size_t rows;
		bool is_time = bytes_equal_string(key, "startTime") || bytes_equal_string(key, "endTime");
		for (unsigned i = 0; i < 7; i++) {
			if (!bytes_equal_string(key, needed[i]))
				continue;
			if (seen & 1u << i)
				return json_scan_fail(scan, "a marker table has a duplicate column");
			seen |= 1u << i;
		}
		if (json_scan_peek(scan) != '[') {
			bool is_length = bytes_equal_string(key, "length");
			r = is_length ? json_scan_integer(scan, &length) : json_scan_skip(scan);
			r = r > 0 ? 0 : r;
			continue;
		}
		r = read_column(pass, is_time, &rows);
		if (r == 0 && count >= 0 && (int64_t)rows != count)
			return json_scan_fail(scan, "the columns of a thread's markers differ in length");
		count = (int64_t)rows;
	}
	if (r == 0 && seen != 127)
		return json_scan_fail(scan, "a marker table is missing a column");
	if (r == 0 && length != count)
		return json_scan_fail(scan, "a marker table's length does not match its columns");
	return r;
}

static int read_bool(struct json_scan *scan, bool *ret)
{
	struct bytes raw;
	int r = json_scan_raw(scan, &raw);
	*ret = r == 0 && bytes_equal_string(raw, "true");
	return r;
}

static int read_member(struct pass *pass, struct bytes key, struct base_thread *thread)
{
	struct json_scan *scan = pass->scan;
	if (bytes_equal_string(key, "pid"))
		return annotate_read_id(scan, pass->arena, &thread->pid);
	if (bytes_equal_string(key, "tid"))
		return annotate_read_id(scan, pass->arena, &thread->tid);
	if (bytes_equal_string(key, "name"))
		return annotate_read_name(scan, pass->arena, &thread->name);
	if (bytes_equal_string(key, "processName"))
		return annotate_read_name(scan, pass->arena, &thread->process);
	if (bytes_equal_string(key, "registerTime"))
		return json_scan_micro(scan, &thread->registered_ns);
	if (bytes_equal_string(key, "unregisterTime"))
		return json_scan_micro(scan, &thread->unregistered_ns);
	if (bytes_equal_string(key, "isMainThread"))
		return read_bool(scan, &thread->is_main);
	if (bytes_equal_string(key, "showMarkersInTimeline")) {
		bool shown;
		thread->has_shown = true;
		return read_bool(scan, &shown);
	}
	if (bytes_equal_string(key, "samples") && json_scan_peek(scan) == '{')
		return read_samples(pass, thread);
	if (bytes_equal_string(key, "markers")) {
		if (thread->has_markers)
			return json_scan_fail(scan, "a thread has two marker tables");
		thread->has_markers = true;
		return read_markers(pass);
	}
	if (bytes_equal_string(key, "stringArray") && json_scan_peek(scan) == '[')
		return read_strings(pass, &thread->known_first, &thread->known_count, &thread->string_count);
	return json_scan_skip(scan);
}

static int read_thread(struct pass *pass)
{
	struct base *base = pass->base;
	struct base_thread thread = {.registered_ns = ANNOTATE_UNKNOWN,
				     .unregistered_ns = ANNOTATE_UNKNOWN,
				     .first_ns = ANNOTATE_UNKNOWN,
				     .last_ns = ANNOTATE_UNKNOWN,
				     .marked = ANNOTATE_NONE,
				     .next_same = ANNOTATE_NONE};
	struct bytes key;
	int r = json_scan_open(pass->scan, '{');
	while (r == 0 && (r = json_scan_member(pass->scan, &key)) > 0) {
		r = read_member(pass, key, &thread);
		if (r < 0)
			return r;
		r = 0;
	}
	if (r < 0)
		return r;
	/* 0 is when the profile began: the thread may have begun before. */
	if (thread.registered_ns <= 0)
		thread.registered_ns = ANNOTATE_UNKNOWN;
	else
		widen(base, thread.registered_ns);
	if (thread.unregistered_ns > 0)
		widen(base, thread.unregistered_ns);
	else
		thread.unregistered_ns = ANNOTATE_UNKNOWN;
	return annotate_room(
		array_push(&base->threads, &base->thread_count, &base->thread_capacity, ANNOTATE_THREADS_MAX, thread),
		"threads", ANNOTATE_THREADS_MAX, pass->err);
}

static int read_threads(struct pass *pass)
{
	int r = json_scan_open(pass->scan, '[');
	while (r == 0 && (r = json_scan_item(pass->scan)) > 0)
		r = read_thread(pass);
	return r;
}

/* ---- the whole ---- */

static int read_root(struct pass *pass)
{
	struct json_scan *scan = pass->scan;
	bool has_threads = false, has_shared = false;
	struct bytes key;
	int r = json_scan_open(scan, '{');
	while (r == 0 && (r = json_scan_member(scan, &key)) > 0) {
		char kind = json_scan_peek(scan);
		if (bytes_equal_string(key, "meta")) {
			r = annotate_read_meta(scan, &pass->base->meta_tree, pass->err);
		} else if (bytes_equal_string(key, "shared") && kind == '{') {
			if (has_shared)
				return json_scan_fail(scan, "duplicate object shared");
			has_shared = true;
			r = read_shared(pass);
		} else if (bytes_equal_string(key, "threads") && kind == '[') {
			if (has_threads)
				return json_scan_fail(scan, "duplicate array threads");
			has_threads = true;
			r = read_threads(pass);
		} else if (bytes_equal_string(key, "counters") && kind == '[') {
			if (pass->base->has_counters)
				return json_scan_fail(scan, "duplicate array counters");
			pass->base->has_counters = true;
			r = json_scan_skip(scan);
		} else {
			r = json_scan_skip(scan);
		}
	}
	if (r == 0 && !has_threads)
		return json_scan_fail(scan, "no array threads");
	return r < 0 ? r : json_scan_finish(scan);
}

static int read_meta(struct base *base, struct error *err)
{
	int64_t version;
	if (!base->meta_tree)
		return error_set(err, -EBADMSG, "no object meta");
	base->meta = json_tree_root(base->meta_tree);
	if (!json_node_integer(json_node_get(base->meta, "preprocessedProfileVersion"), &version))
		return error_set(
			err, -EBADMSG,
			"meta has no preprocessedProfileVersion: what Firefox itself writes is not a processed profile; open "
			"it in profiler.firefox.com and save it there");
	if (version < FIREFOX_ANNOTATE_FIRST || version > FIREFOX_LAST)
		return error_set(err, -ENOTSUP, "version %lld of the processed format is not supported; %d to %d are",
				 (long long)version, FIREFOX_ANNOTATE_FIRST, FIREFOX_LAST);
	base->version = (unsigned)version;
	annotate_read_start(base->meta, &base->wall_ns, &base->monotonic_ns);
	if (base->version >= FIREFOX_SHARED_STRINGS && !base->has_shared_strings)
		return error_set(err, -EBADMSG, "no shared.stringArray");
	/* Milliseconds since startTime: from when to when the recorder ran, which may be longer than there are samples. */
	const struct json_node *end = json_node_get(base->meta, "profilingEndTime"),
			       *start = json_node_get(base->meta, "profilingStartTime");
	double from, to;
	if (json_node_real(start, &from) && json_node_real(end, &to) && from >= 0 && from <= to && to < 1e12) {
		widen(base, (int64_t)(from * 1e6));
		widen(base, (int64_t)(to * 1e6));
	}
	return 0;
}

int annotate_read_base(const struct annotate *annotate, struct input *input, struct base *ret, struct error *err)
{
	struct json_scan scan;
	*ret = (struct base){
		.first_ns = ANNOTATE_UNKNOWN, .last_ns = ANNOTATE_UNKNOWN, .arena.max_bytes = LIMIT_PROFILE_STRING_BYTES};
	struct pass pass = {.annotate = annotate, .base = ret, .scan = &scan, .err = err, .arena = &ret->arena};
	int r = json_scan_init(&scan, input, err);
	if (r == 0)
		r = read_root(&pass);
	json_scan_release(&scan);
	return r < 0 ? r : read_meta(ret, err);
}

void base_release(struct base *base)
{
	json_tree_free(base->meta_tree);
	arena_release(&base->arena);
	mem_free(base->threads);
	mem_free(base->known);
	mem_free(base->schema_of);
	*base = (struct base){0};
}
