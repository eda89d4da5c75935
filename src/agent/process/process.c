// SPDX-License-Identifier: Apache-2.0
/*
 * The process table.
 *
 * Events of the kernel: FORK (a copy of the parent's mappings, shared until one changes), COMM with is_exec (no mappings,
 * another program; the first file mapped afterwards is the executable), MAP, EXIT of a thread. What it does not tell is read
 * from /proc: the processes that were there at the start, and all of a process that is sampled after records were lost.
 *
 * A process whose last thread has ended stays until the next drain is over, since samples of its last moments may carry a time
 * behind that of its EXIT, and since binaries are opened through it while it is a zombie. Its pid may already belong to
 * another: then a FORK takes its place at once, which is right, because events and samples come in the order of time.
 */
#include "agent/process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/sample/sampler.h"
#include "agent/unwind/live_rules.h"
#include "base/alloc.h"
#include "base/time.h"

#define READ_CHEAP_US 2000u
#define EXIT_SLACK_NS ((uint64_t)NS_PER_S) /* for which a process that ended may be kept from its last instructions */

int process_table_init(struct process_table *table, struct binaries *binaries)
{
	*table = (struct process_table){.binaries = binaries, .next_id = 1};
	return 0;
}

static void process_free(struct process *process)
{
	live_rules_free(process->live);
	mapping_list_unref(process->maps);
	mapping_changes_unref(process->changes);
	mem_free(process->results);
	mem_free(process);
}

void process_table_release(struct process_table *table)
{
	size_t cursor = 0;
	uint64_t pid, value;

	while (map64_next(&table->by_pid, &cursor, &pid, &value))
		process_free((struct process *)(uintptr_t)value);
	map64_release(&table->by_pid);
	mem_free(table->exited);
	mem_free(table->changed);
	mem_free(table->buffer);
	*table = (struct process_table){0};
}

struct process *process_table_find(const struct process_table *table, pid_t pid)
{
	uint64_t value;
	return map64_get(&table->by_pid, (uint64_t)pid, &value) ? (struct process *)(uintptr_t)value : NULL;
}

static void forget_exited(struct process_table *table, const struct process *process)
{
	for (size_t i = 0; i < table->exited_count; i++) {
		if (table->exited[i] == process) {
			table->exited[i] = table->exited[--table->exited_count];
			return;
		}
	}
}

/* The kernel side forgets by itself, at an exec and after an exit. Only what was sent to it since then must be taken back: two
 * system calls less for each process that is started. */
static void forget_in_kernel(struct process_table *table, struct process *process, uint64_t since_ns)
{
	if (process->told && table->sampler && process->told_ns >= since_ns)
		sampler_forget_process(table->sampler, process->pid);
	process->told = false;
}

void process_table_remove(struct process_table *table, struct process *process)
{
	forget_in_kernel(table, process, process->exit_ns);
	if (process->exit_ns)
		forget_exited(table, process);
	map64_remove(&table->by_pid, (uint64_t)process->pid);
	process_free(process);
}

int process_table_add(struct process_table *table, pid_t pid, struct process **ret)
{
	struct process *old = process_table_find(table, pid);
	struct process *process = mem_zalloc(sizeof(*process));

	if (!process)
		return -ENOMEM;
	if (old)
		process_table_remove(table, old);
	process->pid = pid;
	process->id = table->next_id++;
	process->version = process->first_version = ++table->versions;
	process->threads = 1;
	process->lost_seen = table->lost;
	process->uid = (uid_t)-1;
	process->reread_at = PROCESS_REREAD_FIRST;
	int r = map64_put(&table->by_pid, (uint64_t)pid, (uint64_t)(uintptr_t)process);
	if (r < 0) {
		process_free(process);
		return r;
	}
	*ret = process;
	return 0;
}

const struct process_mapping *process_find_mapping(const struct process *process, uint64_t address)
{
	return mapping_list_find(process->maps, address);
}

bool process_is_in_doubt(const struct process *process, uint32_t version, uint64_t address)
{
	if (version == process->version)
		return false;
	return version_is_after(process->first_version, version) || version_is_after(version, process->version) ||
	       mapping_changes_since(process->changes, version, address);
}

/* ---- events ---- */

void process_table_changed(struct process_table *table, struct process *process)
{
	if (!table->heap || process->changed ||
	    array_reserve(&table->changed, &table->changed_capacity, table->changed_count + 1, PROCESSES_MAX) < 0)
		return; /* without memory it stays as it is until the next change: samples then say that it is out of date */
	process->changed = true;
	table->changed[table->changed_count++] = process->pid;
}

void process_table_leave_heap(struct process_table *table)
{
	size_t cursor = 0;
	uint64_t pid, value;

	while (map64_next(&table->by_pid, &cursor, &pid, &value)) {
		struct process *process = (struct process *)(uintptr_t)value;
		process->told = false;
		process->live = live_rules_free(process->live); /* its tables are there */
		if (process->maps)
			mapping_list_leave_heap(process->maps);
	}
	table->heap = NULL;
	table->sampler = NULL;
}

/* The kernel side copied what it knew of the parent when it forked. If the parent's ranges were moved later than that (although
 * before this event was read), the child still has the old ones. */
static void inherit_kernel_state(struct process_table *table, const struct event *event, const struct process *parent,
				 struct process *child)
{
	const struct mapping_list *list = child->maps;

	child->version = parent->version;
	child->first_version = parent->first_version;
	child->told_version = parent->told_version;
	child->settled_version = parent->settled_version;
	child->changes = mapping_changes_ref(parent->changes);
	child->told = parent->told;
	child->told_ns = event->time_ns;
	if (child->told && list && (list->changed || list->placed_ns >= event->time_ns))
		process_table_changed(table, child);
}

void process_begin_version(struct process_table *table, struct process *process)
{
	process->version = process->first_version = ++table->versions;
	process->changes = mapping_changes_unref(process->changes);
}

int process_change_range(void *context, uint64_t start, uint64_t end)
{
	struct process *process = context;

	int r = mapping_changes_add(&process->changes, start, end, process->version, process->settled_version);
	if (r < 0) /* without memory for the range, all is in doubt */
		process->first_version = process->version;
	return r;
}

/* What the process maps has changed: walks by what the kernel side knows miss something. */
static void note_change(struct process_table *table, struct process *process)
{
	process->fruitless = 0;
	process->quiet_until = 0;
	if (process->told)
		process_table_changed(table, process);
}

static int apply_fork(struct process_table *table, const struct event *event)
{
	struct process *parent = process_table_find(table, event->parent), *child;

	if (event->pid == event->parent) {
		if (parent && event->time_ns > parent->read_ns)
			parent->threads++;
		return 0;
	}
	child = process_table_find(table, event->pid);
	if (child && child->read && !child->exit_ns && event->time_ns <= child->read_ns)
		return 0; /* the snapshot has it already */
	int r = process_table_add(table, event->pid, &child);
	if (r < 0)
		return r;
	child->read_ns = child->started_ns = event->time_ns;
	child->parent = event->parent;
	parent = process_table_find(table, event->parent);
	if (!parent) {
		child->lost_seen = table->lost - 1; /* read from /proc when sampled */
		return 0;
	}
	child->maps = parent->maps;
	if (child->maps)
		child->maps->references++;
	child->executable = parent->executable;
	inherit_kernel_state(table, event, parent, child);
	child->uid = parent->uid;
	child->jitdump = parent->jitdump;
	child->lost_seen = parent->lost_seen;
	child->unknown = parent->unknown;
	child->reread_at = parent->reread_at;
	child->read_cost_us = parent->read_cost_us;
	memcpy(child->comm, parent->comm, sizeof(child->comm));
	return 0;
}

static void set_comm(struct process *process, const char *comm)
{
	snprintf(process->comm, sizeof(process->comm), "%s", comm);
}

static void apply_comm(struct process_table *table, const struct event *event, struct process *process)
{
	if (event->is_exec) {
		forget_in_kernel(table, process, event->time_ns);
		process->wanted = process->expects_runtime = false;
		process->has_execed = true;
		process->maps = mapping_list_unref(process->maps);
		process->live = live_rules_free(process->live);
		process->executable = BINARY_NONE;
		process_begin_version(table, process);
		note_change(table, process);
		process->jitdump = (struct process_mapping){0};
		process->started_ns = event->time_ns;
		process->threads = 1;
		process->lost_seen = table->lost;
		process->unknown = false;
		process->reread_at = PROCESS_REREAD_FIRST;
		process->read_cost_us = 0;
	}
	if (event->is_exec || event->tid == event->pid)
		set_comm(process, event->name);
}

static bool is_file(const struct binary *binary)
{
	return binary->kind == BINARY_FILE || binary->kind == BINARY_MEMFD;
}

/* A list of many mappings takes long to read, and everything else waits meanwhile: at most a hundredth of the time goes into
 * the lists of one process. */
static bool may_read_again(const struct process *process, uint64_t time_ns)
{
	return process->read_cost_us < READ_CHEAP_US || time_ns > process->read_ns + 100000ull * process->read_cost_us;
}

/* Its executable has been mapped. */
static void begin_program(struct process_table *table, struct process *process, uint32_t executable)
{
	process->executable = executable;
	process->expects_runtime = binary_get(table->binaries, executable)->has_runtime;
	if (process->expects_runtime)
		process_table_changed(table, process);
}

static int apply_map(struct process_table *table, const struct event *event, struct process *process)
{
	struct process_mapping mapping = {.start = event->start,
					  .end = event->start + event->length,
					  .offset = event->offset,
					  .settles_s = (uint32_t)(event->time_ns / (uint64_t)NS_PER_S)};
	bool replaced = false;

	int r = binaries_add(table->binaries, event, &mapping.binary);
	if (r < 0)
		return r == -E2BIG ? 0 : r;
	if (!process->executable && is_file(binary_get(table->binaries, mapping.binary)))
		begin_program(table, process, mapping.binary);
	if (binary_get(table->binaries, mapping.binary)->is_jitdump)
		process->jitdump = mapping;
	r = mapping_list_insert(&process->maps, &mapping, &replaced);
	if (replaced) { /* walks by what the kernel side knows may go wrong there */
		process->version = ++table->versions;
		if (process_change_range(process, mapping.start, mapping.end) < 0)
			r = -ENOMEM;
	}
	note_change(table, process);
	if (r == -ENOMEM)
		return r;
	/* Perhaps most were unmapped again. */
	if ((process->maps->count > process->reread_at || r == -E2BIG) && may_read_again(process, event->time_ns)) {
		process->reread_at = process->maps->count * 2;
		r = process_read(table, process); /* sets it anew */
	}
	return r == -ENOMEM ? r : 0;
}

static int end_process(struct process_table *table, struct process *process, uint64_t time_ns)
{
	if (process->exit_ns)
		return 0;
	int r = array_reserve(&table->exited, &table->exited_capacity, table->exited_count + 1, PROCESSES_MAX);
	if (r < 0)
		return r;
	process->exit_ns = time_ns;
	table->exited[table->exited_count++] = process;
	return 0;
}

static int apply_exit(struct process_table *table, const struct event *event, struct process *process)
{
	if (process->threads > 1) {
		process->threads--;
		return 0;
	}
	/* The starts of threads may be among the events that were lost. */
	if (process->lost_seen != table->lost && kill(process->pid, 0) == 0)
		return 0;
	return end_process(table, process, event->time_ns);
}

void process_table_distrust(struct process_table *table)
{
	table->lost++;
}

int process_table_apply(struct process_table *table, const struct event *event, struct error *err)
{
	struct process *process;
	int r = 0;

	if (event->kind == EVENT_LOST) {
		process_table_distrust(table);
		return 0;
	}
	if (event->pid <= 0)
		return 0;
	if (event->kind == EVENT_FORK) {
		r = apply_fork(table, event);
		return r < 0 ? error_nomem(err) : 0;
	}
	process = process_table_find(table, event->pid);
	if (!process || event->time_ns <= process->read_ns)
		return 0; /* unknown ones are read when they are sampled */
	if (process->exit_ns && event->kind != EVENT_EXIT && event->time_ns > process->exit_ns) {
		/* The exits that were counted were not all of its own (a lost FORK of a thread), or it is another process (a
		 * lost FORK, the pid used again) that will exec or be read. It lives. */
		forget_exited(table, process);
		process->exit_ns = 0;
		process->lost_seen = table->lost - 1;
	}
	if (event->kind == EVENT_COMM)
		apply_comm(table, event, process);
	else if (event->kind == EVENT_MAP)
		r = apply_map(table, event, process);
	else if (event->kind == EVENT_EXIT)
		r = apply_exit(table, event, process);
	return r < 0 ? error_nomem(err) : 0;
}

/* ---- lookups ---- */

int process_table_lookup(struct process_table *table, pid_t pid, uint64_t time_ns, const char *comm, struct process **ret,
			 struct error *err)
{
	struct process *process = process_table_find(table, pid);
	/* Long after the end of a process its pid is another's, whose FORK was lost. */
	bool is_new = !process || (process->exit_ns && time_ns > process->exit_ns + EXIT_SLACK_NS);

	if (!is_new && (process->exit_ns || process->lost_seen == table->lost || !may_read_again(process, time_ns))) {
		*ret = process;
		return 0;
	}
	if (is_new && process_table_add(table, pid, &process) < 0)
		return error_nomem(err);
	enum agent_cost before = cost_enter(table->meter, AGENT_COST_PROCESSES);
	int r = process_read(table, process);
	cost_enter(table->meter, before);
	if (r == -ENOMEM)
		return error_nomem(err);
	process->lost_seen = table->lost;
	if (r > 0 && is_new) {
		process->unknown = true;
		set_comm(process, comm);
		process->read_ns = time_ns;
	}
	if (r > 0)
		process->told_ns = UINT64_MAX; /* nobody knows when it ended */
	/* It has ended by now. Its last events are still to come, or will not come. */
	if (r > 0 && end_process(table, process, (uint64_t)time_monotonic_ns()) < 0)
		return error_nomem(err);
	*ret = process;
	return 0;
}

/* ---- the whole table ---- */

static void reap(struct process_table *table, uint64_t before_ns, bool keeps_sampled)
{
	for (size_t i = 0; i < table->exited_count;) {
		struct process *process = table->exited[i];
		if (process->exit_ns < before_ns && !(keeps_sampled && process->wanted))
			process_table_remove(table, process); /* puts another into [i] */
		else
			i++;
	}
}

void process_table_reap(struct process_table *table, uint64_t before_ns)
{
	reap(table, before_ns, false);
}

void process_table_reap_unsampled(struct process_table *table, uint64_t before_ns)
{
	reap(table, before_ns, true);
}

void process_table_check(struct process_table *table)
{
	size_t cursor = 0, mappings = 0;
	uint64_t pid, value;

	/* Only marked here: the map must not change while it is walked. */
	while (map64_next(&table->by_pid, &cursor, &pid, &value)) {
		struct process *process = (struct process *)(uintptr_t)value;
		mappings += process->maps ? process->maps->count : 0;
		if (process->exit_ns || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
			continue;
		if (end_process(table, process, (uint64_t)time_monotonic_ns()) < 0)
			return;
	}
	table->mapping_count = mappings;
}

void process_table_mark_binaries(struct process_table *table)
{
	size_t cursor = 0;
	uint64_t pid, value;

	while (map64_next(&table->by_pid, &cursor, &pid, &value)) {
		const struct process *process = (const struct process *)(uintptr_t)value;
		if (process->executable)
			binaries_mark(table->binaries, process->executable);
		if (process->jitdump.binary)
			binaries_mark(table->binaries, process->jitdump.binary);
		for (size_t i = 0; process->maps && i < process->maps->count; i++)
			binaries_mark_mapping(table->binaries, &process->maps->items[i]);
	}
}
