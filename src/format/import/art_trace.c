/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Method traces of Android's runtime, ART: of Debug.startMethodTracing(), `am profile` and Android Studio (*.trace), described
 * by art/runtime/trace.cc and tools/base/perflib's VmTraceParser.java.
 *
 *   text     "*version", 1 - 3, "KEY=VALUE" (clock=dual, pid=N ...), "*threads", "TID\tNAME", "*methods",
 *            "0xID\tCLASS\tMETHOD\tSIGNATURE[\tFILE[\tLINE]]", "*end"
 *   header   u32 "SLOW", u16 version, u16 bytes of the header, u64 start in us, version 3: u16 bytes of a record
 *   records  u16 thread (version 1: u8), u32 method and, in its low bits, 0 enter, 1 exit, 2 exit by an exception;
 *            u32 us since the start: of the thread's CPU, of the wall clock, or both in this order (clock=)
 *
 * In the streaming form, the header comes first (its version has 0xf0 set), and threads and methods are among the records,
 * which a u16 of 0 begins: u8 1, u16 bytes, a line as above; u8 2, u16 TID, u16 bytes, a name; u8 3, u32 bytes, the text at the
 * end.
 *
 * A trace says when methods were entered and left: the time in between two such events is that of the stack that was there. So
 * each event makes a sample of the stack before it, of as long as it was. What was entered and never left lasts until the last
 * event of the thread. Traces by sampling look the same.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/text.h"
#include "base/time.h"
#include "format/format_int.h"

#define SLOW	     0x574f4c53u
#define STREAMING    0xf0u
#define THREADS_MAX  65536
#define SEARCHED_MAX (1ull << 28)
#define ACTION_ENTER 0
#define ACTION_MASK  3u

enum clock { CLOCK_CPU, CLOCK_WALL, CLOCK_DUAL };

struct frame {
	uint32_t method, stack; /* stack: of the profile, with this frame */
};
struct thread {
	uint32_t tid, labels, name;
	struct frame *frames;
	size_t depth, capacity;
	uint32_t cpu_us, wall_us; /* of the last event */
	bool has_event;
};

struct reader {
	struct profile *profile;
	struct bytes rest; /* of the records */
	struct thread *threads;
	size_t thread_count, thread_capacity;
	struct map64 thread_of_tid, location_of_method;
	enum clock clock;
	unsigned version, record_bytes;
	int64_t start_us, pid;
	uint32_t tid_key, name_key;
	uint32_t last_us; /* of all events */
	uint64_t unmatched, unended, unknown_methods, cut;
	uint64_t searched; /* frames, for methods that were not among them */
};

static uint64_t number_at(const uint8_t *data, unsigned bytes)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)data[i] << (8 * i);
	return value;
}

/* ---- threads and methods ---- */

static int get_thread(struct reader *reader, uint32_t tid, struct thread **ret, struct error *err)
{
	uint64_t number;
	if (!map64_get(&reader->thread_of_tid, tid, &number)) {
		number = reader->thread_count;
		int r = array_push(&reader->threads, &reader->thread_count, &reader->thread_capacity, THREADS_MAX,
				   (struct thread){.tid = tid});
		if (r == -E2BIG)
			return error_set(err, r, "more than %d threads", THREADS_MAX);
		if (r < 0 || map64_put(&reader->thread_of_tid, tid, number) < 0)
			return error_nomem(err);
	}
	*ret = &reader->threads[number];
	return 0;
}

static int name_thread(struct reader *reader, uint32_t tid, struct bytes name, struct error *err)
{
	struct thread *thread;
	int r = get_thread(reader, tid, &thread, err);
	return r < 0 ? r : profile_add_bytes(reader->profile, name, &thread->name, err);
}

static bool parse_hex(struct bytes text, uint64_t *ret)
{
	*ret = 0;
	if (bytes_start_with(text, "0x"))
		text = bytes_skip(text, 2);
	for (size_t i = 0; i < text.len; i++) {
		int digit = text_hex_digit(text.data[i]);
		if (digit < 0 || *ret >> 32)
			return false;
		*ret = *ret << 4 | (uint64_t)digit;
	}
	return text.len > 0;
}

static bool parse_decimal(struct bytes text, int64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (!text_is_digit(text.data[i]) || *ret > INT32_MAX)
			return false;
		*ret = *ret * 10 + (text.data[i] - '0');
	}
	return text.len > 0;
}

/* "0xID CLASS METHOD SIGNATURE [FILE [LINE]]", with tabs between. */
static int add_method(struct reader *reader, struct bytes line, struct error *err)
{
	struct bytes id_text = format_take_column(&line), class = format_take_column(&line), method = format_take_column(&line);
	format_take_column(&line);
	struct bytes file = format_take_column(&line), line_text = format_take_column(&line);
	struct format_frame frame = {.file = file, .type = PROFILE_FRAME_JIT};
	_cleanup_(buffer_release) struct buffer name = {.max = LIMIT_PROFILE_INPUT_BYTES};
	uint64_t id;
	int64_t line_number;
	uint32_t location_id;
	if (!parse_hex(id_text, &id))
		return error_set(err, -EBADMSG, "a method has no id");
	if (buffer_append(&name, class.data, class.len) < 0 || buffer_append(&name, ".", class.len > 0) < 0 ||
	    buffer_append(&name, method.data, method.len) < 0)
		return error_nomem(err);
	frame.name = buffer_bytes(&name);
	if (parse_decimal(line_text, &line_number))
		frame.start_line = frame.line = line_number;
	int r = format_add_frame(reader->profile, &frame, &location_id, err);
	return r == 0 && map64_put(&reader->location_of_method, id & ~(uint64_t)ACTION_MASK, location_id) < 0 ? error_nomem(err)
													      : r;
}

static int location_of(struct reader *reader, uint32_t method, uint32_t *ret, struct error *err)
{
	struct profile_location location = {.frame_type = PROFILE_FRAME_JIT};
	if (format_known(&reader->location_of_method, method, ret))
		return 0;
	reader->unknown_methods++;
	int r = profile_add_location(reader->profile, &location, NULL, 0, ret, err);
	return r == 0 && map64_put(&reader->location_of_method, method, *ret) < 0 ? error_nomem(err) : r;
}

/* ---- the text ---- */

static void read_key(struct reader *reader, struct bytes line)
{
	if (bytes_equal_string(line, "clock=wall"))
		reader->clock = CLOCK_WALL;
	else if (bytes_equal_string(line, "clock=dual"))
		reader->clock = CLOCK_DUAL;
	else if (bytes_start_with(line, "pid="))
		parse_decimal(bytes_skip(line, 4), &reader->pid);
}

static int read_text_line(struct reader *reader, struct bytes section, struct bytes line, struct error *err)
{
	int64_t tid;
	if (bytes_equal_string(section, "*threads")) {
		if (!parse_decimal(format_take_column(&line), &tid) || tid > UINT16_MAX)
			return 0; /* threads beyond 65,535 have no place in records */
		return name_thread(reader, (uint32_t)tid, line, err);
	}
	if (bytes_equal_string(section, "*methods"))
		return add_method(reader, line, err);
	read_key(reader, line);
	return 0;
}

/* Up to "*end" or the end of the text. */
static int read_text(struct reader *reader, struct bytes *text, struct error *err)
{
	struct bytes section = {0};
	while (text->len > 0) {
		struct bytes line = bytes_take_line(text);
		if (bytes_equal_string(line, "*end"))
			return 0;
		if (line.len > 0 && line.data[0] == '*') {
			section = line;
			continue;
		}
		int r = read_text_line(reader, section, line, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- records ---- */

/* Of the streaming form again once the clock is known. */
static int check_record_bytes(const struct reader *reader, struct error *err)
{
	unsigned needed = (reader->version == 1 ? 5 : 6) + (reader->clock == CLOCK_DUAL ? 8 : 4);
	if (reader->record_bytes < needed)
		return error_set(err, -EBADMSG, "records of %u bytes have no room for their fields", reader->record_bytes);
	return 0;
}

static int read_header(struct reader *reader, bool is_streaming, struct error *err)
{
	const uint8_t *at = reader->rest.data;
	if (reader->rest.len < 16 || number_at(at, 4) != SLOW)
		return error_set(err, -EBADMSG, "the records do not begin with SLOW");
	unsigned header_bytes = (unsigned)number_at(at + 6, 2);
	reader->version = (unsigned)number_at(at + 4, 2) ^ (is_streaming ? STREAMING : 0);
	if (reader->version < 1 || reader->version > 3)
		return error_set(err, -ENOTSUP, "version %u of ART's traces is not supported; 1 to 3 are", reader->version);
	if (header_bytes < (reader->version < 3 ? 16u : 18u) || header_bytes > reader->rest.len)
		return error_set(err, -EBADMSG, "its header of %u bytes does not fit", header_bytes);
	reader->start_us = (int64_t)(number_at(at + 8, 8) & INT64_MAX);
	reader->record_bytes = reader->version == 1 ? 9 : reader->version == 2 ? 10 : (unsigned)number_at(at + 16, 2);
	reader->rest = bytes_skip(reader->rest, header_bytes);
	return check_record_bytes(reader, err);
}

/* The stack as it was since the thread's last event. */
static int add_time(struct reader *reader, struct thread *thread, uint32_t cpu_us, uint32_t wall_us, struct error *err)
{
	struct profile_sample sample = {.labels = thread->labels};
	int64_t cpu = (int64_t)(uint32_t)(cpu_us - thread->cpu_us) * NS_PER_US,
		wall = (int64_t)(uint32_t)(wall_us - thread->wall_us) * NS_PER_US;
	int64_t values[2] = {reader->clock == CLOCK_WALL ? wall : cpu, wall};
	int64_t at_us;
	bool has_event = thread->has_event;
	/* Threads' clocks may go back a little. */
	for (size_t i = 0; i < 2; i++)
		values[i] = values[i] > INT32_MAX * NS_PER_US ? 0 : values[i];
	if (!__builtin_add_overflow(reader->start_us, (int64_t)thread->wall_us, &at_us) && at_us < INT64_MAX / NS_PER_US)
		sample.time_ns = at_us * NS_PER_US;
	thread->cpu_us = cpu_us;
	thread->wall_us = wall_us;
	thread->has_event = true;
	if (!has_event || thread->depth == 0 || (values[0] == 0 && values[1] == 0))
		return 0;
	sample.stack = thread->frames[thread->depth - 1].stack;
	return profile_add_sample(reader->profile, &sample, values, err);
}

static int enter(struct reader *reader, struct thread *thread, uint32_t method, struct error *err)
{
	uint32_t location, stack, parent = thread->depth ? thread->frames[thread->depth - 1].stack : 0;
	if (thread->depth == LIMIT_STACK_DEPTH) {
		reader->cut++;
		return 0;
	}
	int r = location_of(reader, method, &location, err);
	if (r == 0)
		r = profile_add_stack(reader->profile, parent, location, &stack, err);
	if (r < 0)
		return r;
	return array_push(&thread->frames, &thread->depth, &thread->capacity, LIMIT_STACK_DEPTH,
			  (struct frame){method, stack}) < 0
		       ? error_nomem(err)
		       : 0;
}

/* Frames above one that is left have been left, too; a method that was entered before the trace began was not. */
static int leave(struct reader *reader, struct thread *thread, uint32_t method, struct error *err)
{
	size_t depth = thread->depth;
	while (depth > 0 && thread->frames[depth - 1].method != method)
		depth--;
	if (depth > 0) {
		thread->depth = depth - 1;
		return 0;
	}
	reader->unmatched++;
	reader->searched += thread->depth;
	return reader->searched > SEARCHED_MAX
		       ? error_set(err, -E2BIG, "too many ends of methods that did not begin, in deep stacks")
		       : 0;
}

/* Names of threads are known before any record, some threads have none. */
static int label_thread(struct reader *reader, struct thread *thread, struct error *err)
{
	struct profile_label labels[2] = {{0}, {.key = reader->name_key, .value = thread->name}};
	int r = profile_number_label(reader->profile, reader->tid_key, thread->tid, &labels[0], err);
	return r < 0 ? r : profile_add_label_set(reader->profile, labels, 1 + (thread->name != 0), &thread->labels, err);
}

static int read_record(struct reader *reader, const uint8_t *at, struct error *err)
{
	unsigned thread_bytes = reader->version == 1 ? 1 : 2;
	uint32_t tid = (uint32_t)number_at(at, thread_bytes), value = (uint32_t)number_at(at + thread_bytes, 4);
	uint32_t cpu = (uint32_t)number_at(at + thread_bytes + 4, 4), wall = cpu;
	struct thread *thread;
	if (reader->clock == CLOCK_DUAL)
		wall = (uint32_t)number_at(at + thread_bytes + 8, 4);
	if ((value & ACTION_MASK) > 2)
		return error_set(err, -EBADMSG, "unknown action %u", value & ACTION_MASK);
	reader->last_us = wall > reader->last_us ? wall : reader->last_us;
	int r = get_thread(reader, tid, &thread, err);
	if (r == 0 && !thread->labels)
		r = label_thread(reader, thread, err);
	if (r == 0)
		r = add_time(reader, thread, cpu, wall, err);
	if (r < 0)
		return r;
	if ((value & ACTION_MASK) == ACTION_ENTER)
		return enter(reader, thread, value & ~ACTION_MASK, err);
	return leave(reader, thread, value & ~ACTION_MASK, err);
}

/* What is among the records of the streaming form; moves *at behind it. 1: it was the summary, the last. */
static int read_special(struct reader *reader, size_t *at, bool is_first_pass, struct error *err)
{
	const uint8_t *data = reader->rest.data + *at;
	size_t left = reader->rest.len - *at;
	unsigned code = left >= 3 ? data[2] : 0, head = code == 1 ? 5 : 7;
	if (code < 1 || code > 3 || left < head)
		return error_set(err, -EBADMSG, "an entry of kind %u at byte %zu of the records", code, *at);
	uint64_t len = code == 1 ? number_at(data + 3, 2) : code == 2 ? number_at(data + 5, 2) : number_at(data + 3, 4);
	if (len > left - head)
		return error_set(err, -EBADMSG, "an entry reaches past the end of the file");
	struct bytes text = {data + head, len};
	int r = 0;
	*at += head + len;
	if (!is_first_pass)
		return code == 3;
	if (text.len > 0 && text.data[text.len - 1] == '\n')
		text.len--;
	if (code == 1)
		r = add_method(reader, text, err);
	else if (code == 2)
		r = name_thread(reader, (uint32_t)number_at(data + 3, 2), text, err);
	else
		r = read_text(reader, &text, err);
	return r < 0 ? r : code == 3;
}

/* The streaming form twice: which clock the times are of is at the end. */
static int read_streaming(struct reader *reader, bool is_first_pass, struct error *err)
{
	int r = 0;
	for (size_t at = 0; r == 0 && reader->rest.len - at >= 2;) {
		if (number_at(reader->rest.data + at, 2) == 0) {
			r = read_special(reader, &at, is_first_pass, err);
			continue;
		}
		if (reader->rest.len - at < reader->record_bytes)
			return error_set(err, -EBADMSG, "the last record is truncated");
		if (!is_first_pass)
			r = read_record(reader, reader->rest.data + at, err);
		at += reader->record_bytes;
	}
	return r < 0 ? r : 0;
}

static int read_regular(struct reader *reader, struct error *err)
{
	int r = 0;
	for (size_t at = 0; r == 0 && reader->rest.len - at >= reader->record_bytes; at += reader->record_bytes)
		r = read_record(reader, reader->rest.data + at, err);
	return r;
}

/* ---- all ---- */

static int add_types(struct reader *reader, struct error *err)
{
	int r = profile_add_named_type(reader->profile, reader->clock == CLOCK_WALL ? "wall" : "cpu", "nanoseconds", err);
	if (r == 0 && reader->clock == CLOCK_DUAL)
		r = profile_add_named_type(reader->profile, "wall", "nanoseconds", err);
	return r < 0 ? r : format_add_origin(reader->profile, (struct bytes){0}, reader->pid, err);
}

static void end_threads(struct reader *reader)
{
	for (size_t i = 0; i < reader->thread_count; i++)
		reader->unended += reader->threads[i].depth;
	reader->profile->duration_ns = (int64_t)reader->last_us * NS_PER_US;
}

static int read_all(struct reader *reader, struct bytes input, struct error *err)
{
	const struct format_string keys[] = {{"thread.id", &reader->tid_key}, {"thread.name", &reader->name_key}};
	bool is_streaming = input.len >= 4 && number_at(input.data, 4) == SLOW;
	reader->rest = input;
	int r = format_add_strings(reader->profile, keys, sizeof(keys) / sizeof(keys[0]), err);
	if (r == 0 && !is_streaming)
		r = read_text(reader, &reader->rest, err);
	if (r == 0)
		r = read_header(reader, is_streaming, err);
	if (r == 0 && is_streaming)
		r = read_streaming(reader, true, err);
	if (r == 0)
		r = check_record_bytes(reader, err);
	if (r == 0)
		r = add_types(reader, err);
	if (r == 0)
		r = is_streaming ? read_streaming(reader, false, err) : read_regular(reader, err);
	if (r == 0)
		end_threads(reader);
	return r;
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{reader->unmatched, "ends of methods that began before the trace"},
		{reader->unended, "methods without an end: they last until the last event of their thread"},
		{reader->unknown_methods, "methods: names, which the file does not have"},
		{reader->cut, "calls beyond the depth limit"},
	};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	struct reader reader = {0};
	map64_init_guarded(&reader.thread_of_tid);
	map64_init_guarded(&reader.location_of_method);
	int r = profile_new(&reader.profile, err);
	if (r == 0)
		r = read_all(&reader, input, err);
	if (r == 0)
		r = note(&reader, options, err);
	r = format_finish(r, reader.profile, ret);
	for (size_t i = 0; i < reader.thread_count; i++)
		mem_free(reader.threads[i].frames);
	mem_free(reader.threads);
	map64_release(&reader.thread_of_tid);
	map64_release(&reader.location_of_method);
	return r;
}

static bool detect(struct bytes input)
{
	if (bytes_start_with(input, "*version\n"))
		return input.len > 10 && input.data[9] >= '1' && input.data[9] <= '3' && input.data[10] == '\n';
	return input.len >= 16 && number_at(input.data, 4) == SLOW;
}

const struct format format_art_trace = {
	.name = "art-trace",
	.extensions = ".art-trace",
	.description = "method traces of Android's ART: Debug.startMethodTracing()",
	.detect = detect,
	.decode = decode,
};
