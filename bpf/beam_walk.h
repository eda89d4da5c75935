/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of BEAM in the walk (see bpf/beam.h for the whole). Compiled for the sampling program and for user space, as
 * bpf/walk.h, which has the macros.
 */
#ifndef WICK_BPF_BEAM_WALK_H
#define WICK_BPF_BEAM_WALK_H

#define BEAM_REGISTER_PROCESS	13
#define BEAM_REGISTER_SCHEDULER 3

enum beam_way { /* by which code goes back to the Erlang process's stack; the upper bits have the offset of `stop` */
		BEAM_WAY_NONE,
		BEAM_WAY_REGISTER,
		BEAM_WAY_PROCESS,
};

enum beam_arrival {
	BEAM_ELSEWHERE, /* the frame is none of BEAM */
	BEAM_ON_STACK,	/* the walk has the Erlang process's stack pointer */
	BEAM_OFF_STACK, /* ... the thread's: the way back is to be found */
	BEAM_AT_END,
	BEAM_LOST, /* the Erlang process's stack is not found */
};

/* Whether there is code at the address that was made at run time. */
static __always_inline int beam_is_code(struct walk *walk, __u64 address)
{
	if ((address < walk->map.start || address >= walk->map.end) && WALK_MAP(walk, address))
		return 0;
	return walk->map.state == UNWIND_SLOT_LIVE;
}

/* Whether the walk has come to a frame in code that BEAM made. */
static __always_inline int beam_is_in(struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;

	return pc >= walk->beam.low && pc < walk->beam.high && beam_is_code(walk, pc);
}

static __always_inline int beam_is_shared(const struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;

	return pc >= walk->beam.shared_start && pc < walk->beam.shared_end;
}

static __always_inline void beam_push(struct walk *walk)
{
	__u64 flags = walk->is_return ? 0 : BEAM_FRAME_LEAF;
	__u64 object = walk->is_return ? walk->ip : walk->beam.normal_exit;
	__u32 check = 0;

	if (walk->depth + 3 > UNWIND_FRAMES_MAX || object >> 56)
		return;
	if (walk->is_return && !WALK_READ(walk, walk->scratch, 8, walk->ip - 8))
		check = runtime_check_of(walk->scratch[0], 0, 0);
	walk->beam_count++;
	walk_push(walk, RUNTIME_FRAME | (__u64)RUNTIME_KIND_BEAM << 56 | object);
	walk_push(walk, RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | (__u64)check << 24);
}

/* Whether the thread's own stack is in use at a leaf: rbx points to its registers, above which there is nothing of C. */
static __always_inline int beam_leaf_is_off(const struct walk *walk)
{
	__u64 sp = walk->registers[UNWIND_REGISTER_SP], distance = walk->registers[BEAM_REGISTER_SCHEDULER] - sp;

	return !(sp & 63) && distance >= BEAM_REGISTERS_MIN && distance <= BEAM_REGISTERS_MAX;
}

/* The walk has come to a frame: what is to be done about it. */
static __always_inline enum beam_arrival beam_arrive(struct walk *walk)
{
	if (!beam_is_in(walk))
		return BEAM_ELSEWHERE;
	if (walk->is_return && walk->ip == walk->beam.normal_exit) {
		walk->depth -= walk->depth > 1;
		walk->hash = walk->hash_before;
		return BEAM_AT_END;
	}
	beam_push(walk);
	walk->uncalled = 0;
	if (walk->is_return)
		return walk->left_slot != UNWIND_SLOT_JIT ? BEAM_OFF_STACK : BEAM_ON_STACK;
	return beam_leaf_is_off(walk) ? BEAM_OFF_STACK : BEAM_ON_STACK;
}

#define BEAM_CODE_BYTES ((BEAM_CODE_WORDS - 1) * 8)

/* Reads the code from ip on. Returns how many of its bytes are to be looked at; 0 if it cannot be read. */
static __always_inline __u32 beam_read_code(struct walk *walk)
{
	if (WALK_READ(walk, walk->scratch, BEAM_CODE_WORDS * 8, walk->ip))
		return 0;
	return beam_is_shared(walk) ? BEAM_CODE_NEAR : BEAM_CODE_BYTES;
}

/* How the instruction at byte i of it goes back. */
static __always_inline __u32 beam_way_at(const struct walk *walk, __u32 i)
{
	__u64 low = walk->scratch[(i >> 3) & 63], high = walk->scratch[((i >> 3) + 1) & 63];
	__u32 shift = (i & 7) * 8;
	__u64 bytes = low >> shift | (high << 1) << (63 - shift);

	if ((bytes & 0xffffff) == 0xec8948)
		return BEAM_WAY_REGISTER;
	if ((bytes & 0xffffff) == 0x658b49)
		return BEAM_WAY_PROCESS | (bytes >> 24 & 0x7f) << 8;
	return BEAM_WAY_NONE;
}

static __always_inline __u64 beam_peek(struct walk *walk, __u64 address)
{
	return WALK_PEEK(walk, walk->scratch, 8, address) ? 0 : walk->scratch[0];
}

/* The Erlang process that the thread runs; 0 if it is not known. */
static __always_inline __u64 beam_process_of(struct walk *walk)
{
	const struct beam_process *beam = &walk->beam;
	__u64 thread = 0, data;
	__u32 key;

	if (!walk->is_return)
		return walk->registers[BEAM_REGISTER_PROCESS];
	if (WALK_THREAD(walk, &thread) || WALK_PEEK(walk, walk->scratch, 4, beam->key))
		return 0;
	key = (__u32)walk->scratch[0];
	if (key >= beam->keys_max)
		return 0;
	data = beam_peek(walk, thread + beam->thread_keys + key * 16 + 8);
	if (!data || beam_peek(walk, data) != walk->registers[UNWIND_REGISTER_SP])
		return 0;
	return beam_peek(walk, data + beam->data_process);
}

/* Goes over to the Erlang process's stack. */
static __always_inline enum beam_arrival beam_go_back(struct walk *walk, __u32 way)
{
	__u64 top = 0, process;

	if ((way & 0xff) == BEAM_WAY_NONE)
		return beam_is_shared(walk) ? BEAM_AT_END : BEAM_LOST;
	if ((way & 0xff) == BEAM_WAY_REGISTER) {
		if (walk->known >> UNWIND_REGISTER_FP & 1)
			top = walk->registers[UNWIND_REGISTER_FP];
	} else {
		process = beam_process_of(walk);
		top = process ? beam_peek(walk, process + (way >> 8)) : 0;
	}
	if (!top || top & 7)
		return BEAM_LOST;
	walk->registers[UNWIND_REGISTER_SP] = top;
	walk->frame_is_sure = 1;
	return BEAM_ON_STACK;
}

/* How the walk goes on from a frame of which no return address is looked for. */
static __always_inline int beam_result(int arrival)
{
	return arrival == BEAM_AT_END ? UNWIND_COMPLETE : arrival == BEAM_LOST ? UNWIND_NO_REGISTER : WALK_GOES_ON;
}

static __always_inline void beam_begin_words(struct walk *walk)
{
	walk->beam_at = walk->registers[UNWIND_REGISTER_SP];
	walk->frame_is_sure |= walk->is_return;
}

/* The next word of the frame: 1 if it is the return address, 0 if not, negative if there is none. With frame pointers
 * (+JPperf) those are among the words, and the stack may lie near the code. What belongs to no module is called from all
 * places, not only from multiples of 4; it has no terms. */
static __always_inline int beam_word(struct walk *walk)
{
	__u64 word = 0;

	if (walk_load(walk, walk->beam_at, 1, &word))
		return -1;
	walk->beam_at += 8;
	if (word < walk->beam.low || word >= walk->beam.high || !beam_is_code(walk, word - 1))
		return 0;
	return !(word & 3) || (beam_is_shared(walk) && walk_follows_call(walk, word));
}

/* The return address was found, or not. */
static __always_inline void beam_end_words(struct walk *walk, int found)
{
	__u64 bytes = walk->beam_at - walk->registers[UNWIND_REGISTER_SP];

	if (found <= 0)
		return;
	if (walk->frame_is_sure)
		walk->frame_bytes = bytes;
	else
		walk->frame_guess = bytes;
}

#ifndef __bpf__
/* How the code from ip on goes back. */
static inline __u32 beam_find_way(struct walk *walk)
{
	__u32 bytes = beam_read_code(walk), way = BEAM_WAY_NONE;

	for (__u32 i = 0; i < bytes && way == BEAM_WAY_NONE; i++)
		way = beam_way_at(walk, i);
	return way;
}

/* Puts the function of the frame that the walk has come to behind it. WALK_GOES_ON, or the result that the walk ends with. */
static inline int beam_meet(struct walk *walk)
{
	enum beam_arrival arrival;
	int found = 0;

	if (!walk->beam.kind)
		return WALK_GOES_ON;
	arrival = beam_arrive(walk);
	if (arrival == BEAM_OFF_STACK)
		arrival = beam_go_back(walk, beam_find_way(walk));
	if (arrival != BEAM_ON_STACK)
		return beam_result(arrival);
	beam_begin_words(walk);
	for (__u32 i = 0; i < BEAM_WORDS_MAX && found == 0; i++)
		found = beam_word(walk);
	beam_end_words(walk, found);
	return WALK_GOES_ON;
}
#endif

#endif
