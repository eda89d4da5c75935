/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the Firefox Profiler format: profiles of several hosts. */
#ifndef WICK_FORMAT_FIREFOX_FIREFOX_HOSTS_H
#define WICK_FORMAT_FIREFOX_FIREFOX_HOSTS_H

#include "codec/json.h"
#include "format/firefox/firefox_read.h"

/* The section "Hosts" of meta.extra, for people; nothing if no clock was compared. */
void firefox_put_host_section(const struct profile *profile, struct json_writer *json);
/* The members of meta.wick, for firefox_read_hosts(). */
void firefox_put_hosts(const struct profile *profile, bool has_several, struct json_writer *json);

int firefox_read_hosts(struct firefox_reader *reader, struct error *err);

/* A pid or a tid. */
struct firefox_id {
	struct bytes host; /* empty = the file does not tell */
	struct bytes text; /* without the host */
	bool is_number;
	int64_t number;
};
struct firefox_id firefox_read_id(const struct firefox_reader *reader, const struct json_node *node);
/* The name of a process without that of its host. */
struct bytes firefox_process_name(const struct firefox_reader *reader, const struct json_node *thread);
/* The host of what has this pid; 0 = unknown. */
int firefox_find_host(struct firefox_reader *reader, struct firefox_id pid, uint32_t *ret, struct error *err);

#endif
