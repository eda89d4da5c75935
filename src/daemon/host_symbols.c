/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host_symbols.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"

#define NOTES_BYTES_MAX	    (64 * KIB)
#define MISSED_PAUSE_MIN_NS (30 * NS_PER_S)
#define MISSED_PAUSE_MAX_NS (1800 * NS_PER_S)

static void read_kernel_build_id(struct host_symbols *symbols)
{
	_cleanup_(buffer_release) struct buffer notes = {0};
	if (io_read_file("/sys/kernel/notes", NOTES_BYTES_MAX, &notes, NULL) < 0 ||
	    build_id_from_notes(buffer_bytes(&notes), symbols->kernel_build_id) < 0)
		symbols->kernel_build_id[0] = 0;
}

int host_symbols_init(struct host_symbols *symbols, struct error *err)
{
	*symbols = (struct host_symbols){0};
	symbols->kallsyms_pause_ns = MISSED_PAUSE_MIN_NS;
	read_kernel_build_id(symbols);
	int r = perf_maps_new(&symbols->perf_maps, err);
	if (r == 0)
		r = jitdumps_new(&symbols->jitdumps, err);
	if (r < 0)
		host_symbols_release(symbols);
	return r;
}

/* Core text of the cache, or everything. */
static int read_names(struct host_symbols *symbols, struct error *err)
{
	const char *directory = symbols->cache_directory;
	if (directory && kallsyms_load_core(directory, &symbols->kallsyms) == 0)
		return 0;
	int r = kallsyms_load(&symbols->kallsyms, err);
	if (r == 0 && directory)
		kallsyms_save_core(symbols->kallsyms, directory);
	return r;
}

static void *read_kernel(void *context)
{
	struct host_symbols *symbols = context;

	read_names(symbols, &symbols->reader_error);
	return NULL;
}

void host_symbols_read_ahead(struct host_symbols *symbols)
{
	if (!symbols->kallsyms_tried && !symbols->has_reader)
		symbols->has_reader = thread_start(&symbols->reader, "wick-kallsyms", read_kernel, symbols, NULL) == 0;
}

static void note_reading(struct host_symbols *symbols, int code, const struct error *why)
{
	if (code < 0)
		log_warn("kernel functions will not be symbolized: %s", why->message);
	symbols->kallsyms_read_ns = time_monotonic_ns();
	symbols->kallsyms_tried = true;
}

void host_symbols_await(struct host_symbols *symbols)
{
	if (!symbols->has_reader)
		return;
	pthread_join(symbols->reader, NULL);
	symbols->has_reader = false;
	note_reading(symbols, symbols->kallsyms ? 0 : -ENODATA, &symbols->reader_error);
}

void host_symbols_release(struct host_symbols *symbols)
{
	if (symbols->has_reader)
		pthread_join(symbols->reader, NULL);
	symbols->has_reader = false;
	symbols->kallsyms = kallsyms_free(symbols->kallsyms);
	symbols->perf_maps = perf_maps_free(symbols->perf_maps);
	symbols->jitdumps = jitdumps_free(symbols->jitdumps);
}

/* Modules tell when they change. BPF programs and trampolines do not: it shows when their code has no name. Reading takes tens
 * of ms of CPU, so it is done seldom, and more seldom when there is nothing new to read for it. */
void host_symbols_refresh(struct host_symbols *symbols)
{
	struct kallsyms *fresh = NULL;
	int64_t now_ns = time_monotonic_ns();
	host_symbols_await(symbols);
	if (!symbols->kallsyms)
		return;
	bool is_stale = kallsyms_is_stale(symbols->kallsyms);
	bool missed = symbols->kernel_missed && now_ns - symbols->kallsyms_read_ns >= symbols->kallsyms_pause_ns;
	if (!symbols->kernel_missed)
		symbols->kallsyms_pause_ns = MISSED_PAUSE_MIN_NS;
	if ((!is_stale && !missed) || kallsyms_load(&fresh, NULL) < 0)
		return;
	if (missed && symbols->kallsyms_pause_ns < MISSED_PAUSE_MAX_NS)
		symbols->kallsyms_pause_ns *= 2;
	symbols->kernel_missed = false;
	symbols->kallsyms_read_ns = now_ns;
	kallsyms_free(symbols->kallsyms);
	symbols->kallsyms = fresh;
}

/* Whether what is outside of core text is known now and was not before. */
static bool read_beyond_core(struct host_symbols *symbols)
{
	struct kallsyms *all = NULL;
	if (!kallsyms_is_core_only(symbols->kallsyms) || symbols->beyond_core_failed)
		return false;
	symbols->beyond_core_failed = kallsyms_load(&all, NULL) < 0;
	if (symbols->beyond_core_failed)
		return false;
	kallsyms_free(symbols->kallsyms);
	symbols->kallsyms = all;
	symbols->kallsyms_read_ns = time_monotonic_ns();
	return true;
}

/* Core text only: a module's place, a BPF program's or a trampoline's means nothing elsewhere. */
static void note_offset(const struct host_symbols *symbols, uint64_t address, struct agent_symbol *ret)
{
	uint64_t start, end;
	if (!symbols->server_names_kernel || !atomic_load_explicit(symbols->server_names_kernel, memory_order_relaxed) ||
	    !kallsyms_core(symbols->kallsyms, &start, &end) || address < start || address >= end)
		return;
	memcpy(ret->build_id, symbols->kernel_build_id, sizeof(ret->build_id));
	ret->offset = address - start;
	ret->text_bytes = end - start;
}

bool host_symbols_kernel(struct host_symbols *symbols, uint64_t address, struct agent_symbol *ret)
{
	const char *name, *module;
	struct error why = {0};
	host_symbols_await(symbols);
	if (!symbols->kallsyms_tried)
		note_reading(symbols, read_names(symbols, &why), &why);
	if (!symbols->kallsyms)
		return false;
	bool found = kallsyms_lookup(symbols->kallsyms, address, &name, &module, &ret->start);
	if (!found && address >> 63 && read_beyond_core(symbols))
		found = kallsyms_lookup(symbols->kallsyms, address, &name, &module, &ret->start);
	if (!found) {
		symbols->kernel_missed = true;
		return false;
	}
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	snprintf(ret->module, sizeof(ret->module), "%s", module);
	note_offset(symbols, address, ret);
	return true;
}

static void set_function(struct agent_symbol *symbol, const char *name, const char *module, const char *file, uint32_t line)
{
	snprintf(symbol->name, sizeof(symbol->name), "%s", name);
	snprintf(symbol->module, sizeof(symbol->module), "%s", module);
	snprintf(symbol->file, sizeof(symbol->file), "%s", file);
	symbol->line = line;
}

/* A jitdump says when, so it is asked first. */
bool host_symbols_jit(struct host_symbols *symbols, const struct agent_jit_address *address, struct agent_symbol *ret)
{
	if (address->jitdump_path) {
		struct jitdump_file file = {
			.pid = address->pid,
			.path = address->jitdump_path,
			.device = address->jitdump_device,
			.inode = address->jitdump_inode,
			.start = address->jitdump_start,
			.end = address->jitdump_end,
		};
		struct jit_function function;
		if (jitdumps_lookup(symbols->jitdumps, &file, address->address, address->time_ns, &function)) {
			set_function(ret, function.name, "[jitdump]", function.file ? function.file : "", function.line);
			ret->start = function.start;
			return true;
		}
	}
	struct perf_maps_process process = {
		.pid = address->pid,
		.namespace_pid = address->namespace_pid,
		.uid = address->uid,
		.started_ns = address->started_ns,
	};
	const char *name;
	if (!perf_maps_lookup(symbols->perf_maps, &process, address->address, &name, &ret->start))
		return false;
	set_function(ret, name, "[perf-map]", "", 0);
	return true;
}

void host_symbols_get_jit_stats(const struct host_symbols *symbols, struct jit_stats *ret)
{
	struct jit_stats dumps;
	perf_maps_get_stats(symbols->perf_maps, ret);
	jitdumps_get_stats(symbols->jitdumps, &dumps);
	ret->lookups += dumps.lookups;
	ret->hits += dumps.hits;
	ret->reads += dumps.reads;
	ret->bytes_read += dumps.bytes_read;
	ret->files += dumps.files;
	ret->memory_bytes += dumps.memory_bytes;
	for (size_t i = 0; i < JIT_PROBLEM_COUNT; i++)
		ret->problems[i] += dumps.problems[i];
}
