/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Collecting the frames of PHP (see bpf/php.h for the whole). Compiled as bpf/listed_walk.h, for which it collects. */
#ifndef WICK_BPF_PHP_WALK_H
#define WICK_BPF_PHP_WALK_H

#define PHP_ABSENT (~0ull) /* no place */

_Static_assert(sizeof(struct php_process) <= LISTED_PROCESS_WORDS * 8, "there is room for what is said of a process");

/* executor_globals of a thread; 0 = it runs no PHP. */
static __always_inline __u64 php_globals_of(struct walk *walk, __u64 thread)
{
	const struct php_process *php = &walk->php;
	__u64 at = php->block_at, block;

	if (php->globals)
		return php->globals;
	if (php->block_offset)
		at = listed_load(walk, php->block_offset);
	block = at ? listed_load(walk, thread + at) : 0;
	if (!block || WALK_READ(walk, walk->scratch, 8, php->globals_offset) || !walk->scratch[0])
		return 0;
	return block + walk->scratch[0];
}

/* thread: its thread pointer, of thread-safe builds. */
static __always_inline __u64 php_first_frame(struct walk *walk, __u64 thread)
{
	walk->php_generator = 0;
	walk->php_turn_from = walk->php_turn_to = 0;
	walk->php_globals = php_globals_of(walk, thread);
	return walk->php_globals ? listed_load(walk, walk->php_globals + walk->php.globals_current) : 0;
}

/* The line of an instruction if it is one of the function's, which begins at `ops`; else PHP_ABSENT. */
static __always_inline __u64 php_line(struct walk *walk, __u64 opline, __u64 ops, __u32 count)
{
	__u64 at = opline - ops;

	if (!ops || at & (PHP_OP_BYTES - 1) || at / PHP_OP_BYTES >= count ||
	    WALK_READ(walk, walk->scratch, 4, opline + PHP_OP_LINE))
		return PHP_ABSENT;
	return (__u32)walk->scratch[0];
}

static __always_inline __u64 php_find_line(struct walk *walk, __u64 opline, __u64 ops, __u32 count)
{
	__u64 line = PHP_ABSENT;

#if UNWIND_REGISTERS == 16
	if (!walk->listed_count)
		line = php_line(walk, walk->registers[PHP_REGISTER_OPLINE], ops, count);
#endif
	if (line == PHP_ABSENT)
		line = php_line(walk, opline, ops, count);
	if (line == PHP_ABSENT && walk->php.globals_opline_before)
		line = php_line(walk, listed_load(walk, walk->php_globals + walk->php.globals_opline_before), ops, count);
	if (line == PHP_ABSENT)
		return 0;
	return line > RUNTIME_PLACE_MAX ? RUNTIME_PLACE_MAX : line;
}

/* Appends a function that is at `opline`. 0, or 1 if it cannot be read. info: of its call. */
static __always_inline int php_collect_function(struct walk *walk, __u64 function, __u64 opline, __u32 info)
{
	const struct php_process *php = &walk->php;
	__u64 ops, object, flags = 0, place = 0;
	__u32 count, type, check;

	if (function & 7 || function >> 56)
		return 1;
	if (listed_read(walk, php->function_bytes, function) && listed_read(walk, php->function_ops + 8, function))
		return 1; /* one that is written in C may be the last in its page */
	type = listed_byte(walk, PHP_FUNCTION_TYPE);
	ops = LISTED_WORD(walk, php->function_ops);
	count = listed_half(walk, php->function_count);
	check = php_check_of(php, walk->scratch);
	object = function | (LISTED_WORD(walk, PHP_FUNCTION_NAME) ? 0 : PHP_OBJECT_MAIN);
	if (type != PHP_FUNCTION_INTERNAL) {
		if (type != PHP_FUNCTION_USER && type != PHP_FUNCTION_EVAL)
			return 1;
		place = php_find_line(walk, opline, ops, count);
		flags = info & PHP_CALL_TOP ? RUNTIME_FRAME_ENTRY : 0;
	}
	listed_add(walk, RUNTIME_KIND_PHP, object, flags | (__u64)check << 24 | place);
	return 0;
}

/* Appends the generator, and goes to the one that it delegates to: the one that runs is in the list itself. */
static __always_inline int php_generator_step(struct walk *walk)
{
	__u64 generator = walk->php_generator, parent, frame;

	walk->php_generator = 0;
	parent = listed_load(walk, generator + walk->php.generator_parent);
	if (!parent) { /* it is the one that runs */
		walk->php_turn_to = walk->listed_count;
		return 0;
	}
	walk->php_generator = parent;
	frame = listed_load(walk, generator + walk->php.generator_frame);
	if (!frame || frame & 7 || WALK_READ(walk, walk->scratch, PHP_FRAME_BYTES, frame))
		return 1;
	return php_collect_function(walk, LISTED_WORD(walk, PHP_FRAME_FUNCTION), LISTED_WORD(walk, PHP_FRAME_OPLINE), 0);
}

/* They were appended from the one that was asked on, and it is to be the outermost. */
static __always_inline void php_turn_step(struct walk *walk)
{
	__u32 from = walk->php_turn_from & (LISTED_FRAMES_MAX - 1), to = (walk->php_turn_to - 1) & (LISTED_FRAMES_MAX - 1);
	__u64 object = walk->listed_frames[from][0], data = walk->listed_frames[from][1];

	walk->listed_frames[from][0] = walk->listed_frames[to][0];
	walk->listed_frames[from][1] = walk->listed_frames[to][1];
	walk->listed_frames[to][0] = object;
	walk->listed_frames[to][1] = data;
	walk->php_turn_from++;
	walk->php_turn_to--;
}

/* A frame without a function: perhaps one that stands for generators. */
static __always_inline void php_placeholder(struct walk *walk, __u64 object, __u32 info)
{
	__u64 class;

	if (PHP_INFO_TYPE(info) != PHP_TYPE_OBJECT || !walk->php.generator_class)
		return;
	class = listed_load(walk, object + PHP_OBJECT_CLASS);
	if (!class || listed_load(walk, walk->php.generator_class) != class)
		return;
	walk->php_generator = object;
	walk->php_turn_from = walk->listed_count;
}

/* As python_collect_step(). */
static __always_inline int php_collect_step(struct walk *walk)
{
	__u64 frame = walk->listed_frame, function, object, opline;
	__u32 info;

	if (walk->php_turn_from + 1 < walk->php_turn_to) {
		php_turn_step(walk);
		return 0;
	}
	walk->php_turn_to = 0;
	if (walk->listed_count >= LISTED_FRAMES_MAX)
		return 1;
	if (walk->php_generator)
		return php_generator_step(walk);
	if (!frame || frame & 7 || WALK_READ(walk, walk->scratch, PHP_FRAME_BYTES, frame))
		return 1;
	function = LISTED_WORD(walk, PHP_FRAME_FUNCTION);
	opline = LISTED_WORD(walk, PHP_FRAME_OPLINE);
	object = LISTED_WORD(walk, PHP_FRAME_THIS);
	info = listed_half(walk, PHP_FRAME_INFO);
	walk->listed_frame = LISTED_WORD(walk, PHP_FRAME_BACK);
	if (!function) {
		php_placeholder(walk, object, info);
		return 0;
	}
	if (php_collect_function(walk, function, opline, info)) {
		walk->listed_frame = frame; /* the list goes on, and cannot be followed */
		return 1;
	}
	return 0;
}

#endif
