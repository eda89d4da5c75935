/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "net/net.h"

#define PATH_BYTES_MAX (64 * KIB)

struct query_options {
	const char *url, *from, *to, *format, *output, *token_file;
	unsigned limit;
};

static int add_parameter(struct buffer *path, const char *name, const char *value)
{
	int r = buffer_printf(path, "%c%s=", path->len && memchr(path->data, '?', path->len) ? '&' : '?', name);
	return r ? r : text_url_encode(path, bytes_of_string(value));
}

/* "wick query" sends what was typed; the server understands times and selectors, and its messages are ours to pass on. */
static int request_path(const struct query_options *options, const char *selector, struct buffer *path, struct error *err)
{
	char limit[16];
	snprintf(limit, sizeof(limit), "%u", options->limit);
	int r = buffer_append_string(path, "/api/v1/query");
	if (!r)
		r = add_parameter(path, "query", selector);
	if (!r)
		r = add_parameter(path, "from", options->from);
	if (!r)
		r = add_parameter(path, "to", options->to);
	if (!r)
		r = add_parameter(path, "format", options->format);
	if (!r)
		r = add_parameter(path, "limit", limit);
	return r ? error_set(err, r, "the selector is too long") : 0;
}

static int answer_error(const struct net_client_response *response, const char *url, struct error *err)
{
	json_t *json = json_loadb((const char *)response->body.data, response->body.len, 0, NULL);
	const char *text = json_string_value(json_object_get(json, "error"));
	int r = error_set(err, -EBADMSG, "%s answered %d: %s", url, response->status, text ? text : response->message);
	if (response->status == 400 && text)
		r = error_set(err, -EINVAL, "%s", text);
	json_decref(json);
	return r;
}

static int run_query(const struct query_options *options, const char *selector, struct error *err)
{
	_cleanup_(buffer_release) struct buffer path;
	buffer_init(&path, PATH_BYTES_MAX);
	int r = request_path(options, selector, &path, err);
	_cleanup_(mem_freep) char *token = NULL;
	if (!r && options->token_file)
		r = read_token(options->token_file, &token, err);
	if (r)
		return r;
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	struct net_client_options client_options = {
		.url = options->url, .timeout_ns = 120 * NS_PER_S, .response_max = GIB, .token = token};
	r = net_client_new(&client_options, &client, err);
	if (r)
		return r;
	_cleanup_(net_client_response_release) struct net_client_response response;
	net_client_response_init(&response);
	r = net_client_request(client, "GET", buffer_string(&path), NULL, (struct bytes){0}, false, &response, err);
	if (r)
		return error_prefix(err, r, "cannot ask %s (is the server running? start it with 'wick up')", options->url);
	if (response.status != 200)
		return answer_error(&response, options->url, err);
	if (strcmp(options->output, "-") == 0 && strcmp(options->format, "pprof") == 0 && isatty(STDOUT_FILENO))
		return error_set(err, -EINVAL, "refusing to write binary pprof to the terminal; give -o FILE");
	return io_write_file(options->output, response.body.data, response.body.len, 0644, err);
}

int cmd_query(int argc, char **argv)
{
	const char *environment = getenv("WICK_URL");
	struct query_options o = {.url = environment ? environment : "http://127.0.0.1:7070",
				  .from = "now-1h",
				  .to = "now",
				  .format = "top",
				  .output = "-",
				  .limit = 20};
	const struct option_row options[] = {
		{0, "url", "URL", OPTION_TEXT, &o.url, .help = "the server (default: $WICK_URL, else http://127.0.0.1:7070)"},
		{0, "from", "TIME", OPTION_TEXT, &o.from, .help = "start: now-1h, -15m, RFC 3339 or unix (default: now-1h)"},
		{0, "to", "TIME", OPTION_TEXT, &o.to, .help = "end (default: now)"},
		{0, "format", "FORMAT", OPTION_TEXT, &o.format, .help = "top, folded, pprof, json or svg (default: top)"},
		{'o', "output", "FILE", OPTION_TEXT, &o.output, .help = "where to write (default: standard output)"},
		{'n', "limit", "N", OPTION_UNSIGNED, &o.limit, 0, 1000000,
		 .help = "rows of top and json, 0 = all (default: 20)"},
		{0, "token-file", "FILE", OPTION_TEXT, &o.token_file, .help = "file with the server's token"},
		{0}};
	const struct usage usage = {
		.verb = "query",
		.synopsis = "SELECTOR [--url URL] [--from T] [--to T] [--format F] [-o FILE]",
		.description = "Asks a server for the merged profile of a selection. A selector is a profile type\nand "
			       "matchers on labels: process_cpu{process_executable_name=\"bash\", host_name=~\"web.*\"}",
		.options = options,
		.examples = "wick query process_cpu\nwick query 'process_cpu{process_comm=\"postgres\"}' --from now-15m\nwick "
			    "query process_cpu --format svg -o cpu.svg"};
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (operands.count != 1)
		return usage_error(&usage, "expected one selector, got %zu%s", operands.count,
				   operands.count > 1 ? "; quote it for the shell" : "; 'process_cpu' selects everything");
	static const char *const known[] = {"top", "folded", "pprof", "json", "svg"};
	bool found = false;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		found |= strcmp(o.format, known[i]) == 0;
	if (!found)
		return usage_error(&usage, "--format: '%s' is none of top, folded, pprof, json, svg", o.format);
	struct error err = {0};
	return run_query(&o, operands.items[0], &err) ? cmd_fail("query", &err) : EXIT_DONE;
}
