/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/service/service.h"
#include "cmd/store_options.h"

static void stop_server(void *context)
{
	server_stop(context);
}

static void reload_server(void *context)
{
	server_reload(context);
}

struct network_arguments {
	const char *cert, *key, *client_ca, *prefix;
};

static void apply_network(const struct network_arguments *arguments, struct server_options *options)
{
	if (arguments->cert) {
		options->tls_cert_file = arguments->cert;
		options->tls_key_file = NULL; /* another pair than the file's */
	}
	if (arguments->key)
		options->tls_key_file = arguments->key;
	if (arguments->prefix)
		options->path_prefix = arguments->prefix;
	if (arguments->client_ca)
		options->tls_client_ca_file = arguments->client_ca;
}

/* The ports that exporters send to by default, on the address that the server listens on; those of the configuration stay. */
struct otlp_listens {
	char grpc[300], http[300];
};

static void apply_otlp(struct otlp_listens *listens, struct server_options *options)
{
	const char *colon = strrchr(options->listen, ':');
	int host = colon ? (int)(colon - options->listen) : (int)strlen(options->listen);
	snprintf(listens->grpc, sizeof(listens->grpc), "%.*s:4317", host < 256 ? host : 256, options->listen);
	snprintf(listens->http, sizeof(listens->http), "%.*s:4318", host < 256 ? host : 256, options->listen);
	if (!options->otlp_grpc_listen)
		options->otlp_grpc_listen = listens->grpc;
	if (!options->otlp_http_listen)
		options->otlp_http_listen = listens->http;
}

static int run_server(const struct store_arguments *arguments, const struct service_arguments *service_arguments,
		      const struct network_arguments *network, const char *config, const char *tokens, bool tenants, bool otlp,
		      struct error *err)
{
	struct otlp_listens listens;
	struct server_options options;
	char directory[4096];
	_cleanup_(server_config_text_freep) struct server_config_text *text = NULL;
	_cleanup_(mem_freep) char *token = NULL;
	server_options_init(&options);
	options.write_page = html_write;
	int r = config ? server_options_load(&options, config, &text, err) : 0;
	if (!r)
		r = store_arguments_apply(arguments, &options, &token, err);
	options.tenants |= tenants;
	if (tokens)
		options.tokens_file = tokens;
	apply_network(network, &options);
	options.config_path = config;
	if (otlp)
		apply_otlp(&listens, &options);
	if (!r && !options.data_directory) {
		r = default_data_directory(directory, sizeof(directory), err);
		options.data_directory = directory;
	}
	if (r < 0)
		return r;
	struct service service;
	descriptors_raise();
	r = service_server_prepare(service_arguments, &options, &service, err);
	if (r == 0)
		r = service_server_enter(&service, &options, err);
	if (r < 0)
		return r;
	_cleanup_(server_freep) struct server *server = NULL;
	mem_return_large();
	r = server_new(&options, &server, err);
	if (r < 0)
		return r;
	signals_install(stop_server, server, false);
	signals_install_reload(reload_server, server);
	char kept[96];
	store_arguments_describe(&options, kept, sizeof(kept));
	cmd_printf(stderr, "wick server: %s://%s%s, data in %s (%s)%s%s; Ctrl-C stops\n",
		   options.tls_cert_file ? "https" : "http", server_address(server),
		   options.path_prefix ? options.path_prefix : "", options.data_directory, kept,
		   service.changes ? ", user " : "", service.changes ? service.user.name : "");
	for (unsigned i = 0; i < 2; i++)
		if (server_otlp_address(server, i))
			cmd_printf(stderr, "wick server: OTLP on %s\n", server_otlp_address(server, i));
	r = server_run(server, err);
	/* Who finds it gone wants to know that it did not crash. */
	if (r == 0 && signals_interrupted())
		log_info("server: stopped by %s", signals_interrupted() == SIGINT ? "SIGINT" : "SIGTERM");
	return r;
}

int cmd_server(int argc, char **argv)
{
	struct store_arguments arguments = {0};
	const char *config = NULL, *tokens = NULL;
	struct network_arguments network = {0};
	struct service_arguments service = {0};
	bool tenants = false, otlp = false;
	const struct option_row options[] = {
		STORE_OPTION_ROWS(&arguments),
		{0, "config", "FILE", OPTION_TEXT, &config, .help = "YAML file of settings; options take precedence"},
		{0, "tokens", "FILE", OPTION_TEXT, &tokens, .help = "YAML file of tokens with roles and tenants (wick token)"},
		{0, "tenants", NULL, OPTION_FLAG, &tenants, .help = "separate data by the tenant in X-Scope-OrgID"},
		{0, "otlp", NULL, OPTION_FLAG, &otlp, .help = "also receive OTLP on ports 4317 and 4318 of the address"},
		{0, "tls-cert", "FILE", OPTION_TEXT, &network.cert,
		 .help = "serve https with this certificate and its chain (PEM)"},
		{0, "tls-key", "FILE", OPTION_TEXT, &network.key, .help = "its key (default: in the same file)"},
		{0, "tls-client-ca", "FILE", OPTION_TEXT, &network.client_ca,
		 .help = "require client certificates of these CAs"},
		{0, "path-prefix", "PATH", OPTION_TEXT, &network.prefix,
		 .help = "a reverse proxy has this server below PATH: /wick"},
		SERVICE_OPTION_ROWS(&service, "the data's owner, wick, nobody"),
		{0}};
	const struct usage usage = {
		.verb = "server",
		.synopsis = "[--data DIR] [--listen ADDR:PORT] [--config FILE]",
		.description = "Stores profiles that agents and others send (OTLP, pprof), answers "
			       "queries, and serves\nthe web UI. Needs no privileges; started by root it becomes another user.",
		.options = options,
		.environment = true,
		.examples = "wick server --data /srv/wick --keep 90d --keep-size 200G\nwick server "
			    "--listen 0.0.0.0:7070 --token-file /etc/wick/token"};
	OPTIONS_OR_RETURN(&usage, argc, argv, NULL);
	struct error err = {0};
	return run_server(&arguments, &service, &network, config, tokens, tenants, otlp, &err) < 0 ? cmd_fail("server", &err)
												   : EXIT_DONE;
}
