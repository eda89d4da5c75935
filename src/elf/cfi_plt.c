/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for the stubs of the procedure linkage table that no CFI covers: those of static programs (.plt or .iplt, full of jumps
 * to what ifunc resolvers chose), and whole tables of linkers that write none.
 *
 * The code itself is asked, because linkers, their versions and their options differ in which stub they write where. On x86-64
 * a stub is a chunk of 16 bytes (8 in .plt.got) made of few instructions:
 *
 *   f3 0f 1e fa                endbr64             ff 25 disp32   jmp *slot
 *   41 bb imm32                mov $imm, %r11d     e9 rel32       jmp
 *   68 imm32                   push $imm           ff 35 disp32   push *slot
 *   41 53                      push %r11           90, 66 90, 0f 1f .., cc   padding; f2, 3e, 66 prefixes of jumps
 *
 * A push moves the stack pointer by 8. A stub is entered by a call (CFA rsp+8), except for the head of the table: it pushes one
 * word more, and the function that it jumps to finds two words above the return address, so that the CFA is rsp+24 behind its
 * last push. A chunk with any other instruction gets no rule. Stubs that push once are all given the one rule that depends on
 * the address's low bits (UNWIND_CFA_PLT), so that a table of thousands is two rows.
 *
 * On AArch64 stubs do not touch the stack, except for the head's first instruction: stp x16, x30, [sp, #-16]!.
 */
#include <string.h>

#include "base/alloc.h"
#include "elf/cfi_int.h"

#define PLT_BYTES_MAX (4 * MIB)
#define CHUNK	      16
#define HEAD_CFA      24 /* behind the last push of the head */
#define PUSHES_MAX    2

#define A64_STP_HEAD 0xa9bf7bf0u

struct stub {
	uint8_t push_at[PUSHES_MAX]; /* where the instruction behind a push begins */
	uint8_t pushes;
	bool is_head; /* pushes a slot of the global offset table */
	bool is_stub; /* understood, and with an instruction other than padding */
};

struct plt {
	struct cfi_reader *reader;
	struct cfi_entries *entries;
	const struct elf_section *section;
	struct bytes code;
};

static int add_rule(struct plt *plt, const struct unwind_rule *rule, uint32_t *ret)
{
	struct cfi_reader *reader = plt->reader;
	uint32_t i = 0;
	while (i < reader->stub_rule_count && memcmp(&reader->stub_rules[i].rule, rule, sizeof(*rule)) != 0)
		i++;
	if (i == CFI_STUB_RULES_MAX)
		return 1;
	if (i == reader->stub_rule_count)
		reader->stub_rules[reader->stub_rule_count++].rule = *rule;
	*ret = i;
	return 0;
}

/* code[from..to) has this rule; what follows with the same one is joined to it. */
static int add_range(struct plt *plt, size_t from, size_t to, const struct unwind_rule *rule)
{
	struct cfi_entry entry = {.start = plt->section->address + from, .len = (uint32_t)(to - from), .kind = CFI_STUB};
	uint64_t end;
	uint32_t number;
	if (from == to || add_rule(plt, rule, &number) > 0)
		return 0;
	entry.place = number;
	if (!cfi_is_code(plt->reader, entry.start, &end) || entry.len > end - entry.start)
		return 0;
	struct cfi_entry *last = plt->entries->count > 0 ? &plt->entries->items[plt->entries->count - 1] : NULL;
	if (last && last->place == entry.place && last->start + last->len == entry.start) {
		last->len += entry.len;
		return 0;
	}
	return cfi_entries_append(plt->reader, plt->entries, &entry);
}

static struct unwind_rule rule_of_sp(const struct cfi_machine *machine, int32_t offset)
{
	struct unwind_rule rule = {.cfa = UNWIND_CFA_REGISTER, .cfa_register = machine->sp, .offset = offset};
	if (machine->machine == EM_X86_64) {
		rule.ra = UNWIND_WHERE_CFA;
		rule.ra_offset = -8;
	}
	return rule;
}

/* ---- x86-64 ---- */

/* Length of the instruction at code[0..len), 0 if it is none of those above. */
static size_t decode(const uint8_t *code, size_t len, struct stub *stub, bool *ret_pushes, bool *ret_is_padding)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	static const struct {
		uint8_t bytes[2], len, size;
		bool pushes;
	} forms[] = {
		{{0xff, 0x25}, 2, 6, false}, {{0xff, 0x35}, 2, 6, true}, {{0x41, 0xbb}, 2, 6, false},
		{{0x41, 0x53}, 2, 2, true},  {{0x68}, 1, 5, true},	 {{0xe9}, 1, 5, false},
	};
	*ret_pushes = *ret_is_padding = false;
	if (len >= 4 && memcmp(code, endbr64, 4) == 0)
		return 4;
	size_t prefix = 0;
	while (prefix < len && (code[prefix] == 0xf2 || code[prefix] == 0x3e || code[prefix] == 0x66 || code[prefix] == 0x2e))
		prefix++;
	const uint8_t *op = code + prefix;
	size_t left = len - prefix;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (left < forms[i].size || memcmp(op, forms[i].bytes, forms[i].len) != 0)
			continue;
		*ret_pushes = forms[i].pushes;
		stub->is_head |= op[0] == 0xff && op[1] == 0x35;
		/* A prefix of 16 bits would change the operand of a push. */
		return prefix > 0 && forms[i].pushes ? 0 : prefix + forms[i].size;
	}
	*ret_is_padding = true;
	if (left >= 1 && (op[0] == 0x90 || op[0] == 0xcc))
		return prefix + 1;
	if (left < 3 || op[0] != 0x0f || op[1] != 0x1f || (op[2] & 0x38) != 0)
		return 0;
	/* nop with an operand in memory: its address has no, 1 or 4 bytes of displacement, and a SIB byte for base 4. */
	size_t size = 3 + ((op[2] & 7) == 4) + ((op[2] & 0xc0) == 0x40 ? 1 : (op[2] & 0xc0) == 0x80 ? 4 : 0);
	return left < size || (op[2] & 0xc0) == 0xc0 ? 0 : prefix + size;
}

static struct stub decode_stub(const uint8_t *code, size_t len)
{
	struct stub stub = {0};
	for (size_t at = 0; at < len;) {
		bool pushes, is_padding;
		size_t size = decode(code + at, len - at, &stub, &pushes, &is_padding);
		if (size == 0 || (pushes && stub.pushes == PUSHES_MAX))
			return (struct stub){0};
		at += size;
		if (pushes)
			stub.push_at[stub.pushes++] = (uint8_t)at;
		stub.is_stub |= !is_padding;
	}
	return stub;
}

/* Head of the table, or another chunk whose pushes are described one by one. */
static int add_steps(struct plt *plt, size_t at, size_t len, const struct stub *stub, int32_t cfa)
{
	size_t from = at;
	int r = 0;
	for (unsigned i = 0; i <= stub->pushes && r == 0; i++) {
		size_t to = i < stub->pushes ? at + stub->push_at[i] : at + len;
		struct unwind_rule rule = rule_of_sp(plt->reader->machine, cfa);
		r = add_range(plt, from, to, &rule);
		from = to;
		cfa += 8;
	}
	return r;
}

static int add_chunk(struct plt *plt, size_t at, size_t len)
{
	struct stub stub = decode_stub(plt->code.data + at, len);
	if (!stub.is_stub && at == 0 && plt->code.len >= 2 * len) { /* the head that mold writes has two chunks */
		len *= 2;
		stub = decode_stub(plt->code.data, len);
	}
	if (!stub.is_stub)
		return 0;
	if (stub.is_head) /* elsewhere than first it is something else, such as the stub of lazy TLS descriptors */
		return at == 0 ? add_steps(plt, at, len, &stub, HEAD_CFA - 8 * stub.pushes) : 0;
	struct unwind_rule rule = rule_of_sp(plt->reader->machine, 8);
	if (stub.pushes == 0)
		return add_range(plt, at, at + len, &rule);
	if (stub.pushes > 1 || len != CHUNK || (plt->section->address + at) % CHUNK != 0 || stub.push_at[0] >= CHUNK)
		return add_steps(plt, at, len, &stub, 8);
	rule.cfa = UNWIND_CFA_PLT;
	rule.offset2 = stub.push_at[0];
	return add_range(plt, at, at + len, &rule);
}

static int add_stubs_x86_64(struct plt *plt)
{
	size_t step = strcmp(plt->section->name, ".plt.got") == 0 && plt->section->entry_size == 8 ? 8 : CHUNK;
	int r = 0;
	for (size_t at = 0; r == 0 && at < plt->code.len; at += step)
		r = add_chunk(plt, at, plt->code.len - at < step ? plt->code.len - at : step);
	return r;
}

/* ---- AArch64 ---- */

static bool is_stub_instruction(uint32_t word)
{
	return (word & 0x9f00001f) == 0x90000010 || /* adrp x16 */
	       (word & 0xffc003ff) == 0xf9400211 || /* ldr x17, [x16, #] */
	       (word & 0xffc003ff) == 0x91000210 || /* add x16, x16, # */
	       word == 0xd61f0220 ||		    /* br x17 */
	       word == 0xd503201f ||		    /* nop */
	       word == 0xd503245f ||		    /* bti c */
	       word == 0xd503219f ||		    /* autia1716 */
	       word == 0;			    /* udf, as padding */
}

static int add_stubs_aarch64(struct plt *plt)
{
	struct unwind_rule stub = rule_of_sp(plt->reader->machine, 0), head = rule_of_sp(plt->reader->machine, 16);
	size_t pushed_at = SIZE_MAX, at = 0;
	head.ra = UNWIND_WHERE_CFA;
	head.ra_offset = -8;
	for (; plt->code.len - at >= 4; at += 4) {
		uint32_t word;
		memcpy(&word, plt->code.data + at, sizeof(word));
		if (word == A64_STP_HEAD && at <= 4 && pushed_at == SIZE_MAX)
			pushed_at = at + 4;
		else if (!is_stub_instruction(word))
			return 0;
	}
	if (pushed_at == SIZE_MAX)
		return add_range(plt, 0, at, &stub);
	/* The head ends with its jump. */
	size_t end = pushed_at;
	while (end < at) {
		uint32_t word;
		memcpy(&word, plt->code.data + end, sizeof(word));
		end += 4;
		if (word == 0xd61f0220)
			break;
	}
	int r = add_range(plt, 0, pushed_at, &stub);
	if (r == 0)
		r = add_range(plt, pushed_at, end, &head);
	return r < 0 ? r : add_range(plt, end, at, &stub);
}

static bool is_linkage_table(const struct elf_section *section)
{
	static const char *const names[] = {".plt", ".plt.got", ".plt.sec", ".iplt", ".plt.bnd"};
	if (section->type != SHT_PROGBITS || !(section->flags & SHF_EXECINSTR) || (section->flags & SHF_COMPRESSED) ||
	    section->size > PLT_BYTES_MAX)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(section->name, names[i]) == 0)
			return true;
	return false;
}

int cfi_plt_read(struct cfi_reader *reader, struct cfi_entries *entries)
{
	struct elf_file *file = reader->file;
	uint64_t budget = PLT_BYTES_MAX; /* of all sections: any number may have these names */
	for (size_t i = 0; file->sections && i < file->section_count; i++) {
		struct plt plt = {.reader = reader, .entries = entries, .section = &file->sections[i]};
		if (!is_linkage_table(plt.section) || plt.section->size > budget)
			continue;
		budget -= plt.section->size;
		int r = elf_file_read_section(file, plt.section, PLT_BYTES_MAX, &plt.code, reader->err);
		if (r < 0)
			return r;
		r = file->machine == EM_X86_64 ? add_stubs_x86_64(&plt) : add_stubs_aarch64(&plt);
		mem_free((void *)plt.code.data);
		if (r < 0)
			return r;
	}
	return 0;
}

#define ENTRY_BYTES 64

/*
 * Where the kernel starts a program or its loader, nobody is to return to. glibc's loader and musl say so in no CFI. Only code
 * that begins as they do is believed, since e_entry of a library may be anything: [endbr64] [xor %rbp, %rbp] mov %rsp, %rdi.
 */
static bool is_start_code(const uint8_t *code)
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa}, clear32[] = {0x31, 0xed}, clear64[] = {0x48, 0x31, 0xed},
			     move[] = {0x48, 0x89, 0xe7};

	if (memcmp(code, endbr, sizeof(endbr)) == 0)
		code += sizeof(endbr);
	if (memcmp(code, clear32, sizeof(clear32)) == 0)
		code += sizeof(clear32);
	else if (memcmp(code, clear64, sizeof(clear64)) == 0)
		code += sizeof(clear64);
	return memcmp(code, move, sizeof(move)) == 0;
}

int cfi_entry_point_read(struct cfi_reader *reader, struct cfi_entries *entries)
{
	struct elf_file *file = reader->file;
	struct cfi_entry entry = {.start = file->entry, .len = ENTRY_BYTES, .kind = CFI_STUB};
	uint8_t code[16];
	uint64_t end, offset;

	if (file->machine != EM_X86_64 || !file->entry || !cfi_is_code(reader, file->entry, &end) ||
	    end - file->entry < sizeof(code) || reader->stub_rule_count == CFI_STUB_RULES_MAX)
		return 0;
	if (!elf_file_find_loaded(file, file->entry, &offset) || elf_file_read(file, offset, code, sizeof(code), NULL) < 0 ||
	    !is_start_code(code))
		return 0;
	if (entry.len > end - file->entry)
		entry.len = (uint32_t)(end - file->entry);
	entry.place = (uint32_t)reader->stub_rule_count;
	reader->stub_rules[reader->stub_rule_count++].rule = (struct unwind_rule){.cfa = UNWIND_CFA_END};
	return cfi_entries_append(reader, entries, &entry);
}
