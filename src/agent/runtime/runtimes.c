// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/runtimes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/proc.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"

#define NONSENSE_MAX	   32u /* functions that could not be had, of a process of which none could */
#define NONSENSE_NEVER	   UINT16_MAX
#define READS_FORGOTTEN_NS (2 * NS_PER_S) /* then all of it is allowed again */
#define FILE_NOT_LOOKED	   0u		  /* binary_file.runtime */
#define FILE_NONE	   1u
#define FILE_FIRST	   2u

static const struct runtime_type *const types[] = {&runtime_python, &runtime_php, &runtime_perl, &runtime_ruby,	 &runtime_lua,
						   &runtime_jvm,    &runtime_v8,  &runtime_beam, &runtime_luajit};
#define TYPES (sizeof(types) / sizeof(types[0]))

int runtimes_init(struct runtimes *runtimes, struct binaries *binaries)
{
	*runtimes = (struct runtimes){.binaries = binaries, .kinds = RUNTIME_ALL};
	return runtime_names_init(&runtimes->names);
}

void runtimes_release(struct runtimes *runtimes)
{
	runtime_names_release(&runtimes->names);
	buffer_release(&runtimes->texts);
	v8_scripts_release(&runtimes->scripts);
	runtime_beams_release(runtimes);
	runtime_luajits_release(runtimes);
	runtimes->jvms = mem_free(runtimes->jvms);
	runtimes->jvm_count = runtimes->jvm_capacity = 0;
	runtimes->files = mem_free(runtimes->files);
	runtimes->file_count = runtimes->file_capacity = 0;
}

const struct runtime_type *runtime_type_of(uint32_t kind)
{
	for (size_t i = 0; i < TYPES; i++)
		if (types[i]->kind == kind)
			return types[i];
	return NULL;
}

static const struct runtime_type *find_word(struct bytes word)
{
	for (size_t i = 0; i < TYPES; i++)
		if (bytes_equal_string(word, types[i]->word))
			return types[i];
	return NULL;
}

int runtimes_parse(const char *text, uint32_t *ret_kinds, struct error *err)
{
	*ret_kinds = text ? 0 : RUNTIME_ALL;
	if (!text || strcmp(text, "none") == 0)
		return 0;
	for (const char *word = text;; word++) {
		size_t len = strcspn(word, ",");
		const struct runtime_type *type = find_word((struct bytes){(const uint8_t *)word, len});
		if (!type) {
			char known[160] = "";
			for (size_t i = 0; i < TYPES; i++)
				snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s, ", types[i]->word);
			return error_set(err, -EINVAL, "'%.*s' is no runtime that is known; there are: %snone",
					 (int)(len < 40 ? len : 40), word, known);
		}
		*ret_kinds |= 1u << type->kind;
		word += len;
		if (!*word)
			return 0;
	}
}

int agent_parse_runtimes(const char *text, uint32_t *ret, struct error *err)
{
	uint32_t kinds;
	int r = runtimes_parse(text, &kinds, err);
	*ret = r < 0 ? 0 : ~kinds;
	return r;
}

const char *agent_runtime_word(uint32_t kind)
{
	const struct runtime_type *type = runtime_type_of(kind);
	return type ? type->word : NULL;
}

/* ---- files ---- */

static uint32_t keep_file(struct runtimes *runtimes, const struct runtime_file *file)
{
	for (size_t i = 0; i < runtimes->file_count; i++) {
		if (memcmp(&runtimes->files[i], file, sizeof(*file)) == 0)
			return FILE_FIRST + (uint32_t)i;
	}
	if (array_push(&runtimes->files, &runtimes->file_count, &runtimes->file_capacity, RUNTIME_FILES_MAX, *file) < 0)
		return FILE_NONE;
	return FILE_FIRST + (uint32_t)runtimes->file_count - 1;
}

static uint32_t bytes_min(const struct runtime_type *type)
{
	return type->bytes_min ? type->bytes_min : RUNTIME_BYTES_MIN;
}

/* Whether one of the types knows the file, or why it cannot use it; *ret starts as zeros, padding too. bytes: executable. */
static bool recognize(struct elf_file *elf, uint64_t bytes, struct runtime_file *ret)
{
	for (size_t i = 0; i < TYPES; i++) {
		struct error why = {0};
		if (bytes < bytes_min(types[i]))
			continue;
		memset(ret, 0, sizeof(*ret));
		int r = types[i]->recognize(elf, ret, &why);
		if (r <= 0 && r != -ENOTSUP && r != -EBADMSG)
			continue;
		ret->type = types[i];
		ret->is_known = r > 0;
		if (r < 0)
			snprintf(ret->why, sizeof(ret->why), "%.*s", (int)sizeof(ret->why) - 1, why.message);
		return true;
	}
	return false;
}

static uint32_t look_into(struct runtimes *runtimes, pid_t pid, const struct process_mapping *mapping)
{
	const struct binary *binary = binary_get(runtimes->binaries, mapping->binary);
	char build_id[BUILD_ID_HEX_MAX];
	struct runtime_file file;
	struct error why = {0};
	struct elf_file elf;

	_cleanup_(fd_closep) int fd = binary_open(binary, pid, mapping, build_id);
	if (fd < 0)
		return fd == -ENOEXEC ? FILE_NONE : FILE_NOT_LOOKED;
	if (elf_file_open(&elf, fd, binary->path, &why) < 0)
		return FILE_NONE;
	bool is_runtime = recognize(&elf, mapping->end - mapping->start, &file);
	elf_file_release(&elf);
	return is_runtime ? keep_file(runtimes, &file) : FILE_NONE;
}

static uint64_t smallest(void)
{
	uint32_t least = RUNTIME_BYTES_MIN;

	for (size_t i = 0; i < TYPES; i++)
		least = bytes_min(types[i]) < least ? bytes_min(types[i]) : least;
	return least;
}

const struct runtime_file *runtimes_look(struct runtimes *runtimes, pid_t pid, const struct process_mapping *mapping)
{
	struct binary_file *file = binary_file_get(runtimes->binaries, mapping->file);

	if (mapping->end - mapping->start < smallest() || !mapping->file ||
	    binary_get(runtimes->binaries, mapping->binary)->kind != BINARY_FILE)
		return NULL;
	if (file->runtime == FILE_NOT_LOOKED)
		file->runtime = (uint16_t)look_into(runtimes, pid, mapping);
	return file->runtime >= FILE_FIRST ? &runtimes->files[file->runtime - FILE_FIRST] : NULL;
}

void runtimes_find(struct runtimes *runtimes, pid_t pid, struct mapping_list *list)
{
	memset(list->runtimes, 0, sizeof(list->runtimes));
	for (size_t i = 0; i < list->count && runtimes->kinds; i++) {
		const struct process_mapping *mapping = &list->items[i];
		const struct runtime_file *file = runtimes_look(runtimes, pid, mapping);
		if (!file || !file->is_known || !(runtimes->kinds >> file->type->kind & 1) ||
		    list->disbelieved >> file->type->kind & 1 || file->code_offset < mapping->offset ||
		    file->code_offset - mapping->offset >= mapping->end - mapping->start)
			continue;
		struct mapped_runtime *runtime = &list->runtimes[file->type->class];
		if (runtime->file)
			continue;
		runtime->file = FILE_FIRST + (uint32_t)(file - runtimes->files);
		runtime->binary_file = mapping->file;
		runtime->bias = mapping->start + (file->code_offset - mapping->offset) - file->code_address;
	}
}

static const struct runtime_file *file_of(const struct runtimes *runtimes, const struct mapped_runtime *runtime)
{
	return runtime->file ? &runtimes->files[runtime->file - FILE_FIRST] : NULL;
}

int runtimes_place(struct runtimes *runtimes, pid_t pid, const struct mapping_list *list, enum runtime_class class, void *ret)
{
	const struct runtime_file *file = list ? file_of(runtimes, &list->runtimes[class]) : NULL;

	runtimes->lacks = false;
	return file ? file->type->place(runtimes, file, pid, &list->runtimes[class], ret) : 0;
}

/* ---- names ---- */

static int read_pid(void *context, uint64_t address, void *to, size_t bytes)
{
	ssize_t n = proc_read_memory(*(const pid_t *)context, address, to, bytes);

	return n < 0 ? (int)n : (size_t)n == bytes ? 0 : -EFAULT;
}

static int read_process(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct process *process = context;
	pid_t pid = process->pid;

	if (process->maps)
		process->maps->reads.bytes += (int64_t)bytes + RUNTIME_READ_COST;
	return process->exit_ns ? -ESRCH : read_pid(&pid, address, to, bytes);
}

void runtime_memory_of(const struct process *process, struct runtime_memory *ret)
{
	*ret = (struct runtime_memory){.read = read_process, .context = (void *)process};
}

void runtime_memory_of_pid(const pid_t *pid, struct runtime_memory *ret)
{
	*ret = (struct runtime_memory){.read = read_pid, .context = (void *)pid};
}

uint64_t runtime_key_of(const struct runtimes *runtimes, const struct process *process, uint64_t object, uint64_t data,
			uint32_t place)
{
	const uint64_t words[] = {process->id, object, (uint64_t)RUNTIME_CHECK(data) << 32 | place};

	return runtime_names_key(&runtimes->names, words, sizeof(words));
}

bool runtime_may_read(struct runtimes *runtimes, const struct process *process, enum runtime_kind kind)
{
	struct runtime_reads *reads = process->maps ? &process->maps->reads : NULL;

	if (!reads || reads->bytes < RUNTIME_READ_BYTES_MAX)
		return true;
	int64_t now_ns = time_monotonic_ns(), elapsed_ns = now_ns - reads->until_ns;
	if (elapsed_ns >= NS_PER_MS) { /* else nothing but what is lost by rounding */
		elapsed_ns = elapsed_ns < READS_FORGOTTEN_NS ? elapsed_ns : READS_FORGOTTEN_NS;
		reads->bytes -= elapsed_ns * RUNTIME_READ_BYTES_PER_S / NS_PER_S;
		reads->bytes = reads->bytes > 0 ? reads->bytes : 0;
		reads->until_ns = now_ns;
	}
	if (reads->bytes < RUNTIME_READ_BYTES_MAX)
		return true;
	runtimes->counts[kind].refused++;
	return false;
}

int runtime_find_name(struct runtimes *runtimes, const struct process *process, enum runtime_kind kind, uint64_t key,
		      struct runtime_name_item *ret)
{
	int r = runtime_names_find(&runtimes->names, key, ret);
	return r != 0 || runtime_may_read(runtimes, process, kind) ? r : -EDQUOT;
}

void runtime_count(struct runtimes *runtimes, enum runtime_kind kind, int result)
{
	struct runtime_counts *counts = &runtimes->counts[kind];
	counts->read += result == 0;
	counts->nonsense += result == -EBADMSG;
	counts->lost += result < 0 && result != -EBADMSG;
}

bool runtimes_are_disbelieved(const struct process *process, uint32_t kind)
{
	return process->maps && process->maps->disbelieved >> kind & 1;
}

/* Offsets that are not those of the build lead to nonsense, or nowhere, always; what is freed and used anew does now and then.
 */
static void judge(const struct process *process, const struct runtime_type *type, const struct runtime_counts *before,
		  const struct runtime_counts *after)
{
	struct mapping_list *list = process->maps;
	uint16_t *nonsense = &list->nonsense[type->class];
	bool is_bad = after->nonsense > before->nonsense || (after->lost > before->lost && !process->exit_ns);

	if (after->read > before->read)
		*nonsense = NONSENSE_NEVER;
	if (!is_bad || *nonsense == NONSENSE_NEVER || ++*nonsense < NONSENSE_MAX)
		return;
	list->disbelieved |= 1u << type->kind;
	list->changed = true; /* the next time that the kernel side is told of it */
}

int runtimes_name(struct runtimes *runtimes, const struct process *process, const struct runtime_frame *frame,
		  const struct runtime_type **ret_type, struct runtime_name ret[RUNTIME_INLINES_MAX])
{
	const struct runtime_type *type = *ret_type = runtime_type_of(RUNTIME_KIND(frame->object));

	ret[0] = (struct runtime_name){.name = "", .file = ""};
	if (!process->maps)
		return 1;
	const struct runtime_file *file = file_of(runtimes, &process->maps->runtimes[type->class]);
	if (!file || file->type != type || !RUNTIME_OBJECT(frame->object)) /* none: one that nobody has seen (unwinder.c) */
		return 1;
	struct runtime_counts *counts = &runtimes->counts[type->kind], before = *counts;
	int count = type->name(runtimes, process, file, frame, ret);
	judge(process, type, &before, counts);
	return count;
}
