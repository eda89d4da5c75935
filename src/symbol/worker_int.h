/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol: the parent's side of a worker, for tests and fuzzing. */
#ifndef WICK_SYMBOL_WORKER_INT_H
#define WICK_SYMBOL_WORKER_INT_H

#include "symbol/worker.h"
#include "symbol/worker_protocol.h"

enum worker_ending {
	WORKER_ENDED_DONE,
	WORKER_ENDED_FAILED, /* it says why */
	WORKER_ENDED_BROKE,
	WORKER_ENDED_SILENT, /* it is gone without a word */
	WORKER_ENDED_NONSENSE,
	WORKER_ENDED_REQUESTS, /* it asked for too many files */
	WORKER_ENDED_LATE,
	WORKER_ENDED_CANCELED,
};
struct worker_conversation {
	int socket;
	struct symbol_worker_options limits; /* no zeros */
	symbol_open_file open_file;
	void *context;
	/* What came of it. */
	enum worker_ending ending;
	union worker_message last; /* DONE, FAILED, BROKE: checked, text cleaned */
	uint64_t requests;
};
/* Answers a worker until it has an answer itself, or will not have one. Fails in no other way than `ending`. */
void worker_converse(struct worker_conversation *conversation);

#endif
