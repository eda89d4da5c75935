// SPDX-License-Identifier: Apache-2.0
/*
 * Giving up what is not needed any more. Capabilities belong to threads, and the C library's setuid-like calls, but not
 * capset(), are spread over all threads; so this must be called while there is one, and looks whether it was.
 */
#include "agent/privileges.h"

#include <dirent.h>
#include <errno.h>

#include "agent/agent.h"
#include "agent/proc.h"
#include "base/privilege/user.h"

/* <sys/capability.h> of Debian 12 knows them all; the kernel may know fewer or more. */
const cap_value_t agent_capabilities[AGENT_CAPABILITY_COUNT] = {
	CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG, CAP_CHECKPOINT_RESTORE,
};

static unsigned count_threads(void)
{
	_cleanup_(dir_closep) DIR *threads = opendir("/proc/self/task");
	unsigned count = 0;

	while (proc_next(threads) > 0)
		count++;
	return count;
}

int agent_drop_privileges(struct error *err)
{
	unsigned threads = count_threads();
	if (threads > 1)
		return error_set(
			err, -EBUSY,
			"cannot drop privileges: %u threads run already, and each keeps its own; drop them before starting "
			"threads",
			threads);
	return user_keep_capabilities(agent_capabilities, AGENT_CAPABILITY_COUNT, err);
}
