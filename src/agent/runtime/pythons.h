/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: which processes have an interpreter of Python in them, and the names of what it runs.
 *
 * A file is looked at once, when a process that maps it executable is first told to the kernel side, if it is large enough to
 * hold an interpreter. Names are read from the process when a sample has them, and kept: by process, code object and check
 * (bpf/python.h). Two tables of names, an older and a newer one, bound their memory: what is used goes to the newer one, and
 * when that is full the older one goes.
 */
#ifndef WICK_AGENT_RUNTIME_PYTHONS_H
#define WICK_AGENT_RUNTIME_PYTHONS_H

#include "agent/process/process.h"
#include "base/intern.h"
#include "runtime/python.h"

#define PYTHON_BUILDS_MAX      1024u /* different ones; further ones are not looked at */
#define PYTHON_NAMES_MAX       32768u
#define PYTHON_NAMES_BYTES_MAX (4u << 20) /* of texts and line tables, a table of names */

struct python_file { /* what was recognized, or why not */
	struct python_build build;
	bool is_known;
	char why[120]; /* unless is_known */
};

struct python_names {
	struct map64 by_key; /* -> index in items */
	struct python_name_item *items;
	size_t count, capacity;
	struct intern texts;
};

struct pythons {
	struct binaries *binaries;
	struct python_file *files; /* binary_file.python counts from 2 */
	size_t file_count, file_capacity;
	struct python_names names[2]; /* [0] is the newer one */
	uint64_t key_seed;
	bool is_off; /* no process has one */
	/* Since the start. */
	uint64_t read, lost, nonsense; /* code objects: named; gone before they could be read; not to be believed */
};

int pythons_init(struct pythons *pythons, struct binaries *binaries);
void pythons_release(struct pythons *pythons);

/* The interpreter in a file that a process maps, NULL if there is none; not known: is_known is false. Valid until the next
 * call. */
const struct python_file *pythons_look(struct pythons *pythons, pid_t pid, const struct process_mapping *mapping);
/* The first interpreter among the mappings of a process; sets list->python_file. *ret is what the walk is told. */
bool pythons_place(struct pythons *pythons, pid_t pid, struct mapping_list *list, struct python_process *ret);
/* The same for a list that was placed before, without looking at files. */
bool pythons_placed(const struct pythons *pythons, const struct mapping_list *list, struct python_process *ret);

struct python_name {
	const char *name, *file;   /* valid until the next call; name is "" if it could not be had */
	uint32_t line, first_line; /* 0 = none */
};
/* Of a frame's two words. 0 or -ENOMEM. */
int pythons_name(struct pythons *pythons, const struct process *process, uint64_t object, uint64_t data,
		 struct python_name *ret);

#endif
