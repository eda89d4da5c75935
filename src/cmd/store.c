/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick store: what is stored, looked at and changed. On a directory that no server uses the store is opened here; with --url
 * the server that uses it is asked. verify needs neither: it reads files that never change. repair: store_repair.c.
 * backup: store_backup.c.
 */
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/store_verbs.h"
#include "query/query.h"
#include "store/verify.h"

static void print_problem(void *context, const char *message)
{
	(void)context;
	cmd_printf(stderr, "wick store: %s\n", message);
}

/* DATA, or DATA/tenants/NAME. */
static int find_directory(struct store_arguments_of *a, struct error *err)
{
	char data[STORE_DIRECTORY_MAX];
	const char *tenant = a->remote.tenant && strcmp(a->remote.tenant, "anonymous") != 0 ? a->remote.tenant : NULL;
	int r = a->data ? 0 : default_data_directory(data, sizeof(data), err);
	if (r < 0)
		return r;
	if (tenant && (strchr(tenant, '/') || strcmp(tenant, ".") == 0 || strcmp(tenant, "..") == 0))
		return error_set(err, -EINVAL, "--tenant: '%.60s' is not a valid tenant name", tenant);
	int len = snprintf(a->directory, sizeof(a->directory), "%s%s%s", a->data ? a->data : data, tenant ? "/tenants/" : "",
			   tenant ? tenant : "");
	struct stat info;
	if (len >= (int)sizeof(a->directory))
		return error_set(err, -ENAMETOOLONG, "the directory's path is too long");
	if (stat(a->directory, &info) < 0)
		return error_set_errno(err, -errno, "no store in %s", a->directory);
	return 0;
}

static int open_here(struct store_arguments_of *a, struct store **ret, struct error *err)
{
	int r = find_directory(a, err);
	if (r < 0)
		return r;
	struct store_options options = {
		.directory = a->directory, .retention_age_ns = -1, .manual = true, .on_problem = print_problem};
	r = store_open(&options, ret, err);
	return r == -EBUSY
		       ? error_set(err, r, "%s is in use by a server; use --url URL, or stop the server first", a->directory)
		       : r;
}

/* ---- list ---- */

static int print_block(void *context, const struct store_block *block, struct error *err)
{
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX], bytes[TEXT_NUMBER_MAX];
	(void)context, (void)err;
	cmd_printf(stdout, "%-32s %5u  %-24s  %-24s %12llu %8llu %10s%s\n", block->name, block->level,
		   time_format(block->min_ns, from), time_format(block->max_ns, to), (unsigned long long)block->samples,
		   (unsigned long long)block->series, text_format_size(block->bytes, bytes),
		   block->has_samples ? "" : "  rollups only");
	return 0;
}

static void print_head(void)
{
	cmd_printf(stdout, "%-32s %5s  %-24s  %-24s %12s %8s %10s\n", "block", "level", "from", "to", "samples", "series",
		   "size");
}

/* The response of a server, as the same lines. */
static int print_blocks(struct bytes response, struct error *err)
{
	json_error_t fault;
	size_t i;
	_cleanup_(json_decrefp) json_t *root = json_loadb((const char *)response.data, response.len, 0, &fault);
	json_t *item;
	if (!json_is_array(json_object_get(root, "blocks")))
		return error_set(err, -EBADMSG, "malformed response from the server: not a list of blocks");
	print_head();
	json_array_foreach(json_object_get(root, "blocks"), i, item)
	{
		const char *name = json_string_value(json_object_get(item, "name"));
		struct store_block block = {
			.name = name ? name : "?",
			.level = (unsigned)json_integer_value(json_object_get(item, "level")),
			.min_ns = json_integer_value(json_object_get(item, "from_ms")) * NS_PER_MS,
			.max_ns = json_integer_value(json_object_get(item, "to_ms")) * NS_PER_MS,
			.samples = (uint64_t)json_integer_value(json_object_get(item, "samples")),
			.series = (uint64_t)json_integer_value(json_object_get(item, "series")),
			.bytes = (uint64_t)json_integer_value(json_object_get(item, "bytes")),
			.has_samples = !json_is_true(json_object_get(item, "rollups_only")),
		};
		print_block(NULL, &block, err);
	}
	return 0;
}

static int print_response(struct bytes response, struct error *err)
{
	int r = cmd_write("-", response, err);
	return r < 0 ? r : cmd_write("-", bytes_of_string("\n"), err);
}

static int ask(const struct store_arguments_of *a, const char *method, const char *call,
	       int (*print)(struct bytes response, struct error *err), struct error *err)
{
	_cleanup_(buffer_release) struct buffer path = {0}, response = {0};
	const struct remote_value values[] = {{"query", a->selector}, {"from", a->from}, {"to", a->to}};
	int r = remote_begin(&path, call, values, a->selector ? 3 : 0);
	if (r < 0)
		return error_set(err, r, "the selector is too long");
	r = remote_request(&a->remote, method, &path, &response, err);
	return r < 0 ? r : print(buffer_bytes(&response), err);
}

/* ---- verify ---- */

static int verify_one(const char *directory, uint64_t *problems, struct error *err)
{
	struct store_verify_options options = {.directory = directory, .on_problem = print_problem};
	struct store_verify_result result = {0};
	char bytes[TEXT_NUMBER_MAX];
	int r = store_verify(&options, &result, err);
	if (r < 0)
		return r;
	cmd_printf(stdout, "%s: %llu blocks, %s in %llu files; log of %llu records%s; %llu problems", directory,
		   (unsigned long long)result.blocks, text_format_size(result.bytes, bytes), (unsigned long long)result.files,
		   (unsigned long long)result.records, result.is_in_use ? " (not checked: a server writes it)" : "",
		   (unsigned long long)result.problems);
	if (result.host_records)
		printf("; labels of hosts: %llu records", (unsigned long long)result.host_records);
	if (result.log_lost_records)
		printf("; %llu records of the log are lost, %llu bytes, and %llu samples of later ones",
		       (unsigned long long)result.log_lost_records, (unsigned long long)result.log_lost_bytes,
		       (unsigned long long)result.log_lost_rows);
	if (result.log_cut_bytes)
		cmd_printf(stdout, "; the log ends inside a record, %llu bytes of %s", (unsigned long long)result.log_cut_bytes,
			   result.log_cut_record_bytes ? text_format_size(result.log_cut_record_bytes, bytes) : "it");
	if (result.set_aside)
		printf("; %llu files set aside earlier, in quarantine/", (unsigned long long)result.set_aside);
	printf("\n");
	*problems += result.problems;
	return 0;
}

static int verify_tenants(const char *data, uint64_t *problems, struct error *err)
{
	char path[STORE_DIRECTORY_MAX], one[STORE_DIRECTORY_MAX];
	const struct dirent *entry;
	int r = io_join_path(path, sizeof(path), data, "tenants");
	DIR *directory = r < 0 ? NULL : opendir(path);
	while (directory && !r && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && !(r = io_join_path(one, sizeof(one), path, entry->d_name)))
			r = verify_one(one, problems, err);
	if (directory)
		closedir(directory);
	return r == -ENAMETOOLONG ? error_set(err, r, "a tenant's path is too long") : r;
}

static int run_verify(struct store_arguments_of *a, struct error *err)
{
	uint64_t problems = 0;
	int r = find_directory(a, err);
	if (!r)
		r = verify_one(a->directory, &problems, err);
	if (!r && !a->remote.tenant)
		r = verify_tenants(a->directory, &problems, err);
	if (!r && problems)
		r = error_set(err, -EBADMSG,
			      "%llu problems; a server reads around what is damaged; 'wick store repair' gets back what it can",
			      (unsigned long long)problems);
	return r;
}

static int run_repair(struct store_arguments_of *a, struct error *err)
{
	int r = find_directory(a, err);
	return r < 0 ? r : store_repair_all(a, &a->has_loss, err);
}

static int run_backup(struct store_arguments_of *a, struct error *err)
{
	int r = a->remote.url ? 0 : find_directory(a, err);
	return r < 0 ? r : store_backup_all(a, &a->has_loss, err);
}

static int run_list(struct store_arguments_of *a, struct error *err)
{
	_cleanup_(store_closep) struct store *store = NULL;
	int r = open_here(a, &store, err);
	if (r < 0)
		return r;
	print_head();
	return store_list_blocks(store, print_block, NULL, err);
}

/* ---- changes ---- */

static int run_compact(struct store_arguments_of *a, struct error *err)
{
	struct store_stats before, after;
	char size_before[TEXT_NUMBER_MAX], size_after[TEXT_NUMBER_MAX];
	_cleanup_(store_closep) struct store *store = NULL;
	int r = open_here(a, &store, err);
	if (r < 0)
		return r;
	store_get_stats(store, &before);
	r = store_cut(store, err);
	if (!r)
		r = store_compact(store, time_now_ns(), err);
	if (r < 0)
		return r;
	store_get_stats(store, &after);
	cmd_printf(stdout, "%llu compactions: %llu blocks, %s, are now %llu, %s\n",
		   (unsigned long long)(after.compactions - before.compactions), (unsigned long long)before.blocks,
		   text_format_size(before.block_bytes, size_before), (unsigned long long)after.blocks,
		   text_format_size(after.block_bytes, size_after));
	return 0;
}

static int run_delete(struct store_arguments_of *a, struct error *err)
{
	struct store_delete_result result = {0};
	int64_t from_ns, to_ns, now_ns = time_now_ns();
	_cleanup_(selector_freep) struct selector *selector = NULL;
	_cleanup_(store_closep) struct store *store = NULL;
	int r = selector_parse(a->selector, &selector, err);
	if (!r && (r = time_parse(a->from, now_ns, &from_ns, err)) < 0)
		error_prefix(err, r, "--from");
	if (!r && (r = time_parse(a->to, now_ns, &to_ns, err)) < 0)
		error_prefix(err, r, "--to");
	if (!r && from_ns >= to_ns)
		r = error_set(err, -EINVAL, "the time range is empty: --from must be before --to");
	if (!r)
		r = open_here(a, &store, err);
	if (!r)
		r = selector_refuse_hosts(selector, store, err);
	if (!r)
		r = store_delete(store, selector_series(selector), from_ns, to_ns, &result, err);
	if (r < 0)
		return r;
	printf("deleted %llu samples in %llu blocks\n", (unsigned long long)result.samples, (unsigned long long)result.blocks);
	if (result.kept)
		printf("%llu blocks were not changed: they have only rollups, without the labels of the selector\n",
		       (unsigned long long)result.kept);
	return 0;
}

/* ---- the verb ---- */

static const struct action {
	const char *name, *method, *call; /* method NULL = not a server's */
	int (*run)(struct store_arguments_of *a, struct error *err);
	int (*print)(struct bytes response, struct error *err);
	bool selects, has_target;
} actions[] = {
	{"verify", NULL, NULL, run_verify, NULL, false, false},
	{"repair", NULL, NULL, run_repair, NULL, false, false},
	{"backup", NULL, NULL, run_backup, NULL, false, true},
	{"list", "GET", "/api/v1/blocks", run_list, print_blocks, false, false},
	{"compact", "POST", "/api/v1/compact", run_compact, print_response, false, false},
	{"delete", "POST", "/api/v1/delete", run_delete, print_response, true, false},
};

static const struct action *find_action(const char *name)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	return NULL;
}

int cmd_store(int argc, char **argv)
{
	struct store_arguments_of a = {0};
	const struct option_row options[] = {
		{0, "data", "DIR", OPTION_TEXT, &a.data, .help = "data directory (default: as wick server)"},
		REMOTE_OPTION_ROWS(&a.remote),
		{0, "dry-run", NULL, OPTION_FLAG, &a.dry_run, .help = "repair: only show what would be done"},
		{0, "from", "TIME", OPTION_TEXT, &a.from, .help = "delete: start of the time range"},
		{0, "to", "TIME", OPTION_TEXT, &a.to, .help = "delete: end of the time range"},
		{0}};
	const struct usage usage = {
		.verb = "store",
		.actions = "verify, repair, backup, list, compact, delete",
		.synopsis = "verify|repair|backup|list|compact|delete [SELECTOR|TARGET] [--data DIR] [--url URL]",
		.description =
			"verify reads all stored data and compares checksums; repair gets back what it can of damaged\nblocks "
			"and of those in quarantine/; backup copies a store, in use or not, into a directory that a\nserver "
			"can "
			"be started on; list shows the blocks; compact merges them now; delete removes the\nsamples of a "
			"selection permanently. If a server uses the data, give its --url; verify and\nbackup always work, "
			"repair only while none does.\n\nExit status: 0 done, and all is whole; 3 done, but rows are lost "
			"(repair), or blocks that were\ncopied are damaged (backup); 1 failed, or something is damaged "
			"(verify) or cannot be repaired.",
		.options = options,
		.examples =
			"wick store verify --data /srv/wick\nwick store backup --url "
			"http://127.0.0.1:7070 /backup/wick\nwick store list --url http://127.0.0.1:7070\nwick store delete "
			"'{env=\"test\"}' --from now-30d --to now-7d --url http://127.0.0.1:7070"};
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	const struct action *action = operands.count ? find_action(operands.items[0]) : NULL;
	if (!action)
		return usage_error(&usage, "expected verify, repair, backup, list, compact or delete%s%s",
				   operands.count ? ", not " : "", operands.count ? operands.items[0] : "");
	if (action->selects && operands.count != 2)
		return usage_error(&usage, "delete needs one selector; '{}' selects everything");
	if (action->has_target && operands.count != 2)
		return usage_error(&usage, "backup needs one operand: the directory to make or to bring up to date");
	if (!action->selects && !action->has_target && operands.count != 1)
		return usage_error(&usage, "%s takes no operand", action->name);
	if (action->selects && (!a.from || !a.to))
		return usage_error(&usage, "delete requires --from and --to");
	if (a.remote.url && !action->method && !action->has_target)
		return usage_error(&usage, "%s reads the files: give --data DIR on the server's machine", action->name);
	if (a.dry_run && action->run != run_repair)
		return usage_error(&usage, "--dry-run is for repair");
	if (a.remote.url && a.data)
		return usage_error(&usage, "--data and --url exclude each other");
	a.selector = action->selects ? operands.items[1] : NULL;
	a.target = action->has_target ? operands.items[1] : NULL;
	struct error err = {0};
	int r = a.remote.url && action->method ? ask(&a, action->method, action->call, action->print, &err)
					       : action->run(&a, &err);
	return r < 0 ? cmd_fail("store", &err) : a.has_loss ? EXIT_LOSS : EXIT_DONE;
}
