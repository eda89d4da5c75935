/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs for bench/interop.sh: interop_input FORMAT MEGABYTES writes about that much of a profile to standard output, the same
 * on each run. The profile: 16 threads that call 2,000 functions of 20 binaries, 4 to 40 frames deep; stacks repeat as those of
 * real programs do, a few of them most of the time.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS 2000
#define STACKS	  20000
#define DEPTH_MAX 40

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static struct stack {
	unsigned depth;
	uint16_t functions[DEPTH_MAX]; /* root first */
} stacks[STACKS];

static void make_stacks(void)
{
	for (size_t i = 0; i < STACKS; i++) {
		/* Most stacks share the callers of one before. */
		const struct stack *like = i > 0 && next_random() % 8 ? &stacks[next_random() % i] : NULL;
		stacks[i].depth = 4 + (unsigned)(next_random() % (DEPTH_MAX - 3));
		for (unsigned k = 0; k < stacks[i].depth; k++)
			stacks[i].functions[k] =
				like && k < like->depth / 4 * 3 ? like->functions[k] : (uint16_t)(next_random() % FUNCTIONS);
	}
}

/* The smaller the number the likelier. */
static const struct stack *pick(void)
{
	uint64_t a = next_random() % STACKS, b = next_random() % STACKS;
	return &stacks[a * b / STACKS];
}

static size_t written;
#define put(...) (written += (size_t)printf(__VA_ARGS__))

static void put_folded(void)
{
	const struct stack *stack = pick();
	for (unsigned k = 0; k < stack->depth; k++)
		put("%snamespace_%u::function_%u", k ? ";" : "", stack->functions[k] % 20, stack->functions[k]);
	put(" %u\n", (unsigned)(next_random() % 100 + 1));
}

static void put_perf_script(uint64_t n)
{
	const struct stack *stack = pick();
	unsigned thread = (unsigned)(next_random() % 16);
	put("worker-%u %6u [%03u] %" PRIu64 ".%06" PRIu64 ":   10101010 cpu-clock: \n", thread, 1000 + thread, thread % 4,
	    1000 + n / 10000, n % 10000 * 100);
	for (unsigned k = stack->depth; k-- > 0;)
		put("\t%16x namespace_%u::function_%u+0x1f (/usr/lib/library_%u.so)\n", 0x1000u + stack->functions[k] * 64u,
		    stack->functions[k] % 20, stack->functions[k], stack->functions[k] % 20);
	put("\n");
}

/* One tree of nodes, and samples of it. */
static void put_cpuprofile(size_t bytes)
{
	put("{\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":\"(root)\",\"url\":\"\",\"lineNumber\":-1,\"columnNumber\":-"
	    "1}}");
	unsigned id = 1, leaf[STACKS];
	for (size_t i = 0; i < STACKS / 4; i++) {
		unsigned parent = 1;
		for (unsigned k = 0; k < stacks[i].depth; k++) {
			unsigned f = stacks[i].functions[k];
			put(",\n{\"id\":%u,\"parent\":%u,\"callFrame\":{\"functionName\":\"function_%u\",\"scriptId\":\"7\","
			    "\"url\":\"file:///srv/app/module_%u.js\",\"lineNumber\":%u,\"columnNumber\":3}}",
			    ++id, parent, f, f % 20, f);
			parent = id;
		}
		leaf[i] = parent;
	}
	put("],\"startTime\":1000,\"endTime\":4000000000000,\"samples\":[1");
	size_t count = 1;
	for (; written < bytes * 2 / 3; count++)
		put(",%u", leaf[next_random() % (STACKS / 4)]);
	put("],\"timeDeltas\":[0");
	while (count-- > 1)
		put(",%u", 900u + (unsigned)(next_random() % 200));
	put("]}\n");
}

static void put_speedscope(size_t bytes)
{
	put("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"shared\":{\"frames\":[");
	for (unsigned i = 0; i < FUNCTIONS; i++)
		put("%s{\"name\":\"namespace_%u::function_%u\",\"file\":\"src/file_%u.cc\",\"line\":%u}", i ? ",\n" : "",
		    i % 20, i, i % 20, i + 1);
	put("]},\"profiles\":[{\"type\":\"sampled\",\"name\":\"x\",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":1000,"
	    "\"samples\":[[0]");
	size_t count = 1;
	for (; written < bytes * 19 / 20; count++) {
		const struct stack *stack = pick();
		put(",[");
		for (unsigned k = 0; k < stack->depth; k++)
			put("%s%u", k ? "," : "", stack->functions[k]);
		put("]");
	}
	put("],\"weights\":[1");
	while (count-- > 1)
		put(",10101010");
	put("]}]}\n");
}

/* Begins and ends on 16 threads. */
static void put_chrome_trace(size_t bytes)
{
	uint64_t time = 1000;
	put("{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"cat\":\"__metadata\",\"pid\":1,\"tid\":0,\"ts\":0,"
	    "\"args\":{\"name\":\"app\"}}");
	while (written < bytes) {
		const struct stack *stack = pick();
		unsigned thread = (unsigned)(next_random() % 16);
		for (unsigned k = 0; k < stack->depth * 2; k++) {
			unsigned at = k < stack->depth ? k : 2 * stack->depth - 1 - k;
			put(",\n{\"ph\":\"%s\",\"cat\":\"app\",\"name\":\"function_%u\",\"pid\":1,\"tid\":%u,\"ts\":%" PRIu64
			    "}",
			    k < stack->depth ? "B" : "E", stack->functions[at], thread, time += 3);
		}
	}
	put("]}\n");
}

/* ---- pprof ---- */

static unsigned char message[4096];
static size_t message_len;

static void put_varint(uint64_t value)
{
	for (; value >= 128; value >>= 7)
		message[message_len++] = (unsigned char)(value | 128);
	message[message_len++] = (unsigned char)value;
}

static void put_field(unsigned number, uint64_t value)
{
	put_varint(number << 3);
	put_varint(value);
}

static void put_bytes(unsigned number, const void *bytes, size_t len)
{
	put_varint(number << 3 | 2);
	put_varint(len);
	memcpy(message + message_len, bytes, len);
	message_len += len;
}

/* What was put since `from` becomes a field of the message before it. */
static void wrap(size_t from, unsigned number)
{
	unsigned char inner[sizeof(message)];
	size_t len = message_len - from;
	memcpy(inner, message + from, len);
	message_len = from;
	put_bytes(number, inner, len);
}

static void flush(unsigned number)
{
	wrap(0, number);
	written += fwrite(message, 1, message_len, stdout);
	message_len = 0;
}

static void put_string(const char *text)
{
	put_bytes(6, text, strlen(text));
	written += fwrite(message, 1, message_len, stdout);
	message_len = 0;
}

/* Strings: 0 "", 1 cpu, 2 nanoseconds, 3 thread.id, 4 /bin/app, 5 request, 6... of functions; a location for each function.
 * Samples of a stack are told apart by a thread and a label with 64 values. */
static void put_pprof(size_t bytes)
{
	char name[64];
	static const char *const strings[] = {"", "cpu", "nanoseconds", "thread.id", "/bin/app", "request"};
	for (size_t i = 0; i < 6; i++)
		put_string(strings[i]);
	put_field(1, 1);
	put_field(2, 2);
	flush(1);
	put_field(1, 1);
	put_field(2, 0x400000);
	put_field(3, 0x800000);
	put_field(5, 4);
	flush(3);
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		snprintf(name, sizeof(name), "namespace_%u::function_%u", i % 20, i);
		put_string(name);
		put_field(1, i + 1);
		put_field(2, 6 + i);
		put_field(3, 6 + i);
		flush(5);
		put_field(1, i + 1);
		put_field(2, 1);
		put_field(3, 0x400000 + 64 * i);
		size_t from = message_len;
		put_field(1, i + 1);
		put_field(2, i);
		wrap(from, 4);
		flush(4);
	}
	for (uint64_t n = 0; written < bytes; n++) {
		const struct stack *stack = pick();
		for (unsigned k = stack->depth; k-- > 0;)
			put_varint(stack->functions[k] + 1u);
		wrap(0, 1);
		put_field(2, 10101010);
		size_t from = message_len;
		put_field(1, 3);
		put_field(3, 100 + n % 16);
		wrap(from, 3);
		from = message_len;
		put_field(1, 5);
		put_field(3, 1 + next_random() % 64);
		wrap(from, 3);
		flush(2);
	}
}

int main(int argc, char **argv)
{
	size_t bytes = argc == 3 ? strtoull(argv[2], NULL, 10) * 1000000 : 0;
	if (!bytes) {
		fprintf(stderr, "usage: interop_input pprof|folded|perf-script|cpuprofile|speedscope|chrome-trace MEGABYTES\n");
		return 2;
	}
	make_stacks();
	if (strcmp(argv[1], "pprof") == 0)
		put_pprof(bytes);
	else if (strcmp(argv[1], "cpuprofile") == 0)
		put_cpuprofile(bytes);
	else if (strcmp(argv[1], "speedscope") == 0)
		put_speedscope(bytes);
	else if (strcmp(argv[1], "chrome-trace") == 0)
		put_chrome_trace(bytes);
	else if (strcmp(argv[1], "folded") == 0)
		while (written < bytes)
			put_folded();
	else
		for (uint64_t n = 0; written < bytes; n++)
			put_perf_script(n);
	return 0;
}
