// SPDX-License-Identifier: Apache-2.0
/*
 * Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: chapter 2 for the format, appendix A for the maps.
 *
 *   [prefixes] [REX | VEX | EVEX] opcode [ModRM [SIB] [displacement]] [immediate]
 *
 * Each opcode of a map has a byte of properties: what follows it, and which operand it writes. An instruction is first cut into
 * its parts by them, then those few that move the stack pointer or copy registers are distinguished, and for all others what
 * they write is put together. Vector instructions write vector registers, but for some. What is not in the maps is no
 * instruction: privileged ones, 3DNow!, far calls and what 64-bit mode has dropped do not occur in functions that are to be
 * unwound.
 */
#include "elf/code/x86_decode.h"

#include <string.h>

/* Properties. */
enum {
	M = 1,	 /* ModRM follows */
	B = 2,	 /* an immediate byte */
	Z = 4,	 /* an immediate of 4 bytes, 2 with the operand size prefix */
	G = 8,	 /* writes the register in ModRM.reg */
	E = 16,	 /* writes the operand in ModRM.rm, if that is a register */
	A = 32,	 /* writes rax */
	X = 64,	 /* something of its own */
	NO = 128 /* no instruction */
};

#define ARITHMETIC M | E, M | E, M | G, M | G, A | B, A | Z, NO, NO
/* clang-format off */
static const uint8_t one_byte[256] = {
	/* 00 */ ARITHMETIC,
	/* 08 */ ARITHMETIC,
	/* 10 */ ARITHMETIC,
	/* 18 */ ARITHMETIC,
	/* 20 */ ARITHMETIC,
	/* 28 */ ARITHMETIC,
	/* 30 */ ARITHMETIC,
	/* 38 */ M, M, M, M, B, Z, NO, NO,
	/* 40 */ NO, NO, NO, NO, NO, NO, NO, NO, /* REX, which is a prefix */
	/* 48 */ NO, NO, NO, NO, NO, NO, NO, NO,
	/* 50 */ X, X, X, X, X, X, X, X, /* push, pop */
	/* 58 */ X, X, X, X, X, X, X, X,
	/* 60 */ NO, NO, NO, M | G, NO, NO, NO, NO,
	/* 68 */ X | Z, M | G | Z, X | B, M | G | B, X, X, X, X,
	/* 70 */ X | B, X | B, X | B, X | B, X | B, X | B, X | B, X | B,
	/* 78 */ X | B, X | B, X | B, X | B, X | B, X | B, X | B, X | B,
	/* 80 */ M | B | X, M | Z | X, NO, M | B | X, M, M, M | E | G, M | E | G,
	/* 88 */ M | E, M | E, M | G, M | G, M | E, M | G, NO, M | X,
	/* 90 */ X, X, X, X, X, X, X, X,
	/* 98 */ A, X, NO, 0, X, X, 0, A,
	/* a0 */ X, X, X, X, X, X, X, X,
	/* a8 */ B, Z, X, X, X, X, X, X,
	/* b0 */ X | B, X | B, X | B, X | B, X | B, X | B, X | B, X | B,
	/* b8 */ X, X, X, X, X, X, X, X,
	/* c0 */ M | E | B, M | E | B, X, X, NO, NO, M | E | B, M | E | Z,
	/* c8 */ X, X, NO, NO, X, NO, NO, NO,
	/* d0 */ M | E, M | E, M | E, M | E, NO, NO, NO, A,
	/* d8 */ M, M, M, M, M, M, M, M | X,
	/* e0 */ X | B, X | B, X | B, X | B, NO, NO, NO, NO,
	/* e8 */ X | Z, X | Z, NO, X | B, NO, NO, NO, NO,
	/* f0 */ NO, NO, NO, NO, X, 0, M | X, M | X,
	/* f8 */ 0, 0, NO, NO, 0, 0, M | E, M | X,
};
/* clang-format on */

/* clang-format off */
static const uint8_t two_bytes[256] = {
	/* 00 */ NO, M | X, NO, NO, NO, X, NO, NO,
	/* 08 */ NO, NO, NO, X, NO, M, NO, NO,
	/* 10 */ M, M, M, M, M, M, M, M,
	/* 18 */ M, M, M, M, M, M, M, M,
	/* 20 */ NO, NO, NO, NO, NO, NO, NO, NO,
	/* 28 */ M, M, M, M, M | X, M | X, M, M,
	/* 30 */ NO, X, NO, NO, NO, NO, NO, NO,
	/* 38 */ X, NO, X, NO, NO, NO, NO, NO,
	/* 40 */ M | G, M | G, M | G, M | G, M | G, M | G, M | G, M | G,
	/* 48 */ M | G, M | G, M | G, M | G, M | G, M | G, M | G, M | G,
	/* 50 */ M | G, M, M, M, M, M, M, M,
	/* 58 */ M, M, M, M, M, M, M, M,
	/* 60 */ M, M, M, M, M, M, M, M,
	/* 68 */ M, M, M, M, M, M, M, M,
	/* 70 */ M | B, M | B, M | B, M | B, M, M, M, 0,
	/* 78 */ M | X, M | X, NO, NO, M, M, M | X, M,
	/* 80 */ X | Z, X | Z, X | Z, X | Z, X | Z, X | Z, X | Z, X | Z,
	/* 88 */ X | Z, X | Z, X | Z, X | Z, X | Z, X | Z, X | Z, X | Z,
	/* 90 */ M | E, M | E, M | E, M | E, M | E, M | E, M | E, M | E,
	/* 98 */ M | E, M | E, M | E, M | E, M | E, M | E, M | E, M | E,
	/* a0 */ X, X, X, M, M | E | B, M | E, NO, NO,
	/* a8 */ X, X, NO, M | E, M | E | B, M | E, M | E, M | G,
	/* b0 */ M | E | A, M | E | A, NO, M | E, NO, NO, M | G, M | G,
	/* b8 */ M | G, M, M | B | X, M | E, M | G, M | G, M | G, M | G,
	/* c0 */ M | E | G, M | E | G, M | B, M, M | B, M | G | B, M | B, M | X,
	/* c8 */ X, X, X, X, X, X, X, X,
	/* d0 */ M, M, M, M, M, M, M, M | G,
	/* d8 */ M, M, M, M, M, M, M, M,
	/* e0 */ M, M, M, M, M, M, M, M,
	/* e8 */ M, M, M, M, M, M, M, M,
	/* f0 */ M, M, M, M, M, M, M, M,
	/* f8 */ M, M, M, M, M, M, M, M,
};
/* clang-format on */

struct parts {
	const uint8_t *at, *end;
	uint8_t rex; /* bits W R X B as of REX; of VEX and EVEX as well */
	bool has_rex, operand16, address32, repeat_f3, repeat_f2, is_vector;
	bool has_segment; /* fs or gs, which begin somewhere else */
	unsigned map;	  /* 1: one byte, 2: 0f, 3: 0f 38, 4: 0f 3a; the same of VEX and EVEX, 5: XOP, 6: EVEX's own */
	uint8_t opcode, properties;
	uint8_t vvvv; /* the third operand of VEX */
	uint8_t mod, reg, rm;
	uint8_t base; /* of a memory operand */
	bool has_modrm;
	int32_t displacement;
	int64_t immediate;
};

static bool take(struct parts *p, uint8_t *ret)
{
	if (p->at == p->end)
		return false;
	*ret = *p->at++;
	return true;
}

static bool take_signed(struct parts *p, unsigned bytes, int64_t *ret)
{
	uint64_t value = 0;
	if ((size_t)(p->end - p->at) < bytes)
		return false;
	memcpy(&value, p->at, bytes);
	p->at += bytes;
	unsigned shift = 64 - 8 * bytes;
	*ret = bytes == 8 ? (int64_t)value : (int64_t)(value << shift) >> shift;
	return true;
}

/* VEX of two (c5) or three (c4) bytes, EVEX (62), XOP (8f); p->at is behind the first. */
static bool take_vector_prefix(struct parts *p, uint8_t first)
{
	uint8_t a, b = 0, c = 0;
	p->is_vector = true;
	if (!take(p, &a) || (first != 0xc5 && !take(p, &b)) || (first == 0x62 && !take(p, &c)))
		return false;
	/* R, X and B are stored inverted. */
	p->rex = first == 0xc5 ? (uint8_t)((~a >> 7 & 1) << 2) : (uint8_t)((~a >> 5 & 7) | (b >> 7 & 1) << 3);
	p->vvvv = (uint8_t)(~(first == 0xc5 ? a : b) >> 3 & 15);
	/* What 66, f3 and f2 are before other instructions. */
	unsigned prefix = (first == 0xc5 ? a : b) & 3;
	p->repeat_f3 = prefix == 2;
	p->repeat_f2 = prefix == 3;
	unsigned map = first == 0xc5 ? 1 : a & (first == 0x62 ? 7 : 31);
	if (first == 0x8f)
		p->map = map == 8 ? 4 : map == 9 || map == 10 ? 5 : 0;
	else
		p->map = map >= 1 && map <= 3 ? map + 1 : map == 5 || map == 6 ? 6 : 0;
	if (first == 0x8f && map == 10)
		p->properties = Z;
	return p->map != 0 && take(p, &p->opcode);
}

/* Up to the opcode, which is taken as well. */
static bool take_prefixes(struct parts *p)
{
	uint8_t byte;
	p->map = 1;
	for (;;) {
		if (!take(p, &byte))
			return false;
		if (byte == 0x66)
			p->operand16 = true;
		else if (byte == 0xf3)
			p->repeat_f3 = true;
		else if (byte == 0xf2)
			p->repeat_f2 = true;
		else if (byte == 0x67)
			p->address32 = true;
		else if (byte == 0x64 || byte == 0x65)
			p->has_segment = true;
		else if (byte != 0x2e && byte != 0x36 && byte != 0x3e && byte != 0x26 && byte != 0xf0)
			break;
	}
	if ((byte & 0xf0) == 0x40) {
		p->has_rex = true;
		p->rex = byte & 15;
		p->operand16 = p->operand16 && !(p->rex & 8); /* W counts more */
		if (!take(p, &byte))
			return false;
	}
	if (byte == 0xc4 || byte == 0xc5 || byte == 0x62 || (byte == 0x8f && p->at < p->end && (*p->at & 31) >= 8))
		return take_vector_prefix(p, byte);
	if (byte == 0x0f) {
		if (!take(p, &byte))
			return false;
		p->map = 2;
		if (byte == 0x38 || byte == 0x3a) {
			p->map = byte == 0x38 ? 3 : 4;
			if (!take(p, &byte))
				return false;
		}
	}
	p->opcode = byte;
	return true;
}

static bool take_modrm(struct parts *p)
{
	uint8_t modrm, sib;
	int64_t displacement = 0;
	if (!take(p, &modrm))
		return false;
	p->has_modrm = true;
	p->mod = modrm >> 6;
	p->reg = (uint8_t)((modrm >> 3 & 7) | (p->rex & 4) << 1);
	p->rm = (uint8_t)((modrm & 7) | (p->rex & 1) << 3);
	p->base = X86_NONE;
	if (p->mod == 3)
		return true;
	bool wide = p->mod == 2;
	if ((modrm & 7) == 4) {
		if (!take(p, &sib))
			return false;
		bool has_index = (sib >> 3 & 7) != 4 || p->rex & 2, no_base = (sib & 7) == 5 && p->mod == 0;
		if (!has_index && !no_base)
			p->base = (uint8_t)((sib & 7) | (p->rex & 1) << 3);
		wide = wide || no_base;
	} else if ((modrm & 7) == 5 && p->mod == 0) {
		wide = true; /* relative to rip */
	} else {
		p->base = p->rm;
	}
	if (p->address32 || p->has_segment)
		p->base = X86_NONE;
	if ((wide || p->mod == 1) && !take_signed(p, wide ? 4 : 1, &displacement))
		return false;
	p->displacement = (int32_t)displacement;
	return true;
}

/* Properties of the opcode, with what depends on more than it. */
static bool find_properties(struct parts *p)
{
	uint8_t more = p->properties;
	if (p->map == 1)
		p->properties = one_byte[p->opcode];
	else if (p->map == 2)
		p->properties = two_bytes[p->opcode];
	else
		p->properties = (uint8_t)(M | (p->map == 4 ? B : 0) | more);
	/* Masks have these numbers there: conditional moves and sets otherwise. One moves to a general register. */
	if (p->is_vector && p->map == 2 && ((p->opcode & 0xf0) == 0x40 || (p->opcode & 0xf0) == 0x90))
		p->properties = p->opcode == 0x93 ? M | G : M;
	return !(p->properties & NO);
}

static bool take_immediate(struct parts *p)
{
	unsigned bytes = p->properties & B ? 1 : p->properties & Z ? (p->operand16 ? 2 : 4) : 0;
	if (p->map == 1 && !p->is_vector) {
		if ((p->opcode & 0xf8) == 0xb8)
			bytes = p->rex & 8 ? 8 : p->operand16 ? 2 : 4;
		else if ((p->opcode & 0xfc) == 0xa0)
			bytes = p->address32 ? 4 : 8;
		else if (p->opcode == 0xc2)
			bytes = 2;
		else if (p->opcode == 0xc8)
			bytes = 3;
		else if (p->opcode == 0xf6 && !(p->reg & 6))
			bytes = 1;
		else if (p->opcode == 0xf7 && !(p->reg & 6))
			bytes = p->operand16 ? 2 : 4;
		else if (p->opcode == 0xe8 || p->opcode == 0xe9)
			bytes = 4; /* in 64-bit mode Intel's processors ignore the prefix */
	} else if (p->map == 2 && (p->opcode & 0xf0) == 0x80 && !p->is_vector) {
		bytes = 4;
	}
	return bytes == 0 || take_signed(p, bytes, &p->immediate);
}

/* ---- what it does ---- */

#define BIT(number) (1u << (number))

/* Whether the registers of an instruction are bytes. */
static bool is_of_bytes(const struct parts *p)
{
	uint8_t op = p->opcode;
	if (p->is_vector || p->map > 2)
		return false;
	if (p->map == 2) /* set, cmpxchg, xadd */
		return (op & 0xf0) == 0x90 || op == 0xb0 || op == 0xc0;
	return (op < 0x40 && !(op & 5)) || (op >= 0x80 && op <= 0x8a && !(op & 1)) || (op & 0xf8) == 0xb0 || op == 0xc0 ||
	       op == 0xc6 || op == 0xd0 || op == 0xd2 || op == 0xf6 || op == 0xfe;
}

/* The bit of an operand's register: 4 to 7 are ah, ch, dh and bh where it is a byte and there is no REX prefix. */
static uint32_t bit_of(const struct parts *p, unsigned reg)
{
	return BIT(reg >= 4 && reg < 8 && !p->has_rex && is_of_bytes(p) ? reg - 4 : reg);
}

/* What opcodes with X write, that are of no other kind. */
static uint32_t writes_of_special(const struct parts *p)
{
	uint32_t rm = p->has_modrm && p->mod == 3 ? bit_of(p, p->rm) : 0;
	if (p->map == 2)
		switch (p->opcode) {
		case 0x01: return p->mod == 3 ? BIT(X86_RAX) | BIT(X86_RCX) | BIT(X86_RDX) : 0; /* rdtscp, xgetbv */
		case 0x05: return BIT(X86_RAX) | BIT(X86_RCX) | BIT(11);			/* syscall */
		case 0x2c:
		case 0x2d: return p->repeat_f3 || p->repeat_f2 ? BIT(p->reg) : 0; /* cvtsd2si; cvtps2pi of MMX */
		case 0x78:
		case 0x79: return p->is_vector && (p->repeat_f3 || p->repeat_f2) ? BIT(p->reg) : 0; /* vcvtss2usi */
		case 0x31: return BIT(X86_RAX) | BIT(X86_RDX);					    /* rdtsc */
		case 0x7e: return p->repeat_f3 ? 0 : rm; /* movq xmm, xmm; or movd to a register */
		case 0xa2: return BIT(X86_RAX) | BIT(X86_RBX) | BIT(X86_RCX) | BIT(X86_RDX);
		case 0xba: return (p->reg & 7) == 4 ? 0 : rm;			  /* bt; bts, btr, btc */
		case 0xc7: return p->mod == 3 ? rm : BIT(X86_RAX) | BIT(X86_RDX); /* rdrand; cmpxchg16b */
		default: return (p->opcode & 0xf8) == 0xc8 ? BIT((p->opcode & 7) | (p->rex & 1) << 3) : 0; /* bswap */
		}
	switch (p->opcode) {
	case 0x80:
	case 0x81:
	case 0x83: return (p->reg & 7) == 7 ? 0 : rm; /* cmp */
	case 0x99: return BIT(X86_RDX);
	case 0xa0:
	case 0xa1: return BIT(X86_RAX);
	case 0xdf: return BIT(X86_RAX); /* fnstsw */
	case 0xf6:
	case 0xf7:
		return (p->reg & 7) < 2	  ? 0
		       : (p->reg & 7) < 4 ? rm
					  : BIT(X86_RAX) | BIT(X86_RDX); /* test; not, neg; mul, div */
	case 0xff: return (p->reg & 7) < 2 ? rm : 0;
	default: break;
	}
	if (p->opcode >= 0xa4 && p->opcode <= 0xaf) /* strings */
		return BIT(X86_RSI) | BIT(X86_RDI) | BIT(X86_RCX) | BIT(X86_RAX);
	if ((p->opcode & 0xf0) == 0xb0)
		return bit_of(p, (p->opcode & 7) | (p->rex & 1) << 3);
	return 0;
}

/* Of the maps 0f 38, 0f 3a and beyond: all others write vector registers. */
static uint32_t writes_of_long(const struct parts *p)
{
	uint32_t rm = p->mod == 3 ? BIT(p->rm) : 0, reg = BIT(p->reg), third = BIT(p->vvvv);
	switch (p->map) {
	case 3:
		if ((p->opcode & 0xf0) != 0xf0)
			return 0;
		/* movbe, crc32, adx; with VEX blsr and the like, mulx; andn, bzhi, pdep, shlx */
		return !p->is_vector ? reg : p->opcode == 0xf3 ? third : p->opcode == 0xf6 ? reg | third : reg;
	case 4:
		if (p->opcode == 0x61 || p->opcode == 0x63)
			return BIT(X86_RCX);							  /* pcmpestri */
		return p->opcode == 0xf0 ? reg : p->opcode >= 0x14 && p->opcode <= 0x17 ? rm : 0; /* rorx; pextr */
	case 5: return reg | third; /* bit manipulation of old AMD processors */
	default:		    /* vcvtsh2si, vmovw */
		if (p->opcode == 0x7e)
			return rm;
		return ((p->opcode & 0xfe) == 0x2c || (p->opcode & 0xfe) == 0x78) && p->repeat_f3 ? reg : 0;
	}
}

static uint32_t writes_of(const struct parts *p)
{
	uint32_t writes = p->properties & X ? writes_of_special(p) : 0;
	if (p->properties & G)
		writes |= bit_of(p, p->reg);
	if (p->properties & E && p->mod == 3)
		writes |= bit_of(p, p->rm);
	if (p->properties & A)
		writes |= BIT(X86_RAX);
	if (p->map > 2)
		writes |= writes_of_long(p);
	return writes & (BIT(X86_REGISTERS) - 1);
}

/* Those with a memory operand of register + constant, or two registers, of 64 bits. */
static void classify_modrm(const struct parts *p, struct x86_instruction *ret)
{
	bool is_64 = p->rex & 8, in_register = p->mod == 3;
	uint8_t group = p->reg & 7;
	ret->reg = p->reg;
	ret->base = in_register ? p->rm : p->base;
	ret->value = p->displacement;
	switch (p->opcode) {
	case 0x81:
	case 0x83:
		if (!is_64 || !in_register || (group != 0 && group != 5))
			return;
		ret->kind = X86_ADD;
		ret->reg = p->rm;
		ret->value = group == 0 ? p->immediate : -p->immediate;
		return;
	case 0x8d:
		if (is_64 && p->base != X86_NONE)
			ret->kind = X86_LEA;
		else if (is_64 && p->mod == 0 && (p->rm & 7) == 5)
			ret->kind = X86_ADDRESS;
		return;
	case 0x89:
		if (!is_64)
			return;
		ret->kind = in_register ? X86_MOVE : X86_STORE;
		if (in_register) {
			ret->reg = p->rm;
			ret->base = p->reg;
		}
		return;
	case 0x8b:
		if (is_64)
			ret->kind = in_register ? X86_MOVE : X86_LOAD;
		return;
	case 0x87:
		if (is_64 && in_register)
			ret->kind = X86_EXCHANGE;
		return;
	case 0x31:
	case 0x33:
		if (in_register && p->reg == p->rm)
			ret->kind = X86_CLEAR;
		return;
	case 0x8f:
		ret->kind = X86_POP;
		ret->reg = in_register ? p->rm : X86_NONE;
		return;
	case 0xff:
		if (group == 6) {
			ret->kind = X86_PUSH;
			ret->reg = in_register ? p->rm : X86_NONE;
		} else if (group == 2 || group == 4) {
			bool is_slot = !in_register && p->mod == 0 && (p->rm & 7) == 5;
			ret->kind = group == 2 ? X86_CALL_INDIRECT : is_slot ? X86_JUMP_SLOT : X86_JUMP_INDIRECT;
		}
		return;
	default: return;
	}
}

static void classify_one_byte(const struct parts *p, struct x86_instruction *ret)
{
	uint8_t op = p->opcode, low = (uint8_t)((op & 7) | (p->rex & 1) << 3);
	ret->value = p->immediate;
	if (op >= 0x50 && op <= 0x5f) {
		ret->kind = op < 0x58 ? X86_PUSH : X86_POP;
		ret->reg = low;
	} else if (op == 0x68 || op == 0x6a || op == 0x9c) {
		ret->kind = X86_PUSH;
	} else if (op == 0x9d) {
		ret->kind = X86_POP;
	} else if ((op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3)) {
		ret->kind = X86_BRANCH;
	} else if (op == 0xe9 || op == 0xeb) {
		ret->kind = X86_JUMP;
	} else if (op == 0xe8) {
		ret->kind = X86_CALL;
	} else if (op == 0xc2 || op == 0xc3) {
		ret->kind = X86_RETURN;
	} else if (op == 0xc9) {
		ret->kind = X86_LEAVE;
	} else if (op == 0xcc || (op == 0x90 && !(p->rex & 1))) {
		ret->kind = X86_PADDING;
	} else if (op == 0xf4) {
		ret->kind = X86_END;
	} else if (op == 0xc8 && !(p->immediate >> 16 & 31)) {
		ret->kind = X86_ENTER;
		ret->value = p->immediate & 0xffff;
	} else if (op == 0xc8) { /* copies frame pointers of enclosing functions, which no compiler does */
		ret->writes = BIT(X86_RSP) | BIT(X86_RBP);
	} else if (op >= 0x90 && op <= 0x97) {
		ret->kind = X86_EXCHANGE;
		ret->reg = X86_RAX;
		ret->base = low;
	}
}

static void classify(const struct parts *p, struct x86_instruction *ret)
{
	if (p->is_vector)
		return;
	if (p->map == 1 && p->has_modrm) {
		classify_modrm(p, ret);
	} else if (p->map == 1) {
		classify_one_byte(p, ret);
	} else if (p->map == 2) {
		ret->value = p->immediate;
		if ((p->opcode & 0xf0) == 0x80)
			ret->kind = X86_BRANCH;
		else if (p->opcode == 0x0b || p->opcode == 0xb9 || p->opcode == 0xff) /* ud2, ud1, ud0 */
			ret->kind = X86_END;
		else if (p->opcode == 0x1f)
			ret->kind = X86_PADDING;
		else if (p->opcode == 0xa0 || p->opcode == 0xa8)
			ret->kind = X86_PUSH;
		else if (p->opcode == 0xa1 || p->opcode == 0xa9)
			ret->kind = X86_POP;
	}
}

bool x86_decode(const uint8_t *code, size_t len, struct x86_instruction *ret)
{
	struct parts p = {.at = code, .end = code + (len < X86_INSTRUCTION_MAX ? len : X86_INSTRUCTION_MAX), .base = X86_NONE};
	*ret = (struct x86_instruction){.reg = X86_NONE, .base = X86_NONE};
	if (!take_prefixes(&p) || !find_properties(&p) || ((p.properties & M) && !take_modrm(&p)) || !take_immediate(&p))
		return false;
	/* A word of 16 bits on the stack is nothing that a compiler writes. */
	classify(&p, ret);
	if (p.operand16 && (ret->kind == X86_PUSH || ret->kind == X86_POP || ret->kind == X86_ENTER))
		return false;
	if (ret->kind == X86_OTHER)
		ret->writes |= writes_of(&p);
	ret->len = (uint8_t)(p.at - code);
	return true;
}
