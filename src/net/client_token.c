/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's token, from a file that is replaced while the client lives, as orchestrators do with secrets that expire.
 *
 * Whether the file has changed is looked at before a request, not more than once a second. Another file by rename, another
 * target of a link and new contents in place all count. What was only half written is too short, or wrong and changes once
 * more; until the file is good again the token before is sent, so that one mistake with a file does not silence a fleet.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/client_int.h"

#define LOOK_EVERY_NS NS_PER_S

int net_token_read(const char *path, char **ret, struct error *err)
{
	struct stat info;
	int r = io_stat(path, &info);
	if (r < 0)
		return error_set_errno(err, r, "cannot read the token file %s", path);
	if (S_ISREG(info.st_mode) && (info.st_mode & 027)) /* its group may read, as services' credentials are shared */
		return error_set(err, -EACCES, "the token file %s can be read or changed by others; run: chmod 600 %s", path,
				 path);
	_cleanup_(buffer_release) struct buffer file = {0};
	r = io_read_secret(path, &file, err);
	if (r < 0)
		return r;
	const char *text = buffer_string(&file);
	if (!text)
		return error_nomem(err);
	size_t len = strcspn(text, " \t");
	if (len < 8)
		return error_set(err, -EINVAL, "the token in %s is shorter than 8 characters", path);
	_cleanup_(mem_freep) char *token = mem_strndup(text, len);
	if (!token)
		return error_nomem(err);
	if (!http_is_field_value(token))
		return error_set(err, -EINVAL, "the token in %s has a control character", path);
	*ret = token;
	token = NULL;
	return 0;
}

int client_token_open(struct net_client *client, const char *path, struct error *err)
{
	client->token_file = mem_strdup(path);
	if (!client->token_file)
		return error_nomem(err);
	client->token_stamp = io_stamp_of(path); /* before it is read: a change in between is seen */
	client->token_looked_ns = time_monotonic_ns();
	return net_token_read(path, &client->token, err);
}

void client_token_renew(struct net_client *client)
{
	int64_t now = time_monotonic_ns();
	if (!client->token_file || now - client->token_looked_ns < LOOK_EVERY_NS)
		return;
	client->token_looked_ns = now;
	struct io_stamp stamp = io_stamp_of(client->token_file);
	if (io_stamp_equal(&stamp, &client->token_stamp))
		return;
	client->token_stamp = stamp;
	char *fresh = NULL;
	struct error err = {0};
	if (net_token_read(client->token_file, &fresh, &err) < 0) {
		log_warn("%s; the token before stays in use for %s", err.message, client->url);
		return;
	}
	mem_free(client->token);
	client->token = fresh;
}
