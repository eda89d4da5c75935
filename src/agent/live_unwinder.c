// SPDX-License-Identifier: Apache-2.0
#include "agent/live_unwinder.h"

#include "agent/proc.h"
#include "base/alloc.h"
#include "base/time.h"

#define BLOCK		16u
#define BEFORE_BYTES	(8u << 10) /* loops lead back */
#define WINDOW_BYTES	(32u << 10)
#define SEARCH_BURST_NS (NS_PER_S / 2)
#define SEARCH_PART	500
#define PROCESSES_PART	4 /* of it for one process: code that has no rules to be found must leave some to others */
#define VERIFY_BURST_NS (NS_PER_S / 4)
#define VERIFY_PART	500

void live_unwinder_init(struct live_unwinder *live, struct unwind_tables *tables, struct process_table *processes)
{
	*live = (struct live_unwinder){
		.budget = {.tables = tables},
		.processes = processes,
		.search = {.burst_ns = SEARCH_BURST_NS, .part = SEARCH_PART},
		.verify = {.burst_ns = VERIFY_BURST_NS, .part = VERIFY_PART},
		.drains = 1,
	};
}

static size_t read_memory(pid_t pid, void *to, size_t bytes, uint64_t address)
{
	ssize_t n = proc_read_memory(pid, address, to, bytes);

	return n < 0 ? 0 : (size_t)n;
}

static bool read_code(void *context, void *to, size_t bytes, uint64_t address)
{
	const struct process *process = context;

	return read_memory(process->pid, to, bytes, address) == bytes;
}

static void note_change(void *context, uint64_t start, uint64_t end)
{
	process_change_range(context, start, end);
}

static void verify(struct live_unwinder *live, struct process *process)
{
	int64_t cpu_ns = time_thread_cpu_ns();
	enum agent_cost before = cost_enter(live->processes->meter, AGENT_COST_TABLES);
	uint64_t dropped = live->budget.dropped;
	uint32_t version = process->version;

	process->version = live->processes->versions + 1; /* what changes are noted by */
	live_rules_verify(process->live, read_code, note_change, process);
	if (live->budget.dropped == dropped)
		process->version = version;
	else
		live->processes->versions++;
	if (live_rules_are_new(process->live))
		process_table_changed(live->processes, process);
	cost_enter(live->processes->meter, before);
	cpu_budget_use(&live->verify, time_thread_cpu_ns() - cpu_ns, time_monotonic_ns());
}

/* The kernel side goes by the rules of the process that forked this one, whose code was the same then. From here on each has
 * its own. */
static void part_from_parent(struct live_unwinder *live, struct process *process)
{
	if (mapping_list_unshare(&process->maps) < 0)
		return;
	process->maps->live_owner = 0;
	process->maps->changed = true;
	process_table_changed(live->processes, process);
}

void live_unwinder_verify(struct live_unwinder *live, struct process *process)
{
	if (process->maps && process->maps->live_owner && process->maps->live_owner != process->id + 1)
		part_from_parent(live, process);
	if (!process->live || process->live_verified == live->drains || process->exit_ns)
		return;
	process->live_verified = live->drains;
	if (cpu_budget_left(&live->verify, time_monotonic_ns()) > 0)
		verify(live, process);
}

/* ---- searching ---- */

/* Reads what there is of a window around the address that begins `before` bytes earlier. */
static size_t read_window(const struct process *process, const struct process_mapping *mapping, uint64_t address,
			  uint64_t before, uint8_t *to, size_t bytes, uint64_t *ret_start)
{
	uint64_t start = address - mapping->start > before ? address - before : mapping->start;

	start &= ~(uint64_t)(BLOCK - 1);
	if (mapping->end - start < bytes)
		bytes = mapping->end - start;
	*ret_start = start;
	size_t n = read_memory(process->pid, to, bytes, start);
	if (n > address - start)
		return n;
	/* A page before it is not there. */
	*ret_start = address & ~4095ull;
	bytes = mapping->end - *ret_start < bytes ? mapping->end - *ret_start : bytes;
	return *ret_start < mapping->start ? 0 : read_memory(process->pid, to, bytes, *ret_start);
}

/* Positive if a larger part of the code may say more. */
static int search_in(struct live_unwinder *live, struct process *process, const struct process_mapping *mapping,
		     uint64_t address, uint64_t before, size_t bytes, bool last)
{
	_cleanup_(mem_freep) uint8_t *code = mem_alloc(bytes);
	_cleanup_(live_code_release) struct live_code found = {0};
	uint64_t start;

	if (!code)
		return 0;
	size_t n = read_window(process, mapping, address, before, code, bytes, &start);
	if (n <= address - start)
		return 0;
	int r = live_code_analyse(code, n, start, (uint32_t)(address - start), &found);
	if (r == 0 && !found.proven && found.leaves && !last) {
		r = 1;
	} else if (r == 0) {
		if (!process->live)
			r = live_rules_new(&live->budget, &process->live);
		if (r == 0)
			r = live_rules_add(process->live, start, code, n, &found);
		process->live_verified = live->drains;
	}
	return r;
}

/* Whether there may be a search for the process now. */
static bool may_search(struct live_unwinder *live, struct process *process, int64_t now)
{
	if (!process->live_search.part)
		process->live_search = (struct cpu_budget){.burst_ns = SEARCH_BURST_NS / PROCESSES_PART,
							   .part = (int64_t)SEARCH_PART * PROCESSES_PART};
	return cpu_budget_left(&live->search, now) > 0 && cpu_budget_left(&process->live_search, now) > 0;
}

static void search(struct live_unwinder *live, struct process *process, uint64_t address)
{
	const struct process_mapping *mapping = process_find_mapping(process, address);
	int64_t now = time_monotonic_ns();

	if (!mapping || process->exit_ns)
		return;
	if (!may_search(live, process, now)) {
		live->denied = true;
		return;
	}
	int64_t cpu_ns = time_thread_cpu_ns();
	enum agent_cost before = cost_enter(live->processes->meter, AGENT_COST_TABLES);
	if (search_in(live, process, mapping, address, BEFORE_BYTES, WINDOW_BYTES, false) > 0)
		search_in(live, process, mapping, address, LIVE_CODE_BYTES_MAX / 4, LIVE_CODE_BYTES_MAX, true);
	process_table_changed(live->processes, process);
	cost_enter(live->processes->meter, before);
	cpu_ns = time_thread_cpu_ns() - cpu_ns;
	cpu_budget_use(&live->search, cpu_ns, now);
	cpu_budget_use(&process->live_search, cpu_ns, now);
}

static bool is_as_it_was(const struct process *process, uint64_t address, uint16_t check)
{
	uint8_t bytes[BLOCK];

	return read_memory(process->pid, bytes, sizeof(bytes), address & ~(uint64_t)(BLOCK - 1)) == sizeof(bytes) &&
	       live_rules_check(bytes) == check;
}

struct unwind_rule live_unwinder_find(struct live_unwinder *live, struct process *process, uint64_t address)
{
	const struct unwind_rule *rule = NULL;
	uint16_t check = 0;

	if (process->live)
		rule = live_rules_find(process->live, address, &check);
	if (rule && is_as_it_was(process, address, check))
		return *rule;
	if (rule && !process->exit_ns) {
		verify(live, process);
		rule = live_rules_find(process->live, address, &check);
	}
	if (!rule) {
		search(live, process, address);
		rule = process->live ? live_rules_find(process->live, address, &check) : NULL;
	}
	return rule && is_as_it_was(process, address, check) ? *rule : (struct unwind_rule){.cfa = UNWIND_CFA_NONE};
}

/* ---- telling the kernel side ---- */

uint32_t live_unwinder_slot(struct process *process, uint64_t start, uint64_t end)
{
	if (!process->live)
		return UNWIND_SLOT_JIT;
	uint32_t slot = live_rules_slot(process->live, start, end);
	if (slot != UNWIND_SLOT_JIT)
		process->maps->live_owner = process->id + 1;
	return slot;
}

void live_unwinder_publish(struct live_unwinder *live, struct process *process)
{
	enum agent_cost before = cost_enter(live->processes->meter, AGENT_COST_TABLES);

	if ((live_rules_publish(process->live) > 0 || (process->maps && process->maps->live_owner != process->id + 1)) &&
	    process->maps)
		process->maps->changed = true; /* ranges name another slot */
	cost_enter(live->processes->meter, before);
}
