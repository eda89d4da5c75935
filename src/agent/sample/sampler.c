// SPDX-License-Identifier: Apache-2.0
/*
 * Loading and attaching.
 *
 * The timer is the software cpu-clock: an hrtimer with a fixed period, so that a sample stands for exactly 1/frequency of a
 * second of CPU time. The hardware's cycle counter is offered, not preferred. As an event on a CPU with a frequency, the kernel
 * steers its period for `frequency` overflows a second of *wall* time: a process that is alone on its CPU and busy 30% of the
 * time gets up to three times the samples that it deserves (453 instead of 144 in 5 s at 99 Hz, 131 by cpu-clock). What it has
 * for it: it interrupts by NMI, and so sees code that runs with interrupts off.
 *
 * cpu-clock skips the idle task in the kernel (exclude_idle), for cycles the program does.
 *
 * The rate is changed by opening the events anew. PERF_EVENT_IOC_PERIOD would change the period of cpu-clock, but not what its
 * samples say that their period was. A timer first fires a whole period after it starts, so each change would lose half a
 * period on average, if the new timers did not run unheeded for a random part of their period before they take the place of the
 * old ones: then the first tick that counts comes at a random time.
 *
 * A ring per CPU that is or was online: an array of one element, mapped by both sides, put into the array of maps `rings`. All
 * rings of a change are put there with one batch call, because the kernel waits for a grace period after each call that writes
 * to an array of maps, which takes tens of milliseconds.
 *
 * The program that samples processes with runtimes is a second one (bpf/sample.bpf.c), loaded when the first of them is told to
 * the kernel side: checking it takes the kernel three times as long as the other. It comes from a second copy of the object
 * that shares all maps with the first, because libbpf loads the programs of an object only once.
 */
#include "agent/sample/sampler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/time.h"
#include "bpf/sample.skel.h"

#define PYTHON_THREAD_SLOTS 4096u /* powers of two */
#define LISTED_CODE_SLOTS   65536u
#define RUNTIME_FILES	    1024u

struct sampler_cpu {
	struct sample_ring ring;
	struct bpf_link *link;	    /* owns the perf event */
	struct bpf_link *next_link; /* while the rate is being changed */
};

struct sampler {
	struct sample_bpf *bpf;
	struct ring_buffer *wakeups, *execs;
	struct sampler_cpu *cpus;
	unsigned cpu_limit; /* possible CPUs */
	size_t ring_bytes, map_bytes;
	unsigned frequency_hz;
	bool cycles; /* false too when there is no cycle counter */
	uint32_t heap_bytes;
	struct unwind_slot *slots;
	struct bpf_program *program; /* that perf events run */
	bool has_runtimes;	     /* the program for them is there */
	int64_t runtimes_tried_ns;   /* 0 = never */
	char *runtimes_problem;	     /* why it is not; NULL = it was not needed yet, or there is no memory */
};

/* ---- what libbpf says, kept for the error message instead of being printed ---- */

static pthread_mutex_t libbpf_lock = PTHREAD_MUTEX_INITIALIZER;
static char libbpf_last[320];

/* Keeps the last warning that is not one of the lines around a verifier log. */
static int libbpf_keep(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char line[sizeof(libbpf_last)];

	if (level != LIBBPF_WARN)
		return 0;
	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = 0;
	if (strstr(line, "BPF PROG LOAD LOG") || !line[0])
		return 0;
	const char *text = strncmp(line, "libbpf: ", 8) ? line : line + 8;
	THREAD_LOCK_SCOPE(&libbpf_lock);
	snprintf(libbpf_last, sizeof(libbpf_last), "%s", text);
	return 0;
}

static int load_error(int code, const char *doing, struct error *err)
{
	char last[sizeof(libbpf_last)];

	pthread_mutex_lock(&libbpf_lock);
	memcpy(last, libbpf_last, sizeof(last));
	pthread_mutex_unlock(&libbpf_lock);
	if (code == -EPERM || code == -EACCES)
		return error_set(err, -EPERM,
				 "cannot %s: permission denied; run as root, or give the binary CAP_BPF, CAP_PERFMON, "
				 "CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG and CAP_CHECKPOINT_RESTORE",
				 doing);
	if (code == -ENOMEM || code == -ENOBUFS)
		return error_set(err, code, "cannot %s: not enough memory for BPF maps (cgroup limit or RLIMIT_MEMLOCK)",
				 doing);
	return error_set_errno(err, code, "cannot %s%s%.300s%s", doing, last[0] ? " (" : "", last, last[0] ? ")" : "");
}

/* ---- perf events ---- */

static int open_event(unsigned type, uint64_t config, unsigned frequency_hz, unsigned cpu)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.sample_freq = frequency_hz,
		.freq = 1,
		.disabled = 1,
		.exclude_idle = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_timer(struct sampler *sampler, unsigned cpu, struct error *err)
{
	int fd = -ENOENT;

	if (sampler->cycles)
		fd = open_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, sampler->frequency_hz, cpu);
	if (fd < 0 && fd != -EMFILE && fd != -EACCES && fd != -EPERM) {
		fd = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, sampler->frequency_hz, cpu);
		if (fd >= 0)
			sampler->cycles = false;
	}
	if (fd == -EINVAL)
		return error_set(err, fd,
				 "cannot sample CPU %u at %u Hz: the kernel rejects this rate; choose a lower one or raise "
				 "/proc/sys/kernel/perf_event_max_sample_rate",
				 cpu, sampler->frequency_hz);
	if (fd < 0) {
		load_error(fd, "open a perf event", err);
		return error_prefix(err, fd, "CPU %u", cpu);
	}
	return fd;
}

/* ---- rings ---- */

/* One element, which is a ring. Returns the descriptor. */
static int create_ring_map(const struct sampler *sampler, const char *name)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	return bpf_map_create(BPF_MAP_TYPE_ARRAY, name, 4, (__u32)sampler->map_bytes, 1, &options);
}

static int make_ring(struct sampler *sampler, struct sampler_cpu *cpu, int *ret_fd, struct error *err)
{
	int fd = create_ring_map(sampler, "wick_ring");
	if (fd < 0)
		return load_error(fd, "create a sample ring", err);
	void *memory = mmap(NULL, sampler->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		int r = -errno;
		close(fd);
		return load_error(r, "map a sample ring", err);
	}
	*ret_fd = fd;
	cpu->ring = (struct sample_ring){.shared = memory, .mask = sampler->ring_bytes - 1};
	return 0;
}

static int hand_over(int map, __u32 *keys, int *fds, __u32 count)
{
	__u32 done = count;

	if (!count || !bpf_map_update_batch(map, keys, fds, &done, NULL))
		return 0;
	for (__u32 i = 0; i < count; i++) { /* kernels without batches for arrays of maps */
		if (bpf_map_update_elem(map, &keys[i], &fds[i], BPF_ANY))
			return -errno;
	}
	return 0;
}

/* Makes the rings that are missing and hands them to the program together. */
static int make_rings(struct sampler *sampler, const struct cpu_set *cpus, struct error *err)
{
	_cleanup_(mem_freep) __u32 *keys = mem_alloc_array(sampler->cpu_limit, sizeof(*keys));
	_cleanup_(mem_freep) int *fds = mem_alloc_array(sampler->cpu_limit, sizeof(*fds));
	__u32 count = 0;
	int r = 0;

	if (!keys || !fds)
		return error_nomem(err);
	for (unsigned i = 0; i < sampler->cpu_limit; i++) {
		struct sampler_cpu *cpu = &sampler->cpus[i];
		if (!cpu_set_has(cpus, i) || cpu->ring.shared)
			continue;
		r = make_ring(sampler, cpu, &fds[count], err);
		if (r < 0)
			break;
		keys[count++] = i;
	}
	int handed = hand_over(bpf_map__fd(sampler->bpf->maps.rings), keys, fds, count);
	for (__u32 i = 0; i < count; i++) /* the map and our mapping keep them */
		close(fds[i]);
	if (r < 0)
		return r;
	return handed < 0 ? load_error(handed, "pass the rings to the sampling program", err) : 0;
}

struct sample_ring *sampler_ring(struct sampler *sampler, unsigned cpu)
{
	struct sample_ring *ring = &sampler->cpus[cpu].ring;
	return ring->shared ? ring : NULL;
}

unsigned sampler_cpu_limit(const struct sampler *sampler)
{
	return sampler->cpu_limit;
}

/* ---- loading ---- */

/* `rings` needs a map of the right size as the pattern of its elements; the map itself may go once the program is loaded. */
static int set_ring_pattern(struct sampler *sampler, struct error *err)
{
	int fd = create_ring_map(sampler, "wick_pattern");
	if (fd < 0)
		return load_error(fd, "create BPF maps", err);
	int r = bpf_map__set_inner_map_fd(sampler->bpf->maps.rings, fd);
	if (r < 0) {
		close(fd);
		return load_error(r, "prepare the sampling program", err);
	}
	return 0;
}

/* runtimes: the program for processes with runtimes takes all samples, and is the only one. */
static int configure(struct sampler *sampler, const struct sampler_options *options, bool runtimes, struct error *err)
{
	struct sample_bpf *bpf = sampler->bpf;

	bpf->rodata->ring_mask = (__u32)options->ring_bytes - 1;
	bpf->rodata->chunk_mask = (__u32)(options->heap_bytes / UNWIND_CHUNK_BYTES - 1);
	bpf->rodata->seen_mask = (__u32)options->seen_slots - 1;
	bpf->rodata->filter_on = options->filter_max > 0;
	bpf->rodata->filter_by_cgroup = options->filter_cgroups_max > 0;
	bpf->rodata->kernel_stacks = !options->no_kernel;
	bpf->rodata->cgroup_v1 = options->cgroup_v1;
	bpf->rodata->capture = options->capture;
	bpf->rodata->wait_least_ns = options->wait_least_ns;
	bpf->rodata->wait_runnable = options->wait_runnable;
	sampler->program = runtimes ? bpf->progs.sample_with_runtimes : bpf->progs.sample;
	bpf_program__set_autoload(bpf->progs.sample, !runtimes);
	bpf_program__set_autoload(bpf->progs.sample_with_runtimes, runtimes);
	bpf_program__set_autoload(bpf->progs.switch_threads, options->off_cpu_max > 0);
	bpf_program__set_autoload(bpf->progs.wake_unseen, options->wait_runnable);
	bpf->rodata->python_threads_mask = PYTHON_THREAD_SLOTS - 1;
	bpf->rodata->listed_codes_mask = LISTED_CODE_SLOTS - 1;
	bpf->bss->tails_left = ABI_TAILS;
	if (getrandom(&bpf->rodata->hash_seed, sizeof(bpf->rodata->hash_seed), 0) < 0)
		return error_set_errno(err, -errno, "cannot get random bytes");
	const struct {
		struct bpf_map *map;
		size_t entries;
	} sizes[] = {
		{bpf->maps.rings, sampler->cpu_limit},
		{bpf->maps.walks, sampler->cpu_limit},
		{bpf->maps.seen, options->seen_slots},
		{bpf->maps.wakeups, (size_t)sysconf(_SC_PAGESIZE)},
		{bpf->maps.execs, (size_t)sysconf(_SC_PAGESIZE)},
		{bpf->maps.runtime_files, RUNTIME_FILES},
		{bpf->maps.filter, options->filter_max ? options->filter_max : 1},
		{bpf->maps.filter_cgroups, options->filter_cgroups_max ? options->filter_cgroups_max : 1},
		{bpf->maps.heap, options->heap_bytes / UNWIND_CHUNK_BYTES},
		{bpf->maps.processes, options->processes_max},
		{bpf->maps.python_threads, PYTHON_THREAD_SLOTS},
		{bpf->maps.listed_codes, LISTED_CODE_SLOTS},
		{bpf->maps.waits, options->off_cpu_max ? options->off_cpu_max : 1},
	};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		int r = bpf_map__set_max_entries(sizes[i].map, (__u32)sizes[i].entries);
		if (r < 0)
			return load_error(r, "prepare the sampling program", err);
	}
	return set_ring_pattern(sampler, err);
}

static int no_record(void *context, void *data, size_t size)
{
	return 0;
}

/* The verifier's own words would be of no help. */
static int explain_load(int code, struct error *err)
{
	if (code == -EACCES || code == -EINVAL || code == -E2BIG || code == -EFAULT) /* a missing capability is EPERM */
		return error_set(err, -ENOTSUP,
				 "this kernel's verifier rejects the sampling program (%s); please report it with `uname -r`",
				 strerror(-code));
	return load_error(code, "load the sampling program into the kernel", err);
}

static int load_programs(struct sampler *sampler, const struct sampler_options *options, bool runtimes, struct error *err)
{
	sample_bpf__destroy(sampler->bpf);
	sampler->bpf = sample_bpf__open();
	if (!sampler->bpf)
		return load_error(-errno, "open the sampling program", err);
	int r = configure(sampler, options, runtimes, err);
	if (r < 0)
		return r;
	r = sample_bpf__load(sampler->bpf);
	sampler->has_runtimes = r == 0 && runtimes;
	return r < 0 ? explain_load(r, err) : 0;
}

/* Native stacks are better than none, if it is the program for runtimes that cannot be loaded. */
static int load(struct sampler *sampler, const struct sampler_options *options, struct error *err)
{
	libbpf_set_print(libbpf_keep);
	int r = load_programs(sampler, options, options->runtimes, err);
	if (r == -ENOTSUP && options->runtimes)
		r = load_programs(sampler, options, false, err);
	if (r < 0)
		return r;
	r = sample_bpf__attach(sampler->bpf); /* the tracepoints; perf events follow by CPU */
	if (r < 0)
		return load_error(r, "attach to the kernel's process tracepoints", err);
	size_t slots_bytes = UNWIND_SLOTS_MAX * sizeof(struct unwind_slot);
	void *slots = mmap(NULL, slots_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(sampler->bpf->maps.slots), 0);
	if (slots == MAP_FAILED)
		return load_error(-errno, "map the slots of unwind tables", err);
	sampler->slots = slots;
	sampler->wakeups = ring_buffer__new(bpf_map__fd(sampler->bpf->maps.wakeups), no_record, NULL, NULL);
	if (sampler->wakeups)
		sampler->execs = ring_buffer__new(bpf_map__fd(sampler->bpf->maps.execs), no_record, NULL, NULL);
	if (!sampler->wakeups || !sampler->execs)
		return load_error(-errno, "map the BPF ring buffers", err);
	return 0;
}

/* ---- the program for processes with runtimes ---- */

#define RUNTIMES_RETRY_NS (60 * NS_PER_S)

/* Both are of one object file, so their maps and programs come in the same order. */
static int share_maps(const struct sample_bpf *from, struct sample_bpf *to)
{
	struct bpf_map *map = NULL, *shared = NULL;
	int r = 0;

	while (r == 0 && (map = bpf_object__next_map(to->obj, map))) {
		shared = bpf_object__next_map(from->obj, shared);
		r = bpf_map__reuse_fd(map, bpf_map__fd(shared));
	}
	return r;
}

static int hand_over_program(struct sampler *sampler, struct bpf_program *program)
{
	__u32 key = 0;
	__s32 fd = bpf_program__fd(program);

	return bpf_map__update_elem(sampler->bpf->maps.with_runtimes, &key, sizeof(key), &fd, sizeof(fd), BPF_ANY);
}

static int load_with_runtimes(struct sampler *sampler, struct error *err)
{
	struct sample_bpf *copy = sample_bpf__open();
	struct bpf_program *program;

	if (!copy)
		return load_error(-errno, "open the sampling program", err);
	bpf_object__for_each_program(program, copy->obj)
		bpf_program__set_autoload(program, program == copy->progs.sample_with_runtimes);
	int r = share_maps(sampler->bpf, copy);
	if (r == 0)
		r = sample_bpf__load(copy);
	if (r == 0)
		r = hand_over_program(sampler, copy->progs.sample_with_runtimes);
	if (r < 0)
		explain_load(r, err);
	sample_bpf__destroy(copy); /* the map keeps the program */
	return r;
}

int sampler_want_runtimes(struct sampler *sampler, struct error *err)
{
	int64_t now = time_monotonic_ns();
	struct error why = {0};

	if (sampler->has_runtimes)
		return 0;
	if (sampler->runtimes_tried_ns && now - sampler->runtimes_tried_ns < RUNTIMES_RETRY_NS)
		return error_set(err, -EAGAIN, "%s", sampler_runtimes_problem(sampler));
	int r = load_with_runtimes(sampler, &why);
	sampler->runtimes_tried_ns = now;
	sampler->has_runtimes = r == 0;
	mem_free(sampler->runtimes_problem);
	sampler->runtimes_problem = r < 0 ? mem_strdup(why.message) : NULL;
	return r < 0 ? error_set(err, r, "%s", why.message) : 0;
}

const char *sampler_runtimes_problem(const struct sampler *sampler)
{
	return sampler->runtimes_problem ? sampler->runtimes_problem : "";
}

/* Before 5.11 BPF memory counts against this limit; afterwards failing to raise it means nothing. */
static void raise_memlock(void)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
}

int sampler_new(const struct sampler_options *options, struct sampler **ret, struct error *err)
{
	_cleanup_(sampler_freep) struct sampler *sampler = mem_zalloc(sizeof(*sampler));
	if (!sampler)
		return error_nomem(err);
	int r = cpu_limit_read(&sampler->cpu_limit, err);
	if (r < 0)
		return r;
	sampler->cpus = mem_zalloc_array(sampler->cpu_limit, sizeof(*sampler->cpus));
	if (!sampler->cpus)
		return error_nomem(err);
	sampler->frequency_hz = options->frequency_hz;
	sampler->cycles = options->cycles;
	sampler->ring_bytes = options->ring_bytes;
	sampler->heap_bytes = (uint32_t)options->heap_bytes;
	sampler->map_bytes = sizeof(struct abi_ring) + options->ring_bytes + ABI_SLACK_BYTES;
	raise_memlock();
	r = load(sampler, options, err);
	if (r == 0)
		*ret = TAKE(sampler);
	return r;
}

struct sampler *sampler_free(struct sampler *sampler)
{
	if (!sampler)
		return NULL;
	sampler_stop(sampler);
	ring_buffer__free(sampler->wakeups);
	ring_buffer__free(sampler->execs);
	for (unsigned i = 0; sampler->cpus && i < sampler->cpu_limit; i++) {
		if (sampler->cpus[i].ring.shared)
			munmap(sampler->cpus[i].ring.shared, sampler->map_bytes);
	}
	if (sampler->slots)
		munmap(sampler->slots, UNWIND_SLOTS_MAX * sizeof(struct unwind_slot));
	sample_bpf__destroy(sampler->bpf);
	mem_free(sampler->runtimes_problem);
	mem_free(sampler->cpus);
	return mem_free(sampler);
}

/* ---- attaching ---- */

static int attach_cpu(struct sampler *sampler, unsigned cpu, struct bpf_link **ret, struct error *err)
{
	int fd = open_timer(sampler, cpu, err);
	if (fd < 0)
		return fd;
	struct bpf_link *link = bpf_program__attach_perf_event(sampler->program, fd);
	if (!link) {
		int r = -errno;
		close(fd);
		return load_error(r, "attach the sampling program to a perf event", err);
	}
	*ret = link;
	return 0;
}

/* The kernel steers the period of the cycle counter, in cycles. What a sample stands for is its share of a second. */
static void set_value(struct sampler *sampler)
{
	uint64_t value = sampler->cycles ? (uint64_t)NS_PER_S / sampler->frequency_hz : 0;
	__atomic_store_n(&sampler->bpf->bss->cycles_stand_for_ns, value, __ATOMIC_RELAXED);
}

static void ignore_period(struct sampler *sampler, unsigned frequency_hz)
{
	uint64_t period = sampler->cycles ? 0 : (uint64_t)NS_PER_S / frequency_hz;
	__atomic_store_n(&sampler->bpf->bss->ignored_period_ns, period, __ATOMIC_RELAXED);
}

static void wait_part_of(int64_t period_ns)
{
	uint32_t chance = 0;
	if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) == sizeof(chance))
		time_sleep_ns((int64_t)((double)period_ns * chance / 0x1p32));
}

int sampler_set_frequency(struct sampler *sampler, unsigned frequency_hz, struct error *err)
{
	unsigned old_hz = sampler->frequency_hz;
	int r = 0;

	if (frequency_hz == old_hz)
		return 0;
	sampler->frequency_hz = frequency_hz;
	ignore_period(sampler, frequency_hz);
	for (unsigned i = 0; i < sampler->cpu_limit && r == 0; i++) {
		if (sampler->cpus[i].link)
			r = attach_cpu(sampler, i, &sampler->cpus[i].next_link, err);
	}
	if (r == 0 && !sampler->cycles)
		wait_part_of(NS_PER_S / frequency_hz);
	if (r < 0)
		sampler->frequency_hz = old_hz;
	ignore_period(sampler, r < 0 ? frequency_hz : old_hz);
	set_value(sampler);
	for (unsigned i = 0; i < sampler->cpu_limit; i++) {
		struct sampler_cpu *cpu = &sampler->cpus[i];
		struct bpf_link *unwanted = r < 0 ? cpu->next_link : cpu->link;
		if (!cpu->next_link)
			continue;
		cpu->link = r < 0 ? cpu->link : cpu->next_link;
		cpu->next_link = NULL;
		bpf_link__destroy(unwanted);
	}
	__atomic_store_n(&sampler->bpf->bss->ignored_period_ns, 0, __ATOMIC_RELAXED);
	return r;
}

int sampler_set_cpus(struct sampler *sampler, const struct cpu_set *online, struct error *err)
{
	unsigned attached = 0;
	int first_error = 0, r = make_rings(sampler, online, err);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < sampler->cpu_limit; i++) {
		struct sampler_cpu *cpu = &sampler->cpus[i];
		if (!cpu_set_has(online, i) && cpu->link) {
			bpf_link__destroy(cpu->link);
			cpu->link = NULL;
		}
		if (cpu_set_has(online, i) && !cpu->link) {
			r = attach_cpu(sampler, i, &cpu->link, first_error < 0 ? NULL : err);
			first_error = first_error < 0 ? first_error : r;
		}
		attached += cpu->link != NULL;
	}
	set_value(sampler);
	if (attached)
		return 0;
	return first_error < 0 ? first_error : error_set(err, -ENODEV, "no CPU is online");
}

void sampler_stop(struct sampler *sampler)
{
	for (unsigned i = 0; sampler->cpus && i < sampler->cpu_limit; i++) {
		bpf_link__destroy(sampler->cpus[i].link);
		sampler->cpus[i].link = NULL;
	}
}

int sampler_add_pid(struct sampler *sampler, pid_t pid, struct error *err)
{
	__u32 key = (__u32)pid;
	__u64 start = 0;

	if (!sampler->bpf->rodata->filter_on)
		return error_set(err, -EINVAL, "process %d: the agent was started for all processes", (int)pid);
	if (!bpf_map__update_elem(sampler->bpf->maps.filter, &key, sizeof(key), &start, sizeof(start), BPF_ANY))
		return 0;
	if (errno == E2BIG)
		return error_set(err, -E2BIG, "process %d: too many processes are being followed", (int)pid);
	return error_set_errno(err, -errno, "process %d: cannot add it to the filter", (int)pid);
}

static bool has_id(const uint64_t *ids, size_t count, uint64_t id)
{
	for (size_t i = 0; i < count; i++)
		if (ids[i] == id)
			return true;
	return false;
}

static void forget_cgroups_but(struct bpf_map *map, const uint64_t *ids, size_t count)
{
	uint64_t at, next;
	int r = bpf_map__get_next_key(map, NULL, &next, sizeof(next));

	/* After one that is not there any more the list starts anew: each goes when the one behind it is known. */
	while (r == 0) {
		at = next;
		r = bpf_map__get_next_key(map, &at, &next, sizeof(next));
		if (!has_id(ids, count, at))
			bpf_map__delete_elem(map, &at, sizeof(at), 0);
	}
}

int sampler_set_cgroups(struct sampler *sampler, const uint64_t *ids, size_t count, struct error *err)
{
	struct bpf_map *map = sampler->bpf->maps.filter_cgroups;
	__u8 value = 1;

	for (size_t i = 0; i < count; i++) {
		int r = bpf_map__update_elem(map, &ids[i], sizeof(ids[i]), &value, sizeof(value), BPF_ANY);
		if (r == -E2BIG) {
			forget_cgroups_but(map, ids, count);
			r = bpf_map__update_elem(map, &ids[i], sizeof(ids[i]), &value, sizeof(value), BPF_ANY);
		}
		if (r < 0)
			return error_set_errno(err, r, "cannot add a control group to the filter");
	}
	return 0;
}

void sampler_set_wait_chance(struct sampler *sampler, uint32_t chance)
{
	__atomic_store_n(&sampler->bpf->bss->wait_chance, chance, __ATOMIC_RELAXED);
}

int sampler_add_wait(struct sampler *sampler, pid_t tid, uint64_t start_ns)
{
	__u32 key = (__u32)tid;
	__u64 value = start_ns | ABI_WAIT_UNSEEN;

	return bpf_map__update_elem(sampler->bpf->maps.waits, &key, sizeof(key), &value, sizeof(value), BPF_NOEXIST) ? -errno
														     : 0;
}

bool sampler_is_waiting(struct sampler *sampler, pid_t tid, uint64_t start_ns)
{
	__u32 key = (__u32)tid;
	__u64 value = 0;

	return !bpf_map__lookup_elem(sampler->bpf->maps.waits, &key, sizeof(key), &value, sizeof(value), 0) &&
	       (value & ~ABI_WAIT_UNSEEN) == start_ns;
}

int sampler_wakeup_fd(const struct sampler *sampler)
{
	return ring_buffer__epoll_fd(sampler->wakeups);
}

void sampler_clear_wakeup(struct sampler *sampler)
{
	ring_buffer__consume(sampler->wakeups);
}

void sampler_set_epoch(struct sampler *sampler, uint32_t epoch)
{
	__atomic_store_n(&sampler->bpf->bss->epoch, epoch, __ATOMIC_RELEASE);
}

void sampler_get_shared(const struct sampler *sampler, struct sampler_shared *ret)
{
	*ret = (struct sampler_shared){
		.heap_fd = bpf_map__fd(sampler->bpf->maps.heap),
		.heap_bytes = sampler->heap_bytes,
		.heap_reuses = &sampler->bpf->bss->heap_reuses,
		.unwind_clock = &sampler->bpf->data->unwind_clock,
		.slots = sampler->slots,
		.hash_seed = sampler->bpf->rodata->hash_seed,
	};
}

int sampler_set_process(struct sampler *sampler, pid_t pid, const struct unwind_process *process)
{
	__u32 key = (__u32)pid;
	struct unwind_process told = *process;

	/* Without that program its interpreter's own stacks are better than none. */
	if ((told.listed || told.stacked) && sampler_want_runtimes(sampler, NULL) < 0)
		told.listed = told.stacked = 0;
	return bpf_map__update_elem(sampler->bpf->maps.processes, &key, sizeof(key), &told, sizeof(told), BPF_ANY) ? -errno : 0;
}

void sampler_forget_process(struct sampler *sampler, pid_t pid)
{
	__u32 key = (__u32)pid;

	bpf_map__delete_elem(sampler->bpf->maps.processes, &key, sizeof(key), 0);
}

void sampler_report_execs_of(struct sampler *sampler, uint64_t inode)
{
	__u8 value = 1;

	bpf_map__update_elem(sampler->bpf->maps.runtime_files, &inode, sizeof(inode), &value, sizeof(value), BPF_ANY);
}

int sampler_execs_fd(const struct sampler *sampler)
{
	return ring_buffer__epoll_fd(sampler->execs);
}

void sampler_clear_execs(struct sampler *sampler)
{
	ring_buffer__consume(sampler->execs);
}

/* The time is set before it is looked for later ones: an exec in between is seen here, or has seen the time. */
bool sampler_set_execs_read(struct sampler *sampler, int64_t until_ns)
{
	__atomic_store_n(&sampler->bpf->bss->execs_read_ns, (uint64_t)until_ns, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&sampler->bpf->bss->execed_ns, __ATOMIC_SEQ_CST) > (uint64_t)until_ns;
}

void sampler_allow_tails(struct sampler *sampler)
{
	__atomic_store_n(&sampler->bpf->bss->tails_set_ns, (uint64_t)time_monotonic_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&sampler->bpf->bss->tails_left, ABI_TAILS, __ATOMIC_RELAXED);
}

void sampler_get_counters(const struct sampler *sampler, struct sampler_counters *ret)
{
	struct bpf_prog_info info = {0};
	__u32 length = sizeof(info);

	*ret = (struct sampler_counters){.filter_full = __atomic_load_n(&sampler->bpf->bss->filter_full, __ATOMIC_RELAXED)};
	for (unsigned i = 0; i < sampler->cpu_limit; i++) {
		const struct sampler_cpu *cpu = &sampler->cpus[i];
		ret->cpus += cpu->link != NULL;
		for (size_t j = 0; cpu->ring.shared && j < ABI_COUNTERS; j++)
			ret->counters[j] += __atomic_load_n(&cpu->ring.shared->counters[j], __ATOMIC_RELAXED);
		for (size_t j = 0; cpu->ring.shared && j < ABI_RUN_BUCKETS; j++)
			ret->run_buckets[j] += __atomic_load_n(&cpu->ring.shared->run_ns[j], __ATOMIC_RELAXED);
	}
	if (!bpf_obj_get_info_by_fd(bpf_program__fd(sampler->program), &info, &length)) {
		ret->run_ns = info.run_time_ns;
		ret->run_count = info.run_cnt;
	}
}

const char *sampler_event(const struct sampler *sampler)
{
	return sampler->cycles ? "cycles" : "cpu-clock";
}
