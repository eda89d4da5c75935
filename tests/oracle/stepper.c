/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stepper PROGRAM [ARGUMENT...]: runs a program one instruction at a time, keeps its true call stack, and compares at every
 * instruction the rule that our unwind table gives with that truth.
 *
 * The truth is what the processor does. An instruction that is a call, moves the stack pointer down by eight and leaves there
 * the address behind itself has begun a frame: its CFA is that place plus eight and its return address lies in it, whatever the
 * callee does, also when it goes on with jumps (tail calls, the dynamic linker's resolver). A frame has ended when the stack
 * pointer is above its place: by ret, longjmp or an exception. At its begin the frame pointer is the caller's, and that value
 * has to be there again for the caller, so it is what a rule must find at each instruction until then.
 *
 *   stack pointer, going down                        frames[]
 *   ... caller | return address | callee ...         place = address of the return address; cfa = place + 8; rbp; call site
 *
 * When a frame is left other than by ret (longjmp, eh_return), the rules of the last instructions may speak of the frame that
 * it leaves for instead of the caller's: longjmp's do once all is in registers. What such a rule says is remembered as a
 * promise and judged by where the jump arrives: the stack pointer has to be the CFA there, the address the return address, and
 * the frame pointer, if the rule knows it, the caller's. Right ones are counted as leaving. A promise that no jump follows is
 * wrong.
 *
 * The program says with breakpoint instructions where sections begin and end (rax 1 and 2, rdi the name); the rest runs freely.
 * Some files' own CFI is wrong; `excused` lists those places, each with what is wrong in it. Nothing is excused otherwise.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/oracle/space.h"

#define FRAMES_MAX   4096
#define SECTION_MAX  64
#define REPORTS_MAX  40
#define SECTIONS_MAX 64
#define PROMISES_MAX 64

enum verdict {
	VERDICT_RIGHT,
	VERDICT_NONE,	     /* no CFI */
	VERDICT_UNSUPPORTED, /* a form that is not supported: the walk stops and says so */
	VERDICT_LOST,	     /* right, but the rule does not know the caller's frame pointer */
	VERDICT_DEAD,	     /* the frame pointer is wrong, but no caller's rule looks at it before another one gives it anew */
	VERDICT_LEAVING,     /* right for the frame that it leaves for, see above */
	VERDICT_EXCUSED,
	VERDICT_WRONG_CFA,
	VERDICT_WRONG_RA,
	VERDICT_WRONG_FP,
	VERDICTS,
};
static const char *const verdict_names[VERDICTS] = {
	"right",   "no CFI",  "unsupported", "frame pointer lost",   "dead frame pointer",
	"leaving", "excused", "wrong CFA",   "wrong return address", "wrong frame pointer"};

struct excuse {
	const char *file, *function; /* function: the symbol that covers the address; NULL = `code` tells */
	const char *code;	     /* with which the function begins, or (with `function`) the instruction */
	size_t code_bytes, bytes;    /* of code; of the function */
	bool fp_only;
	const char *why;
};
static const struct excuse excused[] = {
	{"libc.so.6", NULL, "\x53\x55\x48\x8d\x1a\x48\xf7\xdb\x48\x8b\x06\x4c\x8b\x17\x48\x8d", 16, 0xec, false,
	 "__mpn_addmul_1, __mpn_submul_1: push rbx and rbp without CFI; readelf shows an FDE without any instruction"},
	{"libgcc_s.so.1", "_Unwind_RaiseException", NULL, 0, 0, true,
	 "overwrites what it saved with the registers of the frame that catches, to load them at its end"},
	{"libgcc_s.so.1", "_Unwind_Resume", NULL, 0, 0, true, "likewise"},
	{"libgcc_s.so.1", "_Unwind_Resume_or_Rethrow", NULL, 0, 0, true, "likewise"},
};

struct frame {
	uint64_t place, rbp, ra;
};
struct report { /* of one place and verdict */
	uint64_t ip, count;
	enum verdict verdict;
	struct user_regs_struct regs;
	struct unwind_rule rule;
	struct frame truth;
};
struct promise { /* of a rule that is wrong for the caller: what holds after the jump if it speaks of another frame */
	enum verdict verdict; /* if that does not hold */
	bool is_whole;	      /* all that the rule speaks of could be read */
	uint64_t cfa, ra, fp;
	bool knows_fp;
	struct user_regs_struct regs;
	struct unwind_rule rule;
	struct frame truth;
};
struct stepper {
	pid_t pid;
	struct space space;
	struct user_regs_struct regs;
	struct frame frames[FRAMES_MAX];
	size_t depth;
	bool transfer; /* a frame has been left, and the jump to the other one is still to come */
	struct promise promises[PROMISES_MAX];
	size_t promise_count;
	char section[SECTION_MAX];
	uint64_t counts[VERDICTS], steps;
	struct report *reports;
	size_t report_count;
	uint8_t *seen; /* a bit per hash of an address: roughly how many distinct instructions there were */
	uint64_t distinct;
};

static bool read_word(const struct stepper *stepper, uint64_t address, uint64_t *ret)
{
	struct iovec here = {ret, sizeof(*ret)}, there = {(void *)address, sizeof(*ret)};
	return process_vm_readv(stepper->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof(*ret);
}

/* By DWARF number. */
static uint64_t reg(const struct user_regs_struct *regs, unsigned number)
{
	const uint64_t values[UNWIND_REGISTERS] = {regs->rax, regs->rdx, regs->rcx, regs->rbx, regs->rsi, regs->rdi,
						   regs->rbp, regs->rsp, regs->r8,  regs->r9,  regs->r10, regs->r11,
						   regs->r12, regs->r13, regs->r14, regs->r15};
	return number < UNWIND_REGISTERS ? values[number] : 0;
}

/* What bpf/unwind.h says that a rule means, written once more. */
static bool rule_cfa(const struct stepper *stepper, const struct unwind_rule *rule, uint64_t *ret)
{
	const struct user_regs_struct *regs = &stepper->regs;
	uint64_t base = reg(regs, rule->cfa_register % UNWIND_REGISTERS) + (uint64_t)(int64_t)rule->offset;
	switch (rule->cfa & ~UNWIND_RULE_ANALYSED) {
	case UNWIND_CFA_REGISTER: *ret = base; return true;
	case UNWIND_CFA_INDEXED: base += 8 * reg(regs, rule->cfa_register / UNWIND_REGISTERS); /* fall through */
	case UNWIND_CFA_DEREFERENCE:
		if (!read_word(stepper, base, ret))
			return false;
		*ret += (uint64_t)(int64_t)rule->offset2;
		return true;
	case UNWIND_CFA_PLT:
		*ret = regs->rsp + (uint64_t)(int64_t)rule->offset + ((int32_t)(regs->rip & 15) >= rule->offset2 ? 8 : 0);
		return true;
	default: return false;
	}
}

/* The return address; false: unknown. */
static bool rule_ra(const struct stepper *stepper, const struct unwind_rule *rule, uint64_t cfa, uint64_t *ret)
{
	const struct user_regs_struct *regs = &stepper->regs;
	switch (rule->ra) {
	case UNWIND_WHERE_CFA: return read_word(stepper, cfa + (uint64_t)(int64_t)rule->ra_offset, ret);
	case UNWIND_WHERE_FP: return read_word(stepper, regs->rbp + (uint64_t)(int64_t)rule->ra_offset, ret);
	case UNWIND_WHERE_REGISTER: *ret = reg(regs, (unsigned)rule->ra_offset); return true;
	default: return false;
	}
}

/* The caller's frame pointer; false: unknown, or it lies where nothing can be read. */
static bool rule_fp(const struct stepper *stepper, const struct unwind_rule *rule, uint64_t cfa, uint64_t *ret)
{
	uint64_t fp = stepper->regs.rbp;
	switch (rule->fp) {
	case UNWIND_WHERE_SAME: *ret = fp; return true;
	case UNWIND_WHERE_CFA: return read_word(stepper, cfa + (uint64_t)(int64_t)rule->fp_offset, ret);
	case UNWIND_WHERE_FP: return read_word(stepper, fp + (uint64_t)(int64_t)rule->fp_offset, ret);
	case UNWIND_WHERE_REGISTER: *ret = reg(&stepper->regs, (unsigned)rule->fp_offset); return true;
	default: return false;
	}
}

static bool knows_fp(const struct unwind_rule *rule)
{
	return rule->fp == UNWIND_WHERE_SAME || rule->fp == UNWIND_WHERE_CFA || rule->fp == UNWIND_WHERE_FP ||
	       rule->fp == UNWIND_WHERE_REGISTER;
}

static enum verdict check_ra(const struct stepper *stepper, const struct unwind_rule *rule, uint64_t cfa,
			     const struct frame *truth)
{
	uint64_t value = 0;
	if (rule->ra == UNWIND_WHERE_CFA)
		return cfa + (uint64_t)(int64_t)rule->ra_offset == truth->place ? VERDICT_RIGHT : VERDICT_WRONG_RA;
	if (rule->ra == UNWIND_WHERE_LOST)
		return VERDICT_UNSUPPORTED;
	return rule_ra(stepper, rule, cfa, &value) && value == truth->ra ? VERDICT_RIGHT : VERDICT_WRONG_RA;
}

static enum verdict check_fp(const struct stepper *stepper, const struct unwind_rule *rule, uint64_t cfa,
			     const struct frame *truth)
{
	uint64_t value;
	if (!knows_fp(rule))
		return VERDICT_LOST;
	return rule_fp(stepper, rule, cfa, &value) && value == truth->rbp ? VERDICT_RIGHT : VERDICT_WRONG_FP;
}

static enum verdict check_step(const struct stepper *stepper, const struct unwind_rule *rule, const struct frame *truth)
{
	uint64_t cfa;
	if (!rule || rule->cfa == UNWIND_CFA_NONE)
		return VERDICT_NONE;
	if (rule->cfa == UNWIND_CFA_UNSUPPORTED)
		return VERDICT_UNSUPPORTED;
	if (!rule_cfa(stepper, rule, &cfa) || cfa != truth->place + 8)
		return VERDICT_WRONG_CFA;
	enum verdict verdict = check_ra(stepper, rule, cfa, truth);
	return verdict == VERDICT_RIGHT ? check_fp(stepper, rule, cfa, truth) : verdict;
}

/* The value of the frame pointer does not matter if the callers' rules do not look at it until one finds it elsewhere. */
static bool is_dead(const struct stepper *stepper)
{
	for (size_t i = stepper->depth; i-- > 0;) {
		const struct unwind_rule *rule = space_rule(&stepper->space, stepper->frames[i].ra - 1);
		if (!rule || rule->cfa == UNWIND_CFA_NONE || rule->cfa_register == UNWIND_REGISTER_FP ||
		    rule->ra == UNWIND_WHERE_FP || rule->fp == UNWIND_WHERE_FP)
			return false;
		if (rule->fp != UNWIND_WHERE_SAME)
			return true;
	}
	return false;
}

/* The function begins with the excuse's code, at most its length before `code`. */
static bool begins_so(const struct excuse *excuse, const uint8_t *code, size_t before, size_t len)
{
	for (size_t back = 0; back < excuse->bytes && back <= before; back++)
		if (len + back >= excuse->code_bytes && memcmp(code - back, excuse->code, excuse->code_bytes) == 0)
			return true;
	return false;
}

static bool is_excused(const struct stepper *stepper, uint64_t ip, enum verdict verdict)
{
	const struct space_mapping *mapping = space_find(&stepper->space, ip);
	uint64_t start = 0;
	bool covered = false;
	size_t len;
	const uint8_t *code = space_code(&stepper->space, ip, &len);
	if (!mapping || !mapping->binary || !code)
		return false;
	const char *slash = strrchr(mapping->binary->path, '/');
	const char *file = slash ? slash + 1 : mapping->binary->path;
	const struct elf_symbol *symbol = space_symbol(&stepper->space, ip, &start, &covered);
	for (size_t i = 0; i < sizeof(excused) / sizeof(*excused); i++) {
		const struct excuse *excuse = &excused[i];
		if (strcmp(excuse->file, file) != 0 || (excuse->fp_only && verdict != VERDICT_WRONG_FP))
			continue;
		if (!excuse->function && begins_so(excuse, code, ip - mapping->start, len))
			return true;
		if (excuse->function && symbol && covered && strcmp(symbol->name, excuse->function) == 0 &&
		    (!excuse->code || (len >= excuse->code_bytes && memcmp(code, excuse->code, excuse->code_bytes) == 0)))
			return true;
	}
	return false;
}

static void report(struct stepper *stepper, enum verdict verdict, const struct user_regs_struct *regs,
		   const struct unwind_rule *rule, const struct frame *truth)
{
	for (size_t i = 0; i < stepper->report_count; i++)
		if (stepper->reports[i].ip == regs->rip && stepper->reports[i].verdict == verdict) {
			stepper->reports[i].count++;
			return;
		}
	stepper->reports = must(mem_realloc_array(stepper->reports, stepper->report_count + 1, sizeof(*stepper->reports)));
	stepper->reports[stepper->report_count++] = (struct report){
		.ip = regs->rip,
		.count = 1,
		.verdict = verdict,
		.regs = *regs,
		.rule = rule ? *rule : (struct unwind_rule){0},
		.truth = *truth,
	};
}

/* ---- promises ---- */

/* `arrived`: by a jump out of the frame; otherwise there is none, and no promise is kept. */
static void judge_promises(struct stepper *stepper, bool arrived)
{
	const struct user_regs_struct *regs = &stepper->regs;
	for (size_t i = 0; i < stepper->promise_count; i++) {
		const struct promise *promise = &stepper->promises[i];
		bool kept = arrived && promise->is_whole && promise->cfa == regs->rsp && promise->ra == regs->rip &&
			    (!promise->knows_fp || promise->fp == regs->rbp);
		enum verdict verdict = kept ? VERDICT_LEAVING : promise->verdict;
		stepper->counts[verdict]++;
		report(stepper, verdict, &promise->regs, &promise->rule, &promise->truth);
	}
	stepper->promise_count = 0;
}

static void promise(struct stepper *stepper, enum verdict verdict, const struct unwind_rule *rule, const struct frame *truth)
{
	if (stepper->promise_count == PROMISES_MAX)
		judge_promises(stepper, false);
	struct promise *new = &stepper->promises[stepper->promise_count++];
	*new = (struct promise){
		.verdict = verdict, .regs = stepper->regs, .rule = *rule, .truth = *truth, .knows_fp = knows_fp(rule)};
	new->is_whole = rule_cfa(stepper, rule, &new->cfa) && rule_ra(stepper, rule, new->cfa, &new->ra) &&
			(!new->knows_fp || rule_fp(stepper, rule, new->cfa, &new->fp));
}

static void check(struct stepper *stepper)
{
	uint64_t ip = stepper->regs.rip, hash = (ip * 0x9e3779b97f4a7c15ull) >> 40;
	if (stepper->depth == 0)
		return;
	stepper->steps++;
	if (!(stepper->seen[hash / 8] & (1u << (hash % 8)))) {
		stepper->seen[hash / 8] |= (uint8_t)(1u << (hash % 8));
		stepper->distinct++;
	}
	if (!space_find(&stepper->space, ip))
		space_read(&stepper->space, stepper->pid); /* dlopen */
	const struct unwind_rule *rule = space_rule(&stepper->space, ip);
	const struct frame *truth = &stepper->frames[stepper->depth - 1];
	enum verdict verdict = check_step(stepper, rule, truth);
	if (stepper->transfer && verdict == VERDICT_RIGHT)
		verdict = VERDICT_WRONG_CFA; /* the frame is no longer the one that runs */
	if (verdict == VERDICT_WRONG_FP && is_dead(stepper))
		verdict = VERDICT_DEAD;
	if (verdict >= VERDICT_WRONG_CFA && is_excused(stepper, ip, verdict))
		verdict = VERDICT_EXCUSED;
	if (verdict == VERDICT_WRONG_CFA || verdict == VERDICT_WRONG_RA) {
		promise(stepper, verdict, rule, truth);
		return;
	}
	stepper->counts[verdict]++;
	if (verdict != VERDICT_RIGHT)
		report(stepper, verdict, &stepper->regs, rule, truth);
}

/* ---- instructions ---- */

enum control { CONTROL_NONE, CONTROL_CALL, CONTROL_RET, CONTROL_JUMP };

/* What an instruction does to the flow; everything that is not one of these is NONE. */
static enum control decode(const uint8_t *code, size_t len)
{
	size_t i = 0;
	while (i < len &&
	       (code[i] == 0x66 || code[i] == 0xf2 || code[i] == 0xf3 || code[i] == 0x3e || (code[i] & 0xf0) == 0x40))
		i++;
	if (i + 1 >= len)
		return CONTROL_NONE;
	if (code[i] == 0xe8 || (code[i] == 0xff && ((code[i + 1] >> 3) & 7) == 2))
		return CONTROL_CALL;
	if (code[i] == 0xc3 || code[i] == 0xc2)
		return CONTROL_RET;
	if (code[i] == 0xff && ((code[i + 1] >> 3) & 7) == 4)
		return CONTROL_JUMP;
	return CONTROL_NONE;
}

/* The stack of frames after an instruction; `before` are the registers before it. */
static void follow(struct stepper *stepper, const struct user_regs_struct *before, enum control control)
{
	uint64_t sp = stepper->regs.rsp, ra = 0;
	if (stepper->transfer && (control == CONTROL_RET || control == CONTROL_JUMP)) {
		stepper->transfer = false;
		judge_promises(stepper, true);
	}
	if (control == CONTROL_CALL || control == CONTROL_RET)
		judge_promises(stepper, false);
	if (control == CONTROL_CALL) {
		if (sp != before->rsp - 8 || !read_word(stepper, sp, &ra) || ra <= before->rip || ra > before->rip + 15)
			die("%s: a call that is none", space_name(&stepper->space, before->rip));
		if (stepper->depth == FRAMES_MAX)
			die("more than %u frames", FRAMES_MAX);
		stepper->frames[stepper->depth++] = (struct frame){.place = sp, .rbp = before->rbp, .ra = ra};
		return;
	}
	size_t left = 0;
	for (; stepper->depth > 0 && sp > stepper->frames[stepper->depth - 1].place; left++)
		stepper->depth--;
	if (left > 0 && control != CONTROL_RET)
		stepper->transfer = true;
}

/* ---- running ---- */

static void get_registers(struct stepper *stepper)
{
	if (ptrace(PTRACE_GETREGS, stepper->pid, NULL, &stepper->regs) < 0)
		die("PTRACE_GETREGS: %s", strerror(errno));
}

/* True when the child stopped with SIGTRAP; false when it has exited. */
static bool resume(struct stepper *stepper, bool step)
{
	int status, signal = 0;
	for (;;) {
		if (ptrace(step ? PTRACE_SINGLESTEP : PTRACE_CONT, stepper->pid, NULL, (void *)(intptr_t)signal) < 0)
			die("ptrace: %s", strerror(errno));
		if (waitpid(stepper->pid, &status, 0) < 0)
			die("waitpid: %s", strerror(errno));
		if (WIFEXITED(status)) {
			if (WEXITSTATUS(status) != 0)
				die("the program exited with status %d", WEXITSTATUS(status));
			return false;
		}
		if (WIFSIGNALED(status))
			die("the program was killed by signal %d", WTERMSIG(status));
		if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP)
			return true;
		signal = WSTOPSIG(status);
	}
}

static void read_section(struct stepper *stepper)
{
	struct iovec here = {stepper->section, SECTION_MAX - 1}, there = {(void *)stepper->regs.rdi, SECTION_MAX - 1};
	memset(stepper->section, 0, SECTION_MAX);
	process_vm_readv(stepper->pid, &here, 1, &there, 1, 0);
}

/* From the breakpoint that begins a section to the one that ends it; false if the program exits. */
static bool step_section(struct stepper *stepper)
{
	stepper->depth = 0;
	stepper->transfer = false;
	space_read(&stepper->space, stepper->pid);
	for (;;) {
		struct user_regs_struct before = stepper->regs;
		size_t len;
		const uint8_t *code = space_code(&stepper->space, before.rip, &len);
		if (code && len > 0 && code[0] == 0xcc && before.rax == 2) {
			judge_promises(stepper, false);
			return resume(stepper, true);
		}
		enum control control = code ? decode(code, len < 16 ? len : 16) : CONTROL_NONE;
		if (!resume(stepper, true))
			return false;
		get_registers(stepper);
		follow(stepper, &before, control);
		check(stepper);
	}
}

static void run(struct stepper *stepper)
{
	uint64_t before = 0;
	while (resume(stepper, false)) {
		get_registers(stepper);
		if (stepper->regs.rax != 1)
			continue;
		read_section(stepper);
		if (!step_section(stepper))
			break;
		printf("%-20s %10" PRIu64 " steps\n", stepper->section, stepper->steps - before);
		before = stepper->steps;
	}
}

static void print_report(const struct stepper *stepper, const struct report *report)
{
	const struct unwind_rule *rule = &report->rule;
	const struct user_regs_struct *regs = &report->regs;
	printf("%s: %s, %" PRIu64 " times\n", verdict_names[report->verdict], space_name(&stepper->space, report->ip),
	       report->count);
	if (report->verdict < VERDICT_WRONG_CFA)
		return;
	printf("    rule: cfa %u register %u offset %d %d, ra %u %d, fp %u %d\n", rule->cfa, rule->cfa_register, rule->offset,
	       rule->offset2, rule->ra, rule->ra_offset, rule->fp, rule->fp_offset);
	printf("    truth: cfa rsp%+" PRId64 " rbp%+" PRId64 ", caller's rbp %#" PRIx64 ", return address %#" PRIx64 "\n",
	       (int64_t)(report->truth.place + 8 - regs->rsp), (int64_t)(report->truth.place + 8 - regs->rbp),
	       report->truth.rbp, report->truth.ra);
	printf("    rip %#llx rsp %#llx rbp %#llx rax %#llx rbx %#llx r10 %#llx r11 %#llx\n", regs->rip, regs->rsp, regs->rbp,
	       regs->rax, regs->rbx, regs->r10, regs->r11);
}

/* NONE, LOST and excused by function, the rest by place. */
static void print_reports(const struct stepper *stepper)
{
	unsigned shown = 0;
	for (size_t i = 0; i < stepper->report_count; i++) {
		struct report *report = &stepper->reports[i];
		if (report->count == 0)
			continue;
		uint64_t start, other;
		bool covered;
		bool whole = report->verdict < VERDICT_WRONG_CFA && space_symbol(&stepper->space, report->ip, &start, &covered);
		for (size_t j = i + 1; whole && j < stepper->report_count; j++)
			if (stepper->reports[j].verdict == report->verdict &&
			    space_symbol(&stepper->space, stepper->reports[j].ip, &other, &covered) && other == start) {
				report->count += stepper->reports[j].count;
				stepper->reports[j].count = 0;
			}
		if (report->verdict < VERDICT_WRONG_CFA || shown++ < REPORTS_MAX)
			print_report(stepper, report);
	}
}

int main(int argc, char **argv)
{
	static struct stepper stepper;
	if (argc < 2)
		die("usage: stepper PROGRAM [ARGUMENT...]");
	/* Both on one CPU: a switch of context is cheaper than waking another one. */
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
	stepper.seen = must(mem_zalloc((1u << 24) / 8));
	stepper.pid = fork();
	if (stepper.pid < 0)
		die("fork: %s", strerror(errno));
	if (stepper.pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[1], argv + 1);
		_exit(127);
	}
	int status;
	if (waitpid(stepper.pid, &status, 0) < 0 || !WIFSTOPPED(status))
		die("%s cannot be run", argv[1]);
	ptrace(PTRACE_SETOPTIONS, stepper.pid, NULL, PTRACE_O_EXITKILL);
	run(&stepper);
	print_reports(&stepper);
	uint64_t wrong =
		stepper.counts[VERDICT_WRONG_CFA] + stepper.counts[VERDICT_WRONG_RA] + stepper.counts[VERDICT_WRONG_FP];
	printf("steps %" PRIu64 " at %" PRIu64 " places", stepper.steps, stepper.distinct);
	for (unsigned i = 0; i < VERDICTS; i++)
		printf(", %s %" PRIu64, verdict_names[i], stepper.counts[i]);
	printf("\nwrong %" PRIu64 "\n", wrong);
	space_release(&stepper.space);
	mem_free(stepper.reports);
	mem_free(stepper.seen);
	return wrong != 0;
}
