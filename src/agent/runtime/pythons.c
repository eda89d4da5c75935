// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/pythons.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/proc.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"

#define INTERPRETER_BYTES_MIN (512u * 1024) /* executable; the smallest one that was seen has 1.4 MiB */
#define FILE_NOT_LOOKED	      0u	    /* binary_file.python */
#define FILE_NONE	      1u
#define FILE_FIRST	      2u

struct python_name_item {
	uint32_t name, file, lines; /* texts; name 0 = could not be had */
	uint32_t first_line;
	enum python_line_format format;
};

/* ---- files ---- */

static int init_names(struct python_names *names)
{
	return intern_init(&names->texts, PYTHON_NAMES_BYTES_MAX);
}

static void release_names(struct python_names *names)
{
	map64_release(&names->by_key);
	intern_release(&names->texts);
	mem_free(names->items);
	*names = (struct python_names){0};
}

int pythons_init(struct pythons *pythons, struct binaries *binaries)
{
	*pythons = (struct pythons){.binaries = binaries, .key_seed = hash64_secret()};
	int r = init_names(&pythons->names[0]);
	if (r == 0)
		r = init_names(&pythons->names[1]);
	if (r < 0)
		pythons_release(pythons);
	return r;
}

void pythons_release(struct pythons *pythons)
{
	release_names(&pythons->names[0]);
	release_names(&pythons->names[1]);
	pythons->files = mem_free(pythons->files);
	pythons->file_count = pythons->file_capacity = 0;
}

static uint32_t keep_file(struct pythons *pythons, const struct python_file *file)
{
	for (size_t i = 0; i < pythons->file_count; i++) {
		if (memcmp(&pythons->files[i], file, sizeof(*file)) == 0)
			return FILE_FIRST + (uint32_t)i;
	}
	if (array_push(&pythons->files, &pythons->file_count, &pythons->file_capacity, PYTHON_BUILDS_MAX, *file) < 0)
		return FILE_NONE;
	return FILE_FIRST + (uint32_t)pythons->file_count - 1;
}

static uint32_t look_into(struct pythons *pythons, pid_t pid, const struct process_mapping *mapping)
{
	const struct binary *binary = binary_get(pythons->binaries, mapping->binary);
	char build_id[BUILD_ID_HEX_MAX];
	struct python_file *file = &(struct python_file){0};
	struct error why = {0};
	struct elf_file elf;

	_cleanup_(fd_closep) int fd = binary_open(binary, pid, mapping, build_id);
	if (fd < 0)
		return fd == -ENOEXEC ? FILE_NONE : FILE_NOT_LOOKED;
	if (elf_file_open(&elf, fd, binary->path, &why) < 0)
		return FILE_NONE;
	int r = python_recognize(&elf, &file->build, &why);
	elf_file_release(&elf);
	if (r == 0 || (r < 0 && r != -ENOTSUP && r != -EBADMSG))
		return FILE_NONE;
	file->is_known = r > 0;
	if (r < 0)
		snprintf(file->why, sizeof(file->why), "%.*s", (int)sizeof(file->why) - 1, why.message);
	return keep_file(pythons, file);
}

const struct python_file *pythons_look(struct pythons *pythons, pid_t pid, const struct process_mapping *mapping)
{
	struct binary_file *file = binary_file_get(pythons->binaries, mapping->file);

	if (mapping->end - mapping->start < INTERPRETER_BYTES_MIN || !mapping->file ||
	    binary_get(pythons->binaries, mapping->binary)->kind != BINARY_FILE)
		return NULL;
	if (file->python == FILE_NOT_LOOKED)
		file->python = (uint16_t)look_into(pythons, pid, mapping);
	return file->python >= FILE_FIRST ? &pythons->files[file->python - FILE_FIRST] : NULL;
}

bool pythons_placed(const struct pythons *pythons, const struct mapping_list *list, struct python_process *ret)
{
	if (!list || !list->python)
		return false;
	python_place(&pythons->files[list->python - FILE_FIRST].build, list->python_bias, ret);
	return true;
}

bool pythons_place(struct pythons *pythons, pid_t pid, struct mapping_list *list, struct python_process *ret)
{
	list->python = 0;
	for (size_t i = 0; i < list->count && !list->python && !pythons->is_off; i++) {
		const struct process_mapping *mapping = &list->items[i];
		const struct python_file *file = pythons_look(pythons, pid, mapping);
		if (!file || !file->is_known || file->build.loop_offset < mapping->offset ||
		    file->build.loop_offset - mapping->offset >= mapping->end - mapping->start)
			continue;
		list->python = FILE_FIRST + (uint32_t)(file - pythons->files);
		list->python_bias = mapping->start + (file->build.loop_offset - mapping->offset) - file->build.loop_start;
	}
	return pythons_placed(pythons, list, ret);
}

/* ---- names ---- */

static int read_process(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct process *process = context;
	ssize_t n = proc_read_memory(process->pid, address, to, bytes);

	return n < 0 ? (int)n : (size_t)n == bytes ? 0 : -EFAULT;
}

static uint64_t key_of(const struct pythons *pythons, const struct process *process, uint64_t object, uint64_t data)
{
	const uint64_t words[] = {process->id, object, RUNTIME_CHECK(data)};

	return hash64_seed(words, sizeof(words), pythons->key_seed);
}

/* The older table goes. */
static int turn(struct pythons *pythons)
{
	struct python_names fresh = {0};

	int r = init_names(&fresh);
	if (r < 0)
		return r;
	release_names(&pythons->names[1]);
	pythons->names[1] = pythons->names[0];
	pythons->names[0] = fresh;
	return 0;
}

static int add_item(struct python_names *names, uint64_t key, struct bytes name, struct bytes file, struct bytes lines,
		    struct python_name_item item, size_t *ret)
{
	int r = names->count >= PYTHON_NAMES_MAX ? -E2BIG : intern_add(&names->texts, name.data, name.len, &item.name);

	if (r == 0)
		r = intern_add(&names->texts, file.data, file.len, &item.file);
	if (r == 0)
		r = intern_add(&names->texts, lines.data, lines.len, &item.lines);
	if (r == 0)
		r = array_push(&names->items, &names->count, &names->capacity, PYTHON_NAMES_MAX, item);
	if (r == 0)
		r = map64_put(&names->by_key, key, names->count - 1);
	*ret = names->count - 1;
	return r;
}

/* The same in a table with room: texts may lie in the older one, which must not go before they are copied. */
static int put_item(struct pythons *pythons, uint64_t key, struct bytes name, struct bytes file, struct bytes lines,
		    struct python_name_item item, size_t *ret)
{
	struct python_names old = {0};

	int r = add_item(&pythons->names[0], key, name, file, lines, item, ret);
	if (r != -E2BIG)
		return r;
	old = pythons->names[1];
	pythons->names[1] = (struct python_names){0};
	r = turn(pythons);
	if (r == 0)
		r = add_item(&pythons->names[0], key, name, file, lines, item, ret);
	release_names(&old);
	return r;
}

static int read_item(struct pythons *pythons, const struct process *process, uint64_t key, uint64_t object, uint64_t data,
		     size_t *ret)
{
	const struct python_layout *layout = &pythons->files[process->maps->python - FILE_FIRST].build.layout;
	struct runtime_memory memory = {.read = read_process, .context = (void *)process};
	struct python_function function = {0};

	int r = process->exit_ns
			? -ESRCH
			: python_read_function(layout, &memory, RUNTIME_OBJECT(object), RUNTIME_CHECK(data), &function);
	_cleanup_(mem_freep) uint8_t *lines = function.lines;
	if (r == -ENOMEM)
		return r;
	pythons->read += r == 0;
	pythons->nonsense += r == -EBADMSG;
	pythons->lost += r < 0 && r != -EBADMSG;
	if (r < 0)
		function = (struct python_function){0};
	if (r == 0 && !function.name[0])
		function.name[0] = '?';
	struct python_name_item item = {.first_line = function.first_line, .format = layout->lines};
	return put_item(pythons, key, bytes_of_string(function.name), bytes_of_string(function.file),
			(struct bytes){lines, function.lines_bytes}, item, ret);
}

static int find_item(struct pythons *pythons, const struct process *process, uint64_t object, uint64_t data, size_t *ret)
{
	uint64_t key = key_of(pythons, process, object, data), at;

	if (map64_get(&pythons->names[0].by_key, key, &at)) {
		*ret = at;
		return 0;
	}
	if (!map64_get(&pythons->names[1].by_key, key, &at))
		return read_item(pythons, process, key, object, data, ret);
	const struct python_names *older = &pythons->names[1];
	struct python_name_item item = older->items[at];
	return put_item(pythons, key, intern_get(&older->texts, item.name), intern_get(&older->texts, item.file),
			intern_get(&older->texts, item.lines), item, ret);
}

int pythons_name(struct pythons *pythons, const struct process *process, uint64_t object, uint64_t data,
		 struct python_name *ret)
{
	size_t at;

	*ret = (struct python_name){.name = "", .file = ""};
	if (!process->maps || !process->maps->python)
		return 0;
	int r = find_item(pythons, process, object, data, &at);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	const struct python_names *names = &pythons->names[0];
	const struct python_name_item *item = &names->items[at];
	ret->name = intern_string(&names->texts, item->name);
	ret->file = intern_string(&names->texts, item->file);
	ret->first_line = item->first_line;
	ret->line = ret->name[0] ? python_line(item->format, intern_get(&names->texts, item->lines), item->first_line,
					       RUNTIME_PLACE(data))
				 : 0;
	return 0;
}
