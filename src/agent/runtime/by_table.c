// SPDX-License-Identifier: Apache-2.0
/*
 * Functions whose place is looked up in a table that is read with their name. An item of names has the name, the file, and the
 * table; the first line, and a number that the runtime knows.
 */
#include <errno.h>

#include "agent/runtime/runtimes.h"
#include "base/alloc.h"

static int read_item(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		     runtime_read_tabled *read, uint64_t key, uint64_t object, uint64_t data)
{
	struct runtime_tabled found = {0};
	struct runtime_memory memory;

	runtime_memory_of(process, &memory);
	int r = read(file, process->maps->runtimes[file->type->class].bias, &memory, RUNTIME_OBJECT(object),
		     RUNTIME_CHECK(data), &found);
	_cleanup_(mem_freep) uint8_t *table = found.table;
	if (r == -ENOMEM)
		return r;
	runtime_count(runtimes, file->type->kind, r);
	if (r < 0)
		found.function = (struct runtime_function){0};
	if (r == 0 && !found.function.name[0])
		found.function.name[0] = '?';
	return runtime_names_add(&runtimes->names, key,
				 &(struct runtime_name_item){
					 .texts = {bytes_of_string(found.function.name),
						   bytes_of_string(found.function.file),
						   {table, found.table_bytes}},
					 .numbers = {found.function.first_line, found.number},
				 });
}

int runtime_find_tabled(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
			runtime_read_tabled *read, uint64_t object, uint64_t data, struct runtime_name_item *ret)
{
	uint64_t key = runtime_key_of(runtimes, process, object, data, 0);

	int r = runtime_find_name(runtimes, process, file->type->kind, key, ret);
	if (r == 0) {
		r = read_item(runtimes, process, file, read, key, object, data);
		if (r == 0)
			r = runtime_names_find(&runtimes->names, key, ret);
	}
	return r < 0 && r != -ENOMEM ? 0 : r;
}
