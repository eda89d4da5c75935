/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/store_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "net/net.h"

#define DAY_NS			(86400 * NS_PER_S)
#define KEEP_AGE_DEFAULT_NS	(30 * DAY_NS)
#define KEEP_SIZE_DEFAULT_BYTES (10 * GIB)

int store_arguments_apply(const struct store_arguments *arguments, struct server_options *options, char **ret_token,
			  struct error *err)
{
	int r = 0;
	if (arguments->data)
		options->data_directory = arguments->data;
	if (arguments->listen)
		options->listen = arguments->listen;
	if (arguments->keep_size_bytes)
		options->retention_size_bytes = arguments->keep_size_bytes;
	if (arguments->debuginfod)
		options->symbols.debuginfod_urls = strcmp(arguments->debuginfod, "off") == 0 ? "" : arguments->debuginfod;
	if (arguments->local_users)
		options->local_user_list = arguments->local_users;
	if (arguments->local_read) {
		int i = text_find_name(server_local_rule_names, SERVER_LOCAL_RULES, arguments->local_read);
		if (i < 0)
			return error_set(err, -EINVAL, "--local-read: '%.40s' is not one of kernel, owner, anyone",
					 arguments->local_read);
		options->local_read = (unsigned)i;
	}
	if (arguments->insecure)
		options->insecure = true;
	if (arguments->keep_age && strcmp(arguments->keep_age, "forever") == 0)
		options->retention_age_ns = -1;
	else if (arguments->keep_age)
		r = time_parse_duration(arguments->keep_age, &options->retention_age_ns, err);
	if (!r && arguments->keep_age && options->retention_age_ns == 0)
		r = error_set(err, -EINVAL, "must be more than 0");
	if (r < 0)
		return error_prefix(err, r, "--keep");
	if (arguments->token_file && (r = net_token_read(arguments->token_file, ret_token, err)) < 0)
		return r;
	if (arguments->token_file)
		options->token = *ret_token;
	return 0;
}

void store_arguments_describe(const struct server_options *options, char *out, size_t size)
{
	char bytes[TEXT_NUMBER_MAX], age[TIME_TEXT_MAX] = "";
	int64_t age_ns = options->retention_age_ns ? options->retention_age_ns : KEEP_AGE_DEFAULT_NS;
	uint64_t size_bytes = options->retention_size_bytes ? options->retention_size_bytes : KEEP_SIZE_DEFAULT_BYTES;
	if (age_ns >= DAY_NS && age_ns % DAY_NS == 0)
		snprintf(age, sizeof(age), "%lld day%s", (long long)(age_ns / DAY_NS), age_ns == DAY_NS ? "" : "s");
	else if (age_ns > 0)
		time_format_duration(age_ns, age);
	text_format_size(size_bytes, bytes);
	if (*age)
		snprintf(out, size, "kept for %s, at most %s", age, bytes);
	else
		snprintf(out, size, "kept until there are %s", bytes);
}
