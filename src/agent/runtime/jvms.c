// SPDX-License-Identifier: Apache-2.0
/*
 * HotSpot (runtime/jvm.h). Of each process that has it the layout is kept, since it is read from the process. An item of names
 * is one of three:
 *
 *   a Method, or a stub	 the name, the file, the table of lines; the first line
 *   a place in compiled code	 the methods that are inlined there: struct inlined, innermost first
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/runtime/runtimes.h"
#include "base/alloc.h"

#define JVMS_MAX	 256u /* processes whose layouts are kept */
#define TRIES_AT_ONCE	 16u
#define REST_MAX	 256u
#define FROZEN_TRIES_MAX 1024u /* a few tens of reads each, while a virtual machine starts */

/* Names that are one function's and cannot be had are empty; so is this. */
struct inlined {
	uint64_t method;
	uint32_t check;
	int32_t place;
};

struct runtime_jvm {
	pid_t pid;
	int result;	      /* of reading the layout */
	uint32_t tries, rest; /* that came too early; calls that do not try again */
	size_t file;	      /* its place in runtimes->files */
	uint64_t bias, used;
	struct jvm_layout layout;
	struct jvm_frozen frozen;
	int frozen_result; /* of finding it; -EAGAIN at first */
	uint32_t frozen_tries;
	char why[120]; /* if it could not be read */
};

static int recognize(struct elf_file *file, struct runtime_file *ret, struct error *err)
{
	int r = jvm_recognize(file, &ret->jvm, err);
	ret->code_address = ret->jvm.start;
	ret->code_offset = ret->jvm.offset;
	return r;
}

/* ---- layouts ---- */

static struct runtime_jvm *take_item(struct runtimes *runtimes)
{
	struct runtime_jvm *oldest = NULL;

	if (runtimes->jvm_count < JVMS_MAX &&
	    array_reserve(&runtimes->jvms, &runtimes->jvm_capacity, runtimes->jvm_count + 1, JVMS_MAX) == 0)
		return &runtimes->jvms[runtimes->jvm_count++];
	for (size_t i = 0; i < runtimes->jvm_count; i++) {
		if (!oldest || runtimes->jvms[i].used < oldest->used)
			oldest = &runtimes->jvms[i];
	}
	return oldest;
}

/* Reads the layout once; again if it was not there yet. NULL if there is no memory. Valid until the next call. */
static struct runtime_jvm *find_jvm(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, uint64_t bias,
				    const struct runtime_memory *memory)
{
	struct runtime_jvm *jvm = NULL;
	struct error why = {0};
	size_t at = (size_t)(file - runtimes->files);

	for (size_t i = 0; i < runtimes->jvm_count && !jvm; i++) {
		struct runtime_jvm *item = &runtimes->jvms[i];
		if (item->pid == pid && item->bias == bias && item->file == at)
			jvm = item;
	}
	if (jvm && (jvm->result != -EAGAIN || jvm->rest)) {
		jvm->rest -= jvm->rest != 0;
		jvm->used = ++runtimes->jvm_clock;
		return jvm;
	}
	uint32_t tries = jvm ? jvm->tries + 1 : 0;
	if (!jvm)
		jvm = take_item(runtimes);
	if (!jvm)
		return NULL;
	*jvm = (struct runtime_jvm){
		.pid = pid, .tries = tries, .bias = bias, .file = at, .used = ++runtimes->jvm_clock, .frozen_result = -EAGAIN};
	jvm->result = jvm_read_layout(&file->jvm, bias, memory, &jvm->layout, &why);
	/* What cannot be read may be of a process that is just being made, or ends. */
	if (jvm->result < 0 && jvm->result != -ENOTSUP && jvm->result != -EBADMSG)
		jvm->result = -EAGAIN;
	/* A process can seem to be about to begin for ever. */
	jvm->rest = tries / TRIES_AT_ONCE < REST_MAX ? tries / TRIES_AT_ONCE : REST_MAX;
	snprintf(jvm->why, sizeof(jvm->why), "%.*s", (int)sizeof(jvm->why) - 1, why.message);
	return jvm;
}

/* Frames in the heap. The classes are loaded a while after there is code. */
static void place_frozen(struct runtimes *runtimes, struct runtime_jvm *jvm, const struct runtime_memory *memory,
			 struct jvm_process *ret)
{
	if (jvm->frozen_result == -EAGAIN && jvm->frozen_tries < FROZEN_TRIES_MAX) {
		jvm->frozen_tries++;
		jvm->frozen_result = jvm_find_frozen(&jvm->layout, memory, &jvm->frozen);
		runtimes->lacks = jvm->frozen_result == -EAGAIN;
	}
	if (jvm->frozen_result == 0)
		jvm_place_frozen(&jvm->layout, &jvm->frozen, ret);
}

static int place(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const struct mapped_runtime *mapped,
		 void *ret)
{
	struct runtime_memory memory;
	struct error why = {0};

	runtime_memory_of_pid(&pid, &memory);
	struct runtime_jvm *jvm = find_jvm(runtimes, file, pid, mapped->bias, &memory);
	if (!jvm || jvm->result < 0)
		return jvm && jvm->result == -EAGAIN ? -EAGAIN : 0;
	int r = jvm_place(&jvm->layout, &memory, ret, &why);
	if (r < 0 && r != -EAGAIN) {
		jvm->result = r;
		snprintf(jvm->why, sizeof(jvm->why), "%.*s", (int)sizeof(jvm->why) - 1, why.message);
		return 0;
	}
	if (r < 0)
		return r;
	place_frozen(runtimes, jvm, &memory, ret);
	return (int)sizeof(struct jvm_process);
}

/* ---- names ---- */

/* What a call of name() has at hand. */
struct naming {
	struct runtimes *runtimes;
	const struct process *process;
	const struct jvm_layout *layout;
	struct runtime_memory memory;
	uint64_t pc; /* of struct runtime_frame */
};

static int add_method(const struct naming *naming, uint64_t key, uint64_t object, uint32_t check)
{
	struct jvm_method method;

	int r = jvm_read_method(naming->layout, &naming->memory, object, check, &method);
	_cleanup_(mem_freep) uint8_t *lines = method.lines;
	if (r == -ENOMEM)
		return r;
	runtime_count(naming->runtimes, RUNTIME_KIND_JVM, r);
	if (r < 0)
		method = (struct jvm_method){0};
	return runtime_names_add(
		&naming->runtimes->names, key,
		&(struct runtime_name_item){
			.texts = {bytes_of_string(method.name), bytes_of_string(method.file), {lines, method.lines_bytes}},
			.numbers = {method.first_line},
		});
}

/* Keeps a text until the next call of name(): there is always room. */
static const char *keep_text(struct runtimes *runtimes, struct bytes text)
{
	const char *kept = (const char *)runtimes->texts.data + runtimes->texts.len;

	buffer_append(&runtimes->texts, text.data, text.len);
	buffer_append_byte(&runtimes->texts, 0);
	return kept;
}

/* place: below 0 = none. */
static int name_method(const struct naming *naming, uint64_t object, uint32_t check, int32_t place, struct runtime_name *ret)
{
	struct runtimes *runtimes = naming->runtimes;
	uint64_t key = runtime_key_of(runtimes, naming->process, object, (uint64_t)check << 24, 0);
	struct runtime_name_item item;

	*ret = (struct runtime_name){.name = "", .file = ""};
	int r = runtime_find_name(runtimes, naming->process, RUNTIME_KIND_JVM, key, &item);
	if (r == 0) {
		r = add_method(naming, key, object, check);
		if (r == 0)
			r = runtime_names_find(&runtimes->names, key, &item);
	}
	if (r <= 0)
		return r == -ENOMEM ? r : 1;
	ret->name = keep_text(runtimes, item.texts[0]);
	ret->file = keep_text(runtimes, item.texts[1]);
	ret->first_line = item.numbers[0];
	ret->line = place < 0 ? 0 : jvm_line(item.texts[2], jvm_excludes_zero(naming->layout), (uint32_t)place);
	return 1;
}

static int add_stub(const struct naming *naming, uint64_t key, uint64_t object, uint32_t check)
{
	char name[JVM_NAME_BYTES_MAX];

	int r = jvm_read_stub(naming->layout, &naming->memory, object, check, name);
	if (r == -ENOMEM)
		return r;
	runtime_count(naming->runtimes, RUNTIME_KIND_JVM, r);
	return runtime_names_add(&naming->runtimes->names, key,
				 &(struct runtime_name_item){.texts = {bytes_of_string(r < 0 ? "" : name)}});
}

static int name_stub(const struct naming *naming, uint64_t object, uint64_t data, struct runtime_name *ret)
{
	struct runtimes *runtimes = naming->runtimes;
	uint64_t key = runtime_key_of(runtimes, naming->process, object, data, 0);
	struct runtime_name_item item;

	int r = runtime_find_name(runtimes, naming->process, RUNTIME_KIND_JVM, key, &item);
	if (r == 0) {
		r = add_stub(naming, key, RUNTIME_OBJECT(object), RUNTIME_CHECK(data));
		if (r == 0)
			r = runtime_names_find(&runtimes->names, key, &item);
	}
	if (r > 0)
		ret->name = keep_text(runtimes, item.texts[0]);
	return r == -ENOMEM ? r : 1;
}

/* Methods are named while their code is there: so are those that are inlined. */
static int add_inlined(const struct naming *naming, uint64_t key, uint64_t object, uint64_t data)
{
	struct jvm_scope scopes[JVM_SCOPES_MAX];
	struct inlined inlined[JVM_SCOPES_MAX];
	struct runtime_name unused;

	int count = jvm_read_scopes(naming->layout, &naming->memory, object, RUNTIME_CHECK(data), RUNTIME_PLACE(data),
				    naming->pc, scopes);
	int r = count < 0 ? count : 0;
	for (int i = 0; i < count && r == 0; i++) {
		inlined[i] = (struct inlined){.method = scopes[i].method, .place = scopes[i].place};
		r = jvm_method_check(naming->layout, &naming->memory, scopes[i].method, &inlined[i].check);
		if (r == 0)
			r = name_method(naming, inlined[i].method, inlined[i].check, inlined[i].place, &unused) < 0 ? -ENOMEM
														    : 0;
		buffer_clear(&naming->runtimes->texts);
	}
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		runtime_count(naming->runtimes, RUNTIME_KIND_JVM, r);
		count = 0;
	}
	return runtime_names_add(
		&naming->runtimes->names, key,
		&(struct runtime_name_item){.texts = {{(const uint8_t *)inlined, (size_t)count * sizeof(inlined[0])}}});
}

static int name_compiled(const struct naming *naming, uint64_t object, uint64_t data, struct runtime_name *ret)
{
	struct runtimes *runtimes = naming->runtimes;
	bool is_leaf = RUNTIME_PLACE(data) == JVM_PLACE_LEAF;
	uint32_t place = is_leaf ? ~(uint32_t)(naming->pc - RUNTIME_OBJECT(object)) : RUNTIME_PLACE(data) + 1;
	uint64_t key = runtime_key_of(runtimes, naming->process, object, data, place);
	struct inlined inlined[JVM_SCOPES_MAX];
	struct runtime_name_item item;

	int r = runtime_find_name(runtimes, naming->process, RUNTIME_KIND_JVM, key, &item);
	if (r == 0) {
		r = add_inlined(naming, key, RUNTIME_OBJECT(object), data);
		if (r == 0)
			r = runtime_names_find(&runtimes->names, key, &item);
	}
	if (r <= 0)
		return r == -ENOMEM ? r : 1;
	size_t count = item.texts[0].len / sizeof(inlined[0]);
	memcpy(inlined, item.texts[0].data, count * sizeof(inlined[0]));
	for (size_t i = 0; i < count; i++) {
		r = name_method(naming, inlined[i].method, inlined[i].check, inlined[i].place, &ret[i]);
		if (r < 0)
			return r;
	}
	return count ? (int)count : 1;
}

static int name(struct runtimes *runtimes, const struct process *process, const struct runtime_file *file,
		const struct runtime_frame *frame, struct runtime_name *ret)
{
	uint64_t object = frame->object, data = frame->data;
	struct naming naming = {.runtimes = runtimes, .process = process, .pc = frame->pc};

	buffer_clear(&runtimes->texts);
	runtimes->texts.max = 2 * RUNTIME_INLINES_MAX * JVM_NAME_BYTES_MAX;
	if (buffer_reserve(&runtimes->texts, runtimes->texts.max) < 0)
		return -ENOMEM;
	runtime_memory_of(process, &naming.memory);
	struct runtime_jvm *jvm =
		find_jvm(runtimes, file, process->pid, process->maps->runtimes[RUNTIME_STACKED].bias, &naming.memory);
	if (!jvm)
		return -ENOMEM;
	if (jvm->result < 0)
		return 1;
	naming.layout = &jvm->layout;
	if (data & JVM_FRAME_STUB)
		return name_stub(&naming, object, data, ret);
	if (data & JVM_FRAME_COMPILED)
		return name_compiled(&naming, object, data, ret);
	return name_method(&naming, RUNTIME_OBJECT(object), RUNTIME_CHECK(data), (int32_t)RUNTIME_PLACE(data), ret);
}

/* ---- for people ---- */

static void describe(struct runtimes *runtimes, const struct runtime_file *file, pid_t pid, const char *binary,
		     struct buffer *out)
{
	const struct runtime_jvm *jvm = NULL;
	size_t at = (size_t)(file - runtimes->files);

	for (size_t i = 0; i < runtimes->jvm_count && !jvm; i++)
		jvm = runtimes->jvms[i].pid == pid && runtimes->jvms[i].file == at ? &runtimes->jvms[i] : NULL;
	buffer_printf(out, "HotSpot %s in %s; offsets from its tables for debuggers", jvm ? jvm->layout.release : "", binary);
	if (jvm && jvm->result < 0)
		buffer_printf(out, "; not shown: %s", jvm->why);
}

const struct runtime_type runtime_jvm = {
	.kind = RUNTIME_KIND_JVM,
	.class = RUNTIME_STACKED,
	.word = "jvm",
	.lost_function = "[function of Java]",
	.recognize = recognize,
	.place = place,
	.name = name,
	.describe = describe,
};
