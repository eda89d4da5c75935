// SPDX-License-Identifier: Apache-2.0
/*
 * Rules are rows in one sorted array, by address; pieces of code (what one analysis looked at) are numbered. A mapping whose
 * rules the kernel side knows is an area: a slot, and a table in offsets from the mapping's start. Areas are made when they are
 * asked for, and released when their mapping is not there any more, or begins elsewhere.
 *
 * Rejected: one table a process (its index would span all the address space between two mappings), a search through sorted
 * addresses in the kernel (another search for the verifier to prove, and not faster than the index).
 */
#include "agent/unwind/live_rules.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/sorted.h"

#define PIECES_MAX  4096u
#define RULES_MAX   4096u /* different ones in a table */
#define RULE_SLOTS  8192u
#define CHECK_BYTES 16u

struct row {
	uint64_t address;
	struct unwind_rule rule;
	uint16_t check, piece;
	uint32_t len;
};

struct piece {
	uint64_t start, hash;
	uint32_t bytes; /* 0 = unused */
	uint32_t asked; /* offset of the instruction that it was gone through from */
};

struct area {
	uint64_t start, end;
	uint32_t slot;
	bool is_old; /* its table is not what the rules say now */
};

struct live_rules {
	struct live_budget *budget;
	struct row *rows;
	size_t count, capacity;
	struct piece *pieces;
	size_t piece_count, piece_capacity;
	struct area areas[LIVE_AREAS_MAX];
	size_t area_count;
	bool is_new;
};

int live_rules_new(struct live_budget *budget, struct live_rules **ret)
{
	struct live_rules *rules = mem_zalloc(sizeof(*rules));
	if (!rules)
		return -ENOMEM;
	rules->budget = budget;
	*ret = rules;
	return 0;
}

struct live_rules *live_rules_free(struct live_rules *rules)
{
	if (!rules)
		return NULL;
	rules->budget->rows -= rules->count;
	for (size_t i = 0; i < rules->area_count; i++)
		unwind_tables_release(rules->budget->tables, rules->areas[i].slot);
	mem_free(rules->rows);
	mem_free(rules->pieces);
	return mem_free(rules);
}

/* How many rows begin before the address. */
static size_t rows_before(const struct live_rules *rules, uint64_t address)
{
	return address ? sorted_count_up_to(rules->rows, rules->count, address, address - 1) : 0;
}

const struct unwind_rule *live_rules_find(const struct live_rules *rules, uint64_t address, uint16_t *ret_check)
{
	size_t at = rows_before(rules, address);
	if (at == rules->count || rules->rows[at].address != address)
		return NULL;
	*ret_check = rules->rows[at].check;
	return &rules->rows[at].rule;
}

size_t live_rules_count(const struct live_rules *rules, size_t *ret_pieces)
{
	*ret_pieces = 0;
	for (size_t i = 0; i < rules->piece_count; i++)
		*ret_pieces += rules->pieces[i].bytes != 0;
	return rules->count;
}

/* As walk_hash() and walk_check() of bpf/walk.h. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

uint16_t live_rules_check(const uint8_t *bytes)
{
	uint64_t words[2];
	memcpy(words, bytes, sizeof(words));
	return (uint16_t)(mix(mix(0, words[0]), words[1]) >> 48);
}

/* How much of an instruction says what it does to the stack: not where it calls, nor a constant of 8 bytes. */
static size_t bytes_that_count(const uint8_t *code, size_t len)
{
	if (len == 5 && code[0] == 0xe8)
		return 1;
	return len == 10 && (code[0] & 0xf8) == 0x48 && (code[1] & 0xf8) == 0xb8 ? 2 : len;
}

/* The first row from rows[*i] on that a piece has, NULL behind its last one. Leaves *i behind it. */
static const struct row *next_row_of(const struct live_rules *rules, size_t number, size_t *i)
{
	const struct piece *piece = &rules->pieces[number];
	for (; *i < rules->count && rules->rows[*i].address - piece->start < piece->bytes; ++*i)
		if (rules->rows[*i].piece == number)
			return &rules->rows[(*i)++];
	return NULL;
}

/* code: what lies at the piece's start. */
static uint64_t hash_piece(const struct live_rules *rules, size_t number, const uint8_t *code)
{
	const struct piece *piece = &rules->pieces[number];
	uint64_t hash = piece->start;
	const struct row *row;
	for (size_t i = rows_before(rules, piece->start); (row = next_row_of(rules, number, &i));) {
		const uint8_t *at = code + (row->address - piece->start);
		hash = mix(hash, hash64(at, bytes_that_count(at, row->len)));
	}
	return hash;
}

/* ---- changes ---- */

static void note_change(struct live_rules *rules, uint64_t start, uint64_t end)
{
	rules->is_new = true;
	for (size_t i = 0; i < rules->area_count; i++)
		rules->areas[i].is_old |= start < rules->areas[i].end && end > rules->areas[i].start;
}

static void set_count(struct live_rules *rules, size_t count)
{
	rules->budget->rows = rules->budget->rows - rules->count + count;
	rules->count = count;
}

static void drop_piece(struct live_rules *rules, size_t number)
{
	struct piece *piece = &rules->pieces[number];
	size_t kept = rows_before(rules, piece->start), at = kept;
	for (; at < rules->count && rules->rows[at].address - piece->start < piece->bytes; at++)
		if (rules->rows[at].piece != number)
			rules->rows[kept++] = rules->rows[at];
	memmove(&rules->rows[kept], &rules->rows[at], (rules->count - at) * sizeof(*rules->rows));
	set_count(rules, rules->count - (at - kept));
	note_change(rules, piece->start, piece->start + piece->bytes);
	piece->bytes = 0;
	rules->budget->dropped++;
}

void live_rules_drop(struct live_rules *rules, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < rules->piece_count; i++) {
		const struct piece *piece = &rules->pieces[i];
		if (piece->bytes && piece->start < end && piece->start + piece->bytes > start)
			drop_piece(rules, i);
	}
}

static void forget_all(struct live_rules *rules)
{
	rules->budget->dropped += rules->piece_count;
	set_count(rules, 0);
	rules->piece_count = 0;
	note_change(rules, 0, UINT64_MAX);
}

/* The number of an unused piece. */
static int take_piece(struct live_rules *rules, size_t *ret)
{
	for (size_t i = 0; i < rules->piece_count; i++) {
		*ret = i;
		if (!rules->pieces[i].bytes)
			return 0;
	}
	int r = array_reserve(&rules->pieces, &rules->piece_capacity, rules->piece_count + 1, PIECES_MAX);
	if (r < 0)
		return r;
	*ret = rules->piece_count++;
	return 0;
}

/* Merges rows of one piece, from behind, so that no second array is needed. */
static void merge(struct live_rules *rules, const struct row *more, size_t more_count)
{
	size_t total = rules->count + more_count, to = total, a = rules->count, b = more_count;
	struct row *rows = rules->rows;
	while (b > 0) {
		if (a > 0 && rows[a - 1].address > more[b - 1].address) {
			rows[--to] = rows[--a];
		} else if (a > 0 && rows[a - 1].address == more[b - 1].address) {
			a--;
			b--;
			rows[--to] = rows[a];
		} else {
			rows[--to] = more[--b];
		}
	}
	memmove(&rows[a], &rows[to], (total - to) * sizeof(*rows));
	set_count(rules, a + total - to);
}

int live_rules_add(struct live_rules *rules, uint64_t address, const uint8_t *code, size_t bytes, const struct live_code *found)
{
	size_t number;
	if (!found->count)
		return 0;
	if (rules->count + found->count > LIVE_RULES_MAX || rules->piece_count == PIECES_MAX)
		forget_all(rules);
	if (rules->budget->rows + found->count > LIVE_RULES_ALL_MAX)
		return -ENOMEM;
	_cleanup_(mem_freep) struct row *more = mem_alloc_array(found->count, sizeof(*more));
	if (!more || array_reserve(&rules->rows, &rules->capacity, rules->count + found->count, 2 * LIVE_RULES_MAX) < 0 ||
	    take_piece(rules, &number) < 0)
		return -ENOMEM;
	size_t count = 0;
	for (size_t i = 0; i < found->count; i++) {
		const struct live_code_row *row = &found->rows[i];
		size_t block = row->offset & ~(CHECK_BYTES - 1);
		if (block + CHECK_BYTES > bytes)
			continue;
		more[count++] = (struct row){.address = address + row->offset,
					     .rule = row->rule,
					     .check = live_rules_check(code + block),
					     .piece = (uint16_t)number,
					     .len = row->len};
	}
	rules->pieces[number] = (struct piece){.start = address + found->start, .bytes = found->end - found->start};
	merge(rules, more, count);
	rules->pieces[number].hash = hash_piece(rules, number, code + found->start);
	note_change(rules, address + found->start, address + found->end);
	rules->budget->found++;
	return 0;
}

/* Where the code has changed in what does not count. code: the block that the piece begins in. */
static void refresh_checks(struct live_rules *rules, size_t number, const uint8_t *code)
{
	const struct piece *piece = &rules->pieces[number];
	uint64_t from = piece->start & ~(uint64_t)(CHECK_BYTES - 1);
	bool changed = false;
	for (size_t i = rows_before(rules, piece->start); i < rules->count; i++) {
		struct row *row = &rules->rows[i];
		if (row->address - piece->start >= piece->bytes)
			break;
		uint16_t check = live_rules_check(code + ((row->address - from) & ~(uint64_t)(CHECK_BYTES - 1)));
		changed |= row->piece == number && row->check != check;
		if (row->piece == number)
			row->check = check;
	}
	if (changed)
		note_change(rules, piece->start, piece->start + piece->bytes);
}

/* Whether code that has changed has the same rules, where some are known: HotSpot patches entries of functions and the like. */
static bool confirms(const struct live_rules *rules, size_t number, const uint8_t *code)
{
	const struct piece *piece = &rules->pieces[number];
	struct live_code found;
	size_t at = 0;
	bool same = live_code_analyse(code, piece->bytes, piece->start, piece->asked, &found) == 0;
	const struct row *row;
	for (size_t i = rows_before(rules, piece->start); same && (row = next_row_of(rules, number, &i));) {
		uint64_t offset = row->address - piece->start;
		while (at < found.count && found.rows[at].offset < offset)
			at++;
		same = at < found.count && found.rows[at].offset == offset && found.rows[at].len == row->len &&
		       memcmp(&found.rows[at].rule, &row->rule, sizeof(row->rule)) == 0;
	}
	live_code_release(&found);
	return same;
}

int live_rules_verify(struct live_rules *rules, live_read_function *read, live_change_function *on_change, void *context)
{
	_cleanup_(mem_freep) uint8_t *bytes = mem_alloc(LIVE_CODE_BYTES_MAX + 2 * CHECK_BYTES);
	if (!bytes)
		return -ENOMEM;
	for (size_t i = 0; i < rules->piece_count; i++) {
		struct piece piece = rules->pieces[i];
		uint64_t before = piece.start % CHECK_BYTES, from = piece.start - before;
		size_t len = (piece.bytes + before + CHECK_BYTES - 1) & ~(size_t)(CHECK_BYTES - 1);
		/* Memory that cannot be read is that of a process that ends, or has no code in it any more. */
		if (!piece.bytes || !read(context, bytes, len, from))
			continue;
		uint64_t hash = hash_piece(rules, i, bytes + before);
		if (hash == piece.hash || confirms(rules, i, bytes + before)) {
			rules->pieces[i].hash = hash;
			refresh_checks(rules, i, bytes);
			continue;
		}
		drop_piece(rules, i);
		on_change(context, piece.start, piece.start + piece.bytes);
	}
	return 0;
}

/* ---- tables ---- */

/* Numbers of rules in a table, by content. */
struct numbering {
	struct unwind_rule rules[RULES_MAX];
	uint16_t slots[RULE_SLOTS]; /* number; 0 = free */
	uint32_t count;
};

/* 0 if there are too many. */
static uint32_t number_of(struct numbering *n, const struct unwind_rule *rule)
{
	uint32_t at = (uint32_t)hash64(rule, sizeof(*rule)) & (RULE_SLOTS - 1);
	for (; n->slots[at]; at = (at + 1) & (RULE_SLOTS - 1))
		if (memcmp(&n->rules[n->slots[at]], rule, sizeof(*rule)) == 0)
			return n->slots[at];
	if (n->count == RULES_MAX)
		return 0;
	n->rules[n->count] = *rule;
	n->slots[at] = (uint16_t)n->count;
	return n->count++;
}

struct image {
	struct numbering *numbers;
	struct unwind_table head;
	uint32_t *index;
	uint16_t *rows, *checks;
	struct unwind_escape *escapes;
	uint32_t page; /* whose first row is known */
};

static void put_row(struct image *image, uint64_t offset, const struct row *row)
{
	uint32_t page = (uint32_t)(offset >> UNWIND_PAGE_SHIFT) - image->head.first_page;
	uint32_t number = row ? number_of(image->numbers, &row->rule) : 0, at = image->head.row_count++;
	while (image->page <= page)
		image->index[image->page++] = at;
	if (number >= UNWIND_RULE_ESCAPE)
		image->escapes[image->head.escape_count++] = (struct unwind_escape){at, number};
	image->rows[at] = (uint16_t)((offset & 0xff) | (number < UNWIND_RULE_ESCAPE ? number : UNWIND_RULE_ESCAPE) << 8);
	image->checks[at] = row ? row->check : 0;
}

/* Rows for the `count` ones, and for what lies between them. */
static void put_rows(struct image *image, const struct row *rows, size_t count, uint64_t start)
{
	uint32_t pages = image->head.page_count;
	image->head.row_count = 1;
	for (size_t i = 0; i < count; i++) {
		uint64_t end = rows[i].address + rows[i].len;
		put_row(image, rows[i].address - start, &rows[i]);
		bool is_last = i + 1 == count, has_gap = is_last || rows[i + 1].address > end;
		if (has_gap && (end - start) >> UNWIND_PAGE_SHIFT < image->head.first_page + pages)
			put_row(image, end - start, NULL);
	}
	while (image->page <= pages)
		image->index[image->page++] = image->head.row_count;
}

static uint32_t place_part(uint32_t *bytes, size_t count, size_t size)
{
	uint32_t at = (*bytes + 7) & ~7u;
	*bytes = at + (uint32_t)(count * size);
	return at;
}

static int write_image(struct image *image, struct buffer *ret)
{
	struct unwind_table *head = &image->head;
	uint32_t bytes = sizeof(*head);
	head->magic = UNWIND_TABLE_MAGIC;
	head->rule_count = image->numbers->count;
	head->rules = place_part(&bytes, head->rule_count, sizeof(struct unwind_rule));
	head->index = place_part(&bytes, head->page_count + 1, sizeof(uint32_t));
	head->rows = place_part(&bytes, head->row_count, sizeof(uint16_t));
	head->checks = place_part(&bytes, head->row_count, sizeof(uint16_t));
	head->escapes = place_part(&bytes, head->escape_count, sizeof(struct unwind_escape));
	head->bytes = bytes;
	int r = buffer_reserve(ret, bytes);
	if (r < 0)
		return r;
	memset(ret->data, 0, bytes);
	memcpy(ret->data, head, sizeof(*head));
	memcpy(ret->data + head->rules, image->numbers->rules, head->rule_count * sizeof(struct unwind_rule));
	memcpy(ret->data + head->index, image->index, (head->page_count + 1) * sizeof(uint32_t));
	memcpy(ret->data + head->rows, image->rows, head->row_count * sizeof(uint16_t));
	memcpy(ret->data + head->checks, image->checks, head->row_count * sizeof(uint16_t));
	memcpy(ret->data + head->escapes, image->escapes, head->escape_count * sizeof(struct unwind_escape));
	ret->len = bytes;
	return 0;
}

int live_rules_image(const struct live_rules *rules, uint64_t start, uint64_t end, struct buffer *ret)
{
	size_t first = rows_before(rules, start), last = rows_before(rules, end);
	if (first == last)
		return 0;
	const struct row *rows = &rules->rows[first];
	uint64_t from = (rows[0].address - start) >> UNWIND_PAGE_SHIFT;
	if (from + (LIVE_SPAN_MAX >> UNWIND_PAGE_SHIFT) > UINT32_MAX)
		return -E2BIG;
	if (rules->rows[last - 1].address - rows[0].address >= LIVE_SPAN_MAX)
		last = rows_before(rules, rows[0].address + LIVE_SPAN_MAX);
	size_t count = last - first;
	uint64_t pages = ((rows[count - 1].address - start) >> UNWIND_PAGE_SHIFT) - from + 1;
	struct image image = {.head = {.first_page = (uint32_t)from, .page_count = (uint32_t)pages}};
	image.numbers = mem_zalloc(sizeof(*image.numbers));
	image.index = mem_alloc_array(pages + 1, sizeof(*image.index));
	image.rows = mem_zalloc_array(2 * count + 1, sizeof(*image.rows));
	image.checks = mem_zalloc_array(2 * count + 1, sizeof(*image.checks));
	image.escapes = mem_alloc_array(count, sizeof(*image.escapes));
	int r = -ENOMEM;
	if (image.numbers && image.index && image.rows && image.checks && image.escapes) {
		image.numbers->count = 1; /* 0 is UNWIND_CFA_NONE */
		put_rows(&image, rows, count, start);
		r = write_image(&image, ret);
	}
	mem_free(image.numbers);
	mem_free(image.index);
	mem_free(image.rows);
	mem_free(image.checks);
	mem_free(image.escapes);
	return r;
}

static void write_table(struct live_rules *rules, struct area *area)
{
	_cleanup_(buffer_release) struct buffer image = {.max = UNWIND_TABLE_BYTES_MAX};
	if (live_rules_image(rules, area->start, area->end, &image) < 0)
		return;
	if (unwind_tables_put(rules->budget->tables, area->slot, &image) == 0)
		area->is_old = false;
}

static struct area *find_area(struct live_rules *rules, uint64_t start)
{
	for (size_t i = 0; i < rules->area_count; i++)
		if (rules->areas[i].start == start)
			return &rules->areas[i];
	return NULL;
}

/* One of an area that has no rules any more, if there are too many. */
static struct area *new_area(struct live_rules *rules)
{
	if (rules->area_count < LIVE_AREAS_MAX)
		return &rules->areas[rules->area_count++];
	for (size_t i = 0; i < LIVE_AREAS_MAX; i++) {
		struct area *area = &rules->areas[i];
		if (rows_before(rules, area->start) < rows_before(rules, area->end))
			continue;
		unwind_tables_release(rules->budget->tables, area->slot);
		return area;
	}
	return NULL;
}

uint32_t live_rules_slot(struct live_rules *rules, uint64_t start, uint64_t end)
{
	struct area *area = find_area(rules, start);
	if (!area) {
		if (rows_before(rules, start) == rows_before(rules, end))
			return UNWIND_SLOT_JIT;
		uint32_t slot = unwind_tables_slot_live(rules->budget->tables);
		area = slot == UNWIND_SLOT_JIT ? NULL : new_area(rules);
		if (!area) {
			unwind_tables_release(rules->budget->tables, slot);
			return UNWIND_SLOT_JIT;
		}
		*area = (struct area){.start = start, .slot = slot, .is_old = true};
	}
	area->is_old |= area->end != end;
	area->end = end;
	if (area->is_old)
		write_table(rules, area);
	return area->slot;
}

bool live_rules_are_new(const struct live_rules *rules)
{
	return rules->is_new;
}

int live_rules_publish(struct live_rules *rules)
{
	size_t covered = 0;
	rules->is_new = false;
	for (size_t i = 0; i < rules->area_count; i++) {
		struct area *area = &rules->areas[i];
		if (area->is_old || !unwind_tables_has(rules->budget->tables, area->slot))
			write_table(rules, area);
		covered += rows_before(rules, area->end) - rows_before(rules, area->start);
	}
	return covered < rules->count && rules->area_count < LIVE_AREAS_MAX;
}
