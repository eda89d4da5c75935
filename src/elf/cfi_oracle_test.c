/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of real files against those of readelf (binutils), at every address at which either of them says something new. What
 * readelf shows as "exp", an expression, is looked up in the text of llvm-dwarfdump, which prints them; that one is not the
 * oracle for all rows, because version 14 does not restore the CFA with DW_CFA_restore_state.
 *
 * Their text is turned into rules here, in the plainest way, without any of the code that is tested.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/test_programs.h"
#include "elf/cfi.h"

/* In rules of oracles: given by an expression. */
#define EXPRESSION 100

struct row {
	uint64_t address;
	uint64_t start, end; /* of its function; oracles only */
	struct unwind_rule rule;
};
struct rows {
	struct row *items;
	size_t count, capacity;
};

static void add_row(struct rows *rows, struct row row)
{
	assert_int_equal(array_reserve(&rows->items, &rows->capacity, rows->count + 1, SIZE_MAX / 64), 0);
	rows->items[rows->count++] = row;
}

static int take_row(void *context, uint64_t address, const struct unwind_rule *rule)
{
	struct rows *rows = context;
	if (rows->count > 0) {
		const struct row *last = &rows->items[rows->count - 1];
		assert_true(address > last->address);
		assert_memory_not_equal(rule, &last->rule, sizeof(*rule));
	} else {
		assert_int_not_equal(rule->cfa, UNWIND_CFA_NONE);
	}
	add_row(rows, (struct row){.address = address, .rule = *rule});
	return 0;
}

/* ---- llvm-dwarfdump
 * ------------------------------------------------------------------------------------------------------------ */

/* Registers by their DWARF number. */
static const char *const x86_64_names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
					   "r8",  "r9",	 "r10", "r11", "r12", "r13", "r14", "r15"};
static const char *const aarch64_names[] = {"x0",  "x1",  "x2",	 "x3",	"x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10",
					    "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",
					    "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp"};
/* How llvm-dwarfdump writes them. */
static const char *const x86_64_llvm_names[] = {"RAX", "RDX", "RCX", "RBX", "RSI", "RDI", "RBP", "RSP",
						"R8",  "R9",  "R10", "R11", "R12", "R13", "R14", "R15"};
static const char *const aarch64_llvm_names[] = {"W0",	"W1",  "W2",  "W3",  "W4",  "W5",  "W6",  "W7",	 "W8",	"W9",  "W10",
						 "W11", "W12", "W13", "W14", "W15", "W16", "W17", "W18", "W19", "W20", "W21",
						 "W22", "W23", "W24", "W25", "W26", "W27", "W28", "W29", "W30", "WSP"};
struct names {
	uint16_t machine;
	const char *llvm_ra, *const *names, *const *llvm_names;
	int count, fp, sp, ra;
};
static const struct names machines[] = {
	{EM_X86_64, "RIP", x86_64_names, x86_64_llvm_names, 16, 6, 7, 16},
	{EM_AARCH64, "W30", aarch64_names, aarch64_llvm_names, 32, 29, 31, 30},
};

/* "RSP", "RSP+8", "RSP-8", followed by anything in `ends`. */
static bool parse_base(const struct names *machine, const char *const *names, const char *text, const char *ends,
		       int *ret_register, int64_t *ret_offset, const char **ret_end)
{
	size_t len = strcspn(text, "+-,:]");
	for (int i = 0; i < machine->count; i++) {
		if (strlen(names[i]) != len || strncmp(names[i], text, len) != 0)
			continue;
		char *end = (char *)text + len;
		*ret_register = i;
		*ret_offset = 0;
		if (*end == '+' || *end == '-')
			*ret_offset = strtoll(end, &end, 10);
		*ret_end = end;
		return *end == 0 || strchr(ends, *end) != NULL;
	}
	return false;
}

/* The text behind "CFA=" if it is an expression: of its sums, what they mean; else UNWIND_CFA_UNSUPPORTED. */
static struct unwind_rule parse_expression(const struct names *names, const char *text)
{
	static const char plt[] = ", DW_OP_breg16 RIP+0, DW_OP_lit15, DW_OP_and, DW_OP_lit";
	struct unwind_rule unsupported = {.cfa = UNWIND_CFA_UNSUPPORTED}, rule = {.cfa = UNWIND_CFA_REGISTER};
	int number, op_number;
	int64_t offset;
	const char *end;
	if (sscanf(text, "DW_OP_breg%d ", &op_number) != 1 ||
	    !parse_base(names, names->llvm_names, strchr(text, ' ') + 1, ",:", &number, &offset, &end) || number != op_number)
		return unsupported;
	rule.cfa_register = (uint8_t)number;
	rule.offset = (int32_t)offset;
	if (strncmp(end, plt, strlen(plt)) == 0) {
		rule.cfa = UNWIND_CFA_PLT;
		rule.offset2 = (int32_t)strtol(end + strlen(plt), NULL, 10);
		return strstr(end, ", DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus:") ? rule : unsupported;
	}
	int index, used = 0;
	if (sscanf(end, ", DW_OP_breg%d %*[A-Z0-9]+0, DW_OP_lit8, DW_OP_mul, DW_OP_plus%n", &index, &used) == 1 && used > 0 &&
	    strncmp(end + used, ", DW_OP_deref", 13) == 0 && index < 16) {
		rule.cfa = UNWIND_CFA_INDEXED;
		rule.cfa_register |= (uint8_t)(index << 4);
		end += used;
	}
	if (strncmp(end, ", DW_OP_deref", 13) == 0) {
		rule.cfa = rule.cfa == UNWIND_CFA_INDEXED ? UNWIND_CFA_INDEXED : UNWIND_CFA_DEREFERENCE;
		end += 13;
		if (strncmp(end, ", DW_OP_plus_uconst 0x", 22) == 0)
			rule.offset2 = (int32_t)strtoll(end + 20, (char **)&end, 16);
	}
	return *end == ':' ? rule : unsupported;
}

/* The text behind "NAME=" among the registers of a row, NULL if there is none. */
static const char *find_register(const char *line, const char *name)
{
	size_t len = strlen(name);
	int depth = 0;
	for (const char *p = line; *p; p++) {
		depth += (*p == '[') - (*p == ']');
		if (depth == 0 && *p == ' ' && strncmp(p + 1, name, len) == 0 && p[1 + len] == '=')
			return p + len + 2;
	}
	return NULL;
}

/* Whatever is given by expressions in "CFA=...: REGISTER=..., ...". */
static struct unwind_rule parse_expressions(const struct names *names, const char *text)
{
	struct unwind_rule rule = {0};
	const char *fp = find_register(text, names->llvm_names[names->fp]), *ra = find_register(text, names->llvm_ra), *end;
	int number;
	int64_t offset;
	if (strncmp(text, "CFA=DW_OP_", 10) == 0)
		rule = parse_expression(names, text + 4);
	if (strncmp(text, "CFA=DW_OP_breg7 RSP+160, DW_OP_deref: ", 38) == 0 && ra && strcmp(ra, "[DW_OP_breg7 RSP+168]") == 0)
		return (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
	rule.fp = rule.ra = UNWIND_WHERE_LOST;
	if (fp && sscanf(fp, "[DW_OP_breg%d ", &number) == 1 && number == names->fp &&
	    parse_base(names, names->llvm_names, strchr(fp, ' ') + 1, "]", &number, &offset, &end)) {
		rule.fp = UNWIND_WHERE_FP;
		rule.fp_offset = (int16_t)offset;
	}
	return rule;
}

static FILE *run(const char *command, const char *path)
{
	char text[600];
	assert_true((size_t)snprintf(text, sizeof(text), "%s '%s' 2>/dev/null", command, path) < sizeof(text));
	FILE *out = popen(text, "r");
	assert_non_null(out);
	return out;
}

/* Rows of llvm-dwarfdump in which there are expressions. */
static void read_expressions(const struct names *names, const char *path, bool is_eh, struct rows *rows)
{
	FILE *out = run(is_eh ? "llvm-dwarfdump --eh-frame" : "llvm-dwarfdump --debug-frame", path);
	char *line = NULL;
	size_t capacity = 0;
	uint64_t start = 0, address;
	bool is_wanted = false;
	while (getline(&line, &capacity, out) > 0) {
		int at = 0;
		line[strcspn(line, "\n")] = 0;
		if (strstr(line, "_frame contents:"))
			is_wanted = strncmp(line, is_eh ? ".eh" : ".de", 3) == 0;
		const char *fde = strstr(line, " FDE cie=");
		if (fde)
			assert_int_equal(sscanf(fde, " FDE cie=%*x pc=%" SCNx64, &start), 1);
		else if (is_wanted && strstr(line, "DW_OP_") && sscanf(line, " 0x%" SCNx64 ": %nCFA=", &address, &at) == 1 &&
			 at)
			add_row(rows,
				(struct row){.address = address, .start = start, .rule = parse_expressions(names, line + at)});
	}
	free(line);
	pclose(out);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static const struct row *find_row(const struct rows *sorted, const struct row *key)
{
	return sorted->count == 0 ? NULL : bsearch(key, sorted->items, sorted->count, sizeof(*key), compare_rows);
}

static void sort_rows(struct rows *rows)
{
	if (rows->count > 0)
		qsort(rows->items, rows->count, sizeof(*rows->items), compare_rows);
}

/* ---- readelf ------------------------------------------------------------------------------------------------------------ */

#define COLUMNS_MAX 64
#define CIES_MAX    4096

struct columns {
	char *items[COLUMNS_MAX];
	int count;
};
struct cie {
	uint64_t offset;
	bool is_signal;
	struct unwind_rule rule;
};
struct listing { /* of one section */
	const struct names *names;
	struct rows *rows;
	struct cie *cies; /* CIES_MAX */
	size_t cie_count;
	struct cie *current; /* of the entry that is being read */
	uint64_t start, end;
	bool is_fde, has_rows;
	struct columns heads;
	char *head_line;
};

static void split(char *line, struct columns *ret)
{
	ret->count = 0;
	for (char *word; (word = strsep(&line, " \n"));) {
		if (*word == 0 || *word == '(') /* "r3 (rbx)" */
			continue;
		assert_true(ret->count < COLUMNS_MAX);
		ret->items[ret->count++] = word;
	}
}

static const char *column(const struct listing *listing, const struct columns *values, const char *name)
{
	for (int i = 0; i < listing->heads.count && i < values->count; i++)
		if (strcmp(listing->heads.items[i], name) == 0)
			return values->items[i];
	return "u";
}

static void parse_column(const struct listing *listing, const char *text, bool is_ra, uint8_t *ret_where, int16_t *ret_offset)
{
	bool is_x86 = listing->names->machine == EM_X86_64;
	int number;
	*ret_offset = 0;
	*ret_where = UNWIND_WHERE_LOST;
	if (strcmp(text, "exp") == 0) {
		*ret_where = EXPRESSION;
	} else if (strcmp(text, "u") == 0 || strcmp(text, "s") == 0) { /* unset is shown as undefined */
		*ret_where = is_ra && is_x86 ? UNWIND_WHERE_LOST : UNWIND_WHERE_SAME;
	} else if (sscanf(text, "c%d", &number) == 1) {
		*ret_where = UNWIND_WHERE_CFA;
		*ret_offset = (int16_t)number;
	} else if (is_ra && sscanf(text, is_x86 ? "r%d" : "x%d", &number) == 1) {
		*ret_where = UNWIND_WHERE_REGISTER;
		*ret_offset = (int16_t)number;
	}
}

/* As in unwind_rule.offset2. */
static int32_t parse_rbx(const struct listing *listing, const struct columns *values)
{
	const char *text = listing->names->machine == EM_X86_64 ? column(listing, values, "rbx") : "u";
	int number;
	if (strcmp(text, "u") == 0 || strcmp(text, "s") == 0)
		return 0;
	return sscanf(text, "c%d", &number) == 1 ? number : UNWIND_RBX_LOST;
}

static struct unwind_rule parse_row(const struct listing *listing, const struct columns *values)
{
	const struct names *names = listing->names;
	struct unwind_rule rule = {0};
	const char *cfa = column(listing, values, "CFA"), *ra = column(listing, values, "ra"), *end;
	const char *sp = column(listing, values, names->names[names->sp]);
	int number;
	int64_t offset;
	if (strcmp(ra, "u") == 0 && names->machine == EM_X86_64)
		return (struct unwind_rule){.cfa = UNWIND_CFA_END};
	if (strcmp(cfa, "exp") == 0) {
		rule.cfa = EXPRESSION;
	} else if (parse_base(names, names->names, cfa, "", &number, &offset, &end)) {
		rule.cfa = UNWIND_CFA_REGISTER;
		rule.cfa_register = (uint8_t)number;
		rule.offset = (int32_t)offset;
	} else {
		rule.cfa = UNWIND_CFA_UNSUPPORTED;
	}
	int sp_register, ra_register;
	if (sscanf(sp, "r%d", &sp_register) == 1 && sscanf(ra, "r%d", &ra_register) == 1) { /* longjmp() */
		rule = (struct unwind_rule){
			.cfa = UNWIND_CFA_REGISTER, .cfa_register = (uint8_t)sp_register, .offset2 = UNWIND_RBX_LOST};
		parse_column(listing, ra, true, &rule.ra, &rule.ra_offset);
		parse_column(listing, column(listing, values, names->names[names->fp]), false, &rule.fp, &rule.fp_offset);
		return rule;
	}
	if (strcmp(sp, "u") != 0 && strcmp(sp, "v+0") != 0 && !(strcmp(sp, "exp") == 0 && listing->current->is_signal))
		rule.cfa = UNWIND_CFA_UNSUPPORTED;
	if (rule.cfa == UNWIND_CFA_UNSUPPORTED)
		return (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
	rule.offset2 = parse_rbx(listing, values); /* of an expression: until it is put in its place */
	parse_column(listing, ra, true, &rule.ra, &rule.ra_offset);
	parse_column(listing, column(listing, values, names->names[names->fp]), false, &rule.fp, &rule.fp_offset);
	return rule;
}

/* An FDE without instructions has no table: the CIE's row holds. */
static void finish_entry(struct listing *listing)
{
	if (listing->is_fde && !listing->has_rows && listing->start != 0)
		add_row(listing->rows, (struct row){.address = listing->start,
						    .start = listing->start,
						    .end = listing->end,
						    .rule = listing->current->rule});
	listing->is_fde = listing->has_rows = false;
}

static void read_entry_line(struct listing *listing, const char *line)
{
	const char *fde = strstr(line, " FDE cie="), *cie = strstr(line, " CIE \"");
	uint64_t offset;
	finish_entry(listing);
	listing->heads.count = 0;
	if (cie) {
		assert_true(listing->cie_count < CIES_MAX);
		listing->current = &listing->cies[listing->cie_count++];
		char *end = strchr(cie + 6, '"');
		*listing->current = (struct cie){.offset = strtoull(line, NULL, 16),
						 .is_signal = memchr(cie + 6, 'S', (size_t)(end - cie - 6)) != NULL};
		return;
	}
	assert_int_equal(sscanf(fde, " FDE cie=%" SCNx64 " pc=%" SCNx64 "..%" SCNx64, &offset, &listing->start, &listing->end),
			 3);
	listing->current = NULL;
	for (size_t i = 0; i < listing->cie_count; i++)
		if (listing->cies[i].offset == offset)
			listing->current = &listing->cies[i];
	assert_non_null(listing->current);
	listing->is_fde = true;
}

static void read_line(struct listing *listing, char *line)
{
	uint64_t address;
	struct columns values;
	if (strstr(line, " FDE cie=") || strstr(line, " CIE \"")) {
		read_entry_line(listing, line);
	} else if (strncmp(line, "   LOC ", 7) == 0) {
		free(listing->head_line);
		listing->head_line = strdup(line);
		split(listing->head_line, &listing->heads);
	} else if (listing->heads.count > 0 && strspn(line, "0123456789abcdef") == 16 &&
		   sscanf(line, "%16" SCNx64, &address) == 1) {
		split(line, &values);
		struct unwind_rule rule = parse_row(listing, &values);
		if (!listing->is_fde)
			listing->current->rule = rule;
		else if (listing->start != 0)
			add_row(listing->rows,
				(struct row){.address = address, .start = listing->start, .end = listing->end, .rule = rule});
		listing->has_rows = true;
	}
}

static void read_listing(const struct names *names, const char *path, bool is_eh, struct rows *rows)
{
	struct listing listing = {.names = names, .rows = rows, .cies = calloc(CIES_MAX, sizeof(struct cie))};
	FILE *out = run("readelf -W --debug-dump=frames-interp,no-follow-links", path);
	char *line = NULL;
	size_t capacity = 0;
	bool is_wanted = false;
	while (getline(&line, &capacity, out) > 0) {
		if (strncmp(line, "Contents of the ", 16) == 0)
			is_wanted = (strstr(line, "eh_frame section") != NULL) == is_eh;
		else if (is_wanted)
			read_line(&listing, line);
	}
	finish_entry(&listing);
	free(line);
	free(listing.head_line);
	free(listing.cies);
	pclose(out);
}

/* Puts what llvm-dwarfdump says in the place of "exp". */
static void resolve_expressions(const struct names *names, const char *path, struct rows *rows)
{
	struct rows texts = {0};
	read_expressions(names, path, true, &texts);
	read_expressions(names, path, false, &texts);
	sort_rows(&texts);
	for (size_t i = 0; i < rows->count; i++) {
		struct unwind_rule *rule = &rows->items[i].rule;
		if (rule->cfa != EXPRESSION && rule->fp != EXPRESSION && rule->ra != EXPRESSION)
			continue;
		const struct row *row = find_row(&texts, &rows->items[i]);
		if (!row) /* its row differs, for the reason given above */
			continue;
		if (rule->fp == EXPRESSION) {
			rule->fp = row->rule.fp;
			rule->fp_offset = row->rule.fp_offset;
		}
		if (rule->ra == EXPRESSION)
			rule->ra = row->rule.ra;
		if (rule->cfa == EXPRESSION &&
		    (row->rule.cfa == UNWIND_CFA_SIGNAL || row->rule.cfa == UNWIND_CFA_UNSUPPORTED)) {
			*rule = (struct unwind_rule){.cfa = row->rule.cfa};
		} else if (rule->cfa == EXPRESSION && row->rule.cfa != 0) {
			rule->cfa = row->rule.cfa;
			rule->cfa_register = row->rule.cfa_register;
			rule->offset = row->rule.offset;
			if (row->rule.cfa != UNWIND_CFA_REGISTER)
				rule->offset2 = row->rule.offset2;
		}
	}
	mem_free(texts.items);
}

/* ---- comparison --------------------------------------------------------------------------------------------------------- */

/* Functions as intervals, gaps as rows of no rule, equal neighbours as one. */
static void flatten(const struct rows *from, struct rows *ret)
{
	uint64_t end = 0;
	struct unwind_rule none = {0}, last = none;
	for (size_t i = 0; i < from->count; i++) {
		const struct row *row = &from->items[i];
		if (i == 0 || row->start != from->items[i - 1].start) {
			if (end < row->start && memcmp(&last, &none, sizeof(none)) != 0) {
				add_row(ret, (struct row){.address = end, .rule = none});
				last = none;
			}
			end = row->end;
		}
		if (memcmp(&last, &row->rule, sizeof(last)) != 0)
			add_row(ret, *row);
		last = row->rule;
	}
	if (memcmp(&last, &none, sizeof(none)) != 0)
		add_row(ret, (struct row){.address = end, .rule = none});
}

static void print_row(const char *who, const struct row *row)
{
	const struct unwind_rule *r = &row->rule;
	print_message("  %s: %" PRIx64 " cfa %u r%u %d %d ra %u %d fp %u %d\n", who, row->address, r->cfa, r->cfa_register,
		      r->offset, r->offset2, r->ra, r->ra_offset, r->fp, r->fp_offset);
}

/* The rule at an address; none before the first row. */
static struct row row_at(const struct rows *rows, uint64_t address)
{
	size_t low = 0, high = rows->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (rows->items[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 ? (struct row){.address = address} : rows->items[low - 1];
}

/* What the oracle knows nothing of: stubs, and the end of stacks at the entry point. */
static bool is_stub(const struct elf_file *file, uint64_t address)
{
	if (file && file->entry && address - file->entry < 64)
		return true;
	for (size_t i = 0; file && i < file->section_count; i++)
		if (strncmp(file->sections[i].name, ".plt", 4) == 0 &&
		    address - file->sections[i].address < file->sections[i].size)
			return true;
	return false;
}

/* The oracles may leave open what the expression of a CFA is; all else must be the same. */
static bool is_same(const struct unwind_rule *ours, const struct unwind_rule *theirs)
{
	if (theirs->cfa != EXPRESSION)
		return memcmp(ours, theirs, sizeof(*ours)) == 0;
	return ours->cfa == UNWIND_CFA_UNSUPPORTED || (ours->ra == theirs->ra && ours->ra_offset == theirs->ra_offset &&
						       ours->fp == theirs->fp && ours->fp_offset == theirs->fp_offset);
}

/* A rule that was found by going through code: oracles know nothing of it; where both sides have a rule it must be the same
 * CFA. */
static bool agrees_with_code(const struct row *a, const struct row *b, uint64_t address)
{
	const struct unwind_rule *ours = &a->rule, *theirs = &b->rule;
	if (theirs->cfa & UNWIND_RULE_ANALYSED) {
		ours = &b->rule;
		theirs = &a->rule;
	}
	if (!(ours->cfa & UNWIND_RULE_ANALYSED) || theirs->cfa == UNWIND_CFA_NONE)
		return ours->cfa & UNWIND_RULE_ANALYSED;
	int32_t offset = theirs->offset;
	if (theirs->cfa == UNWIND_CFA_PLT && (int)(address & 15) >= theirs->offset2)
		offset += 8;
	return ours->cfa_register == theirs->cfa_register && ours->offset == offset;
}

static bool has_same_cfa(const struct unwind_rule *ours, const struct unwind_rule *theirs)
{
	return (ours->cfa & ~UNWIND_RULE_LEAVES) == UNWIND_CFA_REGISTER && theirs->cfa == UNWIND_CFA_REGISTER &&
	       ours->cfa_register == theirs->cfa_register && ours->offset == theirs->offset && ours->ra == theirs->ra &&
	       ours->ra_offset == theirs->ra_offset;
}

/*
 * What ours say on purpose and CFI does not: rbp and rbx, which libgcc overwrites where it goes on in a landing pad, and which
 * Go does not keep over a call; functions of Go that go over to another stack; and what pads functions of Go. has_own: of the
 * last but one, and of libgcc's, there are few.
 */
static bool is_on_purpose(const struct row *a, const struct row *b, const struct elf_file *file, bool *has_own)
{
	bool is_go = elf_file_find_section(file, ".gopclntab") != NULL;
	*has_own = !is_go || !has_same_cfa(&a->rule, &b->rule);
	if (is_go && b->rule.cfa == UNWIND_CFA_NONE) {
		*has_own = false;
		return true;
	}
	return is_go || (has_same_cfa(&a->rule, &b->rule) && b->rule.offset2 < 0 &&
			 (a->rule.offset2 == 0 || (a->rule.offset2 == UNWIND_RBX_LOST && a->rule.fp == UNWIND_WHERE_LOST)));
}
#define OWN_MAX 60 /* rows of one file */

/* At every address at which either of them changes. Stubs of `file` that the oracle knows nothing of are compared elsewhere. */
static size_t count_differences(const struct rows *at, const struct rows *ours, const struct rows *theirs,
				const struct elf_file *file)
{
	size_t differences = 0, open = 0, own = 0;
	for (size_t i = 0; i < at->count && differences < 5; i++) {
		bool has_own;
		uint64_t address = at->items[i].address;
		struct row a = row_at(ours, address), b = row_at(theirs, address);
		open += b.rule.cfa == EXPRESSION;
		if (is_same(&a.rule, &b.rule) || agrees_with_code(&a, &b, address) ||
		    (b.rule.cfa == UNWIND_CFA_NONE && is_stub(file, address)))
			continue;
		if (is_on_purpose(&a, &b, file, &has_own) && (own += has_own) <= OWN_MAX)
			continue;
		print_message("at %" PRIx64 "\n", address);
		print_row("ours  ", &a);
		print_row("theirs", &b);
		differences++;
	}
	if (open > 0)
		print_message("  %zu expressions are not compared\n", open);
	return differences;
}

/* ---- files --------------------------------------------------------------------------------------------------------------- */

static void compare_with_oracles(struct elf_file *file, const char *path, size_t rows_min)
{
	struct error err = {0};
	struct rows ours = {0}, text = {0}, theirs = {0};
	struct cfi_stats stats;
	const struct names *names = &machines[file->machine == EM_AARCH64];
	if (cfi_read(file, take_row, &ours, &stats, &err) < 0)
		fail_msg("%s", err.message);
	/* .debug_frame, where there is one, speaks of other functions in all the files here. */
	read_listing(names, path, true, &text);
	read_listing(names, path, false, &text);
	sort_rows(&text);
	resolve_expressions(names, path, &text);
	flatten(&text, &theirs);
	print_message("%s: %zu rows, the oracle has %zu\n", path, ours.count, theirs.count);
	assert_int_equal(count_differences(&ours, &ours, &theirs, file), 0);
	assert_int_equal(count_differences(&theirs, &ours, &theirs, file), 0);
	assert_true(theirs.count >= rows_min);
	assert_int_equal(stats.rows, ours.count);
	assert_int_equal(stats.bad_entries, 0);
	mem_free(ours.items);
	mem_free(text.items);
	mem_free(theirs.items);
}

static void check_file(const char *path, size_t rows_min)
{
	struct elf_file file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		print_message("skipped: there is no %s\n", path);
		return;
	}
	assert_int_equal(elf_file_open(&file, fd, path, NULL), 0);
	compare_with_oracles(&file, path, rows_min);
	elf_file_release(&file);
	close(fd);
}

/* Against objdump: the CFA at each instruction of .plt is what was pushed since the stub began. */
static void check_stubs(const char *path, size_t instructions_min)
{
	struct elf_file file;
	struct rows ours = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_file_open(&file, fd, path, NULL), 0);
	assert_int_equal(cfi_read(&file, take_row, &ours, NULL, NULL), 0);
	FILE *out = run("objdump -d -j .plt --no-show-raw-insn", path);
	char *line = NULL;
	size_t capacity = 0, count = 0;
	int pushed = 0;
	bool is_after_jump = true;
	while (getline(&line, &capacity, out) > 0) {
		uint64_t address;
		char mnemonic[16], operand[16] = "";
		if (sscanf(line, " %" SCNx64 ":\t%15s %15s", &address, mnemonic, operand) < 2)
			continue;
		if (strstr(line, "nop") || strstr(line, "xchg"))
			continue;
		if (strcmp(mnemonic, "bnd") == 0)
			memcpy(mnemonic, operand, sizeof(mnemonic));
		/* The head is entered by stubs that have pushed. What follows a jump in a lazy stub is entered by its slot. */
		if (is_after_jump)
			pushed = count == 0 && strcmp(mnemonic, "push") == 0 ? 8 : 0;
		const struct unwind_rule rule = row_at(&ours, address).rule;
		assert_true(rule.cfa == UNWIND_CFA_REGISTER || rule.cfa == UNWIND_CFA_PLT);
		int cfa = rule.offset;
		if (rule.cfa == UNWIND_CFA_PLT && (int)(address & 15) >= rule.offset2)
			cfa += 8;
		assert_int_equal(cfa, 8 + pushed);
		pushed += strcmp(mnemonic, "push") == 0 ? 8 : 0;
		is_after_jump = strcmp(mnemonic, "jmp") == 0;
		count++;
	}
	assert_true(count >= instructions_min);
	free(line);
	pclose(out);
	mem_free(ours.items);
	elf_file_release(&file);
	close(fd);
}

#define LIBS "/usr/lib/x86_64-linux-gnu/"

static void test_libraries(void **state)
{
	check_file(LIBS "libc.so.6", 10000);
	check_file(LIBS "ld-linux-x86-64.so.2", 1000);
	check_file(LIBS "libstdc++.so.6", 10000);
	check_file(LIBS "libcrypto.so.3", 10000);
}

/* ---- programs made here -------------------------------------------------------------------------------------------------- */

static char directory[] = "/tmp/wick-cfi-XXXXXX";

static const char source[] =
	"extern int far(void *, ...);\n"
	"static int grow(int n) { char b[n + 1]; return far(b) + 1; }\n"
	"__attribute__((noinline)) int recurse(int n) { return n > 3 ? grow(n) + recurse(n - 1) : far(&n); }\n"
	"int realigned(int n) { char b[64] __attribute__((aligned(64))); return far(b) + recurse(n) + far(b); }\n"
	"int realigned_and_grown(int n, ...) { char b[64] __attribute__((aligned(64))), c[n]; __builtin_va_list l;\n"
	"  __builtin_va_start(l, n); return far(b, c, __builtin_va_arg(l, int)) + far(&l); }\n"
	"int large(void) { char b[200000]; return far(b) + far(b); }\n"
	"int spilled(int a, int b, int c, int d, int e, int f, int g) { int r = far(&a); for (int i = 0; i < a; i++)\n"
	"  r += far(&b, a, b, c, d, e, f, g, i, r) * i + far(&c, d + i, e * i); return r + a + b + c + d + e + f + g; }\n"
	"void _start(void) { far((void *)0, realigned(3), realigned_and_grown(1, 2), large(), spilled(1, 2, 3, 4, 5, 6, 7)); "
	"}\n";
static const char program[] = "#include <stdio.h>\n#include <string.h>\n"
			      "int main(int c, char **v) { return printf(\"%zu\\n\", strlen(v[c - 1])) < 0; }\n";
static const char go_program[] = "package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }\n";

static void write_source(const char *name, const char *text)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	assert_int_equal(io_write_file(path, text, strlen(text), 0644, NULL), 0);
}

/* Runs a command in the directory; false, with a word about it, if it fails: the tool is not installed. */
static bool build(const char *command)
{
	char text[600];
	assert_true((size_t)snprintf(text, sizeof(text), "cd %s && %s >log 2>&1", directory, command) < sizeof(text));
	if (system(text) == 0)
		return true;
	print_message("skipped: %s\n", command);
	return false;
}

static const char *built(const char *name)
{
	static char path[300];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static int make_directory(void **state)
{
	if (!mkdtemp(directory))
		return -1;
	write_source("a.c", source);
	write_source("p.c", program);
	write_source("g.go", go_program);
	return 0;
}

static int remove_directory(void **state)
{
	return io_remove_tree(directory, NULL);
}

#define SHARED " -O2 -shared -fPIC -nostdlib a.c -o "

static void test_compilers_and_linkers(void **state)
{
	static const struct {
		const char *name, *command;
	} builds[] = {
		{"gcc", "gcc" SHARED "gcc"},
		{"gcc-O0", "gcc -O0 -shared -fPIC -nostdlib a.c -o gcc-O0"},
		{"gcc-fp", "gcc -fno-omit-frame-pointer" SHARED "gcc-fp"},
		{"gcc-ibt", "gcc -fcf-protection=full -Wl,-z,ibtplt" SHARED "gcc-ibt"},
		{"gcc-gold", "gcc -fuse-ld=gold" SHARED "gcc-gold"},
		{"clang", "clang" SHARED "clang"},
		{"clang-lld", "clang -fuse-ld=lld" SHARED "clang-lld"},
		{"aarch64", "clang -target aarch64-linux-gnu -fuse-ld=lld" SHARED "aarch64"},
		{"aarch64-pac",
		 "clang -target aarch64-linux-gnu -fuse-ld=lld -mbranch-protection=standard" SHARED "aarch64-pac"},
		{"aarch64-debug",
		 "clang -target aarch64-linux-gnu -fuse-ld=lld -fno-asynchronous-unwind-tables -g" SHARED "aarch64-debug"},
		{"debug", "gcc -fno-asynchronous-unwind-tables -g" SHARED "debug"},
		{"debug-zlib", "gcc -fno-asynchronous-unwind-tables -g -gz=zlib" SHARED "debug-zlib"},
		{"debug-zdebug", "objcopy --compress-debug-sections=zlib-gnu debug debug-zdebug"},
		{"debug-large", "clang -gdwarf64 -fno-asynchronous-unwind-tables -g" SHARED "debug-large"},
	};
	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++)
		if (build(builds[i].command))
			check_file(built(builds[i].name), 10);
}

static void test_static_programs(void **state)
{
	if (build("gcc -O2 -static p.c -o static")) {
		check_file(built("static"), 1000);
		check_stubs(built("static"), 10);
	}
	if (build("gcc -O2 -static-pie p.c -o static-pie")) {
		check_file(built("static-pie"), 1000);
		check_stubs(built("static-pie"), 10);
	}
}

static void test_linkage_tables(void **state)
{
	static const struct {
		const char *name, *command;
	} builds[] = {
		{"plt", "gcc -O2 p.c -o plt -Wl,-z,lazy"},
		{"plt-ibt", "gcc -O2 -fcf-protection=full p.c -o plt-ibt -Wl,-z,ibtplt"},
		{"plt-gold", "gcc -O2 p.c -o plt-gold -fuse-ld=gold"},
		{"plt-lld", "gcc -O2 p.c -o plt-lld -fuse-ld=lld"},
		{"plt-lld-ibt", "clang -O2 -fcf-protection=full p.c -o plt-lld-ibt -fuse-ld=lld -Wl,-z,force-ibt"},
	};
	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++)
		if (build(builds[i].command))
			check_stubs(built(builds[i].name), 4);
}

static void test_go(void **state)
{
	if (build("env GOCACHE=$PWD/cache GO111MODULE=off HOME=$PWD go build -o go g.go"))
		check_file(built("go"), 2000);
}

static void test_vdso(void **state)
{
	struct elf_file file;
	Elf64_Ehdr header;
	const uint8_t *image = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	if (!image) {
		print_message("skipped: the kernel maps no vdso\n");
		skip();
	}
	memcpy(&header, image, sizeof(header));
	size_t len = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
	assert_int_equal(io_write_file(built("vdso"), image, len, 0644, NULL), 0);
	assert_int_equal(elf_file_open_memory(&file, (struct bytes){image, len}, "[vdso]", NULL), 0);
	compare_with_oracles(&file, built("vdso"), 5);
	elf_file_release(&file);
}

/* The same rows, but for those of stubs, are found without section headers. "static" has no header of frames. */
static void test_stripped_of_section_headers(void **state)
{
	static const char *const files[] = {"gcc", "gcc-gold", "clang-lld", "aarch64", "static-pie"};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct elf_file file, stripped;
		struct rows with = {0}, without = {0};
		struct buffer bytes = {0};
		if (access(built(files[i]), R_OK) < 0)
			continue;
		assert_int_equal(io_read_file(built(files[i]), 64 << 20, &bytes, NULL), 0);
		assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&bytes), "file", NULL), 0);
		assert_int_equal(cfi_read(&file, take_row, &with, NULL, NULL), 0);
		Elf64_Ehdr *header = (Elf64_Ehdr *)bytes.data;
		header->e_shoff = header->e_shnum = header->e_shstrndx = 0;
		assert_int_equal(elf_file_open_memory(&stripped, buffer_bytes(&bytes), "stripped", NULL), 0);
		assert_int_equal(cfi_read(&stripped, take_row, &without, NULL, NULL), 0);
		assert_true(without.count >= 10);
		assert_int_equal(count_differences(&with, &with, &without, &file), 0);
		assert_int_equal(count_differences(&without, &with, &without, &file), 0);
		elf_file_release(&file);
		elf_file_release(&stripped);
		mem_free(with.items);
		mem_free(without.items);
		buffer_release(&bytes);
	}
}

static char **named_files;

static void test_named_files(void **state)
{
	for (char **path = named_files; *path; path++)
		check_file(*path, 0);
}

/* With arguments, compares these files instead. */
int main(int argc, char **argv)
{
	const struct CMUnitTest named[] = {cmocka_unit_test(test_named_files)};
	named_files = argv + 1;
	if (argc > 1)
		return cmocka_run_group_tests(named, NULL, NULL);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_compilers_and_linkers),
		cmocka_unit_test(test_static_programs),
		cmocka_unit_test(test_linkage_tables),
		cmocka_unit_test(test_go),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_stripped_of_section_headers),
	};
	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
