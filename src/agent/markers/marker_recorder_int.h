/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the reading of markers: one shared file, the clock, and where processes are found. */
#ifndef WICK_AGENT_MARKERS_MARKER_RECORDER_INT_H
#define WICK_AGENT_MARKERS_MARKER_RECORDER_INT_H

#include <sys/stat.h>

#include "agent/markers/marker_recorder.h"
#include "base/map.h"
#include "client/wickmark_abi.h"
#include "profile/markers.h"

/* ---- marker_clock.c ---- */

/* CLOCK_MONOTONIC by the time stamp counter: straight lines between pairs that were read together. */
struct marker_clock_pair {
	uint64_t ticks;
	int64_t ns; /* wall clock, as all that leaves here */
};
struct marker_clock {
	struct marker_clock_pair *pairs;
	size_t count, capacity;
	int64_t to_wall_ns;	  /* from CLOCK_MONOTONIC */
	int64_t boot_ns;	  /* from CLOCK_BOOTTIME */
	int64_t begin_ns, end_ns; /* of the recording; end: as of now */
	int64_t taken_ns;	  /* when marker_recorder_take() was last called, else begin_ns */
};
int marker_clock_init(struct marker_clock *clock); /* 0 or -ENOMEM */
void marker_clock_release(struct marker_clock *clock);
/* The recording begins then, or now (0). 0 or -ENOMEM. */
int marker_clock_begin(struct marker_clock *clock, int64_t begin_ns);
/* Reads the clocks, and moves end_ns to now. To be called between looking what there is in a ring and reading it: only what was
 * made before the last call has exact times. 0 or -ENOMEM. */
int marker_clock_tick(struct marker_clock *clock);
/* What comes from now on belongs to another profile, and goes by the wall clock as it is now: it may have been set. */
void marker_clock_renew(struct marker_clock *clock);
/* Any ticks, of any clock of enum wickmark_clock; not cut to the recording. */
int64_t marker_clock_wall_ns(const struct marker_clock *clock, uint32_t kind, uint64_t ticks);

/* ---- marker_downsample.c ---- */

/* Markers that are alike: those that last as many bits of nanoseconds, and these. */
enum { MARKER_CLASS_FLOW = 65, MARKER_CLASS_ASYNC, MARKER_CLASS_ROWS, MARKER_CLASSES };
struct marker_downsample {
	uint8_t shifts[MARKER_CLASSES]; /* one of 2^shift is kept */
	uint64_t seen[MARKER_CLASSES];
	uint64_t drawn; /* numbers that were used up */
	bool is_stuck;	/* no more can be done */
};
struct marker_output;
unsigned marker_class(const struct profile_marker *marker);
/* Whether one that comes now is kept. key: of MARKER_CLASS_FLOW the flow, of _ASYNC what both ends have in common. Not for
 * rows.
 */
bool marker_downsample_keeps(struct marker_downsample *downsample, unsigned class, uint64_t key);
/* Makes room for a quarter of the markers and rows, and counts what goes. -ENOMEM. */
int marker_downsample(struct marker_output *output, struct error *err);

/* ---- marker_file.c ---- */

/* What all files add to. */
struct marker_output {
	struct profile *profile;
	struct marker_clock *clock;
	const char *recorder_name; /* of the socket that takes files; NULL, "" = none */
	struct marker_recorder_stats stats;
	size_t max, values_max; /* MARKER_RECORDER_MAX, MARKER_RECORDER_VALUES_MAX; tests lower them */
	struct marker_downsample downsample;
	struct marker_file *files;   /* all that there are */
	bool is_continuous;	     /* marker_recorder_continuous() */
	size_t text_bytes, text_max; /* of texts of files in the profile; what does not fit is left away, and malformed */
	uint32_t lost_schema, lost_category;
	struct wickmark_record *copy; /* WICKMARK_RECORDS */
};
int marker_output_init(struct marker_output *output, struct marker_clock *clock, struct error *err);
void marker_output_release(struct marker_output *output);
/* *ret becomes the profile, and the output begins another one; each file has to be renewed then. */
int marker_output_renew(struct marker_output *output, struct profile **ret, struct error *err);

struct marker_site {
	bool known;
	uint32_t schema, category, name, field_count, what, counter_category, unit, color;
	uint8_t formats[WICKMARK_FIELD_COUNT];
	uint32_t counter;   /* of the profile, 0 = not yet */
	uint64_t rows_seen; /* of which one in 2^shift is kept */
	double row_carry;   /* events of rows that were not, for the next one */
};
struct marker_thread {
	uint32_t generation, id; /* id: of the profile's threads; 0 = not yet */
	int32_t tid, outer_tid;	 /* as the process sees it, and as we do */
	uint64_t tail, reported;
	uint64_t skipped; /* of lost, when the lease became ours; of the thread of this generation */
	uint32_t skipped_generation;
	bool known;
};
struct marker_file {
	struct marker_output *output;
	struct marker_file *next; /* of output->files */
	int fd;
	pid_t pid; /* as we see it */
	dev_t device;
	ino_t inode;
	uint32_t clock;
	bool is_held;			/* the lease is ours: only then anything is taken */
	bool is_in_doubt;		/* its process has another file as well: one of the two is of a former program */
	bool own_pids;			/* the process is, or may have been, in another pid namespace */
	uint32_t process;		/* string: its name */
	struct wickmark_header *header; /* mapped, up to the rings */
	struct marker_site *sites;	/* by number - 1; as many as were seen */
	size_t site_count, site_capacity;
	struct marker_thread *threads;
	size_t thread_count, thread_capacity;
	struct map64 strings;  /* offset -> string of the profile */
	uint32_t string_bytes; /* of those */
	struct map64 asyncs;   /* marker_async_key() of site and id, + which of them -> marker */
	uint64_t lost_elsewhere;
	uint32_t fill; /* the most records that a ring had at the last look */
};
/* Ends of spans of one site and id that wait for their other ends; others stay what they are. */
#define MARKER_ASYNCS_OF_ID 16u
static inline uint64_t marker_async_key(uint64_t key)
{
	return key & ~(uint64_t)(MARKER_ASYNCS_OF_ID - 1);
}
/* Takes the descriptor, also on failure. 0; -EBADMSG: it is no such file, or one of another version; -EAGAIN: the process has
 * only just made it. */
int marker_file_open(struct marker_output *output, int fd, pid_t pid, struct marker_file **ret, struct error *err);
struct marker_file *marker_file_free(struct marker_file *file);
DEFINE_CLEANUP_POINTER(marker_file_free, struct marker_file);
/* Whether the file says that it is this process's. */
bool marker_file_is_of(const struct marker_file *file, pid_t pid);
/* After marker_output_renew(), which gave `old`: forgets what it knew by numbers of that. */
int marker_file_renew(struct marker_file *file, const struct profile *old, struct error *err);
/* Takes what the rings hold. -ENOMEM, -E2BIG of the profile. */
int marker_file_drain(struct marker_file *file, struct error *err);
/* Spans that are still under way, and events that are not yet in a row, from the last taking up to now. After a drain. */
int marker_file_finish(struct marker_file *file, struct error *err);
/* Takes or prolongs the lease; false if another recorder has it, and does not give way. What was lost under another one is
 * not counted again. */
bool marker_file_lease(struct marker_file *file, uint32_t recorder, uint64_t until_ns);
void marker_file_switch_off(struct marker_file *file, uint32_t recorder);

/* ---- marker_process.c: what /proc says ---- */

/* The shared file of a process. Returns the descriptor; -ENOENT: it has none. */
int marker_process_open_file(pid_t pid);
/* Whether a process maps a file with this inode, and no other one; true also if there is no telling. */
bool marker_process_maps(pid_t pid, ino_t inode);
/* What a process calls itself in its own pid namespace; pid if there is no telling. */
pid_t marker_process_own_pid(pid_t pid);
/* Whether the process sees itself under another number than we do: it is in another pid namespace, or has ended. */
bool marker_process_may_differ(pid_t pid);
/* Our number of the thread that the process calls tid; 0 = there is none. */
pid_t marker_process_outer_tid(pid_t pid, pid_t tid);
/* The name of its executable, without directories; or its comm. */
void marker_process_name(pid_t pid, char *out, size_t size);
uint64_t marker_process_thread_start(pid_t pid, pid_t tid); /* USER_HZ since boot; 0 = there is none */

#endif
