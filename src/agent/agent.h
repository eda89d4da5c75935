/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: samples this machine and hands over a struct profile a flush.
 *
 * A BPF program on a perf event per CPU takes user and kernel stack, hashes them in the kernel, and appends a small record a
 * sample (and each new stack once) to its CPU's ring; the agent drains the rings every flush interval, attributes user
 * addresses to the mappings that the process had at that time (followed by exec, mmap, fork and exit events), and builds one
 * profile: sample type cpu/nanoseconds, value = count x period, locations by build-id and file offset, and labels a sample
 * (docs/labels.md): of its process, the process's executable, its thread, and its cgroup, which gives container, pod and
 * systemd unit; resource labels host.name, os.version (kernel release), and those of --label. Rules may change labels and drop
 * samples (profile/relabel.h). Off-CPU time comes as a second profile, off_cpu/nanoseconds, value = time waited. What each
 * process used comes as another one, process_stats (profile/type.h), which has no stacks.
 *
 * The agent does not symbolize, with two exceptions that only this host can resolve, and only at this time: kernel addresses
 * and JIT code. For both it calls the sink.
 *
 * Threads: agent_run() uses the calling thread only. Sampling path: no allocation in the kernel; drain allocates within the
 * profile being built.
 */
#ifndef WICK_AGENT_AGENT_H
#define WICK_AGENT_AGENT_H

#include <sys/types.h>

#include "base/cleanup.h"
#include "bpf/runtime.h"
#include "bpf/unwind.h"
#include "elf/file_ids.h"
#include "profile/labels.h"
#include "profile/profile.h"

struct relabel; /* profile/relabel.h */

#define AGENT_SYMBOL_NAME_MAX 512
struct agent_symbol {
	char name[AGENT_SYMBOL_NAME_MAX];
	char module[128];		  /* kernel: "[kernel.kallsyms]", "[nf_tables]"; JIT: "[perf-map]", "[jitdump]" */
	uint64_t start;			  /* of the symbol; makes addresses comparable between boots */
	char file[AGENT_SYMBOL_NAME_MAX]; /* of the source, "" = unknown; JIT only */
	uint32_t line;
	/* Kernel: not "" where the server has the kernel's names by this build-id. The address is sent then, as the offset from
	 * the beginning of the kernel's text, and not the name. */
	char build_id[BUILD_ID_HEX_MAX];
	uint64_t offset, text_bytes; /* of the kernel's text */
};

/* An address in JIT code, and the information to symbolize it. */
struct agent_jit_address {
	uint64_t address, time_ns; /* CLOCK_MONOTONIC, of the sample */
	pid_t pid;		   /* as the agent sees it, for /proc/PID */
	pid_t namespace_pid;	   /* as the process sees itself, for /tmp/perf-PID.map */
	uid_t uid;		   /* effective, when the process or its parent was seen alive; (uid_t)-1 = unknown */
	uint64_t started_ns;	   /* CLOCK_MONOTONIC, of its fork or last exec; 0 = before the agent's start */
	/* The jitdump of which it maps a page, which says where it is; NULL = none. */
	const char *jitdump_path;
	uint64_t jitdump_device, jitdump_inode, jitdump_start, jitdump_end;
};

/* A file that is mapped executable. Strings live as long as the call. */
struct agent_binary {
	const char *build_id; /* lower-case hex, or the file's hash (id_type); "" if it has none */
	enum file_id_type id_type;
	const char *content; /* elf/content_key.h; "" = not known */
	uint64_t code;	     /* of struct content_key; 0 = not known */
	const char *path;    /* as the process sees it */
	pid_t pid;	     /* a process that maps it; 0 = unknown */
	int fd;		     /* open for reading; -1 = none */
};

/* Callbacks, all on agent_run()'s thread. NULL members are skipped. */
struct agent_sink {
	void *context;
	/* A binary was seen for the first time (by id and content, or by device and inode without an id) in a process that was
	 * sampled. Its fd belongs to the agent; it names the very file that is mapped, also when deleted, replaced or in
	 * another mount namespace: that of its pid. Called before the profile that refers to it. */
	void (*on_binary)(void *context, const struct agent_binary *binary);
	/* true and *ret filled if the address has a name. */
	bool (*kernel_symbol)(void *context, uint64_t address, struct agent_symbol *ret);
	bool (*jit_symbol)(void *context, const struct agent_jit_address *address, struct agent_symbol *ret);
	/* One flush. A profile has one sample type, which distinguishes profiles: "cpu", and with off-CPU time another one a
	 * flush, "off_cpu". (one_profile: both, "off_cpu" and "cpu"; wall: "wall".) With process_stats a last one comes that
	 * has the columns of profile/type.h. The profile is borrowed, may be changed, is freed after the call. Not called for a
	 * flush without samples. A negative return ends agent_run() with it. */
	int (*on_profile)(void *context, struct profile *profile, struct error *err);
	/* Before agent_run() waits again, at least once a second and after signals: to report progress or check an exit
	 * condition. Returns false to stop. NULL saves the wake-ups. */
	bool (*on_idle)(void *context);
	/* After each flush, also one without samples; agent_get_stats() is up to date then. */
	void (*on_flush)(void *context);
};

/* A list of runtimes, separated by commas, or "none"; NULL = all. *ret: for agent_options.no_runtimes. -EINVAL: err names the
 * word. */
int agent_parse_runtimes(const char *text, uint32_t *ret, struct error *err);
/* The word of a kind of runtimes (bpf/runtime.h), NULL if there is none. */
const char *agent_runtime_word(uint32_t kind);

#define AGENT_BUDGET_DEFAULT (-1.0)
struct agent_options {
	unsigned frequency_hz;	   /* 0 = 19; 1..10000 */
	int64_t flush_interval_ns; /* 0 = 10 s with 10% jitter, and shorter for the first three (1, 2, 5 s) so that a person
				      sees something soon; any other value is used as it is */
	const pid_t *pids; /* only these processes and what they fork from now on; NULL = all. With agent_add_pid() in mind,
			      pid_count may be 0 */
	size_t pid_count;
	/* Also the processes in these cgroups and below (absolute directories), including those that join later; cgroups
	 * created later are found at the next flush. */
	char *const *cgroups;
	size_t cgroup_count;
	bool no_kernel; /* user stacks only */
	/* The unprivileged sampler: own processes by perf events; user space and CPU time only, on the CPUs that are online at
	 * the start. Requires pids, and the first must be one that may be sampled. Excludes cgroups, wall, off-CPU time and
	 * process_stats. */
	bool unprivileged;
	bool at_exec;	      /* the first of the pids waits for its exec: what it does before does not count */
	const char *command;  /* what it will execute, as for execvp(); NULL = not known. Only read by agent_new() */
	uint32_t no_runtimes; /* a bit by enum runtime_kind: stacks of it show its interpreter only */
	bool cycles; /* time by the cycle counter (NMI: sees code that runs with interrupts off), if there is one. Default is
			cpu-clock: the kernel gives a CPU that is idle most of the time too many cycle samples */
	/* What sampling may cost, as a share of one CPU; above it the rate is lowered. 0 = no limit; AGENT_BUDGET_DEFAULT =
	 * 0.5% of a CPU or 0.1% of all, whichever is more. Whatever else the agent does is not steered by the rate. */
	double budget;
	unsigned frequency_least_hz; /* the lowest rate that the budget may lead to; 0 = a quarter of frequency_hz */
	/* Off-CPU time (bpf/offcpu.h): the chance, of 2^32, that an off-CPU interval is sampled (ABI_CHANCE_ALWAYS = all); 0 =
	 * none. Intervals shorter than the least are ignored. */
	uint32_t off_cpu_chance;
	int64_t off_cpu_least_ns;
	bool wall; /* CPU time and all time that the threads wait, also for a CPU, as one value; needs pids. off_cpu_chance must
		      be 0 */
	bool one_profile; /* CPU and off-CPU time as two sample types of one profile, instead of a profile each */
	/* Each sample stays by itself, with its time and the label thread.id. A wait has the time when it began. Of `wall`
	 * there is a second sample type then, "cpu": what of it the thread ran. */
	bool timed;
	bool process_stats; /* what each process used, once a flush */
	/* Counters of the processes in pids and of those that are sampled (profile/markers.h): CPU use, context switches,
	 * memory, CPU frequency, read at this interval; 0 = none. They are in the profiles of CPU (or wall-clock) time, which
	 * are handed over without samples, too, then. */
	int64_t counters_interval_ns;
	bool lifetimes;	   /* of processes and threads, by program (profile/markers.h); handed over as counters are */
	bool run_once;	   /* agent_run() ends sampling: each sample that is counted as taken is then in a profile, or lost */
	unsigned heap_mib; /* kernel memory for unwind tables, a hard limit; rounded up to a power of two; 0 = 32 */
	const char *cache_directory; /* for unwind tables between runs; NULL = none */
	size_t ring_bytes,
		event_ring_bytes;    /* of each CPU, rounded up to powers of two; 0 = by frequency and interval, 128 KiB */
	const struct labels *labels; /* added to the resource */
	struct relabel *relabel;     /* rules for the labels of each sample; NULL = none; must outlive the agent */
};

/* Loads and attaches; -EPERM says what is missing ("run as root, or give the binary CAP_BPF, CAP_PERFMON ..."). Sampling has
 * begun when it returns. */
struct agent;
int agent_new(const struct agent_options *options, const struct agent_sink *sink, struct agent **ret, struct error *err);
/* Flushes until agent_stop() or until the deadline (CLOCK_MONOTONIC ns; 0 = none), then flushes once more. */
int agent_run(struct agent *agent, int64_t deadline_ns, struct error *err);
void agent_stop(struct agent *agent); /* async-signal-safe */
/* From a sink's function: counters are read half as often from now on, if there are any. */
void agent_slow_counters(struct agent *agent);
struct agent *agent_free(struct agent *agent);
DEFINE_CLEANUP_POINTER(agent_free, struct agent);
/* Adds a process to the filter (record -- CMD: between fork and exec). Before agent_run() only. */
int agent_add_pid(struct agent *agent, pid_t pid, struct error *err);

/* Keeps CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG, CAP_CHECKPOINT_RESTORE of what there is, drops
 * all others from every set, for this process. Call after agent_new(), and before there are other threads (-EBUSY): each has
 * its own. */
int agent_drop_privileges(struct error *err);

/* Counters since the start. Every timer event is either a sample taken, or lost as COUNTS_FULL. The other reasons count
 * incomplete samples (EVENTS and FILTER_FULL count other things than samples). Append-only. */
enum agent_loss {
	AGENT_LOSS_COUNTS_FULL,	  /* a CPU's ring was full: sample lost */
	AGENT_LOSS_STACKS_FULL,	  /* no room for a new stack: only the leaf is known, its caller is "[unknown stack]" */
	AGENT_LOSS_NO_USER_STACK, /* user stack could not be read: sample kept with the frames there are */
	AGENT_LOSS_NO_KERNEL_STACK,
	AGENT_LOSS_NO_PROCESS,	 /* process unknown at drain (it ended before it was seen): sample kept, addresses without a
				    binary */
	AGENT_LOSS_NO_MAPPING,	 /* a frame's address is in no known mapping: frame kept as an address */
	AGENT_LOSS_EVENTS,	 /* process events lost by the perf ring: the process table was read again from /proc */
	AGENT_LOSS_FILTER_FULL,	 /* processes forked by followed ones that could not be followed */
	AGENT_LOSS_OFF_CPU_FULL, /* waits lost: a ring or the table of waiting threads was full */
	AGENT_LOSS_NO_NAME, /* a function of an interpreter that was gone before its name could be read: frame without it */
	AGENT_LOSS_COUNT,
};
extern const char *const agent_loss_names[AGENT_LOSS_COUNT]; /* "counts_full" ... for metrics */
/* The processes with the most stacks that are not complete, in no order; since each was sampled first. */
#define AGENT_WORST_PROCESSES 16
struct agent_process_walks {
	pid_t pid; /* 0 = no entry */
	char comm[16];
	uint32_t results[UNWIND_RESULTS];
};
/* What the CPU time of the agent's own thread goes to. Append-only. */
enum agent_cost {
	AGENT_COST_OTHER,
	AGENT_COST_SAMPLES,   /* samples, from the rings to the profile being built */
	AGENT_COST_PROCESSES, /* following processes and their mappings, and telling the kernel side */
	AGENT_COST_TABLES,    /* unwind tables: opening files, building, loading */
	AGENT_COST_SYMBOLS,   /* JIT code, and reports of new binaries */
	AGENT_COST_PROFILES,  /* finishing profiles and handing them over */
	AGENT_COST_STATS,     /* process_stats and counters */
	AGENT_COST_COUNT,
};
extern const char *const agent_cost_names[AGENT_COST_COUNT]; /* "other" ... for metrics */

/* Unwinding of user stacks; counters since the start, but for what says "now". */
struct agent_unwind_stats {
	uint64_t results[UNWIND_RESULTS]; /* samples of user stacks, by enum unwind_result */
	struct agent_process_walks worst[AGENT_WORST_PROCESSES];
	uint64_t by_frames; /* samples of which a part was found by frame pointers */
	uint64_t resumed;   /* walks that user space finished, since the kernel side did not know enough */
	uint64_t frames;    /* user frames walked in the kernel */
	uint64_t process_updates, process_update_failures;
	uint64_t tables, table_bytes, table_rows;	    /* loaded now */
	uint64_t built, cached, evicted, failed, too_large; /* tables */
	uint64_t build_ns, build_ns_max;
	uint64_t live_rules, live_pieces,
		live_dropped; /* of code made at run time: now; ever looked at, and found to be replaced */
	/* Samples with functions of a runtime, these functions, and samples in it of which none was found; functions that were
	 * named, and that were gone or made no sense. */
	struct agent_runtime_stats {
		uint64_t samples, frames, unknown, names, names_lost;
	} runtimes[RUNTIME_KINDS];
	uint64_t heap_bytes, heap_used;			     /* now */
	uint64_t program_ns, program_ns_p50, program_ns_p99; /* time in the sampling program; quantiles of a sample */
};
struct agent_stats {
	struct agent_unwind_stats unwind;
	uint64_t samples_taken; /* by the kernel, as of the last flush; not those of the idle task */
	uint64_t samples_lost[AGENT_LOSS_COUNT];
	uint64_t relabel_dropped; /* samples that were taken, and dropped by the rules of agent_options.relabel */
	uint64_t flushes, flush_ns_total, flush_ns_max;
	uint64_t stacks_sent, processes, mappings, binaries;
	uint64_t bpf_run_ns,
		bpf_run_count; /* from bpf_prog_info when kernel.bpf_stats_enabled (BPF_ENABLE_STATS) is on; 0 otherwise */
	uint64_t cpus_online;
	char event[16];	       /* "cycles" or "cpu-clock" */
	unsigned frequency_hz; /* now */
	unsigned frequency_asked_hz;
	double cost_share;		    /* CPU usage of the agent and its BPF programs, smoothed, as a share of one CPU */
	double sampling_share;		    /* what of it falls with the rate, and counts for the budget */
	double budget;			    /* now; 0 = no limit */
	uint64_t rate_changes;		    /* made to stay in the budget */
	uint64_t cost_ns[AGENT_COST_COUNT]; /* CPU time of agent_run()'s thread */
	uint64_t off_cpu_intervals;	    /* off-CPU intervals that were sampled */
	uint64_t process_rows, process_rows_left_out;  /* of process_stats; left out for lack of room */
	uint64_t process_stats_ns;		       /* CPU time that making them took */
	char process_stats_problem[ERROR_MESSAGE_MAX]; /* why there are none although they are wanted; "" = all is well */
	uint64_t cgroups_left_out;     /* control groups that are not followed, for lack of room: the most at a time */
	uint64_t unprivileged_refused; /* processes of others, with agent_options.unprivileged */
	uint64_t counters_left_out;    /* processes, for lack of room */
	char counters_problem[ERROR_MESSAGE_MAX];
	char runtimes_problem[ERROR_MESSAGE_MAX]; /* why functions of interpreters are missing; "" = all is well */
};
void agent_get_stats(struct agent *agent, struct agent_stats *ret); /* from any thread */

/* For wick doctor: one row per check of this machine, in the order in which to fix them. */
enum doctor_verdict { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };
struct doctor_row {
	enum doctor_verdict verdict;
	char what[64], found[256], fix[256]; /* fix: the fix; "" = nothing to fix */
};
size_t agent_examine(struct doctor_row *ret_rows, size_t max);
/* The failed checks of a machine where the agent runs, without loading the sampling program again. Returns the number of rows.
 */
size_t agent_examine_faults(struct doctor_row *ret_rows, size_t max);
/* The same for one process, which is sampled at 99 Hz: its program, its unwind information, and how many of its stacks are
 * complete, or why not. -ESRCH without such a process, and the errors of agent_new(). */
int agent_examine_process(pid_t pid, int64_t duration_ns, struct doctor_row *ret_rows, size_t max, size_t *ret_count,
			  struct error *err);

#endif
