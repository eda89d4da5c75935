/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: what the path of a control group says about where a process runs: its container and the container's
 * runtime, its Kubernetes pod, its systemd unit and slice.
 *
 * Only the path is looked at. No runtime is asked, nothing is opened: an answer costs one or two microseconds, is there for a
 * process that has ended as well, and is the same for versions 1 and 2 and their mixture.
 */
#ifndef WICK_AGENT_PROCESS_CONTEXT_H
#define WICK_AGENT_PROCESS_CONTEXT_H

#define CONTEXT_UNIT_MAX 256 /* with the NUL; systemd's own limit */

/* "" where the path does not say. */
struct context {
	char container_id[80];		       /* 64 hex digits; a task of ECS: 32, '-', digits */
	char container_name[CONTEXT_UNIT_MAX]; /* where the path has a name instead of an id: LXC, systemd-nspawn */
	char container_runtime[16];	       /* "docker", "containerd", "cri-o", "podman", "lxc", "systemd-nspawn" */
	char pod_uid[40];		       /* with dashes; of a static pod: 32 hex digits */
	char unit[CONTEXT_UNIT_MAX], slice[CONTEXT_UNIT_MAX];		/* of the innermost service manager of a system */
	char user_unit[CONTEXT_UNIT_MAX], user_slice[CONTEXT_UNIT_MAX]; /* of the user's service manager below it */
};

/* path: as cgroups_path() gives it. Anything may stand in it. */
void context_of_cgroup(const char *path, struct context *ret);

#endif
