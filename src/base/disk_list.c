// SPDX-License-Identifier: Apache-2.0
#include "base/disk_list.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/order.h"

int disk_list_add(struct disk_list *list, const char *name, uint64_t bytes, int64_t used_ns)
{
	char *copy = mem_strdup(name);
	if (!copy || array_reserve(&list->files, &list->capacity, list->count + 1, SIZE_MAX) < 0) {
		mem_free(copy);
		return -ENOMEM;
	}
	list->files[list->count++] = (struct disk_file){used_ns, bytes, copy};
	list->bytes += bytes;
	return 0;
}

void disk_list_release(struct disk_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		mem_free(list->files[i].name);
	mem_free(list->files);
	*list = (struct disk_list){0};
}

static int compare_used(const void *left, const void *right)
{
	const struct disk_file *a = left, *b = right;
	return ORDER(a->used_ns, b->used_ns);
}

size_t disk_list_trim(struct disk_list *list, uint64_t wanted, bool (*remove)(void *context, const char *name), void *context)
{
	size_t removed = 0;
	if (list->bytes > wanted && list->count > 1)
		qsort(list->files, list->count, sizeof(*list->files), compare_used);
	for (size_t i = 0; i < list->count && list->bytes > wanted; i++) {
		if (!remove(context, list->files[i].name))
			continue;
		list->bytes -= list->files[i].bytes;
		removed++;
	}
	return removed;
}
