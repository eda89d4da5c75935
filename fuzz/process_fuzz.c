// SPDX-License-Identifier: Apache-2.0
/* Process events as the kernel's ring might hold them, and lines of /proc/PID/maps, applied to a process table. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pids beyond the kernel's, so that /proc is not asked about real processes. */
static void apply(struct process_table *table, struct event *event)
{
	event->pid = 4194305 + (event->pid & 7);
	event->parent = 4194305 + (event->parent & 7);
	process_table_apply(table, event, NULL);
	process_table_reap(table, event->time_ns / 2);
}

static void apply_records(struct process_table *table, const uint8_t *data, size_t size)
{
	while (size >= 2) {
		size_t len = data[0] | (size_t)(data[1] & 3) << 8;
		struct event event;
		data += 2;
		size -= 2;
		len = len < size ? len : size;
		if (event_decode(data, len, &event))
			apply(table, &event);
		data += len;
		size -= len;
	}
}

static void apply_lines(struct process_table *table, char *text)
{
	for (char *line = text, *next; line; line = next) {
		struct event event;
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (process_parse_maps_line(line, &event) == 0)
			apply(table, &event);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct binaries binaries;
	struct process_table table;
	struct event fork_event = {.kind = EVENT_FORK, .time_ns = 1};

	if (size < 1 || binaries_init(&binaries) < 0 || process_table_init(&table, &binaries) < 0)
		return 0;
	for (pid_t pid = 0; pid < 8; pid++) {
		fork_event.pid = pid;
		fork_event.parent = pid + 1;
		apply(&table, &fork_event);
	}
	if (data[0] & 1) {
		apply_records(&table, data + 1, size - 1);
	} else {
		char *text = malloc(size);
		memcpy(text, data + 1, size - 1);
		text[size - 1] = 0;
		apply_lines(&table, text);
		free(text);
	}
	binaries_sweep_begin(&binaries);
	process_table_mark_binaries(&table);
	binaries_sweep_end(&binaries);
	process_table_release(&table);
	binaries_release(&binaries);
	return 0;
}
