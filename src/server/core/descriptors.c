/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server does with few file descriptors. The store opens files for as long as it reads or writes them, and must never
 * fail to do so for the sake of a client: so connections leave it some, which is what a merge of blocks takes (their number
 * follows from the limit, too: compact.c) and the queries that run beside it. Within a small limit that is half of them.
 */
#include "base/descriptors.h"
#include "base/log.h"
#include "server/core/server_int.h"

#define RESERVED_LEAST 24
#define RESERVED_MOST  64
#define FEW	       512 /* what is less is worth a line at the start */

unsigned descriptors_reserved(void)
{
	uint64_t part = descriptors_max() / 4;
	return part < RESERVED_LEAST ? RESERVED_LEAST : part > RESERVED_MOST ? RESERVED_MOST : (unsigned)part;
}

void descriptors_note(void *context)
{
	struct server *server = context;
	if (atomic_exchange(&server->descriptors_logged, true))
		return;
	log_warn("the limit of %llu file descriptors, of which %llu are open, leaves room for few connections: idle ones are "
		 "closed for others; raise it (ulimit -n, LimitNOFILE= in a unit of systemd)",
		 (unsigned long long)descriptors_max(), (unsigned long long)descriptors_open());
}

void descriptors_check(struct server *server)
{
	if (descriptors_max() < FEW)
		descriptors_note(server);
}
