// SPDX-License-Identifier: Apache-2.0
/*
 * From the rows of cfi_read() to the image that bpf/unwind.h lays out.
 *
 * The rows arrive once, by ascending address. The image wants file offsets, numbers of rules by frequency, and the number of
 * pages and rules before the first row. So the rows are kept in between, in two or three bytes each, as LEB128:
 *
 *   step    from the row before in its segment's part of the file, for the first one from its start
 *   rule    number, in order of appearance
 *
 * Segments are visited twice: by address while rows arrive, by file offset when the image is written; they may be in another
 * order there, and where two of them are made from the same bytes of the file the one that begins first has them. Rows are
 * clipped to segments: the rule that holds where a segment begins is repeated there, and NONE is put at its end.
 *
 * Rules are numbered through a hash with a key that nobody outside knows, so that a file cannot be made to fill one bucket.
 * Rule 0 is NONE in the end as well; the others are sorted by how often they are used, and those that are not used are left
 * out.
 *
 * Invariants of an image, beyond those in bpf/unwind.h (all are checked by unwind_table_check):
 *   - parts follow each other in the order and at the places that places_of() says, and nothing follows the last
 *   - index is ascending from 1 to row_count; rows of a page begin at ascending offsets
 *   - row 0 is zero; each rule's number is below rule_count; each row that says UNWIND_RULE_ESCAPE has its own entry in escapes
 *   - all numbers in a rule that choose something are ones that exist; no rule but the first is NONE
 *
 * Equal neighbours are one row. Rejected: folding a change of the CFA by a push or pop into the row before (a third fewer rows,
 * but exact only if the instruction's length is known at each lookup), and more than one byte for a rule (the escapes of
 * libLLVM take less than 1% of its table).
 */
#include "unwind/unwind_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/time.h"
#include "elf/cfi.h"

#define ROWS_MAX	 (CFI_ROWS_MAX + 2 * ELF_SEGMENTS_MAX)
#define RULE_SLOTS	 1024u
#define SPARSE_PAGES_MAX (1u << 20) /* 256 MB of code, however few its rows; more by PAGES_PER_ROW */
#define PAGES_PER_ROW	 64u
#define DIRECT_RULES	 UNWIND_RULE_ESCAPE
#define ROW_BYTES_MAX	 8u /* a step has five, a rule's number three */
#define GIVE_BACK_BYTES	 (256u * 1024)
#define RULE_OF_ROW(row) ((uint32_t)(row) >> 8)

_Static_assert(sizeof(struct unwind_rule) == 16, "no padding: rules are compared as bytes");
_Static_assert(sizeof(struct unwind_table) == 64, "a part of the format");
_Static_assert(UNWIND_PAGE_SHIFT == 8, "a row holds the low byte of an offset");

struct places {
	uint64_t rules, index, rows, escapes, bytes;
};

/* What the counts say. Sums of four numbers below 2^37 do not overflow. */
static struct places places_of(uint64_t rules, uint64_t pages, uint64_t rows, uint64_t escapes)
{
	struct places places = {.rules = sizeof(struct unwind_table)};
	places.index = places.rules + rules * sizeof(struct unwind_rule);
	places.rows = (places.index + (pages + 1) * sizeof(uint32_t) + 7) & ~7ull;
	places.escapes = (places.rows + rows * sizeof(uint16_t) + 7) & ~7ull;
	places.bytes = places.escapes + escapes * sizeof(struct unwind_escape);
	return places;
}

static bool rule_is_valid(const struct unwind_rule *rule)
{
	uint8_t cfa = rule->cfa & (uint8_t)~UNWIND_RULE_FLAGS;
	if ((cfa > UNWIND_CFA_INDEXED && !UNWIND_IS_GO(cfa)) || (rule->cfa & UNWIND_RULE_FLAGS && cfa == UNWIND_CFA_NONE))
		return false;
	if (rule->cfa_register >= UNWIND_REGISTERS && (rule->cfa != UNWIND_CFA_INDEXED || UNWIND_REGISTERS != 16))
		return false;
	if (rule->ra > UNWIND_WHERE_LOST || rule->fp > UNWIND_WHERE_LOST || rule->fp == UNWIND_WHERE_REGISTER)
		return false;
	return rule->ra != UNWIND_WHERE_REGISTER || (rule->ra_offset >= 0 && rule->ra_offset < UNWIND_REGISTERS);
}

/* ---- rules by number ---- */

struct rules {
	struct unwind_rule *list;
	uint32_t *uses; /* beside list */
	size_t count, capacity, uses_capacity;
	uint32_t *slots; /* number + 1; 0 = free */
	uint32_t slot_count;
	uint64_t key[2];
};

static const struct unwind_rule no_rule = {.cfa = UNWIND_CFA_NONE};
static const struct unwind_rule unsupported_rule = {.cfa = UNWIND_CFA_UNSUPPORTED};
#define RULE_NONE	 0u /* the first two numbers, so that they always exist */
#define RULE_UNSUPPORTED 1u

/* One multiplication; hash64_mix() of each word is stronger than is needed against keys that nobody knows, and made the whole
 * build a sixth slower. */
static uint64_t rule_hash(const struct rules *rules, const struct unwind_rule *rule)
{
	uint64_t word[2];
	memcpy(word, rule, sizeof(word));
	unsigned __int128 product = (unsigned __int128)(word[0] ^ rules->key[0]) * (word[1] ^ rules->key[1]);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static int rules_grow_slots(struct rules *rules, uint32_t count)
{
	uint32_t *slots = mem_zalloc_array(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < rules->count; i++) {
		uint32_t at = (uint32_t)rule_hash(rules, &rules->list[i]) & (count - 1);
		while (slots[at])
			at = (at + 1) & (count - 1);
		slots[at] = (uint32_t)i + 1;
	}
	mem_free(rules->slots);
	rules->slots = slots;
	rules->slot_count = count;
	return 0;
}

static int rules_add(struct rules *rules, const struct unwind_rule *rule, uint32_t slot, uint32_t *ret)
{
	if (rules->count == UNWIND_RULES_MAX) {
		*ret = RULE_UNSUPPORTED;
		return 0;
	}
	if (array_reserve(&rules->list, &rules->capacity, rules->count + 1, UNWIND_RULES_MAX) < 0 ||
	    array_reserve(&rules->uses, &rules->uses_capacity, rules->count + 1, UNWIND_RULES_MAX) < 0)
		return -ENOMEM;
	rules->list[rules->count] = *rule;
	rules->uses[rules->count] = 0;
	*ret = (uint32_t)rules->count++;
	rules->slots[slot] = *ret + 1;
	return rules->count * 2 > rules->slot_count ? rules_grow_slots(rules, rules->slot_count * 2) : 0;
}

static int rules_number(struct rules *rules, const struct unwind_rule *rule, uint32_t *ret)
{
	uint32_t at = (uint32_t)rule_hash(rules, rule) & (rules->slot_count - 1);
	while (rules->slots[at]) {
		uint32_t number = rules->slots[at] - 1;
		if (!memcmp(&rules->list[number], rule, sizeof(*rule))) {
			*ret = number;
			return 0;
		}
		at = (at + 1) & (rules->slot_count - 1);
	}
	return rules_add(rules, rule, at, ret);
}

static int rules_init(struct rules *rules)
{
	uint32_t number;
	if (getrandom(rules->key, sizeof(rules->key), GRND_NONBLOCK) != sizeof(rules->key))
		rules->key[0] = rules->key[1] = hash64_mix((uint64_t)time_monotonic_ns() ^ (uintptr_t)rules);
	if (rules_grow_slots(rules, RULE_SLOTS) < 0 || rules_number(rules, &no_rule, &number) < 0)
		return -ENOMEM;
	return rules_number(rules, &unsupported_rule, &number);
}

static void rules_release(struct rules *rules)
{
	mem_free(rules->list);
	mem_free(rules->uses);
	mem_free(rules->slots);
}

/* ---- rows as they arrive ---- */

/* An executable segment's part of the file, and its rows. */
struct part {
	uint64_t address, offset, size;
	size_t rows, rows_end; /* in builder.rows */
	size_t row_count;
	uint32_t first_offset, last_offset, last_number; /* of its rows */
};

struct builder {
	struct part *parts;
	size_t part_count, part_at; /* part_at: the one that rows go to, or will */
	bool part_is_open;
	uint32_t running;     /* rule of the last row that arrived */
	uint32_t last_number; /* rule of the last row that is kept in the open part */
	struct unwind_rule last_rule;
	uint32_t last_rule_number;

	struct rules rules;
	uint8_t *rows;
	size_t rows_len, rows_capacity;
	size_t row_count;
};

static void builder_release(struct builder *b)
{
	rules_release(&b->rules);
	mem_free(b->parts);
	mem_free(b->rows);
}

static inline size_t put_number(uint8_t *to, uint32_t value)
{
	size_t len = 0;
	for (; value >= 0x80; value >>= 7)
		to[len++] = (uint8_t)(value | 0x80);
	to[len++] = (uint8_t)value;
	return len;
}

static inline uint32_t take_number(const uint8_t *rows, size_t *at)
{
	uint32_t value = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = rows[(*at)++];
		value |= (uint32_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
}

static int add_row(struct builder *b, uint64_t offset, uint32_t number)
{
	struct part *part = &b->parts[b->part_at];
	if (number == b->last_number)
		return 0;
	b->last_number = number;
	if (b->row_count == ROWS_MAX)
		return -E2BIG;
	if (b->rows_capacity - b->rows_len < ROW_BYTES_MAX) {
		int r = array_reserve(&b->rows, &b->rows_capacity, b->rows_len + ROW_BYTES_MAX,
				      (size_t)ROWS_MAX * ROW_BYTES_MAX);
		if (r < 0)
			return r;
	}
	b->rules.uses[number]++;
	if (part->row_count++ == 0)
		part->first_offset = (uint32_t)offset;
	b->rows_len += put_number(b->rows + b->rows_len, (uint32_t)offset - part->last_offset);
	b->rows_len += put_number(b->rows + b->rows_len, number);
	part->last_offset = (uint32_t)offset;
	part->last_number = number;
	b->row_count++;
	return 0;
}

/* The rows of a part, one after the other, and only once: the image takes their place in memory. */
struct row_cursor {
	struct builder *builder;
	const struct part *part;
	size_t at, given_back;
	uint32_t offset, number; /* of the row */
};

static inline bool next_row(struct row_cursor *cursor)
{
	if (cursor->at == cursor->part->rows_end)
		return false;
	if (cursor->at - cursor->given_back >= GIVE_BACK_BYTES) {
		mem_give_back(cursor->builder->rows, cursor->given_back, cursor->at);
		cursor->given_back = cursor->at;
	}
	cursor->offset += take_number(cursor->builder->rows, &cursor->at);
	cursor->number = take_number(cursor->builder->rows, &cursor->at);
	return true;
}

static void open_part(struct builder *b)
{
	b->parts[b->part_at].rows = b->rows_len;
	b->part_is_open = true;
	b->last_number = RULE_NONE;
}

/* Goes on to `address`: the rule that runs holds up to there, in this part, and in others that lie between. */
static int advance(struct builder *b, uint64_t address)
{
	while (b->part_at < b->part_count) {
		struct part *part = &b->parts[b->part_at];
		int r = 0;
		if (address < part->address || (!b->part_is_open && address == part->address))
			return 0;
		if (!b->part_is_open) {
			open_part(b);
			r = add_row(b, 0, b->running);
		}
		if (r < 0 || address - part->address < part->size)
			return r;
		part->rows_end = b->rows_len;
		b->part_is_open = false;
		b->part_at++;
	}
	return 0;
}

static int take_row(void *context, uint64_t address, const struct unwind_rule *rule)
{
	struct builder *b = context;
	int r = advance(b, address);
	if (r < 0)
		return r;
	if (memcmp(rule, &b->last_rule, sizeof(*rule))) {
		const struct unwind_rule *known = rule->cfa == UNWIND_CFA_NONE ? &no_rule : rule;
		r = rules_number(&b->rules, rule_is_valid(rule) ? known : &unsupported_rule, &b->last_rule_number);
		if (r < 0)
			return r;
		b->last_rule = *rule;
	}
	b->running = b->last_rule_number;
	if (b->part_at == b->part_count || address < b->parts[b->part_at].address)
		return 0;
	if (!b->part_is_open)
		open_part(b);
	return add_row(b, address - b->parts[b->part_at].address, b->running);
}

/* ---- segments ---- */

static int compare_addresses(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	return ORDER(x->address, y->address);
}

static int compare_offsets(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	return ORDER(x->offset, y->offset);
}

static bool is_mapped_code(const struct elf_segment *segment, uint64_t *ret_size)
{
	uint64_t end, size = segment->file_size < segment->memory_size ? segment->file_size : segment->memory_size;
	*ret_size = size;
	return elf_segment_is_executed(segment) && size > 0 && size <= UINT32_MAX &&
	       !__builtin_add_overflow(segment->address, size, &end) && !__builtin_add_overflow(segment->offset, size, &end);
}

/* Sorted by address, none over another: what an earlier one covers is cut from the later ones. */
static int find_parts(const struct elf_file *file, struct builder *b)
{
	b->parts = mem_alloc_array(file->segment_count, sizeof(*b->parts));
	if (!b->parts)
		return -ENOMEM;
	for (size_t i = 0; i < file->segment_count; i++) {
		uint64_t size;
		if (is_mapped_code(&file->segments[i], &size))
			b->parts[b->part_count++] = (struct part){
				.address = file->segments[i].address, .offset = file->segments[i].offset, .size = size};
	}
	qsort(b->parts, b->part_count, sizeof(*b->parts), compare_addresses);
	uint64_t end = 0;
	size_t kept = 0;
	for (size_t i = 0; i < b->part_count; i++) {
		struct part part = b->parts[i];
		uint64_t covered = part.address < end ? end - part.address : 0;
		if (covered >= part.size)
			continue;
		part.address += covered;
		part.offset += covered;
		part.size -= covered;
		end = part.address + part.size;
		b->parts[kept++] = part;
	}
	b->part_count = kept;
	return 0;
}

/* ---- the image ---- */

struct ranking {
	uint32_t number, uses;
};

static int compare_uses(const void *a, const void *b)
{
	const struct ranking *x = a, *y = b;
	return ORDER(y->uses, x->uses) ?: ORDER(x->number, y->number);
}

/* *ret_new_numbers: by old number. */
static int rank_rules(const struct rules *rules, struct ranking **ret_ranking, uint32_t **ret_new_numbers, uint32_t *ret_count)
{
	struct ranking *ranking = mem_alloc_array(rules->count, sizeof(*ranking));
	uint32_t *numbers = mem_zalloc_array(rules->count, sizeof(*numbers)), count = 1;
	if (!ranking || !numbers) {
		mem_free(ranking);
		mem_free(numbers);
		return -ENOMEM;
	}
	ranking[0] = (struct ranking){.number = RULE_NONE};
	for (uint32_t i = 1; i < rules->count; i++)
		if (rules->uses[i])
			ranking[count++] = (struct ranking){.number = i, .uses = rules->uses[i]};
	qsort(ranking + 1, count - 1, sizeof(*ranking), compare_uses);
	for (uint32_t i = 0; i < count; i++)
		numbers[ranking[i].number] = i;
	*ret_ranking = ranking;
	*ret_new_numbers = numbers;
	*ret_count = count;
	return 0;
}

struct writer {
	uint32_t *index;
	uint16_t *rows;
	struct unwind_escape *escapes; /* grows apart: where they go is known when all rows are written */
	size_t escape_count, escape_capacity;
	uint32_t row_count;
	uint64_t first_page, page; /* page: the one that is being filled */
	/* One row is held back: where a segment follows another at once, its first row replaces the NONE at the other's end. */
	bool is_held;
	uint64_t held_offset;
	uint32_t held_rule, written_rule;
};

static int write_held(struct writer *w)
{
	if (!w->is_held)
		return 0;
	w->is_held = false;
	if (w->held_rule == w->written_rule)
		return 0;
	for (; w->page < w->held_offset >> UNWIND_PAGE_SHIFT; w->page++)
		w->index[w->page + 1 - w->first_page] = w->row_count;
	uint32_t number = w->held_rule;
	if (number >= DIRECT_RULES) {
		int r = array_reserve(&w->escapes, &w->escape_capacity, w->escape_count + 1, ROWS_MAX);
		if (r < 0)
			return r;
		w->escapes[w->escape_count++] = (struct unwind_escape){.row = w->row_count, .rule = number};
		number = UNWIND_RULE_ESCAPE;
	}
	w->rows[w->row_count++] = (uint16_t)((w->held_offset & 0xff) | number << 8);
	w->written_rule = w->held_rule;
	return 0;
}

static int write_row(struct writer *w, uint64_t offset, uint32_t rule)
{
	if (!w->is_held || offset != w->held_offset) {
		int r = write_held(w);
		if (r < 0)
			return r;
	}
	w->is_held = true;
	w->held_offset = offset;
	w->held_rule = rule;
	return 0;
}

/* *from: the end of what earlier parts have written; moved to the end of this one. */
static int write_part(struct writer *w, struct builder *b, const struct part *part, const uint32_t *numbers, uint64_t *from)
{
	uint64_t end = part->offset + part->size;
	if (end <= *from || part->row_count == 0)
		return 0;
	uint64_t skip = part->offset < *from ? *from - part->offset : 0;
	struct row_cursor row = {.builder = b, .part = part, .at = part->rows, .given_back = part->rows};
	uint32_t skipped = RULE_NONE;
	bool is_row = next_row(&row), has_skipped = false;
	for (; is_row && skip > 0 && row.offset <= skip; is_row = next_row(&row)) {
		skipped = row.number;
		has_skipped = true;
	}
	int r = has_skipped ? write_row(w, *from, numbers[skipped]) : 0;
	for (; r == 0 && is_row; is_row = next_row(&row))
		r = write_row(w, part->offset + row.offset, numbers[row.number]);
	if (r < 0)
		return r;
	*from = end;
	return write_row(w, end, RULE_NONE);
}

/* Where the first row can be, and the last (the NONE at the last part's end); false if there is no row. */
static bool extent_of(const struct builder *b, uint64_t *ret_first, uint64_t *ret_last)
{
	*ret_first = UINT64_MAX;
	*ret_last = 0;
	for (size_t i = 0; i < b->part_count; i++) {
		const struct part *part = &b->parts[i];
		if (part->row_count == 0)
			continue;
		uint64_t first = part->offset + part->first_offset, last = part->offset + part->size;
		if (part->last_number == RULE_NONE)
			last = part->offset + part->last_offset;
		*ret_first = first < *ret_first ? first : *ret_first;
		*ret_last = last > *ret_last ? last : *ret_last;
	}
	return *ret_first != UINT64_MAX;
}

static int write_parts(struct writer *w, struct builder *b, const uint32_t *numbers)
{
	uint64_t from = 0;
	w->rows[0] = 0;
	w->row_count = 1;
	w->index[0] = 1;
	w->page = w->first_page;
	qsort(b->parts, b->part_count, sizeof(*b->parts), compare_offsets);
	for (size_t i = 0; i < b->part_count; i++) {
		int r = write_part(w, b, &b->parts[i], numbers, &from);
		if (r < 0)
			return r;
	}
	return write_held(w);
}

/* The table's parts in *image, which has room for them; shortened to what was needed. */
static int write_image(struct builder *b, const struct ranking *ranking, const uint32_t *numbers, struct unwind_table table,
		       struct buffer *image)
{
	struct places places = places_of(table.rule_count, table.page_count, 0, 0);
	struct writer w = {.index = (void *)(image->data + places.index),
			   .rows = (void *)(image->data + places.rows),
			   .first_page = table.first_page};
	memset(image->data, 0, places.rows);
	struct unwind_rule *rules = (void *)(image->data + places.rules);
	for (uint32_t i = 0; i < table.rule_count; i++)
		rules[i] = b->rules.list[ranking[i].number];
	int r = write_parts(&w, b, numbers);
	for (; w.page < w.first_page + table.page_count; w.page++)
		w.index[w.page + 1 - w.first_page] = w.row_count;
	table.row_count = w.row_count;
	table.escape_count = (uint32_t)w.escape_count;
	places = places_of(table.rule_count, table.page_count, table.row_count, table.escape_count);
	table.rules = (uint32_t)places.rules;
	table.index = (uint32_t)places.index;
	table.rows = (uint32_t)places.rows;
	table.escapes = (uint32_t)places.escapes;
	table.bytes = (uint32_t)places.bytes;
	uint64_t rows_end = places.rows + table.row_count * sizeof(uint16_t);
	memset(image->data + rows_end, 0, places.escapes - rows_end);
	image->len = places.escapes;
	memcpy(image->data, &table, sizeof(table));
	if (r == 0)
		r = buffer_append(image, w.escapes, w.escape_count * sizeof(*w.escapes));
	mem_free(w.escapes);
	return r;
}

static int finish(struct builder *b, struct buffer *image, struct unwind_table_stats *stats)
{
	uint64_t first, last;
	if (!extent_of(b, &first, &last))
		return 0;
	uint64_t first_page = first >> UNWIND_PAGE_SHIFT, page_count = (last >> UNWIND_PAGE_SHIFT) - first_page + 1;
	uint64_t row_room = 1 + b->row_count + 2 * b->part_count;
	/* A few rows far from each other must not cost an index of megabytes. */
	if (page_count > SPARSE_PAGES_MAX + b->row_count * PAGES_PER_ROW || first_page + page_count > UINT32_MAX)
		return -E2BIG;
	_cleanup_(mem_freep) struct ranking *ranking = NULL;
	_cleanup_(mem_freep) uint32_t *numbers = NULL;
	uint32_t rule_count;
	int r = rank_rules(&b->rules, &ranking, &numbers, &rule_count);
	if (r < 0)
		return r;
	image->max = UNWIND_TABLE_BYTES_MAX;
	r = buffer_reserve(image, places_of(rule_count, page_count, row_room, 0).bytes);
	if (r < 0)
		return r;
	struct unwind_table table = {.magic = UNWIND_TABLE_MAGIC,
				     .first_page = (uint32_t)first_page,
				     .page_count = (uint32_t)page_count,
				     .rule_count = rule_count};
	r = write_image(b, ranking, numbers, table, image);
	if (r < 0)
		return r;
	memcpy(&table, image->data, sizeof(table));
	stats->rows = table.row_count - 1;
	stats->rules = table.rule_count;
	stats->escapes = table.escape_count;
	return 0;
}

typedef int cfi_read_function(struct elf_file *file, cfi_row_function *row, void *context, struct cfi_stats *ret_stats,
			      struct error *err);

static int build(struct elf_file *file, cfi_read_function *read, struct builder *b, struct buffer *image,
		 struct unwind_table_stats *stats, struct error *err)
{
	struct cfi_stats cfi = {0};
	if (rules_init(&b->rules) < 0 || find_parts(file, b) < 0)
		return error_nomem(err);
	int r = read(file, take_row, b, &cfi, err);
	if (r < 0)
		return r;
	stats->unsupported = cfi.unsupported;
	stats->bad_entries = cfi.bad_entries;
	stats->code_bytes = cfi.code_bytes;
	r = advance(b, UINT64_MAX);
	r = r < 0 ? r : finish(b, image, stats);
	if (r == -E2BIG)
		return error_set(err, r, "%s: too much or too scattered code for an unwind table of %u MB", file->name,
				 UNWIND_TABLE_BYTES_MAX >> 20);
	return r < 0 ? error_nomem(err) : 0;
}

static int build_with(struct elf_file *file, cfi_read_function *read, struct buffer *ret, struct unwind_table_stats *ret_stats,
		      struct error *err)
{
	struct unwind_table_stats stats = {0};
	struct builder b = {0};
	if (file->machine != UNWIND_MACHINE || !file->is_64)
		return error_set(err, -ENOTSUP, "%s: not a 64-bit program for this machine (ELF machine %u)", file->name,
				 file->machine);
	int r = build(file, read, &b, ret, &stats, err);
	builder_release(&b);
	if (r < 0) {
		buffer_release(ret);
		return r;
	}
	if (ret_stats)
		*ret_stats = stats;
	return 0;
}

int unwind_table_build(struct elf_file *file, struct buffer *ret, struct unwind_table_stats *ret_stats, struct error *err)
{
	return build_with(file, cfi_read, ret, ret_stats, err);
}

int unwind_table_build_listed(struct elf_file *file, struct buffer *ret, struct unwind_table_stats *ret_stats,
			      struct error *err)
{
	return build_with(file, cfi_read_listed, ret, ret_stats, err);
}

/* ---- reading ---- */

static bool header_is_valid(const struct unwind_table *t, size_t bytes)
{
	if (t->magic != UNWIND_TABLE_MAGIC || t->bytes != bytes || bytes > UNWIND_TABLE_BYTES_MAX)
		return false;
	if (t->checks || t->rule_count == 0 || t->rule_count > UNWIND_RULES_MAX || t->row_count == 0 || t->page_count == 0)
		return false;
	for (size_t i = 0; i < sizeof(t->reserved) / sizeof(t->reserved[0]); i++)
		if (t->reserved[i])
			return false;
	struct places places = places_of(t->rule_count, t->page_count, t->row_count, t->escape_count);
	return t->rules == places.rules && t->index == places.index && t->rows == places.rows && t->escapes == places.escapes &&
	       t->bytes == places.bytes && (uint64_t)t->first_page + t->page_count <= UINT32_MAX;
}

static bool rules_are_valid(const struct unwind_table *t)
{
	const struct unwind_rule *rules = (const void *)((const uint8_t *)t + t->rules);
	if (memcmp(&rules[0], &no_rule, sizeof(no_rule)))
		return false;
	for (uint32_t i = 1; i < t->rule_count; i++)
		if (rules[i].cfa == UNWIND_CFA_NONE || !rule_is_valid(&rules[i]))
			return false;
	return true;
}

static bool rows_are_valid(const struct unwind_table *t)
{
	const uint32_t *index = (const void *)((const uint8_t *)t + t->index);
	const uint16_t *rows = (const void *)((const uint8_t *)t + t->rows);
	const struct unwind_escape *escapes = (const void *)((const uint8_t *)t + t->escapes);
	uint32_t escape = 0, row = 1;
	if (rows[0] != 0 || index[0] != 1)
		return false;
	for (uint32_t page = 0; page < t->page_count; page++) {
		uint32_t end = index[page + 1];
		if (end < row || end > t->row_count)
			return false;
		for (uint32_t first = row; row < end; row++) {
			uint32_t rule = RULE_OF_ROW(rows[row]);
			if (row > first && (rows[row] & 0xff) <= (rows[row - 1] & 0xff))
				return false;
			if (rule == UNWIND_RULE_ESCAPE) {
				if (escape == t->escape_count || escapes[escape].row != row)
					return false;
				rule = escapes[escape++].rule;
			}
			if (rule >= t->rule_count)
				return false;
		}
	}
	return row == t->row_count && escape == t->escape_count;
}

bool unwind_table_check(const void *image, size_t bytes)
{
	const struct unwind_table *t = image;
	if (bytes < sizeof(*t) || (uintptr_t)image % _Alignof(struct unwind_table))
		return false;
	return header_is_valid(t, bytes) && rules_are_valid(t) && rows_are_valid(t);
}

static uint32_t escaped_rule(const struct unwind_table *t, uint32_t row)
{
	const struct unwind_escape *escapes = (const void *)((const uint8_t *)t + t->escapes);
	uint32_t low = 0, high = t->escape_count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (escapes[middle].row <= row)
			low = middle;
		else
			high = middle;
	}
	assert(high > low && escapes[low].row == row);
	return escapes[low].rule;
}

const struct unwind_rule *unwind_table_find(const void *image, uint64_t file_offset)
{
	const struct unwind_table *t = image;
	const uint32_t *index = (const void *)((const uint8_t *)t + t->index);
	const uint16_t *rows = (const void *)((const uint8_t *)t + t->rows);
	uint64_t page = file_offset >> UNWIND_PAGE_SHIFT;
	if (page < t->first_page || page - t->first_page >= t->page_count)
		return NULL;
	/* The last row of the page that begins at or before the offset, else the last of the pages before. */
	uint32_t low = index[page - t->first_page] - 1, high = index[page - t->first_page + 1];
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if ((rows[middle] & 0xff) <= (file_offset & 0xff))
			low = middle;
		else
			high = middle;
	}
	uint32_t rule = RULE_OF_ROW(rows[low]);
	if (rule == UNWIND_RULE_ESCAPE)
		rule = escaped_rule(t, low);
	return rule == RULE_NONE ? NULL : (const struct unwind_rule *)(const void *)((const uint8_t *)t + t->rules) + rule;
}
