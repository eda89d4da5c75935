/* SPDX-License-Identifier: Apache-2.0 */
/* Names that only this host can give, and only now: kernel and JIT addresses. Between the agent's sink and src/symbol. */
#ifndef WICK_DAEMON_HOST_SYMBOLS_H
#define WICK_DAEMON_HOST_SYMBOLS_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/agent.h"
#include "symbol/symbol.h"

struct host_symbols {
	struct kallsyms *kallsyms; /* read when first asked for, if not ahead of that: it takes tens of ms */
	const char
		*cache_directory; /* of core text (kallsyms_load_core()); NULL, as after init = none. To be set before that */
	bool kallsyms_tried, beyond_core_failed;
	bool has_reader;
	pthread_t reader;
	struct error reader_error;
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
/* Begins to read the kernel's names in a thread: samples would wait for them where they are first asked for. Where none can be
 * started they are read then. `symbols` stays where it is from here on; the other functions wait for the thread. */
void host_symbols_read_ahead(struct host_symbols *symbols);
void host_symbols_await(struct host_symbols *symbols);	 /* until they have been read, if that was begun */
void host_symbols_refresh(struct host_symbols *symbols); /* reads kallsyms again when there is other code */
/* For struct agent_sink. Without readable kallsyms kernel frames stay addresses; a warning is logged then. */
bool host_symbols_kernel(struct host_symbols *symbols, uint64_t address, struct agent_symbol *ret);
bool host_symbols_jit(struct host_symbols *symbols, const struct agent_jit_address *address, struct agent_symbol *ret);
/* Of perf maps and jitdumps together. */
void host_symbols_get_jit_stats(const struct host_symbols *symbols, struct jit_stats *ret);

#endif
