/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: the BPF programs, their perf events, and the rings that they fill (bpf/abi.h).
 */
#ifndef WICK_AGENT_SAMPLE_SAMPLER_H
#define WICK_AGENT_SAMPLE_SAMPLER_H

#include <sys/types.h>

#include "agent/sample/cpus.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "bpf/abi.h"

struct sampler_options {
	unsigned frequency_hz;
	size_t ring_bytes;	   /* a power of two, SAMPLER_RING_BYTES_MIN to _MAX */
	size_t seen_slots;	   /* a power of two */
	size_t filter_max;	   /* processes; 0 = no filter */
	size_t filter_cgroups_max; /* control groups beside them; 0 = none; needs filter_max */
	bool no_kernel;
	bool cycles; /* by cycle counter if there is one; see sampler.c */
	bool cgroup_v1;
	bool capture; /* tests: every sample carries a tail from its leaf on, beside the chain that the kernel side found */
	size_t heap_bytes; /* for unwind tables and mappings; a power of two, at least UNWIND_CHUNK_BYTES; allocated at once, by
			    * the kernel
			    */
	size_t processes_max; /* whose mappings the kernel side knows at a time */
	size_t off_cpu_max;   /* waiting threads that are looked at, at a time; 0 = no off-CPU program is loaded */
	uint64_t wait_least_ns;
	bool wait_runnable; /* also threads that are switched out while they could go on */
	bool runtimes;	    /* processes with runtimes are expected; see sampler_want_runtimes() */
};
#define SAMPLER_RING_BYTES_MIN 65536u
#define SAMPLER_RING_BYTES_MAX (4u << 20)

/* The reading side of a ring. Positions count bytes since the start. */
struct sample_ring {
	struct abi_ring *shared;
	uint64_t mask;
	uint64_t head; /* as of sample_ring_open() */
	uint64_t tail;
	uint64_t scanned;		  /* chains before it have been taken */
	const struct abi_tail *last_tail; /* passed since the last sample; NULL = none */
	uint64_t last_tail_at;
};

struct sampler;
int sampler_new(const struct sampler_options *options, struct sampler **ret, struct error *err);
struct sampler *sampler_free(struct sampler *sampler);
DEFINE_CLEANUP_POINTER(sampler_free, struct sampler);
/* Attaches to the CPUs in `online` that are not attached, detaches from others. A CPU that went away keeps its ring. Succeeds
 * if at least one CPU is sampled. */
int sampler_set_cpus(struct sampler *sampler, const struct cpu_set *online, struct error *err);
/* Changes the rate on all CPUs, or on none. Takes up to a period of the new rate. */
int sampler_set_frequency(struct sampler *sampler, unsigned frequency_hz, struct error *err);
/* The chance of 2^32 that a wait which begins from now on is looked at; ABI_CHANCE_ALWAYS; 0 = none, as at first. */
void sampler_set_wait_chance(struct sampler *sampler, uint32_t chance);
/* The thread has been waiting since start_ns. -EEXIST when that is known already. */
int sampler_add_wait(struct sampler *sampler, pid_t tid, uint64_t start_ns);
/* Whether a wait that began then has not ended yet. */
bool sampler_is_waiting(struct sampler *sampler, pid_t tid, uint64_t start_ns);
/* Stops sampling on all CPUs; what is in the rings stays. */
void sampler_stop(struct sampler *sampler);
int sampler_add_pid(struct sampler *sampler, pid_t pid, struct error *err);
/* By id, up to filter_cgroups_max; without what is below them. Others that were set before go when there is no more room. */
int sampler_set_cgroups(struct sampler *sampler, const uint64_t *ids, size_t count, struct error *err);
/* Readable when a ring has become half full; sampler_clear_wakeup() makes it unreadable again. */
int sampler_wakeup_fd(const struct sampler *sampler);
void sampler_clear_wakeup(struct sampler *sampler);
/* Every chain sent from now on is of this epoch. */
void sampler_set_epoch(struct sampler *sampler, uint32_t epoch);
/* What the unwinder shares with the programs; valid as long as the sampler. */
struct sampler_shared {
	int heap_fd;
	uint32_t heap_bytes;
	uint32_t *heap_reuses, *unwind_clock;
	struct unwind_slot *slots; /* UNWIND_SLOTS_MAX */
	uint64_t hash_seed;
};
void sampler_get_shared(const struct sampler *sampler, struct sampler_shared *ret);
/* Loads the program for processes with runtimes, if it is not there: some 100 ms of CPU. Once in a minute at most, if it fails:
 * -EAGAIN in between. */
int sampler_want_runtimes(struct sampler *sampler, struct error *err);
/* Why it could not be loaded; "" = it could, or was not needed. Such processes are sampled as if they had none. */
const char *sampler_runtimes_problem(const struct sampler *sampler);
/* Tells the kernel side a process's mappings, or that it shall forget them. 0, -E2BIG when there is no room, negative errno.
 * The first process with a runtime takes as long as sampler_want_runtimes(). */
int sampler_set_process(struct sampler *sampler, pid_t pid, const struct unwind_process *process);
void sampler_forget_process(struct sampler *sampler, pid_t pid);
/* sampler_execs_fd() becomes readable when a process executes the file with this inode from now on; once, until
 * sampler_set_execs_read() says up to when the events of execs have been read. That returns whether there are later ones. */
void sampler_report_execs_of(struct sampler *sampler, uint64_t inode);
int sampler_execs_fd(const struct sampler *sampler);
void sampler_clear_execs(struct sampler *sampler);
bool sampler_set_execs_read(struct sampler *sampler, int64_t until_ns);
/* To be called when tails have been read: allows ABI_TAILS more at once. */
void sampler_allow_tails(struct sampler *sampler);
/* NULL for a CPU that was never online; cpu < sampler_cpu_limit(). */
struct sample_ring *sampler_ring(struct sampler *sampler, unsigned cpu);
unsigned sampler_cpu_limit(const struct sampler *sampler);

struct sampler_counters {
	uint64_t counters[ABI_COUNTERS]; /* summed over CPUs */
	uint64_t filter_full;
	uint64_t run_ns, run_count; /* 0 unless statistics are on */
	uint64_t cpus;
	uint64_t run_buckets[ABI_RUN_BUCKETS];
};
void sampler_get_counters(const struct sampler *sampler, struct sampler_counters *ret);
const char *sampler_event(const struct sampler *sampler); /* "cycles" or "cpu-clock" */

/*
 * Reading: sample_ring_open() looks how far the ring is filled; then records are taken one by one, first all chains, then
 * samples as their time comes:
 *     while ((chain = sample_ring_scan_chain(ring))) ...
 *     while ((sample = sample_ring_peek(ring)) && it is due) { ... sample_ring_advance(ring); }
 *     sample_ring_release(ring);
 * Records stay valid until sample_ring_release(). A damaged record empties the ring (an assertion in debug: only the kernel
 * writes).
 */
void sample_ring_open(struct sample_ring *ring);
const struct abi_chain *sample_ring_scan_chain(struct sample_ring *ring);
const struct abi_sample *sample_ring_peek(struct sample_ring *ring);
/* The tail of the sample that was peeked at, NULL if it has none. */
const struct abi_tail *sample_ring_tail(const struct sample_ring *ring);
void sample_ring_advance(struct sample_ring *ring);
void sample_ring_release(struct sample_ring *ring);

#endif
