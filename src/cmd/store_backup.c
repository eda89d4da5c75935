/* SPDX-License-Identifier: Apache-2.0 */
/* wick store backup: of a data directory, or of a running server, whose blocks are fetched part by part. */
#include "store/backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/store_verbs.h"
#include "net/net.h"

#define TIMEOUT_NS (600 * NS_PER_S) /* of one call */
#define PATH_BYTES 1024

/* ---- from a server ---- */

struct fetching {
	struct net_client *client;
	const char *url;
};

static int refusal(const struct fetching *f, const struct net_client_response *response, struct error *err)
{
	_cleanup_(json_decrefp) json_t *json = json_loadb((const char *)response->body.data, response->body.len, 0, NULL);
	const char *text = json_string_value(json_object_get(json, "error"));
	return error_set(err, response->status == 404 ? -ENOENT : -EBADMSG, "%s responded with status %d: %s", f->url,
			 response->status, text ? text : response->message);
}

static int list_of_server(void *context, bool is_first, store_backup_on_name on_name, void *name_context, struct error *err)
{
	const struct fetching *f = context;
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	int r = net_client_request(f->client, "POST", is_first ? "/api/v1/backup" : "/api/v1/backup?flush=false", NULL,
				   (struct bytes){0}, NET_PLAIN, &response, err);
	if (r < 0)
		return r;
	if (response.status != 200)
		return refusal(f, &response, err);
	_cleanup_(json_decrefp) json_t *root = json_loadb((const char *)response.body.data, response.body.len, 0, NULL);
	json_t *blocks = json_object_get(root, "blocks"), *block;
	size_t i;
	if (!json_is_array(blocks))
		return error_set(err, -EBADMSG, "malformed response from %s: not a list of blocks", f->url);
	json_array_foreach(blocks, i, block)
	{
		const char *name = json_string_value(json_object_get(block, "name"));
		r = name ? on_name(name_context, name, err)
			 : error_set(err, -EBADMSG, "malformed response from %s: a block without a name", f->url);
		if (r < 0)
			return r;
	}
	return 0;
}

/* name: BLOCK/FILE, or a file that is of none. */
static int fetch_part(const struct fetching *f, const char *name, uint64_t offset, int fd, const char *to, size_t *ret_len,
		      struct error *err)
{
	char path[PATH_BYTES];
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	snprintf(path, sizeof(path), "/api/v1/backup/%s?offset=%llu", name, (unsigned long long)offset);
	int r = net_client_request(f->client, "GET", path, NULL, (struct bytes){0}, NET_PLAIN, &response, err);
	if (r == 0 && response.status != 200)
		r = refusal(f, &response, err);
	*ret_len = response.body.len;
	return r == 0 ? io_write(fd, response.body.data, response.body.len, to, err) : r;
}

static int fetch_file(const struct fetching *f, const char *name, const char *to, struct error *err)
{
	uint64_t offset = 0;
	size_t len = 1;
	_cleanup_(fd_closep) int fd = io_open(to, O_WRONLY | O_CREAT | O_TRUNC, 0640, err);
	int r = fd < 0 ? fd : 0;
	for (; r == 0 && len > 0; offset += len)
		r = fetch_part(f, name, offset, fd, to, &len, err);
	if (r < 0 && fd >= 0)
		io_unlink(to, NULL);
	return r;
}

static int fetch_of_server(void *context, const char *block, const char *file, const char *to, struct error *err)
{
	char name[PATH_BYTES / 2];
	snprintf(name, sizeof(name), "%s/%s", block, file);
	return fetch_file(context, name, to, err);
}

/* Servers before this one have none. */
static int fetch_hosts_of_server(void *context, const char *to, struct error *err)
{
	return fetch_file(context, STORE_BACKUP_HOSTS, to, err);
}

/* ---- one store ---- */

struct printing {
	int64_t shown_ns;
	bool is_shown;
};

static void clear_progress(struct printing *p)
{
	if (p->is_shown)
		fprintf(stderr, "\r\033[K");
	p->is_shown = false;
}

static void show_progress(void *context, uint64_t done, uint64_t count)
{
	struct printing *p = context;
	int64_t now_ns = time_monotonic_ns();
	if (!terminal_is_interactive() || now_ns - p->shown_ns < NS_PER_S / 5)
		return;
	p->shown_ns = now_ns;
	p->is_shown = true;
	fprintf(stderr, "\r\033[Kblock %llu of %llu", (unsigned long long)done + 1, (unsigned long long)count);
	fflush(stderr);
}

static void print_problem(void *context, const char *message)
{
	clear_progress(context);
	cmd_printf(stderr, "wick store: %s\n", message);
}

static int back_up_one(const struct store_backup_source *source, const char *target, bool *ret_loss, struct error *err)
{
	struct printing printing = {0};
	const struct store_backup_options options = {.target = target,
						     .source = source,
						     .on_problem = print_problem,
						     .on_progress = show_progress,
						     .context = &printing};
	struct store_backup_result result;
	char bytes[TEXT_NUMBER_MAX], copied[TEXT_NUMBER_MAX];
	int r = store_backup(&options, &result, err);
	clear_progress(&printing);
	if (r < 0)
		return r;
	cmd_printf(stdout, "%s: %llu blocks, %s; %llu new, %s; %llu removed; log of %llu records", target,
		   (unsigned long long)result.blocks, text_format_size(result.bytes, bytes), (unsigned long long)result.copied,
		   text_format_size(result.bytes_copied, copied), (unsigned long long)result.removed,
		   (unsigned long long)result.log_records);
	if (result.damaged)
		printf("; %llu of the new blocks are damaged", (unsigned long long)result.damaged);
	printf("\n");
	*ret_loss |= result.damaged > 0;
	return 0;
}

static int back_up_server(const struct store_arguments_of *a, bool *ret_loss, struct error *err)
{
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	int r = remote_connect(&a->remote, TIMEOUT_NS, NULL, &client, err);
	if (r < 0)
		return r;
	struct fetching fetching = {.client = client, .url = remote_url(&a->remote)};
	const struct store_backup_source source = {.name = fetching.url,
						   .list = list_of_server,
						   .fetch = fetch_of_server,
						   .fetch_hosts = fetch_hosts_of_server,
						   .context = &fetching};
	r = back_up_one(&source, a->target, ret_loss, err);
	return r == -ECONNREFUSED ? error_prefix(err, r, "no server") : r;
}

/* ---- directories ---- */

static int back_up_directory(const char *directory, const char *target, bool *ret_loss, struct error *err)
{
	struct store_backup_source source;
	store_backup_directory(directory, &source);
	return back_up_one(&source, target, ret_loss, err);
}

static int back_up_tenants(const struct store_arguments_of *a, bool *ret_loss, struct error *err)
{
	char from[STORE_DIRECTORY_MAX], to[STORE_DIRECTORY_MAX], one[STORE_DIRECTORY_MAX], copy[STORE_DIRECTORY_MAX];
	int r = io_join_path(from, sizeof(from), a->directory, "tenants");
	if (r == 0)
		r = io_join_path(to, sizeof(to), a->target, "tenants");
	_cleanup_(dir_closep) DIR *tenants = r == 0 ? opendir(from) : NULL;
	for (const struct dirent *entry; r == 0 && tenants && (entry = readdir(tenants));) {
		if (entry->d_name[0] == '.')
			continue;
		r = io_join_path(one, sizeof(one), from, entry->d_name);
		if (r == 0)
			r = io_join_path(copy, sizeof(copy), to, entry->d_name);
		if (r == 0)
			r = back_up_directory(one, copy, ret_loss, err);
	}
	return r == -ENAMETOOLONG ? error_set(err, r, "a tenant's path is too long") : r;
}

/* A backup inside of what it is of would become part of it. */
static int check_apart(const char *directory, const char *target, struct error *err)
{
	struct stat a, b;
	if (stat(directory, &a) == 0 && stat(target, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return error_set(err, -EINVAL, "the target is the data directory itself");
	return 0;
}

int store_backup_all(const struct store_arguments_of *a, bool *ret_loss, struct error *err)
{
	*ret_loss = false;
	if (a->remote.url)
		return back_up_server(a, ret_loss, err);
	int r = check_apart(a->directory, a->target, err);
	if (r == 0)
		r = back_up_directory(a->directory, a->target, ret_loss, err);
	return r == 0 && !a->remote.tenant ? back_up_tenants(a, ret_loss, err) : r;
}
