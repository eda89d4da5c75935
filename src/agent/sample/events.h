/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: what happens to processes (fork, exec, new executable mappings, exit), from the kernel's perf events.
 *
 * Of all processes, on each CPU, which takes CAP_PERFMON; or of certain processes that are one's own, for which it does not
 * (kernel.perf_event_paranoid up to 2). The latter come with samples: there are no BPF programs to take them then.
 */
#ifndef WICK_AGENT_SAMPLE_EVENTS_H
#define WICK_AGENT_SAMPLE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/sample/cpus.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "bpf/unwind.h"

enum event_kind {
	EVENT_FORK, /* a process (pid != parent) or a thread */
	EVENT_EXIT, /* of a thread */
	EVENT_COMM, /* a thread changed its name; is_exec: the process runs another program from here on */
	EVENT_MAP,
	EVENT_LOST,   /* `lost` records did not fit */
	EVENT_SAMPLE, /* of user space */
};
#define EVENT_BUILD_ID_MAX 20
#define EVENT_STACK_BYTES  16384u /* of the stack in a sample, at most */
struct event_sample {
	uint64_t ip;
	bool is_64;			      /* else nothing below is known */
	uint64_t registers[UNWIND_REGISTERS]; /* by DWARF number */
	const uint8_t *stack;		      /* from the stack pointer on; valid until the next record is read */
	uint32_t stack_bytes;
};
struct event {
	enum event_kind kind;
	uint64_t time_ns;		    /* CLOCK_MONOTONIC */
	pid_t pid, tid, parent, parent_tid; /* parents: of FORK */
	bool is_exec;
	const char *name; /* COMM: the name; MAP: path, "//anon", "[vdso]" ...; valid until the next record is read */
	uint64_t start, length, offset;
	uint64_t device, inode; /* 0 when the build-id is there instead (device as makedev() has it) */
	uint8_t build_id[EVENT_BUILD_ID_MAX];
	uint8_t build_id_bytes; /* 0 = unknown */
	uint64_t lost;
	struct event_sample sample;
};

/* One CPU's ring of records, mapped. */
struct event_ring {
	int fd; /* -1 = none */
	void *memory;
	uint64_t head, tail; /* as of event_ring_open() */
};

struct events;
/* ring_bytes: a power of two, at least a page. */
int events_new(size_t ring_bytes, struct events **ret, struct error *err);
struct events *events_free(struct events *events);
DEFINE_CLEANUP_POINTER(events_free, struct events);
/* Opens rings for CPUs that have none and closes those of CPUs that are gone; read what is in them first. Each new descriptor
 * is added to the epoll instance (EPOLLIN, data.u32 = tag) if epoll_fd >= 0. */
int events_set_cpus(struct events *events, const struct cpu_set *online, int epoll_fd, uint32_t tag, struct error *err);
/* Events and samples of processes that are named one by one, on the CPUs that are online now. 0 or a negative errno as above;
 * -EPERM says what stands in the way. ring_bytes is the most: it becomes less where little memory may be locked. */
int events_new_unprivileged(size_t ring_bytes, unsigned frequency_hz, const struct cpu_set *online, int epoll_fd, uint32_t tag,
			    struct events **ret, struct error *err);
/* Follows all threads of a process, and what they start from now on; at_exec: from its next exec on. */
int events_add_process(struct events *events, pid_t pid, bool at_exec, struct error *err);
struct event_ring *events_ring(struct events *events, unsigned cpu); /* NULL without a ring */
unsigned events_cpu_limit(const struct events *events);

/* Reading, as with struct sample_ring: open, then peek and advance, then release. */
void event_ring_open(struct events *events, struct event_ring *ring);
/* After opening: the ring was so full that records may have been lost. The kernel says so itself (EVENT_LOST) only when the
 * next record comes, which may be after many samples. */
bool event_ring_was_full(const struct events *events, const struct event_ring *ring);
/* The time of the next record; false when there is none. */
bool event_ring_peek(struct events *events, struct event_ring *ring, uint64_t *ret_time_ns);
/* Decodes the next record and moves on; false if it is of no interest (then *ret is untouched). */
bool event_ring_next(struct events *events, struct event_ring *ring, struct event *ret);
void event_ring_release(struct event_ring *ring);

/* Decodes a whole record, whose last 8 bytes are the time. False if it is of no interest or damaged. */
bool event_decode(const void *record, size_t size, struct event *ret);

#endif
