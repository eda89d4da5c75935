/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what delta.c writes, whose essay says what is trusted: nothing. Entries go into the head's own tables as they come,
 * so that several segments, whose numbers have nothing to do with each other, meet in one head. */
#include "store/head/delta.h"

#include "base/hash.h"
#include "base/limits.h"
#include "profile/merge.h"
#include "store/head/head.h"
#include "store/head/head_int.h"
#include "store/head/record_int.h"

struct reading {
	struct decoder in;
	struct delta_reader *reader;
	struct head *head;
	struct profile *pool;
	struct head_batch batch;
	uint64_t sequence, flags, rows;
	bool is_lost; /* something that rows refer to */
};

/* ---- numbers and ids ---- */

static void release_ids(struct delta_ids *table)
{
	mem_free(table->ids);
	mem_free(table->runs);
	*table = (struct delta_ids){0};
}

static int begin_run(struct delta_ids *table, uint32_t number)
{
	table->next = number;
	return array_push(&table->runs, &table->run_count, &table->run_capacity, SIZE_MAX,
			  (struct delta_run){number, table->count});
}

static int push_id(struct delta_ids *table, uint32_t id)
{
	int r = array_push(&table->ids, &table->count, &table->capacity, SIZE_MAX, id);
	table->next += r == 0;
	return r;
}

/* Where a number below `next` is in ids; SIZE_MAX if it is missing. */
static size_t index_of(const struct delta_ids *table, uint32_t number)
{
	size_t end = table->count;
	for (size_t i = table->run_count; i-- > 0; end = table->runs[i].at) {
		const struct delta_run *run = &table->runs[i];
		if (number >= run->number)
			return number - run->number < end - run->at ? run->at + (number - run->number) : SIZE_MAX;
	}
	return SIZE_MAX;
}

static uint32_t id_of(const struct delta_ids *table, uint32_t number)
{
	size_t at = index_of(table, number);
	return at == SIZE_MAX ? DELTA_LOST : table->ids[at];
}

/* A reference into a table, as an id of the head. */
static uint32_t get_id(struct reading *r, enum delta_table table)
{
	const struct delta_ids *ids = &r->reader->tables[table];
	uint32_t number = get_reference(&r->in, ids->next);
	return r->in.error ? 0 : id_of(ids, number);
}

/* Gives the next number to what the head has as `id`, or could not add. */
static void add(struct reading *r, enum delta_table table, int result, uint32_t id)
{
	if (result < 0 && result != -ENOMEM)
		fail(&r->in, "the tables are too large");
	if (result == -ENOMEM || (!r->in.error && push_id(&r->reader->tables[table], id) < 0))
		fail_memory(&r->in);
}

/* ---- a reader's life ---- */

void delta_reader_init(struct delta_reader *reader, struct head *head)
{
	*reader = (struct delta_reader){.head = head};
}

static void forget(struct delta_reader *reader)
{
	for (size_t i = 0; i < DELTA_TABLES; i++)
		release_ids(&reader->tables[i]);
	reader->mapping_starts = mem_free(reader->mapping_starts);
	reader->mapping_start_capacity = 0;
	reader->chain = 0;
}

void delta_reader_release(struct delta_reader *reader)
{
	forget(reader);
}

int delta_reader_begin(struct delta_reader *reader, uint64_t first_sequence, struct error *err)
{
	const struct delta_mark start = delta_start();
	forget(reader);
	reader->sequence = first_sequence - 1;
	int r = array_reserve(&reader->mapping_starts, &reader->mapping_start_capacity, 1, SIZE_MAX);
	for (size_t i = 0; r == 0 && i < DELTA_TABLES; i++) {
		r = begin_run(&reader->tables[i], 0);
		if (r == 0 && start.counts[i])
			r = push_id(&reader->tables[i], 0);
	}
	if (r < 0)
		return error_nomem(err);
	reader->mapping_starts[0] = 0;
	return 0;
}

uint64_t delta_version(struct bytes payload)
{
	struct decoder in = {.at = payload.data, .end = payload.data + payload.len};
	uint64_t version = get(&in);
	return in.error ? 0 : version;
}

/* ---- tables ---- */

static void read_strings(struct reading *r)
{
	size_t count = get_count(&r->in, 1);
	_cleanup_(mem_freep) uint64_t *lengths = new_table(&r->in, count, sizeof(*lengths));
	if (!lengths)
		return;
	GET_COLUMN(0, count, lengths[i], get(&r->in));
	for (size_t i = 0; i < count && !r->in.error; i++) {
		struct bytes text = get_bytes(&r->in, lengths[i]);
		uint32_t id = 0;
		int result = r->in.error ? 0 : profile_add_bytes(r->pool, text, &id, NULL);
		add(r, DELTA_STRINGS, result, id);
	}
}

static void read_mappings(struct reading *r)
{
	size_t count = get_count(&r->in, 6);
	_cleanup_(mem_freep) struct profile_mapping *m = new_table(&r->in, count, sizeof(*m));
	if (!m)
		return;
	GET_COLUMN(0, count, m[i].start, get(&r->in));
	GET_COLUMN(0, count, m[i].limit, m[i].start + get(&r->in));
	GET_COLUMN(0, count, m[i].offset, get(&r->in));
	GET_COLUMN(0, count, m[i].file_name, get_id(r, DELTA_STRINGS));
	GET_COLUMN(0, count, m[i].build_id, get_id(r, DELTA_STRINGS));
	GET_COLUMN(0, count, m[i].flags, get_small(&r->in));
	for (size_t i = 0; i < count && !r->in.error; i++) {
		struct delta_reader *reader = r->reader;
		uint32_t id = DELTA_LOST;
		int result = array_reserve(&reader->mapping_starts, &reader->mapping_start_capacity,
					   reader->tables[DELTA_MAPPINGS].count + 1, SIZE_MAX);
		if (result == 0)
			reader->mapping_starts[reader->tables[DELTA_MAPPINGS].count] = m[i].start;
		if (result == 0 && m[i].file_name != DELTA_LOST && m[i].build_id != DELTA_LOST)
			result = profile_merge_mapping(r->pool, &m[i], &id, NULL);
		add(r, DELTA_MAPPINGS, result, id);
	}
}

static void read_functions(struct reading *r)
{
	size_t count = get_count(&r->in, 4);
	_cleanup_(mem_freep) struct profile_function *f = new_table(&r->in, count, sizeof(*f));
	if (!f)
		return;
	GET_COLUMN(0, count, f[i].name, get_id(r, DELTA_STRINGS));
	GET_COLUMN(0, count, f[i].system_name, get_id(r, DELTA_STRINGS));
	GET_COLUMN(0, count, f[i].file_name, get_id(r, DELTA_STRINGS));
	GET_COLUMN(0, count, f[i].start_line, get_signed(&r->in));
	for (size_t i = 0; i < count && !r->in.error; i++) {
		bool lost = f[i].name == DELTA_LOST || f[i].system_name == DELTA_LOST || f[i].file_name == DELTA_LOST;
		uint32_t id = DELTA_LOST;
		int result = lost ? 0 : profile_add_function(r->pool, &f[i], &id, NULL);
		add(r, DELTA_FUNCTIONS, result, id);
	}
}

/* location->mapping is a number. */
static void add_location(struct reading *r, struct profile_location *location, const struct profile_line *lines)
{
	size_t at = index_of(&r->reader->tables[DELTA_MAPPINGS], location->mapping);
	bool lost = at == SIZE_MAX || r->reader->tables[DELTA_MAPPINGS].ids[at] == DELTA_LOST;
	for (uint32_t i = 0; i < location->line_count; i++)
		lost |= lines[i].function == DELTA_LOST;
	uint32_t id = DELTA_LOST;
	int result = 0;
	if (!lost) {
		location->mapping = r->reader->tables[DELTA_MAPPINGS].ids[at];
		location->address += r->pool->mappings[location->mapping].start - r->reader->mapping_starts[at];
		result = profile_add_location(r->pool, location, lines, location->line_count, &id, NULL);
	}
	add(r, DELTA_LOCATIONS, result, id);
}

static void add_locations(struct reading *r, struct profile_location *l, size_t count, uint64_t total)
{
	if (total > (uint64_t)(r->in.end - r->in.at) / 3)
		fail(&r->in, "a table is longer than the record");
	_cleanup_(mem_freep) struct profile_line *lines = new_table(&r->in, total, sizeof(*lines));
	if (!lines)
		return;
	GET_COLUMN(0, total, lines[i].function, get_id(r, DELTA_FUNCTIONS));
	GET_COLUMN(0, total, lines[i].line, get_signed(&r->in));
	GET_COLUMN(0, total, lines[i].column, get_signed(&r->in));
	for (size_t i = 0; i < count && !r->in.error; i++)
		add_location(r, &l[i], lines + l[i].line_first);
}

static void read_locations(struct reading *r)
{
	size_t count = get_count(&r->in, 4);
	uint64_t total = 0, address = 0;
	_cleanup_(mem_freep) struct profile_location *l = new_table(&r->in, count, sizeof(*l));
	if (!l)
		return;
	GET_COLUMN(0, count, l[i].mapping, get_reference(&r->in, r->reader->tables[DELTA_MAPPINGS].next));
	GET_COLUMN(0, count, l[i].address, address += (uint64_t)get_signed(&r->in));
	for (size_t i = 0; i < count; i++) {
		uint32_t word = get_small(&r->in);
		l[i].frame_type = word / 2;
		l[i].folded = word & 1;
	}
	for (size_t i = 0; i < count; i++) {
		l[i].line_first = (uint32_t)total;
		l[i].line_count = get_small(&r->in);
		total += l[i].line_count;
	}
	add_locations(r, l, count, total);
}

static void read_stacks(struct reading *r)
{
	struct delta_ids *table = &r->reader->tables[DELTA_STACKS];
	size_t count = get_count(&r->in, 2);
	_cleanup_(mem_freep) struct profile_stack *s = new_table(&r->in, count, sizeof(*s));
	if (!s)
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t distance = get(&r->in);
		if (distance == 0 || distance > table->next + i)
			fail(&r->in, "a stack's parent does not come before it");
		s[i].parent = (uint32_t)(table->next + i - distance);
	}
	GET_COLUMN(0, count, s[i].location, get_id(r, DELTA_LOCATIONS));
	for (size_t i = 0; i < count && !r->in.error; i++) {
		uint32_t parent = id_of(table, s[i].parent), id = DELTA_LOST;
		bool lost = parent == DELTA_LOST || s[i].location == DELTA_LOST;
		int result = lost ? 0 : profile_add_stack(r->pool, parent, s[i].location, &id, NULL);
		add(r, DELTA_STACKS, result, id);
	}
}

static void read_links(struct reading *r)
{
	size_t count = get_count(&r->in, sizeof(struct profile_link));
	for (size_t i = 0; i < count && !r->in.error; i++) {
		struct bytes bytes = get_bytes(&r->in, sizeof(struct profile_link));
		struct profile_link link = {0};
		uint32_t id = 0;
		if (r->in.error)
			return;
		memcpy(link.trace_id, bytes.data, sizeof(link.trace_id));
		memcpy(link.span_id, bytes.data + sizeof(link.trace_id), sizeof(link.span_id));
		int result = profile_add_link(r->pool, &link, &id, NULL);
		add(r, DELTA_LINKS, result, id);
	}
}

/* [A-Za-z0-9_./-]*, as profile/type.h has it. */
static void get_type_part(struct decoder *in, char *out, size_t size)
{
	struct bytes text = get_bytes(in, get(in));
	if (text.len >= size) {
		fail(in, "a profile type is too long");
		return;
	}
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.data[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
		      c == '/' || c == '-'))
			fail(in, "a profile type has invalid characters");
	}
	if (text.len)
		memcpy(out, text.data, text.len);
}

static void read_types(struct reading *r)
{
	size_t count = get_count(&r->in, 6);
	for (size_t i = 0; i < count && !r->in.error; i++) {
		struct profile_type type = {0};
		uint32_t id = 0;
		get_type_part(&r->in, type.name, sizeof(type.name));
		get_type_part(&r->in, type.sample_type, sizeof(type.sample_type));
		get_type_part(&r->in, type.sample_unit, sizeof(type.sample_unit));
		get_type_part(&r->in, type.period_type, sizeof(type.period_type));
		get_type_part(&r->in, type.period_unit, sizeof(type.period_unit));
		uint64_t delta = get(&r->in);
		if (delta > 1)
			fail(&r->in, "a flag is neither 0 nor 1");
		type.delta = delta == 1;
		int result = r->in.error ? 0 : head_add_type(r->head, &type, &id);
		add(r, DELTA_TYPES, result, id);
	}
}

/* Reads a label into `labels`: that of the set before, or its own. */
static void get_label(struct reading *r, const struct labels *before, size_t at, struct labels *labels)
{
	uint64_t is_own = get(&r->in);
	int result = 0;
	if (is_own > 1 || (!is_own && at >= before->count))
		fail(&r->in, "a label refers to one that is not there");
	if (r->in.error)
		return;
	if (is_own) {
		_cleanup_(mem_freep) char *name = get_text(&r->in);
		_cleanup_(mem_freep) char *value = get_text(&r->in);
		if (!r->in.error)
			result = labels_set(labels, name, value, NULL);
	} else {
		result = labels_set(labels, before->items[at].name, before->items[at].value, NULL);
	}
	if (result == -ENOMEM)
		fail_memory(&r->in);
	else if (result < 0)
		fail(&r->in, "a label is not valid");
}

static void read_label_sets(struct reading *r)
{
	static const struct labels none;
	const struct labels *before = &none;
	size_t count = get_count(&r->in, 1);
	for (size_t i = 0; i < count && !r->in.error; i++) {
		_cleanup_(labels_release) struct labels labels = {0};
		size_t size = get_count(&r->in, 1);
		uint32_t id = 0;
		for (size_t k = 0; k < size && !r->in.error; k++)
			get_label(r, before, k, &labels);
		if (r->in.error)
			return;
		int result = head_add_labels(r->head, &labels, &id);
		add(r, DELTA_LABEL_SETS, result, id);
		if (!r->in.error)
			before = r->head->label_sets[id];
	}
}

static void read_series(struct reading *r)
{
	size_t count = get_count(&r->in, 2);
	_cleanup_(mem_freep) uint32_t *types = new_table(&r->in, count, sizeof(*types));
	_cleanup_(mem_freep) uint32_t *sets = new_table(&r->in, count, sizeof(*sets));
	if (!types || !sets)
		return;
	GET_COLUMN(0, count, types[i], get_id(r, DELTA_TYPES));
	GET_COLUMN(0, count, sets[i], get_id(r, DELTA_LABEL_SETS));
	for (size_t i = 0; i < count && !r->in.error; i++) {
		bool lost = types[i] == DELTA_LOST || sets[i] == DELTA_LOST;
		uint32_t id = DELTA_LOST;
		int result = lost ? 0 : head_add_series(r->head, types[i], sets[i], &id);
		add(r, DELTA_SERIES, result, id);
	}
}

static void read_numbers(struct reading *r)
{
	size_t count = get_count(&r->in, 1);
	for (size_t i = 0; i < count && !r->in.error; i++) {
		struct bytes text = get_bytes(&r->in, get(&r->in));
		uint32_t id = 0;
		if (text.len > LIMIT_NUMBERS_BYTES)
			fail(&r->in, "numbers of a sample are too long");
		int result = r->in.error ? 0 : intern_add(&r->head->number_texts, text.data, text.len, &id);
		add(r, DELTA_NUMBERS, result, id);
	}
}

/* ---- rows ---- */

/* A reference that is a difference to the one before. */
static uint32_t get_next_id(struct reading *r, enum delta_table table, uint64_t *number)
{
	const struct delta_ids *ids = &r->reader->tables[table];
	*number += (uint64_t)get_signed(&r->in);
	if (*number >= ids->next)
		fail(&r->in, "a reference is out of range");
	return r->in.error ? 0 : id_of(ids, (uint32_t)*number);
}

/* Whether something that samples refer to is lost. */
static bool has_lost(const struct head *head, size_t first, size_t end)
{
	bool lost = false;
	for (size_t i = first; i < end; i++)
		lost |= head->series_ids[i] == DELTA_LOST || head->stacks[i] == DELTA_LOST || head->links[i] == DELTA_LOST ||
			(head->numbers && head->numbers[i] == DELTA_LOST);
	return lost;
}

static void read_samples(struct reading *r)
{
	struct head *head = r->head;
	bool links = r->flags & DELTA_FLAG_LINKS, numbers = r->flags & DELTA_FLAG_NUMBERS;
	uint64_t unit = get(&r->in), series = 0, stack = 0, time = 0;
	size_t count = get_count(&r->in, 4), first = head->count, end = first + count;
	int result = r->in.error ? 0 : head_reserve_samples(head, count, numbers, NULL);
	if (result == -ENOMEM)
		fail_memory(&r->in);
	else if (result < 0)
		fail(&r->in, "the tables are too large");
	if (r->in.error)
		return;
	GET_COLUMN(first, end, head->series_ids[i], get_next_id(r, DELTA_SERIES, &series));
	GET_COLUMN(first, end, head->stacks[i], get_next_id(r, DELTA_STACKS, &stack));
	GET_COLUMN(first, end, head->links[i], links ? get_id(r, DELTA_LINKS) : 0);
	if (head->numbers)
		GET_COLUMN(first, end, head->numbers[i], numbers ? get_id(r, DELTA_NUMBERS) : 0);
	GET_COLUMN(first, end, head->times[i], (int64_t)(time += (uint64_t)get_signed(&r->in)));
	GET_COLUMN(first, end, head->values[i], (int64_t)((uint64_t)get_signed(&r->in) * unit));
	r->batch.count = r->rows = count;
	r->is_lost = !r->in.error && has_lost(head, first, end);
}

static void read_process_rows(struct reading *r)
{
	size_t count = get_count(&r->in, 3);
	uint64_t series = 0, time = 0;
	r->batch.processes = r->head->processes.end;
	for (size_t i = 0; i < count && !r->in.error; i++) {
		struct process_row row = {.series = get_next_id(r, DELTA_SERIES, &series)};
		row.time_ns = (int64_t)(time += (uint64_t)get_signed(&r->in));
		uint64_t columns = get(&r->in);
		if (columns >> PROCESS_STATS_COLUMNS)
			fail(&r->in, "a row of processes has unknown columns");
		for (size_t k = 0; k < PROCESS_STATS_COLUMNS; k++)
			if (columns >> k & 1)
				row.values[k] = get_signed(&r->in);
		if (r->in.error)
			return;
		r->rows++;
		r->is_lost |= row.series == DELTA_LOST;
		if (!r->is_lost && head_processes_put(&r->head->processes, &row, &r->batch.processes) < 0)
			fail_memory(&r->in);
	}
}

/* ---- all ---- */

/* How many entries there were before. Where the sequence has a gap, those between are lost. */
static void read_first_numbers(struct reading *r, bool follows)
{
	for (size_t i = 0; i < DELTA_TABLES && !r->in.error; i++) {
		struct delta_ids *table = &r->reader->tables[i];
		uint32_t first = get_small(&r->in);
		if (first < table->next || (follows && first != table->next))
			fail(&r->in, "it does not follow the records before it");
		else if (first != table->next && begin_run(table, first) < 0)
			fail_memory(&r->in);
	}
}

static void read_beginning(struct reading *r, bool follows, uint64_t *ret_chain)
{
	struct delta_reader *reader = r->reader;
	uint64_t version = get(&r->in);
	if (!r->in.error && version != DELTA_VERSION)
		r->in.error = error_set(r->in.err, -ENOTSUP, "log record of version %lu; this program supports up to %d",
					(unsigned long)version, DELTA_VERSION);
	r->flags = get(&r->in);
	if (r->flags > DELTA_FLAGS_ALL)
		fail(&r->in, "it has unknown flags");
	memset(reader->id, 0, sizeof(reader->id));
	struct bytes id = get_bytes(&r->in, r->flags & DELTA_FLAG_ID ? sizeof(reader->id) : 0);
	if (id.len)
		memcpy(reader->id, id.data, id.len);
	r->batch.period = get_signed(&r->in);
	struct bytes chain = get_bytes(&r->in, 8);
	*ret_chain = 0;
	for (size_t i = 0; i < chain.len; i++)
		*ret_chain |= (uint64_t)chain.data[i] << 8 * i;
	if (follows && *ret_chain != reader->chain)
		fail(&r->in, "it does not follow the records before it");
}

static void read_all(struct reading *r, uint64_t *ret_chain)
{
	static void (*const tables[DELTA_TABLES])(struct reading * r) = {
		[DELTA_STRINGS] = read_strings,	    [DELTA_MAPPINGS] = read_mappings,	  [DELTA_FUNCTIONS] = read_functions,
		[DELTA_LOCATIONS] = read_locations, [DELTA_STACKS] = read_stacks,	  [DELTA_LINKS] = read_links,
		[DELTA_TYPES] = read_types,	    [DELTA_LABEL_SETS] = read_label_sets, [DELTA_SERIES] = read_series,
		[DELTA_NUMBERS] = read_numbers,
	};
	bool follows = r->sequence == r->reader->sequence + 1;
	uint64_t chain;
	read_beginning(r, follows, &chain);
	const uint8_t *first = r->in.at;
	read_first_numbers(r, follows);
	for (size_t i = 0; i < DELTA_TABLES && !r->in.error; i++)
		tables[i](r);
	*ret_chain = r->in.error ? 0 : hash64_seed(first, (size_t)(r->in.at - first), chain);
	if (!r->in.error)
		read_samples(r);
	if (!r->in.error)
		read_process_rows(r);
	if (r->in.at != r->in.end)
		fail(&r->in, "trailing bytes");
}

/* An append is there whole or not at all. Its entries stay: later ones refer to them. */
static void drop_rows(struct reading *r)
{
	r->batch.count = 0;
	r->batch.processes = r->head->processes.end;
	r->reader->lost_rows += r->rows;
	memset(r->reader->id, 0, sizeof(r->reader->id));
}

int delta_read(struct delta_reader *reader, uint64_t sequence, struct bytes payload, struct error *err)
{
	struct reading r = {
		.in = {.at = payload.data, .end = payload.data + payload.len, .err = err},
		.reader = reader,
		.head = reader->head,
		.pool = reader->head->pool,
		.sequence = sequence,
	};
	struct delta_ids before[DELTA_TABLES];
	uint64_t chain;
	memcpy(before, reader->tables, sizeof(before));
	read_all(&r, &chain);
	if (!r.in.error) {
		if (r.is_lost)
			drop_rows(&r);
		head_commit(reader->head, &r.batch, reader->id, sequence);
		head_update_bytes(reader->head);
		reader->sequence = sequence;
		reader->chain = chain;
		return 0;
	}
	for (size_t i = 0; i < DELTA_TABLES; i++) {
		reader->tables[i].count = before[i].count;
		reader->tables[i].run_count = before[i].run_count;
		reader->tables[i].next = before[i].next;
	}
	return r.in.fault ? error_set(err, -EBADMSG, "malformed log record: %s", r.in.fault) : r.in.error;
}
