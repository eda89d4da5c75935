/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: the files (and other things) that are mapped executable, each once, named by a small number that stays
 * valid until binaries_sweep() finds that nobody uses it.
 */
#ifndef WICK_AGENT_PROCESS_BINARY_H
#define WICK_AGENT_PROCESS_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "agent/process/contents.h"
#include "agent/sample/events.h"
#include "base/map.h"
#include "elf/build_id.h"

enum binary_kind {
	BINARY_FILE,
	BINARY_JIT,   /* memory without a file, or with one that has no name: code made at run time */
	BINARY_VDSO,  /* the kernel's, the same in all 64-bit processes */
	BINARY_MEMFD, /* file or JIT: binary_prepare() decides by looking into it */
};
#define BINARY_NONE 0u
struct binary {
	char *path;		/* as the process sees it, without " (deleted)" */
	char *build_id;		/* lower-case hex; "" = it has none; NULL = not known (yet) */
	char *file_hash;	/* of a file without build-id (elf/build_id.h); NULL = not needed, or not known (yet) */
	uint64_t device, inode; /* 0 when the kernel gave the build-id in their place */
	uint32_t next_free;
	uint32_t files; /* the first of its binary_file; 0 = none */
	uint8_t kind;
	uint8_t tries; /* to open it */
	uint8_t describe_tries;
	uint8_t key_kind; /* as it was when added */
	bool by_build_id; /* the build-id is part of what it is found by */
	bool used, marked, announced;
	bool has_runtime; /* a process whose executable it is had one (bpf/runtime.h) */
	bool is_jitdump;  /* named ".../jit-DIGITS.dump": no code is in it, but its mapping shows where it is */
	bool described;
	char *compiler, *go_build_id; /* NULL = none, or not described yet */
};

/* What is in it. One path and one build-id, or one inode, may be several files: one after the other, or in containers. */
struct binary_file {
	struct contents_file content; /* with the key "": not known */
	uint32_t binary;
	uint32_t next; /* of the binary, or unused */
	uint32_t slot; /* of its unwind table, if has_slot (unwinder.c) */
	bool used, marked, has_slot, announced;
	uint16_t runtime; /* of struct runtimes; 0 = not looked at */
	uint8_t tries;	  /* to open it, once another file of the binary was announced */
};

struct unwind_tables;
struct binaries {
	struct unwind_tables *tables; /* that slots belong to; NULL without an unwinder */
	struct binary *items;	      /* [0] = none */
	size_t count, capacity;
	uint32_t free; /* chain of unused items; 0 = none */
	size_t used;
	struct index32 index;
	struct binary_file *files; /* [0] = none */
	size_t file_count, file_capacity, files_used;
	uint32_t free_file; /* chain of unused ones; 0 = none */
	struct contents contents;
	int64_t looked_ns; /* when looks_left was last filled up */
	uint32_t looks_left;
	char unknown_id[FILE_HASH_HEX]; /* binary_id() */
	struct map64 announced;		/* hashes of ids and contents that the sink has seen */
	struct cost_meter *meter;	/* the agent's; NULL = none */
};

int binaries_init(struct binaries *binaries);
void binaries_release(struct binaries *binaries);
/* The number of what an event, or a line of /proc/PID/maps (as an event), maps. 0, -ENOMEM, -E2BIG. */
int binaries_add(struct binaries *binaries, const struct event *event, uint32_t *ret_id);
static inline struct binary *binary_get(const struct binaries *binaries, uint32_t id)
{
	return &binaries->items[id];
}
/* The last component of the path. */
const char *binary_name(const struct binary *binary);

/* Where a process has a binary. */
struct process_mapping {
	uint64_t start, end; /* [start, end) */
	uint64_t offset;     /* in the file */
	uint32_t binary;
	uint32_t settles_s; /* CLOCK_MONOTONIC; it took the place of another one, and may have to make place until then; 0 = no
			     */
	uint32_t file : 31; /* binary_identify(); 0 = not yet */
	uint32_t is_assumed : 1;
};
/*
 * What the file that is mapped is known by in profiles: its build-id, or its hash (*ret_is_hash) if it has none or is foreign
 * to it (contents.h), or "". Where nobody knows which of several files it is, that is a hash which no file has: it has no names
 * then, instead of another file's. Lives until the next call.
 */
const char *binary_id(struct binaries *binaries, const struct process_mapping *mapping, bool *ret_is_hash);
/*
 * Before the first use in a profile: learns the build-id if it is missing, and shows the file to sink->on_binary once per
 * id and content. The file is opened through the process if it still lives, else by its path; it is shown only if its identity
 * agrees. Failures are silent: the location is right without the file.
 */
void binary_prepare(struct binaries *binaries, uint32_t id, pid_t pid, const struct process_mapping *mapping,
		    const struct agent_sink *sink);

/*
 * Opens the very file that is mapped, for reading, as binary_prepare() does; for others that need its contents. Returns a
 * descriptor, which becomes the caller's, and sets *ret_build_id ("" if it has none); -ENOEXEC for memory that holds no file's
 * code, -ENOENT and others if it cannot be had. `mapping`: one of the process that maps it.
 */
int binary_open(const struct binary *binary, pid_t pid, const struct process_mapping *mapping,
		char ret_build_id[static BUILD_ID_HEX_MAX]);
/* Whether it is code that was made at run time, also in a memfd of which nothing was announced yet. */
bool binary_is_generated(const struct binary *binary, pid_t pid, const struct process_mapping *mapping);

/*
 * Finds out which file it is that is mapped, and sets mapping->file, for a binary that is no JIT code. Asks the kernel once for
 * a mapping: opening is needed only for files that were not seen before. Where it cannot be had, it is what was seen under this
 * build-id, if that was one and the same. So many are looked at in a second; further ones are assumed to be what the binary was
 * the last time, and looked at later. Positive if mapping->file was another before; -ENOMEM.
 */
int binary_identify(struct binaries *binaries, pid_t pid, struct process_mapping *mapping);
static inline struct binary_file *binary_file_get(const struct binaries *binaries, uint32_t file)
{
	return &binaries->files[file];
}

/* Before it is named as a process's executable: learns, once, its build-id, compiler and Go build-id. `mapping`: NULL if the
 * process has none of it any more. Failures are silent, as above. */
void binary_describe(struct binaries *binaries, uint32_t id, pid_t pid, const struct process_mapping *mapping);

/* Forgets binaries and their files that nobody uses: call _begin, _mark for each one in use, _end. Worth it when _should_sweep.
 */
bool binaries_should_sweep(const struct binaries *binaries);
void binaries_sweep_begin(struct binaries *binaries);
static inline void binaries_mark(struct binaries *binaries, uint32_t id)
{
	binaries->items[id].marked = true;
}
static inline void binaries_mark_mapping(struct binaries *binaries, const struct process_mapping *mapping)
{
	binaries_mark(binaries, mapping->binary);
	binaries->files[mapping->file].marked = true;
}
int binaries_sweep_end(struct binaries *binaries);

/* binary_files.c */
int binary_files_init(struct binaries *binaries);
/* Forgets all of a binary that are not marked, or all. */
void binary_files_forget(struct binaries *binaries, struct binary *binary, bool all);

#endif
