/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JFR, the recordings of Java's Flight Recorder and of async-profiler. There is no specification; jdk.jfr.internal.consumer of
 * OpenJDK reads them and hotspot/share/jfr/recorder writes them.
 *
 *   a file   chunks, one after the other, each complete in itself
 *   a chunk  "FLR\0", u16 version, minor, u64 size, u64 last checkpoint, u64 metadata, u64 start (ns since 1970), u64 duration,
 *            u64 start in ticks, u64 ticks a second, u32 features (1: numbers are LEB128); then events
 *   an event its size, the id of its class, its fields
 *   class 0  the metadata: strings, and a tree of elements that describes the classes and their fields
 *   class 1  a checkpoint: constants, by class and key, that fields of events and of other constants refer to
 *
 * All is big-endian. A field is a number, a string (of six encodings), an object in place, the key of a constant, or an array
 * of these. A stack is a constant, of frames in place, whose methods, classes and names are constants in turn.
 *
 * The table below defines which events are samples, and of what; each gives how many there were and what they stand for: the
 * time between samples (of the recording's settings), bytes, or how long it took. A value of another event is zero. Names are
 * those that Pyroscope has for the same. Frames are "package.Class.method"; those that the compiler inlined join the one that
 * they are inlined into. Which checkpoints belong together is not looked at: all of a chunk are read, since keys are unique in
 * it. What an event began with may be a constant of the chunk before.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "format/jfr/jfr_int.h"

#define COMMAND_BYTES_MAX 16384
#define INTERVAL_DEFAULT  (10 * NS_PER_MS) /* async-profiler's */

/* What an event stands for. */
enum amount { AMOUNT_PERIOD, AMOUNT_DURATION, AMOUNT_FIELD };
static const struct kind {
	const char *event, *count, *value, *unit;
	enum amount amount;
	const char *field; /* AMOUNT_FIELD: which; AMOUNT_PERIOD: how many samples it is, if there is such a field */
} kinds[] = {
	{"jdk.ExecutionSample", "samples", "cpu", "nanoseconds", AMOUNT_PERIOD, NULL},
	{"profiler.WallClockSample", "wall_samples", "wall", "nanoseconds", AMOUNT_PERIOD, "samples"},
	{"jdk.NativeMethodSample", "native_samples", "native", "nanoseconds", AMOUNT_PERIOD, NULL},
	{"jdk.ObjectAllocationInNewTLAB", "alloc_in_new_tlab_objects", "alloc_in_new_tlab_bytes", "bytes", AMOUNT_FIELD,
	 "tlabSize"},
	{"jdk.ObjectAllocationOutsideTLAB", "alloc_outside_tlab_objects", "alloc_outside_tlab_bytes", "bytes", AMOUNT_FIELD,
	 "allocationSize"},
	{"jdk.ObjectAllocationSample", "alloc_sample_objects", "alloc_sample_bytes", "bytes", AMOUNT_FIELD, "weight"},
	{"jdk.JavaMonitorEnter", "mutex_contentions", "mutex_delay", "nanoseconds", AMOUNT_DURATION, NULL},
	{"jdk.ThreadPark", "block_contentions", "block_delay", "nanoseconds", AMOUNT_DURATION, NULL},
	{"profiler.LiveObject", "live", "live_bytes", "bytes", AMOUNT_FIELD, "allocationSize"},
	{"profiler.Malloc", "malloc_objects", "malloc_bytes", "bytes", AMOUNT_FIELD, "size"},
};
#define KINDS	  (sizeof(kinds) / sizeof(kinds[0]))
#define KIND_CPU  0
#define KIND_WALL 1
_Static_assert(2 * KINDS <= LIMIT_SAMPLE_TYPES, "each kind has two values");

struct reader {
	struct jfr_walk walk;
	uint64_t counts[KINDS]; /* of events in the file */
	size_t columns[KINDS];
	uint64_t other_events, no_stack;
	uint32_t thread_name, thread_id, process_pid, executable, java;
	int64_t pid;
	uint32_t command; /* string */
	/* of the chunk */
	int64_t periods_ns[KINDS];
	bool is_wall; /* async-profiler, -e wall: all samples are by the clock on the wall */
};

/* KINDS if it is none. */
static size_t kind_of(const struct jfr_class *class)
{
	size_t kind = 0;
	while (kind < KINDS && !(class && bytes_equal_string(class->name, kinds[kind].event)))
		kind++;
	return kind;
}

/* ---- settings ---- */

/* "20 ms" */
static int64_t parse_period(const char *text)
{
	static const struct {
		const char *unit;
		int64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", NS_PER_MS}, {"s", NS_PER_S}, {"m", 60 * NS_PER_S}};
	int64_t value = 0;
	while (*text >= '0' && *text <= '9' && value < INT64_MAX / 100 / NS_PER_S)
		value = value * 10 + (*text++ - '0');
	while (*text == ' ')
		text++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(text, units[i].unit) == 0 && value < INT64_MAX / units[i].ns)
			return value * units[i].ns;
	return *text ? 0 : value;
}

static void read_setting(struct reader *reader, struct jfr_value event)
{
	struct jfr_chunk *chunk = &reader->walk.here->chunk;
	int64_t id = jfr_number(jfr_get(chunk, event, "id"));
	if (!jfr_string(chunk, jfr_get(chunk, event, "name"), &reader->walk.name) ||
	    !jfr_string(chunk, jfr_get(chunk, event, "value"), &reader->walk.text))
		return;
	struct bytes name = buffer_bytes(&reader->walk.name);
	const char *value = buffer_string(&reader->walk.text);
	size_t kind = kind_of(jfr_class_by_id(chunk, (uint64_t)id));
	if (!value)
		return;
	if (bytes_equal_string(name, "period") && kind < KINDS)
		reader->periods_ns[kind] = parse_period(value);
	else if (bytes_equal_string(name, "event"))
		reader->is_wall = strcmp(value, "wall") == 0;
	else if (bytes_equal_string(name, "interval"))
		reader->periods_ns[KIND_CPU] = parse_period(value) ? parse_period(value) : INTERVAL_DEFAULT;
	else if (bytes_equal_string(name, "wall"))
		reader->periods_ns[KIND_WALL] = parse_period(value);
}

static int read_machine(struct reader *reader, struct jfr_value event, struct error *err)
{
	struct jfr_chunk *chunk = &reader->walk.here->chunk;
	int64_t pid = jfr_number(jfr_get(chunk, event, "pid"));
	reader->pid = pid > 0 ? pid : reader->pid;
	if (!jfr_string(chunk, jfr_get(chunk, event, "javaArguments"), &reader->walk.text))
		return 0;
	size_t len = text_cut(buffer_bytes(&reader->walk.text), COMMAND_BYTES_MAX);
	return profile_add_string(reader->walk.profile, reader->walk.text.data, len, &reader->command, err);
}

/* ---- threads ---- */

static int add_thread(struct reader *reader, struct jfr_value thread, uint32_t *ret, struct error *err)
{
	struct jfr_chunk *chunk = &reader->walk.here->chunk;
	struct profile_label labels[2];
	size_t count = 0;
	int64_t id = jfr_number(jfr_get(chunk, thread, "osThreadId"));
	id = id ? id : jfr_number(jfr_get(chunk, thread, "javaThreadId"));
	if (id)
		labels[count++] = (struct profile_label){.key = reader->thread_id, .number = id};
	if ((jfr_string(chunk, jfr_get(chunk, thread, "javaName"), &reader->walk.text) && reader->walk.text.len > 0) ||
	    (jfr_string(chunk, jfr_get(chunk, thread, "osName"), &reader->walk.text) && reader->walk.text.len > 0)) {
		labels[count] = (struct profile_label){.key = reader->thread_name};
		int r = profile_add_bytes(reader->walk.profile, buffer_bytes(&reader->walk.text), &labels[count++].value, err);
		if (r < 0)
			return r;
	}
	return profile_add_label_set(reader->walk.profile, labels, count, ret, err);
}

static int read_thread(struct reader *reader, struct jfr_value event, uint32_t *ret, struct error *err)
{
	struct jfr_walk *walk = &reader->walk;
	uint64_t key;
	struct jfr_value thread = jfr_get_keyed(&walk->here->chunk, event, "sampledThread", &key);
	if (!thread.class && key == 0)
		thread = jfr_get_keyed(&walk->here->chunk, event, "eventThread", &key);
	bool entered = jfr_walk_enter(walk, walk->before->thread_class, key, &thread);
	int r = 0;
	*ret = 0;
	if (thread.class && !format_known(&walk->here->threads, key, ret)) {
		r = add_thread(reader, thread, ret, err);
		if (r == 0 && map64_put(&walk->here->threads, key, *ret) < 0)
			r = error_nomem(err);
	}
	jfr_walk_leave(walk, entered);
	return r;
}

/* ---- events ---- */

static void read_amounts(struct reader *reader, size_t kind, struct jfr_value event, int64_t ret[2])
{
	struct jfr_chunk *chunk = &reader->walk.here->chunk;
	struct jfr_value field = {0};
	ret[0] = 1;
	switch (kinds[kind].amount) {
	case AMOUNT_PERIOD:
		if (kinds[kind].field)
			field = jfr_get(chunk, event, kinds[kind].field);
		if (field.class)
			ret[0] = jfr_number(field);
		if (__builtin_mul_overflow(ret[0], reader->periods_ns[kind], &ret[1]))
			ret[1] = INT64_MAX;
		break;
	case AMOUNT_DURATION: ret[1] = jfr_nanoseconds(chunk, jfr_number(jfr_get(chunk, event, "duration"))); break;
	default: ret[1] = jfr_number(jfr_get(chunk, event, kinds[kind].field));
	}
}

static int read_sample(struct reader *reader, size_t kind, struct jfr_value event, struct error *err)
{
	int64_t values[LIMIT_SAMPLE_TYPES] = {0};
	struct jfr_chunk *chunk = &reader->walk.here->chunk;
	struct profile_sample sample = {0};
	int64_t ticks = jfr_number(jfr_get(chunk, event, "startTime")), since;
	if (__builtin_sub_overflow(ticks, (int64_t)chunk->start_ticks, &since))
		since = 0;
	if (__builtin_add_overflow(chunk->start_ns, jfr_nanoseconds(chunk, since), &sample.time_ns))
		sample.time_ns = 0;
	uint64_t key;
	struct jfr_value trace = jfr_get_keyed(chunk, event, "stackTrace", &key);
	int r = jfr_walk_stack(&reader->walk, trace, key, &sample.stack, err);
	reader->no_stack += r > 0;
	if (r >= 0)
		r = read_thread(reader, event, &sample.labels, err);
	if (r < 0)
		return r;
	read_amounts(reader, kind, event, &values[reader->columns[kind]]);
	return profile_add_sample(reader->walk.profile, &sample, values, err);
}

static int on_setting(void *context, struct jfr_value event, struct error *err)
{
	struct reader *reader = context;
	if (bytes_equal_string(event.class->name, "jdk.ActiveSetting"))
		read_setting(reader, event);
	else if (bytes_equal_string(event.class->name, "jdk.JVMInformation"))
		return read_machine(reader, event, err);
	return 0;
}

static size_t kind_of_event(const struct reader *reader, const struct jfr_class *class)
{
	size_t kind = kind_of(class);
	return kind == KIND_CPU && reader->is_wall ? KIND_WALL : kind;
}

static int on_count(void *context, struct jfr_value event, struct error *err)
{
	struct reader *reader = context;
	size_t kind = kind_of_event(reader, event.class);
	*(kind < KINDS ? &reader->counts[kind] : &reader->other_events) += 1;
	return 0;
}

static int on_sample(void *context, struct jfr_value event, struct error *err)
{
	struct reader *reader = context;
	size_t kind = kind_of_event(reader, event.class);
	return kind < KINDS ? read_sample(reader, kind, event, err) : 0;
}

/* ---- all ---- */

static int on_chunk(void *context, struct error *err)
{
	struct reader *reader = context;
	memset(reader->periods_ns, 0, sizeof(reader->periods_ns));
	reader->is_wall = false;
	return 0;
}

static int add_types(struct reader *reader, struct error *err)
{
	struct profile *profile = reader->walk.profile;
	int r = 0;
	for (size_t i = 0; r == 0 && i < KINDS; i++) {
		if (reader->counts[i] == 0)
			continue;
		reader->columns[i] = profile->sample_type_count;
		r = profile_add_named_type(profile, kinds[i].count, "count", err);
		if (r == 0)
			r = profile_add_named_type(profile, kinds[i].value, kinds[i].unit, err);
		if (r == 0 && profile->sample_type_count == 2) {
			profile->default_sample_type = profile->sample_types[1].type;
			profile->period_type = profile->sample_types[1];
			profile->period = kinds[i].amount == AMOUNT_PERIOD ? reader->periods_ns[i] : 0;
		}
	}
	return r == 0 && profile->sample_type_count == 0 ? profile_add_named_type(profile, "samples", "count", err) : r;
}

static int add_origin(struct reader *reader, struct error *err)
{
	struct profile *profile = reader->walk.profile;
	struct profile_label labels[2] = {{.key = reader->executable, .value = reader->java},
					  {.key = reader->process_pid, .number = reader->pid}};
	int r = profile_add_label_set(profile, labels, 1 + (reader->pid != 0), &profile->resource_labels, err);
	if (r == 0 && reader->command)
		r = profile_add_comment(profile, reader->command, err);
	profile->time_ns = reader->walk.first_ns;
	profile->duration_ns = jfr_walk_duration(&reader->walk);
	return r;
}

static int read_all(struct reader *reader, struct bytes input, struct error *err)
{
	static const struct jfr_visitor counting = {on_chunk, on_setting, on_count},
					sampling = {on_chunk, on_setting, on_sample};
	const struct format_string names[] = {{"thread.name", &reader->thread_name},
					      {"thread.id", &reader->thread_id},
					      {"process.pid", &reader->process_pid},
					      {"process.executable.name", &reader->executable},
					      {"java", &reader->java}};
	int r = format_add_strings(reader->walk.profile, names, sizeof(names) / sizeof(names[0]), err);
	if (r == 0)
		r = jfr_walk_chunks(&reader->walk, input, &counting, reader, err);
	if (r == 0)
		r = add_types(reader, err);
	if (r == 0)
		r = jfr_walk_chunks(&reader->walk, input, &sampling, reader, err);
	return r < 0 ? r : add_origin(reader, err);
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{reader->other_events, "events other than samples"},
		{reader->walk.cut_stacks, "stacks: outermost frames, cut by the recorder or by the limit"},
		{reader->no_stack, "samples without a stack"},
	};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

int jfr_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	int r = jfr_walk_init(&reader->walk, JFR_NAMES_DOTTED, err);
	if (r == 0)
		r = read_all(reader, input, err);
	if (r == 0)
		r = note(reader, options, err);
	if (r == 0)
		*ret = TAKE(reader->walk.profile);
	jfr_walk_release(&reader->walk);
	mem_free(reader);
	return r;
}

static bool detect(struct bytes input)
{
	return input.len >= 8 && memcmp(input.data, "FLR", 4) == 0;
}

const struct format format_jfr = {
	.name = "jfr",
	.extensions = ".jfr",
	.description = "recordings of Java's Flight Recorder and async-profiler",
	.detect = detect,
	.decode = jfr_decode,
};
