/* SPDX-License-Identifier: Apache-2.0 */
/* The options that `wick up` and `wick server` have in common. */
#ifndef WICK_CMD_STORE_OPTIONS_H
#define WICK_CMD_STORE_OPTIONS_H

#include "cmd/cmd.h"
#include "server/server.h"

struct store_arguments {
	const char *data, *listen, *token_file, *keep_age, *debuginfod, *local_users, *local_read;
	uint64_t keep_size_bytes;
	bool insecure;
};
/* Rows for the verbs' tables; arguments is a struct store_arguments. */
#define STORE_OPTION_ROWS(arguments)                                                                                           \
	OPTION_ROW(0, "data", "DIR", OPTION_TEXT, &(arguments)->data,                                                          \
		   .help = "data directory (default: /var/lib/wick for root, else\n~/.local/share/wick)"),                     \
		OPTION_ROW(0, "listen", "ADDR:PORT", OPTION_TEXT, &(arguments)->listen,                                        \
			   .help = "address to listen on (default: 127.0.0.1:7070)"),                                          \
		OPTION_ROW(0, "keep", "DURATION", OPTION_TEXT, &(arguments)->keep_age,                                         \
			   .help = "remove data older than this: 7d, 12h, forever\n(default: 30d)"),                           \
		OPTION_ROW(0, "keep-size", "SIZE", OPTION_SIZE, &(arguments)->keep_size_bytes,                                 \
			   .help = "remove the oldest data beyond this size (default: 10G)"),                                  \
		OPTION_ROW(0, "token-file", "FILE", OPTION_TEXT, &(arguments)->token_file,                                     \
			   .help = "require the token in this file from clients; needed to\nlisten beyond loopback"),          \
		OPTION_ROW(                                                                                                    \
			0, "local-users", "USERS", OPTION_TEXT, &(arguments)->local_users,                                     \
			.help = "users of this machine, separated by commas, that may do\neverything without a token, beside " \
				"root and the owner\nof the data"),                                                            \
		OPTION_ROW(0, "local-read", "WHO", OPTION_TEXT, &(arguments)->local_read,                                      \
			   .help = "who may read without a token, beside these: anyone, owner,\nkernel (default: who may "     \
				   "sample all "                                                                               \
				   "processes)"),                                                                              \
		OPTION_ROW(0, "debuginfod", "URLS", OPTION_TEXT, &(arguments)->debuginfod,                                     \
			   .help = "debuginfod servers, separated by spaces; 'off' for none\n(default: "                       \
				   "$DEBUGINFOD_URLS)"),                                                                       \
		OPTION_ROW(0, "insecure", NULL, OPTION_FLAG, &(arguments)->insecure,                                           \
			   .help = "listen beyond loopback without a token")

/* Puts what was given over what options hold. *ret_token is from mem_alloc. */
int store_arguments_apply(const struct store_arguments *arguments, struct server_options *options, char **ret_token,
			  struct error *err);
/* "30 days or 10 GiB" for the start message. */
void store_arguments_describe(const struct server_options *options, char *out, size_t size);

#endif
