/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The control group of a task: of version 2, or with `cgroup_v1`, which the agent sets, of version 1's memory controller. */
#ifndef WICK_BPF_CGROUP_H
#define WICK_BPF_CGROUP_H

#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

const volatile bool cgroup_v1 = false;

/* css_set.subsys has as many members as the kernel has controllers; the index is known only at load time, so the member is
 * reached by arithmetic on its address. */
static __always_inline __u64 task_cgroup(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *state = 0;

	if (!cgroup_v1)
		return BPF_CORE_READ(set, dfl_cgrp, kn, id);
	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id)) {
		__u32 index = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
		bpf_probe_read_kernel(&state, sizeof(state),
				      (void *)set + bpf_core_field_offset(set->subsys) + index * sizeof(void *));
	}
	return BPF_CORE_READ(state, cgroup, kn, id);
}

#endif
