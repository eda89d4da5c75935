// SPDX-License-Identifier: Apache-2.0
/*
 * Rules for Go's own code, by its table of functions (pclntab.c), which stripped programs have as well. Each function has a
 * table of how far the stack pointer is below the return address at each instruction: the same numbers that Go's linker makes
 * .debug_frame from, which therefore is not asked. Go saves rbp on its own terms and says where in neither, and keeps no other
 * register over a call.
 *
 * That table knows nothing of functions that go over to another stack. In those, which are few and written by hand
 * (src/runtime/asm_amd64.s and sys_linux_amd64.s of Go 1.12 to 1.26), the instructions that do it are looked for:
 *
 *   systemstack          mov sched(g0), %rsp ... call *%rdi ... g.m, m.curg, mov sched(curg), %rsp    UNWIND_CFA_GO_SYSTEM
 *   mcall                mov sched(g0), %rsp ...                                                      a root
 *   morestack            mov sched(g0), %rsp ... call newstack                                        UNWIND_CFA_GO_GROW
 *   asmcgocall           mov sched(g0), %rsp; [g and depth are saved] ... mov %rsi, %rsp              GO_SYSTEM, then GO_CGO
 *    on g0 already       sub $16, %rsp; and $-16, %rsp; [rsp is saved] ... mov %rsi, %rsp             what was saved
 *   cgocallback          mov %rsp, sched(g0) ... mov %rdi, %rsp ... mov sched(g0), %rsp; ...          UNWIND_CFA_GO_CALLBACK
 *   gogo                 mov sched(g), %rsp; ... jmp                                                  a root
 *   nanotime1 and others [CFA in m.vdsoSP] ... mov sched(g0), %rsp; call the vdso; mov %r12, %rsp     *(rbx + vdsoSP)
 *   schedule             does not return to the goroutine that was left                               UNWIND_RULE_LEAVES
 *   crosscall2           saves rbp and rbx of C                                                       where these are
 *   goexit, mstart, rt0_go                                                                            roots
 *
 * The instructions themselves say where g.m, m.curg and the rest are, which differs by version. What Go's own profiler takes
 * for a root (traceback.go: functions at the top of a stack, and those that set the stack pointer) is one here. Where the
 * instructions are others than these, the rule is that there is none that is supported.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "elf/cfi_int.h"
#include "elf/code/x86_decode.h"
#include "elf/elf_file_int.h"
#include "elf/pclntab_int.h"

#define SEARCH_BYTES_MAX (16 * MIB)
#define POINTERS_MAX	 (4u * 1024 * 1024)
#define PADDING_MAX	 64u
#define CODE_BYTES_MAX	 1024u /* of a function that is gone through */
#define CODE_MAX	 256u  /* its instructions */
#define SPECIAL_MAX	 64u
#define PIECES_MAX	 6u
#define NEAR		 6u    /* instructions: that follow each other, but for others in between */
#define PLACE_MAX	 32760 /* that a rule has room for */
#define SIZE_MAX_BYTES	 (1 << 20)
#define RBX_DWARF	 3
#define RDX_DWARF	 1
#define NOWHERE		 SIZE_MAX

enum special {
	SPECIAL_SYSTEM,
	SPECIAL_MCALL,
	SPECIAL_GROW,
	SPECIAL_CGO,
	SPECIAL_CALLBACK,
	SPECIAL_GOGO,
	SPECIAL_VDSO,
	SPECIAL_SCHEDULE,
	SPECIAL_CROSS,
	SPECIAL_ROOT,
};

static const struct {
	const char *name;
	enum special special;
} names[] = {
	{"runtime.systemstack", SPECIAL_SYSTEM},
	{"runtime.mcall", SPECIAL_MCALL},
	{"runtime.morestack", SPECIAL_GROW},
	{"runtime.asmcgocall", SPECIAL_CGO},
	{"runtime.cgocallback", SPECIAL_CALLBACK},
	{"runtime.cgocallback_gofunc", SPECIAL_CALLBACK}, /* up to 1.15 */
	{"runtime.gogo", SPECIAL_GOGO},
	{"gogo", SPECIAL_GOGO}, /* from 1.17 on, which runtime.gogo jumps to */
	{"runtime.nanotime", SPECIAL_VDSO},
	{"runtime.nanotime1", SPECIAL_VDSO},
	{"runtime.walltime", SPECIAL_VDSO},
	{"runtime.walltime1", SPECIAL_VDSO},
	{"time.now", SPECIAL_VDSO},
	{"runtime.vgetrandom1", SPECIAL_VDSO},
	{"runtime.schedule", SPECIAL_SCHEDULE},
	{"crosscall2", SPECIAL_CROSS},
	{"runtime.goexit", SPECIAL_ROOT},
	{"runtime.mstart", SPECIAL_ROOT},
	{"runtime.rt0_go", SPECIAL_ROOT},
};

struct cfi_go {
	struct pclntab table;
	struct pclntab_steps steps; /* of the function that is run */
	struct {
		uint32_t function;
		enum special special;
	} special[SPECIAL_MAX];
	size_t special_count;
	bool has_places;
	int32_t thread;		/* g, from the thread pointer */
	int32_t m, curg, sched; /* in g, m, g */
};

struct code {
	uint64_t address;
	uint8_t bytes[CODE_BYTES_MAX];
	size_t count;
	struct x86_instruction list[CODE_MAX];
	uint16_t at[CODE_MAX + 1];
};

/* A part of a function with a rule of its own. */
struct piece {
	uint64_t from, to;
	union cfi_rule rule; /* UNWIND_CFA_NONE: that of the table of functions, but for what follows */
	uint8_t flags;	     /* UNWIND_RULE_LEAVES */
	int16_t fp_at;	     /* where rbp and rbx are from the CFA; 0 = not known */
	int32_t rbx_at;
};
struct pieces {
	struct piece list[PIECES_MAX];
	size_t count;
};

/* ---- the rule of the table of functions ---- */

/* From sp to the CFA; 0 = not known. */
static int32_t size_at(const struct cfi_go *go, uint64_t address)
{
	size_t at = sorted_count_up_to(go->steps.items, go->steps.count, end, address);
	if (at == go->steps.count || go->steps.items[at].value < 0 || go->steps.items[at].value > INT32_MAX - 8)
		return 0;
	return go->steps.items[at].value + 8;
}

static struct unwind_rule rule_of_size(const struct cfi_machine *machine, int32_t size)
{
	if (size == 0)
		return (struct unwind_rule){.cfa = UNWIND_CFA_NONE};
	return (struct unwind_rule){.cfa = UNWIND_CFA_REGISTER,
				    .cfa_register = machine->sp,
				    .ra = UNWIND_WHERE_CFA,
				    .fp = UNWIND_WHERE_LOST,
				    .offset = size,
				    .offset2 = UNWIND_RBX_LOST,
				    .ra_offset = -8};
}

/* ---- code that is gone through ---- */

static bool read_code(struct elf_file *file, uint64_t start, uint64_t end, struct code *ret)
{
	uint64_t offset;
	size_t len = end - start < CODE_BYTES_MAX ? (size_t)(end - start) : CODE_BYTES_MAX, at = 0;
	if (!elf_file_find_loaded(file, start, &offset) || elf_file_read(file, offset, ret->bytes, len, NULL) < 0)
		return false;
	ret->address = start;
	ret->count = 0;
	while (at < len && ret->count < CODE_MAX && x86_decode(ret->bytes + at, len - at, &ret->list[ret->count])) {
		ret->at[ret->count] = (uint16_t)at;
		at += ret->list[ret->count++].len;
	}
	ret->at[ret->count] = (uint16_t)at;
	return true;
}

static uint64_t start_of(const struct code *code, size_t i)
{
	return code->address + code->at[i];
}

static uint64_t end_of(const struct code *code, size_t i)
{
	return code->address + code->at[i + 1];
}

/* The first of a kind from `from` on; register and base X86_NONE stand for any. NOWHERE if there is none before `to`. */
static size_t find(const struct code *code, size_t from, size_t to, enum x86_kind kind, uint8_t reg, uint8_t base)
{
	to = to < code->count ? to : code->count;
	for (size_t i = from; i < to; i++) {
		const struct x86_instruction *in = &code->list[i];
		if (in->kind == kind && (reg == X86_NONE || in->reg == reg) && (base == X86_NONE || in->base == base))
			return i;
	}
	return NOWHERE;
}

/* The first that sets rsp from memory or another register. */
static size_t find_switch(const struct code *code, size_t from)
{
	for (size_t i = from; i < code->count; i++) {
		const struct x86_instruction *in = &code->list[i];
		if ((in->kind == X86_LOAD || in->kind == X86_MOVE) && in->reg == X86_RSP)
			return i;
	}
	return NOWHERE;
}

/* g of the running thread: mov %fs:offset, reg; or mov $offset, other; mov %fs:(other), reg. Returns how many instructions. */
static size_t match_thread(const struct code *code, size_t i, int32_t *ret_offset, uint8_t *ret_reg)
{
	const uint8_t *bytes = code->bytes + code->at[i];
	size_t steps = 1;
	if (i >= code->count)
		return 0;
	if (code->list[i].len == 7 && bytes[0] == 0x48 && bytes[1] == 0xc7 && (bytes[2] & 0xf8) == 0xc0 &&
	    i + 1 < code->count) {
		memcpy(ret_offset, bytes + 3, sizeof(*ret_offset));
		steps = 2;
		i++;
		if (code->bytes[code->at[i] + 3] % 8 != bytes[2] % 8 || code->list[i].len != 4)
			return 0;
		bytes = code->bytes + code->at[i];
	} else {
		*ret_offset = (int32_t)code->list[i].value;
		if (code->list[i].len != 9 || bytes[4] != 0x25)
			return 0;
	}
	if (bytes[0] != 0x64 || code->list[i].kind != X86_LOAD)
		return 0;
	*ret_reg = code->list[i].reg;
	return steps;
}

static bool is_place(int64_t value)
{
	return value >= 0 && value <= PLACE_MAX;
}

static size_t match_load(const struct code *code, size_t from, uint8_t reg, uint8_t base, int32_t *ret)
{
	size_t at = find(code, from, from + NEAR, X86_LOAD, reg, base);
	if (at == NOWHERE || !is_place(code->list[at].value))
		return NOWHERE;
	*ret = (int32_t)code->list[at].value;
	return at;
}

/* How systemstack() goes back: *ret_back is the instruction that sets rsp. */
static bool find_places(struct cfi_go *go, const struct code *code, size_t *ret_back)
{
	size_t there = find_switch(code, 0);
	size_t call = there == NOWHERE ? NOWHERE : find(code, there, code->count, X86_CALL_INDIRECT, X86_NONE, X86_NONE);
	uint8_t g;
	int32_t thread, m, curg, sched;
	size_t steps = call == NOWHERE || call + 1 >= code->count ? 0 : match_thread(code, call + 1, &thread, &g);
	if (steps == 0)
		return false;
	size_t at = match_load(code, call + 1 + steps, X86_NONE, g, &m);
	if (at != NOWHERE)
		at = match_load(code, at + 1, X86_NONE, code->list[at].reg, &curg);
	if (at != NOWHERE)
		at = match_load(code, at + 1, X86_RSP, code->list[at].reg, &sched);
	if (at == NOWHERE)
		return false;
	*ret_back = at;
	go->has_places = true;
	go->thread = thread;
	go->m = m;
	go->curg = curg;
	go->sched = sched;
	return true;
}

/* ---- functions that go over to another stack ---- */

static struct piece *add_piece(struct pieces *pieces, uint64_t from, uint64_t to)
{
	struct piece *piece = &pieces->list[pieces->count];
	if (from >= to || pieces->count == PIECES_MAX)
		return NULL;
	*piece = (struct piece){.from = from, .to = to};
	pieces->count++;
	return piece;
}

static void add_rule(struct pieces *pieces, uint64_t from, uint64_t to, struct unwind_rule rule)
{
	struct piece *piece = add_piece(pieces, from, to);
	if (piece)
		piece->rule.rule = rule;
}

static void add_kind(struct pieces *pieces, uint64_t from, uint64_t to, enum unwind_cfa cfa)
{
	add_rule(pieces, from, to, (struct unwind_rule){.cfa = (uint8_t)cfa});
}

/* A rule by what the thread's storage leads to; unsupported if it is not known how. */
static struct unwind_rule rule_of_places(const struct cfi_go *go, enum unwind_cfa cfa, int32_t of_m, int32_t size)
{
	if (!go->has_places || size <= 0 || size > PLACE_MAX)
		return (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
	return (struct unwind_rule){.cfa = (uint8_t)cfa,
				    .ra = UNWIND_WHERE_CFA,
				    .fp = UNWIND_WHERE_LOST,
				    .offset = go->thread,
				    .offset2 = go->sched | size << 16,
				    .ra_offset = (int16_t)go->m,
				    .fp_offset = (int16_t)of_m};
}

static void add_system(struct cfi_go *go, const struct code *code, uint64_t end, struct pieces *pieces)
{
	size_t there = find_switch(code, 0), back;
	if (there == NOWHERE)
		return;
	int32_t size = size_at(go, start_of(code, there));
	if (find_places(go, code, &back))
		add_rule(pieces, end_of(code, there), end_of(code, back),
			 rule_of_places(go, UNWIND_CFA_GO_SYSTEM, go->curg, size));
	else
		add_kind(pieces, end_of(code, there), end, UNWIND_CFA_UNSUPPORTED);
}

/* mcall(), morestack() and gogo() do not come back to where rsp was set. */
static void add_rest(const struct cfi_go *go, const struct code *code, uint64_t end, enum special special,
		     struct pieces *pieces)
{
	size_t there = find_switch(code, 0);
	if (there == NOWHERE)
		return;
	struct unwind_rule rule = {.cfa = UNWIND_CFA_END};
	if (special == SPECIAL_GROW)
		rule = rule_of_places(go, UNWIND_CFA_GO_GROW, go->curg, size_at(go, start_of(code, there)));
	add_rule(pieces, end_of(code, there), end, rule);
}

/* The part of asmcgocall() that was on the thread's stack already; from: behind the other part. */
static void add_cgo_without_switch(const struct cfi_go *go, const struct code *code, size_t from, struct pieces *pieces)
{
	size_t room = find(code, from, code->count, X86_ADD, X86_RSP, X86_NONE);
	size_t saved = room == NOWHERE ? NOWHERE : find(code, room, room + NEAR, X86_STORE, X86_RDX, X86_RSP);
	size_t back = saved == NOWHERE ? NOWHERE : find_switch(code, saved);
	int32_t size = room == NOWHERE ? 0 : size_at(go, start_of(code, room));
	if (back == NOWHERE || size == 0)
		return;
	struct unwind_rule rule = {.cfa = UNWIND_CFA_REGISTER,
				   .cfa_register = RDX_DWARF,
				   .ra = UNWIND_WHERE_CFA,
				   .fp = UNWIND_WHERE_LOST,
				   .offset = size,
				   .offset2 = UNWIND_RBX_LOST,
				   .ra_offset = -8};
	add_rule(pieces, end_of(code, room), end_of(code, saved), rule);
	rule.cfa = UNWIND_CFA_DEREFERENCE;
	rule.cfa_register = 7; /* rsp */
	rule.offset = (int32_t)code->list[saved].value;
	rule.offset2 = size;
	add_rule(pieces, end_of(code, saved), end_of(code, back), rule);
}

static void add_cgo(const struct cfi_go *go, const struct code *code, struct pieces *pieces)
{
	size_t there = find(code, 0, code->count, X86_LOAD, X86_RSP, X86_NONE);
	size_t saved = there == NOWHERE ? NOWHERE : find(code, there, there + NEAR, X86_STORE, X86_NONE, X86_RSP);
	size_t depth = saved == NOWHERE ? NOWHERE : find(code, saved + 1, saved + NEAR, X86_STORE, X86_NONE, X86_RSP);
	size_t back = depth == NOWHERE ? NOWHERE : find_switch(code, depth);
	int32_t top, size = there == NOWHERE ? 0 : size_at(go, start_of(code, there));
	if (back == NOWHERE || size == 0)
		return;
	/* mov stack.hi(g), reg; sub rsp, reg */
	uint8_t g = code->list[saved].reg;
	if (match_load(code, saved, g, g, &top) == NOWHERE || !is_place(code->list[saved].value) ||
	    !is_place(code->list[depth].value)) {
		add_kind(pieces, end_of(code, there), end_of(code, back), UNWIND_CFA_UNSUPPORTED);
		return;
	}
	add_rule(pieces, end_of(code, there), end_of(code, depth), rule_of_places(go, UNWIND_CFA_GO_SYSTEM, go->curg, size));
	add_rule(pieces, end_of(code, depth), end_of(code, back),
		 (struct unwind_rule){.cfa = UNWIND_CFA_GO_CGO,
				      .ra = UNWIND_WHERE_CFA,
				      .fp = UNWIND_WHERE_LOST,
				      .offset = (int32_t)code->list[saved].value,
				      .offset2 = size,
				      .ra_offset = (int16_t)top,
				      .fp_offset = (int16_t)code->list[depth].value});
	add_cgo_without_switch(go, code, back + 1, pieces);
}

/* While g0.sched.sp is this frame's: it may be on either stack then. */
static void add_callback(const struct cfi_go *go, const struct code *code, struct pieces *pieces)
{
	size_t there = find_switch(code, 0), noted = NOWHERE;
	size_t back = there == NOWHERE ? NOWHERE : find_switch(code, there + 1);
	if (back == NOWHERE || code->list[back].kind != X86_LOAD)
		return;
	for (size_t i = 0; i < there; i++)
		if (code->list[i].kind == X86_STORE && code->list[i].reg == X86_RSP && code->list[i].base != X86_RSP)
			noted = i;
	size_t restored = find(code, back, back + NEAR, X86_STORE, X86_NONE, code->list[back].base), g0 = NOWHERE;
	for (size_t i = there; i < back; i++)
		if (code->list[i].kind == X86_LOAD && code->list[i].reg == code->list[back].base)
			g0 = i;
	if (noted == NOWHERE || restored == NOWHERE || g0 == NOWHERE || !is_place(code->list[g0].value)) {
		add_kind(pieces, end_of(code, there), end_of(code, back), UNWIND_CFA_UNSUPPORTED);
		return;
	}
	add_rule(pieces, end_of(code, noted), end_of(code, restored),
		 rule_of_places(go, UNWIND_CFA_GO_CALLBACK, (int32_t)code->list[g0].value, size_at(go, start_of(code, there))));
}

/* Calls of the vdso, for which the CFA is noted, up to 1.12 where the return address is: lea CFA, reg; mov reg, vdsoSP(%rbx).
 */
static bool find_noted(const struct cfi_go *go, const struct code *code, struct unwind_rule *rule, size_t *ret_there)
{
	int32_t above = 0;
	uint8_t reg = X86_NONE;
	*ret_there = NOWHERE;
	for (size_t i = 0; i < code->count && *ret_there == NOWHERE; i++) {
		const struct x86_instruction *in = &code->list[i];
		int64_t left = size_at(go, start_of(code, i)) - in->value;
		if (in->kind == X86_LEA && in->base == X86_RSP && (left == 0 || left == 8)) {
			reg = in->reg;
			above = (int32_t)left;
		} else if (in->kind == X86_STORE && in->base == X86_RBX && in->reg == reg && is_place(in->value)) {
			rule->cfa = UNWIND_CFA_DEREFERENCE;
			rule->offset = (int32_t)in->value;
			rule->offset2 = above;
		} else if ((in->kind == X86_OTHER && in->writes & 1u << X86_RSP) ||
			   (in->kind == X86_LOAD && in->reg == X86_RSP)) {
			*ret_there = i;
		} else if (in->kind == X86_LOAD && in->reg == reg) {
			reg = X86_NONE;
		}
	}
	return rule->cfa != UNWIND_CFA_NONE;
}

static void add_vdso(const struct cfi_go *go, const struct code *code, uint64_t end, struct pieces *pieces)
{
	struct unwind_rule rule = {.cfa = UNWIND_CFA_NONE};
	size_t there;
	bool is_noted = find_noted(go, code, &rule, &there);
	size_t back = there == NOWHERE ? NOWHERE : find(code, there + 1, code->count, X86_MOVE, X86_RSP, X86_NONE);
	size_t returns = back == NOWHERE ? NOWHERE : find(code, back, code->count, X86_RETURN, X86_NONE, X86_NONE);
	if (returns == NOWHERE)
		return;
	if (is_noted) {
		rule.cfa_register = RBX_DWARF;
		rule.ra = UNWIND_WHERE_CFA;
		rule.fp = UNWIND_WHERE_LOST;
		rule.ra_offset = -8;
	} else {
		rule.cfa = UNWIND_CFA_UNSUPPORTED;
	}
	add_rule(pieces, end_of(code, there), end_of(code, back), rule);
	/* Behind the return: what is done where there is no such call. */
	size_t other = find(code, returns, code->count, X86_MOVE, X86_RSP, X86_NONE);
	add_rule(pieces, end_of(code, returns), other == NOWHERE ? end : end_of(code, other), rule);
}

/* crosscall2() is called by C and keeps its registers, from behind the stores up to the first load. */
static void add_cross(const struct cfi_go *go, const struct code *code, struct pieces *pieces)
{
	size_t stores[2] = {find(code, 0, code->count, X86_STORE, X86_RBP, X86_RSP),
			    find(code, 0, code->count, X86_STORE, X86_RBX, X86_RSP)};
	size_t pushed = find(code, 0, 2, X86_PUSH, X86_RBP, X86_NONE);
	size_t last = find(code, 0, code->count, X86_LOAD, X86_RBX, X86_RSP);
	if (stores[1] == NOWHERE || last == NOWHERE || (pushed == NOWHERE && stores[0] == NOWHERE))
		return;
	size_t first = stores[0] != NOWHERE && stores[0] > stores[1] ? stores[0] : stores[1];
	int64_t rbx_at = code->list[stores[1]].value - size_at(go, start_of(code, stores[1])), fp_at = -16;
	if (pushed == NOWHERE)
		fp_at = code->list[stores[0]].value - size_at(go, start_of(code, stores[0]));
	if (rbx_at >= -8 || rbx_at < INT16_MIN || fp_at >= -8 || fp_at < INT16_MIN || last <= first)
		return;
	struct piece *piece = add_piece(pieces, end_of(code, first), start_of(code, last));
	if (piece) {
		piece->fp_at = (int16_t)fp_at;
		piece->rbx_at = (int32_t)rbx_at;
	}
}

static void find_pieces(struct cfi_go *go, const struct code *code, uint64_t end, enum special special, struct pieces *pieces)
{
	struct piece *piece;
	switch (special) {
	case SPECIAL_SYSTEM: add_system(go, code, end, pieces); break;
	case SPECIAL_MCALL:
	case SPECIAL_GROW:
	case SPECIAL_GOGO: add_rest(go, code, end, special, pieces); break;
	case SPECIAL_CGO: add_cgo(go, code, pieces); break;
	case SPECIAL_CALLBACK: add_callback(go, code, pieces); break;
	case SPECIAL_VDSO: add_vdso(go, code, end, pieces); break;
	case SPECIAL_CROSS: add_cross(go, code, pieces); break;
	case SPECIAL_ROOT: add_kind(pieces, code->address, end, UNWIND_CFA_END); break;
	case SPECIAL_SCHEDULE:
		piece = add_piece(pieces, code->address, end);
		if (piece)
			piece->flags = UNWIND_RULE_LEAVES;
		break;
	}
}

/* ---- rows ---- */

/* The rule at an address, and where another one may begin. */
static union cfi_rule rule_at(const struct cfi_reader *reader, const struct pieces *pieces, uint64_t address,
			      uint64_t *ret_next)
{
	const struct cfi_go *go = reader->go;
	const struct piece *of = NULL;
	uint64_t next = UINT64_MAX;
	size_t step = sorted_count_up_to(go->steps.items, go->steps.count, end, address);
	if (step < go->steps.count)
		next = go->steps.items[step].end;
	for (size_t i = 0; i < pieces->count; i++) {
		const struct piece *piece = &pieces->list[i];
		if (piece->from <= address && address < piece->to)
			of = piece;
		uint64_t border = address < piece->from ? piece->from : address < piece->to ? piece->to : UINT64_MAX;
		next = border < next ? border : next;
	}
	*ret_next = next;
	if (of && of->rule.rule.cfa != UNWIND_CFA_NONE)
		return of->rule;
	union cfi_rule rule = {.rule = rule_of_size(reader->machine, size_at(go, address))};
	if (!of || rule.rule.cfa == UNWIND_CFA_NONE)
		return rule;
	rule.rule.cfa |= of->flags;
	if (of->fp_at) {
		rule.rule.fp = UNWIND_WHERE_CFA;
		rule.rule.fp_offset = of->fp_at;
		rule.rule.offset2 = of->rbx_at;
	}
	return rule;
}

int cfi_go_run(struct cfi_reader *reader, const struct cfi_entry *entry, uint64_t end)
{
	struct cfi_go *go = reader->go;
	struct pclntab_function function;
	struct pieces pieces = {.count = 0};
	struct error problem = {0};
	struct code code;
	uint32_t index = entry->kind == CFI_GO_SPECIAL ? go->special[entry->place].function : entry->place;
	if (!pclntab_get_function(&go->table, index, &function))
		return 1;
	int r = pclntab_decode(&go->table, &function, function.sp_table, &go->steps, &problem);
	if (r < 0)
		return r == -ENOMEM ? error_nomem(reader->err) : 1;
	/* What pads a function is not executed: no rows for it. */
	struct pclntab_step *last = go->steps.count > 0 ? &go->steps.items[go->steps.count - 1] : NULL;
	if (last && function.end - last->end < PADDING_MAX)
		last->end = function.end;
	if (entry->kind == CFI_GO_SPECIAL && read_code(reader->file, entry->start, end, &code))
		find_pieces(go, &code, end, go->special[entry->place].special, &pieces);
	for (uint64_t at = entry->start, next; r == 0 && at < end; at = next) {
		union cfi_rule rule = rule_at(reader, &pieces, at, &next);
		r = cfi_emit(reader, at, &rule);
	}
	return r;
}

/* ---- the functions ---- */

static bool is_special(const struct cfi_go *go, const struct pclntab_function *function, enum special *ret)
{
	const char *name = pclntab_get_name(&go->table, function->name);
	if (!name || (strncmp(name, "runtime.", 8) != 0 && strncmp(name, "time.", 5) != 0 && strncmp(name, "gogo", 4) != 0 &&
		      strncmp(name, "crosscall2", 10) != 0))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*ret = names[i].special;
		if (strcmp(name, names[i].name) == 0)
			return true;
	}
	return false;
}

static int add_function(struct cfi_reader *reader, uint32_t index, struct cfi_entries *entries)
{
	struct cfi_go *go = reader->go;
	struct pclntab_function function;
	enum special special;
	uint64_t end;
	/* What has no table of the stack is no function of Go: C code, which the linker puts between them. */
	if (!pclntab_get_function(&go->table, index, &function) || function.sp_table == 0 ||
	    !cfi_is_code(reader, function.start, &end))
		return 0;
	end = function.end < end ? function.end : end;
	if (end - function.start > UINT32_MAX)
		return 0;
	struct cfi_entry entry = {
		.start = function.start, .len = (uint32_t)(end - function.start), .kind = CFI_GO, .place = index};
	if (go->special_count < SPECIAL_MAX && is_special(go, &function, &special)) {
		entry.kind = CFI_GO_SPECIAL;
		entry.place = (uint32_t)go->special_count;
		go->special[go->special_count].function = index;
		go->special[go->special_count++].special = special;
	}
	reader->stats.entries++;
	return cfi_entries_append(reader, entries, &entry);
}

/* From systemstack(), before any function is run. */
static void learn_places(struct cfi_reader *reader)
{
	struct cfi_go *go = reader->go;
	struct pclntab_function function;
	struct code code;
	size_t back;
	for (size_t i = 0; i < go->special_count && !go->has_places; i++)
		if (go->special[i].special == SPECIAL_SYSTEM &&
		    pclntab_get_function(&go->table, go->special[i].function, &function) &&
		    read_code(reader->file, function.start, function.end, &code))
			find_places(go, &code, &back);
}

int cfi_go_read(struct cfi_reader *reader, struct cfi_entries *entries)
{
	static const struct pclntab_limits limits = {
		.table_bytes = CFI_GO_BYTES_MAX, .search_bytes = SEARCH_BYTES_MAX, .pointers = POINTERS_MAX};
	struct error problem = {0};
	if (reader->machine->machine != EM_X86_64)
		return 0;
	struct cfi_go *go = reader->go = mem_zalloc(sizeof(*go));
	if (!go)
		return error_nomem(reader->err);
	int r = pclntab_open_within(reader->file, &limits, &go->table, &problem);
	if (r < 0) {
		reader->go = mem_free(go);
		return elf_pass_over(r, &problem, reader->err);
	}
	for (size_t i = 0; i < go->table.function_count && r == 0; i++)
		r = add_function(reader, (uint32_t)i, entries);
	learn_places(reader);
	return r;
}

void cfi_go_release(struct cfi_reader *reader)
{
	if (!reader->go)
		return;
	pclntab_close(&reader->go->table);
	mem_free(reader->go->steps.items);
	reader->go = mem_free(reader->go);
}
