// SPDX-License-Identifier: Apache-2.0
#include "agent/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"

#define NAMES_MAX     65536u
#define NAMES_BYTES   (4 * MIB)
#define COMM_BYTES    16u
#define ALL_REGISTERS (~0u)

static int init_names(struct own *own)
{
	map64_init(&own->names);
	return intern_init(&own->strings, NAMES_BYTES);
}

static void release_names(struct own *own)
{
	map64_release(&own->names);
	intern_release(&own->strings);
}

int own_new(struct own **ret)
{
	struct own *own = mem_zalloc(sizeof(*own));
	if (!own)
		return -ENOMEM;
	if (init_names(own) < 0) {
		own_free(own);
		return -ENOMEM;
	}
	*ret = own;
	return 0;
}

struct own *own_free(struct own *own)
{
	if (!own)
		return NULL;
	release_names(own);
	return mem_free(own);
}

/* Without memory a thread has its process's name. */
static void set_name(struct own *own, pid_t tid, const char *name)
{
	uint32_t text;
	if (own->names.count >= NAMES_MAX || own->strings.arena.used_bytes > NAMES_BYTES / 2) {
		release_names(own); /* they are read again */
		if (init_names(own) < 0)
			return;
	}
	if (intern_add(&own->strings, name, strnlen(name, COMM_BYTES - 1), &text) == 0)
		map64_put(&own->names, (uint64_t)tid, text);
}

void own_note(struct own *own, const struct event *event)
{
	uint64_t text;

	if (event->kind == EVENT_LOST)
		own->lost += event->lost;
	if (event->kind == EVENT_COMM)
		set_name(own, event->tid, event->name);
	if (event->kind == EVENT_EXIT)
		map64_remove(&own->names, (uint64_t)event->tid);
	if (event->kind != EVENT_FORK)
		return;
	map64_remove(&own->names, (uint64_t)event->tid); /* of one that had this id before */
	if (map64_get(&own->names, (uint64_t)event->parent_tid, &text))
		map64_put(&own->names, (uint64_t)event->tid, text);
}

/* "" if it is gone. */
static void read_name(pid_t pid, pid_t tid, char ret[COMM_BYTES])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	io_read_text(path, ret, COMM_BYTES);
	ret[strcspn(ret, "\n")] = 0;
}

static void get_name(struct own *own, const struct event *event, char ret[COMM_BYTES])
{
	uint64_t text;
	if (map64_get(&own->names, (uint64_t)event->tid, &text)) {
		snprintf(ret, COMM_BYTES, "%s", intern_string(&own->strings, (uint32_t)text));
		return;
	}
	read_name(event->pid, event->tid, ret);
	if (*ret)
		set_name(own, event->tid, ret);
}

void own_sample(struct own *own, const struct event *event, uint64_t value_ns, struct abi_sample *ret)
{
	const struct event_sample *sample = &event->sample;

	own->samples++;
	*ret = (struct abi_sample){
		.header = {ABI_RECORD_SAMPLE, sizeof(*ret)},
		.time_ns = event->time_ns,
		.tgid = (__u32)event->pid,
		.tid = (__u32)event->tid,
		.user_leaf = sample->ip,
		.value = value_ns,
		.result = sample->is_64 ? UNWIND_NO_PROCESS : UNWIND_UNSUPPORTED,
	};
	get_name(own, event, ret->comm);
	if (!sample->is_64)
		return;
	ret->flags = ABI_SAMPLE_TAIL;
	struct abi_tail *tail = &own->tail;
	tail->header = (struct abi_header){ABI_RECORD_TAIL, sizeof(*tail)};
	for (size_t i = 0; i < UNWIND_REGISTERS; i++)
		tail->registers[i] = sample->registers[i];
	tail->ip = sample->ip;
	tail->stack = sample->registers[UNWIND_REGISTER_SP];
	tail->known = ALL_REGISTERS;
	tail->depth = 1;
	tail->is_return = 0;
	tail->stack_bytes = sample->stack_bytes & ~7u;
	memcpy(tail->data, sample->stack ? sample->stack : tail->data, tail->stack_bytes);
}

_Static_assert(EVENT_STACK_BYTES <= ABI_TAIL_BYTES, "a copied stack fits");
