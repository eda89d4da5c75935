/* SPDX-License-Identifier: Apache-2.0 */
/* Names that only this host can give, and only now: kernel and JIT addresses. Between the agent's sink and src/symbol. */
#ifndef WICK_DAEMON_HOST_SYMBOLS_H
#define WICK_DAEMON_HOST_SYMBOLS_H

#include <stdatomic.h>

#include "agent/agent.h"
#include "symbol/symbol.h"

struct host_symbols {
	struct kallsyms *kallsyms; /* read when first asked for: it takes tens of ms, which sampling need not wait for */
	bool kallsyms_tried;
	/* Code was seen that has no name: a BPF program or a trampoline that came later. */
	bool kernel_missed;
	int64_t kallsyms_read_ns, kallsyms_pause_ns;
	char kernel_build_id[BUILD_ID_HEX_MAX]; /* "" = unknown */
	const atomic_bool *server_names_kernel; /* the server has the names of that build-id; NULL = it never has */
	struct perf_maps *perf_maps;
	struct jitdumps *jitdumps;
};
int host_symbols_init(struct host_symbols *symbols, struct error *err);
void host_symbols_release(struct host_symbols *symbols);
void host_symbols_refresh(struct host_symbols *symbols); /* reads kallsyms again when there is other code */
/* For struct agent_sink. Without readable kallsyms kernel frames stay addresses; a warning is logged then. */
bool host_symbols_kernel(struct host_symbols *symbols, uint64_t address, struct agent_symbol *ret);
bool host_symbols_jit(struct host_symbols *symbols, const struct agent_jit_address *address, struct agent_symbol *ret);
/* Of perf maps and jitdumps together. */
void host_symbols_get_jit_stats(const struct host_symbols *symbols, struct jit_stats *ret);

#endif
