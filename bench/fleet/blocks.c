/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window of the fleet's time as one block, without the log and without a record for each flush: the window's samples become
 * one profile (and one of heap profiles), that becomes a head, and the head is written as the store writes its own. Appends get
 * ids, as in a store that clients sent to, because those are bytes of a block too.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "bench/fleet/fleet.h"
#include "store/block/block.h"
#include "store/head/head.h"
#include "store/store.h"

#define SERIES_MAX 4000000

struct window {
	struct fleet *fleet;
	struct head *head;
	struct fleet_emitter *cpu, *memory;
	struct fleet_flush flush;
	struct fleet_totals *totals;
	uint64_t sequence;
	struct error *err;
};

static int add_append(struct window *window)
{
	struct head *head = window->head;
	if (array_reserve(&head->appends, &head->append_capacity, head->append_count + 1, UINT32_MAX) < 0)
		return error_nomem(window->err);
	struct head_append *append = &head->appends[head->append_count++];
	uint64_t id[2] = {fleet_hash(window->fleet->options.seed, window->sequence), fleet_hash(window->sequence, 1)};
	append->sequence = window->sequence++;
	memcpy(append->id, id, sizeof(append->id));
	window->totals->appends++;
	window->totals->events += window->flush.events;
	return 0;
}

static int add_flush(struct window *window, unsigned host, uint64_t tick)
{
	struct fleet *fleet = window->fleet;
	int r = fleet_flush(fleet, host, tick, &window->flush, window->err);
	if (r == 0 && window->flush.count > 0) {
		r = fleet_emit(window->cpu, &window->flush, window->err);
		if (r == 0)
			r = add_append(window);
	}
	if (r == 0 && fleet_truth_is_on(fleet, host)) {
		r = fleet_truth_emit(window->cpu, host, tick, &window->flush.events, window->err);
		if (r == 0)
			r = add_append(window);
	}
	for (unsigned pod = 0; r == 0 && pod < fleet->options.pods_per_host; pod++) {
		r = fleet_memory_flush(fleet, host, pod, tick, &window->flush, window->err);
		if (r == 1) {
			r = 0;
			continue;
		}
		if (r == 0)
			r = fleet_emit(window->memory, &window->flush, window->err);
		if (r == 0)
			r = add_append(window);
	}
	return r;
}

static int commit(struct window *window, struct fleet_emitter *emitter)
{
	struct store_append_options options = {0};
	struct head_batch batch;
	window->totals->stacks = emitter->profile->stack_count;
	int r = head_prepare(window->head, emitter->profile, &options, NULL, &batch, window->err);
	if (r == 0)
		head_commit(window->head, &batch, options.id, window->sequence);
	emitter->profile = profile_free(emitter->profile);
	return r;
}

static int fill(struct window *window, uint64_t from_tick, uint64_t to_tick)
{
	struct fleet *fleet = window->fleet;
	struct fleet_flush start = {.time_ns = fleet->options.start_ns + (int64_t)from_tick * FLEET_FLUSH_NS};
	int r = fleet_emit_begin(window->cpu, &start, window->err);
	if (r == 0)
		r = fleet_emit_begin(window->memory, &start, window->err);
	for (uint64_t tick = from_tick; r == 0 && tick < to_tick; tick++)
		for (unsigned host = 0; r == 0 && host < fleet->options.hosts; host++)
			r = add_flush(window, host, tick);
	if (r == 0)
		r = commit(window, window->cpu);
	return r == 0 ? commit(window, window->memory) : r;
}

static int write_head(struct head *head, const char *data, uint64_t from_tick, struct fleet_totals *totals, struct error *err)
{
	char temporary[PATH_MAX], blocks[PATH_MAX], path[PATH_MAX], name[48];
	struct block_meta meta;
	snprintf(name, sizeof(name), "fleet-%llu.tmp", (unsigned long long)from_tick);
	int r = io_join_path(temporary, sizeof(temporary), data, name);
	if (r == 0)
		r = io_join_path(blocks, sizeof(blocks), data, "blocks");
	if (r == 0)
		r = io_remove_tree(temporary, err);
	if (r == 0)
		r = io_make_dirs(temporary, 0750, err);
	if (r == 0)
		r = io_make_dirs(blocks, 0750, err);
	if (r == 0)
		r = block_write(head, temporary, &meta, err);
	if (r == 0)
		r = io_join_path(path, sizeof(path), blocks, meta.name);
	if (r < 0)
		return r;
	totals->samples += meta.samples;
	totals->bytes += block_meta_bytes(&meta);
	totals->blocks++;
	return io_rename(temporary, path, err);
}

int fleet_write_block(struct fleet *fleet, const char *data, uint64_t from_tick, uint64_t to_tick, struct fleet_totals *totals,
		      struct error *err)
{
	struct window window = {.fleet = fleet, .totals = totals, .err = err};
	/* Sequences rise with time also when windows are written by several processes. */
	window.sequence = 1 + from_tick * fleet->options.hosts * (1 + fleet->options.pods_per_host + fleet->options.has_truths);
	int64_t started = time_process_cpu_ns();
	int r = head_new(SERIES_MAX, &window.head, err);
	if (r == 0)
		r = fleet_emitter_new(fleet, true, false, &window.cpu, err);
	if (r == 0)
		r = fleet_emitter_new(fleet, true, true, &window.memory, err);
	if (r == 0)
		r = fill(&window, from_tick, to_tick);
	fleet_emitter_free(window.cpu);
	fleet_emitter_free(window.memory);
	mem_free(window.flush.samples);
	totals->generate_ns += time_process_cpu_ns() - started;
	started = time_process_cpu_ns();
	if (r == 0 && window.head->count > 0)
		r = write_head(window.head, data, from_tick, totals, err);
	totals->write_ns += time_process_cpu_ns() - started;
	head_free(window.head);
	return r;
}
