// SPDX-License-Identifier: Apache-2.0
/*
 * What an instruction of Lua calls, by name. Functions are values without names; the interpreter itself, for its messages,
 * looks at how the caller came by the value: the register that it calls is a local variable, or was set last by an instruction
 * that reads a global variable, a field, an upvalue, or a method. The same is done here (ldebug.c of each version), on code
 * that was read from the process: so names are those of debug.getinfo().
 *
 * Code that a jump may have skipped tells nothing: what sets a register there is not believed.
 *
 * Instructions, from lopcodes.h:
 *
 *   5.1 to 5.3   opcode 6 bits, A 8, C 9, B 9; Bx: 18 bits from C on; B and C with the highest bit are constants
 *   5.4          opcode 7 bits, A 8, k 1, B 8, C 8; Bx: 17 bits from k on; sJ: 25 bits from A on
 */
#include <errno.h>
#include <string.h>

#include "runtime/lua_int.h"

enum act {
	ACT_NONE,
	ACT_SETS, /* A; the others that are about registers set A, too */
	ACT_MOVE,
	ACT_NIL,     /* from A, B more */
	ACT_NIL_51,  /* from A to B */
	ACT_CALL,    /* from A on */
	ACT_ITERATE, /* calls; from A + 2 on */
	ACT_JUMP,
	ACT_FOLLOW,	/* 5.1: a jump that is followed */
	ACT_FOLLOW_SET, /* ... and sets A */
	ACT_MEMBER_UP,
	ACT_MEMBER,
	ACT_MEMBER_NUMBER,
	ACT_MEMBER_NAMED,
	ACT_UPVALUE,
	ACT_CONSTANT,
	ACT_CONSTANT_FAR,
	ACT_METHOD,
	ACT_GLOBAL,
	ACT_EVENT, /* 5.4: C is a metamethod, for the instruction before it */
};

/* Metamethods, 1 + index in names of events. */
enum event {
	EVENT_NONE,
	INDEX,
	NEWINDEX,
	GC,
	MODE,
	LEN,
	EQ,
	ADD,
	SUB,
	MUL,
	MOD,
	POW,
	DIV,
	IDIV,
	BAND,
	BOR,
	BXOR,
	SHL,
	SHR,
	UNM,
	BNOT,
	LT,
	LE,
	CONCAT,
	CALL,
	CLOSE,
	EVENTS,
};
static const char *const event_names[EVENTS] = {
	"",	 "__index", "__newindex", "__gc",  "__mode", "__len",	 "__eq",   "__add",   "__sub",
	"__mul", "__mod",   "__pow",	  "__div", "__idiv", "__band",	 "__bor",  "__bxor",  "__shl",
	"__shr", "__unm",   "__bnot",	  "__lt",  "__le",   "__concat", "__call", "__close",
};

struct op {
	uint8_t act, event;
};
#define OP(n)                                                                                                                  \
	(struct op)                                                                                                            \
	{                                                                                                                      \
		ACT_##n, EVENT_NONE                                                                                            \
	}
#define OP_WITH(n, e)                                                                                                          \
	(struct op)                                                                                                            \
	{                                                                                                                      \
		ACT_##n, e                                                                                                     \
	}
#define SET8 OP(SETS), OP(SETS), OP(SETS), OP(SETS), OP(SETS), OP(SETS), OP(SETS), OP(SETS)

static const struct op ops_54[] = {
	/* MOVE, LOADI, LOADF, LOADK, LOADKX, LOADFALSE, LFALSESKIP, LOADTRUE, LOADNIL */
	OP(MOVE),
	OP(SETS),
	OP(SETS),
	OP(CONSTANT),
	OP(CONSTANT_FAR),
	OP(SETS),
	OP(SETS),
	OP(SETS),
	OP(NIL),
	/* GETUPVAL, SETUPVAL, GETTABUP, GETTABLE, GETI, GETFIELD */
	OP(UPVALUE),
	OP(NONE),
	OP_WITH(MEMBER_UP, INDEX),
	OP_WITH(MEMBER, INDEX),
	OP_WITH(MEMBER_NUMBER, INDEX),
	OP_WITH(MEMBER_NAMED, INDEX),
	/* SETTABUP, SETTABLE, SETI, SETFIELD, NEWTABLE, SELF */
	OP_WITH(NONE, NEWINDEX),
	OP_WITH(NONE, NEWINDEX),
	OP_WITH(NONE, NEWINDEX),
	OP_WITH(NONE, NEWINDEX),
	OP(SETS),
	OP_WITH(METHOD, INDEX),
	/* ADDI to SHR, 25 of them */
	SET8,
	SET8,
	SET8,
	OP(SETS),
	/* MMBIN, MMBINI, MMBINK, UNM, BNOT, NOT, LEN, CONCAT */
	OP(EVENT),
	OP(EVENT),
	OP(EVENT),
	OP_WITH(SETS, UNM),
	OP_WITH(SETS, BNOT),
	OP(SETS),
	OP_WITH(SETS, LEN),
	OP_WITH(SETS, CONCAT),
	/* CLOSE, TBC, JMP, EQ, LT, LE, EQK, EQI, LTI, LEI, GTI, GEI, TEST, TESTSET */
	OP_WITH(NONE, CLOSE),
	OP(NONE),
	OP(JUMP),
	OP_WITH(NONE, EQ),
	OP_WITH(NONE, LT),
	OP_WITH(NONE, LE),
	OP(NONE),
	OP(NONE),
	OP_WITH(NONE, LT),
	OP_WITH(NONE, LE),
	OP_WITH(NONE, LT),
	OP_WITH(NONE, LE),
	OP(NONE),
	OP(SETS),
	/* CALL, TAILCALL, RETURN, RETURN0, RETURN1, FORLOOP, FORPREP, TFORPREP, TFORCALL, TFORLOOP */
	OP(CALL),
	OP(CALL),
	OP_WITH(NONE, CLOSE),
	OP(NONE),
	OP(NONE),
	OP(SETS),
	OP(SETS),
	OP(NONE),
	OP(ITERATE),
	OP(SETS),
	/* SETLIST, CLOSURE, VARARG, VARARGPREP, EXTRAARG */
	OP(NONE),
	OP(SETS),
	OP(SETS),
	OP(SETS),
	OP(NONE),
};

static const struct op ops_53[] = {
	/* MOVE, LOADK, LOADKX, LOADBOOL, LOADNIL, GETUPVAL, GETTABUP, GETTABLE */
	OP(MOVE),
	OP(CONSTANT),
	OP(CONSTANT_FAR),
	OP(SETS),
	OP(NIL),
	OP(UPVALUE),
	OP_WITH(MEMBER_UP, INDEX),
	OP_WITH(MEMBER, INDEX),
	/* SETTABUP, SETUPVAL, SETTABLE, NEWTABLE, SELF */
	OP_WITH(NONE, NEWINDEX),
	OP(NONE),
	OP_WITH(NONE, NEWINDEX),
	OP(SETS),
	OP_WITH(METHOD, INDEX),
	/* ADD, SUB, MUL, MOD, POW, DIV, IDIV, BAND, BOR, BXOR, SHL, SHR, UNM, BNOT, NOT, LEN, CONCAT */
	OP_WITH(SETS, ADD),
	OP_WITH(SETS, SUB),
	OP_WITH(SETS, MUL),
	OP_WITH(SETS, MOD),
	OP_WITH(SETS, POW),
	OP_WITH(SETS, DIV),
	OP_WITH(SETS, IDIV),
	OP_WITH(SETS, BAND),
	OP_WITH(SETS, BOR),
	OP_WITH(SETS, BXOR),
	OP_WITH(SETS, SHL),
	OP_WITH(SETS, SHR),
	OP_WITH(SETS, UNM),
	OP_WITH(SETS, BNOT),
	OP(SETS),
	OP_WITH(SETS, LEN),
	OP_WITH(SETS, CONCAT),
	/* JMP, EQ, LT, LE, TEST, TESTSET, CALL, TAILCALL, RETURN, FORLOOP, FORPREP */
	OP(JUMP),
	OP_WITH(NONE, EQ),
	OP_WITH(NONE, LT),
	OP_WITH(NONE, LE),
	OP(NONE),
	OP(SETS),
	OP(CALL),
	OP(CALL),
	OP(NONE),
	OP(SETS),
	OP(SETS),
	/* TFORCALL, TFORLOOP, SETLIST, CLOSURE, VARARG, EXTRAARG */
	OP(ITERATE),
	OP(SETS),
	OP(NONE),
	OP(SETS),
	OP(SETS),
	OP(NONE),
};

static const struct op ops_52[] = {
	/* MOVE, LOADK, LOADKX, LOADBOOL, LOADNIL, GETUPVAL, GETTABUP, GETTABLE */
	OP(MOVE),
	OP(CONSTANT),
	OP(CONSTANT_FAR),
	OP(SETS),
	OP(NIL),
	OP(UPVALUE),
	OP_WITH(MEMBER_UP, INDEX),
	OP_WITH(MEMBER, INDEX),
	/* SETTABUP, SETUPVAL, SETTABLE, NEWTABLE, SELF */
	OP_WITH(NONE, NEWINDEX),
	OP(NONE),
	OP_WITH(NONE, NEWINDEX),
	OP(SETS),
	OP_WITH(METHOD, INDEX),
	/* ADD, SUB, MUL, DIV, MOD, POW, UNM, NOT, LEN, CONCAT */
	OP_WITH(SETS, ADD),
	OP_WITH(SETS, SUB),
	OP_WITH(SETS, MUL),
	OP_WITH(SETS, DIV),
	OP_WITH(SETS, MOD),
	OP_WITH(SETS, POW),
	OP_WITH(SETS, UNM),
	OP(SETS),
	OP_WITH(SETS, LEN),
	OP_WITH(SETS, CONCAT),
	/* JMP, EQ, LT, LE, TEST (jumped code can change A), TESTSET, CALL, TAILCALL, RETURN, FORLOOP, FORPREP */
	OP(JUMP),
	OP_WITH(NONE, EQ),
	OP_WITH(NONE, LT),
	OP_WITH(NONE, LE),
	OP(SETS),
	OP(SETS),
	OP(CALL),
	OP(CALL),
	OP(NONE),
	OP(SETS),
	OP(SETS),
	/* TFORCALL, TFORLOOP, SETLIST, CLOSURE, VARARG, EXTRAARG */
	OP(ITERATE),
	OP(SETS),
	OP(NONE),
	OP(SETS),
	OP(SETS),
	OP(NONE),
};

static const struct op ops_51[] = {
	/* MOVE, LOADK, LOADBOOL, LOADNIL, GETUPVAL, GETGLOBAL, GETTABLE, SETGLOBAL, SETUPVAL, SETTABLE, NEWTABLE, SELF */
	OP(MOVE),
	OP(SETS),
	OP(SETS),
	OP(NIL_51),
	OP(UPVALUE),
	OP(GLOBAL),
	OP(MEMBER),
	OP(NONE),
	OP(NONE),
	OP(NONE),
	OP(SETS),
	OP(METHOD),
	/* ADD, SUB, MUL, DIV, MOD, POW, UNM, NOT, LEN, CONCAT */
	SET8,
	OP(SETS),
	OP(SETS),
	/* JMP, EQ, LT, LE, TEST, TESTSET, CALL, TAILCALL, RETURN, FORLOOP, FORPREP, TFORLOOP */
	OP(FOLLOW),
	OP(NONE),
	OP(NONE),
	OP(NONE),
	OP(SETS),
	OP(SETS),
	OP(CALL),
	OP(CALL),
	OP(NONE),
	OP(FOLLOW_SET),
	OP(FOLLOW_SET),
	OP(ITERATE),
	/* SETLIST, CLOSE, CLOSURE, VARARG */
	OP(NONE),
	OP(NONE),
	OP(SETS),
	OP(SETS),
};

static const struct op_table {
	uint32_t version, count;
	const struct op *ops;
} op_tables[] = {
	{0x0501, sizeof(ops_51) / sizeof(ops_51[0]), ops_51},
	{0x0502, sizeof(ops_52) / sizeof(ops_52[0]), ops_52},
	{0x0503, sizeof(ops_53) / sizeof(ops_53[0]), ops_53},
	{0x0504, sizeof(ops_54) / sizeof(ops_54[0]), ops_54},
};
_Static_assert(sizeof(ops_51) / sizeof(ops_51[0]) == 38, "one each");
_Static_assert(sizeof(ops_52) / sizeof(ops_52[0]) == 40, "one each");
_Static_assert(sizeof(ops_53) / sizeof(ops_53[0]) == 47, "one each");
_Static_assert(sizeof(ops_54) / sizeof(ops_54[0]) == 83, "one each");

#define NO_PLACE  UINT32_MAX
#define MOVES_MAX 16u /* values that were moved from register to register */

struct instruction {
	struct op op;
	uint32_t a, b, c, bx;
	int32_t jump;
	bool c_is_constant;
};

static struct instruction instruction_at(const struct lua_reader *reader, uint32_t place)
{
	uint32_t code = reader->code[place], version = reader->layout->version;
	const struct op_table *table = &op_tables[version - 0x0501];
	struct instruction ret = {0};

	if (version >= 0x0504) {
		ret.a = code >> 7 & 0xff;
		ret.b = code >> 16 & 0xff;
		ret.c = code >> 24;
		ret.c_is_constant = code >> 15 & 1;
		ret.bx = code >> 15;
		ret.jump = (int32_t)(code >> 7) - 0xffffff;
		code &= 0x7f;
	} else {
		ret.a = code >> 6 & 0xff;
		ret.b = code >> 23;
		ret.c = code >> 14 & 0xff;
		ret.c_is_constant = code >> 22 & 1;
		ret.bx = code >> 14;
		ret.jump = (int32_t)ret.bx - 0x1ffff;
		code &= 0x3f;
	}
	if (code < table->count)
		ret.op = table->ops[code];
	return ret;
}

static bool sets(const struct instruction *instruction, uint32_t reg)
{
	switch (instruction->op.act) {
	case ACT_NONE:
	case ACT_JUMP:
	case ACT_FOLLOW:
	case ACT_EVENT: return false;
	case ACT_NIL: return reg >= instruction->a && reg <= instruction->a + instruction->b;
	case ACT_NIL_51: return reg >= instruction->a && reg <= instruction->b;
	case ACT_CALL: return reg >= instruction->a;
	case ACT_ITERATE: return reg >= instruction->a + 2;
	}
	return reg == instruction->a;
}

/* The instruction before `place` that has set a register; NO_PLACE if that is not certain. */
static uint32_t find_set(struct lua_reader *reader, uint32_t place, uint32_t reg)
{
	uint32_t found = NO_PLACE, certain = 0; /* code before it may be skipped */
	bool follows = reader->layout->version == 0x0501;

	if (instruction_at(reader, place).op.act == ACT_EVENT && place)
		place--; /* the one before it was not executed */
	if (reader->work_left < place)
		return NO_PLACE;
	reader->work_left -= place;
	for (uint32_t i = 0; i < place; i++) {
		struct instruction instruction = instruction_at(reader, i);
		int64_t target = (int64_t)i + 1 + instruction.jump;
		if (sets(&instruction, reg) || (follows && instruction.op.act == ACT_METHOD && reg == instruction.a + 1))
			found = i < certain ? NO_PLACE : i;
		if (instruction.op.act == ACT_JUMP && target > certain && target <= place)
			certain = (uint32_t)target;
		if ((instruction.op.act == ACT_FOLLOW || instruction.op.act == ACT_FOLLOW_SET) && target > i && target <= place)
			i = (uint32_t)target - 1;
	}
	return found;
}

static int append_address(const struct lua_reader *reader, uint64_t address, char *ret)
{
	size_t len = 0;

	ret[0] = 0;
	return address && lua_append_text(reader, address, ret, &len) == 0;
}

/* A constant that is a text. */
static int constant(const struct lua_reader *reader, uint32_t at, char *ret)
{
	uint64_t value[2];
	const struct runtime_memory *memory = reader->memory;

	ret[0] = 0;
	if (at >= reader->constant_count ||
	    memory->read(memory->context, reader->constants + (uint64_t)at * LUA_VALUE_BYTES, value, sizeof(value)) < 0 ||
	    (value[1] & 0xf) != 4)
		return 0;
	return append_address(reader, value[0], ret);
}

static int local(const struct lua_reader *reader, uint32_t place, uint32_t reg, char *ret)
{
	for (uint32_t i = 0; i < reader->local_count && reader->locals[i].start <= place; i++)
		if (place < reader->locals[i].end && !reg--)
			return append_address(reader, reader->locals[i].name, ret);
	return 0;
}

/* The constant that was loaded into a register, if it is one. */
static int loaded(struct lua_reader *reader, uint32_t place, uint32_t reg, char *ret)
{
	uint32_t at = local(reader, place, reg, ret) ? NO_PLACE : find_set(reader, place, reg);

	if (at == NO_PLACE)
		return 0;
	struct instruction instruction = instruction_at(reader, at);
	if (instruction.op.act == ACT_CONSTANT)
		return constant(reader, instruction.bx, ret);
	if (instruction.op.act == ACT_CONSTANT_FAR && at + 1 < reader->code_count)
		return constant(reader, reader->code[at + 1] >> (reader->layout->version >= 0x0504 ? 7 : 6), ret);
	return 0;
}

/* The key of a member, if it is a constant. */
static int key(struct lua_reader *reader, uint32_t place, const struct instruction *instruction, bool may_load, char *ret)
{
	return instruction->c_is_constant ? constant(reader, instruction->c, ret)
					  : may_load && loaded(reader, place, instruction->c, ret);
}

/* What an instruction reads its value from. */
static int source(struct lua_reader *reader, uint32_t at, char *ret)
{
	struct instruction instruction = instruction_at(reader, at);
	bool is_54 = reader->layout->version >= 0x0504, is_51 = reader->layout->version == 0x0501;

	switch (instruction.op.act) {
	case ACT_MEMBER_UP:
	case ACT_MEMBER_NAMED: instruction.c_is_constant |= is_54; return key(reader, at, &instruction, true, ret);
	case ACT_MEMBER: instruction.c_is_constant &= !is_54; return key(reader, at, &instruction, !is_51, ret);
	case ACT_METHOD: return key(reader, at, &instruction, !is_51, ret);
	case ACT_GLOBAL: return constant(reader, instruction.bx, ret);
	case ACT_UPVALUE:
		return instruction.b < reader->upvalue_count && append_address(reader, reader->upvalues[instruction.b], ret);
	case ACT_CONSTANT: return constant(reader, instruction.bx, ret);
	default: return 0;
	}
}

/* What a register holds before `place`. */
static int held(struct lua_reader *reader, uint32_t place, uint32_t reg, char *ret)
{
	for (uint32_t i = 0; i < MOVES_MAX; i++) {
		if (local(reader, place, reg, ret))
			return 1;
		uint32_t at = find_set(reader, place, reg);
		if (at == NO_PLACE)
			return 0;
		struct instruction instruction = instruction_at(reader, at);
		if (instruction.op.act != ACT_MOVE)
			return source(reader, at, ret);
		if (instruction.b >= instruction.a)
			return 0;
		reg = instruction.b;
		/* 5.1 goes on to look from the call itself. */
		place = reader->layout->version == 0x0501 ? place : at;
	}
	return 0;
}

static int event(const struct lua_reader *reader, uint32_t number, char *ret)
{
	size_t skip = reader->layout->version >= 0x0504 ? 2 : 0; /* 5.4 leaves the underscores out */

	if (!number || number >= EVENTS)
		return 0;
	memcpy(ret, event_names[number] + skip, strlen(event_names[number] + skip) + 1);
	return 1;
}

int lua_find_called(struct lua_reader *reader, uint32_t place, char ret[static RUNTIME_NAME_BYTES_MAX])
{
	struct instruction instruction = instruction_at(reader, place);

	ret[0] = 0;
	if (instruction.op.act == ACT_CALL)
		return held(reader, place, instruction.a, ret);
	if (instruction.op.act == ACT_ITERATE) {
		if (reader->layout->version == 0x0501)
			return held(reader, place, instruction.a, ret);
		memcpy(ret, "for iterator", sizeof("for iterator"));
		return 1;
	}
	return event(reader, instruction.op.act == ACT_EVENT ? 1 + instruction.c : instruction.op.event, ret);
}
