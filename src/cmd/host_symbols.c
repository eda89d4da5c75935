/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/host_symbols.h"

#include <stdio.h>

#include "base/log.h"

int host_symbols_init(struct host_symbols *symbols, struct error *err)
{
	*symbols = (struct host_symbols){0};
	int r = perf_maps_new(&symbols->perf_maps, err);
	if (r == 0)
		r = jitdumps_new(&symbols->jitdumps, err);
	if (r)
		host_symbols_release(symbols);
	return r;
}

void host_symbols_release(struct host_symbols *symbols)
{
	symbols->kallsyms = kallsyms_free(symbols->kallsyms);
	symbols->perf_maps = perf_maps_free(symbols->perf_maps);
	symbols->jitdumps = jitdumps_free(symbols->jitdumps);
}

void host_symbols_refresh(struct host_symbols *symbols)
{
	struct kallsyms *fresh = NULL;
	if (!symbols->kallsyms || !kallsyms_is_stale(symbols->kallsyms) || kallsyms_load(&fresh, NULL))
		return;
	kallsyms_free(symbols->kallsyms);
	symbols->kallsyms = fresh;
}

bool host_symbols_kernel(struct host_symbols *symbols, uint64_t address, struct agent_symbol *ret)
{
	const char *name, *module;
	struct error why = {0};
	if (!symbols->kallsyms_tried && kallsyms_load(&symbols->kallsyms, &why))
		log_warn("kernel functions will have no names: %s", why.message);
	symbols->kallsyms_tried = true;
	if (!symbols->kallsyms || !kallsyms_lookup(symbols->kallsyms, address, &name, &module, &ret->start))
		return false;
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	snprintf(ret->module, sizeof(ret->module), "%s", module);
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
