/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capstone's types and numbers come from its header; its functions are looked up in the library when they are first needed.
 * Linking with it would load three megabytes of tables into every agent for a view that only servers show. LLVM's disassembler
 * knows newer instructions, and would bring a hundred megabytes; libopcodes promises no interface from one release to the next.
 *
 * The code is a stranger's. What Capstone gets is a bounded piece of memory and one instruction at a time to decode; what it
 * cannot decode is shown as bytes, and decoding goes on behind them, so every byte of the code is in the listing exactly once
 * and addresses never go out of step with the samples.
 */
#include "elf/disassemble.h"

#include <capstone/capstone.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"

#define LIBRARY	 "libcapstone.so.4"
#define TEXT_MAX (64 * MIB)
/* Bytes of the name that targets of branches are given: there may be a branch in every other byte of the code. */
#define TARGET_NAME_MAX 120
#ifdef WICK_STATIC
#define WHY_NOT "this wick is linked statically and loads no libraries, such as " LIBRARY " to disassemble machine code"
#else
#define WHY_NOT "cannot load " LIBRARY " to disassemble machine code; install libcapstone4"
#endif

static struct {
	bool loaded;
	cs_err (*open)(cs_arch arch, cs_mode mode, csh *handle);
	cs_err (*close)(csh *handle);
	cs_err (*option)(csh handle, cs_opt_type type, size_t value);
	cs_insn *(*new_instruction)(csh handle);
	void (*free_instructions)(cs_insn *insn, size_t count);
	bool (*next)(csh handle, const uint8_t **code, size_t *size, uint64_t *address, cs_insn *insn);
	bool (*is_in_group)(csh handle, const cs_insn *insn, unsigned int group);
} capstone;

/* The library stays for the rest of the process's life. */
static void load_library(void)
{
#ifdef WICK_STATIC
	return; /* a static program would have to load the C library a second time */
#endif
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	const struct {
		void **function;
		const char *name;
	} functions[] = {
		{(void **)&capstone.open, "cs_open"},
		{(void **)&capstone.close, "cs_close"},
		{(void **)&capstone.option, "cs_option"},
		{(void **)&capstone.new_instruction, "cs_malloc"},
		{(void **)&capstone.free_instructions, "cs_free"},
		{(void **)&capstone.next, "cs_disasm_iter"},
		{(void **)&capstone.is_in_group, "cs_insn_group"},
	};
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		*functions[i].function = dlsym(library, functions[i].name);
		if (!*functions[i].function)
			return;
	}
	capstone.loaded = true;
}

struct machine {
	uint16_t machine; /* EM_* */
	cs_arch arch;
	cs_mode mode;
	unsigned unit; /* bytes of the smallest instruction */
};
static const struct machine machines[] = {
	{EM_X86_64, CS_ARCH_X86, CS_MODE_64, 1},
	{EM_386, CS_ARCH_X86, CS_MODE_32, 1},
	{EM_AARCH64, CS_ARCH_ARM64, CS_MODE_ARM, 4},
	{EM_ARM, CS_ARCH_ARM, CS_MODE_ARM, 4},
};

static const struct machine *find_machine(uint16_t machine)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
		if (machines[i].machine == machine)
			return &machines[i];
	return NULL;
}

struct decoder {
	const struct machine *machine;
	const struct disassemble_options *options;
	struct bytes code;
	size_t at; /* the next byte */
	csh handle;
	cs_insn *insn;
	struct disassembly *result;
	size_t capacity;
	char name[TARGET_NAME_MAX + sizeof("...")]; /* "" = none */
};

static int add_instruction(struct decoder *d, uint32_t size, uint32_t text)
{
	struct disassembly *result = d->result;
	int r = array_reserve(&result->items, &d->capacity, result->count + 1, DISASSEMBLE_BYTES_MAX);
	if (r == 0)
		r = buffer_append_byte(&result->text, 0);
	if (r < 0)
		return r;
	result->items[result->count++] = (struct instruction){
		.address = d->options->address + d->at, .offset = (uint32_t)d->at, .size = size, .text = text};
	d->at += size;
	return 0;
}

static int add_bytes(struct decoder *d)
{
	size_t left = d->code.len - d->at;
	uint32_t size = left < d->machine->unit ? (uint32_t)left : d->machine->unit, text = (uint32_t)d->result->text.len;
	int r = 0;
	for (uint32_t i = 0; i < size && r == 0; i++)
		r = buffer_printf(&d->result->text, "%s0x%02x", i ? ", " : ".byte ", d->code.data[d->at + i]);
	return r < 0 ? r : add_instruction(d, size, text);
}

/* Where a direct branch goes: the number that its last operand is. */
static bool branch_target(const struct decoder *d, uint64_t *ret)
{
	const char *operands = d->insn->op_str, *last = strrchr(operands, ' ');
	last = last ? last + 1 : operands;
	last += *last == '#';
	if (strncmp(last, "0x", 2) != 0 ||
	    (!capstone.is_in_group(d->handle, d->insn, CS_GRP_JUMP) && !capstone.is_in_group(d->handle, d->insn, CS_GRP_CALL)))
		return false;
	char *end;
	*ret = strtoull(last, &end, 16);
	return *end == '\0';
}

/* Whole characters only. */
static void cut_name(struct decoder *d, const char *name)
{
	size_t len = text_cut(bytes_of_string(name), TARGET_NAME_MAX);
	snprintf(d->name, sizeof(d->name), "%.*s%s", (int)len, name, name[len] ? "..." : "");
}

static int add_decoded(struct decoder *d)
{
	struct buffer *out = &d->result->text;
	uint32_t text = (uint32_t)out->len;
	const cs_insn *insn = d->insn;
	uint64_t target, start = d->options->address;
	int r = buffer_printf(out, "%s%s%s", insn->mnemonic, insn->op_str[0] ? " " : "", insn->op_str);
	if (r == 0 && d->name[0] && branch_target(d, &target) && target >= start && target - start < d->code.len)
		r = target == start ? buffer_printf(out, " <%s>", d->name)
				    : buffer_printf(out, " <%s+0x%" PRIx64 ">", d->name, target - start);
	return r < 0 ? r : add_instruction(d, insn->size, text);
}

static int decode_all(struct decoder *d)
{
	int r = 0;
	while (d->at < d->code.len && r == 0) {
		const uint8_t *code = d->code.data + d->at;
		size_t left = d->code.len - d->at;
		uint64_t address = d->options->address + d->at;
		bool decoded = capstone.next(d->handle, &code, &left, &address, d->insn);
		r = decoded && d->insn->size > 0 && d->insn->size <= d->code.len - d->at ? add_decoded(d) : add_bytes(d);
	}
	return r;
}

static int decode(struct decoder *d, struct error *err)
{
	cs_err failure = capstone.open(d->machine->arch, d->machine->mode, &d->handle);
	if (failure == CS_ERR_ARCH || failure == CS_ERR_MODE)
		return error_set(err, -ENOTSUP, LIBRARY " was built without support for this machine (ELF number %u)",
				 d->machine->machine);
	if (failure != CS_ERR_OK)
		return error_nomem(err);
	int r = -ENOMEM;
	capstone.option(d->handle, CS_OPT_DETAIL, CS_OPT_ON);
	if (d->machine->arch == CS_ARCH_X86 && d->options->att)
		capstone.option(d->handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	d->insn = capstone.new_instruction(d->handle);
	if (d->insn) {
		r = decode_all(d);
		capstone.free_instructions(d->insn, 1);
	}
	capstone.close(&d->handle);
	if (r == -E2BIG)
		return error_set(err, r, "the disassembly of %zu bytes of code is longer than the limit of %llu MiB",
				 d->code.len, TEXT_MAX / MIB);
	return r < 0 ? error_nomem(err) : 0;
}

int disassemble(struct bytes code, const struct disassemble_options *options, struct disassembly *ret, struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct decoder decoder = {.machine = find_machine(options->machine), .options = options, .code = code, .result = ret};
	*ret = (struct disassembly){.text.max = TEXT_MAX};
	if (!decoder.machine)
		return error_set(err, -ENOTSUP, "no disassembler for this machine (ELF number %u)", options->machine);
	if (code.len > DISASSEMBLE_BYTES_MAX)
		return error_set(err, -E2BIG, "%zu bytes of code, more than the limit of %u", code.len, DISASSEMBLE_BYTES_MAX);
	cut_name(&decoder, options->name ? options->name : "");
	pthread_once(&once, load_library);
	if (!capstone.loaded)
		return error_set(err, -ENOSYS, WHY_NOT);
	int r = decode(&decoder, err);
	if (r < 0)
		disassembly_release(ret);
	return r;
}

const char *disassembly_text(const struct disassembly *disassembly, size_t index)
{
	return (const char *)disassembly->text.data + disassembly->items[index].text;
}

void disassembly_release(struct disassembly *disassembly)
{
	buffer_release(&disassembly->text);
	disassembly->items = mem_free(disassembly->items);
	disassembly->count = 0;
}
