/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of uploads for tests, and whole uploads. */
#ifndef WICK_SYMBOL_TEST_UPLOADS_H
#define WICK_SYMBOL_TEST_UPLOADS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "elf/test_elf.h"
#include "symbol/uploads_int.h"

#define OTHER_BUILD_ID "ff23456789abcdef0123456789abcdef01234567"

static const struct test_symbol symbols[] = {{"main", 0, 16, STT_FUNC, STB_GLOBAL, 0}};

struct arrivals {
	char build_id[BUILD_ID_HEX_MAX];
	char tenant[UPLOAD_TENANT_MAX + 1];
	enum upload_kind kind;
	unsigned count;
};
struct fixture {
	char directory[64];
	struct arrivals arrivals;
	struct buffer elf, other; /* files of TEST_ELF_BUILD_ID and OTHER_BUILD_ID */
	struct uploads *uploads;
};

static inline void on_arrival(void *context, const char *tenant, const char *build_id, enum upload_kind kind)
{
	struct arrivals *arrivals = context;
	snprintf(arrivals->build_id, sizeof(arrivals->build_id), "%s", build_id);
	snprintf(arrivals->tenant, sizeof(arrivals->tenant), "%s", tenant);
	arrivals->kind = kind;
	arrivals->count++;
}

static inline int try_open(struct fixture *fixture, const struct uploads_options *options)
{
	struct uploads_options all = options ? *options : (struct uploads_options){0};
	all.directory = fixture->directory;
	all.on_arrival = on_arrival;
	all.context = &fixture->arrivals;
	return uploads_open(&all, &fixture->uploads, NULL);
}

static inline void reopen(struct fixture *fixture, const struct uploads_options *options)
{
	fixture->uploads = uploads_close(fixture->uploads);
	assert_int_equal(try_open(fixture, options), 0);
}

static inline int open_fixture(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	snprintf(fixture->directory, sizeof(fixture->directory), "/tmp/wick-uploads-XXXXXX");
	assert_non_null(mkdtemp(fixture->directory));
	buffer_init(&fixture->elf, MIB);
	buffer_init(&fixture->other, MIB);
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1}, &fixture->elf);
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1, .build_id_first = 0xff}, &fixture->other);
	reopen(fixture, NULL);
	*state = fixture;
	return 0;
}

static inline int close_fixture(void **state)
{
	struct fixture *fixture = *state;
	uploads_close(fixture->uploads);
	io_remove_tree(fixture->directory, NULL);
	buffer_release(&fixture->elf);
	buffer_release(&fixture->other);
	free(fixture);
	return 0;
}

static inline struct upload_begin begin_of(const char *build_id, uint64_t size)
{
	struct upload_begin begin = {.kind = UPLOAD_DEBUGINFO, .size = size};
	snprintf(begin.build_id, sizeof(begin.build_id), "%s", build_id);
	return begin;
}

static inline void set_hash(struct upload_begin *begin, struct bytes file)
{
	struct hash128 hash = hash128(file.data, file.len);
	snprintf(begin->hash, sizeof(begin->hash), "%016llx%016llx", (unsigned long long)hash.high,
		 (unsigned long long)hash.low);
}

/* The whole way of a small file; 0 or the first failure. */
static inline int send_all(struct uploads *uploads, const struct upload_begin *begin, struct bytes file)
{
	char id[UPLOAD_ID_MAX];
	uint64_t offset = 0;
	int r = uploads_begin(uploads, begin, id, &offset, NULL);
	while (!r && offset < file.len) {
		size_t len = file.len - offset < 700 ? file.len - offset : 700;
		r = uploads_write(uploads, id, offset, (struct bytes){file.data + offset, len}, &offset, NULL);
	}
	return r < 0 ? r : uploads_finish(uploads, id, NULL);
}

static inline void assert_stored_for(struct uploads *uploads, const struct uploads_scope *scope, const char *build_id,
				     enum upload_kind kind, struct bytes file)
{
	int fd = -1;
	uint8_t *data = malloc(file.len + 1);
	assert_true(uploads_has(uploads, scope, build_id, kind));
	assert_in_range(uploads_open_file(uploads, scope, build_id, kind, &fd, NULL), 0, 1); /* 1: it is not its build-id */
	assert_int_equal(io_pread(fd, data, file.len + 1, 0, "test", NULL), file.len);
	assert_memory_equal(data, file.data, file.len);
	free(data);
	io_close(fd);
}

static inline void assert_stored(struct uploads *uploads, const char *build_id, enum upload_kind kind, struct bytes file)
{
	assert_stored_for(uploads, NULL, build_id, kind, file);
}

#endif
