/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: which processes have interpreters or virtual machines in them, and the names of what those run.
 *
 * A file is looked at once, by the runtimes one after the other, when a process that maps it executable is first told to the
 * kernel side, if it is large enough to hold one. What the walk has to know of a process is written behind the ranges of its
 * mappings, one runtime of each class (bpf/runtime.h). Names are read from the process when a sample has them, and kept
 * (agent/runtime/names.h).
 *
 * What is of one runtime alone is in a file of its own beside this one, as a struct runtime_type.
 */
#ifndef WICK_AGENT_RUNTIME_RUNTIMES_H
#define WICK_AGENT_RUNTIME_RUNTIMES_H

#include "agent/process/process.h"
#include "agent/runtime/names.h"
#include "bpf/runtime.h"
#include "runtime/beam.h"
#include "runtime/jvm.h"
#include "runtime/lua.h"
#include "runtime/luajit.h"
#include "runtime/perl.h"
#include "runtime/php.h"
#include "runtime/python.h"
#include "runtime/ruby.h"
#include "runtime/v8.h"

#define RUNTIME_FILES_MAX	1024u	      /* different ones; further ones are not looked at */
#define RUNTIME_PLACE_BYTES_MAX 1024u	      /* of what the walk is told of one */
#define RUNTIME_BYTES_MIN	(512u * 1024) /* the smallest one that was seen has 1.4 MiB */
#define RUNTIME_INLINES_MAX	64u
#define RUNTIME_ALL		UINT32_MAX

/* What may be read of a process for the names of its functions: so much at once, and so much more a second. A process that has
 * other functions in each sample, with the largest tables, would else take all of the agent's time. Each read counts as
 * RUNTIME_READ_COST more, which is what the call takes. A function of CPython is 8 reads: 4,096 of them, and 2,048 a second,
 * which is 4 % of a CPU. */
#define RUNTIME_READ_BYTES_MAX	 (32ll << 20)
#define RUNTIME_READ_BYTES_PER_S (16ll << 20)
#define RUNTIME_READ_COST	 1024

struct runtime_type;
/* What was recognized in a file, or why not. */
struct runtime_file {
	const struct runtime_type *type;
	bool is_known;
	char why[120]; /* unless is_known */
	/* A place in its code: where it is linked, and in the file. */
	uint64_t code_address, code_offset;
	union {
		struct python_build python;
		struct php_build php;
		struct jvm_build jvm;
		struct lua_build lua;
		struct luajit_build luajit;
		struct perl_build perl;
		struct ruby_build ruby;
		struct v8_build v8;
		struct beam_build beam;
	};
};

struct runtime_counts {
	/* Functions: named; gone before they could be read; not to be believed; and how often one was not read, because its
	 * process had more than it may have. */
	uint64_t read, lost, nonsense, refused;
};
struct runtimes {
	struct binaries *binaries;
	struct runtime_file *files; /* binary_file.runtime counts from 2 */
	size_t file_count, file_capacity;
	struct runtime_names names;
	uint32_t kinds;				     /* that are shown: a bit each, by enum runtime_kind */
	struct runtime_counts counts[RUNTIME_KINDS]; /* since the start */
	bool lacks;				     /* see runtimes_place() */
	/* Of jvms.c, and texts of luas.c and luajits.c, too. */
	struct runtime_jvm *jvms;
	size_t jvm_count, jvm_capacity;
	uint64_t jvm_clock;
	struct buffer texts;
	/* Of beams.c. */
	struct runtime_beam *beams;
	size_t beam_count, beam_capacity;
	uint64_t beam_clock;
	/* Of luajits.c. */
	struct runtime_luajit *luajits;
	size_t luajit_count, luajit_capacity;
	uint64_t luajit_clock;
	/* Of v8s.c. */
	struct v8_scripts scripts;
	uint64_t partial; /* functions that could not be read as a whole */
};

/* What the walk says of a frame. */
struct runtime_frame {
	uint64_t object, data; /* its two words */
	uint64_t pc;	       /* the native address before them: of the leaf, or of a call; 0 = none */
	/* Of a listed one: the next of its runtime on the stack, which may have called it; 0 = none. */
	uint64_t caller, caller_data;
	uint64_t outer, outer_data; /* ... and the one after it */
};
/* A function of a frame. */
struct runtime_name {
	const char *name, *file;   /* valid until the next call; name is "" if it could not be had */
	uint32_t line, first_line; /* 0 = none */
};

/* What the runtimes have in common; its functions are called by runtimes.c alone. */
struct runtime_type {
	enum runtime_kind kind;
	enum runtime_class class;
	const char *word;	   /* of --runtimes; and the mapping of its functions in profiles */
	const char *lost_function; /* stands for one whose name is lost */
	uint32_t bytes_min;	   /* executable; smaller files do not hold it; 0 = RUNTIME_BYTES_MIN */
	/* 1, *ret filled but for its type; 0 if the file does not hold it; -ENOTSUP, -EBADMSG: it does, and cannot be read (err
	 * says why). */
	int (*recognize)(struct elf_file *file, struct runtime_file *ret, struct error *err);
	/* Writes what the walk is told of a process. Returns its bytes, a multiple of 8; 0 = it is not to be shown (any more);
	 * -EAGAIN = not yet, it is to be asked for again; so it is with runtimes->lacks. */
	int (*place)(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		     void *ret);
	/* The functions of a frame, innermost first: their number, or -ENOMEM. One that has none is one without a name; 0 if it
	 * turns out to be none of the runtime: then its native address stands for it. */
	int (*name)(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		    const struct runtime_frame *frame, struct runtime_name *ret);
	/* For people: version, build, where the offsets came from. */
	void (*describe)(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
			 struct buffer *out);
};
extern const struct runtime_type runtime_python, runtime_php, runtime_perl, runtime_ruby, runtime_lua, runtime_jvm, runtime_v8,
	runtime_beam, runtime_luajit;
void runtime_beams_release(struct runtimes *runtimes);	 /* of beams.c */
void runtime_luajits_release(struct runtimes *runtimes); /* of luajits.c */

int runtimes_init(struct runtimes *runtimes, struct binaries *binaries);
void runtimes_release(struct runtimes *runtimes);
/* The type of a kind, NULL if there is none. */
const struct runtime_type *runtime_type_of(uint32_t kind);
/* Words of types, separated by commas, or "none"; NULL = all. *ret_kinds: a bit each. -EINVAL: err names the word. */
int runtimes_parse(const char *text, uint32_t *ret_kinds, struct error *err);

/* The runtime in a file that a process maps, NULL if there is none. Valid until the next call. */
const struct runtime_file *runtimes_look(struct runtimes *runtimes, pid_t pid, const struct process_mapping *mapping);
/* Finds the first one of each class among the mappings of a process: list->runtimes. */
void runtimes_find(struct runtimes *runtimes, pid_t pid, struct mapping_list *list);
/* What the walk is told of the one of a class that was found. Returns its bytes; 0 = there is none; -EAGAIN = not yet. With
 * runtimes->lacks, more can be told soon. */
int runtimes_place(struct runtimes *runtimes, pid_t pid, const struct mapping_list *list, enum runtime_class class, void *ret);
/* The functions of a frame whose kind has a type, innermost first: their number; 0 if only its native address can be shown, or
 * -ENOMEM. */
int runtimes_name(struct runtimes *runtimes, const struct process *process, const struct runtime_frame *frame,
		  const struct runtime_type **ret_type, struct runtime_name ret[RUNTIME_INLINES_MAX]);

/* Whether the functions of a kind in the process made no sense from the first one on: they are not to be shown. */
bool runtimes_are_disbelieved(const struct process *process, uint32_t kind);

/* For the types: memory of a process. The process has to live as long as *ret. */
void runtime_memory_of(const struct process *process, struct runtime_memory *ret);
/* ... of one that is about to be told to the kernel side. */
void runtime_memory_of_pid(const pid_t *pid, struct runtime_memory *ret);
/* ... the key in runtimes->names of an object that has the check; `place`: 0 where the object alone decides. */
uint64_t runtime_key_of(const struct runtimes *runtimes, const struct process *process, uint64_t object, uint64_t data,
			uint32_t place);
/* ... whether a function that is not known may be read: what a process has read is limited (RUNTIME_READ_BYTES_MAX). Counts
 * those that may not. */
bool runtime_may_read(struct runtimes *runtimes, const struct process *process, enum runtime_kind kind);
/* ... the same, of one that is looked up first: 1, *ret filled; 0 if it is to be read; -EDQUOT if it may not be; -ENOMEM. */
int runtime_find_name(struct runtimes *runtimes, const struct process *process, enum runtime_kind kind, uint64_t key,
		      struct runtime_name_item *ret);
/* ... names a function whose place is its line, which `read` reads from the process if it is not known: 0, -ENOMEM, -EBADMSG
 * for nonsense, others if it is gone. One that is gone has the names of another one with the same check: copies of a function,
 * such as closures. */
typedef int runtime_read_named(const struct runtime_file *file, const struct runtime_memory *memory, uint64_t object,
			       uint32_t check, struct runtime_function *ret);
int runtime_name_by_line(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
			 runtime_read_named *read, uint64_t object, uint64_t data, struct runtime_name *ret);
/* ... finds what is kept of a function whose place is looked up in a table; `read` reads it from the process if it is not
 * known: 0, -ENOMEM, -EBADMSG for nonsense, others if it is gone. bias: of the file in the process. 1, *ret filled (by_table.c
 * says what is where), without a name if it could not be had; 0 if it could not be kept; -ENOMEM. */
struct runtime_tabled {
	struct runtime_function function;
	uint8_t *table; /* owned by whoever has called, mem_free() */
	size_t table_bytes;
	uint32_t number;
};
typedef int runtime_read_tabled(const struct runtime_file *file, uint64_t bias, const struct runtime_memory *memory,
				uint64_t object, uint32_t check, struct runtime_tabled *ret);
int runtime_find_tabled(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
			runtime_read_tabled *read, uint64_t object, uint64_t data, struct runtime_name_item *ret);
/* ... counts what came of reading a function: 0, -EBADMSG for nonsense, others for what was lost. */
void runtime_count(struct runtimes *runtimes, enum runtime_kind kind, int result);

#endif
