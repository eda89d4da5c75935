/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording as Pyroscope's server reads it (github.com/grafana/jfr-parser v0.18.0, pprof/; github.com/grafana/pyroscope,
 * pkg/og/convert/jfr): what its users and their dashboards know from there.
 *
 *   event                              profile type                                                      labels
 *   jdk.ExecutionSample                process_cpu:cpu:nanoseconds:cpu:nanoseconds                       yes
 *                                      and, with the setting event=wall, wall:wall:nanoseconds:wall:nanoseconds
 *   profiler.WallClockSample           wall:wall:nanoseconds:wall:nanoseconds                            yes
 *                                      and, runnable and with event=wall, process_cpu
 *   jdk.ObjectAllocationInNewTLAB      memory:alloc_in_new_tlab_{objects:count,bytes:bytes}:space:bytes   yes
 *   jdk.ObjectAllocationOutsideTLAB    memory:alloc_outside_tlab_{objects:count,bytes:bytes}:space:bytes  yes
 *   jdk.ObjectAllocationSample         memory:alloc_sample_{objects:count,bytes:bytes}:space:bytes
 *   jdk.JavaMonitorEnter               mutex:{contentions:count,delay:nanoseconds}:mutex:count            yes
 *   jdk.ThreadPark                     block:{contentions:count,delay:nanoseconds}:block:count
 *   profiler.LiveObject                memory:live:count:objects:count
 *   profiler.Malloc                    memory:malloc_{objects:count,bytes:bytes}::
 *
 * A sample of CPU or wall-clock time stands for the request's sampling period, whatever the recording says of its own. CPU
 * samples of threads that sleep, or whose state is unknown, do not count. An event whose stack is not in the recording is left
 * out. Events are summed by stack, labels and span; threads and the times of events play no role.
 *
 * Labels are those of the event's context (jfr_labels.c), and `span_name`; spanId, traceIdHi and traceIdLo are the sample's
 * link. They are in recordings of Pyroscope's own build of async-profiler. A label that the request has for all samples, and
 * the first of several with one name, win.
 *
 * Two things are otherwise over there, and wrong: a lock's delay is in ticks of the recording's clock, which is nanoseconds
 * only where that clock counts them; and how many samples a WallClockSample stands for is remembered, and counted again for
 * each event of another kind behind it. Here delay is nanoseconds, and each event counts for itself. Stacks and methods of
 * several chunks, which may have the same keys, are kept apart here; there they become one.
 */
#include "format/jfr/jfr_upload.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "format/jfr/jfr_int.h"
#include "profile/merge.h"

#define LABEL_SETS_MAX 65536 /* each becomes a series */

enum kind {
	KIND_CPU,
	KIND_WALL,
	KIND_IN_TLAB,
	KIND_OUT_TLAB,
	KIND_SAMPLE,
	KIND_LOCK,
	KIND_PARK,
	KIND_LIVE,
	KIND_MALLOC,
	KINDS
};
_Static_assert(KINDS == JFR_UPLOAD_PROFILES, "a profile for each kind");

/* What is read of an event. */
enum slot {
	SLOT_STACK,
	SLOT_STATE,
	SLOT_AMOUNT,
	SLOT_CONTEXT,
	SLOT_SPAN,
	SLOT_SPAN_NAME,
	SLOT_TRACE_HIGH,
	SLOT_TRACE_LOW,
	SLOTS
};
static const char *const slot_names[SLOTS] = {
	[SLOT_STACK] = "stackTrace",   [SLOT_STATE] = "state",		[SLOT_CONTEXT] = "contextId",	[SLOT_SPAN] = "spanId",
	[SLOT_SPAN_NAME] = "spanName", [SLOT_TRACE_HIGH] = "traceIdHi", [SLOT_TRACE_LOW] = "traceIdLo",
};

static const struct kind_info {
	const char *event;
	const char *amount; /* field: bytes, ticks, number of samples; NULL = it counts only itself */
	const char *name, *period_type, *period_unit;
	struct {
		const char *type, *unit;
	} types[2]; /* NULL = it has one */
	bool has_labels, is_time, is_ticks;
} kinds[KINDS] = {
	[KIND_CPU] = {"jdk.ExecutionSample",
		      NULL,
		      "process_cpu",
		      "cpu",
		      "nanoseconds",
		      {{"cpu", "nanoseconds"}},
		      .has_labels = true,
		      .is_time = true},
	[KIND_WALL] = {"profiler.WallClockSample",
		       "samples",
		       "wall",
		       "wall",
		       "nanoseconds",
		       {{"wall", "nanoseconds"}},
		       .has_labels = true,
		       .is_time = true},
	[KIND_IN_TLAB] = {"jdk.ObjectAllocationInNewTLAB",
			  "tlabSize",
			  "memory",
			  "space",
			  "bytes",
			  {{"alloc_in_new_tlab_objects", "count"}, {"alloc_in_new_tlab_bytes", "bytes"}},
			  .has_labels = true},
	[KIND_OUT_TLAB] = {"jdk.ObjectAllocationOutsideTLAB",
			   "allocationSize",
			   "memory",
			   "space",
			   "bytes",
			   {{"alloc_outside_tlab_objects", "count"}, {"alloc_outside_tlab_bytes", "bytes"}},
			   .has_labels = true},
	[KIND_SAMPLE] = {"jdk.ObjectAllocationSample",
			 "weight",
			 "memory",
			 "space",
			 "bytes",
			 {{"alloc_sample_objects", "count"}, {"alloc_sample_bytes", "bytes"}}},
	[KIND_LOCK] = {"jdk.JavaMonitorEnter",
		       "duration",
		       "mutex",
		       "mutex",
		       "count",
		       {{"contentions", "count"}, {"delay", "nanoseconds"}},
		       .has_labels = true,
		       .is_ticks = true},
	[KIND_PARK] = {"jdk.ThreadPark",
		       "duration",
		       "block",
		       "block",
		       "count",
		       {{"contentions", "count"}, {"delay", "nanoseconds"}},
		       .is_ticks = true},
	[KIND_LIVE] = {"profiler.LiveObject", NULL, "memory", "objects", "count", {{"live", "count"}}},
	[KIND_MALLOC] = {"profiler.Malloc", "size", "memory", "", "", {{"malloc_objects", "count"}, {"malloc_bytes", "bytes"}}},
};

/* Where in a class of events the slots are. */
struct plan {
	const struct jfr_class *class; /* NULL = the chunk has none */
	size_t count;
	struct {
		size_t field;
		enum slot slot;
	} wanted[SLOTS]; /* by field */
};

/* Labels and span of a sample. */
struct origin {
	uint32_t labels, link;
};
struct sample {
	uint32_t stack, origin;
	int64_t values[2];
};
struct samples {
	struct sample *items;
	size_t count, capacity;
	struct map64 by_key; /* stack << 32 | origin -> number */
};

/* A context that an event referred to. */
struct context {
	size_t first, count; /* into reader.context_labels */
};

struct reader {
	struct jfr_walk walk;
	const struct jfr_upload *upload;
	struct jfr_labels labels;
	char *event; /* of ret */
	bool is_wall;
	uint64_t without_stack;
	struct plan plans[KINDS]; /* of the chunk */
	struct map64 states;	  /* of the chunk: key of a thread's state -> enum thread_state */
	struct samples samples[KINDS];
	/* Labels */
	struct context *contexts;
	size_t context_count, context_capacity;
	struct map64 context_numbers; /* id -> number in contexts */
	struct profile_label *context_labels;
	size_t context_label_count, context_label_capacity;
	struct map64 strings;	 /* id in the snapshot -> string of the profile */
	struct map64 label_sets; /* number of the context << 32 | string of the span's name -> label set */
	struct origin *origins;
	size_t origin_count, origin_capacity;
	struct map64 origin_numbers; /* label set << 32 | link -> number in origins */
	uint32_t span_name;	     /* string */
	/* Of the event at hand */
	struct jfr_value values[SLOTS];
	uint64_t keys[SLOTS];
};

/* ---- settings, and what a chunk's classes look like ---- */

static void make_plan(const struct jfr_chunk *chunk, const struct kind_info *kind, struct plan *ret)
{
	const struct jfr_class *class = jfr_class_by_name(chunk, kind->event);
	*ret = (struct plan){.class = class && class->kind == JFR_OBJECT ? class : NULL};
	for (int slot = 0; ret->class && slot < SLOTS; slot++) {
		const char *name = slot == SLOT_AMOUNT ? kind->amount : slot_names[slot];
		size_t field =
			name && (slot < SLOT_CONTEXT || kind->has_labels) ? jfr_find_field(chunk, class, name) : SIZE_MAX;
		size_t at = ret->count;
		if (field == SIZE_MAX)
			continue;
		for (; at > 0 && ret->wanted[at - 1].field > field; at--)
			ret->wanted[at] = ret->wanted[at - 1];
		ret->wanted[at].field = field;
		ret->wanted[at].slot = (enum slot)slot;
		ret->count++;
	}
}

static int on_chunk(void *context, struct error *err)
{
	struct reader *reader = context;
	for (size_t i = 0; i < KINDS; i++)
		make_plan(&reader->walk.here->chunk, &kinds[i], &reader->plans[i]);
	jfr_forget(&reader->states);
	return 0;
}

/* Whether a field of an object is a text, which reader->walk.text then holds. */
static int read_text(struct reader *reader, struct jfr_value object, const char *field, bool *ret, struct error *err)
{
	struct jfr_chunk *chunk = &reader->walk.here->chunk;
	struct buffer *text = &reader->walk.text;
	*ret = jfr_string(chunk, jfr_get(chunk, object, field), text);
	int r = buffer_status(text);
	return r < 0 ? format_buffer_error(r, text, field, err) : 0;
}

static int on_setting(void *context, struct jfr_value event, struct error *err)
{
	struct reader *reader = context;
	const struct buffer *text = &reader->walk.text;
	bool has_text = false;
	if (!bytes_equal_string(event.class->name, "jdk.ActiveSetting"))
		return 0;
	int r = read_text(reader, event, "name", &has_text, err);
	if (r < 0 || !has_text || !bytes_equal_string(buffer_bytes(text), "event"))
		return r;
	r = read_text(reader, event, "value", &has_text, err);
	if (r < 0 || !has_text)
		return r;
	reader->is_wall = bytes_equal_string(buffer_bytes(text), "wall");
	size_t len = text_cut(buffer_bytes(text), JFR_UPLOAD_EVENT_MAX - 1);
	if (len > 0)
		memcpy(reader->event, text->data, len);
	reader->event[len] = '\0';
	return 0;
}

/* ---- labels ---- */

/* A string of the snapshot in the profile; 0 if it has none of that id. */
static int take_string(struct reader *reader, uint64_t id, uint32_t *ret, struct error *err)
{
	struct bytes text = {0};
	if (format_known(&reader->strings, id, ret))
		return 0;
	jfr_labels_string(&reader->labels, id, &text);
	int r = profile_add_string(reader->walk.profile, text.data, text_cut(text, LIMIT_LABEL_VALUE_BYTES), ret, err);
	return r == 0 && map64_put(&reader->strings, id, *ret) < 0 ? error_nomem(err) : r;
}

/* Whether all samples have a label of that name. */
static bool series_has(const struct reader *reader, uint32_t key)
{
	char name[LIMIT_LABEL_NAME_BYTES];
	label_name_sanitize(profile_string_bytes(reader->walk.profile, key), name);
	if (reader->event[0] && strcmp(name, "jfr_event") == 0)
		return true;
	return reader->upload->series && labels_get(reader->upload->series, name);
}

static int read_context(struct reader *reader, uint64_t id, struct context *ret, struct error *err)
{
	struct pb_cursor cursor;
	uint64_t name, value;
	int r = 0;
	*ret = (struct context){.first = reader->context_label_count};
	if (!jfr_labels_open(&reader->labels, id, &cursor))
		return 0;
	while ((r = jfr_labels_next(&cursor, &name, &value, err)) > 0) {
		struct profile_label label = {0};
		r = take_string(reader, name, &label.key, err);
		if (r == 0)
			r = take_string(reader, value, &label.value, err);
		if (r < 0)
			return r;
		if (!label.key || !label.value || series_has(reader, label.key) ||
		    (ret->count && profile_has_key(reader->context_labels + ret->first, ret->count, label.key)))
			continue;
		if (ret->count == LIMIT_LABELS_PER_SERIES)
			return error_set(err, -EBADMSG, "labels: a context has more than %d", LIMIT_LABELS_PER_SERIES);
		if (array_push(&reader->context_labels, &reader->context_label_count, &reader->context_label_capacity,
			       LIMIT_PROFILE_ENTITIES, label) < 0)
			return error_nomem(err);
		ret->count++;
	}
	return r;
}

static int find_context(struct reader *reader, uint64_t id, uint32_t *ret, struct error *err)
{
	struct context context;
	if (format_known(&reader->context_numbers, id, ret))
		return 0;
	int r = read_context(reader, id, &context, err);
	if (r < 0)
		return r;
	*ret = (uint32_t)reader->context_count;
	if (array_push(&reader->contexts, &reader->context_count, &reader->context_capacity, LIMIT_PROFILE_ENTITIES, context) <
		    0 ||
	    map64_put(&reader->context_numbers, id, *ret) < 0)
		return error_nomem(err);
	return 0;
}

static int make_label_set(struct reader *reader, uint32_t context, uint32_t span_name, uint32_t *ret, struct error *err)
{
	struct profile_label labels[LIMIT_LABELS_PER_SERIES + 1];
	size_t count = reader->contexts[context].count;
	for (size_t i = 0; i < count; i++)
		labels[i] = reader->context_labels[reader->contexts[context].first + i];
	if (span_name && !profile_has_key(labels, count, reader->span_name) && !series_has(reader, reader->span_name))
		labels[count++] = (struct profile_label){.key = reader->span_name, .value = span_name};
	return profile_add_label_set(reader->walk.profile, labels, count, ret, err);
}

static int find_label_set(struct reader *reader, uint32_t *ret, struct error *err)
{
	uint32_t context, span_name = 0;
	uint64_t name = (uint64_t)jfr_number(reader->values[SLOT_SPAN_NAME]);
	int r = find_context(reader, (uint64_t)jfr_number(reader->values[SLOT_CONTEXT]), &context, err);
	if (r == 0 && name)
		r = take_string(reader, name, &span_name, err);
	if (r < 0)
		return r;
	uint64_t key = (uint64_t)context << 32 | span_name;
	if (format_known(&reader->label_sets, key, ret))
		return 0;
	if (reader->label_sets.count == LABEL_SETS_MAX)
		return error_set(err, -E2BIG, "more than %d different sets of labels", LABEL_SETS_MAX);
	r = make_label_set(reader, context, span_name, ret, err);
	return r == 0 && map64_put(&reader->label_sets, key, *ret) < 0 ? error_nomem(err) : r;
}

static void put_id(uint8_t *to, struct jfr_value value)
{
	uint64_t id = (uint64_t)jfr_number(value);
	for (unsigned i = 0; i < 8; i++)
		to[i] = (uint8_t)(id >> (8 * (7 - i)));
}

static int find_origin(struct reader *reader, uint32_t *ret, struct error *err)
{
	struct profile_link link = {0};
	struct origin origin;
	put_id(link.trace_id, reader->values[SLOT_TRACE_HIGH]);
	put_id(link.trace_id + 8, reader->values[SLOT_TRACE_LOW]);
	put_id(link.span_id, reader->values[SLOT_SPAN]);
	int r = find_label_set(reader, &origin.labels, err);
	if (r == 0)
		r = profile_add_link(reader->walk.profile, &link, &origin.link, err);
	if (r < 0)
		return r;
	uint64_t key = (uint64_t)origin.labels << 32 | origin.link;
	if (format_known(&reader->origin_numbers, key, ret))
		return 0;
	*ret = (uint32_t)reader->origin_count;
	if (array_push(&reader->origins, &reader->origin_count, &reader->origin_capacity, LIMIT_PROFILE_ENTITIES, origin) < 0 ||
	    map64_put(&reader->origin_numbers, key, *ret) < 0)
		return error_nomem(err);
	return 0;
}

/* ---- events ---- */

enum thread_state { STATE_UNKNOWN, STATE_OTHER, STATE_SLEEPING, STATE_RUNNABLE };

static int read_state(struct reader *reader, enum thread_state *ret, struct error *err)
{
	const struct buffer *text = &reader->walk.text;
	uint64_t key = reader->keys[SLOT_STATE], known;
	bool has_text = false;
	*ret = STATE_UNKNOWN;
	if (!reader->values[SLOT_STATE].class)
		return 0;
	if (map64_get(&reader->states, key, &known)) {
		*ret = (enum thread_state)known;
		return 0;
	}
	int r = read_text(reader, reader->values[SLOT_STATE], "name", &has_text, err);
	if (r < 0)
		return r;
	*ret = !has_text						  ? STATE_OTHER
	       : bytes_equal_string(buffer_bytes(text), "STATE_SLEEPING") ? STATE_SLEEPING
	       : bytes_equal_string(buffer_bytes(text), "STATE_RUNNABLE") ? STATE_RUNNABLE
									  : STATE_OTHER;
	return map64_put(&reader->states, key, *ret) < 0 ? error_nomem(err) : 0;
}

static int64_t add_up(int64_t a, int64_t b)
{
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* values: not negative. */
static int count_sample(struct reader *reader, enum kind kind, uint32_t stack, uint32_t origin, const int64_t values[2],
			struct error *err)
{
	struct samples *samples = &reader->samples[kind];
	uint64_t key = (uint64_t)stack << 32 | origin;
	uint32_t at;
	if (!format_known(&samples->by_key, key, &at)) {
		at = (uint32_t)samples->count;
		int r = array_push(&samples->items, &samples->count, &samples->capacity, LIMIT_PROFILE_ENTITIES,
				   (struct sample){.stack = stack, .origin = origin});
		if (r == -E2BIG)
			return error_set(err, r, "more than %u different samples", LIMIT_PROFILE_ENTITIES);
		if (r < 0 || map64_put(&samples->by_key, key, at) < 0)
			return error_nomem(err);
	}
	for (size_t i = 0; i < 2; i++)
		samples->items[at].values[i] = add_up(samples->items[at].values[i], values[i]);
	return 0;
}

/* As many values as the kind has types. */
static void read_values(const struct reader *reader, enum kind kind, int64_t ret[2])
{
	struct jfr_value field = reader->values[SLOT_AMOUNT];
	int64_t amount = jfr_number(field);
	ret[0] = 1;
	ret[1] = 0;
	if (kinds[kind].is_time) {
		/* The number of samples is a 32-bit one without a sign. */
		int64_t count = field.class ? (int64_t)(uint32_t)amount : 1;
		if (__builtin_mul_overflow(count, reader->upload->period_ns, &ret[0]))
			ret[0] = INT64_MAX;
	} else if (kinds[kind].is_ticks) {
		ret[1] = jfr_nanoseconds(&reader->walk.here->chunk, amount);
	} else if (kinds[kind].amount) {
		ret[1] = amount;
	}
	ret[1] = ret[1] < 0 ? 0 : ret[1];
}

static int on_kind(struct reader *reader, enum kind kind, struct error *err)
{
	enum thread_state state = STATE_UNKNOWN;
	int64_t values[2];
	uint32_t stack = 0, origin = 0;
	int r = jfr_walk_stack(&reader->walk, reader->values[SLOT_STACK], reader->keys[SLOT_STACK], &stack, err);
	reader->without_stack += r > 0;
	if (r != 0)
		return r < 0 ? r : 0;
	r = find_origin(reader, &origin, err);
	if (r == 0)
		r = read_state(reader, &state, err);
	if (r < 0)
		return r;
	read_values(reader, kind, values);
	if (kind == KIND_CPU) {
		if (state == STATE_OTHER || state == STATE_RUNNABLE)
			r = count_sample(reader, KIND_CPU, stack, origin, values, err);
		return r == 0 && reader->is_wall ? count_sample(reader, KIND_WALL, stack, origin, values, err) : r;
	}
	if (kind == KIND_WALL && reader->is_wall && state == STATE_RUNNABLE)
		r = count_sample(reader, KIND_CPU, stack, origin, values, err);
	return r == 0 ? count_sample(reader, kind, stack, origin, values, err) : r;
}

static int on_event(void *context, struct jfr_value event, struct error *err)
{
	struct reader *reader = context;
	size_t kind = 0;
	while (kind < KINDS && reader->plans[kind].class != event.class)
		kind++;
	if (kind == KINDS)
		return 0;
	const struct plan *plan = &reader->plans[kind];
	struct jfr_fields fields = {.class = event.class, .at = event.at};
	memset(reader->values, 0, sizeof(reader->values));
	memset(reader->keys, 0, sizeof(reader->keys));
	for (size_t i = 0; i < plan->count; i++) {
		enum slot slot = plan->wanted[i].slot;
		reader->values[slot] =
			jfr_take_field(&reader->walk.here->chunk, &fields, plan->wanted[i].field, &reader->keys[slot]);
	}
	return on_kind(reader, (enum kind)kind, err);
}

/* ---- profiles ---- */

static int copy_samples(const struct reader *reader, enum kind kind, struct profile *to, struct error *err)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	const struct samples *samples = &reader->samples[kind];
	int r = profile_copy_new(to, reader->walk.profile, &copy, err);
	for (size_t i = 0; r == 0 && i < samples->count; i++) {
		const struct sample *from = &samples->items[i];
		struct profile_sample sample = {0};
		if (!from->values[0] && !from->values[1])
			continue;
		r = profile_copy_stack(copy, from->stack, &sample.stack, err);
		if (r == 0)
			r = profile_copy_label_set(copy, reader->origins[from->origin].labels, &sample.labels, err);
		if (r == 0)
			r = profile_copy_link(copy, reader->origins[from->origin].link, &sample.link, err);
		if (r == 0)
			r = profile_add_sample(to, &sample, from->values, err);
	}
	return r;
}

static int make_profile(const struct reader *reader, enum kind kind, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	const struct kind_info *info = &kinds[kind];
	int r = profile_new(&profile, err);
	for (size_t i = 0; r == 0 && i < 2 && info->types[i].type; i++)
		r = profile_add_named_type(profile, info->types[i].type, info->types[i].unit, err);
	if (r == 0)
		r = profile_add_cstring(profile, info->period_type, &profile->period_type.type, err);
	if (r == 0)
		r = profile_add_cstring(profile, info->period_unit, &profile->period_type.unit, err);
	if (r == 0)
		r = copy_samples(reader, kind, profile, err);
	if (r < 0)
		return r;
	profile->period = info->is_time ? reader->upload->period_ns : 0;
	*ret = TAKE(profile);
	return 0;
}

static int make_profiles(const struct reader *reader, struct jfr_profiles *ret, struct error *err)
{
	for (unsigned kind = 0; kind < KINDS; kind++) {
		if (!reader->samples[kind].count)
			continue;
		int r = make_profile(reader, (enum kind)kind, &ret->items[ret->count].profile, err);
		if (r < 0)
			return r;
		ret->items[ret->count].name = kinds[kind].name;
		ret->items[ret->count++].kind = kind;
	}
	ret->duration_ns = jfr_walk_duration(&reader->walk);
	ret->without_stack = reader->without_stack;
	return 0;
}

void jfr_profiles_release(struct jfr_profiles *profiles)
{
	for (size_t i = 0; i < profiles->count; i++)
		profile_free(profiles->items[i].profile);
	*profiles = (struct jfr_profiles){0};
}

static struct map64 *map_of(struct reader *reader, size_t i)
{
	struct map64 *const maps[] = {&reader->states, &reader->context_numbers, &reader->strings, &reader->label_sets,
				      &reader->origin_numbers};
	return i < KINDS ? &reader->samples[i].by_key : i < KINDS + sizeof(maps) / sizeof(*maps) ? maps[i - KINDS] : NULL;
}

static void reader_free(struct reader *reader)
{
	struct map64 *map;
	for (size_t i = 0; (map = map_of(reader, i)); i++)
		map64_release(map);
	for (size_t i = 0; i < KINDS; i++)
		mem_free(reader->samples[i].items);
	jfr_labels_release(&reader->labels);
	jfr_walk_release(&reader->walk);
	mem_free(reader->contexts);
	mem_free(reader->context_labels);
	mem_free(reader->origins);
	mem_free(reader);
}

int jfr_decode_upload(const struct jfr_upload *upload, struct jfr_profiles *ret, struct error *err)
{
	static const struct jfr_visitor visitor = {on_chunk, on_setting, on_event};
	struct reader *reader = mem_zalloc(sizeof(*reader));
	struct map64 *map;
	*ret = (struct jfr_profiles){0};
	if (!reader)
		return error_nomem(err);
	reader->upload = upload;
	reader->event = ret->event;
	for (size_t i = 0; (map = map_of(reader, i)); i++)
		map64_init_guarded(map);
	int r = jfr_labels_read(upload->labels, &reader->labels, err);
	r = r < 0 ? error_prefix(err, r, "labels") : jfr_walk_init(&reader->walk, JFR_NAMES_FOLDED, err);
	if (r == 0)
		r = profile_add_cstring(reader->walk.profile, "span_name", &reader->span_name, err);
	if (r == 0)
		r = jfr_walk_chunks(&reader->walk, upload->recording, &visitor, reader, err);
	if (r == 0)
		r = make_profiles(reader, ret, err);
	if (r < 0)
		jfr_profiles_release(ret);
	reader_free(reader);
	return r;
}
