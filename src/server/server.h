/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: ingest, query API, web UI, and its own metrics on one port, over one store.
 *
 * It connects the lower folders: requests come from src/net, are decoded by src/format, stored by src/store, queried by
 * src/query, symbolized by src/symbol and rendered by src/render. Each area is one folder with its table of routes (routes.h):
 *
 *   stores/      storage of recordings, markers, snapshots and agents; independent of HTTP
 *   core/        the server's state (server_int.h), tenants, limits, query statistics, forwarding, symbolization
 *   access/      who a caller is: tokens, JSON Web Tokens, delays for wrong ones, the audit log
 *   http/        access control (access.c), remote procedure calls (rpc.c), the web UI (assets.c)
 *   ingest/      the ingest path, and OTLP
 *   debuginfo/   uploads of debug information
 *   pyroscope/, parca/   their protocols, ingest and queries
 *   scrape/      profiles that the server scrapes (scrape.h)
 *   saved/       saved queries
 *   api/         the query API
 *   recordings/  agents, recordings of several hosts, markers
 *   viewer/      the local viewer of files, and snapshots
 *
 * config.c reads the settings, metrics.c serves /metrics, server.c starts everything.
 *
 * Threads: the caller's thread runs the event loop; handlers run on its workers; one thread reads the link; each store has one.
 * They share only the stores and the symbolizer (both thread-safe) and atomic counters.
 */
#ifndef WICK_SERVER_SERVER_H
#define WICK_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

struct export_target;
struct profile;
struct server;

/*
 * What a tenant may do. 0 = no limit, where nothing else is said. server_limit_names lists their names in the order of the
 * members, which the configuration, messages and metrics use.
 */
struct server_limits {
	uint64_t ingest_bytes_per_second, ingest_bytes_burst;	  /* of bodies, decompressed; burst 0 = what 10 s allow */
	uint64_t ingest_samples_per_second, ingest_samples_burst; /* of values stored; likewise */
	uint64_t body_size;					  /* 0 = body.max */
	uint64_t series;					  /* in the head; 0 = the store's default */
	uint64_t labels_per_series;				  /* 0 = LIMIT_LABELS_PER_SERIES, which is also the most */
	uint64_t label_value_length;				  /* 0 = LIMIT_LABEL_VALUE_BYTES: longer ones are cut */
	uint64_t stacks_per_profile;
	uint64_t stacks_per_block;	   /* of those that are cut from memory; 0 = the store's default */
	uint64_t query_rows, query_stacks; /* read for one answer, which is partial beyond it; 0 = the defaults below */
	uint64_t query_memory;		   /* bytes for one answer, likewise, or else it is refused */
};
#define SERVER_LIMIT_COUNT 13
extern const char *const server_limit_names[SERVER_LIMIT_COUNT];
#define SERVER_QUERY_ROWS_DEFAULT   2000000000ull
#define SERVER_QUERY_MEMORY_DEFAULT (256ull * 1024 * 1024)

/* Settings of one tenant, which stand for those of all. */
struct server_tenant_settings {
	const char *name;
	struct server_limits limits; /* complete */
	int64_t retention_age_ns;    /* as in server_options; 0 = as for all */
	uint64_t retention_size_bytes;
};
struct server_retention_rule {
	const char *selector;
	int64_t age_ns; /* negative = for ever */
};

/* Names for addresses: src/symbol. Zeroes are the defaults. */
struct server_symbol_options {
	unsigned workers;	   /* tables made at once; 0 = SERVER_SYMBOL_WORKERS_DEFAULT */
	uint64_t cache_bytes;	   /* of tables on disk */
	uint64_t memory_bytes;	   /* of tables in memory */
	const char *const *shared; /* names of tenants whose uploads all may use */
	size_t shared_count;
	const char *debuginfod_urls; /* separated by spaces; NULL = DEBUGINFOD_URLS of the environment, "" = none */
	uint64_t debuginfod_cache_bytes;
	int64_t debuginfod_timeout_ns, debuginfod_missing_ns;
	int64_t retry_ns; /* what has no names is looked for again, at first after this */
	bool no_uploads;  /* take none; those that are there are used */
	uint64_t uploads_bytes, upload_file_bytes;
	uint64_t worker_memory_bytes; /* of the process that reads one file */
	int64_t worker_cpu_ns, worker_wall_ns;
};
#define SERVER_SYMBOL_WORKERS_DEFAULT 2

struct server_options {
	const char *data_directory; /* made if missing */
	const char *listen;	    /* "ADDR:PORT" */
	const char *token;	    /* NULL = none; needed beyond loopback unless insecure */
	const char *tokens_file;    /* tokens with roles (access/tokens.h), beside `token`; NULL = none */
	const char *audit_file;	    /* the audit log; NULL = none */
	uint64_t audit_bytes;	    /* of it; 0 = 64 MiB */
	bool insecure;		    /* listen beyond loopback without a token */
	/* Connections at a time: in all, of one address, and, where there are tokens, of those who have not shown a valid one
	 * yet. 0 = net.h's defaults; of the last a quarter of connections_max. */
	unsigned connections_max, connections_per_address, connections_unauthenticated;
	bool no_tls_resumption;
	/* On loopback without a token (core/local.h): who may do everything beside root and the data's owner, and who may
	 * read and send profiles (enum local_rule). */
	const char *const *local_users;
	size_t local_user_count;
	const char *local_user_list; /* more of them, separated by commas; NULL = none */
	unsigned local_invoker;	     /* user id; 0 = none */
	unsigned local_agent;	     /* likewise: of the agent beside the server (wick up) */
	unsigned local_read, local_write;
	const char *path_prefix;			 /* under which a reverse proxy has this server: "/wick"; NULL = none */
	const char *trusted_proxies;			 /* networks, separated by blanks; NULL = none */
	const char *user;				 /* of cmd/service: as whom to run; NULL = it chooses */
	bool no_sandbox;				 /* likewise */
	const char *otlp_grpc_listen, *otlp_http_listen; /* further "ADDR:PORT" that take OTLP only; NULL = none */
	/* Files of TLS: NULL = no TLS; clients need a certificate of client_ca if it is given, and no token then. */
	const char *tls_cert_file, *tls_key_file, *tls_client_ca_file;
	bool tls_client_optional;      /* clients without a certificate may come, too; they need a token */
	bool no_host_files;	       /* never open files of this host that profiles name */
	int64_t retention_age_ns;      /* 0 = the store's default; negative = keep for ever */
	uint64_t retention_size_bytes; /* 0 = the store's default */
	uint64_t head_size_bytes;      /* 0 = the store's default */
	int64_t cut_age_ns;	       /* 0 = the store's default */
	size_t body_bytes_max;	       /* 0 = LIMIT_PROFILE_INPUT_BYTES */
	int64_t samples_age_ns;	       /* older than this only rollups are kept; 0 = as long as everything else */
	int64_t window_ns[2];	       /* of compaction; 0 = the store's default, negative = no such level */
	uint64_t compact_memory_bytes; /* 0 = the store's default */
	uint64_t index_cache_bytes;    /* of decoded indexes of blocks, all tenants; 0 = a 32nd of memory, 32 to 256 MiB */
	int64_t late_window_ns; /* samples that are older when they come are refused; 0 = the retention age; negative = none */
	const struct server_retention_rule *rules; /* the first that matches a series replaces retention_age_ns */
	size_t rule_count;

	bool tenants;		   /* requests name one in X-Scope-OrgID; otherwise that header is ignored */
	unsigned tenants_max;	   /* 0 = 64 */
	uint64_t head_total_bytes; /* of the heads of all tenants together; 0 = 4 times head_size_bytes */
	struct server_limits limits;
	const struct server_tenant_settings *tenant_settings;
	size_t tenant_settings_count;

	int64_t query_timeout_ns, query_timeout_max_ns; /* 0 = 30 s, 120 s */
	uint64_t query_memory_bytes;			/* of all queries together; 0 = 256 MiB */
	uint64_t responses_bytes;			/* of all that are being sent; 0 = 256 MiB */
	int64_t responses_stall_ns;			/* whole seconds; 0 = 30 s */
	uint64_t recordings_bytes;			/* of the recordings of several hosts, for each tenant; 0 = 2 GiB */
	int64_t recordings_age_ns;			/* 0 = 7 days; negative = for ever */
	uint64_t recordings_profile_bytes;		/* unpacked, that are made into one profile at once; 0 = 128 MiB */
	bool no_view;					/* show and convert no files that clients bring */
	uint64_t view_bytes;				/* of such a file, unpacked; 0 = 128 MiB */
	const char *queries_directory;			/* of saved queries, files; NULL, "" = none */
	const char *vcs_directory;			/* of git repositories that may be read by everybody; NULL, "" = none */
	bool no_snapshots;				/* make none; those that there are can be seen */
	uint64_t snapshots_bytes;			/* of all snapshots of a tenant; 0 = 256 MiB */
	int64_t snapshots_age_ns;			/* 0 = 90 days; negative = for ever */
	unsigned snapshots_max;				/* 0 = 1,000 */
	/* Writes a profile as a page; title: any text. NULL = there are no pages. */
	int (*write_page)(const struct profile *profile, const char *title, struct buffer *out, struct error *err);
	unsigned queries_max, queries_queued_max; /* at a time, waiting; 0 = 4, 64 */
	struct server_symbol_options symbols;
	const struct export_target *forward; /* where everything that is stored goes besides */
	size_t forward_count;
	int64_t slow_query_ns; /* log queries that take longer; 0 = 5 s; negative = none */
	/* Scraping: what to scrape, borrowed until server_free(); the file that it is read from again, NULL = never. 0 = the
	 * defaults: 20,000 targets, 1,024 scrapes at a time, 256 MiB of answers at a time. */
	struct scrape_config *scrape;
	const char *config_path;
	unsigned scrape_targets_max, scrape_concurrency;
	uint64_t scrape_bytes;
	const char *scrape_dns_server; /* "ADDR[:PORT]"; NULL = the system's */
	int link_fd;		       /* the agent's end of struct link; -1 = none; owned by the server from server_new() on */
};
/* Of local_read: "kernel", "owner", "anyone" (core/local.h). */
#define SERVER_LOCAL_RULES 3
extern const char *const server_local_rule_names[SERVER_LOCAL_RULES];
/* The defaults, for callers to start from. */
void server_options_init(struct server_options *options);
/* Reads a YAML file over what options hold; docs/configuration.md lists the settings. Unknown names are errors with their line.
 * Strings and arrays live in *ret_text, which the caller frees. */
struct server_config_text;
int server_options_load(struct server_options *options, const char *path, struct server_config_text **ret_text,
			struct error *err);
/* What there is to scrape becomes the caller's; NULL = nothing. */
struct scrape_config *server_config_take_scrape(struct server_config_text *text);
struct server_config_text *server_config_text_free(struct server_config_text *text);
DEFINE_CLEANUP_POINTER(server_config_text_free, struct server_config_text);

/* Opens the store and listens. */
int server_new(const struct server_options *options, struct server **ret, struct error *err);
const char *server_address(const struct server *server); /* "127.0.0.1:7070", the real port */
/* The real address of otlp_grpc_listen (0) and otlp_http_listen (1); NULL = none. */
const char *server_otlp_address(const struct server *server, unsigned index);
/* Serves until server_stop(), or until the link's other end is closed; finishes what runs, cuts the head, returns. */
int server_run(struct server *server, struct error *err);
void server_stop(struct server *server); /* async-signal-safe */
/* Reads the configuration file again, for what can change while the server runs: scraping, and the files of TLS. Also
 * async-signal-safe: it happens soon, and what is wrong is logged. */
void server_reload(struct server *server);
struct server *server_free(struct server *server);
DEFINE_CLEANUP_POINTER(server_free, struct server);

/* Whether it can be a tenant's: 1 to 150 letters, digits and !-_.*'(), but not "." or "..". -EBADMSG. */
int tenant_name_check(const char *name, struct error *err);

/* The page that goes into files: complete but for the first {{TITLE}}, a text, and the first {{PROFILE}}, what report_data.ts
 * of the page reads. */
struct bytes assets_report(void);

#endif
