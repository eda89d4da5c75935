/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: processes and their executable mappings as of the event that was applied last.
 *
 * Events and samples are applied in the order of their times (drain.c), so that a sample always meets the process as it was:
 * before or after the exec, with the library loaded or not, this or the former owner of the pid.
 */
#ifndef WICK_AGENT_PROCESS_PROCESS_H
#define WICK_AGENT_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/cost.h"
#include "agent/process/binary.h"
#include "agent/process/changes.h"
#include "agent/sample/events.h"
#include "agent/sample/heap.h"
#include "base/cpu_budget.h"
#include "bpf/runtime.h"

#define PROCESS_MAPPINGS_MAX 131072u
#define PROCESSES_MAX	     (4u << 20) /* the kernel's own limit of pids */
#define PROCESS_REREAD_FIRST 2048u

/* Sorted by start, without overlaps. Shared between a process and the children that it forked until one of them changes it. */
struct mapping_list {
	uint32_t references;
	size_t count, capacity;
	struct process_mapping *items;
	/* The ranges in the heap that say the same to the kernel side (unwinder.c); place 0 = none. */
	struct heap *heap;
	uint32_t place, place_bytes, placed_count;
	uint64_t placed_ns;
	uint64_t settles_ns; /* when what is unsettled, and so not in them, may be put in; 0 = nothing is */
	struct mapped_runtime {
		uint32_t file;	      /* of struct runtimes; 0 = there is none */
		uint32_t binary_file; /* struct process_mapping.file */
		uint64_t bias;	      /* of its addresses */
	} runtimes[RUNTIME_CLASSES];
	uint16_t nonsense[RUNTIME_CLASSES]; /* functions of them that could not be had, while none could */
	uint32_t disbelieved;		    /* a bit by enum runtime_kind: it is not shown any more */
	struct runtime_reads {		    /* see RUNTIME_READ_BYTES_MAX */
		int64_t bytes;		    /* that were read beyond what is allowed a second */
		int64_t until_ns;	    /* CLOCK_MONOTONIC: as of then */
	} reads;
	uint32_t placed_runtimes[RUNTIME_CLASSES]; /* bytes of what is said of them behind the ranges, in this order */
	uint32_t live_owner;			   /* process.id + 1 of the one whose live rules are in them; 0 = no one's */
	bool changed;				   /* since they were written */
	bool awaits_runtime;			   /* one of runtimes could not be said yet */
};

struct live_rules;

struct process {
	pid_t pid;
	pid_t namespace_pid;	/* 0 = not asked yet */
	pid_t parent;		/* that forked it, or that it had when it was first read; 0 = none */
	uint32_t id;		/* never reused: distinguishes owners of a pid */
	uint32_t version;	/* changes whenever an address may mean something else than before; no two processes have the
				   same, but for those that forked from each other and have not changed since */
	uint32_t first_version; /* since its exec: what was walked by an earlier one was another program */
	uint32_t told_version, settled_version; /* what the kernel side knows, and knew before that */
	struct mapping_changes *changes;	/* since first_version; NULL = none */
	uint32_t executable;			/* binary; 0 = unknown */
	uint32_t threads;
	uint32_t lost_seen;    /* process_table.lost when it was last read from /proc */
	bool read;	       /* its mappings were read from /proc at some time */
	bool unknown;	       /* it could not be read and no event told of it */
	uint32_t read_cost_us; /* that reading it from /proc took */
	uint64_t read_ns;      /* events up to this time are in already */
	uint64_t exit_ns;      /* 0 = lives */
	size_t reread_at;      /* mappings that make it worth to read the list again, since munmap is not reported */
	char comm[16];	       /* of the main thread */
	bool told;	       /* the kernel side knows its mappings (unwinder.c) */
	uint64_t told_ns;      /* when it was last sent to the kernel side; UINT64_MAX = perhaps after that had forgotten it */
	bool has_execed;       /* since it was forked or first read */
	bool has_counters;     /* it was sampled, and counters.h told of it */
	bool wanted;	       /* it was sampled: the kernel side should know them */
	bool expects_runtime;  /* the kernel side should know them, too: it runs a program that had one before (expected.h) */
	bool changed;	       /* it is in process_table.changed */
	uint32_t fruitless;    /* drains in a row whose tails did not help */
	uint64_t fruitless_drain;	/* the last one */
	uint64_t quiet_until;		/* tick until when it sends no tails */
	uint32_t *results;		/* samples by enum unwind_result; NULL = never sampled */
	uint64_t started_ns;		/* of its fork or last exec; 0 = before the agent's start */
	uid_t uid;			/* effective, of it or the parent when last read from /proc; (uid_t)-1 = never */
	struct process_mapping jitdump; /* the page by which a jitdump is found; .binary BINARY_NONE = none */
	struct mapping_list *maps;	/* NULL = none */
	struct live_rules *live;	/* of code that it made at run time; NULL = none is known */
	uint64_t live_verified;		/* drain in which they were compared with the code */
	struct cpu_budget live_search;	/* its part of what searches for them may take (live_unwinder.c) */
};

struct process_table {
	struct map64 by_pid; /* -> struct process * */
	struct binaries *binaries;
	uint32_t next_id;
	uint32_t lost; /* counts gaps in the events; a process read before the last one is read again when it is next sampled */
	uint32_t versions; /* given out so far */
	struct heap *heap; /* the unwinder's; NULL without one */
	struct sampler *sampler;
	pid_t *changed; /* processes whose mappings must be sent to the kernel side */
	size_t changed_count, changed_capacity;
	size_t mapping_count; /* as of process_table_check() */
	struct process **exited;
	size_t exited_count, exited_capacity;
	uint8_t *buffer;	  /* for reading /proc */
	struct cost_meter *meter; /* the agent's; NULL = none */
};

int process_table_init(struct process_table *table, struct binaries *binaries);
void process_table_release(struct process_table *table);
/* Reads all processes that there are. Call when events are already being recorded. */
int process_table_snapshot(struct process_table *table, struct error *err);
/* Reads a process that is not in the table yet; one that is gone is no error. Where only some processes are sampled, that saves
 * reading the others. -ENOMEM. */
int process_table_see(struct process_table *table, pid_t pid, struct error *err);
int process_table_apply(struct process_table *table, const struct event *event, struct error *err);
/* Events were, or may have been, lost: processes are read from /proc again when they are next sampled. */
void process_table_distrust(struct process_table *table);
/* The process that a sample of `pid` at the time belongs to; read from /proc if no event told of it, made up (->unknown) if
 * that fails too. */
int process_table_lookup(struct process_table *table, pid_t pid, uint64_t time_ns, const char *comm, struct process **ret,
			 struct error *err);
struct process *process_table_find(const struct process_table *table, pid_t pid); /* NULL if unknown */
/* Forgets processes that ended before the time. */
void process_table_reap(struct process_table *table, uint64_t before_ns);
/* The same for those that were never sampled. */
void process_table_reap_unsampled(struct process_table *table, uint64_t before_ns);
/* Walks the table: forgets processes that are gone although no event said so, and counts mappings. For once in ten minutes. */
void process_table_check(struct process_table *table);
void process_table_mark_binaries(struct process_table *table);
const struct process_mapping *process_find_mapping(const struct process *process, uint64_t address);
/* Whether a walk by the mappings of `version` may have gone wrong at this address, as the process is now. */
bool process_is_in_doubt(const struct process *process, uint32_t version, uint64_t address);
/* It must be sent to the kernel side (again). */
void process_table_changed(struct process_table *table, struct process *process);
/* The heap goes away: nothing refers to it from here on. */
void process_table_leave_heap(struct process_table *table);
/* The pid as the process itself sees it, for /tmp/perf-PID.map. */
pid_t process_namespace_pid(struct process *process);

/* Puts a new process in the place of one with the same pid, if there is one. 0 or -ENOMEM. */
int process_table_add(struct process_table *table, pid_t pid, struct process **ret);
void process_table_remove(struct process_table *table, struct process *process);
/* All addresses mean something else from here on. */
void process_begin_version(struct process_table *table, struct process *process);
/* A mapping_change_function, `context` being a process whose version was just raised: a range means something else. */
int process_change_range(void *context, uint64_t start, uint64_t end);

/* process_snapshot.c: the two ways of process_table_snapshot(). _by_iterator() changes nothing if the kernel cannot do it. */
int process_snapshot_by_iterator(struct process_table *table, struct error *err);
int process_snapshot_by_proc(struct process_table *table, struct error *err);

/* process_read.c: what /proc knows. 0; positive when the process is gone; -ENOMEM. */
/* Finds the page that shows where a jitdump is, among the mappings. */
void process_find_jitdump(struct process_table *table, struct process *process);
void process_read_user(struct process *process); /* sets uid, if the process is still there */
int process_read(struct process_table *table, struct process *process);
/* Finds the executable by /proc/PID/exe. 0 or -ENOMEM. */
int process_read_executable(struct process_table *table, struct process *process);
/* Makes the list the parent's if it is equal, so that a hundred forked workers cost one. */
void process_share_mappings(struct process_table *table, struct process *process, pid_t parent_pid);
/* One line of /proc/PID/maps (NUL-terminated, without newline; it is changed): 0 if it is an executable mapping, then *ret is
 * an EVENT_MAP; positive if it is not; -EINVAL if it is malformed. */
int process_parse_maps_line(char *line, struct event *ret);

/* mappings.c */
/* Lets go of the ranges in the heap. */
void mapping_list_leave_heap(struct mapping_list *list);
/* Calls on_change for each range that both lists map, but not alike. A negative return ends it. */
typedef int mapping_change_function(void *context, uint64_t start, uint64_t end);
int mapping_list_compare(const struct mapping_list *a, const struct mapping_list *b, mapping_change_function *on_change,
			 void *context);
bool mapping_list_equals(const struct mapping_list *a, const struct mapping_list *b); /* NULL = no mappings */
struct mapping_list *mapping_list_unref(struct mapping_list *list);		      /* NULL allowed; returns NULL */
/* Puts a mapping in, over whatever it overlaps. *list may be NULL or shared. *ret_replaced: whether an address changed its
 * meaning. In mapping->settles_s the time is expected; what is inserted settles some time later, if it replaces something, else
 * when what it overlaps does. 0, -ENOMEM, -E2BIG at PROCESS_MAPPINGS_MAX. */
int mapping_list_insert(struct mapping_list **list, const struct process_mapping *mapping, bool *ret_replaced);
/* Makes *list one that no other process shares. 0, -ENOMEM. */
int mapping_list_unshare(struct mapping_list **list);
/* Gives back memory that is kept for growing. NULL allowed. 0 or -ENOMEM, after which the list is as it was. */
int mapping_list_trim(struct mapping_list *list);
struct process_mapping *mapping_list_find_item(struct mapping_list *list, uint64_t address); /* list: NULL allowed */
const struct process_mapping *mapping_list_find(const struct mapping_list *list, uint64_t address);

#endif
