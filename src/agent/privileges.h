/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities that the agent needs to run. */
#ifndef WICK_AGENT_PRIVILEGES_H
#define WICK_AGENT_PRIVILEGES_H

#include <sys/capability.h>

#define AGENT_CAPABILITY_COUNT 6
extern const cap_value_t agent_capabilities[AGENT_CAPABILITY_COUNT];

#endif
