// SPDX-License-Identifier: Apache-2.0
/*
 * Where things lie in the structs of CPython. From 3.13 on the runtime says so itself, in the struct _Py_DebugOffsets at its
 * start (Include/internal/pycore_runtime.h, _debug_offsets.h), also for builds without the GIL, whose objects are larger. What
 * is older is in tables here, taken from the headers of the releases with offsetof(); patch releases of a version have one
 * layout, as far as these members go.
 */
#include <errno.h>
#include <string.h>

#include "runtime/python.h"

#define COOKIE	     "xdebugpy"
#define WORDS_MIN    16
#define VERSION_3_13 0x030du
#define VERSION_3_14 0x030eu
#define OFFSET_MAX   (1u << 20) /* of a member */
#define OWNER_SHIM   3		/* FRAME_OWNED_BY_CSTACK; since 3.14 FRAME_OWNED_BY_INTERPRETER, and above it the former */

/* Before 3.11: PyThreadState.frame is a list of PyFrameObject. */
struct old_layout {
	uint32_t version, interpreters, holder, thread_id, frame_last, code_first_line, code_file, flags, lines;
};
static const struct old_layout old_layouts[] = {
	{0x0306, 0, 0, 152, 120, 36, 96, PYTHON_HALF_INSTR, PYTHON_LINES_LNOTAB},
	{0x0307, 24, 1480, 176, 104, 36, 96, PYTHON_HALF_INSTR, PYTHON_LINES_LNOTAB},
	{0x0308, 32, 1368, 176, 104, 40, 104, PYTHON_HALF_INSTR, PYTHON_LINES_LNOTAB},
	{0x0309, 32, 568, 176, 104, 40, 104, PYTHON_HALF_INSTR, PYTHON_LINES_LNOTAB},
	{0x030a, 32, 568, 176, 96, 40, 104, 0, PYTHON_LINES_TABLE},
};

static void set_code(struct python_layout *layout, uint32_t first_line, uint32_t file, uint32_t name, uint32_t qualname,
		     uint32_t lines)
{
	struct python_process *walk = &layout->walk;

	layout->code_first_line = first_line;
	layout->code_file = file;
	layout->code_name = name;
	layout->code_qualname = qualname;
	layout->code_lines = lines;
	walk->code_from = first_line & ~7u;
	walk->check0 = first_line - walk->code_from;
	walk->check1 = name - walk->code_from;
	walk->check2 = lines - walk->code_from;
	walk->code_bytes = (name > lines ? name : lines) + 8 - walk->code_from;
}

static void set_objects(struct python_layout *layout, uint32_t ascii, uint32_t compact)
{
	layout->object_type = 8;
	layout->type_name = 24;
	layout->text_length = 16;
	layout->text_state = 32;
	layout->text_ascii = ascii;
	layout->text_compact = compact;
	layout->bytes_length = 16;
	layout->bytes_data = 32;
}

/* prev, next and interp are the first members of PyThreadState in all versions. */
static void set_threads(struct python_layout *layout, uint32_t id, uint32_t frame)
{
	layout->walk.thread_next = 8;
	layout->walk.thread_interpreter = 16;
	layout->walk.thread_id = id;
	layout->walk.thread_frame = frame;
}

static void set_old(const struct old_layout *old, struct python_layout *layout)
{
	struct python_process *walk = &layout->walk;

	layout->runtime_interpreters = old->interpreters;
	layout->runtime_holder = old->holder;
	set_threads(layout, old->thread_id, 24);
	walk->interpreter_threads = 8;
	walk->frame_back = 24;
	walk->frame_code = 32;
	walk->frame_instr = old->frame_last;
	walk->frame_bytes = (old->frame_last & ~7u) + 8;
	walk->listed.flags = PYTHON_EACH_IS_ENTRY | PYTHON_LAST_INSTR | old->flags;
	set_code(layout, old->code_first_line, old->code_file, old->code_file + 8, 0, old->code_file + 16);
	set_objects(layout, 48, 72);
	layout->lines = old->lines;
}

static void set_3_11(struct python_layout *layout)
{
	struct python_process *walk = &layout->walk;

	layout->runtime_interpreters = 40;
	layout->runtime_holder = 576;
	set_threads(layout, 152, 56);
	walk->interpreter_threads = 16;
	walk->cframe_frame = 8;
	walk->frame_code = 32;
	walk->frame_back = 48;
	walk->frame_instr = 56;
	walk->frame_owner = 68; /* is_entry */
	walk->frame_bytes = 72;
	walk->code_instr = 184;
	walk->listed.flags = PYTHON_CFRAME | PYTHON_ENTRY_FLAG;
	set_code(layout, 72, 112, 120, 128, 136);
	set_objects(layout, 48, 72);
	layout->lines = PYTHON_LINES_LOCATIONS;
}

static void set_3_12(struct python_layout *layout)
{
	struct python_process *walk = &layout->walk;

	layout->runtime_interpreters = 40;
	set_threads(layout, 136, 56);
	walk->interpreter_threads = 72;
	walk->interpreter_gil = 384;
	walk->gil_holder = 8;
	walk->frame_code = 0;
	walk->frame_back = 8;
	walk->frame_instr = 56;
	walk->frame_owner = 70;
	walk->owner_shim = OWNER_SHIM;
	walk->frame_bytes = 72;
	walk->code_instr = 192;
	walk->listed.flags = PYTHON_CFRAME | LISTED_ANCHORED;
	set_code(layout, 68, 112, 120, 128, 136);
	set_objects(layout, 40, 56);
	layout->lines = PYTHON_LINES_LOCATIONS;
}

bool python_layout_of(uint32_t version, struct python_layout *ret)
{
	*ret = (struct python_layout){0};
	for (size_t i = 0; i < sizeof(old_layouts) / sizeof(old_layouts[0]); i++) {
		if (old_layouts[i].version == version)
			set_old(&old_layouts[i], ret);
	}
	if (version == 0x030b)
		set_3_11(ret);
	if (version == 0x030c)
		set_3_12(ret);
	return ret->walk.frame_bytes != 0;
}

/* ---- what the runtime says itself ---- */

/* The members are words, one behind the other; 3.14 put further ones in between. */
struct published {
	uint64_t word[PYTHON_PUBLISHED_BYTES_MAX / 8];
	size_t count, next;
	bool is_bad;
};

static uint64_t take_word(struct published *p)
{
	if (p->next >= p->count) {
		p->is_bad = true;
		return 0;
	}
	return p->word[p->next++];
}

static uint32_t take(struct published *p)
{
	uint64_t word = take_word(p);

	p->is_bad = p->is_bad || word > OFFSET_MAX;
	return (uint32_t)word;
}

static void skip(struct published *p, size_t count)
{
	while (count--)
		take_word(p);
}

static void take_published(struct published *p, bool is_3_14, struct python_layout *layout)
{
	struct python_process *walk = &layout->walk;

	skip(p, 2); /* runtime_state: size, finalizing */
	layout->runtime_interpreters = take(p);
	skip(p, 2); /* interpreter_state: size, id */
	walk->interpreter_next = take(p);
	walk->interpreter_threads = take(p);
	skip(p, is_3_14 ? 5 : 4); /* 3.14: threads_main; gc, imports_modules, sysdict, builtins */
	walk->interpreter_gil = take(p);
	skip(p, 3); /* gil_runtime_state, _enabled, _locked */
	skip(p, 1); /* gil_runtime_state_holder */
	if (is_3_14)
		skip(p, 2); /* code_object_generation, tlbc_generation */
	skip(p, 2);	    /* thread_state: size, prev */
	walk->thread_next = take(p);
	walk->thread_interpreter = take(p);
	walk->thread_frame = take(p);
	walk->thread_id = take(p);
	skip(p, 3); /* native_thread_id, datastack_chunk, status */
	skip(p, 1); /* interpreter_frame: size */
	walk->frame_back = take(p);
	walk->frame_code = take(p);
	walk->frame_instr = take(p);
	skip(p, 1); /* localsplus */
	walk->frame_owner = take(p);
	if (is_3_14)
		skip(p, 2); /* stackpointer, tlbc_index */
	skip(p, 1);	    /* code_object: size */
	uint32_t file = take(p), name = take(p), qualname = take(p), lines = take(p), first_line = take(p);
	skip(p, 3); /* argcount, localsplusnames, localspluskinds */
	walk->code_instr = take(p);
	if (is_3_14)
		skip(p, 1); /* co_tlbc */
	skip(p, 1);	    /* pyobject: size */
	layout->object_type = take(p);
	skip(p, 1); /* type_object: size */
	layout->type_name = take(p);
	skip(p, 2);		  /* tp_repr, tp_flags */
	skip(p, 3 + 3);		  /* tuple, list */
	skip(p, is_3_14 ? 4 : 0); /* set */
	skip(p, 3 + 2 + 3);	  /* dict, float, long */
	skip(p, 1);		  /* bytes_object: size */
	layout->bytes_length = take(p);
	layout->bytes_data = take(p);
	skip(p, 1); /* unicode_object: size */
	layout->text_state = take(p);
	layout->text_length = take(p);
	layout->text_ascii = take(p);
	layout->text_compact = layout->text_ascii + 16; /* utf8_length, utf8 */
	set_code(layout, first_line, file, name, qualname, lines);
}

static bool is_in_frame(uint32_t offset)
{
	return offset <= (LISTED_READ_WORDS - 1) * 8;
}

static bool is_word_in_frame(uint32_t offset)
{
	return is_in_frame(offset) && !(offset & 7);
}

/* What the walk relies on. */
static bool is_sound(const struct python_layout *layout)
{
	const struct python_process *walk = &layout->walk;

	return layout->runtime_interpreters && walk->thread_id && walk->thread_frame && walk->interpreter_threads &&
	       is_word_in_frame(walk->frame_code) && is_word_in_frame(walk->frame_back) &&
	       is_word_in_frame(walk->frame_instr) && is_in_frame(walk->frame_owner) && walk->frame_code != walk->frame_back &&
	       layout->code_name > walk->code_from && layout->code_lines > walk->code_from &&
	       walk->code_bytes <= LISTED_READ_WORDS * 8 && walk->code_instr && !(layout->code_name & 7) &&
	       !(layout->code_lines & 7) && !(layout->code_first_line & 3) && layout->text_ascii && layout->bytes_data &&
	       layout->object_type;
}

/* How much of a frame has all members that the walk looks at. */
static uint32_t frame_bytes(const struct python_process *walk)
{
	const uint32_t words[] = {walk->frame_code, walk->frame_back, walk->frame_instr, walk->frame_owner & ~7u};
	uint32_t max = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		max = words[i] > max ? words[i] : max;
	return max + 8;
}

int python_layout_published(struct bytes runtime, uint32_t *ret_version, bool *ret_is_free_threaded, struct python_layout *ret,
			    struct error *err)
{
	struct published p = {.next = 3};

	*ret = (struct python_layout){0};
	p.count = runtime.len < sizeof(p.word) ? runtime.len / 8 : sizeof(p.word) / 8;
	if (p.count)
		memcpy(p.word, runtime.data, p.count * 8);
	if (p.count < WORDS_MIN || memcmp(p.word, COOKIE, strlen(COOKIE)) != 0)
		return error_set(err, -ENOTSUP, "CPython without the offsets that versions since 3.13 publish");
	*ret_version = (uint32_t)(p.word[1] >> 16 & 0xffff);
	*ret_is_free_threaded = p.word[2] != 0;
	if (*ret_version < VERSION_3_13 || *ret_version > VERSION_3_14)
		return error_set(err, -ENOTSUP, "CPython %u.%u, whose published offsets are not known", *ret_version >> 8,
				 *ret_version & 0xff);
	take_published(&p, *ret_version >= VERSION_3_14, ret);
	ret->walk.owner_shim = OWNER_SHIM;
	ret->walk.listed.flags = LISTED_ANCHORED;
	ret->walk.frame_bytes = frame_bytes(&ret->walk);
	ret->lines = PYTHON_LINES_LOCATIONS;
	/* The GIL that ceval_gil points to is the one of the interpreter itself, or of the main one; last_holder is its second
	 * member (struct _gil_runtime_state). */
	ret->walk.gil_holder = 8;
	if (*ret_is_free_threaded)
		ret->walk.interpreter_gil = ret->walk.gil_holder = 0;
	if (p.is_bad || !is_sound(ret))
		return error_set(err, -EBADMSG, "CPython %u.%u publishes offsets that cannot be", *ret_version >> 8,
				 *ret_version & 0xff);
	return 0;
}
