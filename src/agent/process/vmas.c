// SPDX-License-Identifier: Apache-2.0
/* Reads the snapshot programs' output. The programs and the kernel's type information, which is large, are in memory only
 * meanwhile. */
#include "agent/process/vmas.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "bpf/vmas.skel.h"

#define AGAINS_MAX 10000u

static int take_processes(void *context, const void *buffer, size_t len, size_t *ret_used)
{
	const struct vmas_reader *reader = context;
	size_t at = 0;
	int r = 0;

	for (; r >= 0 && len - at >= sizeof(struct vma_process); at += sizeof(struct vma_process)) {
		struct vma_process process;
		memcpy(&process, (const char *)buffer + at, sizeof(process));
		process.comm[sizeof(process.comm) - 1] = 0;
		r = reader->on_process(reader->context, &process);
	}
	*ret_used = at;
	return r < 0 ? r : 0;
}

static int take_mapping(const struct vmas_reader *reader, const struct vma_mapping *mapping, const char *path)
{
	struct event event = {
		.kind = EVENT_MAP,
		.pid = (pid_t)mapping->pid,
		.tid = (pid_t)mapping->pid,
		.name = mapping->flags & VMA_VDSO ? "[vdso]"
			: path[0]		  ? path
						  : "//anon",
		.start = mapping->start,
		.length = mapping->end - mapping->start,
		.offset = mapping->offset,
		.device = makedev(mapping->device >> 20, mapping->device & 0xfffff),
		.inode = mapping->inode,
	};
	return reader->on_mapping(reader->context, &event, mapping->flags);
}

static int take_mappings(void *context, const void *buffer, size_t len, size_t *ret_used)
{
	const struct vmas_reader *reader = context;
	struct vma_mapping mapping; /* all but its path */
	size_t at = 0;
	int r = 0;

	while (r >= 0 && len - at >= VMA_FIXED_BYTES) {
		const char *record = (const char *)buffer + at;
		memcpy(&mapping, record, VMA_FIXED_BYTES);
		if (mapping.bytes <= VMA_FIXED_BYTES || mapping.bytes > sizeof(mapping))
			return -EBADMSG;
		if (mapping.bytes > len - at)
			break;
		if (record[mapping.bytes - 1] || mapping.end <= mapping.start)
			return -EBADMSG;
		r = take_mapping(reader, &mapping, record + VMA_FIXED_BYTES);
		at += mapping.bytes;
	}
	*ret_used = at;
	return r < 0 ? r : 0;
}

int iterator_read(int fd, const char *of, iterator_take *take, void *context, uint8_t buffer[static ITERATOR_BYTES],
		  struct error *err)
{
	size_t len = 0, used = 0;
	unsigned agains = 0;

	for (;;) {
		ssize_t n = read(fd, buffer + len, ITERATOR_BYTES - len);
		/* The kernel gives up the CPU after a million mappings of no interest. */
		if (n < 0 && (errno == EINTR || (errno == EAGAIN && ++agains < AGAINS_MAX)))
			continue;
		if (n < 0)
			return error_set_errno(err, -errno, "cannot read the kernel's list of %s", of);
		if (n == 0)
			return len ? error_set(err, -EBADMSG, "the kernel's list of %s is truncated", of) : 0;
		len += (size_t)n;
		int r = take(context, buffer, len, &used);
		if (r == -EBADMSG)
			return error_set(err, r, "the kernel's list of %s is damaged", of);
		if (r < 0)
			return r;
		len -= used;
		memmove(buffer, buffer + used, len);
	}
}

static int run_iterator(const struct bpf_program *program, const struct vmas_reader *reader, iterator_take *take,
			struct error *err)
{
	struct bpf_link *link = bpf_program__attach_iter(program, NULL);
	if (!link)
		return error_set_errno(err, -errno, "cannot list processes by a BPF iterator");
	_cleanup_(fd_closep) int fd = bpf_iter_create(bpf_link__fd(link));
	_cleanup_(mem_freep) uint8_t *buffer = mem_alloc(ITERATOR_BYTES);
	int r = fd < 0	  ? error_set_errno(err, fd, "cannot start a BPF iterator")
		: !buffer ? error_nomem(err)
			  : iterator_read(fd, "processes", take, (void *)reader, buffer, err);
	bpf_link__destroy(link);
	return r;
}

int iterator_say_nothing(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return 0;
}

int vmas_read(const struct vmas_reader *reader, struct error *err)
{
	libbpf_print_fn_t print = libbpf_set_print(iterator_say_nothing);
	struct vmas_bpf *programs = vmas_bpf__open_and_load();
	int r = programs ? 0 : -errno;
	libbpf_set_print(print);
	if (!programs)
		return error_set_errno(err, r < 0 ? r : -EIO, "cannot load the BPF programs that list processes");
	r = run_iterator(programs->progs.list_processes, reader, take_processes, err);
	if (r == 0)
		r = run_iterator(programs->progs.list_mappings, reader, take_mappings, err);
	vmas_bpf__destroy(programs);
	return r;
}
