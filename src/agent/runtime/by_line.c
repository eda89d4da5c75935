// SPDX-License-Identifier: Apache-2.0
/*
 * Functions whose place is their line. An item of names has the name and the file; the first line. It is known by its object
 * and check, and once more by its check alone.
 *
 * What was gone when it was to be read, such as a closure that lives for a millisecond, is looked for again when it is sampled
 * again: programs make the same closure over and over, often in the same place, and once it is met there all like it are
 * known. Its item has no name, and when it was looked for last. RETRY_NS bounds how often that is.
 */
#include <errno.h>

#include "agent/runtime/runtimes.h"
#include "base/time.h"

#define RETRY_NS (NS_PER_S / 2)

struct lookup {
	struct runtimes *runtimes;
	const struct process *process;
	const struct runtime_file *file;
	uint64_t object, data;
	uint64_t key, check_key;
	bool is_again;
};

/* A time in units of RETRY_NS; never 0. */
static uint32_t time_unit(void)
{
	return (uint32_t)(time_monotonic_ns() / RETRY_NS) | 1u << 31;
}

static int add(const struct lookup *lookup, uint64_t key, const struct runtime_function *function)
{
	return runtime_names_add(&lookup->runtimes->names, key,
				 &(struct runtime_name_item){
					 .texts = {bytes_of_string(function->name), bytes_of_string(function->file)},
					 .numbers = {function->first_line},
				 });
}

/* 1, *item filled, if another one that has the check is known; it stands for this one from now on. */
static int find_copy(const struct lookup *lookup, struct runtime_name_item *item)
{
	struct runtime_names *names = &lookup->runtimes->names;

	int r = runtime_names_find(names, lookup->check_key, item);
	if (r > 0)
		r = runtime_names_add(names, lookup->key, item);
	return r < 0 ? r : runtime_names_find(names, lookup->key, item);
}

/* Fills *item. 1; 0 if it could not be kept; -ENOMEM. */
static int read_item(const struct lookup *lookup, runtime_read_named *read, struct runtime_name_item *item)
{
	struct runtime_names *names = &lookup->runtimes->names;
	struct runtime_function function = {0};
	struct runtime_memory memory;

	runtime_memory_of(lookup->process, &memory);
	int r = read(lookup->file, &memory, RUNTIME_OBJECT(lookup->object), RUNTIME_CHECK(lookup->data), &function);
	if (r == -ENOMEM)
		return r;
	bool is_lost = r < 0 && r != -EBADMSG;
	if (is_lost) {
		int found = find_copy(lookup, item);
		if (found != 0)
			return found;
	}
	if (is_lost && lookup->is_again) {
		runtime_names_mark(names, lookup->key, time_unit());
		return runtime_names_find(names, lookup->key, item);
	}
	runtime_count(lookup->runtimes, lookup->file->type->kind, r);
	if (r < 0)
		function = (struct runtime_function){0};
	else if (!function.name[0])
		function.name[0] = '?';
	if (r == 0 && runtime_names_find(names, lookup->check_key, item) == 0)
		r = add(lookup, lookup->check_key, &function);
	if (r != -ENOMEM)
		r = add(lookup, lookup->key, &function);
	if (is_lost && r == 0)
		runtime_names_mark(names, lookup->key, time_unit());
	return r < 0 ? r : runtime_names_find(names, lookup->key, item);
}

int runtime_name_by_line(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
			 runtime_read_named *read, uint64_t object, uint64_t data, struct runtime_name *ret)
{
	struct lookup lookup = {
		.runtimes = runtimes,
		.process = process,
		.file = file,
		.object = object,
		.data = data,
		.key = runtime_key_of(runtimes, process, object, data, 0),
		.check_key = runtime_key_of(runtimes, process, object & ~(RUNTIME_OBJECT(object)), data, 0),
	};
	struct runtime_name_item item;

	int r = runtime_find_name(runtimes, process, file->type->kind, lookup.key, &item);
	if (r > 0 && !item.texts[0].len && item.numbers[1] && item.numbers[1] != time_unit()) {
		lookup.is_again = true;
		r = runtime_may_read(runtimes, process, file->type->kind) ? 0 : r;
	}
	if (r == 0)
		r = read_item(&lookup, read, &item);
	if (r <= 0)
		return r == -ENOMEM ? r : 1;
	ret->name = (const char *)item.texts[0].data;
	ret->file = (const char *)item.texts[1].data;
	ret->first_line = item.numbers[0];
	ret->line = item.texts[1].len ? RUNTIME_PLACE(data) : 0;
	return 1;
}
