/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the BPF programs read, written by hand: members are found by name through BTF when the program is
 * loaded (CO-RE), so their place and everything between them does not matter. Constants are those of the stable user ABI.
 */
#ifndef WICK_BPF_KERNEL_H
#define WICK_BPF_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_ANY = 0,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_F_USER_STACK = 1 << 8,
	BPF_RB_FORCE_WAKEUP = 1 << 1,
};

/* The registers as a perf_event program sees them: user ABI, not CO-RE. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, eflags, rsp,
		ss;
};
#define REGS_IP(regs)	   ((regs)->rip)
#define REGS_IN_EXEC(regs) ((regs)->orig_rax == 59 || (regs)->orig_rax == 322) /* execve, execveat */
#define REGS_IS_32(cs)	   ((cs) == 0x23)				       /* __USER32_CS */
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31], sp, pc, pstate;
};
#define REGS_IP(regs) ((regs)->pc)
#else
#error "the sampling program knows x86-64 and arm64 only"
#endif
struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};
struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* longer; see bpf/cgroup.h */
	struct cgroup *dfl_cgrp;
};
struct super_block {
	__u32 s_dev;
};
struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};
struct path {
	void *dentry;
};
struct file {
	__u32 f_mode;
	struct inode *f_inode;
	struct path f_path;
};
struct mm_struct {
	unsigned long start_stack, exec_vm;
	struct file *exe_file;
};
struct thread_struct {
	unsigned long fsbase; /* x86 */
};
struct task_struct {
	unsigned int flags, __state;
	struct mm_struct *mm;
	int pid, tgid;
	__u64 start_time;
	struct css_set *cgroups;
	struct thread_struct thread;
};

#pragma clang attribute pop

enum cgroup_subsys_id {
	memory_cgrp_id = 0, /* the number differs by kernel configuration; CO-RE puts in the right one */
};

#define TASK_RUNNING 0x0000u
#define TASK_DEAD    0x0080u
#define PF_KTHREAD   0x00200000u
#define PF_IO_WORKER 0x00000010u /* io_uring's threads have a user's memory but no user's registers */

#endif
