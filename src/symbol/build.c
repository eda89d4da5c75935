/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From files to a table.
 *
 * The binary knows where its code is in the file; whoever has debug sections knows the rest. Where both are there, names of
 * both count, since a stripped binary keeps exported ones. What is damaged costs what it holds: bad DWARF leaves names, a bad
 * debug file leaves the binary's own.
 */
#include "symbol/build.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "elf/debug_links.h"
#include "elf/dwarf.h"
#include "elf/extract.h"
#include "elf/file_ids.h"
#include "elf/pclntab.h"
#include "symbol/kernel/kallsyms_text.h"
#include "symbol/table_write.h"

/* A file that was opened for the build. */
struct input {
	int fd; /* -1 = none */
	struct elf_file file;
	bool is_open;	       /* file */
	struct elf_file inner; /* mini debug information in it */
	uint8_t *inner_memory;
	bool has_inner;
};

struct build {
	const struct symbol_build_options *options;
	struct symbol_build_result *result;
	struct input binary, debug;
	struct elf_symbols symbols;
	struct table_writer *writer;
	uint32_t flags;
	uint64_t kernel;
};

static void input_release(struct input *input)
{
	if (input->has_inner) {
		elf_file_release(&input->inner);
		mem_free(input->inner_memory);
	}
	if (input->is_open)
		elf_file_release(&input->file);
	io_close(input->fd);
}

static void note_problem(struct build *b, const struct error *why)
{
	if (!b->result->problem[0])
		memcpy(b->result->problem, why->message, sizeof(b->result->problem));
}

/* What is damaged or missing costs what it holds; -ENOMEM costs the build. */
static int go_without(struct build *b, int r, const struct error *why, struct error *err)
{
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0)
		note_problem(b, why);
	return 0;
}

/* ---- opening ---- */

static const char *kind_text(enum symbol_file_kind kind)
{
	static const char *const texts[SYMBOL_FILE_KINDS] = {"the binary",    "the debug file", "the shared debug file",
							     "the .dwp file", "the .dwo file",	"the list of symbols"};
	return texts[kind];
}

static int ask(struct build *b, enum symbol_file_kind kind, const char *build_id, const char *name, int *ret_fd,
	       struct error *err)
{
	struct symbol_file_request request = {.kind = kind};
	if (strlen(build_id) >= sizeof(request.build_id) || strlen(name) >= sizeof(request.name))
		return -ENOENT;
	memcpy(request.build_id, build_id, strlen(build_id) + 1);
	memcpy(request.name, name, strlen(name) + 1);
	int r = b->options->open_file(b->options->context, &request, ret_fd, err);
	uint64_t size;
	if (r >= 0 && io_file_size(*ret_fd, &size, kind_text(kind), NULL) == 0)
		b->result->input_bytes += size;
	return r;
}

static int check_build_id(struct build *b, struct elf_file *file, bool announced, struct error *err)
{
	char own[BUILD_ID_HEX_MAX];
	struct error why = {0};
	if (!b->options->build_id[0])
		return 0;
	int r = build_id_read(file, own, &why);
	if (r == -ENOENT && announced)
		return 0;
	if (r == -ENOENT)
		return error_set(err, -EINVAL, "%s: has no build-id, expected %s", file->name, b->options->build_id);
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	if (strcmp(own, b->options->build_id) != 0)
		return error_set(err, -EINVAL, "%s: has the build-id %s, expected %s", file->name, own, b->options->build_id);
	return 0;
}

/* -ENOENT when there is none. */
static int open_input(struct build *b, enum symbol_file_kind kind, const char *name, struct input *ret, struct error *err)
{
	int r = ask(b, kind, b->options->build_id, name, &ret->fd, err);
	if (r < 0) {
		ret->fd = -1;
		return r;
	}
	bool announced = r == SYMBOL_FILE_ANNOUNCED, compared = r == SYMBOL_FILE_COMPARED;
	r = elf_file_open(&ret->file, ret->fd, kind_text(kind), err);
	ret->is_open = r == 0;
	if (r == 0 && !compared)
		r = check_build_id(b, &ret->file, announced, err);
	if (r == 0)
		r = elf_file_load_sections(&ret->file, err);
	if (r < 0) {
		input_release(ret);
		*ret = (struct input){.fd = -1};
	}
	return r;
}

static bool has_symtab(const struct elf_file *file)
{
	const struct elf_section *section = elf_file_find_section_type(file, SHT_SYMTAB);
	return section && section->size > 0;
}

/* An extract is as good as the binary itself: it has its program headers, and what can be had from code and data only. */
static bool is_extract(const struct input *input)
{
	char mark[sizeof(EXTRACT_MARK) - 1];
	return pread(input->fd, mark, sizeof(mark), EXTRACT_MARK_OFFSET) == (ssize_t)sizeof(mark) &&
	       memcmp(mark, EXTRACT_MARK, sizeof(mark)) == 0;
}

/* So is the program itself, which some agents send for its debug information. */
static void take_whole_as_binary(struct build *b)
{
	if (b->binary.is_open || !b->debug.is_open || (!is_extract(&b->debug) && !file_has_code(&b->debug.file)))
		return;
	b->binary = b->debug;
	b->debug = (struct input){.fd = -1};
}

static int open_debug(struct build *b, struct error *err)
{
	char link[DEBUG_LINK_NAME_MAX] = "";
	uint32_t crc;
	if (b->binary.is_open && elf_file_has_dwarf(&b->binary.file))
		return -ENOENT;
	if (b->binary.is_open && elf_read_debuglink(&b->binary.file, link, &crc, NULL) < 0)
		link[0] = 0;
	return open_input(b, SYMBOL_FILE_DEBUG, link, &b->debug, err);
}

/* ---- where code is ---- */

static size_t executed_segments(const struct elf_file *file, bool offsets, struct symbol_table_segment *ret)
{
	struct elf_segment code[SYMBOL_TABLE_SEGMENTS_MAX];
	size_t count = 0, found = elf_file_find_code(file, code, SYMBOL_TABLE_SEGMENTS_MAX);
	for (size_t i = 0; i < found; i++) {
		const struct elf_segment *s = &code[i];
		uint64_t size = offsets ? s->file_size : s->memory_size;
		if (size == 0 || size > UINT64_MAX - s->offset || size > UINT64_MAX - s->address)
			continue;
		ret[count++] = (struct symbol_table_segment){offsets ? s->offset : 0, size, s->address};
	}
	return count;
}

/* Segments only: what sections say of a file without any is not where a linker put its segment. */
static const struct elf_segment *first_executed(const struct elf_file *file)
{
	for (size_t i = 0; i < file->segment_count; i++)
		if (elf_segment_is_executed(&file->segments[i]))
			return &file->segments[i];
	return NULL;
}

/*
 * Tools that split debug information off leave program headers behind whose addresses are right, but whose file offsets and
 * sizes are the binary's, 0, or neither (elfutils; binutils; binutils on files from gold), and nothing shows which. Parca Agent
 * leaves none of them, and sections whose sizes are 0.
 */
static int make_writer(struct build *b, struct error *err)
{
	struct symbol_table_segment segments[SYMBOL_TABLE_SEGMENTS_MAX];
	bool offsets = b->binary.is_open;
	const struct elf_file *file = offsets ? &b->binary.file : &b->debug.file;
	size_t count = executed_segments(file, offsets, segments);
	if (!offsets)
		b->flags |= SYMBOL_TABLE_NO_OFFSETS;
	return table_writer_new(segments, count, b->flags, &b->writer, err);
}

/* A binary that was relocated after its debug file was split off (prelink) lies elsewhere than that says. Code tells by how
 * much: segments of data may have been added since, in front of all others (patchelf). */
static uint64_t debug_bias(const struct build *b)
{
	const struct elf_segment *binary = b->binary.is_open ? first_executed(&b->binary.file) : NULL;
	const struct elf_segment *debug = b->debug.is_open ? first_executed(&b->debug.file) : NULL;
	return binary && debug ? binary->address - debug->address : 0;
}

/* ---- names ---- */

static int add_names(struct build *b, struct elf_file *file, uint32_t source, struct error *err)
{
	struct error why = {0};
	size_t before = b->symbols.count;
	int r = elf_symbols_add_file(&b->symbols, file, &why);
	if (b->symbols.count > before)
		b->result->sources |= source;
	return go_without(b, r, &why, err);
}

static int add_minidebug(struct build *b, struct input *input, struct error *err)
{
	struct error why = {0};
	int r = elf_open_minidebug(&input->file, &input->inner, &input->inner_memory, &why);
	if (r < 0)
		return r == -ENOENT ? 0 : go_without(b, r, &why, err);
	input->has_inner = true;
	return add_names(b, &input->inner, SYMBOL_SOURCE_MINIDEBUG, err);
}

static void find_kernel_base(struct build *b)
{
	for (size_t i = 0; i < b->symbols.count; i++)
		if (!strcmp(b->symbols.items[i].name, "_stext"))
			b->kernel = b->symbols.items[i].address;
}

/* *ret_ranges: to be freed with mem_free(). */
static int add_symbols(struct build *b, struct symbol_range **ret_ranges, size_t *ret_count, struct error *err)
{
	int r = 0;
	if (b->binary.is_open)
		r = add_names(b, &b->binary.file, has_symtab(&b->binary.file) ? SYMBOL_SOURCE_SYMTAB : SYMBOL_SOURCE_DYNSYM,
			      err);
	size_t own = b->symbols.count;
	if (r == 0 && b->debug.is_open)
		r = add_names(b, &b->debug.file, has_symtab(&b->debug.file) ? SYMBOL_SOURCE_SYMTAB : SYMBOL_SOURCE_DYNSYM, err);
	uint64_t bias = debug_bias(b);
	for (size_t i = own; r == 0 && bias && i < b->symbols.count; i++)
		b->symbols.items[i].address += bias;
	if (r == 0 && b->binary.is_open && !(b->result->sources & SYMBOL_SOURCE_SYMTAB))
		r = add_minidebug(b, &b->binary, err);
	if (r < 0)
		return r;
	find_kernel_base(b);
	struct symbol_range *ranges;
	size_t count;
	r = symbol_ranges_make(&b->symbols, table_writer_base(b->writer), &ranges, &count, err);
	if (r < 0)
		return r;
	r = table_writer_add_symbols(b->writer, ranges, count, err);
	if (r < 0) {
		mem_free(ranges);
		return r;
	}
	*ret_ranges = ranges;
	*ret_count = count;
	return 0;
}

/* Local symbols know the base name of their source file. It is given to code that has no lines. */
static int add_symbol_files(struct build *b, const struct symbol_range *ranges, size_t count, struct error *err)
{
	uint64_t base = table_writer_base(b->writer);
	for (size_t i = 0; i < count; i++) {
		if (!ranges[i].file || !ranges[i].file[0])
			continue;
		const struct code_row rows[] = {{.address = base + ranges[i].start, .file = 0},
						{.address = base + ranges[i].end, .file = CODE_NONE, .end = true}};
		struct code_unit unit = {
			.name = ranges[i].file, .rows = rows, .files = &ranges[i].file, .row_count = 2, .file_count = 1};
		int r = table_writer_add_unit(b->writer, &unit, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- lines ---- */

static int open_for_dwarf(void *context, enum dwarf_file_kind kind, const char *name, const char *build_id, int *ret_fd)
{
	static const enum symbol_file_kind kinds[] = {
		[DWARF_FILE_ALT] = SYMBOL_FILE_ALT, [DWARF_FILE_DWP] = SYMBOL_FILE_DWP, [DWARF_FILE_DWO] = SYMBOL_FILE_DWO};
	int r = ask(context, kinds[kind], build_id, name, ret_fd, NULL);
	return r > 0 ? 0 : r;
}

static int add_dwarf(struct build *b, struct input *input, uint64_t bias, struct error *err)
{
	struct error why = {0};
	struct dwarf_result result = {0};
	struct dwarf_options options = {.name = input->file.name, .open_file = open_for_dwarf, .context = b};
	table_writer_set_bias(b->writer, bias);
	int r = dwarf_read(input->fd, &options, table_writer_add_unit, b->writer, &result, &why);
	table_writer_set_bias(b->writer, 0);
	b->result->units += result.units;
	b->result->units_damaged += result.units_damaged;
	b->result->units_incomplete += result.units_incomplete;
	if (result.units > 0)
		b->result->sources |= SYMBOL_SOURCE_DWARF;
	if (result.problem[0]) {
		struct error problem = {0};
		error_set(&problem, -EBADMSG, "%s", result.problem);
		note_problem(b, &problem);
	}
	if (r == -ECANCELED)
		return error_set(err, r, "%s", why.message);
	return r == -ENOENT ? 0 : go_without(b, r, &why, err);
}

static int add_pclntab(struct build *b, struct input *input, struct error *err)
{
	struct error why = {0};
	struct pclntab_result result = {0};
	int r = pclntab_read(&input->file, table_writer_add_unit, b->writer, &result, &why);
	if (result.functions > 0)
		b->result->sources |= SYMBOL_SOURCE_PCLNTAB;
	return r == -ENOENT ? 0 : go_without(b, r, &why, err);
}

static int add_lines(struct build *b, struct error *err)
{
	int r = 0;
	if (b->binary.is_open && elf_file_has_dwarf(&b->binary.file))
		r = add_dwarf(b, &b->binary, 0, err);
	else if (b->debug.is_open && elf_file_has_dwarf(&b->debug.file))
		r = add_dwarf(b, &b->debug, debug_bias(b), err);
	if (r < 0 || (b->result->sources & SYMBOL_SOURCE_DWARF))
		return r;
	if (b->binary.is_open)
		r = add_pclntab(b, &b->binary, err);
	else if (b->debug.is_open && pclntab_find_section(&b->debug.file))
		r = add_pclntab(b, &b->debug, err);
	return r;
}

/* ---- all ---- */

static int finish(struct build *b, uint32_t machine, int out_fd, struct error *err)
{
	struct table_written written;
	if (b->result->units_incomplete > 0)
		table_writer_add_flags(b->writer, SYMBOL_TABLE_INCOMPLETE);
	int r = table_writer_finish(b->writer, b->options->build_id, b->result->sources, machine, b->kernel,
				    b->options->table_bytes_max, out_fd, &written, err);
	if (r < 0)
		return r;
	b->result->table_bytes = written.bytes;
	b->result->functions = written.functions ? written.functions : written.ranges; /* of symbols alone: a range each */
	b->result->ranges = written.ranges;
	b->result->rows = written.rows;
	return 0;
}

static int build_kallsyms(struct build *b, int out_fd, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	int r = ask(b, SYMBOL_FILE_KALLSYMS, b->options->build_id, "", &fd, err);
	if (r < 0)
		return r;
	b->flags |= SYMBOL_TABLE_KERNEL;
	r = table_writer_new(NULL, 0, b->flags, &b->writer, err);
	if (r == 0)
		r = kallsyms_text_add(fd, b->options->build_id, b->writer, err);
	b->result->sources |= SYMBOL_SOURCE_KALLSYMS;
	return r < 0 ? r : finish(b, 0, out_fd, err);
}

static int build_elf(struct build *b, int out_fd, struct error *err)
{
	struct error why = {0};
	int r = open_debug(b, &why);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0 && !b->binary.is_open)
		return error_set(err, r, "%s", why.message);
	if (r < 0 && r != -ENOENT)
		note_problem(b, &why);
	take_whole_as_binary(b);
	_cleanup_(mem_freep) struct symbol_range *ranges = NULL;
	size_t range_count = 0;
	r = make_writer(b, err);
	if (r == 0)
		r = add_symbols(b, &ranges, &range_count, err);
	if (r == 0)
		r = add_lines(b, err);
	if (r == 0)
		r = add_symbol_files(b, ranges, range_count, err);
	const struct elf_file *file = b->binary.is_open ? &b->binary.file : &b->debug.file;
	return r < 0 ? r : finish(b, file->machine, out_fd, err);
}

int symbol_build(const struct symbol_build_options *options, int out_fd, struct symbol_build_result *ret, struct error *err)
{
	struct build b = {.options = options, .result = ret, .binary = {.fd = -1}, .debug = {.fd = -1}};
	struct error why = {0};
	*ret = (struct symbol_build_result){0};
	elf_symbols_init(&b.symbols);
	int r = open_input(&b, SYMBOL_FILE_BINARY, "", &b.binary, &why);
	if (r < 0 && r != -ENOENT)
		note_problem(&b, &why);
	if (r == -ENOMEM) {
		r = error_nomem(err);
	} else {
		struct error none = {0};
		r = build_elf(&b, out_fd, &none);
		/* Of a kernel there is nothing but its list, as a rule. */
		if (r == -ENOENT)
			r = build_kallsyms(&b, out_fd, &none);
		if (r == -ENOENT && ret->problem[0])
			r = error_set(err, why.code ? why.code : r, "%s", ret->problem);
		else if (r < 0)
			error_set(err, r, "%s", none.message[0] ? none.message : "no file to build a symbol table from");
	}
	table_writer_free(b.writer);
	elf_symbols_release(&b.symbols);
	input_release(&b.binary);
	input_release(&b.debug);
	return r;
}
