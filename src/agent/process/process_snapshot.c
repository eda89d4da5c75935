// SPDX-License-Identifier: Apache-2.0
/*
 * The process table at the agent's start.
 *
 * By the kernel's iterators (vmas.h), which give every process and mapping as a small record; by /proc where they cannot be
 * loaded, or are not worth loading. What the table holds is the same both ways, but for vsyscall, which no user code runs in.
 *
 * Each process carries the time before it was looked at first: what happens later comes as an event and is applied once more if
 * the snapshot has it already, which does no harm: a map replaces itself, an exec brings all its maps behind it, a fork brings
 * its parent's maps and then whatever came behind it.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "agent/proc.h"
#include "agent/process/process.h"
#include "agent/process/vmas.h"

/* Loading the programs takes 60 ms and 0.8 MB, as long as reading 500 processes from /proc; a process then takes a fifth of the
 * time. Threads, since these are what the kernel counts. */
#define WORTH_LOADING 600u

/* ---- by iterator ---- */

struct snapshot {
	struct process_table *table;
	struct map64 parents;	 /* pid -> pid */
	struct process *process; /* whose mappings are coming; NULL = none, or one that is to be left alone */
	pid_t pid;
	bool redirected;
};

static int take_process(void *context, const struct vma_process *record)
{
	struct snapshot *snapshot = context;
	struct process *process;

	if (record->pid == 0 || record->pid > PROCESSES_MAX)
		return 0;
	int r = process_table_add(snapshot->table, (pid_t)record->pid, &process);
	if (r < 0)
		return r;
	process->read = true;
	process->read_ns = record->time_ns;
	process->threads = record->threads ? record->threads : 1;
	memcpy(process->comm, record->comm, sizeof(process->comm));
	return map64_put(&snapshot->parents, record->pid, record->parent);
}

/* All mappings of a process are in. */
static int finish_process(struct snapshot *snapshot)
{
	struct process *process = snapshot->process;
	uint64_t parent;
	int r = 0;

	snapshot->process = NULL;
	if (!process)
		return 0;
	if (snapshot->redirected) {
		r = process_read(snapshot->table, process);
		if (r > 0)
			process_table_remove(snapshot->table, process);
		return r < 0 ? r : 0;
	}
	r = mapping_list_trim(process->maps);
	if (r < 0)
		return r;
	process->reread_at = (process->maps ? process->maps->count * 2 : 0) + PROCESS_REREAD_FIRST;
	process_find_jitdump(snapshot->table, process);
	if (map64_get(&snapshot->parents, (uint64_t)process->pid, &parent)) {
		process->parent = (pid_t)parent;
		process_share_mappings(snapshot->table, process, (pid_t)parent);
	}
	return process->executable ? 0 : process_read_executable(snapshot->table, process);
}

static int take_mapping(void *context, const struct event *event, unsigned flags)
{
	struct snapshot *snapshot = context;
	struct process_mapping mapping = {.start = event->start, .end = event->start + event->length, .offset = event->offset};
	bool replaced;

	if (event->pid != snapshot->pid) {
		int r = finish_process(snapshot);
		if (r < 0)
			return r;
		snapshot->pid = event->pid;
		snapshot->process = process_table_find(snapshot->table, event->pid);
		snapshot->redirected = false;
	}
	if (!snapshot->process) /* started meanwhile: there will be a FORK event for it */
		return 0;
	snapshot->redirected = snapshot->redirected || flags & VMA_REDIRECTED;
	int r = binaries_add(snapshot->table->binaries, event, &mapping.binary);
	if (r == 0)
		r = mapping_list_insert(&snapshot->process->maps, &mapping, &replaced);
	if (r == 0 && flags & VMA_EXECUTABLE && !snapshot->process->executable)
		snapshot->process->executable = mapping.binary;
	return r == -E2BIG ? 0 : r;
}

int process_snapshot_by_iterator(struct process_table *table, struct error *err)
{
	struct snapshot snapshot = {.table = table};
	const struct vmas_reader reader = {&snapshot, take_process, take_mapping};

	int r = vmas_read(&reader, err);
	if (r == 0)
		r = finish_process(&snapshot);
	map64_release(&snapshot.parents);
	return r == -ENOMEM ? error_nomem(err) : r;
}

/* ---- by /proc ---- */

/* 0, also if it is gone; -ENOMEM. */
static int add_by_proc(struct process_table *table, pid_t pid)
{
	struct process *process;
	int r = process_table_add(table, pid, &process);

	if (r < 0)
		return r;
	r = process_read(table, process);
	if (r > 0)
		process_table_remove(table, process);
	return r < 0 ? r : 0;
}

int process_snapshot_by_proc(struct process_table *table, struct error *err)
{
	_cleanup_(dir_closep) DIR *processes = proc_open_processes();
	int r = 0;

	if (!processes)
		return error_set_errno(err, -errno, "cannot read /proc");
	for (pid_t pid; r == 0 && (pid = proc_next(processes)) > 0;)
		r = add_by_proc(table, pid);
	return r < 0 ? error_nomem(err) : 0;
}

int process_table_see(struct process_table *table, pid_t pid, struct error *err)
{
	int r = process_table_find(table, pid) ? 0 : add_by_proc(table, pid);

	return r < 0 ? error_nomem(err) : 0;
}

/* Processes come by their numbers, which begin anew some day: a child of a lower number than its parent's was read before it.
 */
static void share_with_later_parents(struct process_table *table)
{
	uint64_t pid, value;

	for (size_t cursor = 0; map64_next(&table->by_pid, &cursor, &pid, &value);) {
		struct process *process = (struct process *)(uintptr_t)value;
		if (process->parent > process->pid)
			process_share_mappings(table, process, process->parent);
	}
}

int process_table_snapshot(struct process_table *table, struct error *err)
{
	struct sysinfo info;
	int r = -ENOTSUP;

	if (sysinfo(&info) == 0 && info.procs >= WORTH_LOADING) {
		r = process_snapshot_by_iterator(table, NULL);
		if (r == -ENOMEM)
			return error_nomem(err);
	}
	if (r != 0)
		r = process_snapshot_by_proc(table, err);
	if (r == 0)
		share_with_later_parents(table);
	return r;
}
