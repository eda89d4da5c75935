// SPDX-License-Identifier: Apache-2.0
/*
 * Giving up what is not needed any more. Capabilities belong to threads, and the C library's setuid-like calls, but not
 * capset(), are spread over all threads; so this must be called while there is one, and looks whether it was.
 */
#include "agent/privileges.h"

#include <dirent.h>
#include <errno.h>
#include <sys/prctl.h>

#include "agent/agent.h"
#include "agent/proc.h"

/* <sys/capability.h> of Debian 12 knows them all; the kernel may know fewer or more. */
const cap_value_t agent_capabilities[AGENT_CAPABILITY_COUNT] = {
	CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG, CAP_CHECKPOINT_RESTORE,
};

static bool is_kept(cap_value_t capability)
{
	for (size_t i = 0; i < AGENT_CAPABILITY_COUNT; i++) {
		if (agent_capabilities[i] == capability)
			return true;
	}
	return false;
}

static unsigned count_threads(void)
{
	_cleanup_(dir_closep) DIR *threads = opendir("/proc/self/task");
	unsigned count = 0;

	while (proc_next(threads) > 0)
		count++;
	return count;
}

/* What must go out of the bounding set needs CAP_SETPCAP; without it nothing can be gained by exec that the file does not give.
 */
static void drop_bounding(void)
{
	for (cap_value_t capability = 0; capability <= CAP_LAST_CAP; capability++) {
		if (!is_kept(capability))
			prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	}
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

/* Permitted and effective: those wanted that are there. */
static int keep_only(cap_t now, cap_t wanted)
{
	for (size_t i = 0; i < AGENT_CAPABILITY_COUNT; i++) {
		cap_value_t capability = agent_capabilities[i];
		cap_flag_value_t there = CAP_CLEAR;
		if (cap_get_flag(now, capability, CAP_PERMITTED, &there) < 0 || there != CAP_SET)
			continue;
		if (cap_set_flag(wanted, CAP_PERMITTED, 1, &capability, CAP_SET) < 0 ||
		    cap_set_flag(wanted, CAP_EFFECTIVE, 1, &capability, CAP_SET) < 0)
			return -errno;
	}
	return cap_set_proc(wanted) < 0 ? -errno : 0;
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
	cap_t now = cap_get_proc(), wanted = cap_init();
	int r = now && wanted ? 0 : -ENOMEM;
	if (r == 0) {
		drop_bounding();
		r = keep_only(now, wanted);
	}
	cap_free(now);
	cap_free(wanted);
	return r < 0 ? error_set_errno(err, r, "cannot drop privileges") : 0;
}
