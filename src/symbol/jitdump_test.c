/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/test_fixture.h"
#include "base/time.h"
#include "symbol/jit_files.h"
#include "symbol/jitdump.h"
#include "symbol/symbol_int.h"

#define V8_PADDING 0xdeadbeefu

/* ---- writing ---- */

static void put32(struct buffer *out, uint32_t value)
{
	assert_int_equal(buffer_append(out, &value, sizeof(value)), 0);
}

static void put64(struct buffer *out, uint64_t value)
{
	assert_int_equal(buffer_append(out, &value, sizeof(value)), 0);
}

static void put_header(struct buffer *out, uint32_t padding, uint64_t flags)
{
	put32(out, 0x4a695444);
	put32(out, 1);
	put32(out, 40);
	put32(out, 62);
	put32(out, padding);
	put32(out, 4242);
	put64(out, 1000);
	put64(out, flags);
}

static void put_head(struct buffer *out, uint32_t kind, size_t len, uint64_t time)
{
	put32(out, kind);
	put32(out, (uint32_t)len);
	put64(out, time);
}

static void put_code_head(struct buffer *out)
{
	put32(out, 4242);
	put32(out, 4242);
}

static void put_load(struct buffer *out, uint64_t time, uint64_t start, uint64_t size, uint64_t index, const char *name)
{
	put_head(out, 0, 56 + strlen(name) + 1 + 8, time);
	put_code_head(out);
	put64(out, start);
	put64(out, start);
	put64(out, size);
	put64(out, index);
	assert_int_equal(buffer_append(out, name, strlen(name) + 1), 0);
	put64(out, 0x9090909090909090);
}

static void put_move(struct buffer *out, uint64_t time, uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
	put_head(out, 1, 64, time);
	put_code_head(out);
	put64(out, to);
	put64(out, from);
	put64(out, to);
	put64(out, size);
	put64(out, index);
}

struct line {
	uint64_t address;
	uint32_t line;
	const char *file;
};

static void put_lines(struct buffer *out, uint64_t start, uint64_t claimed, const struct line *lines, size_t count)
{
	size_t len = 32;
	for (size_t i = 0; i < count; i++)
		len += 16 + strlen(lines[i].file) + 1;
	put_head(out, 2, len, 1);
	put64(out, start);
	put64(out, claimed);
	for (size_t i = 0; i < count; i++) {
		put64(out, lines[i].address);
		put32(out, lines[i].line);
		put32(out, 0);
		assert_int_equal(buffer_append(out, lines[i].file, strlen(lines[i].file) + 1), 0);
	}
}

/* ---- reading from memory ---- */

/* Whole records, as the reader of files hands them over. Returns how many bytes were taken in. */
static size_t feed(struct jitdump *dump, struct bytes file)
{
	size_t at = JITDUMP_HEADER_BYTES, want;
	uint64_t len;
	if (file.len < at || jitdump_read_header(dump, file.data) < 0)
		return 0;
	while (file.len - at >= JITDUMP_RECORD_BYTES && !dump->is_broken && !dump->is_closed) {
		if (!jitdump_measure_record(dump, file.data + at, &len, &want) || len > file.len - at)
			break;
		assert_int_equal(jitdump_add_record(dump, (struct bytes){file.data + at, want}), 0);
		at += len;
	}
	assert_int_equal(jitdump_settle(dump), 0);
	return at;
}

static const char *name_at(struct jitdump *dump, uint64_t address, uint64_t time)
{
	size_t steps = 1000;
	const struct jitdump_entry *entry = jitdump_find(dump, address, time, &steps);
	return entry ? jitdump_text(dump, entry->name) : "";
}

/* "FILE:LINE", "" if unknown. */
static const char *line_at(struct jitdump *dump, uint64_t address)
{
	static char text[256];
	size_t steps = 1000;
	const struct jitdump_entry *entry = jitdump_find(dump, address, UINT64_MAX, &steps);
	const struct jitdump_line *line = entry ? jitdump_find_line(dump, entry, address) : NULL;
	text[0] = 0;
	if (line)
		snprintf(text, sizeof(text), "%s:%u", jitdump_text(dump, line->file), line->line);
	return text;
}

struct memory {
	struct buffer file;
	struct jitdump dump;
};

static int memory_set_up(void **state)
{
	struct memory *m = mem_zalloc(sizeof(*m));
	buffer_init(&m->file, 1 << 26);
	jitdump_init(&m->dump);
	*state = m;
	return 0;
}

static int memory_tear_down(void **state)
{
	struct memory *m = *state;
	buffer_release(&m->file);
	jitdump_release(&m->dump);
	mem_free(m);
	return 0;
}

static void test_functions(void **state)
{
	struct memory *m = *state;
	put_header(&m->file, 0, 0);
	put_load(&m->file, 10, 0x1000, 0x100, 1, "name with spaces");
	put_load(&m->file, 20, 0x2000, 0x10, 2, "other");
	put_head(&m->file, 4, 16, 21); /* unwinding information, and what is to come */
	put_head(&m->file, 99, 16, 21);
	put_load(&m->file, 30, 0x3000, 0x10, 3, "third");
	put_head(&m->file, 3, 16, 40);
	put_load(&m->file, 50, 0x4000, 0x10, 4, "behind the end");
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(name_at(&m->dump, 0x1000, 100), "name with spaces");
	assert_string_equal(name_at(&m->dump, 0x10ff, 100), "name with spaces");
	assert_string_equal(name_at(&m->dump, 0x1100, 100), "");
	assert_string_equal(name_at(&m->dump, 0x300f, 100), "third");
	assert_string_equal(name_at(&m->dump, 0x4000, 100), "");
	assert_true(m->dump.is_closed);
	assert_int_equal(m->dump.bad_records, 0);
}

/* The last one that was loaded before the sample. */
static void test_addresses_used_again(void **state)
{
	struct memory *m = *state;
	const uint64_t s = 1000000000;
	put_header(&m->file, 0, 0);
	put_load(&m->file, 10 * s, 0x1000, 0x100, 1, "first");
	put_load(&m->file, 20 * s, 0x1080, 0x100, 2, "second");
	put_load(&m->file, 30 * s, 0x1000, 0x100, 3, "third");
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(name_at(&m->dump, 0x1090, 15 * s), "first");
	assert_string_equal(name_at(&m->dump, 0x1090, 20 * s), "second");
	assert_string_equal(name_at(&m->dump, 0x1090, 29 * s), "second");
	assert_string_equal(name_at(&m->dump, 0x1090, 31 * s), "third");
	assert_string_equal(name_at(&m->dump, 0x1000, 29 * s), "first");
	assert_string_equal(name_at(&m->dump, 0x1120, 31 * s), "second");
	/* Before there was anything; but a compiler may say it a little late. */
	assert_string_equal(name_at(&m->dump, 0x1090, 5 * s), "");
	assert_string_equal(name_at(&m->dump, 0x1090, 10 * s - s / 2), "first");
	/* The search is paid for. */
	size_t steps = 1;
	assert_null(jitdump_find(&m->dump, 0x1090, 15 * s, &steps));
	assert_int_equal(m->dump.searches_given_up, 1);
	assert_int_equal(steps, 0);
	assert_null(jitdump_find(&m->dump, 0x1090, 15 * s, &steps));
}

static void test_times_of_another_clock(void **state)
{
	struct memory *m = *state;
	put_header(&m->file, 0, 1);
	put_load(&m->file, 1ull << 60, 0x1000, 0x100, 1, "first");
	put_load(&m->file, 2ull << 60, 0x1000, 0x100, 2, "second");
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(name_at(&m->dump, 0x1000, 5), "second");
}

static void test_moves(void **state)
{
	struct memory *m = *state;
	put_header(&m->file, 0, 0);
	put_load(&m->file, 10, 0x1000, 0x100, 7, "mover");
	put_load(&m->file, 10, 0x5000, 0x100, 8, "other");
	put_move(&m->file, 20, 0x1000, 0x2000, 0x100, 7);
	put_move(&m->file, 30, 0x2000, 0x3000, 0x100, 7);
	put_move(&m->file, 40, 0x1000, 0x4000, 0x100, 7); /* it is not there any more */
	put_move(&m->file, 40, 0x1000, 0x4000, 0x100, 9); /* never heard of */
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(name_at(&m->dump, 0x3010, 50), "mover");
	assert_string_equal(name_at(&m->dump, 0x1010, 15), "mover");
	assert_string_equal(name_at(&m->dump, 0x4010, 50), "");
	assert_int_equal(m->dump.bad_records, 2);
}

static void test_lines(void **state)
{
	struct memory *m = *state;
	struct line lines[] = {{0x1000, 10, "/src/a.js"}, {0x1010, 12, "\xff"}, {0x1020, 3, "/src/b.js"}};
	put_header(&m->file, 0, 0);
	put_lines(&m->file, 0x1000, 3, lines, 3);
	put_load(&m->file, 10, 0x1000, 0x100, 1, "with lines");
	put_load(&m->file, 10, 0x2000, 0x100, 2, "without");
	put_move(&m->file, 20, 0x1000, 0x3000, 0x100, 1);
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(line_at(&m->dump, 0x100f), "/src/a.js:10");
	assert_string_equal(line_at(&m->dump, 0x101f), "/src/a.js:12");
	assert_string_equal(line_at(&m->dump, 0x10ff), "/src/b.js:3");
	assert_string_equal(line_at(&m->dump, 0x2000), "");
	assert_string_equal(line_at(&m->dump, 0x3011), "/src/a.js:12");
	assert_int_equal(m->dump.bad_debug_infos, 0);
}

/* V8's addresses leave room for an ELF header. */
static void test_lines_of_v8(void **state)
{
	struct memory *m = *state;
	struct line lines[] = {{0x1048, 10, "/src/a.js"}, {0x1050, 12, "/src/a.js"}};
	put_header(&m->file, V8_PADDING, 0);
	put_lines(&m->file, 0x1000, 2, lines, 2);
	put_load(&m->file, 10, 0x1000, 0x100, 1, "with lines");
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(line_at(&m->dump, 0x1000), "");
	assert_string_equal(line_at(&m->dump, 0x1008), "/src/a.js:10");
	assert_string_equal(line_at(&m->dump, 0x1010), "/src/a.js:12");
}

/* One entry that makes no sense, and the whole table is left out; the function keeps its name. */
static void test_lines_that_make_no_sense(void **state)
{
	struct memory *m = *state;
	struct line good = {0x1000, 10, "/src/a.js"};
	struct line bad[] = {
		{0xfff, 10, "/src/a.js"},		  /* before the function */
		{0x1100, 10, "/src/a.js"},		  /* behind it */
		{0x1000 + (1ull << 33), 10, "/src/a.js"}, /* far behind it */
		{0x1001, 10, "\x03\x93"},		  /* memory given back, as node 20 does */
		{0x1001, 10, "a\nb"},			  /* control characters */
		{0x1001, 10, ""},			  /* nothing */
		{0x1001, 0xfffffff0, "/src/a.js"},	  /* a negative line */
	};
	put_header(&m->file, 0, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct line lines[] = {good, bad[i]};
		put_lines(&m->file, 0x1000, 2, lines, 2);
		put_load(&m->file, i, 0x1000, 0x100, i, "function");
	}
	put_lines(&m->file, 0x1000, 3, &good, 1); /* claims more than there are */
	put_load(&m->file, 20, 0x1000, 0x100, 20, "function");
	put_lines(&m->file, 0x1000, UINT64_MAX, &good, 1);
	put_load(&m->file, 21, 0x1000, 0x100, 21, "function");
	put_lines(&m->file, 0x9000, 1, &good, 1); /* of another function */
	put_load(&m->file, 22, 0x1000, 0x100, 22, "function");
	struct line backwards[] = {{0x1010, 10, "/src/a.js"}, {0x1000, 10, "/src/a.js"}};
	put_lines(&m->file, 0x1000, 2, backwards, 2);
	put_load(&m->file, 23, 0x1000, 0x100, 23, "function");
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(name_at(&m->dump, 0x1000, 100), "function");
	for (size_t i = 0; i < m->dump.entry_count; i++)
		assert_int_equal(m->dump.entries[i].line_count, 0);
	assert_int_equal(m->dump.line_count, 0);
	assert_int_equal(m->dump.bad_debug_infos, sizeof(bad) / sizeof(bad[0]) + 4);
	assert_int_equal(m->dump.bad_records, 0);
}

static void test_records_that_make_no_sense(void **state)
{
	struct memory *m = *state;
	put_header(&m->file, 0, 0);
	put_load(&m->file, 1, 0x1000, 0, 1, "empty");
	put_load(&m->file, 1, UINT64_MAX - 5, 0x10, 1, "wraps");
	put_load(&m->file, 1, 0x1000, 1ull << 33, 1, "too large");
	put_load(&m->file, 1, 0x1000, 0x10, 1, "");
	put_head(&m->file, 0, 16, 1); /* too short for their kinds */
	put_head(&m->file, 1, 16, 1);
	put_head(&m->file, 2, 16, 1);
	put_load(&m->file, 1, 0x2000, 0x10, 1, "sound");
	put_head(&m->file, 0, 15, 1); /* and here it ends */
	put_load(&m->file, 1, 0x3000, 0x10, 1, "never found");
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(name_at(&m->dump, 0x1000, 100), "");
	assert_string_equal(name_at(&m->dump, 0x2000, 100), "sound");
	assert_string_equal(name_at(&m->dump, 0x3000, 100), "");
	assert_int_equal(m->dump.entry_count, 1);
	assert_int_equal(m->dump.bad_records, 8);
	assert_true(m->dump.is_broken);
}

static void test_headers(void **state)
{
	struct memory *m = *state;
	for (size_t at = 0; at < 12; at++) {
		buffer_clear(&m->file);
		put_header(&m->file, 0, 0);
		m->file.data[at] ^= 0x20;
		/* A longer header is allowed. */
		assert_int_equal(jitdump_read_header(&m->dump, m->file.data), at >= 8 && m->file.data[8] >= 40 ? 0 : -EINVAL);
	}
}

static void test_long_names(void **state)
{
	struct memory *m = *state;
	char *name = mem_alloc(3 * JITDUMP_NAME_MAX);
	memset(name, 'x', 3 * JITDUMP_NAME_MAX);
	put_header(&m->file, 0, 0);
	for (size_t len = JITDUMP_NAME_MAX - 1; len <= JITDUMP_NAME_MAX + 1; len++) {
		name[len] = 0;
		put_load(&m->file, 1, 0x1000 * len, 0x10, len, name);
		name[len] = 'x';
	}
	feed(&m->dump, buffer_bytes(&m->file));
	assert_int_equal(strlen(name_at(&m->dump, 0x1000 * (JITDUMP_NAME_MAX - 1), 5)), JITDUMP_NAME_MAX - 1);
	assert_int_equal(strlen(name_at(&m->dump, 0x1000 * JITDUMP_NAME_MAX, 5)), JITDUMP_NAME_MAX);
	assert_int_equal(strlen(name_at(&m->dump, 0x1000 * (JITDUMP_NAME_MAX + 1), 5)), JITDUMP_NAME_MAX);
	mem_free(name);
}

/* Against the definition, through all sizes of batches. */
static void test_random_loads(void **state)
{
	enum { LOADS = 80, SPACE = 400 };
	uint64_t seed = 11;
	for (unsigned round = 0; round < 100; round++) {
		struct jitdump dump;
		jitdump_init(&dump);
		struct buffer file;
		buffer_init(&file, 1 << 20);
		put_header(&file, 0, 0);
		unsigned starts[LOADS], sizes[LOADS];
		for (unsigned i = 0; i < LOADS; i++) {
			char name[16];
			seed = hash64_mix(seed + 1);
			starts[i] = (unsigned)(seed % 300);
			sizes[i] = 1 + (unsigned)(seed >> 32) % (round % 2 ? 100 : 8);
			snprintf(name, sizeof(name), "f%u", i);
			put_load(&file, (i + 1) * JITDUMP_LATE_NS * 2, starts[i], sizes[i], i, name);
		}
		feed(&dump, buffer_bytes(&file));
		for (unsigned at = 0; at < SPACE; at++) {
			unsigned now = (unsigned)(hash64_mix(seed + at) % LOADS);
			char expected[16] = "";
			for (unsigned i = 0; i <= now; i++) {
				if (starts[i] <= at && at - starts[i] < sizes[i])
					snprintf(expected, sizeof(expected), "f%u", i);
			}
			assert_string_equal(name_at(&dump, at, (now + 1) * JITDUMP_LATE_NS * 2), expected);
		}
		jitdump_release(&dump);
		buffer_release(&file);
	}
}

/* A process that compiles for ever at the same addresses: what is covered makes room, what is in use stays. */
static void test_room_for_the_latest(void **state)
{
	struct memory *m = *state;
	struct line lines[] = {{0x1000, 10, "/src/a.js"}};
	m->dump.entries_max = 50000;
	put_header(&m->file, 0, 0);
	put_lines(&m->file, 0x1000, 1, lines, 1);
	put_load(&m->file, 5, 0x1000, 0x10, 0, "stays");
	for (unsigned i = 1; i < 200000; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		put_load(&m->file, i * 10000000ull, 0x2000 + (i % 100) * 0x10, 0x10, i, name);
	}
	feed(&m->dump, buffer_bytes(&m->file));
	assert_string_equal(name_at(&m->dump, 0x1000, UINT64_MAX), "stays");
	assert_string_equal(line_at(&m->dump, 0x1000), "/src/a.js:10");
	assert_true(m->dump.entry_count <= m->dump.entries_max);
	/* Some were lost until enough had come to make it worth while, not for good. */
	assert_true(m->dump.dropped < 70000);
	const char *name = name_at(&m->dump, 0x2000 + 99 * 0x10, UINT64_MAX);
	unsigned long last = strtoul(name + 1, NULL, 10);
	assert_true(last % 100 == 99 && last > 100000);
}

static void test_limits_and_faults(void **state)
{
	struct memory *m = *state;
	m->dump.entries_max = 2;
	put_header(&m->file, 0, 0);
	for (unsigned i = 0; i < 4; i++)
		put_load(&m->file, 1, 0x1000 * (i + 1), 0x10, i, "f");
	feed(&m->dump, buffer_bytes(&m->file));
	assert_int_equal(m->dump.entry_count, 2);
	assert_int_equal(m->dump.dropped, 2);

	buffer_clear(&m->file);
	struct line lines[] = {{0x1000, 10, "/src/a.js"}};
	put_lines(&m->file, 0x1000, 1, lines, 1);
	put_load(&m->file, 1, 0x1000, 0x10, 1, "function");
	put_move(&m->file, 2, 0x1000, 0x2000, 0x10, 1);
	for (uint64_t n = 1;; n++) {
		struct jitdump dump;
		jitdump_init(&dump);
		int r = 0;
		fault_arm(FAULT_ALLOC, n, 0);
		for (size_t at = 0; at < m->file.len && r == 0;) {
			uint64_t len;
			size_t want;
			assert_true(jitdump_measure_record(&dump, m->file.data + at, &len, &want));
			r = jitdump_add_record(&dump, (struct bytes){m->file.data + at, want});
			at += len;
		}
		if (r == 0)
			r = jitdump_settle(&dump);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_true(r == 0 || (reached && r == -ENOMEM));
		assert_int_equal(jitdump_settle(&dump), 0);
		if (r == 0)
			assert_string_equal(name_at(&dump, 0x2000, 5), "function");
		jitdump_release(&dump);
		if (!reached)
			break;
	}
}

/* ---- files ---- */

struct fixture {
	char path[128];
	int fd;
	void *page;
	struct jitdump_file file;
	struct jitdumps *dumps;
	struct buffer text;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static void map_file(struct fixture *f)
{
	struct stat st;
	f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_true(f->fd >= 0);
	assert_int_equal(fstat(f->fd, &st), 0);
	f->page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, f->fd, 0);
	assert_ptr_not_equal(f->page, MAP_FAILED);
	f->file = (struct jitdump_file){.pid = getpid(), .path = f->path, .device = st.st_dev, .inode = st.st_ino};
	f->file.start = (uintptr_t)f->page;
	f->file.end = f->file.start + 4096;
}

static int fixture_init(struct fixture *f)
{
	snprintf(f->path, sizeof(f->path), "/tmp/jit-%d.dump", (int)getpid());
	unlink(f->path);
	buffer_init(&f->text, 1 << 26);
	map_file(f);
	assert_int_equal(jitdumps_new(&f->dumps, NULL), 0);
	f->dumps->files.pace = (struct jit_pace){0, INT64_MAX};
	put_header(&f->text, 0, 0);
	return 0;
}

static void fixture_release(struct fixture *f)
{
	unlink(f->path);
	jitdumps_free(f->dumps);
	munmap(f->page, 4096);
	close(f->fd);
	buffer_release(&f->text);
}

static void append(struct fixture *f)
{
	assert_true(lseek(f->fd, 0, SEEK_END) >= 0);
	assert_int_equal(write(f->fd, f->text.data, f->text.len), (ssize_t)f->text.len);
	buffer_clear(&f->text);
}

static void assert_name(struct fixture *f, uint64_t address, const char *expected)
{
	struct jit_function function = {.name = ""};
	assert_int_equal(jitdumps_lookup(f->dumps, &f->file, address, UINT64_MAX, &function), expected[0] != 0);
	assert_string_equal(function.name, expected);
}

static uint64_t problems(struct fixture *f, enum jit_problem problem)
{
	struct jit_stats stats;
	jitdumps_get_stats(f->dumps, &stats);
	return stats.problems[problem];
}

static void test_growth(void **state)
{
	struct fixture *f = *state;
	assert_name(f, 0x1000, "");
	put_load(&f->text, 1, 0x1000, 0x10, 1, "one");
	put_load(&f->text, 1, 0x2000, 0x10, 2, "two");
	f->text.len -= 20; /* half a record */
	append(f);
	assert_name(f, 0x1000, "one");
	assert_name(f, 0x2000, "");
	put_load(&f->text, 1, 0x2000, 0x10, 2, "two");
	memmove(f->text.data, f->text.data + f->text.len - 20, 20);
	f->text.len = 20;
	put_load(&f->text, 2, 0x1000, 0x8, 3, "newer one");
	append(f);
	assert_name(f, 0x2000, "two");
	assert_name(f, 0x1000, "newer one");
	assert_name(f, 0x1008, "one");
	for (unsigned i = 0; i < 20000; i++)
		put_load(&f->text, 3, 0x100000 + i * 0x10, 0x10, i, "many");
	append(f);
	assert_name(f, 0x100000 + 19999 * 0x10, "many");
	f->dumps->files.pace = (struct jit_pace){INT64_MAX, INT64_MAX};
	put_load(&f->text, 4, 0x3000, 0x10, 1, "three");
	append(f);
	assert_name(f, 0x3000, "");
	/* Code without a name is looked for sooner, how soon depends on what the last look took. */
	f->dumps->files.pace = (struct jit_pace){INT64_MAX, 0};
	struct jit_function function = {.name = ""};
	for (unsigned i = 0; i < 120000 && !jitdumps_lookup(f->dumps, &f->file, 0x3000, UINT64_MAX, &function); i++)
		time_sleep_ns(NS_PER_MS);
	assert_string_equal(function.name, "three");
}

static void test_rewritten_files(void **state)
{
	struct fixture *f = *state;
	put_load(&f->text, 1, 0x1000, 0x10, 1, "one");
	put_load(&f->text, 1, 0x2000, 0x10, 2, "two");
	append(f);
	assert_name(f, 0x2000, "two");
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_name(f, 0x2000, "two"); /* nothing says otherwise yet */
	put_header(&f->text, 0, 0);
	put_load(&f->text, 1, 0x3000, 0x10, 1, "three");
	append(f);
	assert_name(f, 0x3000, "three");
	assert_name(f, 0x2000, "");
	assert_int_equal(problems(f, JIT_PROBLEM_REWRITTEN), 1);
}

/* Deleted, renamed, replaced: the mapping knows it. */
static void test_deleted_file(void **state)
{
	struct fixture *f = *state;
	put_load(&f->text, 1, 0x1000, 0x10, 1, "one");
	append(f);
	assert_int_equal(unlink(f->path), 0);
	if (getuid() == 0)
		assert_name(f, 0x1000, "one");
	/* Another file of that name is not it. */
	struct jitdump_file file = f->file;
	file.pid = 999999999;
	file.inode += 1ull << 40;
	int fd = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	put_header(&f->text, 0, 0);
	put_load(&f->text, 1, 0x1000, 0x10, 1, "planted");
	assert_int_equal(write(fd, f->text.data, f->text.len), (ssize_t)f->text.len);
	close(fd);
	struct jit_function function;
	assert_false(jitdumps_lookup(f->dumps, &file, 0x1000, UINT64_MAX, &function));
	assert_int_equal(problems(f, JIT_PROBLEM_GONE), 1);
}

/* Of a process that has ended, the file is found by its path, if it is the very one. */
static void test_ended_process(void **state)
{
	struct fixture *f = *state;
	put_load(&f->text, 1, 0x1000, 0x10, 1, "one");
	append(f);
	f->file.pid = 999999999;
	assert_name(f, 0x1000, "one");
	/* A fifo in its place is not waited for. */
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	f->file.inode += 1ull << 40;
	assert_name(f, 0x1000, "");
	assert_int_equal(problems(f, JIT_PROBLEM_NOT_REGULAR), 1);
}

static void test_what_is_no_jitdump(void **state)
{
	struct fixture *f = *state;
	buffer_clear(&f->text);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(buffer_printf(&f->text, "not a jitdump\n"), 0);
	append(f);
	assert_name(f, 0x1000, "");
	assert_name(f, 0x1000, "");
	assert_int_equal(problems(f, JIT_PROBLEM_MALFORMED), 1);
}

/* A file of a terabyte, with holes and lengths that lead through it. */
static void test_lying_lengths(void **state)
{
	struct fixture *f = *state;
	put_load(&f->text, 1, 0x1000, 0x10, 1, "one");
	put_head(&f->text, 77, 60 << 20, 1);
	append(f);
	assert_int_equal(ftruncate(f->fd, 1ll << 40), 0);
	int64_t began = time_monotonic_ns();
	assert_name(f, 0x1000, "one"); /* behind the jump are zeroes: a record of no length */
	assert_int_equal(problems(f, JIT_PROBLEM_MALFORMED), 1);
	assert_int_equal(problems(f, JIT_PROBLEM_TOO_LONG), 1);
	assert_true(time_monotonic_ns() - began < 60 * NS_PER_S); /* reading it all takes many minutes */
	struct jit_stats stats;
	jitdumps_get_stats(f->dumps, &stats);
	assert_true(stats.bytes_read < 1 << 20);
	assert_true(stats.memory_bytes < 1 << 20);
}

static void test_memory_is_shared_out(void **state)
{
	struct fixture *f = *state;
	put_load(&f->text, 1, 0x1000, 0x10, 1, "one");
	append(f);
	f->dumps->files.entries_max = 1000;
	f->dumps->files.total_bytes_max = 100;
	assert_name(f, 0x1000, "one");
	struct jitdump_file none = f->file;
	struct jit_function function;
	for (none.inode = 1ull << 40; none.inode < (1ull << 40) + 3000; none.inode++) { /* no file's here */
		none.pid = 999999999;
		assert_false(jitdumps_lookup(f->dumps, &none, 0x1000, 5, &function));
	}
	assert_int_equal(problems(f, JIT_PROBLEM_EVICTED), 1);
	assert_name(f, 0x1000, "one");
}

/* What others wrote, good and bad. */
static void test_files_of_others(void **state)
{
	static const struct {
		const char *name;
		uint64_t bad;
		size_t entries;
		bool is_refused;
	} files[] = {
		{"ok_synthetic.jit-4242.dump", 0, 2, false},	 {"bad_magic.dump", 0, 0, true},
		{"ok_bigendian_header.dump", 0, 0, true},	 {"bad_name_unterminated.dump", 1, 0, false},
		{"bad_record_size_lt_header.dump", 1, 0, false}, {"bad_truncated_load.dump", 0, 0, false},
	};
	const char *directory = getenv("WICK_TEST_DATA");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct memory *m = *state;
		char path[4096];
		snprintf(path, sizeof(path), "%s/jit/%s", directory ? directory : "../shared/data", files[i].name);
		if (io_read_file(path, 1 << 20, &m->file, NULL) < 0) {
			printf("skipped: %s is not there; set WICK_TEST_DATA\n", path);
			skip();
		}
		jitdump_release(&m->dump);
		assert_int_equal(feed(&m->dump, buffer_bytes(&m->file)) == 0, files[i].is_refused);
		assert_int_equal(m->dump.bad_records, files[i].bad);
		assert_int_equal(m->dump.entry_count, files[i].entries);
		if (i == 0) {
			assert_string_equal(name_at(&m->dump, 0x7f0000001005, UINT64_MAX), "JS:~hot /src/a.js:10");
			assert_string_equal(name_at(&m->dump, 0x7f0000002005, UINT64_MAX), "JS:~hot /src/a.js:10");
			assert_string_equal(line_at(&m->dump, 0x7f0000002005), "/src/a.js:11");
		}
	}
}

#define MEMORY(name) cmocka_unit_test_setup_teardown(name, memory_set_up, memory_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MEMORY(test_functions),
		MEMORY(test_addresses_used_again),
		MEMORY(test_times_of_another_clock),
		MEMORY(test_moves),
		MEMORY(test_lines),
		MEMORY(test_lines_of_v8),
		MEMORY(test_lines_that_make_no_sense),
		MEMORY(test_records_that_make_no_sense),
		MEMORY(test_headers),
		MEMORY(test_long_names),
		MEMORY(test_random_loads),
		MEMORY(test_room_for_the_latest),
		MEMORY(test_limits_and_faults),
		MEMORY(test_files_of_others),
		FIXTURE_TEST(test_growth),
		FIXTURE_TEST(test_rewritten_files),
		FIXTURE_TEST(test_deleted_file),
		FIXTURE_TEST(test_ended_process),
		FIXTURE_TEST(test_what_is_no_jitdump),
		FIXTURE_TEST(test_lying_lengths),
		FIXTURE_TEST(test_memory_is_shared_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
