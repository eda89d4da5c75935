/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Android's simpleperf, what `simpleperf report-sample --protobuf` writes and Android Studio saves (*.trace):
 *
 *   "SIMPLEPERF", u16 version 1, then records: u32 bytes, a message Record; a size of 0 ends them. All little-endian
 *   (system/extras/simpleperf/cmd_report_sample.proto)
 *
 *   Record    1 sample  2 lost  3 file  4 thread  5 meta  6 context switch
 *   Sample    1 time  2 thread  3 callchain (leaf first) { 1 address in the file  2 file  3 symbol (-1 = unknown)
 *             4 0 native, 1 interpreted, 2 JIT, 3 ART }  4 event count  5 event type  6 unwinding result
 *   Lost      1 samples  2 lost                     File  1 id  2 path  3 symbols  4 mangled symbols
 *   Thread    1 thread  2 process  3 name           Meta  1 event types  2 package ...
 *
 * Files and threads mostly come behind the samples that refer to them, so the records are walked twice. Times are those of the
 * monotonic clock. The recordings of simpleperf themselves (perf.data) are read as perf's.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "codec/protobuf.h"
#include "format/format_int.h"

#define MAGIC	    "SIMPLEPERF"
#define MAGIC_BYTES 10
#define VERSION	    1
#define EVENTS_MAX  (LIMIT_SAMPLE_TYPES - 1)
#define FILES_MAX   (1u << 20)

struct symbol {
	struct bytes name, mangled;
	uint32_t function; /* once it is used */
};
struct file {
	uint32_t mapping, frame_type;
	size_t first, count; /* of symbols */
};

struct reader {
	struct profile *profile;
	struct file *files;
	size_t file_count, file_capacity;
	struct symbol *symbols;
	size_t symbol_count, symbol_capacity;
	struct map64 number_of_file, labels_of_thread;
	struct bytes events[EVENTS_MAX + 1];
	size_t event_count; /* 0 = not told: one without a name */
	uint32_t pid_key, tid_key, thread_key, event_key;
	uint32_t event_names[EVENTS_MAX];
	uint32_t frames[LIMIT_STACK_DEPTH];
	size_t frame_count;
	uint64_t first_ns, last_ns;
	uint64_t lost, switches, broken, cut, dangling;
};

/* ---- records ---- */

typedef int (*record_fn)(struct reader *reader, struct pb_cursor record, struct error *err);

static int each_record(struct reader *reader, struct bytes input, record_fn read, struct error *err)
{
	size_t at = MAGIC_BYTES + 2;
	while (input.len - at >= 4) {
		const uint8_t *bytes = input.data + at;
		uint32_t size =
			(uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
		at += 4;
		if (size == 0)
			return 0;
		if (size > input.len - at)
			return error_set(err, -EBADMSG, "truncated: the record at byte %zu is longer than the file", at);
		struct pb_cursor cursor = {input.data + at, input.data + at + size, input.data};
		int r = read(reader, cursor, err);
		if (r < 0)
			return error_prefix(err, r, "record at byte %zu", at);
		at += size;
	}
	return error_set(err, -EBADMSG, "truncated: the records have no end");
}

/* ---- files, threads, events ---- */

static uint32_t frame_type_of(struct bytes path)
{
	bool is_module = path.len > 3 && memcmp(path.data + path.len - 3, ".ko", 3) == 0;
	return format_is_kernel_file(path) || is_module ? PROFILE_FRAME_KERNEL : PROFILE_FRAME_NATIVE;
}

static int add_symbol(struct reader *reader, struct bytes name, struct error *err)
{
	int r = array_push(&reader->symbols, &reader->symbol_count, &reader->symbol_capacity, LIMIT_PROFILE_ENTITIES,
			   (struct symbol){.name = name});
	if (r == -E2BIG)
		return error_set(err, r, "more than %u symbols, the limit", LIMIT_PROFILE_ENTITIES);
	return r < 0 ? error_nomem(err) : 0;
}

static int read_file(struct reader *reader, struct pb_cursor cursor, struct error *err)
{
	struct file file = {.first = reader->symbol_count};
	struct profile_mapping mapping = {.flags = PROFILE_MAPPING_HAS_FUNCTIONS};
	struct bytes path = {0};
	struct pb_field field;
	uint64_t id = 0;
	size_t mangled = file.first;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		r = field.number <= 4 ? pb_expect(&cursor, &field, field.number == 1 ? PB_VARINT : PB_BYTES, "File", err) : 0;
		if (r == 0 && field.number == 3)
			r = add_symbol(reader, field.bytes, err);
		if (r < 0)
			return r;
		if (field.number == 1)
			id = field.value;
		else if (field.number == 2)
			path = field.bytes;
		else if (field.number == 4 && mangled < reader->symbol_count)
			reader->symbols[mangled++].mangled = field.bytes;
	}
	file.count = reader->symbol_count - file.first;
	file.frame_type = frame_type_of(path);
	if (r == 0)
		r = profile_add_bytes(reader->profile, path, &mapping.file_name, err);
	if (r == 0)
		r = profile_add_mapping(reader->profile, &mapping, &file.mapping, err);
	if (r < 0)
		return r;
	if (map64_put(&reader->number_of_file, id, reader->file_count) < 0)
		return error_nomem(err);
	r = array_push(&reader->files, &reader->file_count, &reader->file_capacity, FILES_MAX, file);
	return r == -E2BIG ? error_set(err, r, "more than %u files, the limit", FILES_MAX) : r < 0 ? error_nomem(err) : 0;
}

static int add_thread(struct reader *reader, uint64_t tid, uint64_t pid, struct bytes name, struct error *err)
{
	struct profile_label labels[3];
	size_t count = 0;
	uint32_t text, set;
	int r = profile_add_bytes(reader->profile, name, &text, err);
	if (r == 0)
		r = profile_number_label(reader->profile, reader->tid_key, (int32_t)tid, &labels[count++], err);
	if (r == 0 && pid)
		r = profile_number_label(reader->profile, reader->pid_key, (int32_t)pid, &labels[count++], err);
	if (r == 0 && text)
		labels[count++] = (struct profile_label){.key = reader->thread_key, .value = text};
	if (r == 0)
		r = profile_add_label_set(reader->profile, labels, count, &set, err);
	return r == 0 && map64_put(&reader->labels_of_thread, tid, set) < 0 ? error_nomem(err) : r;
}

static int read_thread(struct reader *reader, struct pb_cursor cursor, struct error *err)
{
	uint64_t ids[3] = {0};
	struct bytes name = {0};
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		r = field.number <= 3 ? pb_expect(&cursor, &field, field.number == 3 ? PB_BYTES : PB_VARINT, "Thread", err) : 0;
		if (r < 0)
			return r;
		if (field.number == 3)
			name = field.bytes;
		else if (field.number < 3)
			ids[field.number] = field.value;
	}
	return r < 0 ? r : add_thread(reader, ids[1], ids[2], name, err);
}

static int read_meta(struct reader *reader, struct pb_cursor cursor, struct error *err)
{
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		r = field.number <= 2 ? pb_expect(&cursor, &field, PB_BYTES, "MetaInfo", err) : 0;
		if (r < 0)
			return r;
		if (field.number == 1 && reader->event_count == EVENTS_MAX)
			return error_set(err, -E2BIG, "more than %d types of events", EVENTS_MAX);
		if (field.number == 1)
			reader->events[reader->event_count++] = field.bytes;
		else if (field.number == 2)
			r = format_add_origin(reader->profile, field.bytes, 0, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int read_lost(struct reader *reader, struct pb_cursor cursor, struct error *err)
{
	uint64_t v[3] = {0};
	int r = format_read_varints(&cursor, "LostSituation", v, 2, err);
	reader->lost += v[2];
	return r;
}

/* All that samples refer to. */
static int read_others(struct reader *reader, struct pb_cursor record, struct error *err)
{
	struct pb_field field;
	int r;
	while ((r = pb_next(&record, &field, err)) > 0) {
		if (field.number < 2 || field.number > 6)
			continue;
		r = pb_expect(&record, &field, PB_BYTES, "Record", err);
		if (r < 0)
			return r;
		struct pb_cursor nested = pb_open_nested(&record, field.bytes);
		switch (field.number) {
		case 2: r = read_lost(reader, nested, err); break;
		case 3: r = read_file(reader, nested, err); break;
		case 4: r = read_thread(reader, nested, err); break;
		case 5: r = read_meta(reader, nested, err); break;
		default: reader->switches++;
		}
		if (r < 0)
			return r;
	}
	return r;
}

/* ---- samples ---- */

static int function_of(struct reader *reader, struct symbol *symbol, uint32_t *ret, struct error *err)
{
	struct profile_function function = {0};
	if (!symbol->function) {
		struct bytes system = symbol->mangled.len ? symbol->mangled : symbol->name;
		int r = profile_add_bytes(reader->profile, symbol->name, &function.name, err);
		if (r == 0)
			r = profile_add_bytes(reader->profile, system, &function.system_name, err);
		if (r == 0)
			r = profile_add_function(reader->profile, &function, &symbol->function, err);
		if (r < 0)
			return r;
	}
	*ret = symbol->function;
	return 0;
}

static int add_frame(struct reader *reader, const uint64_t v[5], struct error *err)
{
	struct profile_location location = {.address = v[1], .frame_type = PROFILE_FRAME_NATIVE};
	struct profile_line line = {0};
	const struct file *file = NULL;
	uint64_t number;
	int32_t symbol = (int32_t)v[3];
	if (map64_get(&reader->number_of_file, v[2], &number)) {
		file = &reader->files[number];
		location.mapping = file->mapping;
		location.frame_type = file->frame_type;
	} else {
		reader->dangling++;
	}
	if (v[4] == 1 || v[4] == 2)
		location.frame_type = v[4] == 1 ? PROFILE_FRAME_INTERPRETED : PROFILE_FRAME_JIT;
	bool has_symbol = file && symbol >= 0 && (size_t)symbol < file->count;
	reader->dangling += file && symbol >= 0 && !has_symbol;
	int r = has_symbol ? function_of(reader, &reader->symbols[file->first + (size_t)symbol], &line.function, err) : 0;
	return r < 0 ? r
		     : profile_add_location(reader->profile, &location, &line, has_symbol,
					    &reader->frames[reader->frame_count++], err);
}

static int read_entry(struct reader *reader, struct pb_cursor cursor, struct error *err)
{
	/* Without a symbol the field is there, and says -1. */
	uint64_t v[5] = {0};
	int r = format_read_varints(&cursor, "CallChainEntry", v, 4, err);
	if (r < 0)
		return r;
	if (reader->frame_count == LIMIT_STACK_DEPTH) {
		reader->cut++;
		return 0;
	}
	return add_frame(reader, v, err);
}

static int labels_of(struct reader *reader, uint64_t tid, uint64_t event, uint32_t *ret, struct error *err)
{
	struct profile_label labels[4];
	size_t count = 0;
	uint64_t set = 0;
	int r = 0;
	if (!map64_get(&reader->labels_of_thread, tid, &set)) {
		r = add_thread(reader, tid, 0, (struct bytes){0}, err);
		map64_get(&reader->labels_of_thread, tid, &set);
	}
	*ret = (uint32_t)set;
	if (r < 0 || reader->event_count < 2)
		return r;
	const struct profile_label_set *known = &reader->profile->label_sets[set];
	for (; count < known->count; count++)
		labels[count] = reader->profile->labels[known->first + count];
	labels[count++] = (struct profile_label){.key = reader->event_key, .value = reader->event_names[event]};
	return profile_add_label_set(reader->profile, labels, count, ret, err);
}

static int add_sample(struct reader *reader, const uint64_t v[6], struct error *err)
{
	struct profile_sample sample = {.time_ns = v[1] > INT64_MAX ? INT64_MAX : (int64_t)v[1]};
	int64_t values[LIMIT_SAMPLE_TYPES] = {1};
	size_t types = reader->event_count ? reader->event_count : 1;
	bool is_known = v[5] < types;
	reader->dangling += !is_known;
	values[1 + (is_known ? v[5] : 0)] = (int64_t)v[4];
	if (v[1] && (!reader->first_ns || v[1] < reader->first_ns))
		reader->first_ns = v[1];
	reader->last_ns = v[1] > reader->last_ns ? v[1] : reader->last_ns;
	int r = profile_add_stack_leaf_first(reader->profile, reader->frames, reader->frame_count, &sample.stack, err);
	if (r == 0)
		r = labels_of(reader, v[2], is_known ? v[5] : 0, &sample.labels, err);
	return r < 0 ? r : profile_add_sample(reader->profile, &sample, values, err);
}

static int read_sample(struct reader *reader, struct pb_cursor cursor, struct error *err)
{
	uint64_t v[6] = {0};
	struct pb_field field;
	int r;
	reader->frame_count = 0;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		bool is_message = field.number == 3 || field.number == 6;
		if (field.number > 6)
			continue;
		r = pb_expect(&cursor, &field, is_message ? PB_BYTES : PB_VARINT, "Sample", err);
		if (r == 0 && field.number == 3)
			r = read_entry(reader, pb_open_nested(&cursor, field.bytes), err);
		if (r < 0)
			return r;
		reader->broken += field.number == 6;
		if (!is_message)
			v[field.number] = field.value;
	}
	return r < 0 ? r : add_sample(reader, v, err);
}

static int read_samples(struct reader *reader, struct pb_cursor record, struct error *err)
{
	struct pb_field field;
	int r;
	while ((r = pb_next(&record, &field, err)) > 0) {
		if (field.number != 1)
			continue;
		r = pb_expect(&record, &field, PB_BYTES, "Record.sample", err);
		if (r == 0)
			r = read_sample(reader, pb_open_nested(&record, field.bytes), err);
		if (r < 0)
			return r;
	}
	return r;
}

/* ---- all ---- */

static bool is_clock(struct bytes event)
{
	return bytes_start_with(event, "cpu-clock") || bytes_start_with(event, "task-clock");
}

static int add_types(struct reader *reader, struct error *err)
{
	struct profile *profile = reader->profile;
	int r = profile_add_named_type(profile, "samples", "count", err);
	if (r == 0 && reader->event_count == 0)
		r = profile_add_named_type(profile, "events", "count", err);
	for (size_t i = 0; r == 0 && i < reader->event_count; i++) {
		uint32_t unit;
		r = profile_add_bytes(profile, reader->events[i], &reader->event_names[i], err);
		if (r == 0)
			r = profile_add_cstring(profile, is_clock(reader->events[i]) ? "nanoseconds" : "count", &unit, err);
		if (r == 0)
			r = profile_add_sample_type(profile, reader->event_names[i], unit, err);
	}
	if (r == 0) {
		profile->default_sample_type = profile->sample_types[1].type;
		profile->period_type = profile->sample_types[1];
	}
	return r;
}

static int read_all(struct reader *reader, struct bytes input, struct error *err)
{
	const struct format_string keys[] = {{"process.pid", &reader->pid_key},
					     {"thread.id", &reader->tid_key},
					     {"thread.name", &reader->thread_key},
					     {"event", &reader->event_key}};
	unsigned version = input.len >= MAGIC_BYTES + 2 ? input.data[MAGIC_BYTES] | input.data[MAGIC_BYTES + 1] << 8 : 0;
	if (input.len < MAGIC_BYTES + 2 || memcmp(input.data, MAGIC, MAGIC_BYTES) != 0)
		return error_set(err, -EBADMSG, "not a report of simpleperf");
	if (version != VERSION)
		return error_set(err, -ENOTSUP, "version %u of simpleperf's format is not supported; %d is", version, VERSION);
	int r = format_add_strings(reader->profile, keys, sizeof(keys) / sizeof(keys[0]), err);
	if (r == 0)
		r = each_record(reader, input, read_others, err);
	if (r == 0)
		r = add_types(reader, err);
	if (r == 0)
		r = each_record(reader, input, read_samples, err);
	if (r < 0 || !reader->last_ns)
		return r;
	reader->profile->duration_ns = (int64_t)((reader->last_ns - reader->first_ns) & INT64_MAX);
	reader->profile->monotonic_ns = PROFILE_OTHER_CLOCK;
	return 0;
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{reader->lost, "samples that were lost while recording"},
		{reader->broken, "stacks: outermost frames that could not be unwound"},
		{reader->cut, "frames beyond the depth limit"},
		{reader->dangling, "references to files, symbols or events that are not in the file"},
		{reader->switches, "context switches"},
	};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	map64_init_guarded(&reader->number_of_file);
	map64_init_guarded(&reader->labels_of_thread);
	int r = profile_new(&reader->profile, err);
	if (r == 0)
		r = read_all(reader, input, err);
	if (r == 0)
		r = note(reader, options, err);
	r = format_finish(r, reader->profile, ret);
	map64_release(&reader->number_of_file);
	map64_release(&reader->labels_of_thread);
	mem_free(reader->files);
	mem_free(reader->symbols);
	mem_free(reader);
	return r;
}

static bool detect(struct bytes input)
{
	return bytes_start_with(input, MAGIC);
}

const struct format format_simpleperf = {
	.name = "simpleperf",
	.extensions = ".simpleperf",
	.description = "Android's simpleperf: report-sample --protobuf, Android Studio",
	.detect = detect,
	.decode = decode,
};
