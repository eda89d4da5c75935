/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shipper.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/time.h"
#include "symbol/symbol.h"
#include "symbol/worker.h"

#define SYMBOL_WAIT_NS	    (20 * NS_PER_S)
#define SYMBOL_CACHE_BYTES  (1 * GIB)
#define SYMBOL_MEMORY_BYTES (64 * MIB)

struct shipper {
	struct exporter *exporter;
	struct symbolizer *symbolizer; /* NULL = nobody asks for names */
	struct export_target targets[EXPORT_TARGETS_MAX];
	size_t count;
};

static void say(void *context, enum log_level level, const char *text)
{
	log_write(level, "%s", text);
}

static int symbolize(void *context, struct profile *profile, const bool *cancel, struct error *err)
{
	struct shipper *shipper = context;
	struct symbolizer_want want = {.wait_ns = SYMBOL_WAIT_NS, .cancel = cancel};
	return symbolizer_resolve(shipper->symbolizer, profile, 1, &want, NULL, err);
}

/* Tables are made one at a time, in processes of their own, once for each binary, and kept on disk. */
static int open_symbolizer(struct shipper *shipper, const char *cache_directory, struct error *err)
{
	static const struct symbol_worker_options worker = {.program = "/proc/self/exe"};
	char directory[4096];
	struct symbolizer_options options = {.cache_max_bytes = SYMBOL_CACHE_BYTES,
					     .memory_max_bytes = SYMBOL_MEMORY_BYTES,
					     .own_files = true,
					     .workers = 1,
					     .worker = &worker};
	bool wanted = false;
	for (size_t i = 0; i < shipper->count; i++)
		wanted |= shipper->targets[i].symbolize;
	if (!wanted)
		return 0;
	if (cache_directory && io_join_path(directory, sizeof(directory), cache_directory, "symbols") == 0 &&
	    io_make_dirs(directory, 0700, NULL) == 0)
		options.cache_directory = directory;
	return symbolizer_new(&options, &shipper->symbolizer, err);
}

static int collect_targets(struct shipper *shipper, const struct shipper_options *options, struct error *err)
{
	if (options->url)
		shipper->targets[shipper->count++] = (struct export_target){.kind = EXPORT_WICK,
									    .url = options->url,
									    .name = options->url_in_memory ? "server" : NULL,
									    .token = options->token,
									    .tenant = options->tenant,
									    .memory_only = options->url_in_memory,
									    .spool_bytes = options->spool_bytes,
									    .spool_age_ns = options->spool_age_ns};
	if (shipper->count + options->target_count > EXPORT_TARGETS_MAX)
		return error_set(err, -EINVAL, "more than %d targets", EXPORT_TARGETS_MAX);
	for (size_t i = 0; i < options->target_count; i++)
		shipper->targets[shipper->count++] = options->targets[i];
	return 0;
}

int shipper_new(const struct shipper_options *options, struct shipper **ret, struct error *err)
{
	_cleanup_(shipper_freep) struct shipper *shipper = mem_zalloc(sizeof(*shipper));
	if (!shipper)
		return error_nomem(err);
	int r = collect_targets(shipper, options, err);
	if (!r)
		r = open_symbolizer(shipper, options->cache_directory, err);
	struct exporter_options exporter = {.targets = shipper->targets,
					    .target_count = shipper->count,
					    .directory = options->spool_directory,
					    .say = say,
					    .symbolize = shipper->symbolizer ? symbolize : NULL,
					    .context = shipper};
	if (!r)
		r = exporter_new(&exporter, &shipper->exporter, err);
	if (r < 0)
		return r;
	*ret = shipper;
	shipper = NULL;
	return 0;
}

int shipper_push(struct shipper *shipper, const struct profile *profile, struct error *err)
{
	return exporter_push(shipper->exporter, profile, NULL, EXPORT_ALL_TARGETS, err);
}

void shipper_see(struct shipper *shipper, const char *build_id, const char *path, int fd)
{
	if (shipper->symbolizer && *build_id) /* a failure shows as addresses without names; the rest is as good */
		symbolizer_offer(shipper->symbolizer, build_id, path, fd, NULL);
}

void shipper_finish(struct shipper *shipper, int64_t timeout_ns)
{
	exporter_finish(shipper->exporter, timeout_ns);
}

struct shipper *shipper_free(struct shipper *shipper)
{
	if (!shipper)
		return NULL;
	exporter_free(shipper->exporter);
	symbolizer_free(shipper->symbolizer);
	return mem_free(shipper);
}

size_t shipper_get_stats(struct shipper *shipper, struct export_stats *ret, size_t max)
{
	return exporter_get_stats(shipper->exporter, ret, max);
}
