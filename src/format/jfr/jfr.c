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

#define TEXT_MAX	  65536 /* of a name */
#define COMMAND_BYTES_MAX 16384
#define INTERVAL_DEFAULT  (10 * NS_PER_MS) /* async-profiler's */
#define FIRST_EVENT	  2		   /* classes before it are metadata and checkpoints */

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

struct state {
	struct jfr_chunk chunk;
	const struct jfr_class *thread_class, *stack_class; /* NULL = it has none */
	struct map64 stacks, threads, functions;	    /* key of the constant -> here */
};

struct reader {
	struct profile *profile;
	struct buffer text, name;
	uint64_t counts[KINDS]; /* of events in the file */
	size_t columns[KINDS];
	uint64_t other_events, cut_stacks, no_stack;
	uint32_t thread_name, thread_id, process_pid, executable, java;
	int64_t pid, first_ns, last_ns;
	uint32_t command;	/* string */
	struct state states[2]; /* of the chunk, and of the one before: what began in that may end in this */
	struct state *here, *before;
	/* of the chunk */
	int64_t periods_ns[KINDS];
	bool is_wall; /* async-profiler, -e wall: all samples are by the clock on the wall */
	uint32_t frames[LIMIT_STACK_DEPTH];
	struct profile_line lines[LIMIT_STACK_DEPTH];
};

/* KINDS if it is none. */
static size_t kind_of(const struct jfr_class *class)
{
	size_t kind = 0;
	while (kind < KINDS && !(class && bytes_equal_string(class->name, kinds[kind].event)))
		kind++;
	return kind;
}

static int64_t nanoseconds(const struct jfr_chunk *chunk, int64_t ticks)
{
	int64_t rate = chunk->ticks_per_s > INT64_MAX / NS_PER_S ? INT64_MAX / NS_PER_S : (int64_t)chunk->ticks_per_s;
	int64_t seconds = ticks / rate, rest;
	if (__builtin_mul_overflow(seconds, NS_PER_S, &seconds))
		return 0;
	rest = ticks % rate * NS_PER_S / rate;
	return __builtin_add_overflow(seconds, rest, &rest) ? seconds : rest;
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
	struct jfr_chunk *chunk = &reader->here->chunk;
	int64_t id = jfr_number(jfr_get(chunk, event, "id"));
	if (!jfr_string(chunk, jfr_get(chunk, event, "name"), &reader->name) ||
	    !jfr_string(chunk, jfr_get(chunk, event, "value"), &reader->text))
		return;
	struct bytes name = buffer_bytes(&reader->name);
	const char *value = buffer_string(&reader->text);
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
	struct jfr_chunk *chunk = &reader->here->chunk;
	int64_t pid = jfr_number(jfr_get(chunk, event, "pid"));
	reader->pid = pid > 0 ? pid : reader->pid;
	if (!jfr_string(chunk, jfr_get(chunk, event, "javaArguments"), &reader->text))
		return 0;
	size_t len = text_cut(buffer_bytes(&reader->text), COMMAND_BYTES_MAX);
	return profile_add_string(reader->profile, reader->text.data, len, &reader->command, err);
}

/* ---- threads ---- */

static void swap_states(struct reader *reader)
{
	struct state *state = reader->here;
	reader->here = reader->before;
	reader->before = state;
}

static int add_thread(struct reader *reader, struct jfr_value thread, uint32_t *ret, struct error *err)
{
	struct jfr_chunk *chunk = &reader->here->chunk;
	struct profile_label labels[2];
	size_t count = 0;
	int64_t id = jfr_number(jfr_get(chunk, thread, "osThreadId"));
	id = id ? id : jfr_number(jfr_get(chunk, thread, "javaThreadId"));
	if (id)
		labels[count++] = (struct profile_label){.key = reader->thread_id, .number = id};
	if ((jfr_string(chunk, jfr_get(chunk, thread, "javaName"), &reader->text) && reader->text.len > 0) ||
	    (jfr_string(chunk, jfr_get(chunk, thread, "osName"), &reader->text) && reader->text.len > 0)) {
		labels[count] = (struct profile_label){.key = reader->thread_name};
		int r = profile_add_bytes(reader->profile, buffer_bytes(&reader->text), &labels[count++].value, err);
		if (r < 0)
			return r;
	}
	return profile_add_label_set(reader->profile, labels, count, ret, err);
}

/* What the constant with this key became in the profile; `add` adds it when it is met for the first time. */
static int find(struct reader *reader, struct map64 *known, uint64_t key, struct jfr_value constant,
		int (*add)(struct reader *reader, struct jfr_value constant, uint32_t *ret, struct error *err), uint32_t *ret,
		struct error *err)
{
	if (format_known(known, key, ret))
		return 0;
	int r = add(reader, constant, ret, err);
	return r == 0 && map64_put(known, key, *ret) < 0 ? error_nomem(err) : r;
}

/* A constant that this chunk does not have may be in the one before. */
static bool go_back(struct reader *reader, const struct jfr_class *class, uint64_t key, struct jfr_value *ret)
{
	if (ret->class || key == 0)
		return false;
	*ret = jfr_constant(&reader->before->chunk, class, key);
	if (!ret->class)
		return false;
	swap_states(reader);
	return true;
}

static int read_thread(struct reader *reader, struct jfr_value event, uint32_t *ret, struct error *err)
{
	uint64_t key;
	struct jfr_value thread = jfr_get_keyed(&reader->here->chunk, event, "sampledThread", &key);
	if (!thread.class && key == 0)
		thread = jfr_get_keyed(&reader->here->chunk, event, "eventThread", &key);
	bool is_back = go_back(reader, reader->before->thread_class, key, &thread);
	*ret = 0;
	int r = thread.class ? find(reader, &reader->here->threads, key, thread, add_thread, ret, err) : 0;
	if (is_back)
		swap_states(reader);
	return r;
}

/* ---- stacks ---- */

/* The name that a symbol holds, appended. */
static bool append_symbol(struct reader *reader, struct jfr_value symbol, bool is_class)
{
	if (!jfr_string(&reader->here->chunk, jfr_get(&reader->here->chunk, symbol, "string"), &reader->text))
		return false;
	for (size_t i = 0; is_class && i < reader->text.len; i++)
		if (reader->text.data[i] == '/')
			reader->text.data[i] = '.';
	size_t len = text_cut(buffer_bytes(&reader->text), TEXT_MAX);
	return buffer_append(&reader->name, reader->text.data, len) == 0 && len > 0;
}

static int add_function(struct reader *reader, struct jfr_value method, uint32_t *ret, struct error *err)
{
	struct jfr_chunk *chunk = &reader->here->chunk;
	struct profile_function function = {0};
	struct jfr_value class = jfr_get(chunk, method, "type");
	buffer_clear(&reader->name);
	if (append_symbol(reader, jfr_get(chunk, class, "name"), true) && buffer_append_byte(&reader->name, '.') < 0)
		return error_nomem(err);
	append_symbol(reader, jfr_get(chunk, method, "name"), false);
	int r = profile_add_bytes(reader->profile, buffer_bytes(&reader->name), &function.name, err);
	append_symbol(reader, jfr_get(chunk, method, "descriptor"), false);
	if (r == 0)
		r = profile_add_bytes(reader->profile, buffer_bytes(&reader->name), &function.system_name, err);
	return r < 0 ? r : profile_add_function(reader->profile, &function, ret, err);
}

static enum profile_frame_type read_type(struct reader *reader, struct jfr_value frame, bool *ret_is_inlined)
{
	static const struct {
		const char *name;
		enum profile_frame_type type;
	} types[] = {{"Interpreted", PROFILE_FRAME_INTERPRETED},
		     {"JIT compiled", PROFILE_FRAME_JIT},
		     {"Inlined", PROFILE_FRAME_JIT},
		     {"C1 compiled", PROFILE_FRAME_JIT},
		     {"Native", PROFILE_FRAME_NATIVE},
		     {"C++", PROFILE_FRAME_NATIVE},
		     {"Kernel", PROFILE_FRAME_KERNEL}};
	struct jfr_value type = jfr_get(&reader->here->chunk, frame, "type");
	*ret_is_inlined = false;
	if (!jfr_string(&reader->here->chunk, jfr_get(&reader->here->chunk, type, "description"), &reader->text))
		return PROFILE_FRAME_UNKNOWN;
	*ret_is_inlined = bytes_equal_string(buffer_bytes(&reader->text), "Inlined");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (bytes_equal_string(buffer_bytes(&reader->text), types[i].name))
			return types[i].type;
	return PROFILE_FRAME_UNKNOWN;
}

static int read_line(struct reader *reader, struct jfr_value frame, struct profile_line *ret, struct error *err)
{
	struct jfr_chunk *chunk = &reader->here->chunk;
	uint64_t key;
	struct jfr_value method = jfr_get_keyed(chunk, frame, "method", &key);
	int64_t line = jfr_number(jfr_get(chunk, frame, "lineNumber"));
	*ret = (struct profile_line){.line = line > 0 ? line : 0};
	return find(reader, &reader->here->functions, key, method, add_function, &ret->function, err);
}

/* Leaf first, as profiles have them. */
static int add_stack(struct reader *reader, struct jfr_value trace, uint32_t *ret, struct error *err)
{
	struct jfr_chunk *chunk = &reader->here->chunk;
	struct jfr_value frames = jfr_get(chunk, trace, "frames");
	uint64_t count = jfr_array_begin(&frames);
	size_t depth = 0, lines = 0;
	bool is_inlined = false;
	int r = 0;
	for (uint64_t i = 0; r == 0 && i < count && depth + lines < LIMIT_STACK_DEPTH; i++) {
		struct jfr_value frame = jfr_array_next(chunk, &frames);
		if (!frame.class)
			return error_set(err, -EBADMSG, "a stack is truncated or damaged");
		struct profile_location location = {.frame_type = read_type(reader, frame, &is_inlined)};
		r = read_line(reader, frame, &reader->lines[lines++], err);
		/* What was inlined waits for the frame that it was inlined into. */
		if (r < 0 || (is_inlined && i + 1 < count))
			continue;
		r = profile_add_location(reader->profile, &location, reader->lines, lines, &reader->frames[depth++], err);
		lines = 0;
	}
	bool is_cut = jfr_number(jfr_get(chunk, trace, "truncated")) != 0 || depth + lines == LIMIT_STACK_DEPTH;
	reader->cut_stacks += is_cut;
	return r < 0 ? r : profile_add_stack_leaf_first(reader->profile, reader->frames, depth, ret, err);
}

static int read_stack(struct reader *reader, struct jfr_value event, uint32_t *ret, struct error *err)
{
	uint64_t key;
	struct jfr_value trace = jfr_get_keyed(&reader->here->chunk, event, "stackTrace", &key);
	bool is_back = go_back(reader, reader->before->stack_class, key, &trace);
	*ret = 0;
	reader->no_stack += !trace.class;
	int r = trace.class ? find(reader, &reader->here->stacks, key, trace, add_stack, ret, err) : 0;
	if (is_back)
		swap_states(reader);
	return r;
}

/* ---- events ---- */

static void read_amounts(struct reader *reader, size_t kind, struct jfr_value event, int64_t ret[2])
{
	struct jfr_chunk *chunk = &reader->here->chunk;
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
	case AMOUNT_DURATION: ret[1] = nanoseconds(chunk, jfr_number(jfr_get(chunk, event, "duration"))); break;
	default: ret[1] = jfr_number(jfr_get(chunk, event, kinds[kind].field));
	}
}

static int read_sample(struct reader *reader, size_t kind, struct jfr_value event, struct error *err)
{
	int64_t values[LIMIT_SAMPLE_TYPES] = {0};
	struct jfr_chunk *chunk = &reader->here->chunk;
	struct profile_sample sample = {0};
	int64_t ticks = jfr_number(jfr_get(chunk, event, "startTime")), since;
	if (__builtin_sub_overflow(ticks, (int64_t)chunk->start_ticks, &since))
		since = 0;
	if (__builtin_add_overflow(chunk->start_ns, nanoseconds(chunk, since), &sample.time_ns))
		sample.time_ns = 0;
	int r = read_stack(reader, event, &sample.stack, err);
	if (r == 0)
		r = read_thread(reader, event, &sample.labels, err);
	if (r < 0)
		return r;
	read_amounts(reader, kind, event, &values[reader->columns[kind]]);
	return profile_add_sample(reader->profile, &sample, values, err);
}

static void reset_state(struct state *state)
{
	jfr_chunk_release(&state->chunk);
	state->thread_class = state->stack_class = NULL;
	map64_clear(&state->stacks);
	map64_clear(&state->threads);
	map64_clear(&state->functions);
}

typedef int event_function(struct reader *reader, struct jfr_value event, struct error *err);

static int for_each_event(struct reader *reader, event_function *function, struct error *err)
{
	struct jfr_cursor fields;
	uint64_t id;
	size_t at = 0;
	int r;
	while ((r = jfr_chunk_next_event(&reader->here->chunk, &at, &id, &fields, err)) > 0) {
		struct jfr_value event = {.class = jfr_class_by_id(&reader->here->chunk, id), .at = fields};
		if (id >= FIRST_EVENT && event.class && (r = function(reader, event, err)) < 0)
			return error_prefix(err, r, "%.*s", (int)(event.class->name.len < 60 ? event.class->name.len : 60),
					    (const char *)event.class->name.data);
	}
	return r;
}

static int on_setting(struct reader *reader, struct jfr_value event, struct error *err)
{
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

static int on_count(struct reader *reader, struct jfr_value event, struct error *err)
{
	size_t kind = kind_of_event(reader, event.class);
	*(kind < KINDS ? &reader->counts[kind] : &reader->other_events) += 1;
	return 0;
}

static int on_sample(struct reader *reader, struct jfr_value event, struct error *err)
{
	size_t kind = kind_of_event(reader, event.class);
	return kind < KINDS ? read_sample(reader, kind, event, err) : 0;
}

/* ---- all ---- */

static int open_chunk(struct reader *reader, struct bytes input, struct error *err)
{
	swap_states(reader);
	reset_state(reader->here);
	memset(reader->periods_ns, 0, sizeof(reader->periods_ns));
	reader->is_wall = false;
	int r = jfr_chunk_open(input, &reader->here->chunk, err);
	reader->here->thread_class = jfr_class_by_name(&reader->here->chunk, "java.lang.Thread");
	reader->here->stack_class = jfr_class_by_name(&reader->here->chunk, "jdk.types.StackTrace");
	if (r == 0)
		r = jfr_chunk_read_constants(&reader->here->chunk, err);
	if (r == 0)
		r = for_each_event(reader, on_setting, err);
	if (reader->is_wall)
		reader->periods_ns[KIND_WALL] = reader->periods_ns[KIND_CPU];
	return r;
}

/* Calls a function for the events of each chunk. */
static int for_each_chunk(struct reader *reader, struct bytes input, event_function *function, struct error *err)
{
	reset_state(reader->here);
	for (size_t at = 0, number = 1; at < input.len; at += reader->here->chunk.bytes.len, number++) {
		int r = open_chunk(reader, (struct bytes){input.data + at, input.len - at}, err);
		if (r == 0)
			r = for_each_event(reader, function, err);
		if (r == 0 && reader->here->chunk.work == 0)
			r = error_set(err, -EBADMSG, "its values are nested too deeply, or repeated too often");
		if (r < 0)
			return error_prefix(err, r, "chunk %zu", number);
		int64_t start_ns = reader->here->chunk.start_ns, end_ns;
		if (__builtin_add_overflow(start_ns, reader->here->chunk.duration_ns, &end_ns))
			end_ns = start_ns;
		if (!reader->first_ns || start_ns < reader->first_ns)
			reader->first_ns = start_ns;
		reader->last_ns = end_ns > reader->last_ns ? end_ns : reader->last_ns;
	}
	return 0;
}

static int add_types(struct reader *reader, struct error *err)
{
	struct profile *profile = reader->profile;
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
	struct profile *profile = reader->profile;
	struct profile_label labels[2] = {{.key = reader->executable, .value = reader->java},
					  {.key = reader->process_pid, .number = reader->pid}};
	int r = profile_add_label_set(profile, labels, 1 + (reader->pid != 0), &profile->resource_labels, err);
	if (r == 0 && reader->command)
		r = profile_add_comment(profile, reader->command, err);
	profile->time_ns = reader->first_ns;
	profile->duration_ns =
		reader->last_ns > reader->first_ns && reader->first_ns > 0 ? reader->last_ns - reader->first_ns : 0;
	return r;
}

static int read_all(struct reader *reader, struct bytes input, struct error *err)
{
	const struct format_string names[] = {{"thread.name", &reader->thread_name},
					      {"thread.id", &reader->thread_id},
					      {"process.pid", &reader->process_pid},
					      {"process.executable.name", &reader->executable},
					      {"java", &reader->java}};
	int r = format_add_strings(reader->profile, names, sizeof(names) / sizeof(names[0]), err);
	if (r == 0)
		r = for_each_chunk(reader, input, on_count, err);
	if (r == 0)
		r = add_types(reader, err);
	if (r == 0)
		r = for_each_chunk(reader, input, on_sample, err);
	return r < 0 ? r : add_origin(reader, err);
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{reader->other_events, "events other than samples"},
		{reader->cut_stacks, "stacks: outermost frames, cut by the recorder or by the limit"},
		{reader->no_stack, "samples without a stack"},
	};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

int jfr_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	reader->here = &reader->states[0];
	reader->before = &reader->states[1];
	for (size_t i = 0; i < 2; i++) {
		map64_init_guarded(&reader->states[i].stacks);
		map64_init_guarded(&reader->states[i].threads);
		map64_init_guarded(&reader->states[i].functions);
	}
	buffer_init(&reader->text, LIMIT_PROFILE_STRING_BYTES);
	buffer_init(&reader->name, LIMIT_PROFILE_STRING_BYTES);
	int r = profile_new(&reader->profile, err);
	if (r == 0)
		r = read_all(reader, input, err);
	if (r == 0)
		r = note(reader, options, err);
	r = format_finish(r, reader->profile, ret);
	for (size_t i = 0; i < 2; i++) {
		reset_state(&reader->states[i]);
		map64_release(&reader->states[i].stacks);
		map64_release(&reader->states[i].threads);
		map64_release(&reader->states[i].functions);
	}
	buffer_release(&reader->text);
	buffer_release(&reader->name);
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
