/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the reader of call frame information.
 *
 *   cfi_section.c     finds the sections, inflates them               -> struct cfi_source
 *   cfi_entries.c     CIEs and FDEs: what code they speak of          -> struct cfi_cie, struct cfi_entry
 *   cfi_plt.c         stubs that no FDE speaks of                     -> struct cfi_entry
 *   cfi_go.c          functions of Go by its own table                -> struct cfi_entry, rows
 *   cfi_program.c     runs the instructions of one of them            -> rows
 *   cfi_landing.c     where one of them overwrites its own frame      -> addresses
 *   cfi_expression.c  the few DWARF expressions that occur in them
 *   cfi_symbols.c     where functions begin that no entry speaks of   -> addresses
 *   cfi_code.c        what their code does to the stack	       -> rows
 *   cfi.c             puts these together
 */
#ifndef WICK_ELF_CFI_INT_H
#define WICK_ELF_CFI_INT_H

#include "base/limits.h"
#include "elf/cfi.h"

#define CFI_SEGMENTS_MAX    64 /* executed ones; those beyond are ignored, so that time per entry is bounded */
#define CFI_SOURCES_MAX	    4
#define CFI_STATES_MAX	    64	      /* depth of DW_CFA_remember_state; compilers use 1 or 2 */
#define CFI_FACTOR_MAX	    (1 << 15) /* of code and data alignment; real ones are 1, 4 and -8 */
#define CFI_STUB_RULES_MAX  64
#define CFI_STARTS_MAX	    (1u << 18)
#define CFI_CODE_RANGES_MAX 4096u     /* sections of code, as far as they are loaded */
#define CFI_CODE_BYTES_MAX  (2 * MIB) /* of code that is gone through because nothing speaks of it */
/* cfi_entry.kind of what has no FDE; others are the number of its source. */
#define CFI_GO_SPECIAL 5u /* a function of Go that changes stacks */
#define CFI_GO	       6u
#define CFI_STUB       7u

/* DWARF numbers of the registers that rules speak of. */
struct cfi_machine {
	uint16_t machine; /* EM_* */
	uint8_t registers, fp, sp, ra;
	int16_t rbx; /* -1 = none that is followed besides fp and sp */
};

/* A section. What may be read of a large one is what cfi_source_need() was asked for last. */
struct cfi_pages;
struct cfi_source {
	struct bytes data;	 /* owned, cfi_source_release() */
	struct cfi_pages *pages; /* NULL = it is in memory */
	uint64_t address;	 /* where it is loaded; for .eh_frame */
	uint64_t entry_bytes;	 /* of entries, as often as they were read */
	bool is_eh;		 /* the format of .eh_frame, not that of .debug_frame */
	bool has_no_end;	 /* its size is not known: it ends with its terminator, or before whatever is no entry */
};

/* What is known of a register's rule besides what struct unwind_rule can say. */
enum cfi_odd {
	CFI_ODD_CFA_EXPRESSION = 1u << 0, /* the CFA is given by an expression, if a supported one */
	CFI_ODD_CFA_UNKNOWN = 1u << 1,	  /* it is not given, or by something that is not supported */
	CFI_ODD_CFA_REGISTER = 1u << 2,	  /* it is based on a register that rules do not know */
	CFI_ODD_CFA_FAR = 1u << 3,	  /* its offset does not fit */
	CFI_ODD_RA_UNDEFINED = 1u << 4,
	CFI_ODD_RA_FAR = 1u << 5,
	CFI_ODD_RA_SIGNAL = 1u << 6, /* where the kernel's signal frame holds it */
	CFI_ODD_FP_SIGNAL = 1u << 7,
	CFI_ODD_SP_MOVED = 1u << 8, /* the caller's stack pointer is not the CFA */
	CFI_ODD_SP_SIGNAL = 1u << 9,
	CFI_ODD_SP_REGISTER = 1u << 10, /* it is in sp_register: longjmp() */
	CFI_ODD_RESULTS = 1u << 11,	/* rax is saved: a function that goes on in a landing pad (cfi_landing.c) */
};
#define CFI_ODD_CFA (CFI_ODD_CFA_EXPRESSION | CFI_ODD_CFA_UNKNOWN | CFI_ODD_CFA_REGISTER | CFI_ODD_CFA_FAR)
#define CFI_ODD_RA  (CFI_ODD_RA_UNDEFINED | CFI_ODD_RA_FAR | CFI_ODD_RA_SIGNAL)
#define CFI_ODD_FP  CFI_ODD_FP_SIGNAL
#define CFI_ODD_SP  (CFI_ODD_SP_MOVED | CFI_ODD_SP_SIGNAL | CFI_ODD_SP_REGISTER)

/* A rule as two words, because most rows are compared with the one before and are the same. */
union cfi_rule {
	struct unwind_rule rule;
	uint64_t words[2];
};
_Static_assert(sizeof(struct unwind_rule) == 2 * sizeof(uint64_t), "rules are compared as two words");

struct cfi_state {
	union cfi_rule is;
	uint8_t sp_register;  /* the caller's stack pointer is in it: CFI_ODD_SP_REGISTER */
	uint32_t odd;	      /* enum cfi_odd; 0 = `is` may be given out as it is */
	int32_t rbx;	      /* as in unwind_rule.offset2 */
	int64_t plain_offset; /* while the CFA is given by an expression: the last offset that was not part of one */
};

struct cfi_cie {
	struct cfi_state initial; /* behind its instructions */
	uint32_t offset;	  /* in its section */
	uint32_t code_factor;
	int32_t data_factor;
	uint32_t source;
	uint8_t ra;		 /* column of the return address */
	uint8_t encoding;	 /* DW_EH_PE_*, of addresses */
	bool has_length;	 /* FDEs have augmentation data, behind their length */
	bool is_signal, is_good; /* bad: its FDEs are left out */
};

/* An FDE, or stubs that share a rule. There are hundreds of thousands in a large library: what else an FDE says is read again
 * when it is run. */
struct cfi_entry {
	uint64_t start;
	uint32_t len;	     /* bytes of code */
	uint32_t kind : 3;   /* the source of the FDE, or CFI_STUB, CFI_GO, CFI_GO_SPECIAL */
	uint32_t place : 29; /* offset in the section; of CFI_STUB, index of the rule; of Go, of the function */
};
_Static_assert(CFI_SECTION_BYTES_MAX <= 1u << 29 && CFI_SOURCES_MAX <= CFI_GO_SPECIAL, "a place fits");
struct cfi_entries {
	struct cfi_entry *items;
	size_t count, capacity;
	bool is_sorted;
};

struct cfi_go;

struct cfi_range {
	uint64_t start, end;
	uint64_t offset; /* in the file; of code only */
};

struct cfi_reader {
	struct elf_file *file;
	const struct cfi_machine *machine;
	cfi_row_function *row;
	void *context;
	struct error *err;
	struct cfi_stats stats;
	struct cfi_range segments[CFI_SEGMENTS_MAX]; /* executed */
	size_t segment_count, last_segment;
	struct cfi_source sources[CFI_SOURCES_MAX];
	size_t source_count;
	struct cfi_cie *cies;
	size_t cie_count, cie_capacity, last_cie; /* last_cie: which was found last */
	struct cfi_entries entries;
	struct cfi_go *go; /* NULL: no program of Go */
	union cfi_rule stub_rules[CFI_STUB_RULES_MAX];
	size_t stub_rule_count;
	uint64_t *starts; /* of functions that no entry covers, by symbols; sorted */
	size_t start_count, start_capacity;
	struct cfi_range *code; /* that is in the file, by its start; cfi_code.c fills it when it is first asked */
	size_t code_count, code_capacity, next_code;
	bool has_code;
	unsigned landing_count; /* functions that cfi_landing_find() went through */
	bool listed_only;	/* code that nothing speaks of is not gone through */
	union cfi_rule last;	/* of the last row given out; zero is UNWIND_CFA_NONE */
};

/* cfi_pages.c */
/* Sets data and pages. what: for messages. */
int cfi_source_open(struct cfi_reader *reader, uint64_t offset, uint64_t len, const char *what, struct cfi_source *source);
void cfi_source_release(struct cfi_source *source);
int cfi_source_read(struct cfi_reader *reader, struct cfi_source *source, size_t at, size_t len);
bool cfi_source_has(const struct cfi_source *source, size_t at, size_t len);
/* Makes a range readable until the next call, at least. 0, or negative if it lies outside or cannot be read. */
static inline int cfi_source_need(struct cfi_reader *reader, struct cfi_source *source, size_t at, size_t len)
{
	return cfi_source_has(source, at, len) ? 0 : cfi_source_read(reader, source, at, len);
}

/* A place in a section, and what may be read behind it. Readers return false at the end or past 64 bits; the place is then of
 * no use. */
struct cfi_cursor {
	const uint8_t *at, *end;
};

bool cfi_read_uleb_slow(struct cfi_cursor *cursor, uint64_t *ret);
bool cfi_read_sleb(struct cfi_cursor *cursor, int64_t *ret);
bool cfi_read_fixed(struct cfi_cursor *cursor, size_t bytes, uint64_t *ret); /* little-endian, 1 to 8 */
bool cfi_read_signed(struct cfi_cursor *cursor, size_t bytes, uint64_t *ret);
/* An address or a length by its encoding (DW_EH_PE_*); `address` is that of the field. False also for encodings whose base is
 * not agreed upon (see cfi_entries.c). */
bool cfi_read_encoded(struct cfi_cursor *cursor, uint8_t encoding, uint64_t address, uint64_t *ret);

static inline bool cfi_read_uleb(struct cfi_cursor *cursor, uint64_t *ret)
{
	if (cursor->at < cursor->end && *cursor->at < 0x80) {
		*ret = *cursor->at++;
		return true;
	}
	return cfi_read_uleb_slow(cursor, ret);
}

/* cfi_section.c: fills reader->sources. */
int cfi_sources_load(struct cfi_reader *reader);

/* cfi_entries.c: appends the FDEs of a source, in the order of the section. */
int cfi_entries_read(struct cfi_reader *reader, uint32_t source, struct cfi_entries *entries);
int cfi_entries_append(struct cfi_reader *reader, struct cfi_entries *entries, const struct cfi_entry *entry);
/* Sorts by start; of equal ones the last of the section stays. */
void cfi_entries_sort(struct cfi_entries *entries);
/* What an FDE that was appended says. Returns 1 if it is not there any more: the file has changed. */
int cfi_fde_read(struct cfi_reader *reader, const struct cfi_entry *entry, const struct cfi_cie **ret_cie,
		 struct cfi_cursor *ret_program);
/* Adds those of `more` whose start no entry covers. Both must be sorted. */
int cfi_entries_fill(struct cfi_reader *reader, struct cfi_entries *entries, const struct cfi_entries *more);
/* Whether code at this address is executed. */
bool cfi_is_code(struct cfi_reader *reader, uint64_t address, uint64_t *ret_end);

/* cfi_plt.c: appends an entry for the code at the file's entry point, if it is known and nothing calls it. */
int cfi_entry_point_read(struct cfi_reader *reader, struct cfi_entries *entries);
/* cfi_plt.c: appends entries for the stubs of linkage tables. */
int cfi_plt_read(struct cfi_reader *reader, struct cfi_entries *entries);

/* cfi_go.c: sets reader->go, and appends the functions of a program of Go. */
int cfi_go_read(struct cfi_reader *reader, struct cfi_entries *entries);
void cfi_go_release(struct cfi_reader *reader);
/* Gives out the rows of one of them up to `end`. Returns as cfi_program_run(). */
int cfi_go_run(struct cfi_reader *reader, const struct cfi_entry *entry, uint64_t end);

/* cfi_symbols.c: fills reader->starts, once the entries are sorted. */
int cfi_symbols_read(struct cfi_reader *reader);
/* cfi_code.c: gives out the rows of [start, end), of which no entry speaks. */
int cfi_code_run(struct cfi_reader *reader, uint64_t start, uint64_t end);

/* cfi_program.c: runs a CIE's instructions for its initial state; false if they are damaged. */
bool cfi_program_start(struct cfi_reader *reader, struct cfi_cie *cie, struct cfi_cursor instructions);
/* Gives out the rows of an FDE up to `end`. Returns 0, 1 if it is damaged, or a negative error. */
int cfi_program_run(struct cfi_reader *reader, const struct cfi_entry *entry, uint64_t end);

/* cfi_landing.c: where in a function that goes on in a landing pad the registers that it saved are no longer its caller's;
 * false if that is not known. */
bool cfi_landing_find(struct cfi_reader *reader, uint64_t start, uint64_t end, struct cfi_range *ret);

/* cfi_expression.c: sets the CFA's part of the state. */
void cfi_expression_cfa(const struct cfi_machine *machine, struct cfi_cursor expression, struct cfi_state *state);
/* True for a single "register + offset". */
bool cfi_expression_is_base(struct cfi_cursor expression, uint64_t *ret_register, int64_t *ret_offset);

/* cfi.c: gives out a row that differs from the last one. */
int cfi_put_row(struct cfi_reader *reader, uint64_t address, const union cfi_rule *rule);

static inline int cfi_emit(struct cfi_reader *reader, uint64_t address, const union cfi_rule *rule)
{
	if (rule->words[0] == reader->last.words[0] && rule->words[1] == reader->last.words[1])
		return 0;
	return cfi_put_row(reader, address, rule);
}

#endif
