#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The functions that sample the heap stand before whichever allocator there is: one that is preloaded into the server, and those of
# static programs, of glibc and musl.
. tests/lib.inc
if nm "$WICK" 2>/dev/null | grep -q '__asan_init'; then
	skip "sampling the heap before other allocators" "AddressSanitizer has an allocator of its own"
	finish
fi

# ---- preloaded ----
# An allocator that makes most of its functions of malloc(), by the name that everybody calls. Its memory is marked, and it ends the
# process if it is to free what it has not made.
cat >"$work/marking.c" <<'C'
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *__libc_malloc(size_t size);
void __libc_free(void *ptr);
struct mark { uint64_t magic, size; };
#define MAGIC 0x6d61726b6d61726bull
static unsigned long made;
void *memalign(size_t alignment, size_t size);
void *malloc(size_t size)
{
	if (size > SIZE_MAX - 64 - sizeof(struct mark))
		return errno = ENOMEM, NULL;
	struct mark *mark = __libc_malloc(size + sizeof(*mark));
	if (!mark)
		return NULL;
	*mark = (struct mark){MAGIC, size};
	__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
	return mark + 1;
}
void free(void *ptr)
{
	struct mark *mark = (struct mark *)ptr - 1;
	if (!ptr)
		return;
	/* Aligned ones are not given back. */
	if (mark->magic == MAGIC + 1)
		return;
	if (mark->magic != MAGIC)
		abort();
	mark->magic = 0;
	__libc_free(mark);
}
void *calloc(size_t count, size_t size)
{
	void *ptr = size && count > SIZE_MAX / size ? NULL : malloc(count * size);
	return ptr ? memset(ptr, 0, count * size) : NULL;
}
void *realloc(void *old, size_t size)
{
	if (!old)
		return malloc(size);
	struct mark *mark = (struct mark *)old - 1;
	void *ptr = malloc(size);
	if (!ptr)
		return NULL;
	memcpy(ptr, old, mark->size < size ? mark->size : size);
	free(old);
	return ptr;
}
void *memalign(size_t alignment, size_t size)
{
	char *raw = malloc(size + alignment + sizeof(struct mark));
	if (!raw)
		return NULL;
	char *ptr = (char *)(((uintptr_t)raw + sizeof(struct mark) + alignment - 1) & ~(uintptr_t)(alignment - 1));
	((struct mark *)ptr)[-1] = (struct mark){MAGIC + 1, size};
	return ptr;
}
void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}
int posix_memalign(void **ret, size_t alignment, size_t size)
{
	void *ptr = memalign(alignment, size);
	if (ptr)
		*ret = ptr;
	return ptr ? 0 : ENOMEM;
}
__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("MARKING_REPORT");
	FILE *file = path ? fopen(path, "w") : NULL;
	if (file) {
		fprintf(file, "%lu\n", made);
		fclose(file);
	}
}
C
check "an allocator is built" gcc -O2 -fno-builtin -shared -fPIC -o "$work/marking.so" "$work/marking.c"
cat >"$work/wick" <<SH
#!/bin/sh
MARKING_REPORT=$work/report LD_PRELOAD=$work/marking.so exec $WICK "\$@"
SH
chmod +x "$work/wick"
plain=$WICK
WICK=$work/wick
start_server --user root --no-sandbox # the allocator writes its report where the server may not
WICK=$plain
node -e 'process.stdout.write(Array.from({ length: 20000 }, (_, i) => "main;f" + (i % 100) + ";g" + i + " " + (i + 1) + "\n").join(""))' >"$work/in.folded"
converts() {
	for _ in 1 2 3 4 5; do
		curl -sf -o "$work/svg" --data-binary @"$work/in.folded" "$url/api/v1/convert?to=svg" || return
	done
}
check "a server with it works" converts
check "its allocations are sampled" sh -c 'curl -sf -o "$1/heap.pb.gz" "$0/debug/pprof/heap" && "$WICK" report top --sample-index alloc_space "$1/heap.pb.gz" >"$1/top" && grep -q "[1-9][0-9.]* *[kMG]*B" "$1/top"' "$url" "$work"
kill "$server_pid"
wait "$server_pid"
check "it ends well" test $? -eq 0
check "and has asked the preloaded allocator" sh -c 'cat "$0/report" && test "$(cat "$0/report")" -gt 1000' "$work"

# ---- static ----
cat >"$work/static.c" <<'C'
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "control/heap_sampler.h"
#ifndef __GLIBC__
#include <link.h>
/* Debian's libgcc is made for glibc, and asks it for the tables that stacks are walked by. A program has one object if it is static. */
struct found { unsigned long long flags; void *start, *end, *map, *tables; };
static int find_tables(struct dl_phdr_info *info, size_t size, void *context)
{
	struct found *found = context;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			found->tables = (char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	found->start = NULL;
	found->end = (void *)UINTPTR_MAX;
	return 1;
}
int _dl_find_object(void *address, struct found *found)
{
	*found = (struct found){0};
	dl_iterate_phdr(find_tables, found);
	return found->tables ? 0 : -1;
}
#endif
#define COUNT 8000
#define SIZE  500
static void *kept[3 * COUNT];
static unsigned long long with_callers; /* functions of musl have no tables: what they allocate has no callers */
static struct heap_sums sums(void)
{
	struct heap_sums all = {0};
	struct heap_stack stack;
	with_callers = 0;
	for (unsigned i = 0; i < HEAP_STACKS; i++)
		if (heap_sampler_read(i, &stack)) {
			if (stack.depth >= 2)
				with_callers += stack.sums.allocated_objects;
			all.allocated_objects += stack.sums.allocated_objects;
			all.freed_objects += stack.sums.freed_objects;
		}
	return all;
}
__attribute__((noinline)) static void allocate(const char *text)
{
	for (int i = 0; i < COUNT; i++) {
		kept[3 * i] = realloc(malloc(SIZE / 2), SIZE / 2);
		kept[3 * i + 1] = calloc(1, SIZE);
		kept[3 * i + 2] = strdup(text);
	}
}
int main(void)
{
	char text[SIZE];
	heap_sampler_start(1024);
	void *volatile first = malloc(HEAP_IDLE_BYTES);
	free(first);
	memset(text, 'x', SIZE - 1);
	text[SIZE - 1] = '\0';
	struct heap_sums before = sums();
	allocate(text);
	struct heap_sums after = sums();
	double estimate = (double)(after.allocated_objects - before.allocated_objects);
	/* The variance of an estimate of n by samples of probability p is n (1 - p) / p. */
	double half = -expm1(-SIZE / 2 / 1024.0), whole = -expm1(-SIZE / 1024.0);
	double error = sqrt(2 * COUNT * ((1 - half) / half + (1 - whole) / whole));
	for (int i = 0; i < 3 * COUNT; i++)
		free(kept[i]);
	struct heap_sums freed = sums();
	printf("%d: %.0f, standard error %.0f, freed %llu, with callers %llu\n", 4 * COUNT, estimate, error,
	       (unsigned long long)(freed.freed_objects - before.freed_objects), with_callers);
	double left = (double)(freed.allocated_objects - freed.freed_objects);
	return fabs(estimate - 4 * COUNT) > 5 * error + 100 || left > 200 || (double)with_callers < estimate / 2;
}
C
is_sampled_static() { # COMPILER
	"$1" -static -O2 -g -std=gnu17 -fno-builtin -D_GNU_SOURCE -DWICK_STATIC -Isrc -o "$work/static-$1" "$work/static.c" \
		src/control/heap_hooks.c src/control/heap_sampler.c -lm \
		-Wl,--eh-frame-hdr,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=memalign,--wrap=aligned_alloc,--wrap=posix_memalign,--wrap=free &&
		"$work/static-$1"
}
check "a static program of glibc is sampled" is_sampled_static gcc
if uses musl-gcc; then
	check "and one of musl" is_sampled_static musl-gcc
else
	skip "a static program of musl" "$missing"
fi
finish
