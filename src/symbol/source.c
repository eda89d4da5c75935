/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files a build may have, and where they come from: the descriptor that an agent passed; files of this host, if allowed;
 * what was uploaded; debuginfod servers. Names in requests are what some file says and lead nowhere but to regular files, which
 * are then parsed where it can do no harm.
 *
 * Split DWARF is the one kind that has no build-id to be known by: all there is is a path, and whoever may upload a file may
 * write any path into it. So paths out of a file are followed only while all that the build was given is of this host, which is
 * decided by where this side opened it and not by what the worker says; they lead to ELF files only; and, where others than who
 * runs this may ask for what comes of it, to what everybody on this host may read.
 *
 * On this host debug files are where distributions put them: /usr/lib/debug/.build-id/xx/yyyy.debug, or by the name in
 * .gnu_debuglink beside the binary, in .debug beside it, or under /usr/lib/debug with the binary's directory. All of them must
 * have the binary's build-id. Files that dwz shares are found by build-id or below /usr/lib/debug.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "elf/build_id.h"
#include "elf/content_key.h"
#include "elf/elf_file.h"
#include "elf/file_ids.h"
#include "elf/pclntab.h"
#include "symbol/debuginfod.h"
#include "symbol/symbol_int.h"

#define DEBUG_ROOT "/usr/lib/debug"

bool source_format_path(char out[static SYMBOL_PATH_MAX], const char *directory, const char *build_id, const char *suffix)
{
	int n = snprintf(out, SYMBOL_PATH_MAX, "%s/%.2s/%s%s", directory, build_id, build_id + 2, suffix);
	return n > 0 && n < SYMBOL_PATH_MAX;
}

int source_reopen(int handle, const char *name, int *ret_fd, struct stat *ret_stat, struct error *err)
{
	struct stat st;
	if (fstat(handle, &st) < 0)
		return error_set_errno(err, -errno, "cannot read %s", name);
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "%s: not a regular file", name);
	char by_handle[64];
	snprintf(by_handle, sizeof(by_handle), "/proc/self/fd/%d", handle);
	int fd = io_open(by_handle, O_RDONLY | O_NONBLOCK, 0, err);
	if (fd < 0)
		return error_prefix(err, fd, "%s", name);
	*ret_fd = fd;
	if (ret_stat)
		*ret_stat = st;
	return 0;
}

/* Links below /proc lead into other mount namespaces, where paths mean something else, and reading some of its files does
 * something. */
static bool is_of_kernel(const char *path)
{
	return text_starts_with(path, "/proc/") || text_starts_with(path, "/sys/");
}

/* Where the kernel says that it is: in the mount namespace that it was opened in. */
static int read_real_path(int handle, const char *name, char ret[static PATH_MAX], struct error *err)
{
	char link[40];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", handle);
	ssize_t len = readlink(link, ret, PATH_MAX - 1);
	if (len <= 0 || ret[0] != '/')
		return error_set(err, -EACCES, "%s: cannot determine its directory", name);
	ret[len] = '\0';
	return 0;
}

/* With O_PATH. */
static int open_handle(const char *path, int flags, struct error *err)
{
	struct open_how how = {.flags = (unsigned)(O_PATH | O_CLOEXEC | flags), .resolve = RESOLVE_NO_MAGICLINKS};
	char real[PATH_MAX];
	if (is_of_kernel(path))
		return error_set(err, -EACCES, "%s: files there are not read", path);
	_cleanup_(fd_closep) int handle = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	/* Before Linux 5.6, or where a container's filter does not know it. */
	if (handle < 0 && (errno == ENOSYS || errno == EPERM))
		handle = io_open(path, O_PATH | flags, 0, err);
	else if (handle < 0)
		return error_set_errno(err, -errno, "cannot open %s", path);
	int r = handle < 0 ? handle : read_real_path(handle, path, real, err);
	if (r < 0)
		return r;
	if (is_of_kernel(real))
		return error_set(err, -EACCES, "%s: files on %s are not read", path, real);
	return fd_take(&handle);
}

int source_open(const char *path, int flags, int *ret_fd, struct stat *ret_stat, struct error *err)
{
	_cleanup_(fd_closep) int handle = open_handle(path, flags, err);
	return handle < 0 ? handle : source_reopen(handle, path, ret_fd, ret_stat, err);
}

int source_check_public(int handle, const char *name, struct error *err)
{
	char real[PATH_MAX];
	struct stat st, there;
	int r = read_real_path(handle, name, real, err);
	_cleanup_(fd_closep) int directory = r < 0 ? -1 : io_open("/", O_PATH | O_DIRECTORY, 0, err);
	if (directory < 0)
		return r < 0 ? r : directory;
	if (fstat(handle, &st) < 0 || !(st.st_mode & S_IROTH))
		return error_set(err, -EACCES, "%s: it is not world-readable", name);
	char *part = real + 1;
	for (;;) {
		char *slash = strchr(part, '/');
		if (fstat(directory, &there) < 0 || !(there.st_mode & S_IXOTH))
			return error_set(err, -EACCES, "%s: /%.*s is not world-accessible", name, (int)(part - real - 1),
					 real + 1);
		if (!slash)
			break;
		*slash = '\0';
		int next = openat(directory, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		*slash = '/';
		io_close(directory);
		directory = next;
		part = slash + 1;
	}
	if (fstatat(directory, part, &there, AT_SYMLINK_NOFOLLOW) < 0 || there.st_dev != st.st_dev || there.st_ino != st.st_ino)
		return error_set(err, -EACCES, "%s: its path resolves to another place on this host", name);
	return 0;
}

int source_open_public(const char *path, int flags, int *ret_fd, struct stat *ret_stat, struct error *err)
{
	/* Devices end at what source_reopen() looks at. What is in memory lies there as well as in /tmp. */
	if (text_starts_with(path, "/dev/") && !text_starts_with(path, "/dev/shm/"))
		return error_set(err, -EACCES, "%s: files there are not read", path);
	_cleanup_(fd_closep) int handle = open_handle(path, flags, err);
	int r = handle < 0 ? handle : source_check_public(handle, path, err);
	return r < 0 ? r : source_reopen(handle, path, ret_fd, ret_stat, err);
}

static int check_is_elf(int fd, const char *name, struct error *err)
{
	char magic[SELFMAG] = "";
	ssize_t len = io_pread(fd, magic, sizeof(magic), 0, name, err);
	if (len < 0)
		return (int)len;
	return memcmp(magic, ELFMAG, SELFMAG) ? error_set(err, -ENOEXEC, "%s: not an ELF file", name) : 0;
}

int source_open_binary(const struct symbolizer *s, const char *path, int *ret_fd, struct stat *ret_stat)
{
	_cleanup_(fd_closep) int fd = -1;
	int r = source_open(path, 0, &fd, ret_stat, NULL);
	if (r == 0 && !s->own_files)
		r = check_is_elf(fd, path, NULL);
	if (r == 0)
		*ret_fd = fd_take(&fd);
	return r;
}

bool source_is_host_path(const char *path)
{
	return path[0] == '/' && path[1] != '/' && strlen(path) < SYMBOL_PATH_MAX;
}

/* For people: where it was found. */
static void note_from(struct source_job *job, const char *from)
{
	size_t len = strlen(job->from);
	snprintf(job->from + len, sizeof(job->from) - len, "%s%s", len ? ", " : "", from);
}

/* Takes the descriptor over, if the file has that id ("" = any). 0, SYMBOL_FILE_COMPARED, -ENOENT or -ENOMEM. */
static int take_file(struct source_job *job, const char *path, const char *id, int *fd, int *ret_fd)
{
	int r = id[0] ? file_has_id(*fd, id) : 0;
	if (r < 0)
		return r;
	note_from(job, path);
	*ret_fd = fd_take(fd);
	return r > 0 ? SYMBOL_FILE_COMPARED : 0;
}

/* A file of this host, found by the profile or by its build-id. build_id "" = any. */
static int try_path(struct source_job *job, const char *path, const char *build_id, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	int r = source_open_binary(job->symbolizer, path, &fd, NULL);
	seen_files_add(job->seen, SEEN_PATH, path, fd);
	return r < 0 ? -ENOENT : take_file(job, path, build_id, &fd, ret_fd);
}

static int open_named(const struct symbolizer *s, const char *path, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	int r = (s->own_files ? source_open : source_open_public)(path, 0, &fd, NULL, NULL);
	if (r == 0)
		r = check_is_elf(fd, path, NULL);
	if (r == 0)
		*ret_fd = fd_take(&fd);
	return r;
}

int source_open_seen(const struct symbolizer *s, enum seen_how how, const char *path)
{
	int fd = -1;
	int r = how == SEEN_NAMED ? open_named(s, path, &fd) : source_open_binary(s, path, &fd, NULL);
	return r < 0 ? r : fd;
}

/* A file of this host by a path that a file says. build_id "" = any. */
static int try_named(struct source_job *job, const char *path, const char *build_id, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = -1;
	if (job->symbolizer->no_host_files || !job->is_local || job->is_foreign || !source_is_host_path(path))
		return -ENOENT;
	int r = open_named(job->symbolizer, path, &fd);
	seen_files_add(job->seen, SEEN_NAMED, path, fd);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	return take_file(job, path, build_id, &fd, ret_fd);
}

static int try_build_id(struct source_job *job, const char *build_id, int *ret_fd)
{
	char path[SYMBOL_PATH_MAX];
	if (!build_id_is_valid(build_id) || !source_format_path(path, job->symbolizer->debug_directory, build_id, ".debug"))
		return -ENOENT;
	return try_path(job, path, build_id, ret_fd);
}

/* What was uploaded has that build-id, or is known by this id of another type: upload_check() took it for no other reason. */
static int try_upload(struct source_job *job, const char *build_id, enum upload_kind kind, int *ret_fd)
{
	struct symbolizer *s = job->symbolizer;
	char text[64];
	if (!s->uploads || !build_id_is_valid(build_id))
		return -ENOENT;
	/* Only of the binary itself: another file that is asked for has no other id. */
	bool has_go_id = job->go_id && job->go_id[0] && build_id == job->build_id;
	int r = uploads_open_file(s->uploads, &s->scope, build_id, kind, ret_fd, NULL);
	if (r < 0 && has_go_id) {
		r = uploads_open_file(s->uploads, &s->scope, job->go_id, kind, ret_fd, NULL);
		job->is_by_go_id = r >= 0;
	}
	if (r < 0)
		return -ENOENT;
	snprintf(text, sizeof(text), "uploaded %s", upload_kind_names[kind]);
	note_from(job, text);
	job->is_foreign = true;
	return r > 0 ? SYMBOL_FILE_COMPARED : SYMBOL_FILE_ANNOUNCED;
}

static int try_debuginfod(struct source_job *job, const char *build_id, int *ret_fd, struct error *err)
{
	struct symbolizer *s = job->symbolizer;
	if (!s->debuginfod || !build_id_is_valid(build_id))
		return -ENOENT;
	int64_t started = time_monotonic_ns();
	int r = debuginfod_fetch(s->debuginfod, DEBUGINFOD_DEBUGINFO, build_id, NULL, &s->stop, ret_fd, NULL, err);
	job->wait_ns += time_monotonic_ns() - started;
	if (r == 0) {
		note_from(job, "debuginfod");
		job->is_foreign = true;
	} else if (r == -EBADMSG) {
		snprintf(job->wrong, sizeof(job->wrong), "%s", err ? err->message : "");
		return -ENOENT;
	} else if (r != -ENOENT) {
		job->unreachable = true;
	}
	return r;
}

/* What an agent passed is compared here, as the worker that reads it knows no hashes. */
static bool has_other_id(int fd, const char *id)
{
	return id[0] && file_has_id(fd, id) > 0;
}

/* A file of this host, or one that its agent passed, if it has the content that is meant. */
static int open_binary_of_content(struct source_job *job, int *ret_fd)
{
	struct symbolizer *s = job->symbolizer;
	struct content_key key = {0};
	_cleanup_(fd_closep) int fd = -1;
	if (job->offered_fd >= 0)
		fd = fcntl(job->offered_fd, F_DUPFD_CLOEXEC, 3);
	else if (s->no_host_files || !source_is_host_path(job->path) || source_open_binary(s, job->path, &fd, NULL) < 0)
		return -ENOENT;
	if (fd < 0 || content_key_read_fd(fd, &key, NULL) < 0 || strcmp(key.key, job->content) != 0)
		return -ENOENT;
	int r = take_file(job, job->path, job->build_id, &fd, ret_fd);
	job->is_local |= r >= 0;
	return r;
}

/* Of several files of this id, the one that is to be compared with the others: an upload, or a binary. */
static int open_content(struct source_job *job, uint32_t kind, int *ret_fd)
{
	if (kind == SYMBOL_FILE_BINARY)
		return open_binary_of_content(job, ret_fd);
	int r = kind != SYMBOL_FILE_DEBUG || !job->symbolizer->uploads
			? -ENOENT
			: uploads_open_content(job->symbolizer->uploads, &job->symbolizer->scope, job->build_id, job->content,
					       ret_fd, NULL);
	if (r < 0)
		return -ENOENT;
	job->is_foreign = true;
	return r > 0 ? SYMBOL_FILE_COMPARED : SYMBOL_FILE_ANNOUNCED;
}

/*
 * A file of this host by its name alone, in the directories where the dynamic linker and shells look: what OpenTelemetry's
 * profiler knows of libraries. Only by an id, so what is opened is the file that was meant.
 */
static int try_name(struct source_job *job, int *ret_fd)
{
	static const char *const places[] = {
#ifdef __x86_64__
		"/usr/lib/x86_64-linux-gnu/",
#elif defined(__aarch64__)
		"/usr/lib/aarch64-linux-gnu/",
#endif
		"/usr/lib64/",
		"/usr/lib/",
		"/usr/local/lib/",
		"/usr/bin/",
		"/usr/sbin/",
		"/usr/local/bin/",
		"/usr/local/sbin/",
	};
	if (!build_id_is_valid(job->build_id) || !job->path[0] || strchr(job->path, '/'))
		return -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int n = snprintf(job->place, sizeof(job->place), "%s%s", places[i], job->path);
		int r = (size_t)n < sizeof(job->place) ? try_path(job, job->place, job->build_id, ret_fd) : -ENOENT;
		if (r >= 0)
			job->path = job->place;
		if (r != -ENOENT)
			return r;
	}
	return -ENOENT;
}

static int open_binary(struct source_job *job, int *ret_fd)
{
	struct symbolizer *s = job->symbolizer;
	if (job->offered_fd >= 0) {
		*ret_fd = fcntl(job->offered_fd, F_DUPFD_CLOEXEC, 3);
		if (*ret_fd >= 0) {
			note_from(job, job->path[0] ? job->path : "the agent of this host");
			job->is_local = true;
			return has_other_id(*ret_fd, job->build_id) ? SYMBOL_FILE_COMPARED : 0;
		}
	}
	int r = -ENOENT;
	if (!s->no_host_files && source_is_host_path(job->path))
		r = try_path(job, job->path, job->build_id, ret_fd);
	else if (!s->no_host_files)
		r = try_name(job, ret_fd);
	job->is_local |= r >= 0;
	return r != -ENOENT ? r : try_upload(job, job->build_id, UPLOAD_EXECUTABLE, ret_fd);
}

/* Beside the binary, by the name that it gives. */
static int try_debuglink(struct source_job *job, const char *name, int *ret_fd)
{
	char directory[SYMBOL_PATH_MAX], path[SYMBOL_PATH_MAX];
	if (job->symbolizer->no_host_files || !job->build_id[0] || !name[0] || strchr(name, '/') ||
	    !source_is_host_path(job->path))
		return -ENOENT;
	snprintf(directory, sizeof(directory), "%s", job->path);
	*strrchr(directory, '/') = 0;
	static const char *const formats[][2] = {{"", ""}, {"", "/.debug"}, {DEBUG_ROOT, ""}};
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		int n = snprintf(path, sizeof(path), "%s%s%s/%s", formats[i][0], directory, formats[i][1], name);
		if (n > 0 && (size_t)n < sizeof(path) && strcmp(path, job->path) != 0 &&
		    try_path(job, path, job->build_id, ret_fd) == 0)
			return 0;
	}
	return -ENOENT;
}

/* An upload with names and no lines, such as what an agent makes of a stripped program. */
static bool is_upload_poor(const struct source_job *job)
{
	struct elf_file file;
	_cleanup_(fd_closep) int fd = -1;
	if (!job->symbolizer->uploads || !build_id_is_valid(job->build_id) ||
	    uploads_open_file(job->symbolizer->uploads, &job->symbolizer->scope, job->build_id, UPLOAD_DEBUGINFO, &fd, NULL) <
		    0 ||
	    elf_file_open(&file, fd, "an upload", NULL) < 0)
		return false;
	bool poor = elf_file_load_sections(&file, NULL) == 0 && !elf_file_has_dwarf(&file) && !pclntab_find_section(&file);
	elf_file_release(&file);
	return poor;
}

static int open_debug(struct source_job *job, const char *name, int *ret_fd, struct error *err)
{
	int r = try_build_id(job, job->build_id, ret_fd);
	if (r < 0)
		r = try_debuglink(job, name, ret_fd);
	if (r < 0 && job->symbolizer->debuginfod && is_upload_poor(job))
		r = try_debuginfod(job, job->build_id, ret_fd, err);
	if (r < 0)
		r = try_upload(job, job->build_id, UPLOAD_DEBUGINFO, ret_fd);
	return r < 0 ? try_debuginfod(job, job->build_id, ret_fd, err) : r;
}

/* The file that dwz made of what several had in common. */
static int open_alt(struct source_job *job, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	char path[SYMBOL_PATH_MAX];
	if (!build_id_is_valid(request->build_id))
		return -ENOENT;
	int r = try_build_id(job, request->build_id, ret_fd);
	const char *dwz = strstr(request->name, ".dwz/");
	if (r < 0 && dwz && !strstr(dwz, "..")) {
		int n = snprintf(path, sizeof(path), "%s/%s", DEBUG_ROOT, dwz);
		if (n > 0 && (size_t)n < sizeof(path))
			r = try_path(job, path, request->build_id, ret_fd);
	}
	if (r < 0)
		r = try_named(job, request->name, request->build_id, ret_fd);
	if (r < 0)
		r = try_upload(job, request->build_id, UPLOAD_DEBUGINFO, ret_fd);
	if (r < 0)
		r = try_debuginfod(job, request->build_id, ret_fd, err);
	snprintf(job->lacks, sizeof(job->lacks), "%s", r < 0 ? request->build_id : "");
	return r;
}

static int open_split(struct source_job *job, const struct symbol_file_request *request, int *ret_fd)
{
	char path[SYMBOL_PATH_MAX];
	if (request->kind != SYMBOL_FILE_DWP)
		return try_named(job, request->name, "", ret_fd);
	int n = snprintf(path, sizeof(path), "%s.dwp", job->path);
	return n > 0 && (size_t)n < sizeof(path) ? try_named(job, path, "", ret_fd) : -ENOENT;
}

int source_prepare(struct source_job *job, struct error *err)
{
	static const enum symbol_file_kind kinds[] = {SYMBOL_FILE_BINARY, SYMBOL_FILE_DEBUG, SYMBOL_FILE_KALLSYMS};
	struct error why = {0};
	int r = -ENOENT;
	job->ready_fd = -1;
	job->is_local = job->is_foreign = false;
	for (size_t i = 0; r == -ENOENT && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct symbol_file_request request = {.kind = kinds[i]};
		int fd;
		r = source_open_file(job, &request, &fd, &why);
		if (r >= 0) {
			job->ready_fd = fd;
			job->ready_result = r;
			job->ready_kind = kinds[i];
			if (job->seen && kinds[i] == SYMBOL_FILE_BINARY)
				seen_files_set_binary(job->seen, fd);
		} else if (r != -ENOMEM && r != -ECANCELED) {
			r = -ENOENT;
		}
	}
	return r < 0 ? error_set(err, r, "%s", why.message) : 0;
}

void source_release(struct source_job *job)
{
	job->ready_fd = io_close(job->ready_fd);
}

/* What was opened beforehand. False = to be looked for. */
static bool take_ready(struct source_job *job, uint32_t kind, int *ret_fd, int *ret_result)
{
	if (job->ready_fd < 0 || kind == SYMBOL_FILE_ALT || kind == SYMBOL_FILE_DWP || kind == SYMBOL_FILE_DWO)
		return false;
	if (kind != job->ready_kind) {
		*ret_result = -ENOENT;
		/* What comes before it is not there; what comes behind may be. */
		return kind < job->ready_kind;
	}
	*ret_fd = fd_take(&job->ready_fd);
	*ret_result = job->ready_result;
	return true;
}

int source_open_file(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	struct source_job *job = context;
	int result;
	if (cancel_requested(&job->symbolizer->stop))
		return -ECANCELED;
	if (take_ready(job, request->kind, ret_fd, &result))
		return result;
	if (job->content && job->content[0] && request->kind != SYMBOL_FILE_ALT)
		return open_content(job, request->kind, ret_fd);
	switch ((enum symbol_file_kind)request->kind) {
	case SYMBOL_FILE_BINARY: return open_binary(job, ret_fd);
	case SYMBOL_FILE_DEBUG: return open_debug(job, request->name, ret_fd, err);
	case SYMBOL_FILE_ALT: return open_alt(job, request, ret_fd, err);
	case SYMBOL_FILE_DWP:
	case SYMBOL_FILE_DWO: return open_split(job, request, ret_fd);
	case SYMBOL_FILE_KALLSYMS: return try_upload(job, job->build_id, UPLOAD_KALLSYMS, ret_fd);
	case SYMBOL_FILE_KINDS: break;
	}
	return -ENOENT;
}

bool source_may_improve(struct symbolizer *s, const char *build_id, uint32_t sources)
{
	char path[SYMBOL_PATH_MAX];
	struct stat st;
	if (sources & SYMBOL_SOURCE_DWARF)
		return false;
	if (!build_id_is_valid(build_id))
		return false;
	if (source_format_path(path, s->debug_directory, build_id, ".debug") && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return true;
	return s->debuginfod || (s->uploads && uploads_has(s->uploads, &s->scope, build_id, UPLOAD_DEBUGINFO));
}
