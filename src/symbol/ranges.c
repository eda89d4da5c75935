/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which name an address has.
 *
 * Symbols at one address are aliases; the first in this order is kept: with a size before without; functions before untyped
 * ones; global, weak, local; fewest underscores in front; a name that the others go on from ("open" of "open", "open64"); the
 * last in the file, which is whom other tools name (of two constructors that became one, say). An untyped label without a size
 * inside a function is no function. Where symbols overlap, the one that starts last wins, and what encloses it goes on behind
 * its end. A symbol without a size ends where the next one starts, at the latest with its section. Between symbols there is no
 * name: an address is never given to an earlier function that has ended.
 */
#include "symbol/ranges.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"

#define RANGES_MAX (2u * ELF_SYMBOLS_MAX + 1)

/* A symbol whose end has not been reached yet. */
struct open_symbol {
	uint64_t start, end;
	const char *name, *file;
	bool is_unsized;
};

struct builder {
	struct elf_symbols *symbols;
	uint64_t base;
	struct symbol_range *ranges;
	size_t range_count, range_capacity;
	struct open_symbol *open; /* a stack */
	size_t open_count, open_capacity;
	uint64_t done_until; /* ranges are complete up to this address */
	uint64_t last_start; /* of the symbol of the last range */
};

static int binding_rank(uint8_t binding)
{
	return binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2;
}

DEFINE_ORDER(compare_symbols, struct elf_symbol,
	     ORDER(a->address, b->address) ?: ORDER(a->is_unsized, b->is_unsized) ?:
		     ORDER(a->type == STT_NOTYPE, b->type == STT_NOTYPE) ?:
		     ORDER(binding_rank(a->binding), binding_rank(b->binding)) ?:
		     ORDER(strspn(a->name, "_"), strspn(b->name, "_")) ?: ORDER(b->order, a->order) ?:
		     strcmp(a->name, b->name) ?: ORDER(b->size, a->size));

static bool is_as_good(const struct elf_symbol *x, const struct elf_symbol *y)
{
	return x->is_unsized == y->is_unsized && (x->type == STT_NOTYPE) == (y->type == STT_NOTYPE) &&
	       binding_rank(x->binding) == binding_rank(y->binding) && strspn(x->name, "_") == strspn(y->name, "_");
}

/* Of sorted aliases, the one to keep. */
static const struct elf_symbol *choose_alias(const struct elf_symbol *items, size_t count)
{
	const struct elf_symbol *best = items;
	for (size_t i = 1; i < count && is_as_good(items, &items[i]); i++)
		if (items[i].name_len < best->name_len && strncmp(items[i].name, best->name, items[i].name_len) == 0)
			best = &items[i];
	return best;
}

static int emit(struct builder *b, uint64_t from, uint64_t to, const struct open_symbol *symbol, struct error *err)
{
	uint64_t start = from - b->base, end = to - b->base;
	if (end > UINT32_MAX)
		end = UINT32_MAX;
	if (start >= end)
		return 0;
	int r = array_reserve(&b->ranges, &b->range_capacity, b->range_count + 1, RANGES_MAX);
	if (r < 0)
		return r == -E2BIG ? error_set(err, r, "more than %u ranges, the limit", RANGES_MAX) : error_nomem(err);
	bool touches = b->range_count > 0 && b->ranges[b->range_count - 1].end == start;
	b->ranges[b->range_count++] = (struct symbol_range){.start = (uint32_t)start,
							    .end = (uint32_t)end,
							    .name = symbol->name,
							    .file = symbol->file,
							    .continued = touches && b->last_start == symbol->start};
	b->last_start = symbol->start;
	return 0;
}

/* Ends the innermost open symbol at `end`. */
static int pop_symbol(struct builder *b, uint64_t end, struct error *err)
{
	const struct open_symbol *symbol = &b->open[--b->open_count];
	if (end <= b->done_until)
		return 0;
	int r = emit(b, b->done_until, end, symbol, err);
	b->done_until = end;
	return r;
}

/* Brings the ranges up to `address`, where a symbol starts. */
static int advance(struct builder *b, uint64_t address, struct error *err)
{
	while (b->open_count > 0) {
		const struct open_symbol *top = &b->open[b->open_count - 1];
		if (top->end > address && !top->is_unsized)
			break;
		int r = pop_symbol(b, top->end < address ? top->end : address, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int push_symbol(struct builder *b, const struct elf_symbol *symbol, struct error *err)
{
	const struct open_symbol *outer = b->open_count > 0 ? &b->open[b->open_count - 1] : NULL;
	if (outer && symbol->is_unsized && symbol->type == STT_NOTYPE)
		return 0;
	uint64_t end = symbol->address + symbol->size;
	if (outer && symbol->is_unsized && end > outer->end)
		end = outer->end;
	if (outer && b->done_until < symbol->address) {
		int r = emit(b, b->done_until, symbol->address, outer, err);
		if (r < 0)
			return r;
	}
	if (array_push(&b->open, &b->open_count, &b->open_capacity, ELF_SYMBOLS_MAX,
		       (struct open_symbol){symbol->address, end, symbol->name, symbol->file, symbol->is_unsized}) < 0)
		return error_nomem(err);
	b->done_until = symbol->address;
	return 0;
}

static int make_ranges(struct builder *b, struct error *err)
{
	struct elf_symbol *items = b->symbols->items;
	sort_array(items, b->symbols->count, compare_symbols);
	for (size_t i = 0, count; i < b->symbols->count; i += count) {
		for (count = 1; i + count < b->symbols->count && items[i + count].address == items[i].address;)
			count++;
		if (items[i].address < b->base || items[i].address - b->base > UINT32_MAX)
			continue;
		int r = advance(b, items[i].address, err);
		if (r == 0)
			r = push_symbol(b, choose_alias(&items[i], count), err);
		if (r < 0)
			return r;
	}
	while (b->open_count > 0) {
		int r = pop_symbol(b, b->open[b->open_count - 1].end, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int symbol_ranges_make(struct elf_symbols *symbols, uint64_t base, struct symbol_range **ret, size_t *ret_count,
		       struct error *err)
{
	struct builder b = {.symbols = symbols, .base = base};
	int r = make_ranges(&b, err);
	mem_free(b.open);
	if (r < 0) {
		mem_free(b.ranges);
		return r;
	}
	*ret = b.ranges;
	*ret_count = b.range_count;
	return 0;
}
