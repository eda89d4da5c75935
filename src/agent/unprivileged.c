// SPDX-License-Identifier: Apache-2.0
#include "agent/unprivileged.h"

#include <errno.h>
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

static void release_names(struct unprivileged_sampler *sampler)
{
	map64_release(&sampler->names);
	intern_release(&sampler->strings);
}

int unprivileged_sampler_new(struct unprivileged_sampler **ret)
{
	struct unprivileged_sampler *sampler = mem_zalloc(sizeof(*sampler));
	if (!sampler)
		return -ENOMEM;
	if (intern_init(&sampler->strings, NAMES_BYTES) < 0) {
		unprivileged_sampler_free(sampler);
		return -ENOMEM;
	}
	*ret = sampler;
	return 0;
}

struct unprivileged_sampler *unprivileged_sampler_free(struct unprivileged_sampler *sampler)
{
	if (!sampler)
		return NULL;
	release_names(sampler);
	return mem_free(sampler);
}

/* Without memory a thread has its process's name. */
static void set_name(struct unprivileged_sampler *sampler, pid_t tid, const char *name)
{
	uint32_t text;
	if (sampler->names.count >= NAMES_MAX || sampler->strings.arena.used_bytes > NAMES_BYTES / 2) {
		release_names(sampler); /* they are read again */
		if (intern_init(&sampler->strings, NAMES_BYTES) < 0)
			return;
	}
	if (intern_add(&sampler->strings, name, strnlen(name, COMM_BYTES - 1), &text) == 0)
		map64_put(&sampler->names, (uint64_t)tid, text);
}

void unprivileged_sampler_note(struct unprivileged_sampler *sampler, const struct event *event)
{
	uint64_t text;

	if (event->kind == EVENT_LOST)
		sampler->lost += event->lost;
	if (event->kind == EVENT_COMM)
		set_name(sampler, event->tid, event->name);
	if (event->kind == EVENT_EXIT)
		map64_remove(&sampler->names, (uint64_t)event->tid);
	if (event->kind != EVENT_FORK)
		return;
	map64_remove(&sampler->names, (uint64_t)event->tid); /* of one that had this id before */
	if (map64_get(&sampler->names, (uint64_t)event->parent_tid, &text))
		map64_put(&sampler->names, (uint64_t)event->tid, text);
}

/* "" if it is gone. */
static void read_name(pid_t pid, pid_t tid, char ret[COMM_BYTES])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	io_read_text(path, ret, COMM_BYTES);
	ret[strcspn(ret, "\n")] = 0;
}

static void get_name(struct unprivileged_sampler *sampler, const struct event *event, char ret[COMM_BYTES])
{
	uint64_t text;
	if (map64_get(&sampler->names, (uint64_t)event->tid, &text)) {
		snprintf(ret, COMM_BYTES, "%s", intern_string(&sampler->strings, (uint32_t)text));
		return;
	}
	read_name(event->pid, event->tid, ret);
	if (*ret)
		set_name(sampler, event->tid, ret);
}

void unprivileged_sampler_convert(struct unprivileged_sampler *sampler, const struct event *event, uint64_t value_ns,
				  struct abi_sample *ret)
{
	const struct event_sample *sample = &event->sample;

	sampler->samples++;
	*ret = (struct abi_sample){
		.header = {ABI_RECORD_SAMPLE, sizeof(*ret)},
		.time_ns = event->time_ns,
		.tgid = (__u32)event->pid,
		.tid = (__u32)event->tid,
		.user_leaf = sample->ip,
		.value = value_ns,
		.result = sample->is_64 ? UNWIND_NO_PROCESS : UNWIND_UNSUPPORTED,
	};
	get_name(sampler, event, ret->comm);
	if (!sample->is_64)
		return;
	ret->flags = ABI_SAMPLE_TAIL;
	struct abi_tail *tail = &sampler->tail;
	tail->header = (struct abi_header){ABI_RECORD_TAIL, sizeof(*tail)};
	for (size_t i = 0; i < UNWIND_REGISTERS; i++)
		tail->registers[i] = sample->registers[i];
	tail->ip = sample->ip;
	tail->stack = sample->registers[UNWIND_REGISTER_SP];
	tail->known = ALL_REGISTERS;
	tail->depth = 1;
	tail->is_return = 0;
	tail->stack_bytes = sample->stack_bytes & ~7u;
	tail->absent = 0;
	memcpy(tail->data, sample->stack ? sample->stack : tail->data, tail->stack_bytes);
}

_Static_assert(EVENT_STACK_BYTES <= ABI_TAIL_BYTES, "a copied stack fits");
