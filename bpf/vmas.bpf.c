// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The processes of this machine and their executable mappings, for the agent's start: iterators over all tasks and over all
 * their mappings, whose output a read() of their descriptor gives (layout: vmas.h). Reading /proc instead takes three files a
 * process, made into text and back.
 *
 * Needs Linux 5.12 (task_vma). Threads other than the first of their group are left out: they have its mappings.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/vmas.h"

#define VM_EXEC	      0x00000004ul
#define FMODE_BACKING (1u << 25) /* since Linux 6.5: the file that a file of an overlay stands for */
#define PAGE_SHIFT    12

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct signal_struct {
	int nr_threads;
};
struct mm_struct___vmas {
	struct {
		void *vdso;
	} context;
	struct file *exe_file;
};
struct vm_area_struct {
	unsigned long vm_start, vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct mm_struct___vmas *vm_mm;
	struct file *vm_file;
};
struct task_struct___vmas {
	struct task_struct___vmas *real_parent;
	struct signal_struct *signal;
	int tgid, exit_state;
	char comm[16];
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

#pragma clang attribute pop

/* Only one reader at a time: the agent's start. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vma_mapping);
} scratch SEC(".maps");

SEC("iter/task")
int list_processes(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct vma_process record = {.time_ns = bpf_ktime_get_ns()};

	if (!task || task->pid != task->tgid)
		return 0;
	struct task_struct___vmas *more = (void *)task;
	record.pid = (__u32)task->tgid;
	record.parent = (__u32)BPF_CORE_READ(more, real_parent, tgid);
	record.threads = (__u32)BPF_CORE_READ(more, signal, nr_threads);
	if (record.threads <= 1 && BPF_CORE_READ(more, exit_state)) /* waits for its parent's wait() only */
		return 0;
	bpf_core_read(&record.comm, sizeof(record.comm), &more->comm);
	bpf_seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}

SEC("iter/task_vma")
int list_mappings(struct bpf_iter__task_vma *context)
{
	struct task_struct *task = context->task;
	struct vm_area_struct *vma = context->vma;
	__u32 zero = 0;
	long len = 1;

	if (!task || !vma || task->pid != task->tgid || !(vma->vm_flags & VM_EXEC))
		return 0;
	struct vma_mapping *record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record)
		return 0;
	struct file *file = vma->vm_file;
	record->pid = (__u32)task->tgid;
	record->start = vma->vm_start;
	record->end = vma->vm_end;
	record->offset = 0;
	record->inode = 0;
	record->device = 0;
	record->flags = 0;
	record->path[0] = 0;
	if (file) {
		record->offset = (__u64)vma->vm_pgoff << PAGE_SHIFT;
		record->inode = BPF_CORE_READ(file, f_inode, i_ino);
		record->device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
		if (BPF_CORE_READ(file, f_mode) & FMODE_BACKING)
			record->flags |= VMA_REDIRECTED;
		if (BPF_CORE_READ(vma, vm_mm, exe_file) == file)
			record->flags |= VMA_EXECUTABLE;
		len = bpf_d_path(&file->f_path, record->path, sizeof(record->path));
		if (len <= 0 || len > VMA_PATH_MAX) { /* a path that is too long has no name in the maps file either */
			len = 1;
			record->path[0] = 0;
		}
	} else if ((__u64)BPF_CORE_READ(vma, vm_mm, context.vdso) == vma->vm_start) {
		record->flags |= VMA_VDSO;
	}
	record->bytes = VMA_FIXED_BYTES + (__u32)len;
	bpf_seq_write(context->meta->seq, record, VMA_FIXED_BYTES + ((__u32)len & (2 * VMA_PATH_MAX - 1)));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
