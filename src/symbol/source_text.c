/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source text and machine code, from wherever they can be had.
 *
 * Who may read what. Anybody who may ask the server about profiles may ask for a listing, and paths come from debug information
 * that somebody else may have made. So a path is looked up only if the table of that very binary names it, and a file of this
 * host is shown only if
 *   - files of this host may be opened at all (a server that is fed by other hosts does not);
 *   - the path is absolute and its name ends like that of a source file;
 *   - it leads to a regular file, not through a link in its last part, that everybody may read, in directories that everybody
 *     may enter: what is shown is what any user of this host could have looked at. Not through /proc/PID/root, behind which
 *     directories are another container's (source_open_public());
 *   - it is no larger than SOURCE_TEXT_BYTES_MAX, and text.
 * Where who asks is who runs this (`own_files`), the text may also be one that only they may read; all else holds.
 * An archive that was uploaded for the binary comes before the host's file, which may have changed since the binary was built.
 *
 * Code is read from files whose build-id is the binary's. Debug files that agents extract have no code in them.
 */
#include "symbol/source_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/io.h"
#include "base/text.h"
#include "elf/elf_file.h"
#include "elf/file_ids.h"
#include "symbol/debuginfod.h"
#include "symbol/source_text_int.h"
#include "symbol/symbol_int.h"

/* ---- files of this host ---- */

bool source_text_has_suffix(const char *path)
{
	static const char *const suffixes[] = {
		".c",	  ".cc",    ".cpp", ".cxx", ".c++", ".C",   ".h",   ".hh",  ".hpp", ".hxx", ".h++",  ".H",
		".ipp",	  ".inl",   ".inc", ".tcc", ".ixx", ".cu",  ".cuh", ".rs",  ".go",  ".s",   ".S",    ".asm",
		".sx",	  ".d",	    ".di",  ".f",   ".F",   ".for", ".f77", ".f90", ".F90", ".f95", ".f03",  ".f08",
		".zig",	  ".swift", ".m",   ".mm",  ".py",  ".pyx", ".js",  ".mjs", ".ts",  ".tsx", ".java", ".kt",
		".scala", ".ml",    ".mli", ".hs",  ".nim", ".pas", ".pp",  ".adb", ".ads", ".cr",  ".v",    ".y",
		".yy",	  ".l",	    ".ll",  ".rl",  ".lua", ".rb",  ".php", ".cs",  ".fs",  ".jl",
	};
	const char *dot = strrchr(text_base_name(path), '.');
	for (size_t i = 0; dot && i < sizeof(suffixes) / sizeof(*suffixes); i++)
		if (strcmp(dot, suffixes[i]) == 0)
			return true;
	return false;
}

static int check_text(const struct buffer *text, const char *what, struct error *err)
{
	if (text->len > 0 && memchr(text->data, 0, text->len))
		return error_set(err, -EACCES, "%s: not a text file", what);
	return 0;
}

static int read_whole(int fd, const char *name, struct buffer *out, struct error *err)
{
	uint64_t size;
	int r = io_file_size(fd, &size, name, err);
	if (r < 0)
		return r;
	if (size > out->max)
		return error_set(err, -E2BIG, "%s: larger than %zu bytes", name, out->max);
	buffer_clear(out);
	if (buffer_reserve(out, (size_t)size) < 0)
		return error_nomem(err);
	ssize_t len = io_pread(fd, out->data, (size_t)size, 0, name, err);
	if (len < 0)
		return (int)len;
	out->len = (size_t)len;
	return 0;
}

int source_text_read_host(const char *path, bool own_files, struct buffer *out, struct error *err)
{
	if (!source_is_host_path(path))
		return error_set(err, -EACCES, "%s: not an absolute path", path);
	if (!source_text_has_suffix(path))
		return error_set(err, -EACCES, "%s: not the name of a source file", path);
	_cleanup_(fd_closep) int fd = -1;
	int r = (own_files ? source_open : source_open_public)(path, O_NOFOLLOW, &fd, NULL, err);
	if (r == 0)
		r = read_whole(fd, path, out, err);
	return r < 0 ? r : check_text(out, path, err);
}

/* ---- text ---- */

struct places {
	struct symbolizer *symbolizer;
	const char *build_id, *path;
	const atomic_bool *cancel;
	char why[ERROR_MESSAGE_MAX]; /* what was tried, and why it was no use */
};

static void note(struct places *places, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct places *places, const char *format, ...)
{
	size_t len = strlen(places->why);
	va_list args;
	if (len)
		len += (size_t)snprintf(places->why + len, sizeof(places->why) - len, "; ");
	if (len >= sizeof(places->why))
		return;
	va_start(args, format);
	vsnprintf(places->why + len, sizeof(places->why) - len, format, args);
	va_end(args);
}

/* What came of one try: what is wrong with one place is noted, and the next one is tried (-ENOENT). */
static int try_next(struct places *places, int r, const char *place, const struct error *why, struct error *err)
{
	if (r == -ENOMEM || r == -ECANCELED)
		return error_set(err, r, "%s", why->message);
	if (r < 0)
		note(places, "%s%.200s", place, why->message);
	return r < 0 ? -ENOENT : 0;
}

static bool names_file(const struct symbol_view *view, const char *path)
{
	const struct symbol_table *table = symbol_view_table(view);
	for (uint32_t i = 1; i < table->header->file_count; i++)
		if (strcmp(table->strings + table->files[i], path) == 0)
			return true;
	return false;
}

/* The binary's own table must name the file. */
static int check_named(const struct places *places, const char *binary, const struct symbolizer_want *want, struct error *err)
{
	_cleanup_(symbol_view_freep) struct symbol_view *view = NULL;
	if (!build_id_is_valid(places->build_id))
		return error_set(err, -ENOENT, "the binary has no build-id, so its source files cannot be found");
	int r = symbolizer_view(places->symbolizer, places->build_id, binary, want, &view, err);
	if (r == -ENOENT)
		return error_set(err, r, "unknown binary %s", places->build_id);
	if (r < 0)
		return r;
	return names_file(view, places->path) ? 0
					      : error_set(err, -ENOENT, "the debug information of %s has no file '%.200s'",
							  places->build_id, places->path);
}

static int try_archive(struct places *places, struct buffer *out, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct error why = {0};
	struct uploads *uploads = places->symbolizer->uploads;
	int r = uploads ? uploads_open_file(uploads, &places->symbolizer->scope, places->build_id, UPLOAD_SOURCES, &fd, &why)
			: -ENOENT;
	if (r < 0) {
		note(places, "no sources were uploaded");
		return -ENOENT;
	}
	r = source_text_read_archive(fd, places->path, places->cancel, out, &why);
	if (r == 0)
		r = check_text(out, "in the uploaded archive", &why);
	return try_next(places, r, "", &why, err);
}

static int try_host(struct places *places, struct buffer *out, struct error *err)
{
	struct error why = {0};
	if (places->symbolizer->no_host_files) {
		note(places, "this server does not read files of its host");
		return -ENOENT;
	}
	int r = source_text_read_host(places->path, places->symbolizer->own_files, out, &why);
	return try_next(places, r, "", &why, err);
}

static int try_debuginfod(struct places *places, struct buffer *out, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct error why = {0};
	if (!places->symbolizer->debuginfod || places->path[0] != '/') {
		note(places,
		     places->path[0] == '/' ? "no debuginfod server is configured" : "debuginfod requires an absolute path");
		return -ENOENT;
	}
	int r = debuginfod_fetch(places->symbolizer->debuginfod, DEBUGINFOD_SOURCE, places->build_id, places->path,
				 places->cancel, &fd, NULL, &why);
	if (r == 0)
		r = read_whole(fd, places->path, out, &why);
	if (r == 0)
		r = check_text(out, places->path, &why);
	return try_next(places, r, "debuginfod: ", &why, err);
}

int source_text_read(struct symbolizer *symbolizer, const char *build_id, const char *binary, const char *path,
		     const struct symbolizer_want *want, struct buffer *out, const char **ret_from, struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	static const struct {
		const char *from;
		int (*read)(struct places *places, struct buffer *out, struct error *err);
	} tries[] = {{"uploaded archive", try_archive}, {"local file", try_host}, {"debuginfod", try_debuginfod}};
	struct places places = {
		.symbolizer = symbolizer, .build_id = build_id, .path = path, .cancel = want ? want->cancel : NULL};
	if (!path[0])
		return error_set(err, -ENOENT, "the debug information does not give its file");
	int r = check_named(&places, binary, want, err);
	if (r < 0)
		return r;
	if (out->max > SOURCE_TEXT_BYTES_MAX)
		out->max = SOURCE_TEXT_BYTES_MAX;
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		buffer_clear(out);
		r = tries[i].read(&places, out, err);
		*ret_from = r == 0 ? tries[i].from : "";
		if (r != -ENOENT)
			return r;
	}
	buffer_clear(out);
	return error_set(err, -ENOENT, "no source of '%.120s': %s", path, places.why);
}

/* ---- code ---- */

struct wanted_code {
	const char *build_id;
	uint64_t address, size;
	bool announced; /* as the binary of that build-id, by who uploaded it: it need not have one */
	struct code_bytes *ret;
};

/* Executables that were extracted for their symbols say where the original's contents were, and do not have them. */
static int check_has_code(int fd, const char *name, struct error *err)
{
	uint8_t ident[EI_NIDENT] = {0};
	ssize_t len = io_pread(fd, ident, sizeof(ident), 0, name, err);
	if (len < 0)
		return (int)len;
	return memcmp(ident + EI_PAD, "wickx", 5) ? 0 : error_set(err, -ENOENT, "%s has symbols but no code", name);
}

static const struct elf_segment *find_segment(const struct elf_file *file, const struct wanted_code *wanted)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *s = &file->segments[i];
		if (elf_segment_is_executed(s) && wanted->address >= s->address &&
		    wanted->address - s->address < s->file_size &&
		    wanted->size <= s->file_size - (wanted->address - s->address))
			return s;
	}
	return NULL;
}

static int read_code_of(struct elf_file *file, const struct wanted_code *wanted, struct error *err)
{
	char own[BUILD_ID_HEX_MAX] = "";
	struct error why = {0};
	int r = wanted->build_id[0] ? build_id_read(file, own, &why) : 0;
	bool same = r == 0 && strcmp(own, wanted->build_id) == 0;
	if (!same && (r == 0 || r == -ENOENT) && file->fd >= 0)
		same = file_has_id(file->fd, wanted->build_id) > 0; /* known by its hash */
	bool nameless = same || (r == -ENOENT && wanted->announced);
	if (r < 0 && !nameless)
		return error_set(err, r, "%s", why.message);
	if (!nameless)
		return error_set(err, -ENOENT, "%s is a different build: %s", file->name, own);
	const struct elf_segment *segment = find_segment(file, wanted);
	if (!segment)
		return error_set(err, -ENOENT, "%s has no code at 0x%llx", file->name, (unsigned long long)wanted->address);
	struct buffer *bytes = &wanted->ret->bytes;
	buffer_clear(bytes);
	if (buffer_reserve(bytes, (size_t)wanted->size) < 0)
		return error_nomem(err);
	r = elf_file_read(file, segment->offset + (wanted->address - segment->address), bytes->data, (size_t)wanted->size, err);
	if (r < 0)
		return r;
	bytes->len = (size_t)wanted->size;
	wanted->ret->machine = file->machine;
	wanted->ret->address = wanted->address;
	return 0;
}

static int read_code(int fd, const char *name, const struct wanted_code *wanted, struct error *err)
{
	struct elf_file file;
	int r = check_has_code(fd, name, err);
	if (r == 0)
		r = elf_file_open(&file, fd, name, err);
	if (r < 0)
		return r;
	r = read_code_of(&file, wanted, err);
	elf_file_release(&file);
	return r;
}

static int open_host_code(struct places *places, int *ret_fd, struct error *err)
{
	if (places->symbolizer->no_host_files)
		return error_set(err, -ENOENT, "this server does not read files of its host");
	if (!source_is_host_path(places->path))
		return error_set(err, -ENOENT, "'%.200s' is not a file of this host", places->path);
	return source_open(places->path, 0, ret_fd, NULL, err);
}

static int open_uploaded_code(struct places *places, int *ret_fd, struct error *err)
{
	struct uploads *uploads = places->symbolizer->uploads;
	if (uploads && places->build_id[0] &&
	    uploads_open_file(uploads, &places->symbolizer->scope, places->build_id, UPLOAD_EXECUTABLE, ret_fd, NULL) >= 0)
		return 0;
	return error_set(err, -ENOENT, "no executable was uploaded");
}

static int open_fetched_code(struct places *places, int *ret_fd, struct error *err)
{
	if (!places->symbolizer->debuginfod || !places->build_id[0])
		return error_set(err, -ENOENT, "no debuginfod server is configured");
	int r = debuginfod_fetch(places->symbolizer->debuginfod, DEBUGINFOD_EXECUTABLE, places->build_id, NULL, places->cancel,
				 ret_fd, NULL, err);
	return r < 0 ? error_prefix(err, r, "debuginfod") : 0;
}

int code_bytes_read(struct symbolizer *symbolizer, const char *build_id, const char *path, uint64_t address, uint64_t size,
		    const atomic_bool *cancel, struct code_bytes *ret, struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* what is here stays */
	static const struct {
		const char *from;
		int (*open)(struct places *places, int *ret_fd, struct error *err);
	} tries[] = {
		{"local file", open_host_code}, {"uploaded executable", open_uploaded_code}, {"debuginfod", open_fetched_code}};
	struct places places = {.symbolizer = symbolizer, .build_id = build_id, .path = path, .cancel = cancel};
	struct wanted_code wanted = {.build_id = build_id, .address = address, .size = size, .ret = ret};
	*ret = (struct code_bytes){.from = "", .bytes.max = CODE_BYTES_MAX};
	if (size > CODE_BYTES_MAX)
		return error_set(err, -E2BIG, "%llu bytes of code, more than the limit of %llu", (unsigned long long)size,
				 (unsigned long long)CODE_BYTES_MAX);
	if (build_id[0] && !build_id_is_valid(build_id))
		return error_set(err, -ENOENT, "'%.140s' is not a build-id", build_id);
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		_cleanup_(fd_closep) int fd = -1;
		struct error why = {0};
		wanted.announced = tries[i].open == open_uploaded_code;
		int r = tries[i].open(&places, &fd, &why);
		if (r == 0)
			r = read_code(fd, i ? tries[i].from : path, &wanted, &why);
		if (r == 0) {
			ret->from = tries[i].from;
			return 0;
		}
		if (r == -ENOMEM || r == -ECANCELED) {
			buffer_release(&ret->bytes);
			return error_set(err, r, "%s", why.message);
		}
		note(&places, "%.200s", why.message);
	}
	buffer_release(&ret->bytes);
	return error_set(err, -ENOENT, "no code of %.140s: %s", path[0] ? path : build_id, places.why);
}
