/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collecting the frames of listed runtimes (bpf/listed.h) in the sampling program: bpf/listed_walk.h and the files of the
 * runtimes have the steps; here are the loops. A step is a function of its own, which the verifier proves once. Of a loop it
 * follows each iteration, so a long one is two: turns, and steps of a turn.
 */
#ifndef WICK_BPF_LISTED_COLLECT_H
#define WICK_BPF_LISTED_COLLECT_H

#define LISTED_TURN_STEPS 64u
#define LISTED_TURNS	  (PERL_CONTEXTS_READ / LISTED_TURN_STEPS) /* more than the others need */
_Static_assert(PERL_CONTEXTS_READ % LISTED_TURN_STEPS == 0 && PERL_CONTEXTS_READ >= 2 * LISTED_FRAMES_MAX,
	       "turns are enough for all");

/* Thread states that were found, by a hash of process and thread. Whether one is the thread's is seen in it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* a power of two, set at load time */
	__type(key, __u32);
	__type(value, __u64);
} python_threads SEC(".maps");
const volatile __u32 python_threads_mask = 0;

/* Into walk->listed_words. 0 if it cannot be read. */
__attribute__((noinline)) int listed_learn(__u32 cpu, __u32 place)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 0;
	for (__u32 i = 0; i < LISTED_PROCESS_WORDS; i++)
		walk->listed_words[i] = WALK_HEAP64((__u64)place + i * 8);
	return 1;
}

__attribute__((noinline)) int python_search(__u32 cpu, __u64 thread)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? python_search_step(walk, thread) : -1;
}

/* A turn of states; as the last of them. */
#define PYTHON_TURN_THREADS 32u
_Static_assert(PYTHON_THREADS_MAX % PYTHON_TURN_THREADS == 0, "turns are enough for all");
__attribute__((noinline)) int python_search_turn(__u32 cpu, __u64 thread)
{
	int r = 0;

	for (__u32 i = 0; i < PYTHON_TURN_THREADS && !r; i++)
		r = python_search(cpu, thread);
	return r;
}

/* Whether walk->python_state is the state of the thread that has the lock. */
__attribute__((noinline)) int python_try_holder(__u32 cpu, __u64 thread)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 0;
	walk->python_state = python_holder(walk);
	return python_is_thread(walk, walk->python_state, thread);
}

__attribute__((noinline)) int python_try_known(__u32 cpu, __u64 thread, __u64 state)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 0;
	walk->python_state = state;
	return python_is_thread(walk, state, thread) && python_is_listed(walk, state);
}

/* Sets walk->python_state. */
__attribute__((noinline)) int python_find(__u32 cpu, __u64 thread)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u32 slot = walk_hash(bpf_get_current_pid_tgid() >> 32, thread) >> 32 & python_threads_mask;
	__u64 *known = bpf_map_lookup_elem(&python_threads, &slot);
	int r = 0;

	if (!walk || !known)
		return 0;
	if (python_try_holder(cpu, thread)) {
		*known = walk->python_state;
		return 1;
	}
	if (*known && python_try_known(cpu, thread, *known))
		return 1;
	walk->python_state = walk->python_interpreter = 0;
	walk->python_interpreters = 0;
	for (__u32 i = 0; i < PYTHON_THREADS_MAX / PYTHON_TURN_THREADS && !r; i++)
		r = python_search_turn(cpu, thread);
	if (r <= 0)
		return 0;
	*known = walk->python_state;
	return 1;
}

static __always_inline void listed_note(struct walk *walk, __u32 tgid)
{
	__u32 last = (walk->listed_count - 1) & (LISTED_FRAMES_MAX - 1);
	__u64 check = RUNTIME_CHECK(walk->listed_frames[last][1]);

	if (note_function(walk->listed_frames[last][0], check, tgid))
		walk->listed_is_new = 1;
}

/* One frame; 1 at the end. */
__attribute__((noinline)) int python_collect(__u32 cpu, __u32 tgid)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 1;
	__u32 before = walk->listed_count;
	int r = python_collect_step(walk);
	if (walk->listed_count != before)
		listed_note(walk, tgid);
	return r;
}

static __always_inline int python_begin(struct walk *walk, __u32 cpu)
{
	__u64 thread = 0;

	if (thread_pointer(&thread) || !python_find(cpu, thread))
		return 0;
	walk->listed_frame = python_first_frame(walk, walk->python_state);
	return 1;
}

/* One frame; 1 at the end. */
__attribute__((noinline)) int php_collect(__u32 cpu, __u32 tgid)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 1;
	__u32 before = walk->listed_count;
	int r = php_collect_step(walk);
	if (walk->listed_count != before)
		listed_note(walk, tgid);
	return r;
}

__attribute__((noinline)) int php_begin(__u32 cpu, __u32 tgid)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u64 thread = 0;

	if (!walk)
		return 0;
	if (walk->php.globals && (__u32)bpf_get_current_pid_tgid() != tgid) /* other threads are not PHP's */
		return 0;
	if (!walk->php.globals && thread_pointer(&thread))
		return 0;
	walk->listed_frame = php_first_frame(walk, thread);
	return 1;
}

/* One context; 1 at the end. */
__attribute__((noinline)) int perl_collect(__u32 cpu, __u32 tgid)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 1;
	__u32 before = walk->listed_count;
	int r = perl_collect_step(walk);
	if (walk->listed_count != before)
		listed_note(walk, tgid);
	return r;
}

__attribute__((noinline)) int perl_begin(__u32 cpu, __u32 tgid)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u64 thread = 0, interpreter = 0;

	if (!walk)
		return 0;
	if (!walk->perl.key && (__u32)bpf_get_current_pid_tgid() != tgid) /* other threads are not Perl's */
		return 0;
	if (walk->perl.key) {
		if (thread_pointer(&thread))
			return 0;
		interpreter = perl_interpreter(walk, thread);
		if (!interpreter)
			return 0;
	}
	perl_first_frame(walk, interpreter);
	return 1;
}

/* One frame; 1 at the end. */
__attribute__((noinline)) int ruby_collect(__u32 cpu, __u32 tgid)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 1;
	__u32 before = walk->listed_count;
	int r = ruby_collect_step(walk);
	if (walk->listed_count != before)
		listed_note(walk, tgid);
	return r;
}

__attribute__((noinline)) int ruby_begin(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u64 thread = 0;

	if (!walk || thread_pointer(&thread))
		return 0;
	ruby_first_frame(walk, ruby_context(walk, thread));
	return 1;
}

/* Sets walk->listed_frame, and what else the steps begin with. 0 if the thread has no frames. */
__attribute__((noinline)) int listed_begin(__u32 cpu, __u32 tgid)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 0;
	switch (walk->listed.kind) {
	case RUNTIME_KIND_PYTHON: return python_begin(walk, cpu);
	case RUNTIME_KIND_PHP: return php_begin(cpu, tgid);
	case RUNTIME_KIND_PERL: return perl_begin(cpu, tgid);
	case RUNTIME_KIND_RUBY: return ruby_begin(cpu);
	}
	return 0;
}

/* A turn of steps; 1 at the end. */
__attribute__((noinline)) int listed_collect_turn(__u32 cpu, __u32 tgid, __u32 kind)
{
	for (__u32 i = 0; i < LISTED_TURN_STEPS; i++) {
		int is_over = 1;

		switch (kind) {
		case RUNTIME_KIND_PYTHON: is_over = python_collect(cpu, tgid); break;
		case RUNTIME_KIND_PHP: is_over = php_collect(cpu, tgid); break;
		case RUNTIME_KIND_PERL: is_over = perl_collect(cpu, tgid); break;
		case RUNTIME_KIND_RUBY: is_over = ruby_collect(cpu, tgid); break;
		}
		if (is_over)
			return 1;
	}
	return 0;
}

__attribute__((noinline)) int lua_leave_loop(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk && lua_has_left_loop(walk) && !lua_read_saved(walk);
}

__attribute__((noinline)) int lua_try(__u32 cpu, __u32 i)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (walk)
		lua_try_saved(walk, i);
	return 0;
}

__attribute__((noinline)) int lua_enter(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? lua_enter_state(walk) : -1;
}

/* How far one call, or frame, went. */
enum {
	LUA_GOES_ON,
	LUA_PART_OVER,
	LUA_LIST_OVER, /* besides */
};

static __always_inline int lua_how_far(const struct walk *walk, int is_over)
{
	if (!is_over)
		return LUA_GOES_ON;
	return lua_is_done(walk) ? LUA_LIST_OVER : LUA_PART_OVER;
}

/* One call. */
__attribute__((noinline)) int lua_collect(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return LUA_LIST_OVER;
	__u32 before = walk->listed_count;
	int r = lua_collect_step(walk);
	if (walk->listed_count != before)
		listed_note(walk, bpf_get_current_pid_tgid() >> 32);
	return lua_how_far(walk, r);
}

/* ---- LuaJIT ---- */

__attribute__((noinline)) int luajit_try(__u32 cpu, __u32 i)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? luajit_try_frame(walk, i) : -1;
}

__attribute__((noinline)) int luajit_try_top(__u32 cpu, __u32 i)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? luajit_try_base(walk, i) : 0;
}

/* Whether the frame that the walk has come to is one of a state: walk->lua_best. */
__attribute__((noinline)) int luajit_find_frame(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	int found = 0;

	if (!walk || !luajit_begin(walk))
		return 0;
	walk->listed_loops += walk->luajit_where == LUAJIT_IN_LOOP;
	walk->listed_missed += walk->luajit_where == LUAJIT_IN_LOOP; /* until a part was found */
	for (__u32 i = 0; i < LUAJIT_SCAN_FRAMES && !found; i++)
		found = luajit_try(cpu, i);
	if (found <= 0)
		return 0;
	walk->listed_loops += walk->luajit_where != LUAJIT_IN_LOOP;
	walk->listed_missed += walk->luajit_where != LUAJIT_IN_LOOP;
	return 1;
}

__attribute__((noinline)) int luajit_find_top(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	int found = 0;

	if (!walk)
		return 0;
	luajit_begin_bases(walk);
	for (__u32 i = 0; i < LUAJIT_BASES && !found; i++)
		found = luajit_try_top(cpu, i);
	return found;
}

__attribute__((noinline)) int luajit_enter_state(__u32 cpu, __u32 found)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	int r;

	if (!walk)
		return 0;
	r = luajit_enter(walk, found);
	luajit_size_frame(walk);
	walk->listed_missed -= r >= 0 && found;
	return r > 0;
}

/* Whether the frame that the walk has come to has a part of a list: it is to be collected. */
__attribute__((noinline)) int luajit_find(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	int found = 1, is_new;

	if (!walk || !luajit_find_frame(cpu))
		return 0;
	is_new = walk->lua_at >= LUA_STATES_MAX;
	if (is_new)
		found = luajit_find_top(cpu);
	if (!luajit_enter_state(cpu, found))
		return 0;
	if (is_new && walk->luajit_trace) {
		luajit_add_trace(walk);
		listed_note(walk, bpf_get_current_pid_tgid() >> 32);
	}
	return 1;
}

/* One frame. */
__attribute__((noinline)) int luajit_collect(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return LUA_LIST_OVER;
	__u32 before = walk->listed_count;
	int r = luajit_collect_step(walk);
	if (walk->listed_count != before)
		listed_note(walk, bpf_get_current_pid_tgid() >> 32);
	return lua_how_far(walk, r);
}

/* All frames of the current thread, into walk->listed_frames. */
__attribute__((noinline)) int listed_collect_all(__u32 cpu, __u32 place, __u32 tgid)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk || !listed_learn(cpu, place))
		return 0;
	if (!listed_begin(cpu, tgid))
		return 0;
	for (__u32 i = 0; i < LISTED_TURNS; i++) {
		if (listed_collect_turn(cpu, tgid, walk->listed.kind))
			break;
	}
	return 0;
}

/* One of the frames that the walk has not come to. */
__attribute__((noinline)) int listed_append_rest(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? listed_append_pending(walk) : 0;
}

/* A turn of them; 1 at the end. */
__attribute__((noinline)) int listed_append_turn(__u32 cpu)
{
	for (__u32 i = 0; i < LISTED_TURN_STEPS; i++) {
		if (!listed_append_rest(cpu))
			return 1;
	}
	return 0;
}

/* All of them. By itself, so that the verifier goes through the loop once, and not for each way that leads to it. */
__attribute__((noinline)) int listed_append_all(__u32 cpu)
{
	for (__u32 i = 0; i < LISTED_FRAMES_MAX / LISTED_TURN_STEPS; i++) {
		if (listed_append_turn(cpu))
			break;
	}
	return 0;
}

/* A turn of calls: up to the end of the part, or with is_rest, of the list; 1 at the end. */
__attribute__((noinline)) int lua_collect_turn(__u32 cpu, __u32 is_rest)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 1;
	/* A loop each, and one branch in it: the verifier follows each way of each iteration. */
	int least = is_rest ? LUA_LIST_OVER : LUA_PART_OVER;
	if (walk->listed.kind == RUNTIME_KIND_LUAJIT) {
		for (__u32 i = 0; i < LISTED_TURN_STEPS; i++) {
			if (luajit_collect(cpu) >= least)
				return 1;
		}
		return 0;
	}
	for (__u32 i = 0; i < LISTED_TURN_STEPS; i++) {
		if (lua_collect(cpu) >= least)
			return 1;
	}
	return 0;
}

/* Of the state that was entered. */
__attribute__((noinline)) int lua_collect_all(__u32 cpu, __u32 is_rest)
{
	for (__u32 i = 0; i < LUA_CALLS_READ / LISTED_TURN_STEPS; i++) {
		if (lua_collect_turn(cpu, is_rest))
			break;
	}
	return 0;
}

/* The words of the frame that the walk has left. Below 0 if none of them is a state; above, one before it has a rest. */
__attribute__((noinline)) int lua_find(__u32 cpu)
{
	if (!lua_leave_loop(cpu))
		return -1;
	for (__u32 i = 0; i < LUA_SAVED_WORDS; i++)
		lua_try(cpu, i);
	return lua_enter(cpu);
}

/* The walk has ended with a result: what follows is left to user space. */
__attribute__((noinline)) int lua_end(__u32 cpu, int result)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	/* Of a frame of the loop that could not be left it is not known which part it runs. */
	if (!walk || !walk->lua_states || (walk->lua_in_loop && !UNWIND_IS_COMPLETE(result)))
		return result;
	lua_collect_all(cpu, 1);
	return walk->listed_missed && UNWIND_IS_COMPLETE(result) ? UNWIND_TOO_DEEP : result;
}

__attribute__((noinline)) int listed_append_next(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk || walk->listed_appends != LISTED_APPENDS_PART)
		return 0;
	listed_go_on(walk);
	return 1;
}

/* A turn of them; 1 at the end of the part. */
#define LISTED_PART_STEPS 64u
_Static_assert(LISTED_FRAMES_MAX % LISTED_PART_STEPS == 0, "turns are enough for all");
__attribute__((noinline)) int listed_append_part(__u32 cpu)
{
	for (__u32 i = 0; i < LISTED_PART_STEPS; i++) {
		if (!listed_append_next(cpu))
			return 1;
	}
	return 0;
}

/* Collects the part that a frame of the loop runs, if the walk has left one. */
static __always_inline void lua_meet_frame(struct walk *walk, __u32 cpu)
{
	int before = lua_find(cpu);
	__u32 now = walk->lua_at;

	if (before < 0)
		return;
	if (before > 0) {
		listed_hold(walk);
		walk->lua_at = before - 1;
		lua_collect_all(cpu, 1);
		walk->lua_at = now;
		listed_append_all(cpu);
	}
	lua_collect_all(cpu, 0);
	lua_leave_part(walk);
}

/* Collects the part that the frame which the walk has come to runs, if it is one of LuaJIT. */
static __always_inline void luajit_meet_frame(struct walk *walk, __u32 cpu)
{
	if (!luajit_find(cpu))
		return;
	lua_collect_all(cpu, 0);
	if (walk->listed_next >= walk->listed_count)
		return;
	walk->listed_appends = LISTED_APPENDS_PART;
}

/* Puts the functions that the frame of an interpreter's loop runs behind it. WALK_GOES_ON, or UNWIND_TOO_DEEP. */
__attribute__((noinline)) int listed_meet_frame(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return WALK_GOES_ON;
	if (walk->listed.kind == RUNTIME_KIND_LUAJIT)
		luajit_meet_frame(walk, cpu);
	else if (walk->listed.flags & LISTED_STATES)
		lua_meet_frame(walk, cpu);
	else
		listed_meet(walk);
	if (!walk->listed_appends)
		return WALK_GOES_ON;
	for (__u32 i = 0; i < LISTED_FRAMES_MAX / LISTED_PART_STEPS; i++) {
		if (listed_append_part(cpu))
			break;
	}
	return walk->listed_appends ? UNWIND_TOO_DEEP : WALK_GOES_ON;
}

static __always_inline void listed_end(struct abi_ring *ring, struct walk *walk, __u32 cpu)
{
	__u32 kind = walk->listed.kind;

	if (kind >= RUNTIME_KINDS)
		return;
	ring->counters[ABI_COUNT_RUNTIME(kind, ABI_RUNTIME_SAMPLES)] += walk->listed_count > 0;
	ring->counters[ABI_COUNT_RUNTIME(kind, ABI_RUNTIME_FRAMES)] += walk->listed_count;
	ring->counters[ABI_COUNT_RUNTIME(kind, ABI_RUNTIME_UNKNOWN)] += walk->listed_loops && !walk->listed_count;
	if (walk->listed_next < walk->listed_count)
		listed_append_all(cpu);
}

#endif
