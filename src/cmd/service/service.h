/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What server and agent do with the privileges that they are started with: as whom they run, and how they are locked in. Essay
 * at the top of service.c; docs/security.md is for users.
 */
#ifndef WICK_CMD_SERVICE_SERVICE_H
#define WICK_CMD_SERVICE_SERVICE_H

#include "base/privilege/user.h"
#include "cmd/cmd.h"

struct collector_options;
struct server_options;

struct service_arguments {
	const char *user; /* NULL = chosen here */
	bool no_sandbox;
};
#define SERVICE_OPTION_ROWS(arguments, who)                                                                                    \
	OPTION_ROW(0, "user", "USER", OPTION_TEXT, &(arguments)->user,                                                         \
		   .help = "started by root, run as this user; root stays\n(default: " who ")"),                               \
		OPTION_ROW(0, "no-sandbox", NULL, OPTION_FLAG, &(arguments)->no_sandbox,                                       \
			   .help = "do not restrict system calls and files; for\nemergencies")

struct service {
	const char *name; /* for messages: "server", "agent" */
	struct user user; /* as whom it will run */
	bool changes;	  /* it is another than now */
	bool no_sandbox;
};
/* Chooses the user, makes its data directory if it is missing, and hands it over. */
int service_server_prepare(const struct service_arguments *arguments, const struct server_options *options, struct service *ret,
			   struct error *err);
/* Becomes the user, and locks itself in; before there are threads. */
int service_server_enter(const struct service *service, const struct server_options *options, struct error *err);

/* not_as: the server's user on this machine (wick up), which the agent must not share; NULL = none. Directories that the agent
 * writes to become its user's; those that only root has by default may become others in `options`. */
int service_agent_prepare(const struct service_arguments *arguments, const struct user *not_as,
			  struct collector_options *options, struct service *ret, struct error *err);
int service_agent_enter(const struct service *service, struct error *err);

#endif
