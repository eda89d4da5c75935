/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the snapshot programs (vmas.bpf.c) write and the agent reads: first, from the iterator of tasks, a record a process;
 * then, from that of mappings, a record each executable mapping. Fixed-size types only.
 *
 * Both streams are read through one file descriptor each, in the machine's byte order, records back to back, never split over
 * the end of the stream. The programs keep no state from one record to the next, because the kernel calls them again for a
 * record that did not fit into its buffer.
 */
#ifndef WICK_BPF_VMAS_H
#define WICK_BPF_VMAS_H

#include "bpf/types.h"

struct vma_process {
	__u64 time_ns;	   /* CLOCK_MONOTONIC, before anything of the process was read */
	__u32 pid, parent; /* of thread groups, in the initial pid namespace */
	__u32 threads;
	__u32 reserved;
	char comm[16];
};

enum vma_flags {
	VMA_VDSO = 1,
	VMA_EXECUTABLE = 2, /* of the file that the process runs */
	VMA_REDIRECTED = 4, /* of a file below an overlay: path and inode are not those that the maps file shows */
};
#define VMA_PATH_MAX 4096
struct vma_mapping {
	__u32 bytes; /* of the whole record, path and its NUL included; not aligned */
	__u32 pid;
	__u64 start, end;
	__u64 offset; /* in the file */
	__u64 inode;
	__u32 device;		 /* major << 20 | minor, as inside the kernel */
	__u32 flags;		 /* enum vma_flags */
	char path[VMA_PATH_MAX]; /* as seen from the reader's root; "" for memory without a file */
};
#define VMA_FIXED_BYTES 48

#endif
