/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/uploads.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/test_programs.h"
#include "base/thread.h"
#include "base/time.h"
#include "elf/test_elf.h"
#include "symbol/test_uploads.h"

#define LEASE_NS (60 * NS_PER_S)

/* ---- in the place of libc's: what may take as long as a disk does ---- */

/* As an eviction does. */
static int remove_file_of(struct uploads *uploads, const char *build_id, struct error *err)
{
	int r = 0;
	pthread_mutex_lock(&uploads->place_lock);
	for (unsigned kind = 0; kind < UPLOAD_KINDS && !r; kind++) {
		struct upload_file *file = uploads_file_find(uploads, "", build_id, kind);
		r = file ? uploads_file_remove(uploads, file, err) : 0;
	}
	pthread_mutex_unlock(&uploads->place_lock);
	return r;
}

static void path_of(struct uploads *uploads, const char *build_id, enum upload_kind kind, char out[static PATH_MAX])
{
	pthread_mutex_lock(&uploads->lock);
	const struct upload_file *file = uploads_file_find(uploads, NULL, build_id, kind);
	assert_non_null(file);
	assert_int_equal(uploads_file_path(uploads, file, out, NULL), 0);
	pthread_mutex_unlock(&uploads->lock);
}

static uint64_t disk_free = UINT64_MAX;	   /* of 100 MiB; UINT64_MAX: the real disk */
static struct uploads *watched;		   /* whose lock must not be held during I/O; NULL = none */
static unsigned io_count, io_locked_count; /* while it is watched */
static void (*after_rename)(void *context);
static void *after_rename_context;
static struct buffer *synced; /* the paths of directories that are synced, a line each; NULL = not recorded */

static void count_io(void)
{
	if (!watched)
		return;
	io_count++;
	if (pthread_mutex_trylock(&watched->lock) == 0)
		pthread_mutex_unlock(&watched->lock);
	else
		io_locked_count++;
}

int fsync(int fd)
{
	int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
	count_io();
	if (synced) {
		char link[32], path[PATH_MAX];
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t len = readlink(link, path, sizeof(path));
		buffer_append(synced, path, len > 0 ? (size_t)len : 0);
		buffer_append_byte(synced, '\n');
	}
	return real(fd);
}

int fdatasync(int fd)
{
	int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
	count_io();
	return real(fd);
}

int unlink(const char *path)
{
	int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
	count_io();
	return real(path);
}

int futimens(int fd, const struct timespec times[2])
{
	int (*real)(int, const struct timespec *) = dlsym(RTLD_NEXT, "futimens");
	count_io();
	return real(fd, times);
}

int rename(const char *from, const char *to)
{
	int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
	count_io();
	int r = real(from, to);
	void (*hook)(void *) = after_rename;
	after_rename = NULL;
	if (hook)
		hook(after_rename_context);
	return r;
}

int statvfs(const char *path, struct statvfs *ret)
{
	int (*real)(const char *, struct statvfs *) = dlsym(RTLD_NEXT, "statvfs");
	count_io();
	if (disk_free == UINT64_MAX)
		return real(path, ret);
	*ret = (struct statvfs){.f_frsize = 4096, .f_blocks = 100 * MIB / 4096, .f_bavail = disk_free / 4096};
	return 0;
}

static int teardown(void **state)
{
	disk_free = UINT64_MAX;
	watched = NULL;
	synced = NULL;
	return close_fixture(state);
}

/* What the command prints. */
static unsigned ask_number(const char *command)
{
	unsigned number = 0;
	FILE *pipe = popen(command, "r");
	assert_int_equal(fscanf(pipe, "%u", &number), 1);
	pclose(pipe);
	return number;
}

static size_t count_incoming(const struct fixture *fixture)
{
	char command[160];
	snprintf(command, sizeof(command), "ls -A %s/incoming | wc -l", fixture->directory);
	return ask_number(command);
}

/* As if nothing had come for so long. */
static void let_pass(struct uploads *uploads, int64_t duration_ns)
{
	for (size_t i = 0; i < uploads->options.open_max; i++)
		uploads->open[i].active_ns -= duration_ns;
}

static void test_a_file_arrives(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf);
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, file.len);
	set_hash(&begin, file);
	assert_false(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
	assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
	assert_int_equal(fixture->arrivals.count, 2); /* also by the hash of the program */
	assert_string_equal(fixture->arrivals.build_id, TEST_ELF_BUILD_ID);
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, file);
	assert_false(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_EXECUTABLE));
	assert_int_equal(send_all(fixture->uploads, &begin, file), -EEXIST);
	begin.force = true;
	assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
	struct uploads_stats stats;
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 1);
	assert_int_equal(stats.bytes, file.len);
	assert_int_equal(stats.bytes_received, 2 * file.len);
	assert_int_equal(stats.open, 0);
	assert_int_equal(stats.finished, 2);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(count_incoming(fixture), 0);
	reopen(fixture, NULL);
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, file);
	assert_int_equal(remove_file_of(fixture->uploads, TEST_ELF_BUILD_ID, NULL), 0);
	int fd;
	assert_int_equal(uploads_open_file(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, &fd, NULL), -ENOENT);
}

static void test_what_is_announced_is_checked(void **state)
{
	struct fixture *fixture = *state;
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	struct upload_begin begin = begin_of("../../etc/passwd", 100);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), -EINVAL);
	begin = begin_of("ABCDEF", 100);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), -EINVAL);
	begin = begin_of("ab", 100);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), -EINVAL);
	begin = begin_of(TEST_ELF_BUILD_ID, 0);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), -EINVAL);
	begin = begin_of(TEST_ELF_BUILD_ID, 3 * GIB);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), -E2BIG);
	begin = begin_of(TEST_ELF_BUILD_ID, 100);
	begin.kind = UPLOAD_KINDS;
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), -EINVAL);
	begin = begin_of(TEST_ELF_BUILD_ID, 100);
	snprintf(begin.hash, sizeof(begin.hash), "../x");
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), -EINVAL);
	assert_int_equal(uploads_write(fixture->uploads, "../../x", 0, bytes_of_string("x"), &offset, NULL), -ENOENT);
	assert_int_equal(uploads_finish(fixture->uploads, "", NULL), -ENOENT);
	assert_int_equal(uploads_abort(fixture->uploads, "nobody", NULL), -ENOENT);
}

static void test_what_is_sent_is_checked(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf);
	struct error err = {0};
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	struct upload_begin begin = begin_of(OTHER_BUILD_ID, file.len);
	assert_int_equal(send_all(fixture->uploads, &begin, file), -EBADMSG); /* another build-id */
	begin = begin_of(TEST_ELF_BUILD_ID, file.len);
	snprintf(begin.hash, sizeof(begin.hash), "00000000000000000000000000000000");
	assert_int_equal(send_all(fixture->uploads, &begin, file), -EBADMSG); /* another hash */
	snprintf(begin.hash, sizeof(begin.hash), "md5orwhatever");
	assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
	/* Garbage is refused with its first piece. */
	char garbage[4096] = "garbage";
	begin = begin_of(OTHER_BUILD_ID, GIB);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(
		uploads_write(fixture->uploads, id, 0, (struct bytes){(uint8_t *)garbage, sizeof(garbage)}, &offset, &err),
		-EBADMSG);
	assert_non_null(strstr(err.message, "debuginfo"));
	assert_int_equal(uploads_finish(fixture->uploads, id, NULL), -ENOENT);
	/* An ELF header and nothing behind it. */
	begin = begin_of(OTHER_BUILD_ID, 64);
	assert_int_equal(send_all(fixture->uploads, &begin, (struct bytes){file.data, 64}), -EBADMSG);
	/* More than was announced; less than was announced. */
	begin = begin_of(OTHER_BUILD_ID, 600);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(uploads_write(fixture->uploads, id, 0, (struct bytes){file.data, 601}, &offset, NULL), -EINVAL);
	assert_int_equal(uploads_write(fixture->uploads, id, 0, (struct bytes){file.data, 599}, &offset, NULL), 0);
	assert_int_equal(uploads_finish(fixture->uploads, id, NULL), -ERANGE);
	/* Not abandoned while a client is uploading; afterwards it is not reported as abandoned. */
	fixture->uploads->open[0].busy = true;
	assert_int_equal(uploads_abort(fixture->uploads, id, &err), -EBUSY);
	assert_non_null(strstr(err.message, "is in progress"));
	fixture->uploads->open[0].busy = false;
	assert_int_equal(uploads_get(fixture->uploads, id, &begin, &offset, NULL), 0);
	assert_int_equal(offset, 599);
	assert_int_equal(uploads_abort(fixture->uploads, id, NULL), 0);
	assert_int_equal(uploads_abort(fixture->uploads, id, NULL), -ENOENT);
	assert_int_equal(count_incoming(fixture), 0);
	assert_int_equal(fixture->arrivals.count, 2);
}

static void test_ids_that_are_no_build_ids(void **state)
{
	struct fixture *fixture = *state;
	struct buffer file;
	buffer_init(&file, MIB);
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1, .no_build_id = true}, &file);
	struct upload_begin begin = begin_of("abcdef", file.len);
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&file)), -EBADMSG);
	begin.without_build_id = true;
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&file)), 0);
	buffer_release(&file);
	/* Whatever build-id a file has that is known by something else; not one that is announced by its build-id. */
	begin = begin_of("abcdef01", fixture->elf.len);
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&fixture->elf)), -EBADMSG);
	begin.without_build_id = true;
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&fixture->elf)), 0);
}

static bool opens(struct uploads *uploads, const char *id, bool is_build_id)
{
	int fd = -1, r = uploads_open_file(uploads, NULL, id, UPLOAD_DEBUGINFO, &fd, NULL);
	if (r < 0)
		return false;
	io_close(fd);
	assert_int_equal(r, !is_build_id);
	return true;
}

static unsigned count_links(const struct fixture *fixture)
{
	char command[128];
	snprintf(command, sizeof(command), "find %s/files -type l | wc -l", fixture->directory);
	return ask_number(command);
}

/* A file is found by the id that it was announced with and by those that it carries, also after a restart, until it goes. */
static void test_ids_that_a_file_carries(void **state)
{
	struct fixture *fixture = *state;
	static const char announced[] = "00112233445566778899aabbccddeeff";
	char hash[FILE_HASH_HEX], contents[4][UPLOAD_CONTENT_HEX];
	struct bytes file = buffer_bytes(&fixture->elf);
	int fd = test_elf_file(file);
	assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
	io_close(fd);
	struct upload_begin begin = begin_of(announced, file.len);
	begin.without_build_id = true;
	begin.id_type = FILE_ID_HASH;
	assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
	for (unsigned start = 0; start < 2; start++) {
		assert_true(opens(fixture->uploads, announced, false));
		assert_true(opens(fixture->uploads, TEST_ELF_BUILD_ID, true));
		assert_true(opens(fixture->uploads, hash, false));
		assert_false(opens(fixture->uploads, OTHER_BUILD_ID, true));
		assert_true(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
		assert_false(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_EXECUTABLE));
		assert_int_equal(uploads_list_contents(fixture->uploads, NULL, TEST_ELF_BUILD_ID, contents, 4), 1);
		assert_int_equal(uploads_open_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, contents[0], &fd, NULL), 0);
		io_close(fd);
		assert_int_equal(count_links(fixture), 2);
		reopen(fixture, NULL);
	}
	/* What was announced by an id goes before what carries it, and is no reason to lose that. */
	struct buffer other;
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1, .debug_only = true}, &other);
	begin = begin_of(TEST_ELF_BUILD_ID, other.len);
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&other)), 0);
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, buffer_bytes(&other));
	assert_int_equal(uploads_list_contents(fixture->uploads, NULL, TEST_ELF_BUILD_ID, contents, 4), 1);
	assert_int_equal(remove_file_of(fixture->uploads, TEST_ELF_BUILD_ID, NULL), 0);
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, file);
	buffer_release(&other);
	/* All ids go with the file. */
	assert_int_equal(remove_file_of(fixture->uploads, announced, NULL), 0);
	for (unsigned start = 0; start < 2; start++) {
		assert_false(uploads_has(fixture->uploads, NULL, announced, UPLOAD_DEBUGINFO));
		assert_false(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
		assert_false(uploads_has(fixture->uploads, NULL, hash, UPLOAD_DEBUGINFO));
		assert_int_equal(count_links(fixture), 0);
		reopen(fixture, NULL);
	}
}

/* A link survives a power cut: the directories that were made for it are synced, too. */
static void test_links_are_synced(void **state)
{
	struct fixture *fixture = *state;
	static const char *const above[] = {"", "/01", "/01/23456789abcdef0123456789abcdef01234567"};
	struct buffer paths = {.max = MIB};
	struct upload_begin begin = begin_of("00112233445566778899aabbccddeeff", fixture->elf.len);
	begin.without_build_id = true;
	begin.id_type = FILE_ID_HASH;
	synced = &paths;
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&fixture->elf)), 0);
	synced = NULL;
	for (size_t i = 0; i < sizeof(above) / sizeof(above[0]); i++) {
		char line[256];
		snprintf(line, sizeof(line), "%s/files/@all/gnu%s\n", fixture->directory, above[i]);
		assert_non_null(strstr(buffer_string(&paths), line));
	}
	buffer_release(&paths);
}

/* Two of a file's ids may be the same, for who makes the file chooses its build-id: it is found by it once. */
static void test_an_id_of_two_types(void **state)
{
	struct fixture *fixture = *state;
	char contents[4][UPLOAD_CONTENT_HEX], path[PATH_MAX];
	struct file_ids ids = {0};
	const struct upload_place place = {.tenant = "", .build_id = OTHER_BUILD_ID, .content = "", .content_key = ""};
	struct upload_file *file = uploads_file_new(&place, 1);
	for (unsigned i = 0; i < FILE_ID_TYPES; i++)
		snprintf(ids.ids[i], sizeof(ids.ids[i]), "%s", TEST_ELF_BUILD_ID);
	assert_int_equal(uploads_alias_set(file, &ids, NULL), 0);
	assert_non_null(file->aliases);
	assert_null(file->aliases->next_of_file);
	uploads_file_free(file);
	/* Also at start. */
	struct upload_begin begin = begin_of("00112233445566778899aabbccddeeff", fixture->elf.len);
	begin.without_build_id = true;
	begin.id_type = FILE_ID_HASH;
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&fixture->elf)), 0);
	snprintf(path, sizeof(path), "cp -a %s/files/@all/gnu %s/files/@all/go", fixture->directory, fixture->directory);
	assert_int_equal(system(path), 0);
	reopen(fixture, NULL);
	assert_int_equal(uploads_list_contents(fixture->uploads, NULL, TEST_ELF_BUILD_ID, contents, 4), 1);
	assert_false(uploads_has_other_content(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, ""));
}

/* The same file announced by two of its ids: each of them carries the other's, whichever goes first. */
static void test_two_of_the_same_contents(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf);
	char hash[FILE_HASH_HEX];
	int fd = test_elf_file(file);
	assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
	io_close(fd);
	for (unsigned first = 0; first < 2; first++) {
		const char *ids[] = {hash, TEST_ELF_BUILD_ID};
		for (unsigned i = 0; i < 2; i++) {
			struct upload_begin begin = begin_of(ids[i], file.len);
			begin.without_build_id = i == 0;
			begin.id_type = i == 0 ? FILE_ID_HASH : FILE_ID_GNU;
			assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
		}
		assert_int_equal(count_links(fixture), 0);
		assert_int_equal(remove_file_of(fixture->uploads, ids[first], NULL), 0);
		for (unsigned start = 0; start < 2; start++) {
			assert_true(opens(fixture->uploads, TEST_ELF_BUILD_ID, true));
			assert_true(opens(fixture->uploads, hash, false));
			assert_int_equal(count_links(fixture), 1);
			reopen(fixture, NULL);
		}
		assert_int_equal(remove_file_of(fixture->uploads, ids[!first], NULL), 0);
		assert_int_equal(count_links(fixture), 0);
	}
}

/* Links that lead nowhere, and what is no link of ours. */
static void test_links_that_lead_nowhere(void **state)
{
	static const char *const targets[] = {
		"../../../hash/00/112233445566778899aabbccddeeff/0000000000000000000000000000000a.debuginfo",
		"../../../hash/00/1122/0000000000000000000000000000000a.debuginfo",
		"/etc/passwd",
		"../../../nothing/00/1122/x",
		"../../../hash/00/112",
		"../../../hash/",
	};
	struct fixture *fixture = *state;
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		char folder[160], path[256];
		snprintf(folder, sizeof(folder), "%s/files/@all/gnu/01/23456789abcdef0123456789abcdef01234567",
			 fixture->directory);
		snprintf(path, sizeof(path), "%s/0000000000000000000000000000000a.debuginfo", folder);
		assert_int_equal(io_make_dirs(folder, 0750, NULL), 0);
		unlink(path);
		assert_int_equal(symlink(targets[i], path), 0);
		reopen(fixture, NULL);
		assert_false(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
		assert_int_equal(count_links(fixture), i >= 2); /* what somebody else has put there is left alone */
	}
}

static void test_other_kinds(void **state)
{
	struct fixture *fixture = *state;
	static const char list[] = "wick kallsyms 1 " TEST_ELF_BUILD_ID "\n0 _stext\n100 one\n";
	static const char packed[] = "\x1f\x8b\x08 and so on";
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, sizeof(list) - 1);
	begin.kind = UPLOAD_KALLSYMS;
	assert_int_equal(send_all(fixture->uploads, &begin, bytes_of_string(list)), 0);
	begin.size = sizeof(packed) - 1;
	begin.kind = UPLOAD_SOURCES;
	assert_int_equal(send_all(fixture->uploads, &begin, bytes_of_string(packed)), 0);
	begin = begin_of(OTHER_BUILD_ID, sizeof(list) - 1);
	begin.kind = UPLOAD_SOURCES;
	assert_int_equal(send_all(fixture->uploads, &begin, bytes_of_string(list)), -EBADMSG);
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_KALLSYMS, bytes_of_string(list));
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_SOURCES, bytes_of_string(packed));
	assert_false(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
	struct uploads_stats stats;
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 2);
	assert_int_equal(remove_file_of(fixture->uploads, TEST_ELF_BUILD_ID, NULL), 0);
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 0);
	assert_int_equal(stats.bytes, 0);
}

static void test_two_at_once(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf);
	char id[UPLOAD_ID_MAX], second[UPLOAD_ID_MAX];
	uint64_t offset = 1;
	reopen(fixture, &(struct uploads_options){.lease_ns = LEASE_NS});
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, file.len), different = begin;
	snprintf(begin.hash, sizeof(begin.hash), "aa");
	snprintf(different.hash, sizeof(different.hash), "bb");
	assert_false(uploads_is_coming(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, NULL));
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(offset, 0);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, second, &offset, NULL), -EBUSY);
	assert_int_equal(uploads_begin(fixture->uploads, &different, second, &offset, NULL), -EBUSY);
	assert_true(uploads_is_coming(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, NULL));
	assert_false(uploads_is_coming(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_EXECUTABLE, NULL));
	assert_int_equal(uploads_write(fixture->uploads, id, 0, (struct bytes){file.data, 1000}, &offset, NULL), 0);
	assert_int_equal(offset, 1000);
	assert_int_equal(uploads_write(fixture->uploads, id, 0, (struct bytes){file.data, 1000}, &offset, NULL), -ERANGE);
	assert_int_equal(offset, 1000);
	/* It stops for a while: still its own. */
	let_pass(fixture->uploads, 12 * NS_PER_S);
	assert_int_equal(uploads_begin(fixture->uploads, &different, second, &offset, NULL), -EBUSY);
	assert_true(uploads_is_coming(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, NULL));
	assert_int_equal(uploads_begin(fixture->uploads, &begin, second, &offset, NULL), 0);
	assert_string_equal(second, id);
	/* It stops: the same file goes on where it was, another one begins anew. */
	struct upload_begin got;
	assert_int_equal(uploads_get(fixture->uploads, id, &got, &offset, NULL), 0);
	assert_int_equal(offset, 1000);
	assert_string_equal(got.hash, "aa");
	assert_int_equal(uploads_get(fixture->uploads, "other", &got, &offset, NULL), -ENOENT);
	assert_false(uploads_is_stale(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
	let_pass(fixture->uploads, 2 * LEASE_NS);
	assert_true(uploads_is_stale(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
	assert_false(uploads_is_coming(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, NULL));
	assert_int_equal(uploads_begin(fixture->uploads, &begin, second, &offset, NULL), 0);
	assert_string_equal(second, id);
	assert_int_equal(offset, 1000);
	let_pass(fixture->uploads, 2 * LEASE_NS);
	assert_int_equal(uploads_begin(fixture->uploads, &different, second, &offset, NULL), 0);
	assert_string_not_equal(second, id);
	assert_int_equal(offset, 0);
	assert_int_equal(uploads_write(fixture->uploads, id, 1000, (struct bytes){file.data, 10}, &offset, NULL), -ENOENT);
	/* Whoever insists does not wait. */
	begin.force = true;
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(uploads_write(fixture->uploads, id, 0, file, &offset, NULL), 0);
	assert_int_equal(uploads_finish(fixture->uploads, id, NULL), 0);
	reopen(fixture, NULL);
	char path[PATH_MAX];
	path_of(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, path);
	if (setxattr(path, "user.wick.test", "", 0, 0) == 0) /* elsewhere it is not known */
		assert_true(uploads_has_same(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, "aa"));
	assert_false(uploads_has_same(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, "a"));
	assert_false(uploads_has_same(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, ""));
	assert_false(uploads_has_same(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, "bb"));
}

static void test_too_many_at_once(void **state)
{
	struct fixture *fixture = *state;
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	reopen(fixture, &(struct uploads_options){.open_max = 2, .lease_ns = LEASE_NS});
	struct upload_begin a = begin_of("aaaa", 100), b = begin_of("bbbb", 100), c = begin_of("cccc", 100);
	assert_int_equal(uploads_begin(fixture->uploads, &a, id, &offset, NULL), 0);
	assert_int_equal(uploads_begin(fixture->uploads, &b, id, &offset, NULL), 0);
	assert_int_equal(uploads_begin(fixture->uploads, &c, id, &offset, NULL), -EAGAIN);
	let_pass(fixture->uploads, 2 * LEASE_NS);
	assert_int_equal(uploads_begin(fixture->uploads, &c, id, &offset, NULL), 0);
	struct uploads_stats stats;
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.open, 2);
	assert_int_equal(stats.failed, 1);
}

static void make_large(struct buffer *file, const struct buffer *elf, size_t len)
{
	buffer_init(file, len);
	assert_int_equal(buffer_append(file, elf->data, elf->len), 0);
	assert_int_equal(buffer_reserve(file, len - file->len), 0);
	for (size_t i = file->len; i < len; i++)
		file->data[i] = (uint8_t)(i * 7);
	file->len = len;
}

/* A copy of the directory as it is on the disk now is what a crash leaves. */
static void crash(struct fixture *fixture, struct fixture *after)
{
	char command[300];
	*after = (struct fixture){.elf = fixture->elf};
	snprintf(after->directory, sizeof(after->directory), "%.40s.crash", fixture->directory);
	snprintf(command, sizeof(command), "cp -a %s %s", fixture->directory, after->directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(try_open(after, NULL), 0);
}

static void test_goes_on_after_a_restart(void **state)
{
	struct fixture *fixture = *state, after;
	struct buffer file;
	make_large(&file, &fixture->elf, 10 * MIB);
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, file.len);
	set_hash(&begin, buffer_bytes(&file));
	char id[UPLOAD_ID_MAX], again[UPLOAD_ID_MAX];
	uint64_t offset;
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	for (offset = 0; offset < 9 * MIB;)
		assert_int_equal(
			uploads_write(fixture->uploads, id, offset, (struct bytes){file.data + offset, MIB}, &offset, NULL), 0);
	/* A crash: from the last sync on. */
	crash(fixture, &after);
	assert_false(uploads_is_coming(after.uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, NULL));
	assert_int_equal(uploads_begin(after.uploads, &begin, again, &offset, NULL), 0);
	assert_string_equal(again, id);
	assert_int_equal(offset, 8 * MIB);
	assert_int_equal(uploads_write(after.uploads, id, offset, (struct bytes){file.data + offset, 2 * MIB}, &offset, NULL),
			 0);
	assert_int_equal(uploads_finish(after.uploads, id, NULL), 0);
	assert_stored(after.uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, buffer_bytes(&file));
	uploads_close(after.uploads);
	io_remove_tree(after.directory, NULL);
	/* An orderly end: from where it was. */
	reopen(fixture, NULL);
	assert_int_equal(uploads_begin(fixture->uploads, &begin, again, &offset, NULL), 0);
	assert_string_equal(again, id);
	assert_int_equal(offset, 9 * MIB);
	assert_int_equal(uploads_write(fixture->uploads, id, offset, (struct bytes){file.data + offset, MIB}, &offset, NULL),
			 0);
	assert_int_equal(uploads_finish(fixture->uploads, id, NULL), 0);
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, buffer_bytes(&file));
	buffer_release(&file);
}

static void write_text(const char *directory, const char *name, const char *text)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	assert_int_equal(io_write_file(path, text, strlen(text), 0600, NULL), 0);
}

static void test_what_makes_no_sense_is_swept(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf);
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, file.len);
	char id[UPLOAD_ID_MAX], path[200];
	uint64_t offset;
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(uploads_write(fixture->uploads, id, 0, (struct bytes){file.data, 700}, &offset, NULL), 0);
	fixture->uploads = uploads_close(fixture->uploads);
	/* A torn offset: 0. Then a damaged note; a part without a note; a note without a part; names of others. */
	snprintf(path, sizeof(path), "%s/incoming/%s.note", fixture->directory, id);
	int fd = open(path, O_RDWR);
	struct stat info;
	assert_int_equal(fstat(fd, &info), 0);
	assert_int_equal(pwrite(fd, "torn", 4, info.st_size - 4), 4);
	close(fd);
	write_text(fixture->directory, "incoming/00000000000000000000000000000001.note", "not a note");
	write_text(fixture->directory, "incoming/00000000000000000000000000000001.part", "x");
	write_text(fixture->directory, "incoming/00000000000000000000000000000002.part", "x");
	write_text(fixture->directory, "incoming/00000000000000000000000000000003.note.12-1.tmp", "x");
	write_text(fixture->directory, "incoming/README", "mine");
	assert_int_equal(try_open(fixture, NULL), 0);
	assert_int_equal(count_incoming(fixture), 3);
	char again[UPLOAD_ID_MAX];
	assert_int_equal(uploads_write(fixture->uploads, id, 700, (struct bytes){file.data, 10}, &offset, NULL), -ERANGE);
	assert_int_equal(offset, 0);
	/* No hash: nobody knows whether it is the same file, so it begins anew. */
	assert_int_equal(uploads_begin(fixture->uploads, &begin, again, &offset, NULL), 0);
	assert_string_not_equal(again, id);
	assert_int_equal(count_incoming(fixture), 2);
}

/* 5 MiB of 100 are left free. */
static void test_the_disk_is_not_filled(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf), piece = {file.data, 700};
	struct upload_begin a = begin_of("aaaa", 60 * MIB), b = begin_of("bbbb", 60 * MIB);
	char id[UPLOAD_ID_MAX], other[UPLOAD_ID_MAX];
	uint64_t offset = 0;
	reopen(fixture, &(struct uploads_options){.lease_ns = LEASE_NS});
	disk_free = 64 * MIB;
	assert_int_equal(uploads_begin(fixture->uploads, &a, id, &offset, NULL), -ENOSPC);
	disk_free = 100 * MIB;
	assert_int_equal(uploads_begin(fixture->uploads, &a, id, &offset, NULL), 0);
	/* What the first will take is spoken for, until it stops. */
	assert_int_equal(uploads_begin(fixture->uploads, &b, other, &offset, NULL), -ENOSPC);
	b.size = 35 * MIB;
	assert_int_equal(uploads_begin(fixture->uploads, &b, other, &offset, NULL), 0);
	assert_int_equal(uploads_abort(fixture->uploads, other, NULL), 0);
	let_pass(fixture->uploads, 2 * LEASE_NS);
	b.size = 60 * MIB;
	assert_int_equal(uploads_begin(fixture->uploads, &b, other, &offset, NULL), 0);
	/* Somebody else fills it: what arrives is refused, and may go on later. */
	disk_free = 5 * MIB;
	assert_int_equal(uploads_write(fixture->uploads, other, 0, piece, &offset, NULL), -ENOSPC);
	assert_int_equal(offset, 0);
	assert_int_equal(fixture->uploads->part_bytes, 0);
	disk_free = 5 * MIB + 4096;
	assert_int_equal(uploads_write(fixture->uploads, other, 0, piece, &offset, NULL), 0);
	assert_int_equal(offset, 700);
}

static void test_the_least_recently_used_go_first(void **state)
{
	struct fixture *fixture = *state;
	struct uploads_options options = {.bytes_max = 3 * 400};
	char list[401];
	int fd;
	memset(list, 'x', sizeof(list));
	memcpy(list, "wick kallsyms 1 aaaa", 20);
	reopen(fixture, &options);
	struct bytes file = {(const uint8_t *)list, 400};
	static const char *const names[] = {"aaaa", "bbbb", "cccc", "dddd", "eeee"};
	for (size_t i = 0; i < 5; i++) {
		struct upload_begin begin = begin_of(names[i], file.len);
		begin.kind = UPLOAD_KALLSYMS;
		assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
		time_sleep_ns(5 * NS_PER_MS);
		if (i == 2) { /* the first was used since, also after a restart */
			assert_int_equal(uploads_open_file(fixture->uploads, NULL, "aaaa", UPLOAD_KALLSYMS, &fd, NULL), 0);
			close(fd);
			time_sleep_ns(5 * NS_PER_MS);
			reopen(fixture, &options);
		}
	}
	assert_true(uploads_has(fixture->uploads, NULL, "aaaa", UPLOAD_KALLSYMS));
	assert_false(uploads_has(fixture->uploads, NULL, "bbbb", UPLOAD_KALLSYMS));
	assert_false(uploads_has(fixture->uploads, NULL, "cccc", UPLOAD_KALLSYMS));
	assert_true(uploads_has(fixture->uploads, NULL, "eeee", UPLOAD_KALLSYMS));
	struct uploads_stats stats;
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 3);
	assert_int_equal(stats.bytes, 1200);
	assert_int_equal(stats.evicted, 2);
	/* A smaller limit at start. */
	options.bytes_max = 400;
	reopen(fixture, &options);
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 1);
	assert_true(uploads_has(fixture->uploads, NULL, "eeee", UPLOAD_KALLSYMS));
	/* Announcing alone removes nothing. */
	struct upload_begin begin = begin_of("ffff", 400);
	begin.kind = UPLOAD_KALLSYMS;
	char id[UPLOAD_ID_MAX];
	uint64_t offset;
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	assert_true(uploads_has(fixture->uploads, NULL, "eeee", UPLOAD_KALLSYMS));
}

static struct bytes kallsyms_file(char list[static 400])
{
	memset(list, 'x', 400);
	memcpy(list, "wick kallsyms 1 aaaa", 20);
	return (struct bytes){(const uint8_t *)list, 400};
}

/* Queries wait for the lock, to know what is there. */
static void test_nobody_waits_for_the_disk(void **state)
{
	struct fixture *fixture = *state;
	char list[400], id[UPLOAD_ID_MAX];
	struct bytes file = kallsyms_file(list);
	uint64_t offset;
	int fd;
	reopen(fixture, &(struct uploads_options){.bytes_max = 3 * 400, .lease_ns = LEASE_NS, .open_max = 2});
	struct uploads *uploads = watched = fixture->uploads;
	io_count = io_locked_count = 0;
	static const char *const names[] = {"aaaa", "bbbb", "cccc", "dddd"}; /* one is evicted */
	for (size_t i = 0; i < 4; i++) {
		struct upload_begin begin = begin_of(names[i], file.len);
		begin.kind = UPLOAD_KALLSYMS;
		assert_int_equal(send_all(uploads, &begin, file), 0);
	}
	assert_int_equal(uploads->stats.evicted, 1);
	assert_int_equal(uploads_open_file(uploads, NULL, "dddd", UPLOAD_KALLSYMS, &fd, NULL), 0);
	close(fd);
	assert_int_equal(remove_file_of(uploads, "dddd", NULL), 0);
	/* Given up by their sender, for another of the same name, for lack of a place, and for their contents. */
	static const char *const begun[] = {"eeee", "ffff", "ffff", "0000", "1111"};
	for (size_t i = 0; i < 5; i++) {
		struct upload_begin begin = begin_of(begun[i], file.len);
		begin.kind = i < 4 ? UPLOAD_KALLSYMS : UPLOAD_DEBUGINFO;
		assert_int_equal(uploads_begin(uploads, &begin, id, &offset, NULL), 0);
		assert_int_equal(uploads_write(uploads, id, 0, file, &offset, NULL), i < 4 ? 0 : -EBADMSG);
		if (i == 0)
			assert_int_equal(uploads_abort(uploads, id, NULL), 0);
		let_pass(uploads, 2 * LEASE_NS);
	}
	assert_int_equal(count_incoming(fixture), 2);
	assert_true(io_count > 20);
	assert_int_equal(io_locked_count, 0);
	/* Removed by others: forgotten when it is missed. */
	char path[PATH_MAX];
	path_of(uploads, "cccc", UPLOAD_KALLSYMS, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(uploads_open_file(uploads, NULL, "cccc", UPLOAD_KALLSYMS, &fd, NULL), -ENOENT);
	assert_false(uploads_has(uploads, NULL, "cccc", UPLOAD_KALLSYMS));
}

struct intruder {
	struct uploads *uploads;
	struct bytes file;
	char id[UPLOAD_ID_MAX];
	pthread_t thread;
	bool done;
};

static void *intrude(void *context)
{
	struct intruder *intruder = context;
	uint64_t offset;
	uploads_write(intruder->uploads, intruder->id, 0, intruder->file, &offset, NULL);
	__atomic_store_n(&intruder->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Either it gets what it wants while the file is being put in place, or it has to wait until that is done. */
static void let_intrude(void *context)
{
	struct intruder *intruder = context;
	assert_int_equal(thread_start(&intruder->thread, "intruder", intrude, intruder, NULL), 0);
	for (unsigned i = 0; i < 25 && !__atomic_load_n(&intruder->done, __ATOMIC_ACQUIRE); i++)
		time_sleep_ns(2 * NS_PER_MS);
}

/* The file that is replaced would have to make room, but its name is that of the new one already. */
static void test_a_replacement_is_not_evicted(void **state)
{
	struct fixture *fixture = *state;
	char list[400];
	uint64_t offset;
	reopen(fixture, &(struct uploads_options){.bytes_max = 3 * 400});
	struct intruder intruder = {.uploads = fixture->uploads, .file = kallsyms_file(list)};
	struct upload_begin a = begin_of("aaaa", 400), b = begin_of("bbbb", 400), c = begin_of("cccc", 400);
	a.kind = b.kind = c.kind = UPLOAD_KALLSYMS;
	assert_int_equal(send_all(fixture->uploads, &a, intruder.file), 0);
	assert_int_equal(send_all(fixture->uploads, &b, intruder.file), 0);
	assert_int_equal(uploads_begin(fixture->uploads, &c, intruder.id, &offset, NULL), 0);
	char id[UPLOAD_ID_MAX];
	a.force = true;
	assert_int_equal(uploads_begin(fixture->uploads, &a, id, &offset, NULL), 0);
	assert_int_equal(uploads_write(fixture->uploads, id, 0, intruder.file, &offset, NULL), 0);
	after_rename_context = &intruder;
	after_rename = let_intrude;
	assert_int_equal(uploads_finish(fixture->uploads, id, NULL), 0);
	pthread_join(intruder.thread, NULL);
	assert_true(intruder.done);
	assert_stored(fixture->uploads, "aaaa", UPLOAD_KALLSYMS, intruder.file);
	reopen(fixture, NULL);
	assert_stored(fixture->uploads, "aaaa", UPLOAD_KALLSYMS, intruder.file);
}

/* The n-th call of each kind fails: what was there stays, what fails is said, and trying again works. */
static void test_every_failure(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf), other = buffer_bytes(&fixture->other);
	struct upload_begin first = begin_of(OTHER_BUILD_ID, other.len), begin = begin_of(TEST_ELF_BUILD_ID, file.len);
	set_hash(&begin, file);
	assert_int_equal(send_all(fixture->uploads, &first, other), 0);
	for (unsigned kind = FAULT_ALLOC; kind < FAULT_KIND_COUNT; kind++) {
		for (uint64_t nth = 1;; nth++) {
			assert_int_equal(remove_file_of(fixture->uploads, TEST_ELF_BUILD_ID, NULL), 0);
			fixture->uploads = uploads_close(fixture->uploads);
			fault_arm(kind, nth, nth % 3 == 0 ? FAULT_STICKY : 0);
			int r = try_open(fixture, &(struct uploads_options){.lease_ns = 1});
			if (!r)
				r = send_all(fixture->uploads, &begin, file);
			bool reached = fault_disarm(kind);
			assert_true(r <= 0);
			if (!fixture->uploads)
				assert_int_equal(try_open(fixture, &(struct uploads_options){.lease_ns = 1}), 0);
			assert_stored(fixture->uploads, OTHER_BUILD_ID, UPLOAD_DEBUGINFO, other);
			if (r < 0 && !uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO))
				assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
			assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, file);
			struct uploads_stats stats;
			uploads_get_stats(fixture->uploads, &stats);
			assert_int_equal(stats.open, 0);
			assert_int_equal(fixture->uploads->part_bytes, 0);
			if (!reached)
				break;
		}
	}
	assert_int_equal(count_incoming(fixture), 0);
}

struct racer {
	struct uploads *uploads;
	struct bytes file;
	struct upload_begin begin;
	int sent;
};

static void *race(void *context)
{
	struct racer *racer = context;
	for (unsigned i = 0; i < 200; i++) {
		int fd;
		struct upload_begin begin = racer->begin;
		snprintf(begin.hash, sizeof(begin.hash), "%u", i % 3);
		begin.force = i % 7 == 0;
		racer->sent += send_all(racer->uploads, &begin, racer->file) == 0;
		if (uploads_open_file(racer->uploads, NULL, begin.build_id, begin.kind, &fd, NULL) >= 0)
			close(fd);
		if (i % 11 == 0)
			remove_file_of(racer->uploads, begin.build_id, NULL);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct fixture *fixture = *state;
	pthread_t threads[4];
	struct racer racers[4];
	reopen(fixture, &(struct uploads_options){.lease_ns = 1});
	fixture->uploads->options.on_arrival = NULL;
	for (unsigned i = 0; i < 4; i++) {
		racers[i] = (struct racer){.uploads = fixture->uploads, .file = buffer_bytes(&fixture->elf)};
		racers[i].begin = begin_of(TEST_ELF_BUILD_ID, fixture->elf.len);
		assert_int_equal(thread_start(&threads[i], "racer", race, &racers[i], NULL), 0);
	}
	int sent = 0;
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		sent += racers[i].sent;
	}
	assert_true(sent > 0);
	struct upload_begin begin = racers[0].begin;
	begin.force = true;
	assert_int_equal(send_all(fixture->uploads, &begin, buffer_bytes(&fixture->elf)), 0);
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, buffer_bytes(&fixture->elf));
}

/* ---- the layout ---- */

#define GOLDEN	    "tests/symbol/golden/uploads_v1"
#define GOLDEN_GNU  "0123456789abcdef0123456789abcdef01234567"
#define GOLDEN_HASH "5cbb4b321afa5d51e92f597cb0cf5615"
static const struct {
	const char *path, *build_id;
	enum upload_kind kind;
	const char *type;
} golden_files[] = {
	{"01/23456789abcdef0123456789abcdef01234567.debuginfo", GOLDEN_GNU, UPLOAD_DEBUGINFO, "/@all/gnu/01/"},
	{"01/23456789abcdef0123456789abcdef01234567.executable", GOLDEN_GNU, UPLOAD_EXECUTABLE, "/@all/gnu/01/"},
	{"01/23456789abcdef0123456789abcdef01234567.sources", GOLDEN_GNU, UPLOAD_SOURCES, "/@all/gnu/01/"},
	{"5c/bb4b321afa5d51e92f597cb0cf5615.debuginfo", GOLDEN_HASH, UPLOAD_DEBUGINFO, "/@all/hash/5c/"},
};
#define GOLDEN_FILES (sizeof(golden_files) / sizeof(golden_files[0]))

static void run(const char *before, const char *directory, const char *after)
{
	char command[300];
	snprintf(command, sizeof(command), "%s%s%s", before, directory, after);
	assert_int_equal(system(command), 0);
}

/* The fixture's directory becomes that of a server of the older version. */
static void copy_golden(struct fixture *fixture)
{
	fixture->uploads = uploads_close(fixture->uploads);
	run("rm -rf ", fixture->directory, "/*");
	run("cp -r " GOLDEN "/. ", fixture->directory, "/");
}

static void check_golden(struct fixture *fixture)
{
	char path[PATH_MAX];
	for (size_t i = 0; i < GOLDEN_FILES; i++) {
		_cleanup_(buffer_release) struct buffer file = {0};
		snprintf(path, sizeof(path), GOLDEN "/%s", golden_files[i].path);
		assert_int_equal(io_read_file(path, MIB, &file, NULL), 0);
		assert_stored(fixture->uploads, golden_files[i].build_id, golden_files[i].kind, buffer_bytes(&file));
		path_of(fixture->uploads, golden_files[i].build_id, golden_files[i].kind, path);
		assert_non_null(strstr(path, golden_files[i].type));
		snprintf(path, sizeof(path), "%s/%s", fixture->directory, golden_files[i].path);
		assert_int_equal(access(path, F_OK), -1);
	}
	struct uploads_stats stats;
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, GOLDEN_FILES);
	assert_int_equal(stats.open, 1);
}

static void test_version_1_is_moved(void **state)
{
	struct fixture *fixture = *state;
	char id[UPLOAD_ID_MAX], path[PATH_MAX];
	uint64_t offset = 0;
	copy_golden(fixture);
	write_text(fixture->directory, "01/README", "mine");
	assert_int_equal(try_open(fixture, NULL), 0);
	check_golden(fixture);
	snprintf(path, sizeof(path), "%s/01/README", fixture->directory);
	assert_int_equal(access(path, F_OK), 0); /* what is not ours stays */
	snprintf(path, sizeof(path), "%s/5c", fixture->directory);
	assert_int_equal(access(path, F_OK), -1);
	reopen(fixture, NULL);
	check_golden(fixture);
	/* What an older server acknowledged of an upload need not be sent again. */
	struct upload_begin begin = {
		.kind = UPLOAD_DEBUGINFO, .size = 872, .without_build_id = true, .build_id = "aabbccdd", .hash = "abc"};
	assert_int_equal(uploads_begin(fixture->uploads, &begin, id, &offset, NULL), 0);
	assert_int_equal(offset, 600);
	static const uint8_t rest[272];
	assert_int_equal(uploads_write(fixture->uploads, id, 600, (struct bytes){rest, 272}, &offset, NULL), 0);
	assert_int_equal(offset, 872);
}

/* A start that fails at any place is finished by the next, and loses nothing. */
static void test_a_move_that_was_cut_short(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_RENAME, FAULT_OPEN, FAULT_ALLOC, FAULT_WRITE};
	struct fixture *fixture = *state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n++) {
			copy_golden(fixture);
			fault_arm(kinds[i], n, 0);
			int r = try_open(fixture, NULL);
			reached = fault_disarm(kinds[i]);
			assert_true(reached || r == 0);
			fixture->uploads = uploads_close(fixture->uploads);
			assert_int_equal(try_open(fixture, NULL), 0);
			for (size_t k = 0; k < GOLDEN_FILES; k++)
				assert_true(
					uploads_has(fixture->uploads, NULL, golden_files[k].build_id, golden_files[k].kind));
		}
	}
}

static void test_a_newer_layout_is_refused(void **state)
{
	struct fixture *fixture = *state;
	fixture->uploads = uploads_close(fixture->uploads);
	write_text(fixture->directory, "layout", "3\n");
	assert_int_equal(try_open(fixture, NULL), -ENOTSUP);
	write_text(fixture->directory, "layout", "2\n");
	assert_int_equal(try_open(fixture, NULL), 0);
}

/* Each tenant's file is its own: nobody replaces another's. */
static void test_tenants_are_apart(void **state)
{
	struct fixture *fixture = *state;
	static const struct test_symbol others[] = {{"other_name", 0, 16, STT_FUNC, STB_GLOBAL, 0}};
	_cleanup_(buffer_release) struct buffer changed = {0};
	char path[2][PATH_MAX];
	struct uploads_stats stats;
	test_elf_build(&(struct test_elf){.symbols = others, .symbol_count = 1}, &changed);
	struct bytes files[2] = {buffer_bytes(&fixture->elf), buffer_bytes(&changed)};
	static const char *const names[] = {"one", "two"};
	const struct uploads_scope scopes[] = {{&names[0], 1}, {&names[1], 1}, {names, 2}};
	for (unsigned i = 0; i < 2; i++) {
		assert_false(uploads_has(fixture->uploads, &scopes[i], TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
		struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, files[i].len);
		snprintf(begin.tenant, sizeof(begin.tenant), "%s", i == 0 ? "one" : "two");
		assert_int_equal(send_all(fixture->uploads, &begin, files[i]), 0);
		assert_int_equal(send_all(fixture->uploads, &begin, files[i]), -EEXIST);
		assert_stored_for(fixture->uploads, &scopes[i], TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, files[i]);
		path_of(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, path[i]);
	}
	reopen(fixture, NULL);
	/* Of several the first that has something, and of that tenant alone. */
	char contents[4][UPLOAD_CONTENT_HEX];
	for (unsigned i = 0; i < 2; i++)
		assert_stored_for(fixture->uploads, &scopes[i], TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, files[i]);
	assert_stored_for(fixture->uploads, &scopes[2], TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, files[0]);
	assert_int_equal(uploads_list_contents(fixture->uploads, &scopes[2], TEST_ELF_BUILD_ID, contents, 4), 1);
	assert_false(uploads_has(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO));
	assert_int_equal(uploads_list_contents(fixture->uploads, NULL, TEST_ELF_BUILD_ID, contents, 4), 0);
	int fd;
	assert_int_equal(uploads_open_file(fixture->uploads, NULL, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, &fd, NULL), -ENOENT);
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 2);
	assert_non_null(strstr(path[0], "/files/one/gnu/01/"));
	assert_non_null(strstr(path[1], "/files/two/gnu/01/"));
	assert_int_equal(access(path[0], F_OK), 0);
	/* By force: its own only. */
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, files[0].len);
	snprintf(begin.tenant, sizeof(begin.tenant), "two");
	begin.force = true;
	assert_int_equal(send_all(fixture->uploads, &begin, files[0]), 0);
	assert_int_equal(access(path[0], F_OK), 0);
	assert_int_equal(access(path[1], F_OK), -1); /* its content was another */
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 2);
	assert_int_equal(stats.bytes, 2 * files[0].len);
	static const char *const bad[] = {"..", "@all", "a/b", "."};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(begin.tenant, sizeof(begin.tenant), "%s", bad[i]);
		assert_int_equal(send_all(fixture->uploads, &begin, files[0]), -EINVAL);
	}
}

/* A crash after a file came to its place, and before the one that it replaces was removed. And names of others. */
static void test_what_is_found_at_start(void **state)
{
	struct fixture *fixture = *state;
	struct bytes file = buffer_bytes(&fixture->elf);
	struct upload_begin begin = begin_of(TEST_ELF_BUILD_ID, file.len);
	char path[PATH_MAX], other[PATH_MAX], command[PATH_MAX + 64];
	assert_int_equal(send_all(fixture->uploads, &begin, file), 0);
	path_of(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, path);
	fixture->uploads = uploads_close(fixture->uploads);
	snprintf(other, sizeof(other), "%s", path);
	memcpy(strrchr(other, '/') + 1, "00000000000000000000000000000001", 32);
	assert_int_equal(io_write_file(other, "older", 5, 0640, NULL), 0);
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	assert_int_equal(utimensat(AT_FDCWD, other, old, 0), 0);
	static const char *const strangers[] = {"files/@all/README", "files/@all/gnu/zz", "files/@all/gnu/01/README",
						"files/.hidden", "files/@all/pdb"};
	for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
		write_text(fixture->directory, strangers[i], "mine");
	snprintf(command, sizeof(command), "ln -s / %s/files/link && ln -s / %s/files/@all/go", fixture->directory,
		 fixture->directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(try_open(fixture, NULL), 0);
	assert_stored(fixture->uploads, TEST_ELF_BUILD_ID, UPLOAD_DEBUGINFO, file);
	assert_int_equal(access(other, F_OK), -1);
	struct uploads_stats stats;
	uploads_get_stats(fixture->uploads, &stats);
	assert_int_equal(stats.files, 1);
	for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", fixture->directory, strangers[i]);
		assert_int_equal(access(path, F_OK), 0);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_file_arrives),
		TEST(test_what_is_announced_is_checked),
		TEST(test_what_is_sent_is_checked),
		TEST(test_ids_that_are_no_build_ids),
		TEST(test_ids_that_a_file_carries),
		TEST(test_an_id_of_two_types),
		TEST(test_links_are_synced),
		TEST(test_two_of_the_same_contents),
		TEST(test_links_that_lead_nowhere),
		TEST(test_other_kinds),
		TEST(test_two_at_once),
		TEST(test_too_many_at_once),
		TEST(test_goes_on_after_a_restart),
		TEST(test_what_makes_no_sense_is_swept),
		TEST(test_the_disk_is_not_filled),
		TEST(test_the_least_recently_used_go_first),
		TEST(test_nobody_waits_for_the_disk),
		TEST(test_a_replacement_is_not_evicted),
		TEST(test_every_failure),
		TEST(test_threads),
		TEST(test_version_1_is_moved),
		TEST(test_a_move_that_was_cut_short),
		TEST(test_a_newer_layout_is_refused),
		TEST(test_tenants_are_apart),
		TEST(test_what_is_found_at_start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
