// SPDX-License-Identifier: Apache-2.0
/* From samples to a profile, with processes and chains made by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/profile_builder.h"
#include "base/fault.h"
#include "base/test_faults.h"
#include "base/test_fixture.h"
#include "base/time.h"

#define PID	   4000000
#define KERNEL	   0xffffffff81000000ull
#define PERIOD_NS  1000
#define TEXT_START 0x7f0000001000ull /* of the program: 0x3000 bytes at offset 0x5000 of its file */

struct fixture {
	struct agent_sink sink;
	struct binaries binaries;
	struct process_table table;
	struct chains chains;
	struct cgroups cgroups;
	struct runtimes runtimes;
	struct profile_builder builder;
	struct process *process;
	unsigned kernel_asked;
	pid_t jit_pid;
	struct agent_jit_address jit_asked;
	bool jit_has_lines;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static bool kernel_symbol(void *context, uint64_t address, struct agent_symbol *ret)
{
	struct fixture *fixture = context;
	fixture->kernel_asked++;
	*ret = (struct agent_symbol){.module = "[module]"};
	snprintf(ret->name, sizeof(ret->name), "kernel_%llx", (unsigned long long)(address >> 8));
	return address < KERNEL + 0x100000;
}

static bool jit_symbol(void *context, const struct agent_jit_address *address, struct agent_symbol *ret)
{
	struct fixture *fixture = context;
	fixture->jit_pid = address->pid;
	fixture->jit_asked = *address;
	*ret = (struct agent_symbol){.name = "jitted", .module = "[perf-map]"};
	if (fixture->jit_has_lines) {
		snprintf(ret->file, sizeof(ret->file), "/src/a.js");
		ret->line = 7;
	}
	return address->address < 0x10800;
}

static int apply(struct fixture *f, struct event event)
{
	event.pid = event.tid = PID;
	return process_table_apply(&f->table, &event, NULL);
}

static int fixture_init(struct fixture *f)
{
	*f = (struct fixture){.sink = {f, NULL, kernel_symbol, jit_symbol, NULL, NULL}, .cgroups.root_fd = -1};
	f->chains.frames_max = 10000;
	f->builder = (struct profile_builder){.sink = &f->sink,
					      .binaries = &f->binaries,
					      .chains = &f->chains,
					      .cgroups = &f->cgroups,
					      .runtimes = &f->runtimes,
					      .types = {"cpu"},
					      .period_ns = PERIOD_NS};
	int r = binaries_init(&f->binaries);
	if (r == 0)
		r = runtimes_init(&f->runtimes, &f->binaries);
	if (r == 0)
		r = process_table_init(&f->table, &f->binaries);
	if (r == 0)
		profile_builder_init(&f->builder);
	if (r == 0)
		r = apply(f, (struct event){.kind = EVENT_FORK, .time_ns = 1, .parent = 1});
	if (r == 0)
		r = apply(f, (struct event){.kind = EVENT_COMM, .time_ns = 2, .is_exec = true, .name = "program"});
	if (r == 0)
		r = apply(f, (struct event){.kind = EVENT_MAP,
					    .time_ns = 3,
					    .start = TEXT_START,
					    .length = 0x3000,
					    .offset = 0x5000,
					    .name = "/opt/program",
					    .build_id = {0xab, 0xcd},
					    .build_id_bytes = 2});
	if (r == 0)
		r = apply(f, (struct event){
				     .kind = EVENT_MAP, .time_ns = 4, .start = 0x10000, .length = 0x1000, .name = "//anon"});
	f->process = process_table_find(&f->table, PID);
	return r;
}

static void fixture_release(struct fixture *f)
{
	profile_builder_release(&f->builder);
	process_table_release(&f->table);
	runtimes_release(&f->runtimes);
	binaries_release(&f->binaries);
	chains_release(&f->chains);
}

static int add_chain(struct fixture *f, uint64_t hash, unsigned count, const uint64_t *frames)
{
	struct abi_chain chain = {.header = {ABI_RECORD_CHAIN, ABI_CHAIN_FIXED_BYTES + 8 * count}, .hash = hash};
	memcpy(chain.frames, frames, count * sizeof(*frames));
	return chains_add(&f->chains, &chain);
}

static int add_sample(struct fixture *f, struct abi_sample sample)
{
	sample.tgid = PID;
	sample.value = PERIOD_NS;
	memcpy(sample.comm, "thread", 7);
	return profile_builder_add(&f->builder, f->process, &sample, 0, PERIOD_NS, NULL);
}

/* "file+offset" and names, leaf first. */
static const char *stack_text(const struct profile *profile, size_t sample)
{
	static char text[1024];
	uint32_t ids[32];
	size_t count = profile_stack_locations(profile, profile->samples[sample].stack, ids, 32), len = 0;

	text[0] = 0;
	for (size_t i = 0; i < count; i++) {
		const struct profile_location *location = &profile->locations[ids[i]];
		const char *file = profile_string(profile, profile->mappings[location->mapping].file_name);
		if (location->line_count) {
			const struct profile_line *line = &profile->lines[location->line_first];
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s:%s", i ? " " : "", file,
						profile_string(profile, profile->functions[line->function].name));
		} else {
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s+%llx", i ? " " : "", file,
						(unsigned long long)profile_location_file_offset(profile, ids[i]));
		}
	}
	return text;
}

/* What the sink receives, and a line that it prints. */
static void test_jit_code_with_lines(void **state)
{
	struct fixture *f = *state;
	struct event map = {.kind = EVENT_MAP, .time_ns = 50, .start = 0x30000, .length = 0x1000, .name = "/tmp/jit-5.dump"};

	map.device = 3;
	map.inode = 4;
	f->jit_has_lines = true;
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = 0x10010, .time_ns = 40}), 0);
	assert_null(f->jit_asked.jitdump_path);
	assert_int_equal(apply(f, map), 0);
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = 0x10014, .time_ns = 60}), 0);
	assert_string_equal(f->jit_asked.jitdump_path, "/tmp/jit-5.dump");
	assert_int_equal(f->jit_asked.jitdump_device, 3);
	assert_int_equal(f->jit_asked.jitdump_inode, 4);
	assert_int_equal(f->jit_asked.jitdump_start, 0x30000);
	assert_int_equal(f->jit_asked.jitdump_end, 0x31000);
	assert_int_equal(f->jit_asked.address, 0x10014);
	assert_int_equal(f->jit_asked.time_ns, 60);
	assert_int_equal(f->jit_asked.started_ns, 2);
	const struct profile *profile = f->builder.profile;
	const struct profile_line *line = NULL;
	for (size_t i = 1; i < profile->location_count; i++)
		line = &profile->lines[profile->locations[i].line_first];
	assert_int_equal(line->line, 7);
	assert_string_equal(profile_string(profile, profile->functions[line->function].file_name), "/src/a.js");
}

static void test_addresses_become_locations(void **state)
{
	struct fixture *f = *state;
	struct profile *profile;

	add_chain(f, 1, 3, (uint64_t[]){TEXT_START + 0x200, TEXT_START + 0x300, 0});
	add_chain(f, 2, 2, (uint64_t[]){KERNEL + 0x500, KERNEL + 0x200000});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START,
							   .user_chain = 1,
							   .kernel_leaf = KERNEL + 0x100,
							   .kernel_chain = 2}),
			 0);
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = 0x10010, .user_chain = 1}), 0); /* JIT, with a name */
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = 0x10900}), 0);			/* and without */
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = 0x999}), 0);			/* mapped by nothing */
	profile = f->builder.profile;
	assert_int_equal(profile->sample_count, 4);
	assert_string_equal(stack_text(profile, 0), "[module]:kernel_ffffffff810001 [module]:kernel_ffffffff810004 "
						    "[kernel.kallsyms]+ffffffff811fffff "
						    "/opt/program+5000 /opt/program+51ff /opt/program+52ff");
	assert_string_equal(stack_text(profile, 1), "[perf-map]:jitted /opt/program+51ff /opt/program+52ff");
	assert_int_equal(f->jit_pid, PID);
	assert_string_equal(stack_text(profile, 2), "[anon]+10900");
	assert_string_equal(stack_text(profile, 3), "+999");
	assert_int_equal(f->builder.losses[AGENT_LOSS_NO_MAPPING], 1);
	const struct profile_mapping *mapping = NULL;
	for (size_t i = 1; i < profile->mapping_count; i++) {
		if (strcmp(profile_string(profile, profile->mappings[i].file_name), "/opt/program") == 0)
			mapping = &profile->mappings[i];
	}
	assert_non_null(mapping);
	assert_string_equal(profile_string(profile, mapping->build_id), "abcd");
	assert_true(mapping->start == 0x5000 && mapping->limit == 0x8000 && mapping->offset == 0x5000);
}

static void test_equal_samples_are_counted(void **state)
{
	struct fixture *f = *state;
	struct abi_sample sample = {.user_leaf = TEXT_START, .kernel_leaf = KERNEL};

	for (int i = 0; i < 5; i++)
		assert_int_equal(add_sample(f, sample), 0);
	assert_int_equal(f->kernel_asked, 1);
	apply(f, (struct event){.kind = EVENT_COMM, .time_ns = 5, .is_exec = true, .name = "other"}); /* another program now */
	assert_int_equal(add_sample(f, sample), 0);
	assert_int_equal(f->builder.profile->sample_count, 2);
	assert_int_equal(f->builder.profile->values[0], 5 * PERIOD_NS);
	assert_string_equal(stack_text(f->builder.profile, 1), "[module]:kernel_ffffffff810000 +7f0000001000");

	struct profile *profile = profile_builder_take(&f->builder, 123, 456);
	assert_true(profile->time_ns == 123 && profile->duration_ns == 456 && profile->period == PERIOD_NS);
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "process.executable.path"),
			    "/opt/program");
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "process.executable.name"), "program");
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "process.comm"), "program");
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "thread.name"), "thread");
	assert_string_equal(profile_label_value(profile, profile->samples[1].labels, "process.executable.name"), "other");
	profile_free(profile);
	assert_null(profile_builder_take(&f->builder, 0, 0));
	assert_int_equal(add_sample(f, sample), 0); /* the next profile is empty at first */
	assert_int_equal(f->builder.profile->sample_count, 1);
}

/* Each by itself, with its time and thread; of wall-clock time what was run counts twice. */
static void test_timed_samples(void **state)
{
	struct fixture *f = *state;

	profile_builder_release(&f->builder);
	f->builder = (struct profile_builder){.sink = &f->sink,
					      .binaries = &f->binaries,
					      .chains = &f->chains,
					      .cgroups = &f->cgroups,
					      .types = {"wall", "cpu"},
					      .is_timed = true,
					      .cpu_is_second = true,
					      .period_ns = PERIOD_NS};
	profile_builder_init(&f->builder);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START,
								   .time_ns = 1000 + i,
								   .tid = 7 + i / 2,
								   .what = i == 3 ? ABI_WAIT_BEGINS : ABI_CPU}),
				 0);
	struct profile *profile = profile_builder_take(&f->builder, 1, 2);
	assert_int_equal(profile->sample_count, 4);
	assert_int_equal(profile_default_sample_type(profile), 1);
	assert_string_equal(profile_string(profile, profile->sample_types[1].type), "wall");
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(profile->samples[i].time_ns, f->builder.wall_clock_ns + 1000 + (int64_t)i);
		assert_int_equal(profile->values[2 * i + 1], PERIOD_NS);
		assert_int_equal(profile->values[2 * i], i == 3 ? 0 : PERIOD_NS);
	}
	assert_int_equal(profile->samples[0].labels, profile->samples[1].labels);
	assert_int_not_equal(profile->samples[1].labels, profile->samples[2].labels);
	profile_free(profile);
}

/* A profile that was opened for other things is handed over without samples. */
static void test_opened(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(profile_builder_open(&f->builder, NULL), 0);
	struct profile *profile = profile_builder_take(&f->builder, 1, 2);
	assert_non_null(profile);
	assert_int_equal(profile->sample_type_count, 1);
	profile_free(profile);
	assert_null(profile_builder_take(&f->builder, 1, 2));
}

static void test_dropped_samples_are_counted(void **state)
{
	struct fixture *f = *state;
	struct relabel *relabel;
	struct abi_sample sample = {.user_leaf = TEXT_START, .kernel_leaf = KERNEL};

	assert_int_equal(relabel_new(&relabel, NULL), 0);
	assert_int_equal(relabel_add(relabel,
				     &(struct relabel_rule){.source_labels = {"process.comm"},
							    .source_count = 1,
							    .has_sources = true,
							    .regex = "program",
							    .action = "drop"},
				     NULL),
			 0);
	f->builder.sample_labels.relabel = relabel;
	for (int i = 0; i < 3; i++)
		assert_int_equal(add_sample(f, sample), 0);
	assert_int_equal(f->builder.relabel_dropped, 3);
	assert_int_equal(f->kernel_asked, 0); /* no work is done for them */
	assert_null(profile_builder_take(&f->builder, 0, 0));
	apply(f, (struct event){.kind = EVENT_COMM, .time_ns = 5, .is_exec = true, .name = "other"});
	assert_int_equal(add_sample(f, sample), 0);
	assert_int_equal(f->builder.relabel_dropped, 3);
	assert_int_equal(f->builder.profile->sample_count, 1);
	relabel_free(relabel);
}

static void test_what_is_missing_is_counted(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 3; i++)
		assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 77}), 0);
	assert_int_equal(add_sample(f, (struct abi_sample){.kernel_leaf = KERNEL, .flags = ABI_SAMPLE_STACK_LOST}), 0);
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .flags = ABI_SAMPLE_NO_USER_STACK}), 0);
	assert_int_equal(f->builder.losses[AGENT_LOSS_STACKS_FULL], 4);
	assert_int_equal(f->builder.losses[AGENT_LOSS_NO_USER_STACK], 1);
	assert_string_equal(stack_text(f->builder.profile, 0), "/opt/program+5000 :[unknown stack]");
	assert_string_equal(stack_text(f->builder.profile, 1), "[module]:kernel_ffffffff810000 :[unknown stack]");
	f->process->unknown = true;
	f->process->version++;
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = 0x999}), 0);
	assert_int_equal(f->builder.losses[AGENT_LOSS_NO_PROCESS], 1);
}

/* As deep as the kernel allows, on both sides. */
static void test_deep_stacks(void **state)
{
	struct fixture *f = *state;
	uint64_t frames[ABI_FRAMES_MAX - 1];

	for (unsigned i = 0; i < ABI_FRAMES_MAX - 1; i++)
		frames[i] = TEXT_START + 1 + i;
	add_chain(f, 1, ABI_FRAMES_MAX - 1, frames);
	for (unsigned i = 0; i < ABI_FRAMES_MAX - 1; i++)
		frames[i] = KERNEL + 0x200000 + i;
	add_chain(f, 2, ABI_KERNEL_FRAMES_MAX - 1, frames);
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START,
							   .user_chain = 1,
							   .kernel_leaf = KERNEL,
							   .kernel_chain = 2}),
			 0);
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START,
							   .user_chain = 1,
							   .kernel_leaf = KERNEL,
							   .kernel_chain = 2,
							   .flags = ABI_SAMPLE_STACK_LOST}),
			 0);
	assert_int_equal(profile_stack_depth(f->builder.profile, f->builder.profile->samples[0].stack),
			 ABI_FRAMES_MAX + ABI_KERNEL_FRAMES_MAX);
	assert_int_equal(profile_stack_depth(f->builder.profile, f->builder.profile->samples[1].stack),
			 ABI_FRAMES_MAX + ABI_KERNEL_FRAMES_MAX + 1);
}

static int some_samples(void *context)
{
	struct fixture f;
	int r = fixture_init(&f);

	if (r == 0)
		r = add_chain(&f, 1, 2, (uint64_t[]){TEXT_START + 0x200, TEXT_START + 0x300});
	for (uint64_t i = 0; i < 20 && r == 0; i++)
		r = add_sample(
			&f, (struct abi_sample){.user_leaf = TEXT_START + i, .user_chain = 1, .kernel_leaf = KERNEL + i * 256});
	fixture_release(&f);
	return r;
}

static void test_memory_runs_out(void **state)
{
	assert_true(test_each_allocation(some_samples, NULL) > 28);
}

static bool tracing_symbol(void *context, uint64_t address, struct agent_symbol *ret)
{
	static const char *const names[] = {"bpf_prog_0123_switch", "bpf_trace_run4", "__traceiter_sched_switch", "__schedule",
					    "bpf_prog_0123_other"};

	*ret = (struct agent_symbol){.module = "[kernel.kallsyms]"};
	snprintf(ret->name, sizeof(ret->name), "%s", names[(address - KERNEL) >> 8]);
	return true;
}

/* Two values a sample; and of waits the frames that belong to the tracing are left out, but only at the leaf. */
static void test_waits(void **state)
{
	struct fixture *f = *state;
	const uint64_t callers[] = {KERNEL + 0x110, KERNEL + 0x210, KERNEL + 0x310, KERNEL + 0x410};
	uint32_t locations[8];
	struct abi_sample sample = {
		.kernel_leaf = KERNEL + 0x10, .kernel_chain = 5, .tgid = PID, .comm = "thread", .user_leaf = TEXT_START};

	f->sink.kernel_symbol = tracing_symbol;
	f->builder.types[1] = "off_cpu";
	assert_int_equal(add_chain(f, 5, 4, callers), 0);
	assert_int_equal(profile_builder_add(&f->builder, f->process, &sample, 0, 10, NULL), 0);
	assert_int_equal(profile_builder_add(&f->builder, f->process, &sample, 1, 7, NULL), 0);
	sample.what = ABI_WAIT_BEGINS;
	sample.tid = 3;
	assert_int_equal(profile_builder_add(&f->builder, f->process, &sample, 1, 1000, NULL), 0);
	sample = (struct abi_sample){.tgid = PID, .comm = "thread", .what = ABI_WAIT_BEGINS, .result = UNWIND_NO_USER};
	assert_int_equal(profile_builder_add(&f->builder, f->process, &sample, 1, 5, NULL), 0);
	struct profile *profile = profile_builder_take(&f->builder, 1, 2);
	assert_int_equal(profile->sample_type_count, 2);
	assert_string_equal(profile_string(profile, profile->sample_types[0].type), "off_cpu");
	assert_string_equal(profile_string(profile, profile->sample_types[1].type), "cpu");
	assert_int_equal(profile_default_sample_type(profile), 1);
	assert_string_equal(profile_string(profile, profile->period_type.type), "cpu");
	assert_int_equal(profile->sample_count, 3);
	assert_int_equal(profile->values[0], 7);
	assert_int_equal(profile->values[1], 10);
	assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), 6);
	assert_int_equal(profile->values[2], 1000);
	assert_int_equal(profile->values[3], 0);
	assert_int_equal(profile_stack_locations(profile, profile->samples[1].stack, locations, 8), 3);
	const struct profile_location *leaf = &profile->locations[locations[0]];
	assert_string_equal(profile_string(profile, profile->functions[profile->lines[leaf->line_first].function].name),
			    "__schedule");
	assert_int_equal(profile_stack_depth(profile, profile->samples[2].stack), 1); /* [unknown stack] */
	profile_free(profile);
}

static bool core_symbol(void *context, uint64_t address, struct agent_symbol *ret)
{
	*ret = (struct agent_symbol){.module = "[kernel.kallsyms]"};
	snprintf(ret->name, sizeof(ret->name), "%s", address < KERNEL + 0x300 ? "bpf_trace_run4" : "__schedule");
	if (address >= KERNEL + 0x1000) { /* a BPF program */
		snprintf(ret->name, sizeof(ret->name), "bpf_prog_0123_switch");
		snprintf(ret->module, sizeof(ret->module), "[bpf]");
		return true;
	}
	snprintf(ret->build_id, sizeof(ret->build_id), "c0de");
	ret->offset = address - KERNEL;
	ret->text_bytes = 0x1000;
	return true;
}

/* Where the server has the kernel's names, its code is addresses that are the same after each boot; other code stays names. */
static void test_kernel_addresses(void **state)
{
	struct fixture *f = *state;
	const uint64_t callers[] = {KERNEL + 0x110, KERNEL + 0x310, KERNEL + 0x410};
	uint32_t locations[8];
	struct abi_sample sample = {.kernel_leaf = KERNEL + 0x1010, .kernel_chain = 5, .tgid = PID, .comm = "thread"};

	f->sink.kernel_symbol = core_symbol;
	assert_int_equal(add_chain(f, 5, 3, callers), 0);
	assert_int_equal(profile_builder_add(&f->builder, f->process, &sample, 0, 10, NULL), 0);
	sample.what = ABI_WAIT_BEGINS;
	sample.user_leaf = TEXT_START;
	assert_int_equal(profile_builder_add(&f->builder, f->process, &sample, 0, 10, NULL), 0);
	struct profile *profile = profile_builder_take(&f->builder, 1, 2);
	assert_int_equal(profile_stack_locations(profile, profile->samples[0].stack, locations, 8), 4);
	const struct profile_location *leaf = &profile->locations[locations[0]];
	assert_int_equal(leaf->line_count, 1);
	assert_string_equal(profile_string(profile, profile->mappings[leaf->mapping].file_name), "[bpf]");
	for (size_t i = 1; i < 4; i++) {
		const struct profile_location *at = &profile->locations[locations[i]];
		const struct profile_mapping *mapping = &profile->mappings[at->mapping];
		assert_int_equal(at->frame_type, PROFILE_FRAME_KERNEL);
		assert_int_equal(at->line_count, 0);
		assert_true(at->address == callers[i - 1] - 1 - KERNEL);
		assert_string_equal(profile_string(profile, mapping->file_name), "[kernel.kallsyms]");
		assert_string_equal(profile_string(profile, mapping->build_id), "c0de");
		assert_true(mapping->start == 0 && mapping->offset == 0 && mapping->limit == 0x1000);
	}
	/* A wait begins in __schedule all the same. */
	assert_int_equal(profile_stack_locations(profile, profile->samples[1].stack, locations, 8), 3);
	assert_true(profile->locations[locations[0]].address == callers[1] - 1 - KERNEL);
	profile_free(profile);
}

/* ---- functions of Python ---- */

/* A code object in the memory of this very process, as 3.11 lays it out, and what it points to. */
struct code_object {
	uint64_t code[24], name[16], file[16], lines[8], type[8];
};
static struct code_object codes[3];

static void set_text(uint64_t *object, const char *text)
{
	object[2] = strlen(text);
	object[4] = (1 | 8 | 16) << 2; /* one byte a character, compact, ASCII */
	memcpy(&object[6], text, strlen(text));
}

/* Word 1 of its frames; *ret_data gets word 2, in the first instruction. */
static uint64_t make_code(size_t i, const char *name, uint32_t first_line, uint64_t *ret_data)
{
	struct code_object *object = &codes[i];

	*object = (struct code_object){0};
	object->code[1] = (uintptr_t)object->type;
	object->type[3] = (uintptr_t) "code";
	object->code[9] = first_line;
	object->code[14] = (uintptr_t)object->file;
	object->code[15] = object->code[16] = (uintptr_t)object->name;
	object->code[17] = (uintptr_t)object->lines;
	set_text(object->name, name);
	set_text(object->file, "/srv/app.py");
	object->lines[2] = 2;
	memcpy(&object->lines[4], "\xe8\x04", 2); /* one instruction, two lines on */
	uint32_t check = runtime_check_of(object->code[9], object->code[15], object->code[17]);
	*ret_data = RUNTIME_FRAME | RUNTIME_FRAME_DATA | (uint64_t)check << 24;
	return RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_PYTHON << 56 | (uintptr_t)object->code;
}

/* The process is this one, and has an interpreter: 3.11. */
static void become_python(struct fixture *f)
{
	struct runtime_file file = {.type = &runtime_python, .is_known = true, .python.version = 0x030b};

	assert_true(python_layout_of(0x030b, &file.python.layout));
	assert_int_equal(array_push(&f->runtimes.files, &f->runtimes.file_count, &f->runtimes.file_capacity, 8, file), 0);
	f->process->pid = getpid();
	f->process->maps->runtimes[RUNTIME_LISTED].file = 2; /* the first */
}

static void test_functions_of_python(void **state)
{
	struct fixture *f = *state;
	uint64_t inner_data, outer_data;

	uint64_t inner = make_code(0, "C.inner", 10, &inner_data), outer = make_code(1, "outer", 20, &outer_data);
	become_python(f);
	add_chain(f, 1, 6, (uint64_t[]){inner, inner_data, outer, outer_data | RUNTIME_FRAME_ENTRY, TEXT_START + 0x200, 0});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 1}), 0);
	const struct profile *profile = f->builder.profile;
	assert_string_equal(stack_text(profile, 0), "/opt/program+5000 python:C.inner python:outer /opt/program+51ff");
	uint32_t ids[8];
	assert_int_equal(profile_stack_locations(profile, profile->samples[0].stack, ids, 8), 4);
	const struct profile_location *location = &profile->locations[ids[1]];
	const struct profile_line *line = &profile->lines[location->line_first];
	assert_int_equal(location->frame_type, PROFILE_FRAME_INTERPRETED);
	assert_int_equal(line->line, 12);
	assert_int_equal(profile->functions[line->function].start_line, 10);
	assert_string_equal(profile_string(profile, profile->functions[line->function].file_name), "/srv/app.py");
	assert_int_equal(f->builder.losses[AGENT_LOSS_NO_NAME], 0);
}

/* Those that a complete walk did not come to are callers of the outermost one that it came to, above what called that; and of
 * nothing, if it came to none. */
static void test_pending_functions_of_complete_walks(void **state)
{
	struct fixture *f = *state;
	const uint64_t pending = RUNTIME_FRAME_PENDING,
		       anchor = RUNTIME_FRAME | RUNTIME_FRAME_DATA | pending | RUNTIME_FRAME_ANCHOR;
	uint64_t a_data, b_data, c_data;

	uint64_t a = make_code(0, "a", 10, &a_data), b = make_code(1, "b", 20, &b_data), c = make_code(2, "c", 30, &c_data);
	become_python(f);
	add_chain(f, 1, 9,
		  (uint64_t[]){a, a_data | RUNTIME_FRAME_ENTRY, TEXT_START + 0x200, TEXT_START + 0x300, b,
			       b_data | pending | RUNTIME_FRAME_ENTRY, anchor | 0x1000, c, c_data | pending});
	add_chain(f, 2, 3, (uint64_t[]){TEXT_START + 0x200, b, b_data | pending});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 1}), 0);
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 2}), 0);
	assert_string_equal(stack_text(f->builder.profile, 0),
			    "/opt/program+5000 python:a python:b python:c /opt/program+51ff /opt/program+52ff");
	assert_string_equal(stack_text(f->builder.profile, 1), "/opt/program+5000 /opt/program+51ff");
}

/* Of a walk that was cut they are behind what is missing; that is marked once. */
static void test_pending_functions_of_cut_walks(void **state)
{
	struct fixture *f = *state;
	const uint64_t pending = RUNTIME_FRAME_PENDING;
	uint64_t a_data, b_data, c_data;

	uint64_t a = make_code(0, "a", 10, &a_data), b = make_code(1, "b", 20, &b_data), c = make_code(2, "c", 30, &c_data);
	become_python(f);
	add_chain(f, 1, 7, (uint64_t[]){a, a_data, TEXT_START + 0x200, b, b_data | pending, c, c_data | pending});
	add_chain(f, 2, 3, (uint64_t[]){a, a_data, TEXT_START + 0x200});
	for (uint64_t chain = 1; chain <= 2; chain++)
		assert_int_equal(
			add_sample(f,
				   (struct abi_sample){.user_leaf = TEXT_START, .user_chain = chain, .result = UNWIND_NO_RULE}),
			0);
	assert_string_equal(stack_text(f->builder.profile, 0),
			    "/opt/program+5000 python:a /opt/program+51ff :[unknown stack] python:b python:c");
	assert_string_equal(stack_text(f->builder.profile, 1), "/opt/program+5000 python:a /opt/program+51ff :[unknown stack]");
}

/* A runtime whose functions make no sense, from the first one on, is not shown any more; once one did, it stays. */
static void test_functions_that_make_no_sense(void **state)
{
	struct fixture *f = *state;
	uint64_t data, good_data;

	uint64_t code = make_code(0, "f", 10, &data), good = make_code(1, "good", 20, &good_data);
	codes[0].name[4] = 0; /* no text */
	become_python(f);
	for (uint64_t i = 0; i < 40; i++) {
		/* Each is another one: names are kept. */
		codes[0].code[9] = i;
		data = RUNTIME_FRAME | RUNTIME_FRAME_DATA |
		       (uint64_t)runtime_check_of(codes[0].code[9], codes[0].code[15], codes[0].code[17]) << 24;
		add_chain(f, 1 + i, 2, (uint64_t[]){code, data});
		assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 1 + i}), 0);
		assert_string_equal(stack_text(f->builder.profile, i),
				    i < 32 ? "/opt/program+5000 python:[function of Python]" : "/opt/program+5000");
	}
	assert_true(runtimes_are_disbelieved(f->process, RUNTIME_KIND_PYTHON));
	f->process->maps->disbelieved = 0;
	f->process->maps->nonsense[RUNTIME_LISTED] = 0;
	add_chain(f, 100, 2, (uint64_t[]){good, good_data});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 100}), 0);
	for (uint64_t i = 40; i < 80; i++) {
		codes[0].code[9] = i;
		data = RUNTIME_FRAME | RUNTIME_FRAME_DATA |
		       (uint64_t)runtime_check_of(codes[0].code[9], codes[0].code[15], codes[0].code[17]) << 24;
		add_chain(f, 100 + i, 2, (uint64_t[]){code, data});
		assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 100 + i}), 0);
	}
	assert_false(runtimes_are_disbelieved(f->process, RUNTIME_KIND_PYTHON));
}

/* Of a process that has had more read than it may no function is read that is not known; later it is. */
static void test_functions_that_are_too_many(void **state)
{
	struct fixture *f = *state;
	uint64_t first_data, second_data;

	uint64_t first = make_code(0, "first", 10, &first_data), second = make_code(1, "second", 20, &second_data);
	become_python(f);
	struct runtime_reads *reads = &f->process->maps->reads;
	add_chain(f, 1, 2, (uint64_t[]){first, first_data});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 1}), 0);
	assert_in_range(reads->bytes, 8 * RUNTIME_READ_COST, 16 * RUNTIME_READ_COST);
	*reads = (struct runtime_reads){.bytes = 1ll << 40, .until_ns = time_monotonic_ns()};
	add_chain(f, 2, 4, (uint64_t[]){first, first_data, second, second_data});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 2}), 0);
	assert_non_null(strstr(stack_text(f->builder.profile, 1), "python:first"));
	assert_non_null(strstr(stack_text(f->builder.profile, 1), "python:[function of Python]"));
	assert_int_equal(f->builder.losses[AGENT_LOSS_NO_NAME], 1);
	assert_int_equal(f->builder.runtimes->counts[RUNTIME_KIND_PYTHON].refused, 1);
	/* Half a second gives back half of what a second does. */
	*reads = (struct runtime_reads){.bytes = RUNTIME_READ_BYTES_MAX + RUNTIME_READ_BYTES_PER_S / 2,
					.until_ns = time_monotonic_ns() - NS_PER_S / 2 - NS_PER_MS};
	add_chain(f, 3, 4, (uint64_t[]){first, first_data, second, second_data});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 3}), 0);
	assert_non_null(strstr(stack_text(f->builder.profile, 2), "python:second"));
	assert_in_range(reads->bytes, RUNTIME_READ_BYTES_MAX / 2, RUNTIME_READ_BYTES_MAX + 16 * RUNTIME_READ_COST);
	assert_int_equal(f->builder.losses[AGENT_LOSS_NO_NAME], 1);
}

/* The object is another one by now; the process has no interpreter that is known; half a frame. */
static void test_functions_without_name(void **state)
{
	struct fixture *f = *state;
	uint64_t data;

	uint64_t code = make_code(0, "f", 10, &data);
	become_python(f);
	add_chain(f, 1, 2, (uint64_t[]){code, data ^ 1ull << 24});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 1}), 0);
	assert_string_equal(stack_text(f->builder.profile, 0), "/opt/program+5000 python:[function of Python]");
	assert_int_equal(f->builder.losses[AGENT_LOSS_NO_NAME], 1);
	f->process->maps->runtimes[RUNTIME_LISTED].file = 0;
	add_chain(f, 2, 3, (uint64_t[]){TEXT_START + 0x200, code, data});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 2}), 0);
	assert_string_equal(stack_text(f->builder.profile, 1),
			    "/opt/program+5000 /opt/program+51ff python:[function of Python]");
	add_chain(f, 3, 2, (uint64_t[]){TEXT_START + 0x300, code});
	add_chain(f, 4, 2, (uint64_t[]){data, TEXT_START + 0x400});
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 3}), 0);
	assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START, .user_chain = 4}), 0);
	assert_string_equal(stack_text(f->builder.profile, 2), "/opt/program+5000 /opt/program+52ff");
	assert_string_equal(stack_text(f->builder.profile, 3), "/opt/program+5000 /opt/program+53ff");
}

/* As many as a chain can have, all pending: a mark more than there are. */
static void test_deep_stacks_of_python(void **state)
{
	struct fixture *f = *state;
	uint64_t frames[ABI_FRAMES_MAX - 1], data, count = (ABI_FRAMES_MAX - 1) / 2;

	uint64_t code = make_code(0, "f", 10, &data);
	become_python(f);
	for (uint64_t i = 0; i < count; i++) {
		frames[2 * i] = code;
		frames[2 * i + 1] = data | (i ? RUNTIME_FRAME_PENDING : 0);
	}
	add_chain(f, 1, (unsigned)count * 2, frames);
	for (unsigned cut = 0; cut < 2; cut++) {
		assert_int_equal(add_sample(f, (struct abi_sample){.user_leaf = TEXT_START,
								   .user_chain = 1,
								   .result = cut ? UNWIND_TOO_DEEP : UNWIND_COMPLETE}),
				 0);
		assert_int_equal(profile_stack_depth(f->builder.profile, f->builder.profile->samples[cut].stack),
				 1 + count + cut);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_functions_of_python),
		FIXTURE_TEST(test_pending_functions_of_complete_walks),
		FIXTURE_TEST(test_pending_functions_of_cut_walks),
		FIXTURE_TEST(test_functions_without_name),
		FIXTURE_TEST(test_functions_that_make_no_sense),
		FIXTURE_TEST(test_functions_that_are_too_many),
		FIXTURE_TEST(test_deep_stacks_of_python),
		FIXTURE_TEST(test_waits),
		FIXTURE_TEST(test_kernel_addresses),
		FIXTURE_TEST(test_addresses_become_locations),
		FIXTURE_TEST(test_jit_code_with_lines),
		FIXTURE_TEST(test_equal_samples_are_counted),
		FIXTURE_TEST(test_what_is_missing_is_counted),
		FIXTURE_TEST(test_timed_samples),
		FIXTURE_TEST(test_opened),
		FIXTURE_TEST(test_dropped_samples_are_counted),
		FIXTURE_TEST(test_deep_stacks),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
