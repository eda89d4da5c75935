/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include <stdio.h>

#include "base/alloc.h"
#include "cmd/cmd.h"
#include "cmd/store_options.h"

static void stop_server(void *context)
{
	server_stop(context);
}

static int run_server(const struct store_arguments *arguments, const char *config, bool tenants, struct error *err)
{
	struct server_options options;
	char directory[4096];
	_cleanup_(server_config_text_freep) struct server_config_text *text = NULL;
	_cleanup_(mem_freep) char *token = NULL;
	server_options_init(&options);
	int r = config ? server_options_load(&options, config, &text, err) : 0;
	if (!r)
		r = store_arguments_apply(arguments, &options, &token, err);
	options.tenants |= tenants;
	if (!r && !options.data_directory) {
		r = default_data_directory(directory, sizeof(directory), err);
		options.data_directory = directory;
	}
	if (r)
		return r;
	_cleanup_(server_freep) struct server *server = NULL;
	mem_return_large();
	r = server_new(&options, &server, err);
	if (r)
		return r;
	signals_install(stop_server, server, false);
	char kept[96];
	store_arguments_describe(&options, kept, sizeof(kept));
	fprintf(stderr, "wick server: http://%s, data in %s (%s); Ctrl-C stops\n", server_address(server),
		options.data_directory, kept);
	return server_run(server, err);
}

int cmd_server(int argc, char **argv)
{
	struct store_arguments arguments = {0};
	const char *config = NULL;
	bool tenants = false;
	const struct option_row options[] = {
		STORE_OPTION_ROWS(&arguments),
		{0, "config", "FILE", OPTION_TEXT, &config, .help = "YAML file of settings; options on the command line win"},
		{0, "tenants", NULL, OPTION_FLAG, &tenants, .help = "keep data apart by the tenant that X-Scope-OrgID names"},
		{0}};
	const struct usage usage = {.verb = "server",
				    .synopsis = "[--data DIR] [--listen ADDR:PORT] [--config FILE]",
				    .description = "Stores profiles that agents and others send (OTLP, pprof), answers "
						   "queries, and serves\nthe page. Needs no privileges.",
				    .options = options,
				    .examples = "wick server --data /srv/wick --keep 90d --keep-size 200G\nwick server "
						"--listen 0.0.0.0:7070 --token-file /etc/wick/token"};
	struct operands operands;
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	if (operands.count)
		return usage_error(&usage, "unexpected operand '%s'", operands.items[0]);
	struct error err = {0};
	return run_server(&arguments, config, tenants, &err) ? cmd_fail("server", &err) : EXIT_DONE;
}
