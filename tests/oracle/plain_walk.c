/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/oracle/capture.h"

bool capture_word(const struct capture *capture, uint64_t address, uint64_t *ret)
{
	uint64_t offset = address - capture->regs[UNWIND_REGISTER_SP];
	if (offset > capture->stack_bytes || capture->stack_bytes - offset < sizeof(*ret))
		return false;
	memcpy(ret, capture->stack + offset, sizeof(*ret));
	return true;
}

bool is_restorer(const struct space *space, uint64_t ip)
{
	static const uint8_t rax[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, eax[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
	size_t len;
	const uint8_t *code = space_code(space, ip, &len);
	return code && ((len >= sizeof(rax) && memcmp(code, rax, sizeof(rax)) == 0) ||
			(len >= sizeof(eax) && memcmp(code, eax, sizeof(eax)) == 0));
}

struct walk {
	const struct capture *capture;
	uint64_t regs[UNWIND_REGISTERS];
	uint32_t known; /* a bit per register */
	uint64_t ip;
	bool exact; /* ip is where the thread is, not where it returns to */
};

static enum unwind_result take(const struct walk *walk, unsigned number, uint64_t *ret)
{
	if (number >= UNWIND_REGISTERS || !(walk->known & (1u << number)))
		return UNWIND_NO_REGISTER;
	*ret = walk->regs[number];
	return UNWIND_COMPLETE;
}

static enum unwind_result load(const struct walk *walk, uint64_t address, uint64_t *ret)
{
	if (capture_word(walk->capture, address, ret))
		return UNWIND_COMPLETE;
	return address >= walk->capture->regs[UNWIND_REGISTER_SP] && walk->capture->stack_bytes == CAPTURE_STACK_BYTES
		       ? UNWIND_STACK_CUT
		       : UNWIND_BAD_READ;
}

static enum unwind_result step_signal(struct walk *walk)
{
	/* r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip behind 40 bytes of the ucontext, at which sp points. */
	static const uint8_t numbers[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7};
	uint64_t place = walk->regs[UNWIND_REGISTER_SP] + 40;
	enum unwind_result result = UNWIND_COMPLETE;
	for (unsigned i = 0; i < sizeof(numbers) && result == UNWIND_COMPLETE; i++)
		result = load(walk, place + i * 8u, &walk->regs[numbers[i]]);
	if (result == UNWIND_COMPLETE)
		result = load(walk, place + sizeof(numbers) * 8, &walk->ip);
	walk->known = (1u << UNWIND_REGISTERS) - 1;
	walk->exact = true;
	return result;
}

static enum unwind_result find_cfa(const struct walk *walk, const struct unwind_rule *rule, uint64_t *ret)
{
	uint64_t base;
	enum unwind_result result =
		take(walk, rule->cfa == UNWIND_CFA_PLT ? UNWIND_REGISTER_SP : rule->cfa_register % UNWIND_REGISTERS, &base);
	if (result != UNWIND_COMPLETE)
		return result;
	base += (uint64_t)(int64_t)rule->offset;
	if (rule->cfa == UNWIND_CFA_PLT)
		base += (int32_t)(walk->ip & 15) >= rule->offset2 ? 8 : 0;
	if (rule->cfa == UNWIND_CFA_INDEXED) {
		uint64_t index;
		result = take(walk, rule->cfa_register / UNWIND_REGISTERS, &index);
		if (result != UNWIND_COMPLETE)
			return result;
		base += 8 * index;
	}
	if (rule->cfa == UNWIND_CFA_DEREFERENCE || rule->cfa == UNWIND_CFA_INDEXED) {
		result = load(walk, base, &base);
		base += (uint64_t)(int64_t)rule->offset2;
	}
	*ret = base;
	return result;
}

/* Where a register of the caller lies, or SAME/LOST. */
static enum unwind_result find(const struct walk *walk, uint8_t where, int16_t offset, uint64_t cfa, uint64_t *ret)
{
	uint64_t fp;
	enum unwind_result result;
	switch (where) {
	case UNWIND_WHERE_CFA: return load(walk, cfa + (uint64_t)(int64_t)offset, ret);
	case UNWIND_WHERE_FP:
		result = take(walk, UNWIND_REGISTER_FP, &fp);
		return result == UNWIND_COMPLETE ? load(walk, fp + (uint64_t)(int64_t)offset, ret) : result;
	case UNWIND_WHERE_REGISTER: return take(walk, (unsigned)offset, ret);
	default: return UNWIND_NO_REGISTER;
	}
}

static enum unwind_result step(struct walk *walk, const struct unwind_rule *rule)
{
	uint64_t cfa, ra, fp;
	enum unwind_result result = find_cfa(walk, rule, &cfa);
	if (result == UNWIND_COMPLETE && cfa <= walk->regs[UNWIND_REGISTER_SP])
		result = UNWIND_BAD_FRAME;
	if (result == UNWIND_COMPLETE)
		result = find(walk, rule->ra, rule->ra_offset, cfa, &ra);
	if (result != UNWIND_COMPLETE)
		return result;
	bool fp_known = walk->known & (1u << UNWIND_REGISTER_FP);
	fp = walk->regs[UNWIND_REGISTER_FP];
	if (rule->fp != UNWIND_WHERE_SAME) {
		result = find(walk, rule->fp, rule->fp_offset, cfa, &fp);
		if (result != UNWIND_COMPLETE && rule->fp != UNWIND_WHERE_LOST)
			return result;
		fp_known = rule->fp != UNWIND_WHERE_LOST;
	}
	walk->regs[UNWIND_REGISTER_SP] = cfa;
	walk->regs[UNWIND_REGISTER_FP] = fp;
	walk->known = 1u << UNWIND_REGISTER_SP | (fp_known ? 1u << UNWIND_REGISTER_FP : 0);
	walk->ip = ra;
	walk->exact = false;
	return UNWIND_COMPLETE;
}

void plain_walk(const struct space *space, const struct capture *capture, struct chain *ret)
{
	struct walk walk = {.capture = capture, .known = (1u << UNWIND_REGISTERS) - 1, .ip = capture->ip, .exact = true};
	memcpy(walk.regs, capture->regs, sizeof(walk.regs));
	ret->count = 0;
	ret->by_frames = false;
	bool analysed = false;
	for (;;) {
		if (ret->count == UNWIND_FRAMES_MAX) {
			ret->result = UNWIND_TOO_DEEP;
			return;
		}
		ret->frames[ret->count++] = walk.ip;
		/* The return address of a handler is the restorer's first byte: no call lies before it. */
		uint64_t at = walk.exact || is_restorer(space, walk.ip) ? walk.ip : walk.ip - 1;
		const struct unwind_rule *found = space_rule(space, at), *rule = found;
		struct unwind_rule copy;
		if (found && found->cfa & UNWIND_RULE_ANALYSED) {
			copy = *found;
			copy.cfa &= (uint8_t)~UNWIND_RULE_ANALYSED;
			rule = &copy;
			analysed = true;
		}
		ret->result = UNWIND_COMPLETE;
		if (!space_find(space, at))
			ret->result = UNWIND_NO_MAPPING;
		else if (!rule || rule->cfa == UNWIND_CFA_NONE)
			ret->result = UNWIND_NO_RULE;
		else if (rule->cfa == UNWIND_CFA_UNSUPPORTED)
			ret->result = UNWIND_UNSUPPORTED;
		else if (rule->cfa == UNWIND_CFA_END)
			break;
		else if (rule->cfa == UNWIND_CFA_SIGNAL)
			ret->result = step_signal(&walk);
		else
			ret->result = step(&walk, rule);
		if (ret->result != UNWIND_COMPLETE)
			return;
		if (walk.ip == 0) /* the outermost frame of code without an end in its CFI */
			break;
	}
	if (analysed)
		ret->result = UNWIND_ANALYSED;
}
