/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "codec/archive.h"
#include "codec/compress.h"
#include "codec/test_compress.h"

static int file_of(struct bytes contents)
{
	int fd = memfd_create("archive", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(io_pwrite(fd, contents.data, contents.len, 0, "archive", NULL), 0);
	return fd;
}

/* "PATH SIZE HASH\n" for each file. */
static int list_fd(int fd, const struct archive_options *options, struct buffer *ret, struct error *err)
{
	_cleanup_(archive_freep) struct archive *archive = NULL;
	struct archive_entry entry;
	int r = archive_open(fd, "test", options, &archive, err);
	if (r < 0)
		return r;
	while ((r = archive_next(archive, &entry, err)) > 0) {
		_cleanup_(buffer_release) struct buffer text = {0};
		buffer_init(&text, MIB);
		if (buffer_printf(ret, "%s ", entry.path) < 0)
			return -ENOMEM;
		r = archive_read(archive, &text, err);
		if (r < 0)
			return r;
		assert_int_equal(text.len, entry.size);
		if (buffer_printf(ret, "%zu %.*s\n", text.len, text.len < 20 ? (int)text.len : 20, (const char *)text.data) < 0)
			return -ENOMEM;
	}
	return r;
}

static int list(struct bytes contents, struct buffer *ret, struct error *err)
{
	_cleanup_(fd_closep) int fd = file_of(contents);
	buffer_clear(ret);
	return list_fd(fd, &(struct archive_options){0}, ret, err);
}

/* ---- beside tar ---- */

#define LONG "a-directory-with-a-name-of-sixty-characters-or-nearly-so-1234"

static char directory[] = "/tmp/wick-archive-test-XXXXXX";

static int make_files(void **state)
{
	if (!mkdtemp(directory) || chdir(directory) < 0)
		return -1;
	return system("set -e; mkdir -p s/sub s/" LONG "/" LONG "/" LONG "/" LONG "; printf 'one\\n' >s/one.c; : >s/empty.c\n"
		      "head -c 200000 /dev/zero | tr '\\0' x >s/sub/large.c; printf 'deep\\n' >s/" LONG "/" LONG "/" LONG
		      "/" LONG "/deep.c\n"
		      "ln -s /etc/passwd s/link.c; mkfifo s/fifo.c; ln s/one.c s/zhard.c; printf 'umlaut\\n' >s/\xc3\xa4.c");
}

static int remove_files(void **state)
{
	return chdir("/") < 0 ? -1 : io_remove_tree(directory, NULL);
}

/* What tar stores second of two names of one file is a link, which has no contents. */
static const char expected[] = "s/" LONG "/" LONG "/" LONG "/" LONG "/deep.c 5 deep\n\n"
			       "s/empty.c 0 \n"
			       "s/one.c 4 one\n\n"
			       "s/sub/large.c 200000 xxxxxxxxxxxxxxxxxxxx\n"
			       "s/\xc3\xa4.c 7 umlaut\n\n";

static void check_tar(const char *command)
{
	_cleanup_(buffer_release) struct buffer tar = {0}, packed = {0}, text = {0};
	assert_int_equal(system(command), 0);
	assert_int_equal(io_read_file("a.tar", GIB, &tar, NULL), 0);
	buffer_init(&packed, GIB);
	buffer_init(&text, MIB);
	assert_int_equal(list(buffer_bytes(&tar), &text, NULL), 0);
	assert_string_equal(buffer_string(&text), expected);
	assert_int_equal(gzip_compress(buffer_bytes(&tar), 6, &packed, NULL), 0);
	assert_int_equal(list(buffer_bytes(&packed), &text, NULL), 0);
	assert_string_equal(buffer_string(&text), expected);
	buffer_clear(&packed);
	/* In two frames. */
	struct bytes first = {tar.data, 1000}, second = {tar.data + 1000, tar.len - 1000};
	assert_int_equal(test_zstd_compress(first, 3, &packed, NULL), 0);
	assert_int_equal(test_zstd_compress(second, 3, &packed, NULL), 0);
	assert_int_equal(list(buffer_bytes(&packed), &text, NULL), 0);
	assert_string_equal(buffer_string(&text), expected);
}

static void test_what_tar_writes(void **state)
{
	check_tar("tar --sort=name --format=gnu -cf a.tar s");
	check_tar("tar --sort=name --format=oldgnu -cf a.tar s");
	check_tar("tar --sort=name --format=pax -cf a.tar s");
	check_tar("tar --sort=name --format=pax --pax-option=globexthdr.name=x,comment=y -cf a.tar s");
}

static void test_other_formats(void **state)
{
	_cleanup_(buffer_release) struct buffer tar = {0}, text = {0};
	buffer_init(&text, MIB);
	assert_int_equal(system("tar --format=ustar -cf a.tar s/one.c s/" LONG "/" LONG "/" LONG "/" LONG
				"/deep.c 2>/dev/null; "
				"tar --format=v7 -cf b.tar s/one.c; truncate -s 1M hole; echo end >>hole; "
				"tar --format=gnu -S -cf c.tar hole s/one.c"),
			 0);
	assert_int_equal(io_read_file("a.tar", GIB, &tar, NULL), 0);
	assert_int_equal(list(buffer_bytes(&tar), &text, NULL), 0);
	assert_non_null(strstr(buffer_string(&text), "s/one.c 4 one"));
	assert_int_equal(io_read_file("b.tar", GIB, &tar, NULL), 0);
	assert_int_equal(list(buffer_bytes(&tar), &text, NULL), 0);
	assert_string_equal(buffer_string(&text), "s/one.c 4 one\n\n");
	assert_int_equal(io_read_file("c.tar", GIB, &tar, NULL), 0);
	assert_int_equal(list(buffer_bytes(&tar), &text, NULL), 0);
	assert_string_equal(buffer_string(&text), "s/one.c 4 one\n\n");
}

/* ---- hostile ones ---- */

static void put_header(struct buffer *out, const char *name, const char *size, char type)
{
	char block[513] = "";
	unsigned sum = 0;
	snprintf(block, 100, "%s", name);
	memcpy(block + 124, size, strlen(size));
	memcpy(block + 148, "        ", 8);
	block[156] = type;
	memcpy(block + 257,
	       "ustar\0"
	       "00",
	       8);
	for (size_t i = 0; i < 512; i++)
		sum += (uint8_t)block[i];
	snprintf(block + 148, 8, "%06o", sum);
	assert_int_equal(buffer_append(out, block, 512), 0);
}

static void put_contents(struct buffer *out, const char *text, size_t len)
{
	static const char zeros[512];
	assert_int_equal(buffer_append(out, text, len), 0);
	assert_int_equal(buffer_append(out, zeros, (512 - len % 512) % 512), 0);
}

static void check_refused(const struct buffer *tar, int code)
{
	_cleanup_(buffer_release) struct buffer text = {0}, packed = {0};
	struct error err = {0};
	buffer_init(&text, MIB);
	buffer_init(&packed, GIB);
	assert_int_equal(list(buffer_bytes(tar), &text, &err), code);
	assert_string_not_equal(err.message, "");
	assert_int_equal(test_zstd_compress(buffer_bytes(tar), 1, &packed, NULL), 0);
	assert_int_equal(list(buffer_bytes(&packed), &text, NULL), code);
}

static void test_hostile_headers(void **state)
{
	static const struct {
		const char *name, *size;
		char type;
		const char *contents;
		int code;
	} cases[] = {
		{"huge", "77777777777", '0', "x", -E2BIG},
		{"huge, skipped", "77777777777", 'q', "x", -EBADMSG},
		{"binary", "\x80\0\0\0\x10", '0', "x", 0}, /* the size ends at the first NUL: 0 */
		{"negative", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", '0', "x", -EBADMSG},
		{"not octal", "9", '0', "x", -EBADMSG},
		{"long name", "40000000", 'L', "x", -E2BIG},
		{"long pax header", "40000000", 'x', "x", -E2BIG},
		{"pax without length", "4", 'x', "abcd", -EBADMSG},
		{"pax of length 0", "4", 'x', "0 a\n", -EBADMSG},
		{"pax too long", "11", 'x', "99 a=b\nab", -EBADMSG},
		{"pax without end", "6", 'x', "6 a=bc", -EBADMSG},
		{"pax size", "42", 'x', "34 size=99999999999999999999999999\n", -EBADMSG},
		{"pax size", "14", 'x', "12 size=1k\n\n", -EBADMSG},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(buffer_release) struct buffer tar = {0};
		buffer_init(&tar, MIB);
		put_header(&tar, cases[i].name, cases[i].size, cases[i].type);
		put_contents(&tar, cases[i].contents, strlen(cases[i].contents));
		if (cases[i].code)
			check_refused(&tar, cases[i].code);
	}
}

static void test_not_an_archive(void **state)
{
	_cleanup_(buffer_release) struct buffer text = {0}, gzip = {0};
	char noise[4000];
	memset(noise, 'n', sizeof(noise));
	buffer_init(&text, MIB);
	buffer_init(&gzip, MIB);
	assert_int_equal(list((struct bytes){(uint8_t *)noise, sizeof(noise)}, &text, NULL), -EBADMSG);
	assert_int_equal(list((struct bytes){(uint8_t *)noise, 100}, &text, NULL), -EBADMSG);
	assert_int_equal(list((struct bytes){(uint8_t *)noise, 0}, &text, NULL), 0);
	memcpy(noise, "\x1f\x8b\x08", 3);
	assert_int_equal(list((struct bytes){(uint8_t *)noise, sizeof(noise)}, &text, NULL), -EBADMSG);
	memcpy(noise, "\x28\xb5\x2f\xfd", 4);
	assert_int_equal(list((struct bytes){(uint8_t *)noise, sizeof(noise)}, &text, NULL), -EBADMSG);
	/* Of a name that is longer than a message. */
	_cleanup_(fd_closep) int fd = file_of((struct bytes){(uint8_t *)noise, sizeof(noise)});
	_cleanup_(archive_freep) struct archive *archive = NULL;
	char name[2 * ERROR_MESSAGE_MAX] = "";
	struct archive_entry entry;
	struct error err = {0};
	memset(name, 'n', sizeof(name) - 1);
	assert_int_equal(archive_open(fd, name, &(struct archive_options){0}, &archive, &err), 0);
	assert_int_equal(archive_next(archive, &entry, &err), -EBADMSG);
	assert_int_equal(strspn(err.message, "n"), ERROR_MESSAGE_MAX - 1);
	/* Cut. */
	static const char zeros[100000];
	assert_int_equal(gzip_compress((struct bytes){(const uint8_t *)zeros, sizeof(zeros)}, 6, &gzip, NULL), 0);
	assert_int_equal(list((struct bytes){gzip.data, gzip.len - 20}, &text, NULL), 0); /* ends with zeros */
	assert_int_equal(list((struct bytes){gzip.data, 12}, &text, NULL), -EBADMSG);
}

static void test_names_are_only_names(void **state)
{
	_cleanup_(buffer_release) struct buffer tar = {0}, text = {0};
	buffer_init(&tar, MIB);
	buffer_init(&text, MIB);
	put_header(&tar, "../../etc/passwd", "2", '0');
	put_contents(&tar, "x\n", 2);
	put_header(&tar, "x", "25", 'x'); /* octal */
	put_contents(&tar, "21 path=/abs/\x01path.c\n", 21);
	put_header(&tar, "y", "2", '0');
	put_contents(&tar, "y\n", 2);
	put_header(&tar, "z", "2", '2'); /* a link with a size */
	put_header(&tar, "z", "2", '0');
	put_contents(&tar, "z\n", 2);
	struct error err = {0};
	assert_int_equal(list(buffer_bytes(&tar), &text, &err), 0);
	assert_string_equal(buffer_string(&text), "../../etc/passwd 2 x\n\n/abs/\x01path.c 2 y\n\nz 2 z\n\n");
}

/* 4 GiB of zeros behind a header that says so, as 4 MiB of gzip, and as a little zstd. */
static void check_bomb(int (*compress)(struct bytes in, int level, struct buffer *out, struct error *err))
{
	_cleanup_(buffer_release) struct buffer tar = {0}, packed = {0}, text = {0};
	static const char zeros[1 << 20];
	buffer_init(&tar, MIB);
	buffer_init(&packed, 64 * MIB);
	buffer_init(&text, MIB);
	put_header(&tar, "bomb", "40000000000", 'q');
	assert_int_equal(compress(buffer_bytes(&tar), 1, &packed, NULL), 0);
	size_t begin = packed.len;
	assert_int_equal(compress((struct bytes){(const uint8_t *)zeros, sizeof(zeros)}, 1, &packed, NULL), 0);
	size_t one = packed.len - begin;
	assert_int_equal(buffer_reserve(&packed, 4096 * one), 0);
	for (int i = 1; i < 4096; i++)
		assert_int_equal(buffer_append(&packed, packed.data + begin, one), 0);
	_cleanup_(fd_closep) int fd = file_of(buffer_bytes(&packed));
	struct archive_options options = {.bytes_max = 64 * MIB};
	struct error err = {0};
	assert_int_equal(list_fd(fd, &options, &text, &err), -E2BIG);
	assert_non_null(strstr(err.message, "67108864"));
	atomic_bool cancel = true;
	options = (struct archive_options){.cancel = &cancel};
	assert_int_equal(list_fd(fd, &options, &text, NULL), -ECANCELED);
}

static void test_bombs(void **state)
{
	check_bomb(gzip_compress);
	check_bomb(test_zstd_compress);
}

static void test_too_many_entries(void **state)
{
	_cleanup_(buffer_release) struct buffer tar = {0}, text = {0};
	buffer_init(&tar, MIB);
	buffer_init(&text, MIB);
	for (int i = 0; i < 100; i++)
		put_header(&tar, "d", "0", '5');
	_cleanup_(fd_closep) int fd = file_of(buffer_bytes(&tar));
	assert_int_equal(list_fd(fd, &(struct archive_options){.entries_max = 99}, &text, NULL), -E2BIG);
	assert_int_equal(list_fd(fd, &(struct archive_options){.entries_max = 100}, &text, NULL), 0);
}

/* Every byte of an archive changed, one at a time: an answer, or a refusal. */
static void test_damage(void **state)
{
	_cleanup_(buffer_release) struct buffer tar = {0}, text = {0};
	buffer_init(&tar, MIB);
	buffer_init(&text, MIB);
	put_header(&tar, "x", "15", 'x');
	put_contents(&tar, "13 path=a/b\n\n", 13);
	put_header(&tar, "y", "2", '0');
	put_contents(&tar, "y\n", 2);
	for (size_t i = 0; i < tar.len; i++) {
		tar.data[i] ^= 0x41;
		int r = list(buffer_bytes(&tar), &text, NULL);
		assert_true(r == 0 || r == -EBADMSG || r == -E2BIG);
		tar.data[i] ^= 0x41;
	}
}

static void test_faults(void **state)
{
	_cleanup_(buffer_release) struct buffer tar = {0};
	struct buffer packed[3];
	buffer_init(&tar, MIB);
	put_header(&tar, "some/file.c", "2", '0');
	put_contents(&tar, "y\n", 2);
	for (int i = 0; i < 3; i++)
		buffer_init(&packed[i], MIB);
	assert_int_equal(buffer_append(&packed[0], tar.data, tar.len), 0);
	assert_int_equal(gzip_compress(buffer_bytes(&tar), 6, &packed[1], NULL), 0);
	assert_int_equal(test_zstd_compress(buffer_bytes(&tar), 6, &packed[2], NULL), 0);
	for (int i = 0; i < 3; i++) {
		_cleanup_(fd_closep) int fd = file_of(buffer_bytes(&packed[i]));
		for (int kind = 0; kind < 2; kind++) {
			bool reached = true;
			for (uint64_t n = 1; reached; n++) {
				_cleanup_(buffer_release) struct buffer text = {0};
				buffer_init(&text, MIB);
				fault_arm(kind ? FAULT_READ : FAULT_ALLOC, n, 0);
				int r = list_fd(fd, &(struct archive_options){0}, &text, NULL);
				reached = fault_disarm(kind ? FAULT_READ : FAULT_ALLOC);
				assert_int_equal(r, !reached ? 0 : kind ? -EIO : -ENOMEM);
			}
		}
		buffer_release(&packed[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_tar_writes),
		cmocka_unit_test(test_other_formats),
		cmocka_unit_test(test_hostile_headers),
		cmocka_unit_test(test_not_an_archive),
		cmocka_unit_test(test_names_are_only_names),
		cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_too_many_entries),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, make_files, remove_files);
}
