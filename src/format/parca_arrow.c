/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of samples as Parca's agent sends them (github.com/parca-dev/parca-agent, reporter/arrow.go and arrow_v2.go; how
 * Parca takes them: github.com/parca-dev/parca, pkg/normalizer). An Arrow stream whose schema has the metadata
 * parca_write_schema_version; a row is a sample, with everything about it:
 *
 *   column                     v1                          v2
 *   value                      int64                       int64
 *   producer                   text: "parca_agent"         text
 *   sample_type, sample_unit   texts                       texts
 *   period_type, period_unit   texts                       texts
 *   temporality                text: "delta", or null      the same
 *   period, duration           int64, ns                   int64, uint64
 *   timestamp                  int64, ns                   timestamp
 *   stacktrace_id              binary, 16 bytes            fixed size binary
 *   labels                     a column "labels.NAME" each a struct with a child each
 *   stacktrace                                             list view of locations
 *
 *   location   address, frame_type, mapping_file, mapping_build_id, lines[]
 *              v1 also: mapping_start, mapping_limit, mapping_offset
 *   line       line, column
 *              v1: function_name, function_system_name, function_filename, function_start_line
 *              v2: function { system_name, filename, start_line }
 *
 * Most columns are run-end encoded, texts are in dictionaries, and in v2 locations and functions are, too; here a column may be
 * stored in any way that gives values of its kind.
 *
 * In v1 stacks are in a second record, "locations", of the columns stacktrace_id (binary), is_complete, and locations (a list),
 * which answers a record of the one column stacktrace_id (binary, not in a dictionary). Each of them is one batch.
 *
 * Samples that agree in producer, types, period and in whether they have a duration become one profile; its name is the
 * producer. Each sample keeps its time; the profile's time is from the first to the last, or its duration if that is longer.
 *
 * Addresses are those of the files as they were linked, as in WriteRaw's normalized profiles; a mapping_start beside zero says
 * otherwise.
 */
#include "format/parca_arrow.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/arrow/arrow_write.h"
#include "format/format_int.h"
#include "format/parca_arrow_int.h"

#define BATCHES_MAX	  256
#define LABEL_COLUMNS_MAX 512
#define LABEL_PREFIX	  "labels."
#define ID_COLUMN	  "stacktrace_id"
#define ID_BYTES_MAX	  256
#define STACKS_MAX	  (4u * 1024 * 1024)

enum sample_column {
	SAMPLE_STACK,
	SAMPLE_STACK_ID,
	SAMPLE_VALUE,
	SAMPLE_TIMESTAMP,
	SAMPLE_DURATION,
	SAMPLE_PERIOD,
	SAMPLE_TEXTS, /* the first of those that tell a profile's kind */
	SAMPLE_PRODUCER = SAMPLE_TEXTS,
	SAMPLE_TYPE,
	SAMPLE_UNIT,
	SAMPLE_PERIOD_TYPE,
	SAMPLE_PERIOD_UNIT,
	SAMPLE_COLUMNS,
};
#define TEXTS (SAMPLE_COLUMNS - SAMPLE_TEXTS)

/* ---- the columns ---- */

struct label_column {
	int column; /* of the record, or of the struct "labels" */
	struct bytes name;
};
struct samples {
	struct arrow_stream *stream;
	int at[SAMPLE_COLUMNS];
	int64_t timestamp_unit_ns, duration_unit_ns;
	int labels; /* the struct; -1 = labels are columns of their own */
	struct label_column label_columns[LABEL_COLUMNS_MAX];
	size_t label_count;
};

static void samples_release(struct samples *samples)
{
	samples->stream = arrow_stream_free(samples->stream);
}

/* Names that begin with two underscores are between a client and Parca. */
static int add_label_column(struct samples *samples, size_t column, const char *name, struct error *err)
{
	if (!*name || text_starts_with(name, "__"))
		return 0;
	if (samples->label_count == LABEL_COLUMNS_MAX)
		return error_set(err, -E2BIG, "the record has more than %d columns of labels", LABEL_COLUMNS_MAX);
	samples->label_columns[samples->label_count++] = (struct label_column){(int)column, bytes_of_string(name)};
	return 0;
}

static int find_labels(struct samples *samples, const struct arrow_field *fields, size_t count, struct error *err)
{
	int r = 0;
	samples->labels = arrow_find_field(fields, count, "labels");
	if (samples->labels >= 0) {
		const struct arrow_field *labels = parca_values_field(&fields[samples->labels]);
		if (labels->type != ARROW_TYPE_STRUCT)
			return error_set(err, -EBADMSG, "the column \"labels\" is not a struct");
		for (size_t i = 0; i < labels->child_count && r == 0; i++)
			r = add_label_column(samples, i, labels->children[i].name, err);
		return r;
	}
	for (size_t i = 0; i < count && r == 0; i++)
		if (text_starts_with(fields[i].name, LABEL_PREFIX))
			r = add_label_column(samples, i, fields[i].name + strlen(LABEL_PREFIX), err);
	return r;
}

static int64_t unit_of(const struct arrow_field *fields, int column)
{
	const struct arrow_field *field = column < 0 ? NULL : parca_values_field(&fields[column]);
	return field && field->unit_ns ? field->unit_ns : 1;
}

static int find_columns(struct samples *samples, const struct arrow_field *fields, size_t count, struct error *err)
{
	static const char *const names[SAMPLE_COLUMNS] = {
		"stacktrace", ID_COLUMN,     "value",	    "timestamp",   "duration",	  "period",
		"producer",   "sample_type", "sample_unit", "period_type", "period_unit",
	};
	for (size_t i = 0; i < SAMPLE_COLUMNS; i++)
		samples->at[i] = arrow_find_field(fields, count, names[i]);
	static const enum sample_column needed[] = {SAMPLE_VALUE, SAMPLE_TIMESTAMP, SAMPLE_TYPE, SAMPLE_UNIT};
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (samples->at[needed[i]] < 0)
			return error_set(err, -EBADMSG, "the record has no column \"%s\"", names[needed[i]]);
	if (samples->at[SAMPLE_STACK] < 0 && samples->at[SAMPLE_STACK_ID] < 0)
		return error_set(err, -EBADMSG, "the record has neither a column \"stacktrace\" nor \"" ID_COLUMN "\"");
	/* Each row has eight bytes of its own: so the bytes of the record bound them. */
	const struct arrow_field *value = &fields[samples->at[SAMPLE_VALUE]];
	if (value->type != ARROW_TYPE_INT || value->width != 8 || value->in_dictionary)
		return error_set(err, -EBADMSG, "the column \"value\" is not of 64-bit integers");
	samples->timestamp_unit_ns = unit_of(fields, samples->at[SAMPLE_TIMESTAMP]);
	samples->duration_unit_ns = unit_of(fields, samples->at[SAMPLE_DURATION]);
	return find_labels(samples, fields, count, err);
}

static int samples_open(struct bytes record, size_t memory_max, struct samples *ret, struct error *err)
{
	size_t count;
	struct bytes version;
	*ret = (struct samples){0};
	int r = arrow_stream_open(record, memory_max, &ret->stream, err);
	if (r < 0)
		return r;
	if (!arrow_stream_metadata(ret->stream, "parca_write_schema_version", &version))
		return error_set(err, -EBADMSG, "the record's metadata has no parca_write_schema_version");
	if (!bytes_equal_string(version, "v1") && !bytes_equal_string(version, "v2"))
		return error_set(err, -EBADMSG, "the record is of version %.*s, expected v1 or v2",
				 (int)(version.len < 40 ? version.len : 40), (const char *)version.data);
	const struct arrow_field *fields = arrow_stream_fields(ret->stream, &count);
	return find_columns(ret, fields, count, err);
}

/* ---- ids of stacks ---- */

/* Ids, each once: numbered as they come. */
struct ids {
	struct bytes *items;
	size_t count, capacity;
	struct index32 index;
};

static void ids_release(struct ids *ids)
{
	mem_free(ids->items);
	index32_release(&ids->index);
}

static bool ids_find(const struct ids *ids, struct bytes id, uint64_t hash, uint32_t *ret)
{
	for (size_t at = index32_first(&ids->index, hash); index32_at(&ids->index, hash, &at, ret); at++)
		if (bytes_equal(ids->items[*ret], id))
			return true;
	return false;
}

/* Ids point into the record. */
static int ids_add(struct ids *ids, struct bytes id, bool twice, struct error *err)
{
	uint32_t known;
	uint64_t hash = hash64_guarded(id.data, id.len);
	if (id.len > ID_BYTES_MAX)
		return error_set(err, -EBADMSG, "a stack id of more than %d bytes", ID_BYTES_MAX);
	if (ids->count == STACKS_MAX)
		return error_set(err, -E2BIG, "a record of more than %u stacks", STACKS_MAX);
	bool is_known = ids_find(ids, id, hash, &known);
	if (is_known && !twice)
		return 0;
	if (array_reserve(&ids->items, &ids->capacity, ids->count + 1, STACKS_MAX) < 0 ||
	    (!is_known && index32_add(&ids->index, hash, (uint32_t)ids->count) < 0))
		return error_nomem(err);
	ids->items[ids->count++] = id;
	return 0;
}

static int ask_for(const struct ids *ids, struct buffer *out, struct error *err)
{
	const struct arrow_column column = {.name = ID_COLUMN, .kind = ARROW_BINARY, .values = ids->items};
	return arrow_write_stream(&column, 1, ids->count, out, err);
}

static int gather_ids(struct samples *samples, struct ids *ids, struct error *err)
{
	const struct arrow_array *columns;
	size_t rows, batches = 0;
	struct bytes id;
	int r;
	while ((r = arrow_stream_next(samples->stream, &columns, &rows, err)) > 0) {
		if (++batches > BATCHES_MAX)
			return error_set(err, -E2BIG, "a record of more than %d batches", BATCHES_MAX);
		for (size_t row = 0; row < rows; row++) {
			r = parca_text(columns, samples->at[SAMPLE_STACK_ID], row, &id, err);
			if (r == 0 && id.len)
				r = ids_add(ids, id, false, err);
			if (r < 0)
				return r;
		}
	}
	return r;
}

int parca_arrow_request(struct bytes record, size_t memory_max, struct buffer *out, struct error *err)
{
	_cleanup_(mem_freep) struct samples *samples = mem_zalloc(sizeof(*samples));
	struct ids ids = {0};
	if (!samples)
		return error_nomem(err);
	int r = samples_open(record, memory_max, samples, err);
	bool complete = samples->at[SAMPLE_STACK] >= 0;
	if (r == 0)
		r = gather_ids(samples, &ids, err);
	if (r == 0)
		r = ask_for(&ids, out, err);
	ids_release(&ids);
	samples_release(samples);
	return r < 0 ? r : !complete;
}

/* ---- locations (v1) ---- */

struct locations {
	struct arrow_stream *stream;
	const struct arrow_array *lists;
	struct ids ids; /* by row */
	struct parca_layout layout;
};

static void locations_release(struct locations *locations)
{
	locations->stream = arrow_stream_free(locations->stream);
	ids_release(&locations->ids);
}

static int locations_open(struct bytes record, size_t memory_max, struct locations *ret, struct error *err)
{
	size_t count, rows;
	const struct arrow_array *columns;
	struct bytes id;
	int r = arrow_stream_open(record, memory_max, &ret->stream, err);
	if (r < 0)
		return r;
	const struct arrow_field *fields = arrow_stream_fields(ret->stream, &count);
	int ids = arrow_find_field(fields, count, ID_COLUMN), lists = arrow_find_field(fields, count, "locations");
	if (ids < 0 || lists < 0)
		return error_set(err, -EBADMSG, "the record has no columns \"" ID_COLUMN "\" and \"locations\"");
	r = parca_layout_find(&fields[lists], &ret->layout, err);
	if (r == 0)
		r = arrow_stream_next(ret->stream, &columns, &rows, err);
	if (r <= 0)
		return r < 0 ? r : error_set(err, -EBADMSG, "the record has no batch");
	r = 0;
	for (size_t row = 0; row < rows && r == 0; row++) {
		r = parca_text(columns, ids, row, &id, err);
		if (r == 0)
			r = ids_add(&ret->ids, id, true, err);
	}
	ret->lists = &columns[lists];
	return r;
}

/* ---- profiles ---- */

struct kind {
	struct parca_stacks stacks;
	char *texts[TEXTS];
	size_t lens[TEXTS];
	int64_t period;
	bool delta;
	int64_t first_ns, last_ns, duration_ns;
	uint32_t *label_keys; /* by column of labels; 0 = not yet */
};
struct builder {
	struct samples samples;
	struct locations locations;
	struct parca_layout layout;
	struct parca_work work;
	struct kind kinds[LIMIT_SAMPLE_TYPES];
	size_t kind_count;
	struct profile_label labels[LABEL_COLUMNS_MAX];
};

static void kind_release(struct kind *kind)
{
	profile_free(kind->stacks.profile);
	parca_stacks_release(&kind->stacks);
	for (size_t i = 0; i < TEXTS; i++)
		mem_free(kind->texts[i]);
	mem_free(kind->label_keys);
}

static void builder_free(struct builder *builder)
{
	for (size_t i = 0; i < builder->kind_count; i++)
		kind_release(&builder->kinds[i]);
	samples_release(&builder->samples);
	locations_release(&builder->locations);
	mem_free(builder);
}
DEFINE_CLEANUP_POINTER(builder_free, struct builder);

static bool is_kind(const struct kind *kind, const struct bytes *texts, int64_t period, bool delta)
{
	if (kind->period != period || kind->delta != delta)
		return false;
	for (size_t i = 0; i < TEXTS; i++)
		if (kind->lens[i] != texts[i].len || (texts[i].len && memcmp(kind->texts[i], texts[i].data, texts[i].len) != 0))
			return false;
	return true;
}

static int add_type(struct profile *profile, const struct bytes *texts, struct profile_value_type *ret, struct error *err)
{
	int r = profile_add_bytes(profile, texts[0], &ret->type, err);
	return r < 0 ? r : profile_add_bytes(profile, texts[1], &ret->unit, err);
}

static int start_kind(struct builder *builder, struct kind *kind, const struct bytes *texts, struct error *err)
{
	struct profile *profile;
	struct profile_value_type type;
	int r = profile_new(&profile, err);
	if (r < 0)
		return r;
	parca_stacks_init(&kind->stacks, profile);
	kind->label_keys = mem_zalloc_array(builder->samples.label_count, sizeof(*kind->label_keys));
	if (!kind->label_keys)
		return error_nomem(err);
	for (size_t i = 0; i < TEXTS; i++) {
		kind->lens[i] = texts[i].len;
		kind->texts[i] = mem_alloc(texts[i].len + 1);
		if (!kind->texts[i])
			return error_nomem(err);
		if (texts[i].len)
			memcpy(kind->texts[i], texts[i].data, texts[i].len);
		kind->texts[i][texts[i].len] = '\0';
	}
	r = add_type(profile, &texts[SAMPLE_TYPE - SAMPLE_TEXTS], &type, err);
	if (r == 0)
		r = profile_add_sample_type(profile, type.type, type.unit, err);
	if (r == 0)
		r = add_type(profile, &texts[SAMPLE_PERIOD_TYPE - SAMPLE_TEXTS], &profile->period_type, err);
	profile->period = kind->period;
	return r;
}

/* The kind of the sample in this row, new if it is the first of it. */
static int find_kind(struct builder *builder, const struct arrow_array *columns, size_t row, bool delta, struct kind **ret,
		     struct error *err)
{
	const int *at = builder->samples.at;
	struct bytes texts[TEXTS];
	int64_t period;
	int r = parca_integer(columns, at[SAMPLE_PERIOD], row, &period, err);
	for (size_t i = 0; i < TEXTS && r == 0; i++) {
		r = parca_text(columns, at[SAMPLE_TEXTS + i], row, &texts[i], err);
		if (r == 0 && texts[i].len > LIMIT_LABEL_VALUE_BYTES)
			r = error_set(err, -EBADMSG, "a name of a profile type of %zu bytes", texts[i].len);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < builder->kind_count; i++)
		if (is_kind(&builder->kinds[i], texts, period, delta)) {
			*ret = &builder->kinds[i];
			return 0;
		}
	if (builder->kind_count == LIMIT_SAMPLE_TYPES)
		return error_set(err, -E2BIG, "a record of more than %d kinds of samples", LIMIT_SAMPLE_TYPES);
	*ret = &builder->kinds[builder->kind_count++];
	**ret = (struct kind){.period = period, .delta = delta};
	return start_kind(builder, *ret, texts, err);
}

static int add_label(struct builder *builder, struct kind *kind, size_t number, struct bytes value, size_t *count,
		     struct error *err)
{
	struct profile *profile = kind->stacks.profile;
	struct profile_label *label = &builder->labels[*count];
	struct bytes name = builder->samples.label_columns[number].name;
	uint32_t *key = &kind->label_keys[number];
	*label = (struct profile_label){0};
	int r = *key ? 0 : profile_add_bytes(profile, name, key, err);
	label->key = *key;
	if (r == 0)
		r = profile_add_bytes(profile, value, &label->value, err);
	*count += r == 0;
	return r;
}

static int add_labels(struct builder *builder, struct kind *kind, const struct arrow_array *columns, size_t row, uint32_t *ret,
		      struct error *err)
{
	const struct samples *samples = &builder->samples;
	size_t count = 0;
	*ret = 0;
	if (samples->labels >= 0) {
		const struct arrow_array *labels;
		int r = arrow_locate(&columns[samples->labels], row, &labels, &row);
		if (r <= 0)
			return r < 0 ? error_set(err, -EBADMSG, "the column \"labels\" has no value at its index") : 0;
		columns = labels->children;
	}
	int r = parca_work_add(&builder->work, samples->label_count, err);
	for (size_t i = 0; i < samples->label_count && r == 0; i++) {
		struct bytes value;
		r = parca_text(columns, samples->label_columns[i].column, row, &value, err);
		if (r == 0 && value.len)
			r = add_label(builder, kind, i, value, &count, err);
	}
	return r < 0 ? r : profile_add_label_set(kind->stacks.profile, builder->labels, count, ret, err);
}

static int add_stack(struct builder *builder, struct kind *kind, const struct arrow_array *columns, size_t row, uint32_t *ret,
		     struct error *err)
{
	const int *at = builder->samples.at;
	const struct ids *ids = &builder->locations.ids;
	struct bytes id;
	uint32_t found;
	if (at[SAMPLE_STACK] >= 0)
		return parca_stacks_add(&kind->stacks, &builder->layout, &builder->work, &columns[at[SAMPLE_STACK]], row, ret,
					err);
	*ret = 0;
	int r = parca_text(columns, at[SAMPLE_STACK_ID], row, &id, err);
	if (r < 0 || id.len == 0)
		return r;
	if (!ids_find(ids, id, hash64_guarded(id.data, id.len), &found))
		return error_set(err, -EBADMSG, "row %zu: the locations of its stack are missing", row);
	return parca_stacks_add(&kind->stacks, &builder->layout, &builder->work, builder->locations.lists, found, ret, err);
}

static int read_time(const struct arrow_array *columns, int column, size_t row, int64_t unit_ns, int64_t *ret,
		     struct error *err)
{
	int r = parca_integer(columns, column, row, ret, err);
	if (r == 0 && __builtin_mul_overflow(*ret, unit_ns, ret))
		r = error_set(err, -EBADMSG, "row %zu: the time is out of range", row);
	return r;
}

static void note_time(struct kind *kind, int64_t time_ns, int64_t duration_ns)
{
	if (time_ns && (!kind->first_ns || time_ns < kind->first_ns))
		kind->first_ns = time_ns;
	if (time_ns && (!kind->last_ns || time_ns > kind->last_ns))
		kind->last_ns = time_ns;
	if (duration_ns > kind->duration_ns)
		kind->duration_ns = duration_ns;
}

static int add_sample(struct builder *builder, const struct arrow_array *columns, size_t row, struct error *err)
{
	const struct samples *samples = &builder->samples;
	struct profile_sample sample = {0};
	struct kind *kind = NULL;
	int64_t value, duration;
	int r = parca_integer(columns, samples->at[SAMPLE_VALUE], row, &value, err);
	if (r == 0)
		r = read_time(columns, samples->at[SAMPLE_TIMESTAMP], row, samples->timestamp_unit_ns, &sample.time_ns, err);
	if (r == 0)
		r = read_time(columns, samples->at[SAMPLE_DURATION], row, samples->duration_unit_ns, &duration, err);
	if (r == 0)
		r = find_kind(builder, columns, row, duration != 0, &kind, err);
	if (r == 0)
		r = add_stack(builder, kind, columns, row, &sample.stack, err);
	if (r == 0)
		r = add_labels(builder, kind, columns, row, &sample.labels, err);
	if (r < 0)
		return r;
	note_time(kind, sample.time_ns, duration);
	return profile_add_sample(kind->stacks.profile, &sample, &value, err);
}

static int build(struct builder *builder, struct error *err)
{
	const struct arrow_array *columns;
	size_t rows, batches = 0;
	int r;
	while ((r = arrow_stream_next(builder->samples.stream, &columns, &rows, err)) > 0) {
		if (++batches > BATCHES_MAX)
			return error_set(err, -E2BIG, "a record of more than %d batches", BATCHES_MAX);
		for (size_t i = 0; i < builder->kind_count; i++)
			parca_stacks_next(&builder->kinds[i].stacks);
		for (size_t row = 0; row < rows; row++)
			if ((r = add_sample(builder, columns, row, err)) < 0)
				return r;
	}
	return r;
}

static int finish(struct builder *builder, struct parca_profiles *ret, struct error *err)
{
	ret->items = mem_zalloc_array(builder->kind_count, sizeof(*ret->items));
	if (!ret->items)
		return error_nomem(err);
	for (size_t i = 0; i < builder->kind_count; i++) {
		struct kind *kind = &builder->kinds[i];
		struct profile *profile = kind->stacks.profile;
		int64_t range;
		profile->time_ns = kind->first_ns;
		if (kind->delta && (__builtin_sub_overflow(kind->last_ns, kind->first_ns, &range) || range < kind->duration_ns))
			range = kind->duration_ns;
		/* Having one distinguishes a rate from an amount. */
		profile->duration_ns = kind->delta ? range > 0 ? range : 1 : 0;
		ret->items[i] = (struct parca_profile){profile, kind->texts[SAMPLE_PRODUCER - SAMPLE_TEXTS]};
		kind->stacks.profile = NULL;
		kind->texts[SAMPLE_PRODUCER - SAMPLE_TEXTS] = NULL;
	}
	ret->count = builder->kind_count;
	return 0;
}

void parca_profiles_init(struct parca_profiles *profiles)
{
	*profiles = (struct parca_profiles){0};
}

void parca_profiles_release(struct parca_profiles *profiles)
{
	for (size_t i = 0; i < profiles->count; i++) {
		profile_free(profiles->items[i].profile);
		mem_free(profiles->items[i].name);
	}
	mem_free(profiles->items);
	parca_profiles_init(profiles);
}

int parca_arrow_decode(struct bytes record, struct bytes locations, size_t memory_max, struct parca_profiles *ret,
		       struct error *err)
{
	_cleanup_(builder_freep) struct builder *builder = mem_zalloc(sizeof(*builder));
	size_t count;
	if (!builder)
		return error_nomem(err);
	struct samples *samples = &builder->samples;
	builder->work.max = PARCA_WORK_MIN + PARCA_WORK_A_BYTE * ((uint64_t)record.len + locations.len);
	if (builder->work.max > PARCA_WORK_MAX)
		builder->work.max = PARCA_WORK_MAX;
	int r = samples_open(record, memory_max, samples, err);
	if (r < 0)
		return r;
	if (samples->at[SAMPLE_STACK] >= 0) {
		const struct arrow_field *fields = arrow_stream_fields(samples->stream, &count);
		r = parca_layout_find(&fields[samples->at[SAMPLE_STACK]], &builder->layout, err);
	} else if (locations.len == 0) {
		r = error_set(err, -EBADMSG, "the record has stack ids, but no column \"stacktrace\"");
	} else {
		r = locations_open(locations, memory_max, &builder->locations, err);
		if (r < 0)
			r = error_prefix(err, r, "locations");
		builder->layout = builder->locations.layout;
	}
	if (r == 0)
		r = build(builder, err);
	return r < 0 ? r : finish(builder, ret, err);
}
