/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/oracle/truth.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#define SHADOW_READER
#include "tests/programs/unwind/shadow.h"

#define EXTRAS_MAX 8 /* functions of one chain that may be active without a node */

const char *const truth_outcome_names[TRUTH_OUTCOMES] = {"right",     "incomplete", "incomplete above main",
							 "unchecked", "WRONG",	    "incomplete and WRONG"};

/* ---- instrumented functions ---- */

/* Compilers split functions: what stands behind a dot in the name of a part does not count. */
static size_t base_length(const struct elf_symbol *symbol)
{
	const char *dot = memchr(symbol->name, '.', symbol->name_len);
	return dot ? (size_t)(dot - symbol->name) : symbol->name_len;
}

static void add_ranges(struct truth *truth, const struct space_binary *binary, const struct elf_symbol *of, uint64_t bias,
		       size_t function)
{
	size_t len = base_length(of);
	for (size_t i = 0; i < binary->symbols.count; i++) {
		const struct elf_symbol *symbol = &binary->symbols.items[i];
		if (symbol->is_unsized || base_length(symbol) != len || memcmp(symbol->name, of->name, len) != 0)
			continue;
		truth->ranges = must(mem_realloc_array(truth->ranges, truth->range_count + 1, sizeof(*truth->ranges)));
		truth->ranges[truth->range_count++] = (struct truth_range){
			.start = symbol->address + bias, .end = symbol->address + symbol->size + bias, .function = function};
	}
}

static void add_points(struct truth *truth, struct space_binary *binary, uint64_t bias)
{
	if (elf_file_load_sections(&binary->file, NULL) < 0)
		return;
	const struct elf_section *section = elf_file_find_section(&binary->file, "shadow_points");
	for (uint64_t at = 0; section && at + sizeof(struct shadow_point) <= section->size; at += sizeof(struct shadow_point)) {
		struct shadow_point point;
		memcpy(&point, binary->bytes + section->offset + at, sizeof(point));
		uint64_t address = section->address + at + (uint64_t)point.distance + bias, start;
		bool covered = false;
		const struct elf_symbol *symbol = space_symbol(truth->space, address, &start, &covered);
		if (!symbol || !covered)
			die("%s: no symbol covers the point of an instrumented function", binary->path);
		for (size_t i = 0; i < truth->range_count; i++)
			if (start == truth->ranges[i].start)
				die("%s: two points in %s", binary->path, symbol->name);
		truth->functions =
			must(mem_realloc_array(truth->functions, truth->function_count + 1, sizeof(*truth->functions)));
		truth->functions[truth->function_count] = (struct truth_function){
			.point = address, .name = symbol->name, .handler = point.flags & SHADOW_HANDLER};
		add_ranges(truth, binary, symbol, bias, truth->function_count++);
	}
}

void truth_read(struct truth *truth, const struct space *space)
{
	truth_release(truth);
	truth->space = space;
	for (size_t i = 0; i < space->mapping_count; i++) {
		struct space_binary *binary = space->mappings[i].binary;
		uint64_t address;
		bool first = binary != NULL;
		for (size_t j = 0; j < i; j++)
			first = first && space->mappings[j].binary != binary;
		if (first && elf_file_offset_to_address(&binary->file, space->mappings[i].offset, &address))
			add_points(truth, binary, space->mappings[i].start - address);
	}
}

void truth_release(struct truth *truth)
{
	mem_free(truth->functions);
	mem_free(truth->ranges);
	*truth = (struct truth){0};
}

static const struct truth_function *function_of(const struct truth *truth, uint64_t ip)
{
	for (size_t i = 0; i < truth->range_count; i++)
		if (ip >= truth->ranges[i].start && ip < truth->ranges[i].end)
			return &truth->functions[truth->ranges[i].function];
	return NULL;
}

bool truth_is_instrumented(const struct truth *truth, uint64_t ip)
{
	return function_of(truth, ip) != NULL;
}

/* ---- nodes ---- */

static bool read_node(const struct capture *capture, uint64_t address, struct shadow_node *ret)
{
	uint64_t offset = address - capture->regs[UNWIND_REGISTER_SP];
	if (address < capture->regs[UNWIND_REGISTER_SP] || offset > capture->stack_bytes ||
	    capture->stack_bytes - offset < sizeof(*ret))
		return false;
	memcpy(ret, capture->stack + offset, sizeof(*ret));
	return ret->magic1 == (SHADOW_MAGIC1 ^ address) && ret->magic2 == (SHADOW_MAGIC2 ^ address);
}

uint64_t truth_find_node(const struct capture *capture)
{
	uint64_t sp = capture->regs[UNWIND_REGISTER_SP];
	struct shadow_node node;
	for (uint64_t at = (sp + 7) & ~7ull; at < sp + capture->stack_bytes; at += 8)
		if (read_node(capture, at, &node))
			return at;
	return 0;
}

/* ---- chains ---- */

struct reduced {
	const struct truth_function *functions[UNWIND_FRAMES_MAX]; /* innermost first */
	size_t count;
	size_t extras[EXTRAS_MAX], extra_count; /* which of them may have no node */
	bool leaf_inside;			/* the innermost is where the thread is, or is being left by an exception */
};

static bool is_runtime(const struct truth *truth, uint64_t ip)
{
	uint64_t start;
	bool covered = false;
	const struct space_mapping *mapping = space_find(truth->space, ip);
	const struct elf_symbol *symbol = space_symbol(truth->space, ip, &start, &covered);
	if (mapping && mapping->binary && strstr(mapping->binary->path, "libgcc_s"))
		return true;
	return symbol && covered && (strncmp(symbol->name, "_Unwind_", 8) == 0 || strncmp(symbol->name, "__cxa_", 6) == 0);
}

/* True if frames between the leaf and the innermost instrumented function are those of a C++ runtime that unwinds. */
static bool is_unwinding(const struct truth *truth, const struct chain *chain, size_t until)
{
	for (size_t i = 0; i < until; i++)
		if (is_runtime(truth, chain->frames[i] - (i > 0)))
			return true;
	return false;
}

/* The leaf itself may be there: at its mov (7 bytes), at its syscall (2), or behind it. */
static bool is_in_restorer(const struct space *space, uint64_t ip)
{
	return is_restorer(space, ip) || is_restorer(space, ip - 7) || is_restorer(space, ip - 9);
}

static void reduce(const struct truth *truth, const struct chain *chain, struct reduced *ret)
{
	bool exact = true, after_handler = false;
	ret->count = ret->extra_count = 0;
	for (size_t i = 0; i < chain->count; i++) {
		uint64_t ip = chain->frames[i];
		bool restorer = i == 0 ? is_in_restorer(truth->space, ip) : !exact && is_restorer(truth->space, ip);
		const struct truth_function *function = function_of(truth, exact || restorer ? ip : ip - 1);
		exact = restorer;
		if (!function)
			continue;
		bool inside = ret->count == 0 && (i == 0 || is_unwinding(truth, chain, i));
		if ((inside || after_handler) && ret->extra_count < EXTRAS_MAX)
			ret->extras[ret->extra_count++] = ret->count;
		after_handler = function->handler;
		ret->functions[ret->count++] = function;
	}
}

static bool is_left_out(const struct reduced *reduced, unsigned mask, size_t index)
{
	for (size_t i = 0; i < reduced->extra_count; i++)
		if (mask & (1u << i) && reduced->extras[i] == index)
			return true;
	return false;
}

static bool whole_matches(const struct reduced *reduced, unsigned mask, const struct shadow_node *node)
{
	uint64_t hash = SHADOW_SEED, depth = 0;
	for (size_t i = reduced->count; i-- > 0;) {
		if (is_left_out(reduced, mask, i))
			continue;
		hash = shadow_hash(hash, reduced->functions[i]->point);
		depth++;
	}
	return depth == node->depth + 1 && hash == node->hash;
}

/* As far as both the reduced chain and the nodes in the copy go. */
static bool start_matches(const struct reduced *reduced, unsigned mask, const struct capture *capture, uint64_t node_at)
{
	struct shadow_node node;
	for (size_t i = 0; i < reduced->count; i++) {
		if (is_left_out(reduced, mask, i))
			continue;
		if (node_at == 0)
			return false; /* more functions than there are */
		if (!read_node(capture, node_at, &node))
			return true;
		if (node.point != reduced->functions[i]->point)
			return false;
		node_at = node.parent;
	}
	return true;
}

/* ---- judging ---- */

/* A return address lies behind a call instruction. */
static bool follows_call(const struct space *space, uint64_t ip)
{
	size_t len;
	const uint8_t *code = space_code(space, ip - 8, &len);
	if (!code || len < 8)
		return false;
	if (code[3] == 0xe8)
		return true;
	for (unsigned size = 2; size <= 7; size++) /* ff /2 with its operand */
		if (code[8 - size] == 0xff && ((code[9 - size] >> 3) & 7) == 2)
			return true;
	return false;
}

/* The outermost code of a thread: the entry point of its program or dynamic linker, or code that ends it after a call. */
static bool is_root(const struct space *space, uint64_t ip)
{
	const struct space_mapping *mapping = space_find(space, ip);
	uint64_t address;
	size_t len;
	const uint8_t *code = space_code(space, ip, &len);
	/* By the byte before it: the call may be the last instruction of all code (musl's _dlstart()). */
	if (!mapping || !mapping->binary || !code ||
	    !elf_file_offset_to_address(&mapping->binary->file, ip - 1 - mapping->start + mapping->offset, &address))
		return false;
	address++;
	if (address >= mapping->binary->file.entry && address <= mapping->binary->file.entry + 64)
		return true;
	/* exit(2): mov $60,%eax or mov $60,%al, then syscall, close behind the return address. In the clone call's own frame,
	 * before the thread's function is called, it is a little further. */
	for (size_t i = 0; i + 8 < len && i < 40; i++)
		if ((code[i] == 0xb8 || code[i] == 0xb0) && code[i + 1] == 60)
			return true;
	return false;
}

static const char *frames_wrong(const struct truth *truth, const struct chain *chain)
{
	bool exact = true;
	for (size_t i = 0; i < chain->count; i++) {
		bool restorer = i == 0 ? is_in_restorer(truth->space, chain->frames[i])
				       : !exact && is_restorer(truth->space, chain->frames[i]);
		/* The unwinder of exceptions ends by going on in a landing pad, which lies behind no call. */
		bool landing = i > 0 && is_runtime(truth, chain->frames[i - 1] - (i > 1));
		if (!exact && !restorer && !landing && !follows_call(truth->space, chain->frames[i]))
			return "a return address behind no call";
		exact = restorer;
	}
	if (UNWIND_IS_COMPLETE(chain->result) && !is_root(truth->space, chain->frames[chain->count - 1]))
		return "does not end at the root";
	return NULL;
}

static bool matches(const struct reduced *reduced, const struct chain *chain, const struct capture *capture, uint64_t node_at)
{
	struct shadow_node node;
	if (!read_node(capture, node_at, &node))
		return true;
	for (unsigned mask = 0; mask < 1u << reduced->extra_count; mask++)
		if (UNWIND_IS_COMPLETE(chain->result) ? whole_matches(reduced, mask, &node)
						      : start_matches(reduced, mask, capture, node_at))
			return true;
	return false;
}

/*
 * The functions that end by loading all registers of a landing pad, one by one, and then its stack pointer and address. In
 * between, the file's own CFI is not what the registers are (readelf shows it; the stepper lists the same two functions).
 */
bool truth_installs_context(const struct truth *truth, uint64_t ip)
{
	uint64_t start;
	bool covered = false;
	const struct elf_symbol *symbol = space_symbol(truth->space, ip, &start, &covered);
	return symbol && covered &&
	       (strncmp(symbol->name, "_Unwind_Resume", 14) == 0 || strncmp(symbol->name, "_Unwind_RaiseException", 22) == 0);
}

enum truth_outcome truth_check(const struct truth *truth, const struct capture *capture, const struct chain *chain,
			       const char **ret_why, const char **ret_scenario)
{
	static struct reduced reduced;
	uint64_t node_at = truth_find_node(capture);
	bool complete = UNWIND_IS_COMPLETE(chain->result);
	struct shadow_node node;
	reduce(truth, chain, &reduced);
	*ret_scenario = reduced.count >= 2 ? reduced.functions[reduced.count - 2]->name : "";
	*ret_why = chain->count ? frames_wrong(truth, chain) : "no frames";
	if (!*ret_why && node_at != 0 && !matches(&reduced, chain, capture, node_at))
		*ret_why = "instrumented functions differ from the nodes";
	/* Without a node in a whole copy nothing is active, but for a handler on a stack of its own, in its prologue or on its
	 * way back: the nodes of what it interrupted are on the other stack. */
	if (!*ret_why && node_at == 0 && complete && reduced.count > reduced.extra_count) {
		if (capture->stack_bytes < CAPTURE_STACK_BYTES && !capture->is_cut && reduced.extra_count == 0 &&
		    !reduced.functions[0]->handler && !is_in_restorer(truth->space, chain->frames[0]))
			*ret_why = "instrumented functions without a node";
		else
			return TRUTH_UNCHECKED;
	}
	if (*ret_why && chain->count && truth_installs_context(truth, chain->frames[0]))
		return TRUTH_UNCHECKED;
	if (*ret_why)
		return complete && !chain->by_frames ? TRUTH_WRONG : TRUTH_WRONG_FLAGGED;
	if (complete)
		return TRUTH_RIGHT;
	bool whole = false;
	for (unsigned mask = 0; read_node(capture, node_at, &node) && mask < 1u << reduced.extra_count; mask++)
		whole = whole || whole_matches(&reduced, mask, &node);
	return whole ? TRUTH_MAIN : TRUTH_INCOMPLETE;
}
