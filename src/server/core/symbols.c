/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names come from: DATA/symbols (tables), DATA/debuginfo (uploads), DATA/debuginfod (what debuginfod servers gave). None
 * of it is needed to take in profiles, so what cannot be had is said once, and done without: the sandbox, libdebuginfod.
 *
 * Tenants. A build-id is no secret: it is in every copy of a binary, and whoever pushes a profile writes any he likes into it.
 * So each tenant has a symbolizer of its own, which knows what its own profiles and agents have told, and sees its own uploads,
 * those of the tenants that `symbols.shared` names, and debuginfod. Files of this host, and what its agent passes, belong to
 * the tenant without a name. Tables are built and kept for each tenant by itself (DATA/symbols/anonymous,
 * DATA/tenants/NAME/symbols): a table that another's upload went into would say so, and one that is there already would tell
 * by its speed that somebody else has the binary. Without tenants tables lie in DATA/symbols.
 *
 * Rejected: tables of what is public shared by all. It would save a build of the same libc for each tenant, for a rule on which
 * of a table's sources were whose that has to be right for ever.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/log.h"
#include "server/core/server_int.h"

static int join(const struct server *server, const char *name, char out[static PATH_BYTES_MAX], struct error *err)
{
	if (io_join_path(out, PATH_BYTES_MAX, server->data_directory, name) < 0)
		return error_set(err, -ENAMETOOLONG, "the data directory's path is too long");
	return io_make_dirs(out, 0750, err);
}

/* ---- whose ---- */

#define OPEN_MAX	64u
#define TENANT_OPEN_MAX (OPEN_MAX / 2)

const char *symbols_tenant_name(const struct tenant *tenant)
{
	return tenant->is_default ? "" : tenant->name;
}

void symbols_scope_init(const struct server *server, const char *tenant, struct symbols_scope *ret)
{
	size_t count = 0;
	ret->tenants[count++] = tenant;
	for (size_t i = 0; i < server->shared_count; i++)
		if (strcmp(server->shared[i], tenant) != 0)
			ret->tenants[count++] = server->shared[i];
	ret->scope = (struct uploads_scope){.tenants = ret->tenants, .count = count};
}

static bool scope_has(const struct symbols_scope *scope, const char *tenant)
{
	for (size_t i = 0; i < scope->scope.count; i++)
		if (strcmp(scope->tenants[i], tenant) == 0)
			return true;
	return false;
}

static int read_shared(struct server *server, struct error *err)
{
	const struct server_symbol_options *symbols = &server->options.symbols;
	if (symbols->shared_count && !server->options.tenants)
		return error_set(err, -EINVAL, "symbols.shared names tenants, but this server has none (tenants: true)");
	if (symbols->shared_count > SYMBOLS_SHARED_MAX)
		return error_set(err, -EINVAL, "symbols.shared names more than %d tenants", SYMBOLS_SHARED_MAX);
	for (size_t i = 0; i < symbols->shared_count; i++) {
		int r = tenant_name_check(symbols->shared[i], err);
		if (r < 0)
			return error_prefix(err, -EINVAL, "symbols.shared");
		server->shared[server->shared_count++] =
			strcmp(symbols->shared[i], TENANT_DEFAULT) == 0 ? "" : symbols->shared[i];
	}
	return 0;
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
					  .open_max = OPEN_MAX,
					  .tenant_open_max = server->options.tenants ? TENANT_OPEN_MAX : 0,
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

static void make_worker(struct server *server)
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
}

int symbols_open(struct server *server, struct error *err)
{
	const struct server_symbol_options *symbols = &server->options.symbols;
	unsigned workers = symbols->workers ? symbols->workers : SERVER_SYMBOL_WORKERS_DEFAULT;
	make_worker(server);
	int r = read_shared(server, err);
	if (r == 0)
		r = open_uploads(server, err);
	return r < 0 || !server->options.tenants ? r : build_turns_new(workers, &server->build_turns, err);
}

void symbols_close(struct server *server)
{
	server->build_turns = build_turns_free(server->build_turns);
	server->debuginfod = debuginfod_free(server->debuginfod);
	server->uploads = uploads_close(server->uploads);
}

/* ---- those of a tenant ---- */

/* Of a server that had no tenants, or whose tenants shared their symbols: tables and notes of whoever it was. */
static void remove_mixed_tables(const char *directory)
{
	char path[PATH_BYTES_MAX], name[16];
	for (unsigned i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "%02x", i);
		if (io_join_path(path, sizeof(path), directory, name) == 0)
			io_remove_tree(path, NULL);
	}
	if (io_join_path(path, sizeof(path), directory, "contents") == 0)
		io_unlink(path, NULL);
}

static int table_directory(const struct server *server, const struct tenant *tenant, char out[static PATH_BYTES_MAX],
			   struct error *err)
{
	char all[PATH_BYTES_MAX];
	int r = tenant_path(server, tenant, "symbols", out, PATH_BYTES_MAX, err);
	if (r < 0 || !tenant->is_default || !server->options.tenants)
		return r;
	memcpy(all, out, sizeof(all));
	remove_mixed_tables(all);
	return io_join_path(out, PATH_BYTES_MAX, all, TENANT_DEFAULT) < 0
		       ? error_set(err, -ENAMETOOLONG, "the data directory's path is too long")
		       : 0;
}

int symbols_open_tenant(struct server *server, struct tenant *tenant, struct error *err)
{
	char directory[PATH_BYTES_MAX];
	const struct server_symbol_options *symbols = &server->options.symbols;
	unsigned workers = symbols->workers ? symbols->workers : SERVER_SYMBOL_WORKERS_DEFAULT;
	int r = table_directory(server, tenant, directory, err);
	if (r == 0)
		r = io_make_dirs(directory, 0750, err);
	if (r < 0)
		return r;
	tenant->symbols = mem_zalloc(sizeof(*tenant->symbols));
	if (!tenant->symbols)
		return error_nomem(err);
	symbols_scope_init(server, symbols_tenant_name(tenant), tenant->symbols);
	struct symbolizer_options options = {.cache_directory = directory,
					     .cache_max_bytes = symbols->cache_bytes,
					     .memory_max_bytes = symbols->memory_bytes,
					     .no_host_files = server->options.no_host_files || !scope_has(tenant->symbols, ""),
					     .retry_ns = symbols->retry_ns,
					     /* One thread each, as the processes are what is scarce. */
					     .workers = tenant->is_default ? workers : 1,
					     .worker = &server->symbol_worker,
					     .uploads = server->uploads,
					     .scope = tenant->symbols->scope,
					     .turns = server->build_turns,
					     .debuginfod = server->debuginfod};
	r = symbolizer_new(&options, &tenant->symbolizer, err);
	if (r < 0)
		symbols_close_tenant(tenant);
	return r;
}

void symbols_close_tenant(struct tenant *tenant)
{
	tenant->symbolizer = symbolizer_free(tenant->symbolizer);
	tenant->symbols = mem_free(tenant->symbols);
}

#define MEMORY_DEFAULT (512 * MIB)
#define MEMORY_IDLE    (4 * MIB) /* of tables; what is in them is in the page cache as well */
#define CACHE_DEFAULT  (8 * GIB)
#define ENTRIES_LEAST  4096u

void symbols_share(const struct server *server, const struct tenant *tenant, size_t tenants, size_t active, bool is_active)
{
	const struct server_symbol_options *symbols = &server->options.symbols;
	uint64_t memory = symbols->memory_bytes ? symbols->memory_bytes : MEMORY_DEFAULT;
	uint64_t cache = symbols->cache_bytes ? symbols->cache_bytes : CACHE_DEFAULT;
	uint64_t idle = memory / (2 * tenants) < MEMORY_IDLE ? memory / (2 * tenants) : MEMORY_IDLE;
	size_t entries = SYMBOL_ENTRIES_MAX / tenants;
	const struct symbolizer_limits limits = {.memory_max_bytes =
							 is_active ? (memory - (tenants - active) * idle) / active : idle,
						 .cache_max_bytes = cache / tenants,
						 .entries_max = entries > ENTRIES_LEAST ? entries : ENTRIES_LEAST};
	symbolizer_set_limits(tenant->symbolizer, &limits);
}

/* ---- what arrives ---- */

void debuginfo_on_arrival(void *context, const char *tenant, const char *build_id, enum upload_kind kind)
{
	struct server *server = context;
	struct tenant **tenants;
	log_info("symbols: %s of build-id %s was uploaded%s%s", upload_kind_names[kind], build_id,
		 *tenant ? " for tenant " : "", tenant);
	size_t count = kind == UPLOAD_SOURCES ? 0 : tenants_snapshot(server, &tenants);
	for (size_t i = 0; i < count; i++)
		if (atomic_load_explicit(&tenants[i]->store, memory_order_acquire) && scope_has(tenants[i]->symbols, tenant))
			symbolizer_arrived(tenants[i]->symbolizer, build_id);
	if (kind != UPLOAD_SOURCES)
		mem_free(tenants);
}

/* ---- what profiles tell ---- */

/*
 * Binaries that have locations without names, with the samples whose innermost frame is in them, so that what is hot is built
 * first. Never waits, and costs a walk over the profile's tables. Without memory nobody is told: they are asked for when
 * somebody looks.
 */
void symbols_note(struct tenant *tenant, const struct profile *profile)
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
			symbolizer_note_go_id(tenant->symbolizer, build_id, profile_string(profile, mapping->go_id));
		symbolizer_note(tenant->symbolizer, build_id, profile_string(profile, mapping->file_name), samples[i]);
	}
}
