/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/host_symbols.h"

#include <stdio.h>

int host_symbols_init(struct host_symbols *symbols, char *ret_warning, size_t warning_size, struct error *err)
{
	struct error why = {0};
	*symbols = (struct host_symbols){0};
	ret_warning[0] = 0;
	if (kallsyms_load(&symbols->kallsyms, &why))
		snprintf(ret_warning, warning_size, "kernel functions will have no names: %s", why.message);
	int r = perf_maps_new(&symbols->perf_maps, err);
	if (r)
		host_symbols_release(symbols);
	return r;
}

void host_symbols_release(struct host_symbols *symbols)
{
	symbols->kallsyms = kallsyms_free(symbols->kallsyms);
	symbols->perf_maps = perf_maps_free(symbols->perf_maps);
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
	if (!symbols->kallsyms || !kallsyms_lookup(symbols->kallsyms, address, &name, &module, &ret->start))
		return false;
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	snprintf(ret->module, sizeof(ret->module), "%s", module);
	return true;
}

bool host_symbols_jit(struct host_symbols *symbols, pid_t pid, pid_t namespace_pid, uint64_t address, struct agent_symbol *ret)
{
	const char *name;
	if (!perf_maps_lookup(symbols->perf_maps, pid, namespace_pid, address, &name, &ret->start))
		return false;
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	snprintf(ret->module, sizeof(ret->module), "[perf-map]");
	return true;
}
