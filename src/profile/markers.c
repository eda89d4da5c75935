/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/markers.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/align_int.h"
#include "profile/merge.h"
#include "profile/profile_int.h"

struct profile_markers_index {
	size_t host_capacity, thread_capacity, category_capacity, schema_capacity, field_capacity, marker_capacity,
		value_capacity, counter_capacity, row_capacity, lifetime_capacity;
	struct index32 hosts, threads, categories, schemas, counters, lifetimes;
};

size_t profile_marker_count(const struct profile *profile)
{
	return profile->markers ? profile->markers->marker_count : 0;
}

size_t profile_counter_count(const struct profile *profile)
{
	return profile->markers ? profile->markers->counter_count - 1 : 0;
}

size_t profile_host_count(const struct profile *profile)
{
	return profile->markers ? profile->markers->host_count - 1 : 0;
}

/* ---- life ---- */

#define TABLES_MAX 6

/* What is interned. */
static void list_tables(struct profile_markers *markers, struct profile_table tables[static TABLES_MAX])
{
	tables[0] = PROFILE_TABLE(markers, host, hosts, "hosts", NULL);
	tables[1] = PROFILE_TABLE(markers, thread, threads, "threads", NULL);
	tables[2] = PROFILE_TABLE(markers, category, categories, "marker categories", NULL);
	tables[3] = PROFILE_TABLE(markers, schema, schemas, "marker schemas", NULL);
	tables[4] = PROFILE_TABLE(markers, counter, counters, "counters", NULL);
	tables[5] = PROFILE_TABLE(markers, lifetime, lifetimes, "lifetimes of threads", NULL);
}

struct profile_markers *profile_markers_free(struct profile_markers *markers)
{
	struct profile_table tables[TABLES_MAX];
	if (!markers)
		return NULL;
	if (markers->index) {
		list_tables(markers, tables);
		for (size_t i = 0; i < TABLES_MAX; i++)
			profile_table_release(tables[i]);
		mem_free(markers->index);
	}
	mem_free(markers->fields);
	mem_free(markers->markers);
	mem_free(markers->values);
	mem_free(markers->rows);
	return mem_free(markers);
}

/* Entry 0 of each table is not in its index, for nobody adds it. */
static int add_first_entries(struct profile *profile, struct profile_markers *markers, struct error *err)
{
	struct profile_table tables[TABLES_MAX];
	int r = 0;
	list_tables(markers, tables);
	for (size_t i = 0; r == 0 && i < TABLES_MAX; i++)
		r = profile_table_begin(profile, tables[i], err);
	return r;
}

static int begin(struct profile *profile, struct error *err)
{
	if (profile->markers)
		return 0;
	struct profile_markers *markers = mem_zalloc(sizeof(*markers));
	int r = -ENOMEM;
	if (markers && (markers->index = mem_zalloc(sizeof(*markers->index))))
		r = add_first_entries(profile, markers, err);
	if (r < 0) {
		profile_markers_free(markers);
		return r == -ENOMEM ? error_nomem(err) : r;
	}
	profile->markers = markers;
	return 0;
}

/* ---- what is interned ---- */

static bool hosts_equal(const void *a, const void *b)
{
	return ((const struct profile_host *)a)->name == ((const struct profile_host *)b)->name;
}

static bool is_described(const struct profile_machine *machine)
{
	return machine->program || machine->arguments || machine->system || machine->cpu_name || machine->logical_cpus ||
	       machine->physical_cpus;
}

int profile_add_host(struct profile *profile, const struct profile_host *host, uint32_t *ret_id, struct error *err)
{
	assert(host->name < profile->strings.count && host->reference < profile->strings.count &&
	       host->method < profile->strings.count);
	assert(host->machine.program < profile->strings.count && host->machine.arguments < profile->strings.count &&
	       host->machine.system < profile->strings.count && host->machine.cpu_name < profile->strings.count);
	const struct profile_host entry = *host;
	int r = begin(profile, err);
	if (r < 0)
		return r;
	struct profile_markers *markers = profile->markers;
	r = profile_intern(profile, PROFILE_TABLE(markers, host, hosts, "hosts", hosts_equal), &entry,
			   profile_hash_add(profile->index->seed, entry.name), ret_id, err);
	if (r < 0)
		return r;
	struct profile_host *have = &markers->hosts[*ret_id];
	struct profile_machine machine = is_described(&entry.machine) ? entry.machine : have->machine;
	if (entry.reference)
		*have = entry;
	have->machine = machine;
	return 0;
}

/* Of a thread or a lifetime. */
static uint64_t hash_start(const struct profile *profile, uint32_t host, int64_t pid, int64_t tid, int64_t start_ns)
{
	uint64_t hash = profile_hash_add(profile_hash_add(profile->index->seed, host), (uint64_t)pid);
	return profile_hash_add(profile_hash_add(hash, (uint64_t)tid), (uint64_t)start_ns);
}
#define HASH_START(profile, entry) hash_start((profile), (entry)->host, (entry)->pid, (entry)->tid, (entry)->start_ns)

static uint64_t hash_counter(const struct profile *profile, const struct profile_counter *counter)
{
	uint64_t hash = profile_hash_add(profile->index->seed, (uint64_t)counter->name << 32 | counter->category);
	hash = profile_hash_add(profile_hash_add(hash, (uint64_t)counter->pid), (uint64_t)counter->thread << 8 | counter->kind);
	return profile_hash_add(hash, counter->host);
}

int profile_reindex_markers(struct profile *profile, struct error *err)
{
	struct profile_markers *markers = profile->markers;
	struct profile_markers_index *index = markers->index;
	int r = 0;
	index32_clear(&index->hosts);
	index32_clear(&index->threads);
	index32_clear(&index->counters);
	index32_clear(&index->lifetimes);
	for (uint32_t i = 1; r == 0 && i < markers->host_count; i++)
		r = index32_add(&index->hosts, profile_hash_add(profile->index->seed, markers->hosts[i].name), i);
	for (uint32_t i = 1; r == 0 && i < markers->thread_count; i++)
		r = index32_add(&index->threads, HASH_START(profile, &markers->threads[i]), i);
	for (uint32_t i = 1; r == 0 && i < markers->counter_count; i++)
		r = index32_add(&index->counters, hash_counter(profile, &markers->counters[i]), i);
	for (uint32_t i = 1; r == 0 && i < markers->lifetime_count; i++)
		r = index32_add(&index->lifetimes, HASH_START(profile, &markers->lifetimes[i]), i);
	return r < 0 ? error_nomem(err) : 0;
}

static bool threads_equal(const void *left, const void *right)
{
	const struct profile_thread *a = left, *b = right;
	return a->host == b->host && a->pid == b->pid && a->tid == b->tid && a->start_ns == b->start_ns;
}

int profile_add_thread(struct profile *profile, const struct profile_thread *thread, uint32_t *ret_id, struct error *err)
{
	assert(thread->name < profile->strings.count && thread->process < profile->strings.count);
	const struct profile_thread entry = *thread;
	int r = begin(profile, err);
	if (r < 0)
		return r;
	struct profile_markers *markers = profile->markers;
	assert(entry.host < markers->host_count);
	r = profile_intern(profile, PROFILE_TABLE(markers, thread, threads, "threads", threads_equal), &entry,
			   HASH_START(profile, &entry), ret_id, err);
	if (r < 0)
		return r;
	struct profile_thread *have = &markers->threads[*ret_id];
	if (entry.name)
		have->name = entry.name;
	if (entry.process)
		have->process = entry.process;
	return 0;
}

static bool lifetimes_equal(const void *left, const void *right)
{
	const struct profile_lifetime *a = left, *b = right;
	return a->host == b->host && a->pid == b->pid && a->tid == b->tid && a->start_ns == b->start_ns;
}

int profile_add_lifetime(struct profile *profile, const struct profile_lifetime *lifetime, uint32_t *ret_id, struct error *err)
{
	assert(lifetime->program < profile->strings.count);
	const struct profile_lifetime entry = *lifetime;
	int r = begin(profile, err);
	if (r < 0)
		return r;
	struct profile_markers *markers = profile->markers;
	assert(entry.host < markers->host_count);
	r = profile_intern(profile, PROFILE_TABLE(markers, lifetime, lifetimes, "lifetimes of threads", lifetimes_equal),
			   &entry, HASH_START(profile, &entry), ret_id, err);
	if (r < 0)
		return r;
	struct profile_lifetime *have = &markers->lifetimes[*ret_id];
	have->end_ns = entry.end_ns ? entry.end_ns : have->end_ns;
	have->program = entry.program ? entry.program : have->program;
	have->by_exec |= entry.by_exec;
	return 0;
}

static bool categories_equal(const void *left, const void *right)
{
	const struct profile_marker_category *a = left, *b = right;
	return a->name == b->name && a->color == b->color;
}

int profile_add_marker_category(struct profile *profile, uint32_t name, uint32_t color, uint32_t *ret_id, struct error *err)
{
	assert(name < profile->strings.count && color < profile->strings.count);
	const struct profile_marker_category entry = {.name = name, .color = color};
	int r = begin(profile, err);
	if (r < 0)
		return r;
	return profile_intern(profile,
			      PROFILE_TABLE(profile->markers, category, categories, "marker categories", categories_equal),
			      &entry, profile_hash_add(profile->index->seed, (uint64_t)name << 32 | color), ret_id, err);
}

static bool schema_is(const struct profile_markers *markers, uint32_t id, const struct profile_marker_schema *schema,
		      const struct profile_marker_field *fields, size_t count)
{
	const struct profile_marker_schema *have = &markers->schemas[id];
	if (have->name != schema->name || have->chart_label != schema->chart_label ||
	    have->tooltip_label != schema->tooltip_label || have->table_label != schema->table_label ||
	    have->field_count != count)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct profile_marker_field *field = &markers->fields[have->field_first + i];
		if (field->key != fields[i].key || field->label != fields[i].label || field->format != fields[i].format)
			return false;
	}
	return true;
}

static uint64_t hash_schema(const struct profile *profile, const struct profile_marker_schema *schema,
			    const struct profile_marker_field *fields, size_t count)
{
	size_t strings = profile->strings.count;
	uint64_t hash = profile_hash_add(profile->index->seed, (uint64_t)schema->name << 32 | schema->chart_label);
	hash = profile_hash_add(hash, (uint64_t)schema->tooltip_label << 32 | schema->table_label);
	assert(schema->name < strings && schema->chart_label < strings && schema->tooltip_label < strings &&
	       schema->table_label < strings);
	for (size_t i = 0; i < count; i++) {
		assert(fields[i].key < strings && fields[i].label < strings && fields[i].format < PROFILE_FIELD_FORMATS);
		hash = profile_hash_add(hash, (uint64_t)fields[i].key << 32 | fields[i].label);
		hash = profile_hash_add(hash, fields[i].format);
	}
	(void)strings;
	return hash;
}

/* fields may not lie in the profile itself. */
int profile_add_marker_schema(struct profile *profile, const struct profile_marker_schema *schema,
			      const struct profile_marker_field *fields, size_t field_count, uint32_t *ret_id,
			      struct error *err)
{
	if (field_count > PROFILE_MARKER_FIELDS_MAX)
		return error_set(err, -E2BIG, "the markers '%.64s' have more than %d fields, the limit",
				 profile_string(profile, schema->name), PROFILE_MARKER_FIELDS_MAX);
	int r = begin(profile, err);
	if (r < 0)
		return r;
	struct profile_markers *markers = profile->markers;
	const struct profile_table table = PROFILE_TABLE(markers, schema, schemas, "marker schemas", NULL);
	struct profile_marker_schema entry = *schema;
	uint64_t hash = hash_schema(profile, schema, fields, field_count);
	uint32_t id;
	for (size_t at = index32_first(table.index, hash); index32_at(table.index, hash, &at, &id); at++)
		if (schema_is(markers, id, schema, fields, field_count)) {
			*ret_id = id;
			return 0;
		}
	r = profile_reserve_array(profile, "fields of markers", &markers->fields, &markers->index->field_capacity,
				  markers->field_count + field_count, err);
	if (r == 0)
		r = profile_table_reserve(profile, &table, err);
	if (r < 0)
		return r;
	entry.field_first = (uint32_t)markers->field_count;
	entry.field_count = (uint32_t)field_count;
	if (field_count > 0)
		memcpy(markers->fields + markers->field_count, fields, field_count * sizeof(*fields));
	markers->field_count += field_count;
	*ret_id = profile_table_append(&table, &entry, hash);
	return 0;
}

static bool counters_equal(const void *left, const void *right)
{
	const struct profile_counter *a = left, *b = right;
	return a->name == b->name && a->category == b->category && a->description == b->description && a->unit == b->unit &&
	       a->color == b->color && a->kind == b->kind && a->host == b->host && a->pid == b->pid && a->thread == b->thread;
}

int profile_add_counter(struct profile *profile, const struct profile_counter *counter, uint32_t *ret_id, struct error *err)
{
	size_t strings = profile->strings.count;
	const struct profile_counter entry = *counter;
	assert(entry.name < strings && entry.category < strings && entry.description < strings && entry.unit < strings &&
	       entry.color < strings);
	(void)strings;
	int r = begin(profile, err);
	if (r < 0)
		return r;
	struct profile_markers *markers = profile->markers;
	assert(entry.thread < markers->thread_count && entry.host < markers->host_count);
	return profile_intern(profile, PROFILE_TABLE(markers, counter, counters, "counters", counters_equal), &entry,
			      hash_counter(profile, &entry), ret_id, err);
}

/* ---- markers and rows ---- */

int profile_add_marker(struct profile *profile, const struct profile_marker *marker, const struct profile_marker_value *values,
		       struct error *err)
{
	int r = begin(profile, err);
	if (r < 0)
		return r;
	struct profile_markers *markers = profile->markers;
	struct profile_marker entry = *marker;
	assert(entry.thread < markers->thread_count && entry.schema < markers->schema_count &&
	       entry.category < markers->category_count && entry.name < profile->strings.count &&
	       entry.phase < PROFILE_MARKER_PHASES);
	size_t count = markers->schemas[entry.schema].field_count;
	r = profile_reserve_array(profile, "markers", &markers->markers, &markers->index->marker_capacity,
				  markers->marker_count + 1, err);
	if (r == 0)
		r = profile_reserve_array(profile, "values of markers", &markers->values, &markers->index->value_capacity,
					  markers->value_count + count, err);
	if (r < 0)
		return r;
	if (entry.phase == PROFILE_MARKER_INTERVAL && entry.end_ns < entry.start_ns)
		entry.end_ns = entry.start_ns;
	entry.value_first = (uint32_t)markers->value_count;
	for (size_t i = 0; i < count; i++) {
		struct profile_marker_value value = values ? values[i] : (struct profile_marker_value){0};
		assert(value.kind != PROFILE_VALUE_STRING || value.string < profile->strings.count);
		markers->values[markers->value_count++] = value;
	}
	markers->markers[markers->marker_count++] = entry;
	return 0;
}

int profile_add_counter_row(struct profile *profile, uint32_t counter, int64_t time_ns, double value, struct error *err)
{
	struct profile_markers *markers = profile->markers;
	assert(markers && counter > 0 && counter < markers->counter_count);
	int r = profile_reserve_array(profile, "rows of counters", &markers->rows, &markers->index->row_capacity,
				      markers->row_count + 1, err);
	if (r < 0)
		return r;
	markers->rows[markers->row_count++] =
		(struct profile_counter_row){.counter = counter, .time_ns = time_ns, .value = value};
	return 0;
}

/* ---- merging ---- */

/* Ids of the source by ids of the destination; all are copied, for all are used. */
struct marker_copy {
	struct profile *to;
	const struct profile_markers *from;
	struct profile_copy *strings;
	uint32_t *hosts, *threads, *categories, *schemas, *counters;
};

static void marker_copy_release(struct marker_copy *copy)
{
	mem_free(copy->hosts);
	mem_free(copy->threads);
	mem_free(copy->categories);
	mem_free(copy->schemas);
	mem_free(copy->counters);
}

static int copy_hosts(struct marker_copy *copy, struct error *err)
{
	int r = 0;
	for (size_t i = 1; r == 0 && i < copy->from->host_count; i++) {
		struct profile_host host = copy->from->hosts[i];
		r = PROFILE_COPY_STRINGS(copy->strings, err, &host.name, &host.reference, &host.method, &host.machine.program,
					 &host.machine.arguments, &host.machine.system, &host.machine.cpu_name);
		if (r == 0)
			r = profile_add_host(copy->to, &host, &copy->hosts[i], err);
	}
	return r;
}

static int copy_lifetimes(struct marker_copy *copy, struct error *err)
{
	uint32_t id;
	int r = 0;
	for (size_t i = 1; r == 0 && i < copy->from->lifetime_count; i++) {
		struct profile_lifetime lifetime = copy->from->lifetimes[i];
		r = PROFILE_COPY_STRINGS(copy->strings, err, &lifetime.program);
		lifetime.host = copy->hosts[lifetime.host];
		if (r == 0)
			r = profile_add_lifetime(copy->to, &lifetime, &id, err);
	}
	return r;
}

static int copy_threads_and_categories(struct marker_copy *copy, struct error *err)
{
	int r = 0;
	for (size_t i = 1; r == 0 && i < copy->from->thread_count; i++) {
		struct profile_thread thread = copy->from->threads[i];
		r = PROFILE_COPY_STRINGS(copy->strings, err, &thread.name, &thread.process);
		thread.host = copy->hosts[thread.host];
		if (r == 0)
			r = profile_add_thread(copy->to, &thread, &copy->threads[i], err);
	}
	for (size_t i = 1; r == 0 && i < copy->from->category_count; i++) {
		struct profile_marker_category category = copy->from->categories[i];
		r = PROFILE_COPY_STRINGS(copy->strings, err, &category.name, &category.color);
		if (r == 0)
			r = profile_add_marker_category(copy->to, category.name, category.color, &copy->categories[i], err);
	}
	return r;
}

static int copy_schemas(struct marker_copy *copy, struct error *err)
{
	int r = 0;
	for (size_t i = 1; r == 0 && i < copy->from->schema_count; i++) {
		struct profile_marker_schema schema = copy->from->schemas[i];
		struct profile_marker_field fields[PROFILE_MARKER_FIELDS_MAX];
		r = PROFILE_COPY_STRINGS(copy->strings, err, &schema.name, &schema.chart_label, &schema.tooltip_label,
					 &schema.table_label);
		for (size_t k = 0; r == 0 && k < schema.field_count; k++) {
			fields[k] = copy->from->fields[schema.field_first + k];
			r = PROFILE_COPY_STRINGS(copy->strings, err, &fields[k].key, &fields[k].label);
		}
		if (r == 0)
			r = profile_add_marker_schema(copy->to, &schema, fields, schema.field_count, &copy->schemas[i], err);
	}
	return r;
}

static int copy_markers(struct marker_copy *copy, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < copy->from->marker_count; i++) {
		struct profile_marker marker = copy->from->markers[i];
		struct profile_marker_value values[PROFILE_MARKER_FIELDS_MAX];
		size_t count = copy->from->schemas[marker.schema].field_count;
		r = PROFILE_COPY_STRINGS(copy->strings, err, &marker.name);
		for (size_t k = 0; r == 0 && k < count; k++) {
			values[k] = copy->from->values[marker.value_first + k];
			if (values[k].kind == PROFILE_VALUE_STRING)
				r = profile_copy_string(copy->strings, values[k].string, &values[k].string, err);
		}
		marker.thread = copy->threads[marker.thread];
		marker.schema = copy->schemas[marker.schema];
		marker.category = copy->categories[marker.category];
		if (r == 0)
			r = profile_add_marker(copy->to, &marker, values, err);
	}
	return r;
}

static int copy_counters(struct marker_copy *copy, struct error *err)
{
	int r = 0;
	for (size_t i = 1; r == 0 && i < copy->from->counter_count; i++) {
		struct profile_counter counter = copy->from->counters[i];
		r = PROFILE_COPY_STRINGS(copy->strings, err, &counter.name, &counter.category, &counter.description,
					 &counter.unit, &counter.color);
		counter.host = copy->hosts[counter.host];
		counter.thread = copy->threads[counter.thread];
		if (r == 0)
			r = profile_add_counter(copy->to, &counter, &copy->counters[i], err);
	}
	for (size_t i = 0; r == 0 && i < copy->from->row_count; i++) {
		const struct profile_counter_row *row = &copy->from->rows[i];
		r = profile_add_counter_row(copy->to, copy->counters[row->counter], row->time_ns, row->value, err);
	}
	return r;
}

int profile_copy_markers(struct profile *to, const struct profile *from, struct profile_copy *strings, struct error *err)
{
	if (!from->markers)
		return 0;
	const struct profile_markers *markers = from->markers;
	_cleanup_(marker_copy_release) struct marker_copy copy = {
		.to = to,
		.from = markers,
		.strings = strings,
		.hosts = mem_zalloc_array(markers->host_count, sizeof(uint32_t)),
		.threads = mem_zalloc_array(markers->thread_count, sizeof(uint32_t)),
		.categories = mem_zalloc_array(markers->category_count, sizeof(uint32_t)),
		.schemas = mem_zalloc_array(markers->schema_count, sizeof(uint32_t)),
		.counters = mem_zalloc_array(markers->counter_count, sizeof(uint32_t)),
	};
	if (!copy.hosts || !copy.threads || !copy.categories || !copy.schemas || !copy.counters)
		return error_nomem(err);
	/* Each refers to those before it. */
	static int (*const steps[])(struct marker_copy * copy, struct error * err) = {
		copy_hosts, copy_lifetimes, copy_threads_and_categories, copy_schemas, copy_markers, copy_counters};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(steps) / sizeof(steps[0]); i++)
		r = steps[i](&copy, err);
	return r;
}
