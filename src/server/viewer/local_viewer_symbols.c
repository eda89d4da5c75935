/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, sources and code for who looks at an opened profile: POST .../symbolicate/v5, .../source/v1, .../asm/v1.
 *
 * The first is the API of Mozilla's symbol server (https://tecken.readthedocs.io/en/latest/symbolication.html) with the members
 * that samply added (inlines, file, line, function_size), the others are samply's (API.md in its repository). All take and give
 * JSON:
 *
 *   {"jobs": [{"memoryMap": [[NAME, DEBUG_ID]...], "stacks": [[[MODULE, OFFSET]...]...]}]}
 *       -> {"results": [{"stacks": [[{"frame", "module_offset", "module", "function", "function_offset", "function_size",
 *                                     "file", "line", "inlines": [{"function", "file", "line"}]}]], "found_modules": {}}]}
 *   {"debugName", "debugId", "moduleOffset", "file"} -> {"file", "source"}
 *   {"debugName", "debugId", "startAddress", "size", "continueUntilFunctionEnd"}
 *       -> {"startAddress", "size", "arch", "syntax": [NAME], "instructions": [[OFFSET, TEXT]...]}
 *
 * A module is a binary of the profile, as its libs name it. An offset is an address as the profile's frames have it: Wick
 * writes offsets in files, of the kernel from its _stext.
 *
 * Numbers of source and asm are texts, "0x1f". What cannot be had is an answer, {"error": TEXT} with status 200, because
 * viewers show the text of no other; what makes no sense is 400.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/json_tree.h"
#include "elf/demangle/demangle.h"
#include "elf/disassemble.h"
#include "format/firefox/firefox_ids.h"
#include "server/core/server_int.h"
#include "server/viewer/local_viewer_int.h"
#include "symbol/source_text.h"

#define FRAMES_MAX	 256u /* of one address */
#define JOB_MODULES_MAX	 65536u
#define HEX_SIZE	 24
#define INLINE_NAMES_MAX (64 * KIB)

/* ---- the profile's binaries ---- */

static int compare_modules(const void *left, const void *right)
{
	const struct local_viewer_module *a = left, *b = right;
	return strcmp(a->debug_id, b->debug_id) ?: strcmp(a->name, b->name);
}

static int set_module(const struct profile *profile, uint32_t mapping, struct local_viewer_module *ret)
{
	const struct profile_mapping *from = &profile->mappings[mapping];
	_cleanup_(buffer_release) struct buffer id = {.max = LOCAL_VIEWER_DEBUG_ID_MAX};
	*ret = (struct local_viewer_module){.build_id = profile_string(profile, from->build_id),
					    .path = profile_string(profile, from->file_name),
					    .start = from->start,
					    .limit = from->limit,
					    .offset = from->offset};
	ret->name = ret->path[0] ? text_base_name(ret->path) : ret->build_id; /* as Firefox Profiler's format has it */
	if (firefox_append_breakpad_id(bytes_of_string(ret->build_id), &id) < 0)
		return -ENOMEM;
	snprintf(ret->debug_id, sizeof(ret->debug_id), "%.*s", (int)id.len, id.data ? (const char *)id.data : "");
	return 0;
}

int local_viewer_list_modules(struct local_viewer *viewer, struct error *err)
{
	const struct profile *profile = viewer->profile;
	struct local_viewer_module *modules = mem_zalloc_array(profile->mapping_count + 1, sizeof(*modules));
	viewer->modules = modules;
	if (!modules)
		return error_nomem(err);
	for (uint32_t i = 1; i < profile->mapping_count; i++)
		if (set_module(profile, i, &modules[i - 1]) < 0)
			return error_nomem(err);
	for (size_t i = 1; i < profile->location_count; i++)
		if (profile->locations[i].mapping && profile->locations[i].frame_type == PROFILE_FRAME_KERNEL)
			modules[profile->locations[i].mapping - 1].kernel = true;
	viewer->module_count = profile->mapping_count ? profile->mapping_count - 1 : 0;
	qsort(modules, viewer->module_count, sizeof(*modules), compare_modules);
	return 0;
}

/* NULL if the profile has none of this name and id. */
static const struct local_viewer_module *find_module(const struct local_viewer *viewer, const char *name, const char *debug_id)
{
	struct local_viewer_module key = {.name = name};
	if (!name || !debug_id || strlen(debug_id) >= sizeof(key.debug_id))
		return NULL;
	memcpy(key.debug_id, debug_id, strlen(debug_id) + 1);
	return bsearch(&key, viewer->modules, viewer->module_count, sizeof(key), compare_modules);
}

static bool to_address(const struct symbol_view *view, const struct local_viewer_module *module, uint64_t offset, uint64_t *ret)
{
	const struct symbol_place place = {.file_offset = offset,
					   .start = module->start,
					   .limit = module->limit,
					   .offset = module->offset,
					   .kernel = module->kernel};
	return symbol_view_address(view, &place, ret);
}

static int open_view(const struct local_viewer *viewer, const struct local_viewer_module *module, const atomic_bool *cancel,
		     struct symbol_view **ret, struct error *err)
{
	struct symbolizer_want want = {.wait_ns = -1, .cancel = cancel};
	return symbolizer_view(viewer->symbolizer, module->build_id, module->path, &want, ret, err);
}

/* ---- questions and answers ---- */

static const char *hex(uint64_t value, char out[static HEX_SIZE])
{
	snprintf(out, HEX_SIZE, "0x%" PRIx64, value);
	return out;
}

static void put_hex(struct json_writer *json, const char *key, uint64_t value)
{
	char text[HEX_SIZE];
	json_member_cstring(json, key, hex(value, text));
}

/* As people wrote it; lives in `text`. */
static struct bytes readable(const char *name, struct buffer *text)
{
	buffer_clear(text);
	return demangle_symbol(name, text) > 0 ? buffer_bytes(text) : bytes_of_string(name);
}

static int read_question(struct bytes text, struct json_tree **ret, struct error *err)
{
	struct error why = {0};
	int r = json_tree_read(text, 0, ret, &why);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0)
		return error_set(err, -EBADMSG, "malformed request: %s", why.message);
	return json_node_is(json_tree_root(*ret), JSON_NODE_OBJECT)
		       ? 0
		       : error_set(err, -EBADMSG, "the request is not a JSON object");
}

/* NULL = no text, or one that would be another for who stops at a NUL. */
static const char *text_of(const struct json_node *node)
{
	const char *text = json_node_text(node);
	return text && strlen(text) == json_node_bytes(node).len ? text : NULL;
}

/* "0x1f" */
static int read_hex(const struct json_node *question, const char *name, uint64_t *ret, struct error *err)
{
	const char *text = text_of(json_node_get(question, name));
	char *end;
	if (!text || strncmp(text, "0x", 2) != 0 || strspn(text + 2, "0123456789abcdefABCDEF") == 0 || strlen(text) > 18)
		return error_set(err, -EBADMSG, "'%s' is not a string such as \"0x1f\"", name);
	*ret = strtoull(text, &end, 16);
	return *end ? error_set(err, -EBADMSG, "'%s' is not a string such as \"0x1f\"", name) : 0;
}

static int read_module(const struct local_viewer *viewer, const struct json_node *question,
		       const struct local_viewer_module **ret, struct error *err)
{
	const char *name = text_of(json_node_get(question, "debugName")), *id = text_of(json_node_get(question, "debugId"));
	if (!name || !id)
		return error_set(err, -EBADMSG, "'debugName' and 'debugId' must be strings");
	*ret = find_module(viewer, name, id);
	return *ret ? 0 : error_set(err, -ENOENT, "the profile has no binary '%.200s' with the id '%.64s'", name, id);
}

/* ---- names ---- */

struct job_module {
	const char *name, *id; /* as asked for */
	const struct local_viewer_module *module;
	struct symbol_view *view;
	bool asked;
};

struct job {
	const struct local_viewer *viewer;
	const atomic_bool *cancel;
	struct job_module *modules;
	size_t module_count;
	struct json_writer *json;
	struct buffer text;
};

static void job_release(struct job *job)
{
	for (size_t i = 0; i < job->module_count; i++)
		symbol_view_free(job->modules[i].view);
	mem_free(job->modules);
	buffer_release(&job->text);
}

static int read_memory_map(struct job *job, const struct json_node *map, struct error *err)
{
	size_t count = json_node_count(map);
	if (!json_node_is(map, JSON_NODE_ARRAY))
		return error_set(err, -EBADMSG, "'memoryMap' must be an array");
	if (count > JOB_MODULES_MAX)
		return error_set(err, -EBADMSG, "'memoryMap' has more than %u entries", JOB_MODULES_MAX);
	job->modules = mem_zalloc_array(count + 1, sizeof(*job->modules));
	if (!job->modules)
		return error_nomem(err);
	for (; job->module_count < count; job->module_count++) {
		struct job_module *to = &job->modules[job->module_count];
		const struct json_node *from = json_node_at(map, job->module_count);
		to->name = text_of(json_node_at(from, 0));
		to->id = text_of(json_node_at(from, 1));
		if (!to->name || !to->id)
			return error_set(err, -EBADMSG, "entries of 'memoryMap' must be a name and an id");
		to->module = find_module(job->viewer, to->name, to->id);
	}
	return 0;
}

/* The module's table, looked for when it is first asked for. NULL = there is none. */
static const struct symbol_view *view_of(struct job *job, struct job_module *module)
{
	if (!module->asked && module->module)
		(void)open_view(job->viewer, module->module, job->cancel, &module->view, NULL);
	module->asked = true;
	return module->view;
}

static void put_place(struct job *job, const char *file, uint32_t line)
{
	if (file[0])
		json_member_cstring(job->json, "file", file);
	if (line)
		json_member_uint(job->json, "line", line);
}

/* The function that has the code, then what is inlined there, innermost first. */
static void put_symbol(struct job *job, const struct symbol_view *view, uint64_t address)
{
	struct symbol_frame frames[FRAMES_MAX];
	uint64_t start, end;
	size_t count = symbol_view_frames(view, address, frames, FRAMES_MAX);
	if (count == 0)
		return;
	bool bounded = symbol_view_bounds(view, address, &start, &end);
	json_member_bytes(job->json, "function", readable(frames[count - 1].name, &job->text));
	put_hex(job->json, "function_offset", bounded ? address - start : 0);
	if (bounded)
		put_hex(job->json, "function_size", end - start);
	put_place(job, frames[count - 1].file, frames[count - 1].line);
	if (count == 1)
		return;
	json_member_array(job->json, "inlines");
	for (size_t i = 0; i + 1 < count; i++) {
		json_begin_object(job->json);
		json_member_bytes(job->json, "function", readable(frames[i].name, &job->text));
		put_place(job, frames[i].file, frames[i].line);
		json_end_object(job->json);
	}
	json_end_array(job->json);
}

static int put_frame(struct job *job, size_t number, const struct json_node *frame, struct error *err)
{
	int64_t index, offset;
	uint64_t address;
	if (!json_node_integer(json_node_at(frame, 0), &index) || !json_node_integer(json_node_at(frame, 1), &offset) ||
	    offset < 0)
		return error_set(err, -EBADMSG, "frames of 'stacks' must be a module index and an offset");
	/* -1 means to Tecken that the module is not known. */
	struct job_module *module = index >= 0 && (uint64_t)index < job->module_count ? &job->modules[(size_t)index] : NULL;
	const struct symbol_view *view = module ? view_of(job, module) : NULL;
	json_begin_object(job->json);
	json_member_uint(job->json, "frame", number);
	put_hex(job->json, "module_offset", (uint64_t)offset);
	json_member_cstring(job->json, "module", module ? module->name : "");
	if (view && to_address(view, module->module, (uint64_t)offset, &address))
		put_symbol(job, view, address);
	json_end_object(job->json);
	if (cancel_requested(job->cancel))
		return error_set(err, -ECANCELED, "cancelled");
	int r = buffer_status(job->json->out);
	return r < 0 ? error_set(err, r, "the response is too large") : 0;
}

static int put_stacks(struct job *job, const struct json_node *stacks, struct error *err)
{
	int r = json_node_is(stacks, JSON_NODE_ARRAY) ? 0 : error_set(err, -EBADMSG, "'stacks' must be an array");
	json_member_array(job->json, "stacks");
	for (size_t i = 0; r == 0 && i < json_node_count(stacks); i++) {
		const struct json_node *stack = json_node_at(stacks, i);
		if (!json_node_is(stack, JSON_NODE_ARRAY))
			r = error_set(err, -EBADMSG, "'stacks' must be an array of arrays");
		json_begin_array(job->json);
		for (size_t k = 0; r == 0 && k < json_node_count(stack); k++)
			r = put_frame(job, k, json_node_at(stack, k), err);
		json_end_array(job->json);
	}
	json_end_array(job->json);
	return r;
}

/* null = nobody asked. */
static int put_found(struct job *job, struct error *err)
{
	json_member_object(job->json, "found_modules");
	for (size_t i = 0; i < job->module_count; i++) {
		const struct job_module *module = &job->modules[i];
		buffer_clear(&job->text);
		const char *key =
			buffer_printf(&job->text, "%s/%s", module->name, module->id) < 0 ? NULL : buffer_string(&job->text);
		if (!key)
			return error_set(err, -EBADMSG, "a name in 'memoryMap' is too long");
		if (module->asked)
			json_member_bool(job->json, key, module->view != NULL);
		else
			json_member_null(job->json, key);
	}
	json_end_object(job->json);
	return 0;
}

static int put_job(const struct local_viewer *viewer, const struct json_node *asked, const atomic_bool *cancel,
		   struct json_writer *json, struct error *err)
{
	_cleanup_(job_release) struct job job = {
		.viewer = viewer, .cancel = cancel, .json = json, .text.max = INLINE_NAMES_MAX};
	int r = read_memory_map(&job, json_node_get(asked, "memoryMap"), err);
	if (r < 0)
		return r;
	json_begin_object(json);
	r = put_stacks(&job, json_node_get(asked, "stacks"), err);
	if (r == 0)
		r = put_found(&job, err);
	if (r == 0)
		json_end_object(json);
	return r;
}

static int write_names(const struct local_viewer *viewer, const struct json_node *question, const atomic_bool *cancel,
		       struct buffer *out, struct error *err)
{
	const struct json_node *jobs = json_node_get(question, "jobs");
	int r = 0;
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_array(&json, "results");
	if (!jobs) /* one job may come by itself */
		r = put_job(viewer, question, cancel, &json, err);
	else if (!json_node_is(jobs, JSON_NODE_ARRAY))
		r = error_set(err, -EBADMSG, "'jobs' must be an array");
	for (size_t i = 0; r == 0 && i < json_node_count(jobs); i++)
		r = put_job(viewer, json_node_at(jobs, i), cancel, &json, err);
	if (r < 0)
		return r;
	json_end_array(&json);
	json_end_object(&json);
	return json_finish(&json, err);
}

/* ---- sources ---- */

static bool names_file(const struct symbol_view *view, uint64_t address, const char *file)
{
	struct symbol_frame frames[FRAMES_MAX];
	size_t count = symbol_view_frames(view, address, frames, FRAMES_MAX);
	for (size_t i = 0; i < count; i++)
		if (strcmp(frames[i].file, file) == 0 || strcmp(frames[i].start_file, file) == 0)
			return true;
	return false;
}

static int write_text(const char *file, struct bytes text, struct buffer *out, struct error *err)
{
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_null(&json, "symbolsLastModified");
	json_member_null(&json, "sourceLastModified");
	json_member_cstring(&json, "file", file);
	json_member_bytes(&json, "source", text);
	json_end_object(&json);
	return json_finish(&json, err);
}

static int write_source(const struct local_viewer *viewer, const struct json_node *question, const atomic_bool *cancel,
			struct buffer *out, struct error *err)
{
	_cleanup_(symbol_view_freep) struct symbol_view *view = NULL;
	_cleanup_(buffer_release) struct buffer text = {.max = SOURCE_TEXT_BYTES_MAX};
	const char *file = text_of(json_node_get(question, "file")), *from;
	const struct local_viewer_module *module = NULL;
	struct symbolizer_want want = {.wait_ns = -1, .cancel = cancel};
	uint64_t offset = 0, address;
	int r = file ? 0 : error_set(err, -EBADMSG, "'file' must be a string");
	if (r == 0)
		r = read_hex(question, "moduleOffset", &offset, err);
	if (r == 0)
		r = read_module(viewer, question, &module, err);
	if (r == 0)
		r = open_view(viewer, module, cancel, &view, err);
	if (r < 0)
		return r;
	if (!to_address(view, module, offset, &address) || !names_file(view, address, file))
		return error_set(err, -ENOENT, "the debug information of %.200s does not have this file at 0x%" PRIx64,
				 module->name, offset);
	r = source_text_read(viewer->symbolizer, module->build_id, module->path, file, &want, &text, &from, err);
	return r < 0 ? r : write_text(file, buffer_bytes(&text), out, err);
}

/* ---- code ---- */

/* As linked. */
struct code_range {
	uint64_t start, end;
};

/*
 * Viewers that do not know where a function begins ask from the first address that they have seen of it until its end: they
 * are given all of it. Nobody is given more than the function, for beyond it there may be no code.
 */
static int choose_range(const struct symbol_view *view, uint64_t address, uint64_t size, bool whole, struct code_range *ret,
			struct error *err)
{
	uint64_t start, end;
	bool bounded = symbol_view_bounds(view, address, &start, &end);
	if (!bounded && size == 0)
		return error_set(err, -ENOENT, "the binary's symbols do not give the function's address range");
	*ret = (struct code_range){address, size < UINT64_MAX - address ? address + size : UINT64_MAX};
	if (bounded && whole)
		*ret = (struct code_range){start, end};
	else if (bounded && (size == 0 || ret->end > end))
		ret->end = end;
	if (ret->end - ret->start > CODE_BYTES_MAX)
		ret->end = ret->start + CODE_BYTES_MAX;
	return 0;
}

static const char *arch_name(uint16_t machine)
{
	return machine == EM_X86_64    ? "x86_64"
	       : machine == EM_386     ? "i686"
	       : machine == EM_AARCH64 ? "aarch64"
	       : machine == EM_ARM     ? "arm"
				       : "";
}

static int write_instructions(const struct code_bytes *code, const struct disassembly *disassembly, uint64_t start,
			      struct buffer *out, struct error *err)
{
	bool intel = code->machine == EM_X86_64 || code->machine == EM_386;
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	put_hex(&json, "startAddress", start);
	put_hex(&json, "size", code->bytes.len);
	json_member_cstring(&json, "arch", arch_name(code->machine));
	json_member_array(&json, "syntax");
	json_cstring(&json, intel ? "Intel" : "ARM");
	json_end_array(&json);
	json_member_array(&json, "instructions");
	for (size_t i = 0; i < disassembly->count; i++) {
		json_begin_array(&json);
		json_uint(&json, disassembly->items[i].offset);
		json_cstring(&json, disassembly_text(disassembly, i));
		json_end_array(&json);
	}
	json_end_array(&json);
	json_end_object(&json);
	return json_finish(&json, err);
}

/* What branches within the function are written with. */
static int name_code(const struct symbol_view *view, uint64_t address, struct buffer *ret)
{
	struct symbol_frame frames[FRAMES_MAX];
	size_t count = symbol_view_frames(view, address, frames, FRAMES_MAX);
	if (count == 0)
		return 0;
	struct bytes name = readable(frames[count - 1].name, ret);
	return name.data == ret->data ? 0 : buffer_append(ret, name.data, name.len);
}

static int write_code(const struct local_viewer *viewer, const struct local_viewer_module *module,
		      const struct symbol_view *view, const struct code_range *range, uint64_t offset,
		      const atomic_bool *cancel, struct buffer *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer name = {.max = DEMANGLE_OUTPUT_MAX};
	struct code_bytes code;
	_cleanup_(disassembly_release) struct disassembly disassembly = {0};
	if (name_code(view, range->start, &name) < 0)
		return error_nomem(err);
	int r = code_bytes_read(viewer->symbolizer, module->build_id, module->path, range->start, range->end - range->start,
				cancel, &code, err);
	if (r < 0)
		return r;
	/* Targets of branches are in the same form as the viewer's instructions. */
	struct disassemble_options options = {
		.machine = code.machine, .address = offset, .name = name.len ? buffer_string(&name) : NULL};
	r = disassemble(buffer_bytes(&code.bytes), &options, &disassembly, err);
	if (r == 0)
		r = write_instructions(&code, &disassembly, offset, out, err);
	buffer_release(&code.bytes);
	return r;
}

static int write_asm(const struct local_viewer *viewer, const struct json_node *question, const atomic_bool *cancel,
		     struct buffer *out, struct error *err)
{
	_cleanup_(symbol_view_freep) struct symbol_view *view = NULL;
	const struct local_viewer_module *module = NULL;
	const struct json_node *whole = json_node_get(question, "continueUntilFunctionEnd");
	struct code_range range = {0};
	uint64_t offset = 0, size = 0, address = 0;
	int r = read_hex(question, "startAddress", &offset, err);
	if (r == 0)
		r = read_hex(question, "size", &size, err);
	if (r == 0)
		r = read_module(viewer, question, &module, err);
	if (r == 0 && module->kernel)
		return error_set(err, -ENOENT, "the kernel's code is not shown");
	if (r == 0)
		r = open_view(viewer, module, cancel, &view, err);
	if (r == 0 && !to_address(view, module, offset, &address))
		return error_set(err, -ENOENT, "%.200s has no code at 0x%" PRIx64, module->name, offset);
	if (r == 0)
		r = choose_range(view, address, size, json_node_is(whole, JSON_NODE_BOOLEAN) && whole->boolean, &range, err);
	/* As viewers count. A function may begin before the file does only if its symbol lies. */
	if (r == 0 && address > range.start && address - range.start > offset)
		return error_set(err, -ENOENT, "the binary's symbols do not give the function's address range");
	return r < 0 ? r : write_code(viewer, module, view, &range, offset - (address - range.start), cancel, out, err);
}

/* ---- requests ---- */

int local_viewer_answer(const struct local_viewer *viewer, enum local_viewer_question kind, struct bytes text,
			const atomic_bool *cancel, struct buffer *out, struct error *err)
{
	static int (*const write[])(const struct local_viewer *viewer, const struct json_node *question,
				    const atomic_bool *cancel, struct buffer *out, struct error *err) = {
		[LOCAL_VIEWER_NAMES] = write_names, [LOCAL_VIEWER_SOURCE] = write_source, [LOCAL_VIEWER_CODE] = write_asm};
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	int r = read_question(text, &tree, err);
	return r < 0 ? r : write[kind](viewer, json_tree_root(tree), cancel, out, err);
}

static void answer(void *context, const struct net_request *request, struct net_response *response,
		   enum local_viewer_question kind)
{
	struct error err = {0};
	int r = local_viewer_answer(context, kind, net_request_body(request), net_request_cancelled(request), &response->body,
				    &err);
	if (r < 0)
		respond_error(response, r == -EBADMSG ? 400 : r == -ENOMEM ? 503 : 200, err.message);
}

void local_viewer_symbolicate(void *context, const struct net_request *request, struct net_response *response)
{
	answer(context, request, response, LOCAL_VIEWER_NAMES);
}

void local_viewer_source(void *context, const struct net_request *request, struct net_response *response)
{
	answer(context, request, response, LOCAL_VIEWER_SOURCE);
}

void local_viewer_asm(void *context, const struct net_request *request, struct net_response *response)
{
	answer(context, request, response, LOCAL_VIEWER_CODE);
}
