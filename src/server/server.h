/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: ingest, query API, page, and its own metrics on one port, over one store.
 *
 * Here the lower folders meet: requests come from src/net, are decoded by src/format, stored by src/store, read by src/query,
 * named by src/symbol and shown by src/render. One file an area: ingest.c (profiles in), api.c (questions out), metrics.c
 * (/metrics, health), assets.c (the page), access.c (who may), link.c (the agent of `wick up` on the same machine).
 *
 * Threads: the caller's thread runs the event loop; handlers run on its workers; one thread reads the link; the store has one.
 * Everything shared is the store and the symbolizer (thread-safe) and atomic counters.
 */
#ifndef WICK_SERVER_SERVER_H
#define WICK_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct server;
struct server_options {
	const char *data_directory;    /* made if missing */
	const char *listen;	       /* "ADDR:PORT" */
	const char *token;	       /* NULL = none; needed beyond loopback unless insecure */
	bool insecure;		       /* listen beyond loopback without a token */
	bool no_host_files;	       /* never open files of this host that profiles name */
	int64_t retention_age_ns;      /* 0 = the store's default; negative = keep for ever */
	uint64_t retention_size_bytes; /* 0 = the store's default */
	uint64_t head_size_bytes;      /* 0 = the store's default */
	int64_t cut_age_ns;	       /* 0 = the store's default */
	size_t body_bytes_max;	       /* 0 = LIMIT_PROFILE_INPUT_BYTES */
	int link_fd;		       /* the agent's end of struct link; -1 = none; owned by the server from server_new() on */
};
/* The defaults, for callers to start from. */
void server_options_init(struct server_options *options);
/* Reads a YAML file of `name: value` lines over what options hold: data, listen, token, insecure, host_files, retention.age,
 * retention.size, head.size, cut.age, body.max. Unknown names are errors with their line. Strings live in *ret_text, which the
 * caller frees. */
struct server_config_text;
int server_options_load(struct server_options *options, const char *path, struct server_config_text **ret_text,
			struct error *err);
struct server_config_text *server_config_text_free(struct server_config_text *text);
DEFINE_CLEANUP_POINTER(server_config_text_free, struct server_config_text);

/* Opens the store and listens. */
int server_new(const struct server_options *options, struct server **ret, struct error *err);
const char *server_address(const struct server *server); /* "127.0.0.1:7070", the real port */
/* Serves until server_stop(), or until the link's other end is closed; finishes what runs, cuts the head, returns. */
int server_run(struct server *server, struct error *err);
void server_stop(struct server *server); /* async-signal-safe */
struct server *server_free(struct server *server);
DEFINE_CLEANUP_POINTER(server_free, struct server);

#endif
