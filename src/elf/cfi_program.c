/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions of call frame information (DWARF 5, 6.4.2), run.
 *
 * An instruction either changes the rules of registers or moves the location forward. A row is complete when the location
 * moves: it holds from the old location to the new one. So rows come out in ascending order by themselves, and those that do
 * not differ from the one before are dropped on the spot: of the registers only the CFA, the return address, the frame pointer,
 * the stack pointer and (x86-64) rbx are followed; compilers write rules for four more, callee-saved, which no walk needs.
 *
 * State: the rule in the form in which it is given out, and bits for what that form cannot say (enum cfi_odd). No bit set,
 * which is nearly always: the rule is compared and given out as it is. Else resolve() says what becomes of it.
 *
 * Damage. Whatever cannot be read or makes no sense (an unknown instruction, an operand that runs out, a location that moves
 * back or beyond the function, a state restored that was not saved) ends the program there. The row under construction is not
 * given out, the rest of the function has none, and the FDE is counted as damaged.
 *
 * Time is linear in the length of the program: every instruction is read once and does a bounded amount of work.
 */
#include "elf/cfi_dwarf.h"
#include "elf/cfi_int.h"

#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define ENDED		    1 /* the end of the range is reached */
#define DAMAGED		    2

/* Offsets of the x86-64 kernel's signal frame (struct rt_sigframe without its return address, which was popped: ucontext 0,
 * mcontext 40) by which __restore_rt of glibc is known. */
#define SIGNAL_FP 120
#define SIGNAL_SP 160
#define SIGNAL_RA 168

enum column { COLUMN_OTHER, COLUMN_RA, COLUMN_FP, COLUMN_SP, COLUMN_RBX };

struct program {
	struct cfi_cursor cursor;
	uint64_t location, limit; /* rows are wanted below `limit` */
	uint64_t end;		  /* of the function; >= limit */
	const struct cfi_cie *cie;
	struct cfi_reader *reader;
	bool is_initial; /* the CIE's own instructions */
	/* With CFI_ODD_RESULTS: where saved registers are the caller's no longer, and the row before. */
	bool has_landing;
	struct cfi_range landing;
	uint64_t start, before;
	unsigned depth;
	struct cfi_state state;
	struct cfi_state saved[CFI_STATES_MAX];
};

static inline enum column column_of(const struct program *p, uint64_t number)
{
	if (number == p->cie->ra)
		return COLUMN_RA;
	if (number == p->reader->machine->fp)
		return COLUMN_FP;
	if (number == p->reader->machine->sp)
		return COLUMN_SP;
	return (int64_t)number == p->reader->machine->rbx ? COLUMN_RBX : COLUMN_OTHER;
}

static bool is_signal_frame(const struct program *p)
{
	const struct unwind_rule *rule = &p->state.is.rule;
	const struct cfi_machine *machine = p->reader->machine;
	if (!p->cie->is_signal)
		return false;
	if (machine->machine == EM_AARCH64) /* the vdso of kernels before 5.8 */
		return p->state.odd == 0 && rule->cfa == UNWIND_CFA_REGISTER && rule->cfa_register == machine->fp &&
		       rule->offset == 0;
	uint32_t need = CFI_ODD_CFA_EXPRESSION | CFI_ODD_RA_SIGNAL | CFI_ODD_FP_SIGNAL | CFI_ODD_SP_SIGNAL;
	return p->state.odd == need && rule->cfa == UNWIND_CFA_DEREFERENCE && rule->cfa_register == machine->sp &&
	       rule->offset == SIGNAL_SP && rule->offset2 == 0;
}

/*
 * longjmp(), once it has all it needs in registers: the caller's stack pointer is in one, and where it goes on in another. As
 * stack pointers go that is a rule whose CFA is the one register; of what else is given by CFI's own CFA, nothing is known.
 */
static bool is_jump(const struct program *p)
{
	return (p->state.odd & (CFI_ODD_SP | CFI_ODD_RA)) == CFI_ODD_SP_REGISTER &&
	       p->state.is.rule.ra == UNWIND_WHERE_REGISTER;
}

static struct unwind_rule rule_of_jump(const struct program *p)
{
	const struct unwind_rule *rule = &p->state.is.rule;
	return (struct unwind_rule){.cfa = UNWIND_CFA_REGISTER,
				    .cfa_register = p->state.sp_register,
				    .offset2 = UNWIND_RBX_LOST,
				    .ra = rule->ra,
				    .ra_offset = rule->ra_offset,
				    .fp = rule->fp == UNWIND_WHERE_SAME ? UNWIND_WHERE_SAME : UNWIND_WHERE_LOST};
}

/* The rule of a state with odd bits, or of a signal frame. */
static void resolve(const struct program *p, union cfi_rule *ret)
{
	*ret = (union cfi_rule){.words = {0, 0}};
	if (p->state.odd & CFI_ODD_RA_UNDEFINED)
		ret->rule.cfa = UNWIND_CFA_END;
	else if (is_signal_frame(p))
		ret->rule.cfa = UNWIND_CFA_SIGNAL;
	else if (is_jump(p))
		ret->rule = rule_of_jump(p);
	else if (p->state.odd & (CFI_ODD_CFA_UNKNOWN | CFI_ODD_CFA_REGISTER | CFI_ODD_CFA_FAR | CFI_ODD_RA_FAR | CFI_ODD_SP))
		ret->rule.cfa = UNWIND_CFA_UNSUPPORTED;
	else
		*ret = p->state.is;
}

static union cfi_rule without_saved(union cfi_rule rule)
{
	if (rule.rule.cfa != UNWIND_CFA_REGISTER)
		return rule;
	rule.rule.fp = UNWIND_WHERE_LOST;
	rule.rule.fp_offset = 0;
	rule.rule.offset2 = UNWIND_RBX_LOST;
	return rule;
}

/* A row of a function that goes on in a landing pad, and one more if the registers are lost between it and the one before. */
static int emit_landing(struct program *p, union cfi_rule rule)
{
	const struct cfi_range *landing = &p->landing;
	int r = 0;
	if (landing->start > p->before && landing->start < p->location) {
		union cfi_rule lost = without_saved(p->reader->last);
		r = cfi_emit(p->reader, landing->start, &lost);
	}
	p->before = p->location;
	if (landing->start <= p->location && p->location < landing->end)
		rule = without_saved(rule);
	/* Registers are those of the landing pad's frame, not where CFI says, which counts from another CFA now. */
	else if (p->location >= landing->end && rule.rule.cfa == UNWIND_CFA_REGISTER &&
		 rule.rule.cfa_register != p->reader->machine->fp)
		rule.rule.offset2 = 0;
	return r < 0 ? r : cfi_emit(p->reader, p->location, &rule);
}

static int emit_odd(struct program *p)
{
	union cfi_rule rule;
	resolve(p, &rule);
	if (p->has_landing)
		return emit_landing(p, rule);
	return cfi_emit(p->reader, p->location, &rule);
}

static inline int emit(struct program *p)
{
	if (unlikely(p->state.odd || p->cie->is_signal))
		return emit_odd(p);
	return cfi_emit(p->reader, p->location, &p->state.is);
}

static inline int advance(struct program *p, uint64_t delta)
{
	if (unlikely(delta >= p->limit - p->location)) {
		if (p->is_initial || delta > p->end - p->location)
			return DAMAGED;
		int r = emit(p);
		p->location = p->limit;
		return r < 0 ? r : ENDED;
	}
	if (delta == 0)
		return 0;
	int r = emit(p);
	p->location += delta;
	return r;
}

static inline int advance_by(struct program *p, size_t bytes)
{
	uint64_t delta;
	if (!cfi_read_fixed(&p->cursor, bytes, &delta))
		return DAMAGED;
	/* Of 8 bytes the product may overflow; that is beyond any function as well. */
	return advance(p, delta > UINT32_MAX ? delta : delta * p->cie->code_factor);
}

static int set_location(struct program *p)
{
	const struct cfi_source *source = &p->reader->sources[p->cie->source];
	uint64_t address, field = source->address + (uint64_t)(p->cursor.at - source->data.data);
	if (!cfi_read_encoded(&p->cursor, p->cie->encoding, field, &address) || address < p->location)
		return DAMAGED;
	return advance(p, address - p->location);
}

/* Factored operands; those that no rule can hold become some value that no rule can hold either. */
static inline int64_t factor_unsigned(const struct program *p, uint64_t value)
{
	return unlikely(value > UINT32_MAX) ? INT64_MAX : (int64_t)value * p->cie->data_factor;
}

static inline int64_t factor_signed(const struct program *p, int64_t value)
{
	return unlikely(value != (int32_t)value) ? INT64_MAX : value * p->cie->data_factor;
}

/*
 * While an expression gives the CFA, an offset alone does not replace it, and a register alone does, with the last offset that
 * was set. DWARF calls both invalid, but assembly relies on what libgcc and gdb do (.cfi_def_cfa_register behind an expression
 * in libgcrypt).
 */
static void set_cfa_offset(struct program *p, int64_t offset)
{
	if (unlikely(p->state.odd & CFI_ODD_CFA_EXPRESSION)) {
		p->state.plain_offset = offset;
		return;
	}
	p->state.odd &= ~(uint32_t)CFI_ODD_CFA_FAR;
	if (unlikely(offset != (int32_t)offset))
		p->state.odd |= CFI_ODD_CFA_FAR;
	p->state.is.rule.offset = (int32_t)offset;
}

static void set_cfa(struct program *p, uint64_t number, int64_t offset)
{
	p->state.odd &= ~(uint32_t)CFI_ODD_CFA;
	if (number >= p->reader->machine->registers)
		p->state.odd |= CFI_ODD_CFA_REGISTER;
	p->state.is.rule.cfa = UNWIND_CFA_REGISTER;
	p->state.is.rule.cfa_register = (uint8_t)number;
	p->state.is.rule.offset2 = p->state.rbx;
	set_cfa_offset(p, offset);
}

static void set_cfa_register(struct program *p, uint64_t number)
{
	const struct cfi_state *state = &p->state;
	if (state->odd & CFI_ODD_CFA_EXPRESSION)
		set_cfa(p, number, state->plain_offset);
	else if (state->odd & (CFI_ODD_CFA_UNKNOWN | CFI_ODD_CFA_FAR))
		set_cfa(p, number, INT64_MAX);
	else
		set_cfa(p, number, state->is.rule.offset);
}

static void set_ra(struct program *p, enum unwind_where where, int64_t offset, uint32_t odd)
{
	p->state.odd = (p->state.odd & ~(uint32_t)CFI_ODD_RA) | odd;
	p->state.is.rule.ra = (uint8_t)where;
	p->state.is.rule.ra_offset = (int16_t)offset;
}

static void set_fp(struct program *p, enum unwind_where where, int64_t offset, uint32_t odd)
{
	p->state.odd = (p->state.odd & ~(uint32_t)CFI_ODD_FP) | odd;
	p->state.is.rule.fp = (uint8_t)where;
	p->state.is.rule.fp_offset = (int16_t)offset;
}

static void set_sp(struct program *p, uint32_t odd)
{
	p->state.odd = (p->state.odd & ~(uint32_t)CFI_ODD_SP) | odd;
}

/* offset: from the CFA; 0 = unchanged. */
static void set_rbx(struct program *p, int64_t offset)
{
	bool fits = offset == (int32_t)offset && offset % 8 == 0;
	p->state.rbx = fits ? (int32_t)offset : UNWIND_RBX_LOST;
	if (p->state.is.rule.cfa == UNWIND_CFA_REGISTER)
		p->state.is.rule.offset2 = p->state.rbx;
}

/* rax is saved, which is a result. */
static void set_results(struct program *p)
{
	if (p->reader->machine->machine != EM_X86_64)
		return;
	p->state.odd |= CFI_ODD_RESULTS;
	if (!p->has_landing)
		p->has_landing = cfi_landing_find(p->reader, p->start, p->end, &p->landing);
	p->before = p->location;
}

/* The register is saved at CFA + offset. */
static inline void set_saved(struct program *p, uint64_t number, int64_t offset)
{
	enum column column = column_of(p, number);
	bool fits = offset == (int16_t)offset;
	if (column == COLUMN_FP)
		set_fp(p, fits ? UNWIND_WHERE_CFA : UNWIND_WHERE_LOST, fits ? offset : 0, 0);
	else if (column == COLUMN_RA)
		set_ra(p, fits ? UNWIND_WHERE_CFA : UNWIND_WHERE_LOST, fits ? offset : 0, fits ? 0 : CFI_ODD_RA_FAR);
	else if (column == COLUMN_RBX)
		set_rbx(p, offset != 0 ? offset : UNWIND_RBX_LOST);
	else if (unlikely(column == COLUMN_SP))
		set_sp(p, CFI_ODD_SP_MOVED);
	else if (unlikely(number == 0 && !p->is_initial && !(p->state.odd & CFI_ODD_RESULTS)))
		set_results(p);
}

/* The return address stays in its register. */
static void set_ra_same(struct program *p)
{
	const struct cfi_machine *machine = p->reader->machine;
	uint8_t ra = p->cie->ra;
	if (ra == machine->ra && ra < machine->registers)
		set_ra(p, UNWIND_WHERE_SAME, 0, 0);
	else if (ra < machine->registers)
		set_ra(p, UNWIND_WHERE_REGISTER, ra, 0);
	else
		set_ra(p, UNWIND_WHERE_LOST, 0, 0);
}

/* The register is somewhere that rules do not know. */
static void set_lost(struct program *p, uint64_t number)
{
	enum column column = column_of(p, number);
	if (column == COLUMN_RA)
		set_ra(p, UNWIND_WHERE_LOST, 0, 0);
	else if (column == COLUMN_FP)
		set_fp(p, UNWIND_WHERE_LOST, 0, 0);
	else if (column == COLUMN_SP)
		set_sp(p, CFI_ODD_SP_MOVED);
	else if (column == COLUMN_RBX)
		set_rbx(p, UNWIND_RBX_LOST);
}

static void set_undefined(struct program *p, uint64_t number)
{
	if (column_of(p, number) == COLUMN_RA)
		set_ra(p, UNWIND_WHERE_LOST, 0, CFI_ODD_RA_UNDEFINED);
	else
		set_lost(p, number);
}

static void set_same(struct program *p, uint64_t number)
{
	enum column column = column_of(p, number);
	if (column == COLUMN_RA)
		set_ra_same(p);
	else if (column == COLUMN_FP)
		set_fp(p, UNWIND_WHERE_SAME, 0, 0);
	else if (column == COLUMN_SP)
		set_sp(p, CFI_ODD_SP_MOVED);
	else if (column == COLUMN_RBX)
		set_rbx(p, 0);
}

static void set_register(struct program *p, uint64_t number, uint64_t other)
{
	if (other == number)
		set_same(p, number);
	else if (column_of(p, number) == COLUMN_RA && other < p->reader->machine->registers)
		set_ra(p, UNWIND_WHERE_REGISTER, (int64_t)other, 0);
	else
		set_lost(p, number);
	if (column_of(p, number) == COLUMN_SP && other < p->reader->machine->registers && other != number) {
		p->state.sp_register = (uint8_t)other;
		set_sp(p, CFI_ODD_SP_REGISTER);
	}
}

/* The register's value is CFA + offset. */
static void set_value(struct program *p, uint64_t number, int64_t offset)
{
	if (column_of(p, number) == COLUMN_SP && offset == 0)
		set_sp(p, 0);
	else
		set_lost(p, number);
}

/* The register is saved where an expression says. */
static void set_expression(struct program *p, uint64_t number, struct cfi_cursor expression)
{
	const struct cfi_machine *machine = p->reader->machine;
	enum column column = column_of(p, number);
	uint64_t base;
	int64_t offset;
	set_lost(p, number);
	if (column == COLUMN_OTHER || !cfi_expression_is_base(expression, &base, &offset))
		return;
	if (column == COLUMN_FP && base == machine->fp && offset == (int16_t)offset) {
		set_fp(p, UNWIND_WHERE_FP, offset, 0);
	} else if (base == machine->sp && machine->machine == EM_X86_64) {
		if (column == COLUMN_RA && offset == SIGNAL_RA)
			p->state.odd |= CFI_ODD_RA_SIGNAL;
		else if (column == COLUMN_FP && offset == SIGNAL_FP)
			p->state.odd |= CFI_ODD_FP_SIGNAL;
		else if (column == COLUMN_SP && offset == SIGNAL_SP)
			set_sp(p, CFI_ODD_SP_SIGNAL);
	}
}

static int restore(struct program *p, uint64_t number)
{
	const struct cfi_state *initial = &p->cie->initial;
	const struct unwind_rule *rule = &initial->is.rule;
	if (unlikely(p->is_initial))
		return DAMAGED;
	enum column column = column_of(p, number);
	if (column == COLUMN_FP)
		set_fp(p, rule->fp, rule->fp_offset, initial->odd & CFI_ODD_FP);
	else if (column == COLUMN_RA)
		set_ra(p, rule->ra, rule->ra_offset, initial->odd & CFI_ODD_RA);
	else if (column == COLUMN_RBX)
		set_rbx(p, initial->rbx);
	if (column == COLUMN_SP) {
		p->state.sp_register = initial->sp_register;
		set_sp(p, initial->odd & CFI_ODD_SP);
	}
	return 0;
}

static int remember_state(struct program *p)
{
	if (p->depth == CFI_STATES_MAX)
		return DAMAGED;
	p->saved[p->depth++] = p->state;
	return 0;
}

static int restore_state(struct program *p)
{
	if (p->depth == 0)
		return DAMAGED;
	p->state = p->saved[--p->depth];
	return 0;
}

static bool read_block(struct program *p, struct cfi_cursor *ret)
{
	uint64_t len;
	if (!cfi_read_uleb(&p->cursor, &len) || len > (uint64_t)(p->cursor.end - p->cursor.at))
		return false;
	*ret = (struct cfi_cursor){p->cursor.at, p->cursor.at + len};
	p->cursor.at += len;
	return true;
}

/* Instructions whose operands are an unsigned number and perhaps a second one, signed for some. */
static int run_register(struct program *p, uint8_t op)
{
	uint64_t number, second = 0;
	int64_t second_signed = 0;
	if (!cfi_read_uleb(&p->cursor, &number))
		return DAMAGED;
	if (op == DW_CFA_offset_extended_sf || op == DW_CFA_def_cfa_sf || op == DW_CFA_val_offset_sf) {
		if (!cfi_read_sleb(&p->cursor, &second_signed))
			return DAMAGED;
	} else if (!cfi_read_uleb(&p->cursor, &second)) {
		return DAMAGED;
	}
	switch (op) {
	case DW_CFA_offset_extended: set_saved(p, number, factor_unsigned(p, second)); break;
	case DW_CFA_offset_extended_sf: set_saved(p, number, factor_signed(p, second_signed)); break;
	case DW_CFA_GNU_negative_offset_extended:
		set_saved(p, number, second > UINT32_MAX ? INT64_MAX : -factor_unsigned(p, second));
		break;
	case DW_CFA_val_offset: set_value(p, number, factor_unsigned(p, second)); break;
	case DW_CFA_val_offset_sf: set_value(p, number, factor_signed(p, second_signed)); break;
	case DW_CFA_register: set_register(p, number, second); break;
	case DW_CFA_def_cfa: set_cfa(p, number, second > INT32_MAX ? INT64_MAX : (int64_t)second); break;
	default: /* DW_CFA_def_cfa_sf */ set_cfa(p, number, factor_signed(p, second_signed));
	}
	return 0;
}

static int run_expression(struct program *p, uint8_t op)
{
	uint64_t number = 0;
	struct cfi_cursor block;
	if ((op != DW_CFA_def_cfa_expression && !cfi_read_uleb(&p->cursor, &number)) || !read_block(p, &block))
		return DAMAGED;
	if (op == DW_CFA_def_cfa_expression)
		cfi_expression_cfa(p->reader->machine, block, &p->state);
	else if (op == DW_CFA_expression)
		set_expression(p, number, block);
	else /* DW_CFA_val_expression */
		set_lost(p, number);
	return 0;
}

/* The CFA in an address space other than the one memory. */
static int run_address_space(struct program *p, uint8_t op)
{
	uint64_t number, offset, space;
	int64_t offset_signed;
	if (!cfi_read_uleb(&p->cursor, &number) ||
	    (op == DW_CFA_LLVM_def_aspace_cfa ? !cfi_read_uleb(&p->cursor, &offset)
					      : !cfi_read_sleb(&p->cursor, &offset_signed)) ||
	    !cfi_read_uleb(&p->cursor, &space))
		return DAMAGED;
	set_cfa(p, UINT64_MAX, 0);
	return 0;
}

static int run_one_operand(struct program *p, uint8_t op)
{
	uint64_t operand;
	int64_t offset;
	if (op == DW_CFA_def_cfa_offset_sf) {
		if (!cfi_read_sleb(&p->cursor, &offset))
			return DAMAGED;
		set_cfa_offset(p, factor_signed(p, offset));
		return 0;
	}
	if (!cfi_read_uleb(&p->cursor, &operand))
		return DAMAGED;
	if (op == DW_CFA_def_cfa_register)
		set_cfa_register(p, operand);
	else if (op == DW_CFA_restore_extended)
		return restore(p, operand);
	else if (op == DW_CFA_undefined)
		set_undefined(p, operand);
	else if (op == DW_CFA_same_value)
		set_same(p, operand);
	return 0; /* DW_CFA_GNU_args_size: matters to landing pads only */
}

static int run_other(struct program *p, uint8_t op)
{
	switch (op) {
	case DW_CFA_nop: return 0;
	case DW_CFA_advance_loc1: return advance_by(p, 1);
	case DW_CFA_advance_loc2: return advance_by(p, 2);
	case DW_CFA_advance_loc4: return advance_by(p, 4);
	case DW_CFA_MIPS_advance_loc8: return advance_by(p, 8);
	case DW_CFA_set_loc: return set_location(p);
	case DW_CFA_remember_state: return remember_state(p);
	case DW_CFA_restore_state: return restore_state(p);
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_GNU_args_size: return run_one_operand(p, op);
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_GNU_negative_offset_extended:
	case DW_CFA_register:
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf: return run_register(p, op);
	case DW_CFA_def_cfa_expression:
	case DW_CFA_expression:
	case DW_CFA_val_expression: return run_expression(p, op);
	case DW_CFA_LLVM_def_aspace_cfa:
	case DW_CFA_LLVM_def_aspace_cfa_sf: return run_address_space(p, op);
	case DW_CFA_AARCH64_negate_ra_state:
	case DW_CFA_AARCH64_negate_ra_state_with_pc: /* the walk strips signatures from every address */
		return p->reader->machine->machine == EM_AARCH64 ? 0 : DAMAGED;
	default: return DAMAGED;
	}
}

/* The three instructions that make up most of every section come first; the rest are calls. */
static int run(struct program *p)
{
	uint64_t operand;
	int r = 0;
	while (r == 0 && p->cursor.at < p->cursor.end) {
		uint8_t op = *p->cursor.at++;
		uint8_t low = op & 0x3f;
		if (op == DW_CFA_def_cfa_offset || (op & 0xc0) == DW_CFA_offset) {
			if (!cfi_read_uleb(&p->cursor, &operand))
				return DAMAGED;
			if (op == DW_CFA_def_cfa_offset)
				set_cfa_offset(p, operand > INT32_MAX ? INT64_MAX : (int64_t)operand);
			else
				set_saved(p, low, factor_unsigned(p, operand));
		} else if ((op & 0xc0) == DW_CFA_advance_loc) {
			r = advance(p, (uint64_t)low * p->cie->code_factor);
		} else if ((op & 0xc0) == DW_CFA_restore) {
			r = restore(p, low);
		} else {
			r = run_other(p, op);
		}
	}
	return r;
}

bool cfi_program_start(struct cfi_reader *reader, struct cfi_cie *cie, struct cfi_cursor instructions)
{
	struct program p;
	p.cursor = instructions;
	p.location = p.limit = p.end = 0;
	p.cie = cie;
	p.reader = reader;
	p.is_initial = true;
	p.has_landing = false;
	p.depth = 0;
	p.state = (struct cfi_state){.odd = CFI_ODD_CFA_UNKNOWN};
	set_ra_same(&p);
	/* Of the columns only these mean something; one register cannot be two of them. */
	if (cie->ra == reader->machine->fp || cie->ra == reader->machine->sp)
		return false;
	/* A location cannot move: there is none. */
	if (run(&p) != 0)
		return false;
	cie->initial = p.state;
	return true;
}

int cfi_program_run(struct cfi_reader *reader, const struct cfi_entry *entry, uint64_t end)
{
	static const union cfi_rule none;
	const struct cfi_cie *cie;
	struct program p;
	if (cfi_fde_read(reader, entry, &cie, &p.cursor) > 0) {
		int failed = cfi_emit(reader, entry->start, &none);
		return failed < 0 ? failed : 1;
	}
	p.location = entry->start;
	p.limit = end;
	p.end = entry->start + entry->len;
	p.cie = cie;
	p.reader = reader;
	p.is_initial = p.has_landing = false;
	p.start = entry->start;
	p.depth = 0;
	p.state = cie->initial;
	int r = run(&p);
	if (r == 0)
		return emit(&p);
	if (r != DAMAGED)
		return r == ENDED ? 0 : r;
	r = cfi_emit(reader, p.location, &none);
	return r < 0 ? r : 1;
}
