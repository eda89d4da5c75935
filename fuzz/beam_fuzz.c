// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, with the layout of a release, from which the table of modules of BEAM and a
 * function with its names and lines are read, and an Erlang process's stack is walked; and they are a file in which the virtual
 * machine is looked for.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpf/unwind.h"
#define IMAGE_STATE UNWIND_SLOT_LIVE
#include "listed_image.h"
#include "runtime/beam.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The image begins with it. Offsets are from START. */
struct start {
	uint8_t release, leaves_native;
	uint16_t reserved;
	uint32_t index, ranges, atoms, exit, key, module, bytes, pc, sp, fp, ip, process, shared;
};

static void read_function(const struct beam_build *build, const struct beam_range *module, uint64_t pc)
{
	const struct runtime_memory memory = {.read = read_memory};
	struct runtime_function function;
	uint32_t line;

	if (beam_read_function(build, 0, &memory, module, pc, &function, &line) < 0)
		return;
	check_text(function.name);
	check_text(function.file);
	must(line < 1u << 24 && function.first_line < 1u << 24);
}

static void walk_image(const struct start *start, const struct beam_process *told)
{
	static struct walk walk;

	memset(&walk, 0, sizeof(walk));
	walk_without_runtimes(&walk);
	walk.beam = *told;
	walk.known = ~0u;
	walk.registers[UNWIND_REGISTER_SP] = START + start->sp;
	walk.registers[UNWIND_REGISTER_FP] = START + start->fp;
	walk.registers[BEAM_REGISTER_PROCESS] = START + start->process;
	walk.registers[BEAM_REGISTER_SCHEDULER] = START + start->sp + 128;
	walk_begin(&walk, START + start->ip, 1);
	walk.is_return = start->leaves_native != 0;
	walk.left_slot = start->leaves_native;
	int r = beam_meet(&walk);
	for (unsigned steps = 0; r == WALK_GOES_ON; steps++) {
		must(steps <= UNWIND_FRAMES_MAX);
		r = walk_step(&walk);
		if (r == WALK_GOES_ON)
			r = beam_meet(&walk);
	}
	must(r >= 0 && r < UNWIND_RESULTS && walk.depth >= 1 && walk.depth <= UNWIND_FRAMES_MAX);
}

static void check_process(const struct start *start, const struct beam_build *build)
{
	const struct runtime_memory memory = {.read = read_memory};
	struct beam_process told = {
		.kind = RUNTIME_KIND_BEAM,
		.low = START,
		.high = START + image.len,
		.shared_start = START,
		.shared_end = START + start->shared,
		.normal_exit = START + start->exit,
		.key = START + start->key,
		.keys_max = 32,
	};
	struct beam_modules modules = {0};
	uint64_t last = 0;

	for (unsigned i = 0; i < 2; i++) {
		if (beam_read_modules(build, 0, &memory, &modules) < 0)
			break;
		must(modules.count && modules.count <= BEAM_MODULES_MAX);
	}
	for (size_t i = 0; i < modules.count; i++) {
		const struct beam_range *module = &modules.items[i];
		must(module->start < module->end && module->start >= last && module->since == 1);
		must(beam_find_module(&modules, module->start) == module &&
		     beam_find_module(&modules, module->end - 1) == module);
		last = module->end;
	}
	if (modules.count) {
		read_function(build, &modules.items[0], START + start->pc);
		beam_place(build, 0, &memory, &modules, &told);
	}
	beam_modules_release(&modules);
	walk_image(start, &told);
}

static void check_file(void)
{
	struct beam_build build;
	struct elf_file file;

	if (elf_file_open_memory(&file, image, "fuzz", NULL) < 0)
		return;
	int r = beam_recognize(&file, &build, NULL);
	elf_file_release(&file);
	must(r <= 1);
	must(r <= 0 || (build.ranges && build.atoms && build.key && build.version[sizeof(build.version) - 1] == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct beam_build build = {0};
	struct start start;

	image = (struct bytes){data, size};
	check_file();
	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	must(beam_layout_of(25 + start.release % 3, &build.layout));
	build.index = START + start.index;
	build.ranges = START + start.ranges;
	build.atoms = START + start.atoms;
	build.normal_exit = START + start.exit;
	build.key = START + start.key;
	const struct beam_range module = {START + start.module, START + start.module + start.bytes, 1};
	read_function(&build, &module, START + start.pc);
	check_process(&start, &build);
	return 0;
}
