/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The markers of one process, from its shared file.
 *
 * What lies before the rings is mapped, for its numbers change hands as atomics; the file is sealed, so no page of it can go
 * away. Rings are copied with pread(). Everything that is read is a claim: numbers are read once into a local variable,
 * checked, and only then used; texts and records are copied first.
 *
 * Sites, texts and threads are looked up when the first record needs them, and remembered. A thread's entry belongs to its
 * owner until the ring is empty and the owner has ended; the next owner has another generation.
 *
 * The two ends of an asynchronous span come in any order, for their rings are emptied one after the other. Each becomes a
 * marker at once; when the second comes, the marker of the first becomes the whole span.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/markers/marker_recorder_int.h"
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/time.h"
#include "profile/downsample.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS   1034
#define F_SEAL_SHRINK 2
#endif
#define TMPFS_FILES   0x01021994
#define USER_HZ_NS    (NS_PER_S / 100)
#define VALUES_MAX    (WICKMARK_FIELD_COUNT + 2u)
#define CATEGORY_LOST "Lost"
/* Every ring has been read since, however slow it went. */
#define ASYNC_STALE_NS (2 * NS_PER_S)

#define LOAD(at)    __atomic_load_n((at), __ATOMIC_RELAXED)
#define ACQUIRE(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)

static struct wickmark_thread *threads_of(const struct marker_file *file)
{
	return (struct wickmark_thread *)((char *)file->header + WICKMARK_AT_THREADS);
}

/* ---- what all files add to ---- */

int marker_output_init(struct marker_output *output, struct marker_clock *clock, struct error *err)
{
	*output = (struct marker_output){
		.clock = clock, .max = MARKER_RECORDER_MAX, .values_max = MARKER_RECORDER_VALUES_MAX, .text_max = SIZE_MAX};
	output->copy = mem_alloc_array(WICKMARK_RECORDS, sizeof(*output->copy));
	if (!output->copy)
		return error_nomem(err);
	return profile_new(&output->profile, err);
}

void marker_output_release(struct marker_output *output)
{
	output->profile = profile_free(output->profile);
	output->copy = mem_free(output->copy);
}

int marker_output_renew(struct marker_output *output, struct profile **ret, struct error *err)
{
	struct profile *next;
	int r = profile_new(&next, err);
	if (r < 0)
		return r;
	*ret = output->profile;
	output->profile = next;
	output->lost_schema = output->lost_category = 0;
	output->text_bytes = 0;
	output->downsample = (struct marker_downsample){0};
	return 0;
}

static bool is_full(const struct marker_output *output)
{
	const struct profile_markers *markers = output->profile->markers;
	return markers && (markers->marker_count + markers->row_count >= output->max ||
			   markers->value_count + WICKMARK_FIELD_COUNT > output->values_max);
}

/* Whether there is a place for one more; one is made if need be. */
static int make_room(struct marker_output *output, bool *ret, struct error *err)
{
	int r = is_full(output) && !output->downsample.is_stuck ? marker_downsample(output, err) : 0;
	*ret = !is_full(output);
	return r;
}

static int add_marker(struct marker_output *output, const struct profile_marker *marker,
		      const struct profile_marker_value *values, struct error *err)
{
	bool has_room;
	int r = make_room(output, &has_room, err);
	if (r < 0)
		return r;
	output->stats.markers += has_room;
	output->stats.left_out += !has_room;
	return has_room ? profile_add_marker(output->profile, marker, values, err) : 0;
}

/* ---- opening ---- */

/* A file whose size may change could take its pages away under our feet. */
static int check_file(int fd, struct stat *ret, struct error *err)
{
	struct statfs system;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || fstat(fd, ret) < 0 || fstatfs(fd, &system) < 0 || system.f_type != TMPFS_FILES)
		return error_set(err, -EBADMSG, "not a memfd");
	if (!(seals & F_SEAL_SHRINK) || (uint64_t)ret->st_size != WICKMARK_FILE_BYTES)
		return error_set(err, -EBADMSG, "not sealed, or of an unexpected size");
	return 0;
}

static int open_file(struct marker_file *file, struct error *err)
{
	struct stat stat;
	int r = check_file(file->fd, &stat, err);
	if (r < 0)
		return r;
	file->device = stat.st_dev;
	file->inode = stat.st_ino;
	void *at = mmap(NULL, WICKMARK_AT_RINGS, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (at == MAP_FAILED)
		return error_set_errno(err, -EBADMSG, "cannot map the markers of process %d", (int)file->pid);
	file->header = at;
	if (ACQUIRE(&file->header->magic) == 0)
		return error_set(err, -EAGAIN, "not yet complete");
	uint32_t clock = LOAD(&file->header->clock);
	if (ACQUIRE(&file->header->magic) != WICKMARK_MAGIC || LOAD(&file->header->abi) != WICKMARK_ABI)
		return error_set(err, -EBADMSG, "unsupported version");
	if (clock != WICKMARK_CLOCK_MONOTONIC && clock != WICKMARK_CLOCK_TSC)
		return error_set(err, -EBADMSG, "unknown clock");
	file->clock = clock;
	return 0;
}

int marker_file_open(struct marker_output *output, int fd, pid_t pid, struct marker_file **ret, struct error *err)
{
	char name[256];
	_cleanup_(marker_file_freep) struct marker_file *file = mem_zalloc(sizeof(*file));
	if (!file) {
		io_close(fd);
		return error_nomem(err);
	}
	file->output = output;
	file->next = output->files;
	output->files = file;
	file->fd = fd;
	file->pid = pid;
	map64_init_guarded(&file->strings);
	map64_init_guarded(&file->asyncs);
	int r = open_file(file, err);
	if (r == 0) {
		file->own_pids = LOAD(&file->header->pid) != pid && marker_process_may_differ(pid);
		marker_process_name(pid, name, sizeof(name));
		r = profile_add_cstring(output->profile, name, &file->process, err);
	}
	if (r < 0)
		return r;
	*ret = TAKE(file);
	return 0;
}

struct marker_file *marker_file_free(struct marker_file *file)
{
	if (!file)
		return NULL;
	struct marker_file **link = &file->output->files;
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	if (file->header)
		munmap(file->header, WICKMARK_AT_RINGS);
	io_close(file->fd);
	map64_release(&file->strings);
	map64_release(&file->asyncs);
	mem_free(file->sites);
	mem_free(file->threads);
	return mem_free(file);
}

int marker_file_renew(struct marker_file *file, const struct profile *old, struct error *err)
{
	map64_release(&file->strings);
	map64_release(&file->asyncs);
	map64_init_guarded(&file->strings);
	map64_init_guarded(&file->asyncs);
	file->string_bytes = 0;
	for (size_t i = 0; i < file->site_count; i++)
		file->sites[i] = (struct marker_site){0};
	for (size_t i = 0; i < file->thread_count; i++)
		file->threads[i].id = 0;
	return profile_add_cstring(file->output->profile, profile_string(old, file->process), &file->process, err);
}

bool marker_file_is_of(const struct marker_file *file, pid_t pid)
{
	return LOAD(&file->header->pid) == marker_process_own_pid(pid);
}

static uint64_t lost_elsewhere(const struct marker_file *file)
{
	const struct wickmark_header *header = file->header;
	uint64_t sum;
	if (__builtin_add_overflow(LOAD(&header->lost_threads), LOAD(&header->lost_sites), &sum) ||
	    __builtin_add_overflow(sum, LOAD(&header->lost_longs), &sum))
		sum = UINT64_MAX;
	return sum;
}

static int reserve_threads(struct marker_file *file)
{
	uint32_t count = ACQUIRE(&file->header->thread_count);
	if (count > WICKMARK_THREADS)
		count = WICKMARK_THREADS;
	if (count <= file->thread_count)
		return 0;
	if (array_reserve(&file->threads, &file->thread_capacity, count, WICKMARK_THREADS) < 0)
		return -ENOMEM;
	memset(file->threads + file->thread_count, 0, (count - file->thread_count) * sizeof(*file->threads));
	file->thread_count = count;
	return 0;
}

/* The lease was another's, or nobody's: what was taken and lost until now is none of ours. */
static void begin_here(struct marker_file *file)
{
	if (reserve_threads(file) < 0) /* the next drain says so */
		return;
	for (uint32_t i = 0; i < file->thread_count; i++) {
		const struct wickmark_thread *shared = &threads_of(file)[i];
		file->threads[i].known = false;
		file->threads[i].skipped = LOAD(&shared->lost);
		file->threads[i].skipped_generation = LOAD(&shared->generation);
	}
	file->lost_elsewhere = lost_elsewhere(file);
}

/* Children that are forked from now on are handed over there. */
static void name_recorder(struct wickmark_header *header, const char *name)
{
	size_t len = name ? strlen(name) : 0;
	memset(header->recorder_name, 0, sizeof(header->recorder_name));
	if (len < sizeof(header->recorder_name))
		memcpy(header->recorder_name, name ? name : "", len);
}

bool marker_file_lease(struct marker_file *file, uint32_t recorder, uint64_t until_ns)
{
	struct wickmark_header *header = file->header;
	uint32_t holder = LOAD(&header->recorder), gives_way = recorder & WICKMARK_GIVES_WAY;
	bool is_alive = LOAD(&header->lease_ns) > (uint64_t)time_monotonic_ns();
	/* 0 with a lease is a process that has told the recorder which started it, and waits for that one. */
	bool is_taken = holder == 0 ? gives_way : holder != recorder && (gives_way || !(holder & WICKMARK_GIVES_WAY));
	if (is_alive && is_taken) {
		file->is_held = false;
		return false;
	}
	if (!file->is_held)
		name_recorder(header, file->output->recorder_name);
	bool was_ours = holder == recorder || (holder == 0 && LOAD(&header->enabled));
	if (!file->is_held && !was_ours)
		begin_here(file);
	file->is_held = true;
	__atomic_store_n(&header->recorder, recorder, __ATOMIC_RELAXED);
	__atomic_store_n(&header->lease_ns, until_ns, __ATOMIC_RELEASE);
	__atomic_store_n(&header->enabled, 1, __ATOMIC_RELEASE);
	return true;
}

void marker_file_switch_off(struct marker_file *file, uint32_t recorder)
{
	if (LOAD(&file->header->recorder) != recorder)
		return;
	__atomic_store_n(&file->header->enabled, 0, __ATOMIC_RELEASE);
	name_recorder(file->header, NULL);
	__atomic_store_n(&file->header->lease_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&file->header->recorder, 0, __ATOMIC_RELAXED);
}

/* ---- texts, sites, threads ---- */

/* A string of the file as one of the profile; 0 where there is none. */
static int find_string(struct marker_file *file, uint32_t offset, uint32_t *ret, struct error *err)
{
	char text[WICKMARK_STRING_MAX];
	uint64_t known;
	*ret = 0;
	if (offset == 0)
		return 0;
	if (map64_get(&file->strings, offset, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	uint32_t bytes = ACQUIRE(&file->header->string_bytes), len;
	const char *strings = (const char *)file->header + WICKMARK_AT_STRINGS;
	if (bytes > WICKMARK_STRING_BYTES || offset % 4 || bytes < 4 || offset > bytes - 4)
		return 0;
	len = LOAD((const uint32_t *)(strings + offset));
	/* Those of ours do not overlap, so that they are no more together than there is room. */
	if (len > WICKMARK_STRING_MAX || len > bytes - 4 - offset || len > WICKMARK_STRING_BYTES - file->string_bytes)
		return 0;
	if (len > file->output->text_max - file->output->text_bytes) {
		file->output->stats.malformed++;
		return 0;
	}
	file->string_bytes += len;
	file->output->text_bytes += len;
	memcpy(text, strings + offset + 4, len);
	int r = profile_add_string(file->output->profile, text, len, ret, err);
	if (r == 0 && map64_put(&file->strings, offset, *ret) < 0)
		r = error_nomem(err);
	return r;
}

static int read_fields(struct marker_file *file, const struct wickmark_site_entry *entry, struct marker_site *site,
		       struct profile_marker_field *fields, struct error *err)
{
	static const uint8_t formats[] = {PROFILE_FIELD_STRING,	    PROFILE_FIELD_INTEGER,  PROFILE_FIELD_DECIMAL,
					  PROFILE_FIELD_PERCENTAGE, PROFILE_FIELD_DURATION, PROFILE_FIELD_BYTES};
	int r = 0;
	site->field_count = entry->field_count <= WICKMARK_FIELD_COUNT ? entry->field_count : 0;
	for (uint32_t i = 0; r == 0 && i < site->field_count; i++) {
		uint32_t format = entry->fields[i].format;
		site->formats[i] = format < sizeof(formats) ? formats[format] : PROFILE_FIELD_INTEGER;
		fields[i] = (struct profile_marker_field){.format = site->formats[i]};
		r = find_string(file, entry->fields[i].key, &fields[i].key, err);
		if (r == 0)
			r = find_string(file, entry->fields[i].label, &fields[i].label, err);
	}
	return r;
}

static int read_site(struct marker_file *file, uint32_t number, struct marker_site *site, struct error *err)
{
	struct wickmark_site_entry entry;
	struct profile_marker_field fields[WICKMARK_FIELD_COUNT];
	struct profile *profile = file->output->profile;
	uint32_t category, color;
	memcpy(&entry, (const char *)file->header + WICKMARK_AT_SITES + (number - 1) * sizeof(entry), sizeof(entry));
	site->what = entry.what;
	int r = find_string(file, entry.name, &site->name, err);
	if (r == 0)
		r = find_string(file, entry.category, &category, err);
	if (r == 0)
		r = find_string(file, entry.color, &color, err);
	if (r == 0)
		r = find_string(file, entry.unit, &site->unit, err);
	if (r == 0)
		r = read_fields(file, &entry, site, fields, err);
	if (r < 0)
		return r;
	site->counter_category = category;
	site->color = color;
	if (site->what == WICKMARK_IS_MARKER) {
		r = profile_add_marker_category(profile, category, color, &site->category, err);
		if (r == 0)
			r = profile_add_marker_schema(profile, &(struct profile_marker_schema){.name = site->name}, fields,
						      site->field_count, &site->schema, err);
	}
	site->known = r == 0;
	return r;
}

/* *ret is NULL if there is no such site. */
static int find_site(struct marker_file *file, uint32_t number, struct marker_site **ret, struct error *err)
{
	*ret = NULL;
	uint32_t count = ACQUIRE(&file->header->site_count);
	if (number == 0 || number > count || number > WICKMARK_SITES)
		return 0;
	if (number > file->site_count) {
		if (array_reserve(&file->sites, &file->site_capacity, number, WICKMARK_SITES) < 0)
			return error_nomem(err);
		memset(file->sites + file->site_count, 0, (number - file->site_count) * sizeof(*file->sites));
		file->site_count = number;
	}
	*ret = &file->sites[number - 1];
	return (*ret)->known ? 0 : read_site(file, number, *ret, err);
}

/* Our number for a thread that calls itself tid. One that has ended can no longer be asked; that of the first one is known. */
static pid_t outer_tid(const struct marker_file *file, int32_t tid)
{
	if (!file->own_pids)
		return tid;
	pid_t outer = marker_process_outer_tid(file->pid, tid);
	if (outer > 0)
		return outer;
	return tid == LOAD(&file->header->pid) ? file->pid : tid;
}

static int64_t wall_of_start(const struct marker_file *file, uint64_t start)
{
	int64_t ns;
	if (start == 0 || start > INT64_MAX / USER_HZ_NS ||
	    __builtin_add_overflow((int64_t)start * USER_HZ_NS, file->output->clock->boot_ns, &ns))
		return 0;
	return ns;
}

/* tid: ours. */
static int add_thread(struct marker_file *file, int32_t tid, uint64_t start, const char *name, uint32_t *ret, struct error *err)
{
	struct profile_thread thread = {
		.pid = file->pid, .tid = tid, .start_ns = wall_of_start(file, start), .process = file->process};
	int r = profile_add_cstring(file->output->profile, name, &thread.name, err);
	return r < 0 ? r : profile_add_thread(file->output->profile, &thread, ret, err);
}

/* The owner of an entry: all of it is copied, and a name that is being changed is as good as the next one. */
static int read_thread(struct marker_file *file, uint32_t slot, struct marker_thread *thread, struct error *err)
{
	const struct wickmark_thread *shared = &threads_of(file)[slot];
	char name[WICKMARK_NAME_BYTES + 1] = "";
	memcpy(name, shared->name, WICKMARK_NAME_BYTES);
	return add_thread(file, thread->outer_tid, LOAD(&shared->start), name, &thread->id, err);
}

/* ---- records ---- */

struct record_values {
	uint64_t raw[VALUES_MAX];
	uint32_t count, name;
	uint64_t flow;
	bool flow_ends;
};

/* The values of a record and of those that continue it; false if it cannot be. */
static bool read_values(const struct wickmark_record *records, size_t left, const struct marker_site *site,
			struct record_values *ret)
{
	const struct wickmark_record *record = &records[0];
	uint32_t extra = record->value_count > 1 ? record->value_count - 1u : 0, at = extra;
	extra += !!(record->flags & WICKMARK_HAS_FLOW) + !!(record->flags & WICKMARK_HAS_NAME);
	*ret = (struct record_values){0};
	if (record->more >= left || record->more > WICKMARK_RECORDS_MORE || extra > record->more * WICKMARK_VALUES_MORE ||
	    record->value_count > WICKMARK_FIELD_COUNT)
		return false;
	uint64_t more[WICKMARK_RECORDS_MORE * WICKMARK_VALUES_MORE];
	memcpy(more, records + 1, record->more * sizeof(*records));
	if (record->value_count)
		ret->raw[0] = record->value;
	for (uint32_t i = 1; i < record->value_count; i++)
		ret->raw[i] = more[i - 1];
	/* A counter has one value, and no fields. */
	ret->count = record->value_count;
	if (ret->count > site->field_count && record->kind != WICKMARK_KIND_COUNTER)
		ret->count = site->field_count;
	if (record->flags & WICKMARK_HAS_FLOW) {
		ret->flow = more[at++];
		ret->flow_ends = record->flags & WICKMARK_FLOW_ENDS;
	}
	if (record->flags & WICKMARK_HAS_NAME)
		ret->name = (uint32_t)more[at];
	return true;
}

static int convert_values(struct marker_file *file, const struct marker_site *site, const struct record_values *values,
			  struct profile_marker_value *out, struct error *err)
{
	int r = 0;
	memset(out, 0, WICKMARK_FIELD_COUNT * sizeof(*out));
	for (uint32_t i = 0; r == 0 && i < values->count; i++) {
		double real;
		switch (site->formats[i]) {
		case PROFILE_FIELD_STRING:
			out[i].kind = PROFILE_VALUE_STRING;
			r = find_string(file, values->raw[i] <= UINT32_MAX ? (uint32_t)values->raw[i] : 0, &out[i].string, err);
			break;
		case PROFILE_FIELD_DECIMAL:
		case PROFILE_FIELD_PERCENTAGE:
			memcpy(&real, &values->raw[i], sizeof(real));
			out[i].kind = isfinite(real) ? PROFILE_VALUE_REAL : PROFILE_VALUE_NONE;
			if (isfinite(real))
				out[i].real = real;
			break;
		default:
			out[i] = (struct profile_marker_value){.kind = PROFILE_VALUE_NUMBER, .number = (int64_t)values->raw[i]};
		}
	}
	return r;
}

static int64_t within(const struct marker_clock *clock, int64_t ns)
{
	return ns < clock->begin_ns ? clock->begin_ns : ns > clock->end_ns ? clock->end_ns : ns;
}

static int keep_row(struct marker_file *file, struct marker_site *site, int64_t ns, double value, struct error *err)
{
	struct marker_output *output = file->output;
	bool has_room;
	int r = make_room(output, &has_room, err);
	output->stats.left_out += !has_room;
	if (r < 0 || !has_room)
		return r;
	if (!site->counter) {
		struct profile_counter counter = {.name = site->name,
						  .category = site->counter_category,
						  .unit = site->unit,
						  .color = site->color,
						  .kind = site->what == WICKMARK_IS_EVENTS ? PROFILE_COUNTER_EVENTS
											   : PROFILE_COUNTER_LEVEL,
						  .pid = file->pid};
		r = profile_add_counter(output->profile, &counter, &site->counter, err);
		if (r < 0)
			return r;
	}
	output->stats.rows++;
	return profile_add_counter_row(output->profile, site->counter, ns, value, err);
}

static int add_row(struct marker_file *file, struct marker_site *site, int64_t ns, uint64_t raw, struct error *err)
{
	struct marker_output *output = file->output;
	double value;
	memcpy(&value, &raw, sizeof(value));
	if (!isfinite(value)) {
		output->stats.malformed++;
		return 0;
	}
	if (site->what == WICKMARK_IS_EVENTS)
		value = profile_add_events(value, site->row_carry);
	if (++site->rows_seen & ((1ull << output->downsample.shifts[MARKER_CLASS_ROWS]) - 1)) {
		site->row_carry = value;
		output->stats.left_out++;
		return 0;
	}
	site->row_carry = 0;
	return keep_row(file, site, ns, value, err);
}

/* Of all ends of one site and id. */
static uint64_t key_of_async(const struct wickmark_record *record)
{
	return marker_async_key(hash64_mix(record->number ^ hash64_mix(record->site)));
}

/* Both ends of an asynchronous span as one marker, in the place of the one that came first. */
static void unite_ends(struct profile_markers *markers, struct profile_marker *have, const struct profile_marker *marker,
		       const struct profile_marker_value *values)
{
	bool is_begin = marker->phase == PROFILE_MARKER_START;
	uint32_t count = markers->schemas[have->schema].field_count;
	have->phase = PROFILE_MARKER_INTERVAL;
	have->of_process = true;
	have->flow = have->flow ? have->flow : marker->flow;
	have->flow_ends |= marker->flow_ends;
	if (is_begin) {
		have->start_ns = marker->start_ns;
		have->thread = marker->thread;
		have->name = marker->name;
	} else {
		have->end_ns = marker->end_ns;
	}
	for (uint32_t i = 0; i < count; i++)
		if (values[i].kind && (is_begin || !markers->values[have->value_first + i].kind))
			markers->values[have->value_first + i] = values[i];
}

/* How far apart two ends are that can be one span's; negative: they cannot. */
static int64_t distance_of_ends(const struct profile_marker *a, const struct profile_marker *b)
{
	const struct profile_marker *begin = a->phase == PROFILE_MARKER_START ? a : b, *end = begin == a ? b : a;
	if (begin->phase != PROFILE_MARKER_START || end->phase != PROFILE_MARKER_END || begin->schema != end->schema)
		return -1;
	return end->end_ns - begin->start_ns;
}

/* Ends of one site and id that wait for their others. They are numbered without gaps, and in file->asyncs. */
struct ends {
	uint64_t key, places[MARKER_ASYNCS_OF_ID];
	uint32_t count;
};

static struct ends find_ends(const struct marker_file *file, uint64_t key)
{
	struct ends ends = {.key = key};
	while (ends.count < MARKER_ASYNCS_OF_ID && map64_get(&file->asyncs, key + ends.count, &ends.places[ends.count]))
		ends.count++;
	return ends;
}

/* The number of the one that belongs to the marker; count = none. Rings are read one after the other, so that several may wait
 * whose id was used again: the nearest are one span's. */
static uint32_t find_other_end(const struct profile_markers *markers, const struct ends *ends,
			       const struct profile_marker *marker)
{
	int64_t nearest = INT64_MAX;
	uint32_t best = ends->count;
	for (uint32_t i = 0; i < ends->count; i++) {
		if (ends->places[i] >= markers->marker_count)
			continue;
		int64_t distance = distance_of_ends(&markers->markers[ends->places[i]], marker);
		if (distance >= 0 && distance < nearest) {
			nearest = distance;
			best = i;
		}
	}
	return best;
}

/* The number under which the marker waits; MARKER_ASYNCS_OF_ID = it does not. If there is no place any more, beginnings take
 * that of the first one, which may never end, and ends that of one whose beginning must have been read since. A later end must
 * not take that of an earlier one: a beginning would find the wrong one. */
static uint32_t choose_number(const struct profile_markers *markers, const struct ends *ends,
			      const struct profile_marker *marker)
{
	bool is_begin = marker->phase == PROFILE_MARKER_START;
	int64_t now_ns = is_begin ? marker->start_ns : marker->end_ns;
	uint32_t oldest = MARKER_ASYNCS_OF_ID;
	if (ends->count < MARKER_ASYNCS_OF_ID)
		return ends->count;
	for (uint32_t i = 0; i < ends->count; i++) {
		if (ends->places[i] >= markers->marker_count)
			return i;
		const struct profile_marker *have = &markers->markers[ends->places[i]];
		if (have->phase == PROFILE_MARKER_END && now_ns - have->end_ns > ASYNC_STALE_NS)
			return i;
		bool is_older = oldest == MARKER_ASYNCS_OF_ID || ends->places[i] < ends->places[oldest];
		if (is_begin && have->phase == PROFILE_MARKER_START && is_older)
			oldest = i;
	}
	return oldest;
}

/* Takes one end of an asynchronous span: the marker of the other becomes the whole, which takes no room; or it becomes a marker
 * that is remembered. */
static int take_end(struct marker_file *file, const struct wickmark_record *record, const struct profile_marker *marker,
		    const struct profile_marker_value *values, struct error *err)
{
	struct profile_markers *markers = file->output->profile->markers;
	struct ends ends = find_ends(file, key_of_async(record));
	uint32_t other = find_other_end(markers, &ends, marker), last = ends.count - 1;
	if (other < ends.count) {
		unite_ends(markers, &markers->markers[ends.places[other]], marker, values);
		map64_remove(&file->asyncs, ends.key + last);
		int r = other < last ? map64_put(&file->asyncs, ends.key + other, ends.places[last]) : 0;
		return r < 0 ? error_nomem(err) : 0;
	}
	uint32_t number = choose_number(markers, &ends, marker);
	if (number < MARKER_ASYNCS_OF_ID && !is_full(file->output) &&
	    map64_put(&file->asyncs, ends.key + number, profile_marker_count(file->output->profile)) < 0)
		return error_nomem(err);
	return add_marker(file->output, marker, values, err);
}

/* Times of the kinds; false if the marker lies outside the recording. */
static bool set_times(struct marker_file *file, const struct wickmark_record *record, struct profile_marker *marker)
{
	const struct marker_clock *clock = file->output->clock;
	int64_t begin = marker_clock_wall_ns(clock, file->clock, record->time), end = begin;
	uint64_t ticks;
	if (record->kind == WICKMARK_KIND_SPAN)
		end = __builtin_add_overflow(record->time, record->number, &ticks)
			      ? INT64_MAX
			      : marker_clock_wall_ns(clock, file->clock, ticks);
	if (end < clock->begin_ns || clock->end_ns < clock->begin_ns)
		return false;
	begin = within(clock, begin);
	end = within(clock, end);
	switch (record->kind) {
	case WICKMARK_KIND_SPAN:
		marker->phase = PROFILE_MARKER_INTERVAL;
		marker->end_ns = end;
		break;
	case WICKMARK_KIND_ASYNC_BEGIN: marker->phase = PROFILE_MARKER_START; break;
	case WICKMARK_KIND_ASYNC_END:
		marker->phase = PROFILE_MARKER_END;
		marker->end_ns = begin;
		begin = 0;
		break;
	default: marker->phase = PROFILE_MARKER_INSTANT;
	}
	marker->start_ns = begin;
	return true;
}

/* One record and those that continue it. Returns how many, or negative. */
static int take_record(struct marker_file *file, const struct marker_thread *thread, const struct wickmark_record *records,
		       size_t left, struct error *err)
{
	struct marker_output *output = file->output;
	const struct wickmark_record *record = &records[0];
	struct profile_marker_value values[WICKMARK_FIELD_COUNT];
	struct record_values raw;
	struct marker_site *site;
	struct profile_marker marker = {.thread = thread->id};
	int r = find_site(file, record->site, &site, err);
	if (r < 0)
		return r;
	bool is_counter = record->kind == WICKMARK_KIND_COUNTER;
	if (!site || record->kind == 0 || record->kind > WICKMARK_KIND_COUNTER || !read_values(records, left, site, &raw) ||
	    is_counter != (site->what != WICKMARK_IS_MARKER)) {
		output->stats.malformed++;
		return 1;
	}
	int taken = 1 + record->more;
	if (!set_times(file, record, &marker))
		return taken;
	if (is_counter) {
		r = add_row(file, site, marker.start_ns, raw.raw[0], err);
		return r < 0 ? r : taken;
	}
	marker.schema = site->schema;
	marker.category = site->category;
	marker.name = site->name;
	marker.flow = raw.flow;
	marker.flow_ends = raw.flow_ends;
	if (raw.name)
		r = find_string(file, raw.name, &marker.name, err);
	if (r == 0)
		r = convert_values(file, site, &raw, values, err);
	bool is_async = marker.phase == PROFILE_MARKER_START || marker.phase == PROFILE_MARKER_END, has_room;
	if (r == 0 && !marker_downsample_keeps(&output->downsample, marker_class(&marker),
					       is_async ? key_of_async(record) : marker.flow)) {
		output->stats.left_out++;
		return taken;
	}
	/* Before a place of a marker is remembered, which may change when room is made. */
	if (r == 0)
		r = make_room(output, &has_room, err);
	if (r == 0 && is_async)
		r = take_end(file, record, &marker, values, err);
	else if (r == 0)
		r = add_marker(output, &marker, values, err);
	return r < 0 ? r : taken;
}

/* ---- rings ---- */

static int copy_ring(struct marker_file *file, uint32_t slot, uint64_t from, size_t count)
{
	uint64_t ring = WICKMARK_AT_RINGS + (uint64_t)slot * WICKMARK_RING_BYTES;
	size_t done = 0;
	while (done < count) {
		uint64_t place = (from + done) % WICKMARK_RECORDS;
		size_t part = count - done, to_end = (size_t)(WICKMARK_RECORDS - place);
		if (part > to_end)
			part = to_end;
		size_t bytes = part * sizeof(struct wickmark_record);
		ssize_t n = pread(file->fd, file->output->copy + done, bytes,
				  (off_t)(ring + place * sizeof(struct wickmark_record)));
		if (n != (ssize_t)bytes)
			return -EIO;
		done += part;
	}
	return 0;
}

static int add_lost_marker(struct marker_file *file, uint32_t thread, uint64_t count, struct error *err)
{
	struct marker_output *output = file->output;
	struct profile *profile = output->profile;
	char text[64];
	uint32_t key = 0;
	struct profile_marker marker = {.thread = thread, .start_ns = output->clock->end_ns};
	struct profile_marker_value value = {.kind = PROFILE_VALUE_NUMBER, .number = (int64_t)(count & INT64_MAX)};
	if (output->clock->end_ns < output->clock->begin_ns) /* it has not begun */
		return 0;
	if (__builtin_add_overflow(output->stats.lost, count, &output->stats.lost))
		output->stats.lost = UINT64_MAX;
	if (is_full(output)) /* the count is in stats.lost; this is none of the program's markers */
		return 0;
	snprintf(text, sizeof(text), "lost %llu", (unsigned long long)count);
	int r = profile_add_cstring(profile, text, &marker.name, err);
	if (r == 0 && !output->lost_schema) {
		struct profile_marker_schema schema = {0};
		r = profile_add_cstring(profile, "lost markers", &schema.name, err);
		if (r == 0)
			r = profile_add_cstring(profile, "count", &key, err);
		struct profile_marker_field field = {.key = key, .format = PROFILE_FIELD_INTEGER};
		if (r == 0)
			r = profile_add_marker_schema(profile, &schema, &field, 1, &output->lost_schema, err);
		if (r == 0)
			r = profile_add_cstring(profile, CATEGORY_LOST, &key, err);
		if (r == 0)
			r = profile_add_marker_category(profile, key, 0, &output->lost_category, err);
	}
	marker.schema = output->lost_schema;
	marker.category = output->lost_category;
	return r < 0 ? r : profile_add_marker(profile, &marker, &value, err);
}

static int take_ring(struct marker_file *file, uint32_t slot, struct marker_thread *thread, uint64_t head, struct error *err)
{
	struct marker_output *output = file->output;
	uint64_t count = head - thread->tail;
	int r = 0;
	if (count > WICKMARK_RECORDS) {
		/* No writer of ours does that. */
		output->stats.malformed++;
		thread->tail = head;
		return 0;
	}
	if (count > file->fill)
		file->fill = (uint32_t)count;
	/* The recording reaches to what is about to be read, and what the clocks showed then is known: emptying the rings
	 * before took its time. */
	if (marker_clock_tick(output->clock) < 0)
		return error_nomem(err);
	if (copy_ring(file, slot, thread->tail, (size_t)count) < 0)
		count = 0;
	for (size_t i = 0; i < count && r >= 0;) {
		r = take_record(file, thread, output->copy + i, (size_t)count - i, err);
		i += r > 0 ? (size_t)r : 1;
	}
	thread->tail = head;
	return r < 0 ? r : 0;
}

static int drain_thread(struct marker_file *file, uint32_t slot, struct error *err)
{
	struct wickmark_thread *shared = &threads_of(file)[slot];
	struct marker_thread *thread = &file->threads[slot];
	uint32_t state = ACQUIRE(&shared->state), generation = LOAD(&shared->generation);
	if (state != WICKMARK_ACTIVE && state != WICKMARK_ENDED)
		return 0;
	uint64_t head = ACQUIRE(&shared->head), lost = LOAD(&shared->lost);
	int r = 0;
	if (!thread->known || thread->generation != generation) {
		if (!thread->known)
			thread->tail = LOAD(&shared->tail);
		thread->generation = generation;
		thread->known = true;
		thread->reported = thread->skipped_generation == generation && thread->skipped <= lost ? thread->skipped : 0;
		thread->id = 0;
		thread->tid = LOAD(&shared->tid);
		thread->outer_tid = outer_tid(file, thread->tid);
	}
	if (!thread->id && (head != thread->tail || lost > thread->reported))
		r = read_thread(file, slot, thread, err);
	if (r == 0 && head != thread->tail)
		r = take_ring(file, slot, thread, head, err);
	if (r == 0 && lost > thread->reported) {
		r = add_lost_marker(file, thread->id, lost - thread->reported, err);
		thread->reported = lost;
	}
	if (r < 0)
		return r;
	__atomic_store_n(&shared->tail, thread->tail, __ATOMIC_RELEASE);
	/* Its owner writes no more; the last name counts. */
	if (state == WICKMARK_ENDED) {
		if (thread->id)
			r = read_thread(file, slot, thread, err);
		__atomic_compare_exchange_n(&shared->state, &state, WICKMARK_FREE, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	}
	return r;
}

static int drain_elsewhere(struct marker_file *file, struct error *err)
{
	uint64_t sum = lost_elsewhere(file), lost;
	uint32_t thread;
	if (sum <= file->lost_elsewhere)
		return 0;
	lost = sum - file->lost_elsewhere;
	file->lost_elsewhere = sum;
	int r = add_thread(file, file->pid, 0, "", &thread, err);
	return r < 0 ? r : add_lost_marker(file, thread, lost, err);
}

int marker_file_drain(struct marker_file *file, struct error *err)
{
	if (reserve_threads(file) < 0)
		return error_nomem(err);
	file->fill = 0;
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < file->thread_count; i++)
		r = drain_thread(file, i, err);
	return r < 0 ? r : drain_elsewhere(file, err);
}

/* ---- spans under way ---- */

static int thread_of_tid(struct marker_file *file, int32_t tid, uint32_t *ret, struct error *err)
{
	for (size_t i = 0; i < file->thread_count; i++)
		if (file->threads[i].known && file->threads[i].tid == tid) {
			int r = file->threads[i].id ? 0 : read_thread(file, (uint32_t)i, &file->threads[i], err);
			*ret = file->threads[i].id;
			return r;
		}
	pid_t outer = outer_tid(file, tid);
	return add_thread(file, outer, marker_process_thread_start(file->pid, outer), "", ret, err);
}

static int take_long(struct marker_file *file, const struct wickmark_long *span, struct error *err)
{
	struct marker_clock *clock = file->output->clock;
	struct profile_marker marker = {.phase = PROFILE_MARKER_INTERVAL, .end_ns = clock->end_ns, .of_process = true};
	struct profile_marker_value values[WICKMARK_FIELD_COUNT];
	struct record_values raw = {.raw = {span->value}, .count = span->value_count > 0};
	struct marker_site *site;
	int r = find_site(file, span->site, &site, err);
	if (r < 0)
		return r;
	if (!site || site->what != WICKMARK_IS_MARKER) {
		file->output->stats.malformed++;
		return 0;
	}
	if (raw.count > site->field_count)
		raw.count = site->field_count;
	marker.start_ns = within(clock, marker_clock_wall_ns(clock, file->clock, span->start));
	if (marker.start_ns < clock->taken_ns)
		marker.start_ns = clock->taken_ns;
	marker.schema = site->schema;
	marker.category = site->category;
	marker.name = site->name;
	r = thread_of_tid(file, span->tid, &marker.thread, err);
	if (r == 0 && span->name)
		r = find_string(file, span->name, &marker.name, err);
	if (r == 0)
		r = convert_values(file, site, &raw, values, err);
	return r < 0 ? r : add_marker(file->output, &marker, values, err);
}

int marker_file_finish(struct marker_file *file, struct error *err)
{
	if (file->output->clock->end_ns < file->output->clock->begin_ns) /* it ended before the recording began */
		return 0;
	const struct wickmark_long *longs = (const struct wickmark_long *)((char *)file->header + WICKMARK_AT_LONGS);
	uint32_t count = ACQUIRE(&file->header->long_count);
	int r = 0;
	for (size_t i = 0; r == 0 && i < file->site_count; i++)
		if (file->sites[i].what == WICKMARK_IS_EVENTS && file->sites[i].row_carry != 0) {
			r = keep_row(file, &file->sites[i], file->output->clock->end_ns, file->sites[i].row_carry, err);
			file->sites[i].row_carry = 0;
			file->output->stats.left_out--; /* they were counted */
		}
	/* Who takes all the time gets each of them once, when it ends. */
	for (uint32_t i = 0; r == 0 && !file->output->is_continuous && i < count && i < WICKMARK_LONGS; i++) {
		struct wickmark_long span;
		uint64_t start = ACQUIRE(&longs[i].start);
		memcpy(&span, &longs[i], sizeof(span));
		span.start = start;
		if (start != 0 && start != UINT64_MAX)
			r = take_long(file, &span, err);
	}
	return r;
}
