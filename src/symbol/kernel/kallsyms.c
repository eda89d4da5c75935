/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's symbols, small enough for an agent that may use 15 MiB altogether.
 *
 * /proc/kallsyms has some 120,000 to 200,000 text symbols; offsets and plain names would take 4 to 6 MB. Half of the symbols of
 * current x86 kernels are "__pfx_NAME", the padding in front of NAME, and neighbours' names start alike. So symbols are kept in
 * blocks of 64, each entry coded against the one before:
 *
 *   varint   (start - start before) * 4 + kind     kind 0: symbol; 1: symbol with its __pfx_ padding in front; 2: end of text
 *   varint   length of the padding                 kind 1 only; start is that of the padding
 *   varint   bytes of the name before that are kept \
 *   varint   bytes that follow                       } kinds 0 and 1
 *   bytes                                           /
 *   varint   module                                run 1 only, kinds 0 and 1
 *
 * and an index of { start, place } per block: 1.3 MB for 122,000 symbols. A lookup is a binary search over blocks and a walk
 * through one. Names that were looked up are kept as strings, since callers keep them.
 *
 * Two runs. The kernel's own symbols come sorted by address and are coded as they are read, so that loading needs no more
 * memory than the result. Modules, BPF programs and trampolines come in any order; they (and any symbol of the kernel that is
 * out of order) are collected, sorted, and coded as run 1.
 *
 * Ends. The file has no sizes. Text ends where a symbol that is no text comes next, at _etext and _einittext, and in run 1 at
 * the latest EXTENT_MAX behind the last symbol: an address in a gap has no name.
 *
 * On disk. Core text is the same until the next boot, so its run is kept (kallsyms_cache.c), and whoever starts next reads
 * that.
 *
 * Rejected: reading the file again for each batch of unknown addresses (50 ms of CPU each here, half of what the agent may use
 * in ten seconds); compressing blocks with zstd (0.9 MB, but a decompressor's memory and 20 us a lookup).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/io.h"
#include "base/kallsyms_path.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sorted.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "symbol/kernel/kallsyms_int.h"
#include "symbol/kernel/kallsyms_text.h"
#include "symbol/symbol_int.h"

#define NAME_MAX_BYTES	   1023u /* the kernel's KSYM_NAME_LEN is 512; longer ones are cut */
#define LINE_BYTES_MAX	   2048u
#define WINDOW_BYTES	   (64 * KIB)
#define MODULES_MAX	   65536u
#define EXTENT_MAX	   (256 * KIB)
#define MODULES_FILE_MAX   (4 * MIB)
#define PADDING_MAX	   64u
#define PADDING_PREFIX	   "__pfx_"
#define PADDING_PREFIX_LEN 6u

enum entry_kind { ENTRY_SYMBOL = 0, ENTRY_PADDED = 1, ENTRY_END = 2 };

/* What changes when somebody looks something up; apart so that kallsyms_lookup() can be const. */
struct name_cache {
	pthread_mutex_t lock;
	struct map64 known; /* entry -> char * */
	struct arena text;
};

/* One entry, decoded. */
struct entry {
	uint64_t start;
	enum entry_kind kind;
	uint32_t padding, module;
	size_t name_len;
	char name[NAME_MAX_BYTES + 1];
};

/* Without the unused part of the name, which is most of it. */
static void copy_entry(struct entry *to, const struct entry *from)
{
	memcpy(to, from, offsetof(struct entry, name) + from->name_len);
	to->name[from->name_len] = 0;
}

/* ---- coding ---- */

struct coder {
	struct kallsyms_run *run;
	bool with_modules;
	struct entry best; /* of the symbols at one address, the one to keep; kind is ENTRY_END while there is none */
	bool has_best, best_is_global;
	struct entry padding; /* a __pfx_ symbol that waits for its function */
	bool has_padding;
	struct entry previous; /* coded last */
	size_t symbol_count;
};

static size_t common_prefix(const struct entry *a, const struct entry *b)
{
	size_t len = 0;
	while (len < a->name_len && len < b->name_len && a->name[len] == b->name[len])
		len++;
	return len;
}

static int start_block(struct coder *coder, uint64_t start)
{
	struct kallsyms_run *run = coder->run;
	int r = array_push(&run->blocks, &run->block_count, &run->block_capacity,
			   KALLSYMS_SYMBOLS_MAX / KALLSYMS_BLOCK_SYMBOLS + 1,
			   (struct kallsyms_block){.start = start, .place = (uint32_t)run->data.len});
	if (r < 0)
		return r;
	coder->previous.start = start;
	coder->previous.name_len = 0;
	return 0;
}

static void put_name(struct coder *coder, const struct entry *entry)
{
	struct buffer *out = &coder->run->data;
	size_t kept = common_prefix(&coder->previous, entry);
	pb_write_raw_varint(out, kept);
	pb_write_raw_varint(out, entry->name_len - kept);
	buffer_append(out, entry->name + kept, entry->name_len - kept);
	if (coder->with_modules)
		pb_write_raw_varint(out, entry->module);
}

static int put_entry(struct coder *coder, const struct entry *entry)
{
	struct buffer *out = &coder->run->data;
	int r = coder->run->entry_count % KALLSYMS_BLOCK_SYMBOLS == 0 ? start_block(coder, entry->start) : 0;
	if (r < 0)
		return r;
	pb_write_raw_varint(out, (entry->start - coder->previous.start) * 4 + entry->kind);
	if (entry->kind == ENTRY_PADDED)
		pb_write_raw_varint(out, entry->padding);
	if (entry->kind != ENTRY_END)
		put_name(coder, entry);
	if (buffer_status(out) < 0)
		return buffer_status(out);
	coder->run->entry_count++;
	coder->previous.start = entry->start;
	coder->previous.kind = entry->kind;
	if (entry->kind != ENTRY_END) {
		coder->previous.name_len = entry->name_len;
		memcpy(coder->previous.name, entry->name, entry->name_len + 1);
		coder->symbol_count += entry->kind == ENTRY_PADDED ? 2 : 1;
	}
	return 0;
}

static bool is_padding_of(const struct entry *padding, const struct entry *function)
{
	return function->start - padding->start <= PADDING_MAX && padding->module == function->module &&
	       strcmp(padding->name + PADDING_PREFIX_LEN, function->name) == 0;
}

static int flush_padding(struct coder *coder)
{
	if (!coder->has_padding)
		return 0;
	coder->has_padding = false;
	return put_entry(coder, &coder->padding);
}

/* The best symbol of an address is known: code it, or hold it back if it is padding. */
static int flush_best(struct coder *coder)
{
	if (!coder->has_best)
		return 0;
	coder->has_best = false;
	struct entry *entry = &coder->best;
	if (coder->has_padding && entry->kind == ENTRY_SYMBOL && is_padding_of(&coder->padding, entry)) {
		entry->kind = ENTRY_PADDED;
		entry->padding = (uint32_t)(entry->start - coder->padding.start);
		entry->start = coder->padding.start;
		coder->has_padding = false;
		return put_entry(coder, entry);
	}
	int r = flush_padding(coder);
	if (r < 0)
		return r;
	if (entry->kind == ENTRY_SYMBOL && strncmp(entry->name, PADDING_PREFIX, PADDING_PREFIX_LEN) == 0) {
		copy_entry(&coder->padding, entry);
		coder->has_padding = true;
		return 0;
	}
	/* Ends in a row say nothing new. */
	if (entry->kind == ENTRY_END && (coder->run->entry_count == 0 || coder->previous.kind == ENTRY_END))
		return 0;
	return put_entry(coder, entry);
}

/* One symbol of the file. */
struct line {
	uint64_t address;
	char type;
	const char *name, *module; /* module: "" for the kernel itself */
	size_t name_len, module_len;
};

static bool is_text(char type)
{
	return type == 't' || type == 'T' || type == 'w' || type == 'W';
}

static bool is_text_end(const struct line *line)
{
	return (line->name_len == 6 && memcmp(line->name, "_etext", 6) == 0) ||
	       (line->name_len == 10 && memcmp(line->name, "_einittext", 10) == 0);
}

/* Padding is chosen as its function is. */
static const char *without_padding_prefix(const char *name)
{
	return strncmp(name, PADDING_PREFIX, PADDING_PREFIX_LEN) == 0 ? name + PADDING_PREFIX_LEN : name;
}

/* The order of table.c, as far as kallsyms allows: global first, fewest underscores in front, shortest, first in byte order. */
static bool is_better(const struct coder *coder, const struct entry *entry, bool is_global)
{
	const struct entry *best = &coder->best;
	if (best->kind == ENTRY_END)
		return true;
	if (is_global != coder->best_is_global)
		return is_global;
	const char *a = without_padding_prefix(entry->name), *b = without_padding_prefix(best->name);
	size_t a_under = strspn(a, "_"), b_under = strspn(b, "_");
	if (a_under != b_under)
		return a_under < b_under;
	if (entry->name_len != best->name_len)
		return entry->name_len < best->name_len;
	return strcmp(a, b) < 0;
}

/* Addresses must not go down. */
static int add_symbol(struct coder *coder, const struct line *line, uint32_t module)
{
	bool is_end = !is_text(line->type) || is_text_end(line), is_global = line->type == 'T' || line->type == 'W';
	if (coder->has_best && coder->best.start != line->address) {
		int r = flush_best(coder);
		if (r < 0)
			return r;
	}
	if (coder->has_best && is_end)
		return 0;
	struct entry entry;
	entry.start = line->address;
	entry.kind = is_end ? ENTRY_END : ENTRY_SYMBOL;
	entry.padding = 0;
	entry.module = module;
	entry.name_len = line->name_len < NAME_MAX_BYTES ? line->name_len : NAME_MAX_BYTES;
	memcpy(entry.name, line->name, entry.name_len);
	entry.name[entry.name_len] = 0;
	if (coder->has_best && !is_better(coder, &entry, is_global))
		return 0;
	copy_entry(&coder->best, &entry);
	coder->best_is_global = is_global;
	coder->has_best = true;
	return 0;
}

static int finish_coding(struct coder *coder, struct kallsyms *kallsyms)
{
	int r = flush_best(coder);
	if (r == 0)
		r = flush_padding(coder);
	struct kallsyms_run *run = coder->run;
	kallsyms->symbol_count += coder->symbol_count;
	/* Give back what growing by doubling left over. */
	void *data = run->data.len > 0 ? mem_realloc_array(run->data.data, run->data.len, 1) : NULL;
	if (data) {
		run->data.data = data;
		run->data.capacity = run->data.len;
	}
	return r;
}

/* ---- reading /proc/kallsyms ---- */

/* A symbol for run 1. */
struct late {
	uint64_t address;
	uint32_t name, name_len; /* in `names` */
	uint32_t module;
	char type;
};

struct loader {
	struct kallsyms *kallsyms;
	struct coder *core;
	uint64_t core_last, highest;
	struct late *late;
	size_t late_count, late_capacity;
	struct buffer late_names;
	uint32_t core_module;
	size_t lines;
};

/* "ffffffff81000000 T _stext" with "\t[module]" behind it for modules. False for lines that are not like that. */
static bool parse_line(const char *text, size_t len, struct line *ret)
{
	size_t at = 0;
	uint64_t address = 0;
	for (; at < len && text[at] != ' '; at++) {
		int digit = text_hex_digit((uint8_t)text[at]);
		if (digit < 0 || at >= 16)
			return false;
		address = address << 4 | (unsigned)digit;
	}
	if (at == 0 || len - at < 4 || text[at + 2] != ' ')
		return false;
	*ret = (struct line){.address = address, .type = text[at + 1], .name = text + at + 3, .module = ""};
	size_t rest = len - at - 3;
	const char *tab = memchr(ret->name, '\t', rest);
	ret->name_len = tab ? (size_t)(tab - ret->name) : rest;
	if (tab) {
		ret->module = tab + 1;
		ret->module_len = rest - ret->name_len - 1;
	}
	return ret->name_len > 0 && !memchr(ret->name, 0, ret->name_len);
}

static int add_late(struct loader *loader, const struct line *line)
{
	uint32_t module = loader->core_module;
	if (line->module_len > 0 && intern_add(&loader->kallsyms->modules, line->module, line->module_len, &module) < 0)
		return -ENOMEM;
	int r = array_reserve(&loader->late, &loader->late_capacity, loader->late_count + 1, KALLSYMS_SYMBOLS_MAX);
	if (r == 0)
		r = buffer_append(&loader->late_names, line->name, line->name_len);
	if (r < 0)
		return r;
	loader->late[loader->late_count++] = (struct late){.address = line->address,
							   .name = (uint32_t)(loader->late_names.len - line->name_len),
							   .name_len = (uint32_t)line->name_len,
							   .module = module,
							   .type = line->type};
	return 0;
}

static void note_bounds(struct kallsyms *kallsyms, const struct line *line)
{
	if (line->name_len != 6 || line->module_len > 0)
		return;
	if (memcmp(line->name, "_stext", 6) == 0)
		kallsyms->core_start = line->address;
	else if (memcmp(line->name, "_etext", 6) == 0)
		kallsyms->core_end = line->address;
}

static int take_line(struct loader *loader, const char *text, size_t len)
{
	struct line line;
	if (!parse_line(text, len, &line))
		return 0;
	if (++loader->lines > KALLSYMS_SYMBOLS_MAX)
		return -E2BIG;
	if (line.address > loader->highest)
		loader->highest = line.address;
	if (line.address == 0)
		return 0;
	bool text_symbol = is_text(line.type);
	note_bounds(loader->kallsyms, &line);
	if (line.module_len > 0)
		return add_late(loader, &line);
	if (line.address < loader->core_last)
		return text_symbol ? add_late(loader, &line) : 0;
	/* Per-CPU variables of older kernels come first, at low addresses. */
	if (!text_symbol && loader->core->run->entry_count == 0 && !loader->core->has_best)
		return 0;
	loader->core_last = line.address;
	return add_symbol(loader->core, &line, loader->core_module);
}

/* Hands over the whole lines of window[0..len); returns how many bytes they had, or an error. */
static ssize_t take_lines(struct loader *loader, const char *window, size_t len)
{
	size_t at = 0;
	const char *end;
	while ((end = memchr(window + at, '\n', len - at))) {
		int r = take_line(loader, window + at, (size_t)(end - window) - at);
		if (r < 0)
			return r;
		at = (size_t)(end - window) + 1;
	}
	return (ssize_t)at;
}

static int read_symbols(struct loader *loader, const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, err);
	if (fd < 0)
		return fd;
	_cleanup_(mem_freep) char *window = mem_alloc(WINDOW_BYTES);
	if (!window)
		return error_nomem(err);
	size_t held = 0;
	for (;;) {
		ssize_t n = io_read(fd, window + held, WINDOW_BYTES - held, path, err);
		if (n < 0)
			return (int)n;
		if (n == 0)
			return 0;
		held += (size_t)n;
		ssize_t taken = take_lines(loader, window, held);
		if (taken < 0)
			return taken == -E2BIG ? error_set(err, -E2BIG, "%s has more than %u symbols, the limit", path,
							   KALLSYMS_SYMBOLS_MAX)
					       : error_nomem(err);
		/* A line that long is no symbol; its rest is taken for a line of its own, which is none either. */
		if (taken == 0 && held > LINE_BYTES_MAX)
			taken = (ssize_t)held;
		held -= (size_t)taken;
		memmove(window, window + taken, held);
	}
}

/* Text last: add_symbol() lets it win over an end at its address. */
DEFINE_ORDER(compare_late, struct late,
	     ORDER(a->address, b->address) ?: ORDER(is_text(a->type), is_text(b->type)) ?: ORDER(a->name, b->name));

static int code_late(struct loader *loader)
{
	if (loader->late_count == 0)
		return 0;
	sort_array(loader->late, loader->late_count, compare_late);
	_cleanup_(mem_freep) struct coder *coder = mem_zalloc(sizeof(*coder));
	if (!coder)
		return -ENOMEM;
	coder->run = &loader->kallsyms->runs[1];
	coder->with_modules = true;
	for (size_t i = 0; i < loader->late_count; i++) {
		const struct late *late = &loader->late[i];
		struct line line = {.address = late->address,
				    .type = late->type,
				    .name = (const char *)loader->late_names.data + late->name,
				    .name_len = late->name_len};
		int r = add_symbol(coder, &line, late->module);
		if (r < 0)
			return r;
	}
	return finish_coding(coder, loader->kallsyms);
}

static int load_symbols(struct kallsyms *kallsyms, const char *path, struct error *err)
{
	struct loader loader = {.kallsyms = kallsyms, .late_names.max = KALLSYMS_DATA_BYTES_MAX};
	_cleanup_(mem_freep) struct coder *core = mem_zalloc(sizeof(*core));
	if (!core || intern_add_string(&kallsyms->modules, KALLSYMS_CORE_MODULE, &loader.core_module) < 0)
		return error_nomem(err);
	core->run = &kallsyms->runs[0];
	loader.core = core;
	int r = read_symbols(&loader, path, err);
	if (r == 0 && finish_coding(core, kallsyms) < 0)
		r = error_nomem(err);
	if (r == 0 && code_late(&loader) < 0)
		r = error_nomem(err);
	mem_free(loader.late);
	buffer_release(&loader.late_names);
	if (r < 0)
		return r;
	if (loader.lines > 0 && loader.highest == 0)
		return error_set(err, -EPERM,
				 "%s hides the kernel's addresses; run as root or give CAP_SYSLOG, and set the sysctl "
				 "kernel.kptr_restrict to 0 or 1",
				 path);
	if (kallsyms->symbol_count == 0)
		return error_set(err, -ENODATA, "%s has no symbols; the kernel needs CONFIG_KALLSYMS", path);
	return 0;
}

/* ---- modules ---- */

/* Hash of name, size and address of all modules; the reference counts between them change all the time. 0 when there is none.
 */
static uint64_t hash_modules(const char *path)
{
	_cleanup_(buffer_release) struct buffer text = {.max = MODULES_FILE_MAX};
	if (io_read_file(path, MODULES_FILE_MAX, &text, NULL) < 0)
		return 0;
	uint64_t hash = 0;
	struct bytes rest = buffer_bytes(&text);
	while (rest.len > 0) {
		struct bytes line = bytes_take_line(&rest);
		for (unsigned field = 0; line.len > 0; field++) {
			const uint8_t *space = memchr(line.data, ' ', line.len);
			size_t len = space ? (size_t)(space - line.data) : line.len;
			if (field == 0 || field == 1 || field == 5)
				hash = hash64_seed(line.data, len, hash);
			line = bytes_skip(line, len + (space != NULL));
		}
	}
	return hash;
}

/* ---- life ---- */

int kallsyms_new(const char *modules_path, struct kallsyms **ret, struct error *err)
{
	_cleanup_(kallsyms_freep) struct kallsyms *kallsyms = mem_zalloc(sizeof(*kallsyms));
	if (!kallsyms)
		return error_nomem(err);
	buffer_init(&kallsyms->runs[0].data, KALLSYMS_DATA_BYTES_MAX);
	buffer_init(&kallsyms->runs[1].data, KALLSYMS_DATA_BYTES_MAX);
	kallsyms->modules_path = mem_strdup(modules_path);
	kallsyms->names = mem_zalloc(sizeof(*kallsyms->names));
	if (!kallsyms->modules_path || !kallsyms->names)
		return error_nomem(err);
	pthread_mutex_init(&kallsyms->names->lock, NULL);
	arena_init(&kallsyms->names->text, KALLSYMS_DATA_BYTES_MAX);
	if (intern_init(&kallsyms->modules, MODULES_MAX * 64ull) < 0)
		return error_nomem(err);
	*ret = TAKE(kallsyms);
	return 0;
}

int kallsyms_load_files(const char *symbols_path, const char *modules_path, struct kallsyms **ret, struct error *err)
{
	_cleanup_(kallsyms_freep) struct kallsyms *kallsyms = NULL;
	int r = kallsyms_new(modules_path, &kallsyms, err);
	if (r < 0)
		return r;
	/* Before the symbols: a module that arrives in between makes the table stale, not wrong for good. */
	kallsyms->modules_hash = hash_modules(modules_path);
	r = load_symbols(kallsyms, symbols_path, err);
	if (r < 0)
		return r;
	*ret = TAKE(kallsyms);
	return 0;
}

int kallsyms_load(struct kallsyms **ret, struct error *err)
{
	return kallsyms_load_files(kallsyms_path(), "/proc/modules", ret, err);
}

struct kallsyms *kallsyms_free(struct kallsyms *kallsyms)
{
	if (!kallsyms)
		return NULL;
	for (size_t i = 0; i < 2; i++) {
		mem_free(kallsyms->runs[i].blocks);
		buffer_release(&kallsyms->runs[i].data);
	}
	intern_release(&kallsyms->modules);
	mem_free(kallsyms->modules_path);
	if (kallsyms->names) {
		pthread_mutex_destroy(&kallsyms->names->lock);
		map64_release(&kallsyms->names->known);
		arena_release(&kallsyms->names->text);
		mem_free(kallsyms->names);
	}
	return mem_free(kallsyms);
}

/* What runs in core text stays as long as the kernel does. */
bool kallsyms_is_stale(const struct kallsyms *kallsyms)
{
	return !kallsyms->core_only && hash_modules(kallsyms->modules_path) != kallsyms->modules_hash;
}

size_t kallsyms_memory_bytes(const struct kallsyms *kallsyms)
{
	size_t total = sizeof(*kallsyms) + kallsyms->names->text.used_bytes;
	for (size_t i = 0; i < 2; i++)
		total += kallsyms->runs[i].data.capacity + kallsyms->runs[i].block_capacity * sizeof(struct kallsyms_block);
	return total;
}

size_t kallsyms_symbol_count(const struct kallsyms *kallsyms)
{
	return kallsyms->symbol_count;
}

/* ---- looking up ---- */

/* Damage of a list that was kept on disk ends in a read of 0, not beyond it. */
static uint64_t get_varint(struct bytes *rest)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 64 && rest->len > 0; shift += 7) {
		uint8_t byte = rest->data[0];
		*rest = bytes_skip(*rest, 1);
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	return 0;
}

/* Decodes the next entry over the one before it. False at the end of the data, or if it makes no sense. */
static bool get_entry(struct bytes *rest, bool with_modules, struct entry *entry)
{
	if (rest->len == 0)
		return false;
	uint64_t head = get_varint(rest);
	entry->start += head / 4;
	entry->kind = (enum entry_kind)(head % 4);
	entry->padding = entry->kind == ENTRY_PADDED ? (uint32_t)get_varint(rest) : 0;
	if (entry->kind == ENTRY_END)
		return true;
	uint64_t kept = get_varint(rest), more = get_varint(rest);
	if (entry->kind > ENTRY_END || kept > entry->name_len || more > NAME_MAX_BYTES - kept || more > rest->len)
		return false;
	if (more > 0)
		memcpy(entry->name + kept, rest->data, more);
	*rest = bytes_skip(*rest, more);
	entry->name_len = kept + more;
	entry->module = with_modules ? (uint32_t)get_varint(rest) : 1;
	return true;
}

/* The data from where the entries of a block begin, and what the first one is coded against. */
static struct bytes open_block(const struct kallsyms_run *run, size_t block, struct entry *ret)
{
	uint32_t place = run->blocks[block].place;
	ret->start = run->blocks[block].start;
	ret->name_len = 0;
	return place < run->data.len ? bytes_skip(buffer_bytes(&run->data), place) : (struct bytes){0};
}

/* The last entry that starts at or before an address; *ret_ordinal is its number. */
static bool find_entry(const struct kallsyms_run *run, bool with_modules, uint64_t address, struct entry *ret,
		       size_t *ret_ordinal)
{
	size_t block = sorted_count_up_to(run->blocks, run->block_count, start, address);
	if (block-- == 0)
		return false;
	bool found = false;
	struct entry entry;
	struct bytes rest = open_block(run, block, &entry);
	size_t first = block * KALLSYMS_BLOCK_SYMBOLS;
	for (size_t i = 0; i < KALLSYMS_BLOCK_SYMBOLS && first + i < run->entry_count; i++) {
		struct bytes peek = rest;
		if (entry.start + get_varint(&peek) / 4 > address)
			break;
		if (!get_entry(&rest, with_modules, &entry))
			return false;
		*ret_ordinal = first + i;
		found = true;
	}
	if (!found)
		return false;
	copy_entry(ret, &entry);
	return true;
}

uint64_t kallsyms_late_before(const struct kallsyms *kallsyms, uint64_t address)
{
	struct entry entry;
	size_t ordinal = 0;
	return find_entry(&kallsyms->runs[1], true, address, &entry, &ordinal) ? entry.start : 0;
}

/* The name as a string that stays; `key` identifies it. NULL when memory is short. */
static const char *keep_name(struct name_cache *cache, uint64_t key, const char *prefix, const struct entry *entry)
{
	uint64_t known;
	const char *ret = NULL;
	pthread_mutex_lock(&cache->lock);
	if (map64_get(&cache->known, key, &known)) {
		ret = (const char *)(uintptr_t)known;
	} else {
		size_t prefix_len = strlen(prefix);
		char text[NAME_MAX_BYTES + PADDING_PREFIX_LEN + 1];
		memcpy(text, prefix, prefix_len);
		memcpy(text + prefix_len, entry->name, entry->name_len);
		ret = arena_strndup(&cache->text, text, prefix_len + entry->name_len);
		if (ret && map64_put(&cache->known, key, (uint64_t)(uintptr_t)ret) < 0)
			ret = NULL;
	}
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

bool kallsyms_lookup(const struct kallsyms *kallsyms, uint64_t address, const char **ret_name, const char **ret_module,
		     uint64_t *ret_start)
{
	struct entry entries[2];
	size_t ordinals[2] = {0};
	if (kallsyms->core_only && (address < kallsyms->core_start || address >= kallsyms->core_end))
		return false;
	bool found_core = find_entry(&kallsyms->runs[0], false, address, &entries[0], &ordinals[0]);
	bool found_late = find_entry(&kallsyms->runs[1], true, address, &entries[1], &ordinals[1]);
	if (!found_core && !found_late)
		return false;
	size_t run = found_late && (!found_core || entries[1].start > entries[0].start) ? 1 : 0;
	const struct entry *entry = &entries[run];
	if (entry->kind == ENTRY_END || address - entry->start > EXTENT_MAX)
		return false;
	bool in_padding = entry->kind == ENTRY_PADDED && address < entry->start + entry->padding;
	uint64_t key = (uint64_t)ordinals[run] << 2 | (uint64_t)run << 1 | in_padding;
	const char *name = keep_name(kallsyms->names, key, in_padding ? PADDING_PREFIX : "", entry);
	if (!name)
		return false;
	*ret_name = name;
	*ret_module = intern_string(&kallsyms->modules, entry->module);
	*ret_start = in_padding ? entry->start : entry->start + entry->padding;
	return true;
}

/* ---- the list for others ---- */

bool kallsyms_core(const struct kallsyms *kallsyms, uint64_t *ret_start, uint64_t *ret_end)
{
	*ret_start = kallsyms->core_start;
	*ret_end = kallsyms->core_end;
	return kallsyms->core_start && kallsyms->core_end > kallsyms->core_start;
}

/* A function, and the padding in front of it. What ends text without a symbol behind it is left out: nothing runs in such gaps.
 */
static int put_core_entry(const struct kallsyms *kallsyms, const struct entry *entry, struct buffer *out)
{
	uint64_t offset = entry->start - kallsyms->core_start;
	int r = 0;
	if (entry->kind == ENTRY_END || entry->start < kallsyms->core_start || entry->start >= kallsyms->core_end)
		return 0;
	if (entry->kind == ENTRY_PADDED)
		r = buffer_printf(out, "%llx " PADDING_PREFIX "%s\n", (unsigned long long)offset, entry->name);
	return r < 0 ? r : buffer_printf(out, "%llx %s\n", (unsigned long long)offset + entry->padding, entry->name);
}

static int put_block(const struct kallsyms *kallsyms, size_t block, struct buffer *out)
{
	const struct kallsyms_run *run = &kallsyms->runs[0];
	size_t count = run->entry_count - block * KALLSYMS_BLOCK_SYMBOLS;
	struct entry entry;
	struct bytes rest = open_block(run, block, &entry);
	int r = 0;
	for (size_t i = 0; i < count && i < KALLSYMS_BLOCK_SYMBOLS && r == 0 && get_entry(&rest, false, &entry); i++) {
		entry.name[entry.name_len] = 0;
		r = put_core_entry(kallsyms, &entry, out);
	}
	return r;
}

int kallsyms_write_core(const struct kallsyms *kallsyms, const char *build_id, int out_fd, uint64_t *ret_size,
			struct error *err)
{
	_cleanup_(buffer_release) struct buffer out = {.max = WINDOW_BYTES + KALLSYMS_BLOCK_SYMBOLS * 2 * LINE_BYTES_MAX};
	uint64_t start, end, size = 0;
	if (!kallsyms_core(kallsyms, &start, &end))
		return error_set(err, -ENODATA, "the kernel's symbols do not give the start and end of its text");
	int r = buffer_printf(&out, KALLSYMS_TEXT_START "%s\n", build_id);
	for (size_t i = 0; i <= kallsyms->runs[0].block_count && r == 0; i++) {
		bool is_end = i == kallsyms->runs[0].block_count;
		r = is_end ? buffer_printf(&out, "%llx _etext\n", (unsigned long long)(end - start))
			   : put_block(kallsyms, i, &out);
		if (r < 0 || (out.len < WINDOW_BYTES && !is_end))
			continue;
		r = io_pwrite(out_fd, out.data, out.len, size, "the list of the kernel's symbols", err);
		if (r < 0)
			return r;
		size += out.len;
		buffer_clear(&out);
	}
	*ret_size = size;
	return r < 0 ? error_nomem(err) : 0;
}
