/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names come from: DATA/symbols (tables), DATA/debuginfo (uploads), DATA/debuginfod (what debuginfod servers gave). None
 * of it is needed to take in profiles, so what cannot be had is said once, and done without: the sandbox, libdebuginfod.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/log.h"
#include "server/core/server_int.h"

static int join(const struct server *server, const char *name, char out[static PATH_BYTES_MAX], struct error *err)
{
	if (io_join_path(out, PATH_BYTES_MAX, server->data_directory, name) < 0)
		return error_set(err, -ENAMETOOLONG, "the data directory's path is too long");
	return io_make_dirs(out, 0750, err);
}

static int open_uploads(struct server *server, struct error *err)
{
	char directory[PATH_BYTES_MAX];
	int r = join(server, "debuginfo", directory, err);
	if (r < 0)
		return r;
	struct uploads_options options = {.directory = directory,
					  .bytes_max = server->options.symbols.uploads_bytes,
					  .file_bytes_max = server->options.symbols.upload_file_bytes,
					  .on_arrival = debuginfo_on_arrival,
					  .context = server};
	return uploads_open(&options, &server->uploads, err);
}

int symbols_open_debuginfod(struct server *server, struct error *err)
{
	char directory[PATH_BYTES_MAX];
	struct error problem = {0};
	int r = join(server, "debuginfod", directory, err);
	if (r < 0)
		return r;
	struct debuginfod_options options = {.urls = server->options.symbols.debuginfod_urls,
					     .directory = directory,
					     .bytes_max = server->options.symbols.debuginfod_cache_bytes,
					     .file_bytes_max = server->options.symbols.upload_file_bytes,
					     .timeout_ns = server->options.symbols.debuginfod_timeout_ns,
					     .missing_ns = server->options.symbols.debuginfod_missing_ns};
	r = debuginfod_new(&options, &server->debuginfod, &problem);
	if (!r)
		return 0;
	log_warn("debuginfod is not used: %s", problem.message);
	snprintf(server->debuginfod_problem, sizeof(server->debuginfod_problem), "%s", problem.message);
	return 0;
}

/* ---- the sandbox ---- */

static int open_nothing(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	return error_set(err, -ENOENT, "%s: only a test of the sandbox", request->name);
}

/* Builds nothing in a sandbox, to see whether one can be made here. */
static bool can_sandbox(const struct symbol_worker_options *worker, struct error *err)
{
	_cleanup_(fd_closep) int fd = memfd_create("wick-trial", MFD_CLOEXEC);
	struct symbol_build_options options = {.build_id = "", .open_file = open_nothing};
	struct symbol_build_result result;
	int r = fd < 0 ? error_set_errno(err, -errno, "cannot create a memfd")
		       : symbol_worker_build(worker, &options, fd, &result, err);
	return r == -ENOENT || r == 0;
}

static const struct symbol_worker_options *make_worker(struct server *server)
{
	struct error problem = {0};
	const struct server_symbol_options *symbols = &server->options.symbols;
	server->symbol_worker = (struct symbol_worker_options){.program = "/proc/self/exe",
							       .memory_max_bytes = symbols->worker_memory_bytes,
							       .cpu_max_ns = symbols->worker_cpu_ns,
							       .wall_max_ns = symbols->worker_wall_ns};
	/* Not read here instead: what comes is hostile until it is shown to be harmless, and a trial fails for a moment's
	 * shortage, too. Each binary says why it has no names. */
	if (!can_sandbox(&server->symbol_worker, &problem))
		log_warn("addresses cannot be symbolized: the sandbox for parsing debug information fails: %s",
			 problem.message);
	return &server->symbol_worker;
}

int symbols_open(struct server *server, struct error *err)
{
	char directory[PATH_BYTES_MAX];
	const struct server_symbol_options *symbols = &server->options.symbols;
	int r = join(server, "symbols", directory, err);
	if (!r)
		r = open_uploads(server, err);
	if (r < 0)
		return r;
	struct symbolizer_options options = {.cache_directory = directory,
					     .cache_max_bytes = symbols->cache_bytes,
					     .memory_max_bytes = symbols->memory_bytes,
					     .no_host_files = server->options.no_host_files,
					     .retry_ns = symbols->retry_ns,
					     .workers = symbols->workers ? symbols->workers : SERVER_SYMBOL_WORKERS_DEFAULT,
					     .worker = make_worker(server),
					     .uploads = server->uploads,
					     .debuginfod = server->debuginfod};
	return symbolizer_new(&options, &server->symbolizer, err);
}

void symbols_close(struct server *server)
{
	server->symbolizer = symbolizer_free(server->symbolizer);
	server->debuginfod = debuginfod_free(server->debuginfod);
	server->uploads = uploads_close(server->uploads);
}

/* ---- what profiles tell ---- */

/*
 * Binaries that have locations without names, with the samples whose innermost frame is in them, so that what is hot is built
 * first. Never waits, and costs a walk over the profile's tables. Without memory nobody is told: they are asked for when
 * somebody looks.
 */
void symbols_note(struct server *server, const struct profile *profile)
{
	_cleanup_(mem_freep) uint64_t *samples = mem_zalloc_array(profile->mapping_count, sizeof(*samples));
	_cleanup_(mem_freep) bool *unnamed = mem_zalloc_array(profile->mapping_count, sizeof(*unnamed));
	if (!samples || !unnamed)
		return;
	for (size_t i = 1; i < profile->location_count; i++)
		if (!profile->locations[i].line_count)
			unnamed[profile->locations[i].mapping] = true;
	for (size_t i = 0; i < profile->sample_count; i++)
		samples[profile->locations[profile->stacks[profile->samples[i].stack].location].mapping]++;
	for (size_t i = 1; i < profile->mapping_count; i++) {
		const struct profile_mapping *mapping = &profile->mappings[i];
		const char *build_id = profile_string(profile, mapping->build_id);
		if (!unnamed[i] || !build_id_is_valid(build_id))
			continue;
		if (mapping->go_id)
			symbolizer_note_go_id(server->symbolizer, build_id, profile_string(profile, mapping->go_id));
		symbolizer_note(server->symbolizer, build_id, profile_string(profile, mapping->file_name), samples[i]);
	}
}
