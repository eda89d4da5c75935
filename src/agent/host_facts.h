/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host is: its CPU, kernel, distribution, as labels of the host (docs/labels.md). Read from files of the kernel and
 * of the distribution; nothing is asked of a network.
 */
#ifndef WICK_AGENT_HOST_FACTS_H
#define WICK_AGENT_HOST_FACTS_H

#include <stddef.h>

#include "profile/labels.h"
#include "profile/profile.h"

#define HOST_FACTS_MAX 16
struct host_fact {
	const char *key; /* an OpenTelemetry attribute, or like one */
	char value[256];
};
struct host_facts {
	struct host_fact items[HOST_FACTS_MAX];
	size_t count;
};

/* root: "", or a directory with a proc, sys and etc of its own (tests). What cannot be read is left out. */
void host_facts_read(const char *root, struct host_facts *ret);
/* Sets the profile's host_labels: `given` (NULL allowed), and the facts that it does not name. Not of a profile whose resource
 * has no host.name: nobody could say whose they are. */
int host_facts_add(const struct host_facts *facts, const struct labels *given, struct profile *profile, struct error *err);

#endif
