/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function by line and by instruction: GET /api/v1/source and /api/v1/asm.
 *
 * Both ask the same question as /api/v1/query, look for a function in the answer, and sum. Text and code are then fetched from
 * wherever they are (symbol/source_text.h); when they are nowhere, the answer has the numbers without them, and says where was
 * looked.
 *
 * A function's instructions are those of the symbol that most of its samples are in: its own, or, where it is only ever
 * inlined, that of a function which it is inlined into. All samples in that code are shown, whichever of the functions inlined
 * there they belong to; each instruction says whose it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "elf/demangle/demangle.h"
#include "elf/disassemble.h"
#include "render/listing.h"
#include "server/api/api_int.h"
#include "symbol/source_text.h"

#define LISTING_BYTES_MAX (64 * MIB) /* debug information may claim names and lines without end */
#define FRAMES_MAX	  64u	     /* of one instruction */

struct listing_call {
	struct call *call;
	struct query_result result;
	struct listing_options options;
	bool text, colour, att;
};

static void listing_call_release(struct listing_call *l)
{
	query_result_release(&l->result);
}

static int read_parameters(struct listing_call *l, struct error *err)
{
	struct call *call = l->call;
	const char *format = call_parameter(call, "format", "json"), *syntax = call_parameter(call, "syntax", "intel");
	call->response->body.max = LISTING_BYTES_MAX;
	l->text = strcmp(format, "text") == 0;
	l->att = strcmp(syntax, "att") == 0;
	l->options.function = call_parameter(call, "function", NULL);
	if (!l->text && strcmp(format, "json") != 0)
		return error_set(err, -EINVAL, "parameter 'format': '%.40s' is not one of json, text", format);
	if (!l->att && strcmp(syntax, "intel") != 0)
		return error_set(err, -EINVAL, "parameter 'syntax': '%.40s' is not one of intel, att", syntax);
	if (!l->options.function)
		return error_set(err, -EINVAL, "parameter 'function' is missing: the name of a function of the flame graph");
	l->colour = call_flag(call, "colour");
	return call->failed;
}

/* The merged profile with names. Functions whose short names agree are one. */
static int ask(struct listing_call *l)
{
	struct call *call = l->call;
	call_text(call, "query");
	int r = call_run_text(call, &l->result);
	if (r < 0 || l->result.kind == QUERY_PROFILE)
		return r;
	return call_refuse(call, "the result of this query is a %s, not a profile: it has no functions to list",
			   query_kind_name(l->result.kind));
}

static void write_head(const struct listing_call *l, struct json_writer *json)
{
	call_write_range(l->call, json);
	json_member_bool(json, "partial", l->call->stats.read.partial);
	if (l->call->stats.read.saturated)
		json_member_bool(json, "saturated", true);
}

/* What a function was not found among may yet get names. */
static int explain_missing(const struct listing_call *l, int r, struct error *err)
{
	size_t pending = l->call->stats.symbols.pending;
	if (r != -ENOENT || pending == 0 || !err)
		return r;
	size_t len = strlen(err->message);
	snprintf(err->message + len, sizeof(err->message) - len, "; %zu addresses are not symbolized yet, try again", pending);
	return r;
}

static int fail_but(int r, struct error *why, struct error *err)
{
	return r == -ENOMEM || r == -ECANCELED ? error_set(err, r, "%s", why->message) : 0;
}

/* ---- where the code is ---- */

struct code_span {
	uint64_t start, end; /* as linked */
	uint64_t from, to;   /* in the file */
	int64_t total;
};

/* As symbolizer_resolve() finds it, so that the code shown is that which gave the function its name. */
static bool to_address(const struct symbol_view *view, const struct listing_binary *binary, uint64_t offset, uint64_t *ret)
{
	const struct symbol_place place = {.file_offset = offset,
					   .start = binary->start,
					   .limit = binary->limit,
					   .offset = binary->offset,
					   .kernel = binary->kernel};
	return symbol_view_address(view, &place, ret);
}

/* The symbol that has most of the function's samples. False when there are no symbols. */
static bool choose_span(const struct symbol_view *view, const struct listing_binary *binary, struct code_span *ret)
{
	struct code_span now = {0};
	for (size_t i = 0; i < binary->address_count; i++) {
		const struct listing_address *at = &binary->addresses[i];
		uint64_t address;
		if (!to_address(view, binary, at->offset, &address))
			continue;
		if (address < now.start || address >= now.end) {
			now = (struct code_span){0};
			if (!symbol_view_bounds(view, address, &now.start, &now.end))
				continue;
			now.from = at->offset - (address - now.start);
			now.to = now.from + (now.end - now.start);
		}
		now.total += at->total;
		if (now.total > ret->total || ret->end == 0)
			*ret = now;
	}
	return ret->end > ret->start;
}

/* ---- lines ---- */

static int write_source(const struct listing_call *l, const struct listing_source *source, struct error *err)
{
	struct net_response *response = l->call->response;
	if (l->text) {
		response->content_type = "text/plain; charset=utf-8";
		return listing_source_write_text(source, l->colour, &response->body, err);
	}
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	write_head(l, &json);
	listing_source_write_json(source, &json);
	json_end_object(&json);
	return json_finish(&json, err);
}

/* The last line of the function's code: lines that are never seen running belong to it, too. Looked for in the code that most
 * of its samples are in. */
static uint32_t find_end_line(const struct listing_call *l, const struct listing_lines *lines)
{
	_cleanup_(listing_addresses_release) struct listing_addresses addresses = {0};
	_cleanup_(symbol_view_freep) struct symbol_view *view = NULL;
	struct listing_options options = l->options;
	struct code_span span = {0};
	uint32_t last = 0;
	options.build_id = lines->build_id;
	if (listing_build_addresses(l->result.profile, &options, &addresses, NULL) < 0 ||
	    symbolizer_view(l->call->tenant->symbolizer, lines->build_id, lines->binary, NULL, &view, NULL) < 0 ||
	    !choose_span(view, &addresses.binaries[0], &span))
		return 0;
	for (uint64_t at = span.start; at < span.end && at - span.start < CODE_BYTES_MAX; at++) {
		struct symbol_frame frames[FRAMES_MAX];
		size_t count = symbol_view_frames(view, at, frames, FRAMES_MAX);
		for (size_t i = 0; i < count; i++)
			if (frames[i].line > last && frames[i].start_line == lines->start_line &&
			    strcmp(frames[i].file, lines->file) == 0)
				last = frames[i].line;
	}
	return last;
}

static int answer_source(struct call *call, struct error *err)
{
	_cleanup_(listing_call_release) struct listing_call l = {.call = call};
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	_cleanup_(buffer_release) struct buffer text = {.max = SOURCE_TEXT_BYTES_MAX};
	struct listing_source source = {.lines = &lines, .from = ""};
	struct error why = {0};
	bool whole = call_flag(call, "whole");
	int r = read_parameters(&l, err);
	/* Empty ones are choices: the file that is unknown, the binary without a build-id. */
	l.options.file = net_request_query(call->request, "file");
	l.options.build_id = net_request_query(call->request, "build_id");
	if (r == 0)
		r = ask(&l);
	if (r == 0)
		r = explain_missing(&l, listing_build_lines(l.result.profile, &l.options, &lines, err), err);
	if (r < 0)
		return r;
	struct symbolizer_want want = {.wait_ns = call->query.symbols_wait_ns, .cancel = call->query.cancel};
	r = source_text_read(call->tenant->symbolizer, lines.build_id, lines.binary, lines.file, &want, &text, &source.from,
			     &why);
	if (r < 0) {
		r = fail_but(r, &why, err);
		source.from = "";
		source.why = why.message;
	}
	source.text = buffer_bytes(&text);
	source.end_line = find_end_line(&l, &lines);
	source.first = whole ? 1 : 0;
	source.last = whole ? UINT32_MAX : 0;
	return r < 0 ? r : write_source(&l, &source, err);
}

/* ---- instructions ---- */

struct code_listing {
	const struct listing_call *l;
	struct listing_addresses function, range; /* the function's addresses; all those in the span */
	size_t binary;
	struct symbol_view *view;
	struct code_span span;
	struct code_bytes code;
	struct disassembly disassembly;
	struct arena arena; /* names */
	struct map64 names; /* number of a function in the table -> name */
	char symbol[512];
	struct listing_instruction *instructions;
	size_t count;
	char why[ERROR_MESSAGE_MAX];
};

static void code_listing_release(struct code_listing *c)
{
	listing_addresses_release(&c->function);
	listing_addresses_release(&c->range);
	symbol_view_free(c->view);
	buffer_release(&c->code.bytes);
	disassembly_release(&c->disassembly);
	arena_release(&c->arena);
	map64_release(&c->names);
	mem_free(c->instructions);
}

static int choose_binary(struct code_listing *c, const char *build_id, struct error *err)
{
	for (c->binary = 0; build_id && c->binary < c->function.binary_count; c->binary++)
		if (strcmp(c->function.binaries[c->binary].build_id, build_id) == 0)
			return 0;
	if (!build_id)
		return 0;
	const char *most = c->function.binaries[0].build_id;
	return error_set(err, -ENOENT, "'%.200s' has no samples in the binary %.129s; most are in %.129s", c->function.function,
			 build_id, most[0] ? most : "one without a build-id");
}

static void cut_span(struct code_listing *c)
{
	if (c->span.end - c->span.start <= CODE_BYTES_MAX)
		return;
	snprintf(c->why, sizeof(c->why), "only the first %llu of %" PRIu64 " bytes are shown",
		 (unsigned long long)CODE_BYTES_MAX, c->span.end - c->span.start);
	c->span.end = c->span.start + CODE_BYTES_MAX;
	c->span.to = c->span.from + CODE_BYTES_MAX;
}

/* A function's name as profiles have it; "" without memory. */
static const char *name_of(struct code_listing *c, const struct symbol_frame *frame)
{
	uint64_t known;
	if (map64_get(&c->names, frame->function, &known))
		return (const char *)(uintptr_t)known;
	_cleanup_(buffer_release) struct buffer text = {.max = DEMANGLE_OUTPUT_MAX}, short_text = {.max = DEMANGLE_OUTPUT_MAX};
	struct bytes name = bytes_of_string(frame->name);
	if (demangle_symbol(frame->name, &text) > 0)
		name = buffer_bytes(&text);
	if (c->l->call->short_names && demangle_short(text.len ? buffer_string(&text) : frame->name, &short_text) == 0)
		name = buffer_bytes(&short_text);
	char *copy = arena_strndup(&c->arena, (const char *)name.data, name.len);
	if (copy && map64_put(&c->names, frame->function, (uintptr_t)copy) == 0)
		return copy;
	return "";
}

static int describe(struct code_listing *c, struct listing_instruction *instruction)
{
	struct symbol_frame frames[FRAMES_MAX];
	size_t count = c->view ? symbol_view_frames(c->view, instruction->address, frames, FRAMES_MAX) : 0;
	instruction->file = "";
	if (count == 0)
		return 0;
	const char **functions = arena_alloc(&c->arena, count * sizeof(*functions));
	if (!functions)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		functions[i] = name_of(c, &frames[i]);
	instruction->file = frames[0].file; /* of the view */
	instruction->line = frames[0].line;
	instruction->functions = functions;
	instruction->function_count = count;
	return 0;
}

/* Sums of the addresses in [from, to), offsets in the file. */
static void add_samples(const struct code_listing *c, uint64_t from, uint64_t to, size_t *at,
			struct listing_instruction *instruction)
{
	const struct listing_binary *binary = c->range.binary_count ? &c->range.binaries[0] : NULL;
	for (; binary && *at < binary->address_count && binary->addresses[*at].offset < to; ++*at) {
		if (binary->addresses[*at].offset < from)
			continue;
		instruction->self += binary->addresses[*at].self;
		instruction->total += binary->addresses[*at].total;
	}
}

static int make_instructions(struct code_listing *c, struct error *err)
{
	size_t at = 0;
	c->instructions = mem_zalloc_array(c->disassembly.count, sizeof(*c->instructions));
	if (!c->instructions)
		return error_nomem(err);
	for (size_t i = 0; i < c->disassembly.count; i++) {
		const struct instruction *decoded = &c->disassembly.items[i];
		struct listing_instruction *instruction = &c->instructions[c->count++];
		uint64_t offset = c->span.from + decoded->offset;
		instruction->address = decoded->address;
		instruction->bytes = (struct bytes){c->code.bytes.data + decoded->offset, decoded->size};
		instruction->text = disassembly_text(&c->disassembly, i);
		add_samples(c, offset, offset + decoded->size, &at, instruction);
		if (describe(c, instruction) < 0)
			return error_nomem(err);
	}
	return 0;
}

/* Without code: an instruction for each address that has samples. */
static int make_addresses(struct code_listing *c, struct error *err)
{
	const struct listing_binary *binary = c->range.binary_count ? &c->range.binaries[0] : &c->function.binaries[c->binary];
	c->instructions = mem_zalloc_array(binary->address_count, sizeof(*c->instructions));
	if (!c->instructions)
		return error_nomem(err);
	for (size_t i = 0; i < binary->address_count; i++) {
		struct listing_instruction *instruction = &c->instructions[c->count++];
		instruction->address = binary->addresses[i].offset;
		if (c->view)
			to_address(c->view, binary, binary->addresses[i].offset, &instruction->address);
		instruction->text = "";
		instruction->self = binary->addresses[i].self;
		instruction->total = binary->addresses[i].total;
		if (describe(c, instruction) < 0)
			return error_nomem(err);
	}
	return 0;
}

/* The name of the code's symbol, if it is not the function's. */
static void find_symbol(struct code_listing *c)
{
	struct symbol_frame frames[FRAMES_MAX];
	size_t count = symbol_view_frames(c->view, c->span.start, frames, FRAMES_MAX);
	const char *name = count ? name_of(c, &frames[count - 1]) : "";
	if (strcmp(name, c->function.function) != 0)
		snprintf(c->symbol, sizeof(c->symbol), "%s", name);
}

static void keep_why(struct code_listing *c, const struct error *why)
{
	if (!c->why[0])
		snprintf(c->why, sizeof(c->why), "%s", why->message);
}

/* Code and its text. Positive when they cannot be had: c->why says so. */
static int read_instructions(struct code_listing *c, struct error *err)
{
	const struct listing_binary *binary = &c->function.binaries[c->binary];
	struct call *call = c->l->call;
	struct error why = {0};
	int r = code_bytes_read(call->tenant->symbolizer, binary->build_id, binary->path, c->span.start,
				c->span.end - c->span.start, call->query.cancel, &c->code, &why);
	if (r == 0) {
		struct disassemble_options options = {.machine = c->code.machine,
						      .att = c->l->att,
						      .address = c->code.address,
						      .name = c->symbol[0] ? c->symbol : c->function.function};
		r = disassemble(buffer_bytes(&c->code.bytes), &options, &c->disassembly, &why);
	}
	if (r == 0)
		return make_instructions(c, err);
	c->why[0] = '\0';
	keep_why(c, &why);
	c->code.from = "";
	r = fail_but(r, &why, err);
	return r < 0 ? r : 1;
}

static int find_code(struct code_listing *c, struct error *err)
{
	const struct listing_binary *binary = &c->function.binaries[c->binary];
	struct call *call = c->l->call;
	struct symbolizer_want want = {.wait_ns = call->query.symbols_wait_ns, .cancel = call->query.cancel};
	struct error why = {0};
	int r = symbolizer_view(call->tenant->symbolizer, binary->build_id, binary->path, &want, &c->view, &why);
	if (r < 0 || !choose_span(c->view, binary, &c->span)) {
		keep_why(c,
			 r < 0 ? &why
			       : &(struct error){.message = "the binary's symbols do not give the function's address range"});
		r = r < 0 ? fail_but(r, &why, err) : 0;
		return r < 0 ? r : make_addresses(c, err);
	}
	cut_span(c);
	find_symbol(c);
	struct listing_options options = c->l->options;
	options.build_id = binary->build_id;
	options.function = c->function.function;
	if (symbol_view_contents(c->view) && !c->why[0])
		snprintf(c->why, sizeof(c->why),
			 "%zu different files have this build-id: the function has this name in all of them, the code shown is "
			 "of one",
			 symbol_view_contents(c->view));
	r = listing_build_range(c->l->result.profile, &options, binary->path, c->span.from, c->span.to, &c->range, err);
	if (r == 0)
		r = read_instructions(c, err);
	return r > 0 ? make_addresses(c, err) : r;
}

static int write_code(const struct code_listing *c, struct error *err)
{
	const struct listing_binary *shown = c->range.binary_count ? &c->range.binaries[0] : &c->function.binaries[c->binary];
	struct listing_code code = {.addresses = &c->function,
				    .binary = c->binary,
				    .symbol = c->symbol,
				    .from = c->code.from ? c->code.from : "",
				    .why = c->why[0] ? c->why : NULL,
				    .self = shown->self,
				    .total = shown->total,
				    .instructions = c->instructions,
				    .count = c->count};
	struct net_response *response = c->l->call->response;
	if (c->l->text) {
		response->content_type = "text/plain; charset=utf-8";
		return listing_code_write_text(&code, c->l->colour, &response->body, err);
	}
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	write_head(c->l, &json);
	listing_code_write_json(&code, &json);
	json_end_object(&json);
	return json_finish(&json, err);
}

static int answer_asm(struct call *call, struct error *err)
{
	_cleanup_(listing_call_release) struct listing_call l = {.call = call};
	_cleanup_(code_listing_release) struct code_listing c = {.l = &l, .arena.max_bytes = 256 * 1024 * 1024};
	int r = read_parameters(&l, err);
	if (r == 0)
		r = ask(&l);
	if (r == 0)
		r = explain_missing(&l, listing_build_addresses(l.result.profile, &l.options, &c.function, err), err);
	if (r == 0)
		r = choose_binary(&c, net_request_query(call->request, "build_id"), err);
	if (r == 0)
		r = find_code(&c, err);
	return r < 0 ? r : write_code(&c, err);
}

CALL_HANDLER(api_source, answer_source)
CALL_HANDLER(api_asm, answer_asm)
