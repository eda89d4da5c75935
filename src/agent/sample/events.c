// SPDX-License-Identifier: Apache-2.0
/*
 * A dummy software event per CPU makes the kernel write a record for every fork, exec, executable mmap and exit (mprotect
 * counts as mmap), with CLOCK_MONOTONIC time, and, since Linux 5.12, with the build-id of the mapped file. Polling /proc was
 * rejected: it misses processes that live for less than the interval, costs in proportion to idle processes, and races with
 * exec.
 *
 * munmap is not reported. A later mapping that overlaps an older one replaces it, which is all that attributing addresses
 * needs: what is not mapped does not run. Nor is it reported that data is mapped over code, or code made not executable, for
 * the same reason of no matter. Two things that do matter are not reported either: mremap() that moves code (its new addresses
 * are unknown until the process is read from /proc), and code that a vfork()ed child maps before its exec, which its parent
 * shares. Both are rare enough to stay.
 *
 * One's own processes. A sampling event a thread and CPU, inherited by what the thread starts, all of a CPU with their records
 * in one ring. The ring belongs to an event of this very process that counts nothing: a ring whose own event's thread has ended
 * would be readable forever. A sample brings registers and a copy of the stack, which the unwinder walks later.
 *
 * A record: struct perf_event_header, the body by type, and, because of sample_id_all with sample_type = TIME alone, the time
 * as the last 8 bytes. Records may wrap around the end of the ring; such a record is put together in `scratch`.
 */
#include "agent/sample/events.h"

#include <asm/perf_regs.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "agent/proc.h"
#include "agent/sample/cpus.h"
#include "base/alloc.h"
#include "base/io.h"

#define UNPRIVILEGED_EVENTS_MAX 262144u
#define OWN_RING_LEAST		65536u
#define SAMPLE_TIME_AT		24u   /* in a record of a sample */
#define RECORD_MAX		65536 /* header.size is 16 bits wide */

struct events {
	struct event_ring *rings;
	unsigned cpu_limit;
	size_t ring_bytes, page_bytes;
	bool no_build_id; /* the kernel does not know attr.build_id */
	/* Of one's own processes: */
	unsigned frequency_hz; /* 0 = of all, without samples */
	int *unprivileged_fds;
	size_t unprivileged_count, unprivileged_capacity;
	uint8_t scratch[RECORD_MAX];
};

/* ---- opening ---- */

/* An event by the clock of all that is here, whose ring wakes us when a quarter is full: the rest is for bursts until we get a
 * CPU. */
static struct perf_event_attr attr_of(uint64_t config, size_t ring_bytes)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(struct perf_event_attr),
		.config = config,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(ring_bytes / 4),
	};
}

/* Selects the records of process events: mmap, comm, fork and exit. */
static void request_process_events(struct perf_event_attr *attr, bool build_id)
{
	attr->sample_id_all = attr->mmap = attr->mmap2 = attr->comm = attr->comm_exec = attr->task = 1;
	attr->build_id = build_id;
}

static int open_event(struct perf_event_attr *attr, pid_t tid, unsigned cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, tid, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_dummy(unsigned cpu, size_t ring_bytes, bool build_id)
{
	struct perf_event_attr attr = attr_of(PERF_COUNT_SW_DUMMY, ring_bytes);
	attr.sample_type = PERF_SAMPLE_TIME;
	request_process_events(&attr, build_id);
	return open_event(&attr, -1, cpu);
}

static int open_error(int code, unsigned cpu, struct error *err)
{
	if (code == -EACCES || code == -EPERM)
		return error_set(
			err, -EPERM,
			"cannot follow processes on CPU %u: permission denied; run as root, or give the binary CAP_PERFMON",
			cpu);
	return error_set_errno(err, code, "cannot follow processes on CPU %u", cpu);
}

static int open_ring(struct events *events, unsigned cpu, struct error *err)
{
	struct event_ring *ring = &events->rings[cpu];
	int fd = open_dummy(cpu, events->ring_bytes, !events->no_build_id);

	if (fd == -EINVAL && !events->no_build_id) {
		fd = open_dummy(cpu, events->ring_bytes, false);
		events->no_build_id = fd >= 0;
	}
	if (fd < 0)
		return open_error(fd, cpu, err);
	void *memory = mmap(NULL, events->page_bytes + events->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		int r = -errno;
		close(fd);
		if (r == -EPERM)
			return error_set(err, r,
					 "cannot map the ring of process events: the limit of locked memory is reached; raise "
					 "/proc/sys/kernel/perf_event_mlock_kb");
		return open_error(r, cpu, err);
	}
	*ring = (struct event_ring){.fd = fd, .memory = memory};
	return 0;
}

static void close_ring(struct events *events, struct event_ring *ring)
{
	if (ring->fd < 0)
		return;
	munmap(ring->memory, events->page_bytes + events->ring_bytes);
	close(ring->fd);
	*ring = (struct event_ring){.fd = -1};
}

int events_new(size_t ring_bytes, struct events **ret, struct error *err)
{
	_cleanup_(events_freep) struct events *events = mem_zalloc(sizeof(*events));
	unsigned limit;

	if (!events)
		return error_nomem(err);
	int r = cpu_limit_read(&limit, err);
	if (r < 0)
		return r;
	events->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	events->ring_bytes = ring_bytes < events->page_bytes ? events->page_bytes : ring_bytes;
	events->rings = mem_alloc_array(limit, sizeof(*events->rings));
	if (!events->rings)
		return error_nomem(err);
	events->cpu_limit = limit;
	for (unsigned i = 0; i < limit; i++)
		events->rings[i] = (struct event_ring){.fd = -1};
	*ret = TAKE(events);
	return 0;
}

struct events *events_free(struct events *events)
{
	if (!events)
		return NULL;
	for (unsigned i = 0; i < events->cpu_limit; i++)
		close_ring(events, &events->rings[i]);
	for (size_t i = 0; i < events->unprivileged_count; i++)
		close(events->unprivileged_fds[i]);
	mem_free(events->unprivileged_fds);
	mem_free(events->rings);
	return mem_free(events);
}

int events_set_cpus(struct events *events, const struct cpu_set *online, int epoll_fd, uint32_t tag, struct error *err)
{
	for (unsigned i = 0; i < events->cpu_limit; i++) {
		struct event_ring *ring = &events->rings[i];
		struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = tag};
		if (!cpu_set_has(online, i)) {
			close_ring(events, ring);
			continue;
		}
		if (ring->fd >= 0)
			continue;
		int r = open_ring(events, i, err);
		if (r == -ENODEV) /* went away just now */
			continue;
		if (r < 0)
			return r;
		if (epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, ring->fd, &wanted) < 0)
			return error_set_errno(err, -errno, "cannot wait for process events");
	}
	return 0;
}

/* ---- one's own processes ---- */

/* Bits of sample_regs_user, and which DWARF register each is, in the order of the bits; -1 = not one that is kept. */
#if defined(__x86_64__)
static const struct {
	unsigned bit;
	int dwarf;
} own_registers[] = {
	{PERF_REG_X86_AX, 0},	{PERF_REG_X86_BX, 3},	{PERF_REG_X86_CX, 2},	{PERF_REG_X86_DX, 1},
	{PERF_REG_X86_SI, 4},	{PERF_REG_X86_DI, 5},	{PERF_REG_X86_BP, 6},	{PERF_REG_X86_SP, 7},
	{PERF_REG_X86_R8, 8},	{PERF_REG_X86_R9, 9},	{PERF_REG_X86_R10, 10}, {PERF_REG_X86_R11, 11},
	{PERF_REG_X86_R12, 12}, {PERF_REG_X86_R13, 13}, {PERF_REG_X86_R14, 14}, {PERF_REG_X86_R15, 15},
};
#define OWN_REGISTERS	    (sizeof(own_registers) / sizeof(*own_registers))
#define own_register(i)	    own_registers[i].dwarf
#define own_register_bit(i) own_registers[i].bit
#else /* arm64: x0 to x30 and sp have the same numbers */
#define OWN_REGISTERS	    UNWIND_REGISTERS
#define own_register(i)	    (int)(i)
#define own_register_bit(i) (unsigned)(i)
#endif

static uint64_t own_register_mask(void)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < OWN_REGISTERS; i++)
		mask |= UINT64_C(1) << own_register_bit(i);
	return mask;
}

static int open_unprivileged(const struct events *events, pid_t tid, unsigned cpu, bool at_exec)
{
	struct perf_event_attr attr = attr_of(PERF_COUNT_SW_CPU_CLOCK, events->ring_bytes);
	attr.sample_freq = events->frequency_hz;
	attr.freq = 1;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr.sample_regs_user = own_register_mask();
	attr.sample_stack_user = EVENT_STACK_BYTES;
	attr.exclude_kernel = attr.exclude_hv = 1;
	attr.inherit = 1;
	attr.disabled = attr.enable_on_exec = at_exec;
	request_process_events(&attr, !events->no_build_id);
	return open_event(&attr, tid, cpu);
}

/* Owns a ring, and counts nothing. */
static int open_owner(const struct events *events, unsigned cpu)
{
	struct perf_event_attr attr = attr_of(PERF_COUNT_SW_DUMMY, events->ring_bytes);
	attr.exclude_kernel = attr.exclude_hv = 1;
	return open_event(&attr, 0, cpu);
}

static int paranoid_level(void)
{
	char text[16];

	io_read_text("/proc/sys/kernel/perf_event_paranoid", text, sizeof(text));
	return (int)strtol(text, NULL, 10);
}

static int unprivileged_error(int code, struct error *err)
{
	if (code == -EMFILE || code == -ENFILE)
		return error_set(err, code,
				 "too many threads for the limit of open files (one per thread and CPU); raise it with ulimit "
				 "-n, or run as root");
	if (code != -EACCES && code != -EPERM)
		return error_set_errno(err, code, "cannot sample a process by perf events");
	if (paranoid_level() > 2)
		return error_set(err, -EPERM,
				 "kernel.perf_event_paranoid is %d, which denies perf events to users; as root, run sysctl "
				 "kernel.perf_event_paranoid=2",
				 paranoid_level());
	return error_set(err, -EPERM,
			 "permission denied: without privileges you can record only your own processes, and no program that is "
			 "set-user-id or has capabilities");
}

static int open_own_ring(struct events *events, unsigned cpu, struct error *err)
{
	for (;;) {
		int fd = open_owner(events, cpu), r;
		if (fd < 0)
			return fd == -ENODEV ? 0 : unprivileged_error(fd, err);
		void *memory = mmap(NULL, events->page_bytes + events->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		r = -errno;
		if (memory != MAP_FAILED) {
			events->rings[cpu] = (struct event_ring){.fd = fd, .memory = memory};
			return 0;
		}
		close(fd);
		bool first = true;
		for (unsigned i = 0; i < cpu; i++)
			first = first && events->rings[i].fd < 0;
		if (r != -EPERM || events->ring_bytes <= OWN_RING_LEAST || !first)
			return r == -EPERM ? error_set(err, r,
						       "the limit of locked memory is too low for the sample rings; raise "
						       "ulimit -l or /proc/sys/kernel/perf_event_mlock_kb")
					   : error_set_errno(err, r, "cannot map a ring of samples");
		events->ring_bytes /= 2;
	}
}

int events_new_unprivileged(size_t ring_bytes, unsigned frequency_hz, const struct cpu_set *online, int epoll_fd, uint32_t tag,
			    struct events **ret, struct error *err)
{
	_cleanup_(events_freep) struct events *events = NULL;
	int r = events_new(ring_bytes, &events, err);

	if (r < 0)
		return r;
	events->frequency_hz = frequency_hz;
	for (unsigned i = 0; i < events->cpu_limit && r == 0; i++) {
		struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = tag};
		if (!cpu_set_has(online, i))
			continue;
		r = open_own_ring(events, i, err);
		if (r == 0 && events->rings[i].fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, events->rings[i].fd, &wanted) < 0)
			r = error_set_errno(err, -errno, "cannot wait for samples");
	}
	if (r == 0)
		*ret = TAKE(events);
	return r;
}

/* Positive if the thread is gone. */
static int add_thread_on(struct events *events, pid_t tid, unsigned cpu, bool at_exec, struct error *err)
{
	int fd = open_unprivileged(events, tid, cpu, at_exec);

	if (fd == -EINVAL && !events->no_build_id) {
		events->no_build_id = true;
		fd = open_unprivileged(events, tid, cpu, at_exec);
	}
	if (fd == -ESRCH)
		return 1;
	if (fd < 0)
		return unprivileged_error(fd, err);
	if (array_reserve(&events->unprivileged_fds, &events->unprivileged_capacity, events->unprivileged_count + 1,
			  UNPRIVILEGED_EVENTS_MAX) < 0) {
		close(fd);
		return error_nomem(err);
	}
	events->unprivileged_fds[events->unprivileged_count++] = fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, events->rings[cpu].fd) < 0)
		return error_set_errno(err, -errno, "cannot share the sample ring of a CPU");
	return 0;
}

static int add_thread(struct events *events, pid_t tid, bool at_exec, struct error *err)
{
	int r = 0;

	for (unsigned cpu = 0; cpu < events->cpu_limit && r == 0; cpu++)
		if (events->rings[cpu].fd >= 0)
			r = add_thread_on(events, tid, cpu, at_exec, err);
	return r < 0 ? r : 0;
}

/* Looks once. A thread that is started meanwhile by a followed one is followed already, and cannot be distinguished from one
 * that was started by another, which is missed: to follow it twice would be worse. */
int events_add_process(struct events *events, pid_t pid, bool at_exec, struct error *err)
{
	_cleanup_(dir_closep) DIR *threads = proc_open_threads(pid);
	int r = 0;

	for (pid_t tid; r == 0 && (tid = proc_next(threads)) > 0;)
		r = add_thread(events, tid, at_exec, err);
	return r;
}

struct event_ring *events_ring(struct events *events, unsigned cpu)
{
	return events->rings[cpu].fd >= 0 ? &events->rings[cpu] : NULL;
}

unsigned events_cpu_limit(const struct events *events)
{
	return events->cpu_limit;
}

/* ---- reading ---- */

static const uint8_t *ring_data(const struct events *events, const struct event_ring *ring)
{
	return (const uint8_t *)ring->memory + events->page_bytes;
}

static void ring_copy(const struct events *events, const struct event_ring *ring, uint64_t position, void *to, size_t len)
{
	size_t at = position & (events->ring_bytes - 1), first = events->ring_bytes - at;

	if (first > len)
		first = len;
	memcpy(to, ring_data(events, ring) + at, first);
	memcpy((uint8_t *)to + first, ring_data(events, ring), len - first);
}

void event_ring_open(struct events *events, struct event_ring *ring)
{
	struct perf_event_mmap_page *page = ring->memory;

	ring->head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	ring->tail = page->data_tail;
	if (ring->head - ring->tail > events->ring_bytes)
		ring->tail = ring->head;
}

bool event_ring_was_full(const struct events *events, const struct event_ring *ring)
{
	return events->ring_bytes - (ring->head - ring->tail) < events->ring_bytes / 16;
}

/* The size of the next record, 0 if there is none. A record that cannot be one empties the ring. */
static size_t next_size(struct events *events, struct event_ring *ring)
{
	struct perf_event_header header;
	uint64_t left = ring->head - ring->tail;

	if (!left)
		return 0;
	if (left >= sizeof(header)) {
		ring_copy(events, ring, ring->tail, &header, sizeof(header));
		if (header.size >= sizeof(header) + sizeof(uint64_t) && header.size <= left && header.size % 8 == 0)
			return header.size;
	}
	ring->tail = ring->head;
	return 0;
}

bool event_ring_peek(struct events *events, struct event_ring *ring, uint64_t *ret_time_ns)
{
	size_t size = next_size(events, ring), at = size - sizeof(uint64_t);
	struct perf_event_header header;

	if (!size)
		return false;
	if (events->frequency_hz) {
		ring_copy(events, ring, ring->tail, &header, sizeof(header));
		if (header.type == PERF_RECORD_SAMPLE && size >= SAMPLE_TIME_AT + sizeof(uint64_t))
			at = SAMPLE_TIME_AT;
	}
	ring_copy(events, ring, ring->tail + at, ret_time_ns, sizeof(uint64_t));
	return true;
}

bool event_ring_next(struct events *events, struct event_ring *ring, struct event *ret)
{
	size_t size = next_size(events, ring);

	if (!size)
		return false;
	ring_copy(events, ring, ring->tail, events->scratch, size);
	ring->tail += size;
	return event_decode(events->scratch, size, ret);
}

void event_ring_release(struct event_ring *ring)
{
	struct perf_event_mmap_page *page = ring->memory;

	__atomic_store_n(&page->data_tail, ring->tail, __ATOMIC_RELEASE);
}

/* ---- decoding ---- */

struct task_body {
	uint32_t pid, parent, tid, parent_tid;
	uint64_t time;
};
struct comm_body {
	uint32_t pid, tid; /* then the name */
};
struct map_body {
	uint32_t pid, tid;
	uint64_t start, length, offset;
	union {
		struct {
			uint32_t major, minor;
			uint64_t inode, generation;
		} file;
		struct {
			uint8_t bytes, reserved[3];
			uint8_t id[EVENT_BUILD_ID_MAX];
		} build;
	} u;
	uint32_t protection, flags; /* then the path */
};
struct lost_body {
	uint64_t id, lost;
};

/* A record that begins with a pid and a tid: its fixed part, and the text that fills the rest; false if that does not end
 * within. */
static bool read_named(const void *data, size_t len, enum event_kind kind, void *body, size_t body_size, struct event *event)
{
	struct comm_body begin;

	if (body_size >= len)
		return false;
	memcpy(&begin, data, sizeof(begin));
	memcpy(body, data, body_size);
	event->kind = kind;
	event->pid = (pid_t)begin.pid;
	event->tid = (pid_t)begin.tid;
	event->name = (const char *)data + body_size;
	return memchr(event->name, 0, len - body_size);
}

static bool decode_map(const void *data, size_t len, unsigned misc, struct event *event)
{
	struct map_body body;

	if (!read_named(data, len, EVENT_MAP, &body, sizeof(body), event))
		return false;
	event->start = body.start;
	event->length = body.length;
	event->offset = body.offset;
	if (!(misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
		event->device = makedev(body.u.file.major, body.u.file.minor);
		event->inode = body.u.file.inode;
	} else if (body.u.build.bytes <= EVENT_BUILD_ID_MAX) {
		event->build_id_bytes = body.u.build.bytes;
		memcpy(event->build_id, body.u.build.id, body.u.build.bytes);
	}
	return body.length > 0 && body.start + body.length > body.start;
}

static bool decode_comm(const void *data, size_t len, unsigned misc, struct event *event)
{
	struct comm_body body;

	if (!read_named(data, len, EVENT_COMM, &body, sizeof(body), event))
		return false;
	event->is_exec = misc & PERF_RECORD_MISC_COMM_EXEC;
	return true;
}

static bool decode_task(const void *data, size_t len, enum event_kind kind, struct event *event)
{
	struct task_body body;

	if (len < sizeof(body))
		return false;
	memcpy(&body, data, sizeof(body));
	event->kind = kind;
	event->pid = (pid_t)body.pid;
	event->tid = (pid_t)body.tid;
	event->parent = (pid_t)body.parent;
	event->parent_tid = (pid_t)body.parent_tid;
	return true;
}

static bool decode_lost(const void *data, size_t len, struct event *event)
{
	struct lost_body body;

	if (len < sizeof(body))
		return false;
	memcpy(&body, data, sizeof(body));
	event->kind = EVENT_LOST;
	event->lost = body.lost;
	return true;
}

struct sample_body {
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time, abi; /* then, unless the ABI is NONE, registers; the size of the stack, it, and how much of it is real */
};

static bool decode_sample(const uint8_t *data, size_t len, struct event *event)
{
	struct event_sample *sample = &event->sample;
	uint64_t registers[OWN_REGISTERS], size, real;
	struct sample_body body;
	size_t at = sizeof(body);

	if (len < sizeof(body))
		return false;
	memcpy(&body, data, sizeof(body));
	*event = (struct event){.kind = EVENT_SAMPLE, .pid = (pid_t)body.pid, .tid = (pid_t)body.tid, .time_ns = body.time};
	sample->ip = body.ip;
	if (body.abi != PERF_SAMPLE_REGS_ABI_64)
		return true;
	if (len - at < sizeof(registers) + sizeof(size))
		return false;
	memcpy(registers, data + at, sizeof(registers));
	at += sizeof(registers);
	for (size_t i = 0; i < OWN_REGISTERS; i++)
		sample->registers[own_register(i)] = registers[i];
	sample->is_64 = true;
	memcpy(&size, data + at, sizeof(size));
	at += sizeof(size);
	if (size == 0)
		return true;
	if (size > len - at || len - at - size < sizeof(real))
		return false;
	memcpy(&real, data + at + size, sizeof(real));
	sample->stack = data + at;
	sample->stack_bytes = (uint32_t)(real < size ? real : size);
	if (sample->stack_bytes > EVENT_STACK_BYTES)
		sample->stack_bytes = EVENT_STACK_BYTES;
	return true;
}

bool event_decode(const void *record, size_t size, struct event *ret)
{
	struct perf_event_header header;
	struct event event = {0};
	bool good = false;

	if (size < sizeof(header) + sizeof(event.time_ns))
		return false;
	memcpy(&header, record, sizeof(header));
	const uint8_t *body = (const uint8_t *)record + sizeof(header);
	size_t len = size - sizeof(header) - sizeof(event.time_ns);
	memcpy(&event.time_ns, body + len, sizeof(event.time_ns));
	switch (header.type) {
	case PERF_RECORD_MMAP2: good = decode_map(body, len, header.misc, &event); break;
	case PERF_RECORD_COMM: good = decode_comm(body, len, header.misc, &event); break;
	case PERF_RECORD_FORK: good = decode_task(body, len, EVENT_FORK, &event); break;
	case PERF_RECORD_EXIT: good = decode_task(body, len, EVENT_EXIT, &event); break;
	case PERF_RECORD_LOST: good = decode_lost(body, len, &event); break;
	case PERF_RECORD_SAMPLE: good = decode_sample(body, size - sizeof(header), &event); break;
	default: break;
	}
	if (good)
		*ret = event;
	return good;
}
