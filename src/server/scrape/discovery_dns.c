/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns_sd_configs: addresses of A and AAAA records with the configured port, or targets and ports of SRV records (RFC 2782). The
 * C library's resolver asks, with a state of its own for each look, so that scrape.dns_server can name another server than
 * /etc/resolv.conf; it also takes care of retries, of truncated answers (TCP) and of whether an answer belongs to a question.
 */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "server/scrape/scrape_int.h"

#define ANSWER_BYTES_MAX 65536
#define DNS_PORT	 53

static int set_server(struct __res_state *state, const char *server, struct error *err)
{
	char host[64];
	uint64_t port = DNS_PORT;
	const char *colon = strrchr(server, ':');
	size_t len = colon ? (size_t)(colon - server) : strlen(server);
	struct sockaddr_in address = {.sin_family = AF_INET};
	snprintf(host, sizeof(host), "%.*s", (int)len, server);
	if ((colon && (text_parse_u64(colon + 1, &port, NULL) < 0 || port == 0 || port > UINT16_MAX)) ||
	    inet_pton(AF_INET, host, &address.sin_addr) != 1)
		return error_set(err, -EINVAL, "scrape.dns_server: '%.60s' is not an IPv4 address with a port", server);
	address.sin_port = htons((uint16_t)port);
	state->nscount = 1;
	state->nsaddr_list[0] = address;
	return 0;
}

static int add(struct discovered *found, const char *name, const char *host, unsigned port, struct error *err)
{
	char address[NS_MAXDNAME + 16], number[16];
	bool v6 = strchr(host, ':');
	snprintf(number, sizeof(number), "%u", port);
	snprintf(address, sizeof(address), v6 ? "[%s]:%u" : "%s:%u", host, port);
	const struct relabel_label labels[] = {{"__address__", address},
					       {"__meta_dns_name", name},
					       {"__meta_dns_srv_record_target", host},
					       {"__meta_dns_srv_record_port", number}};
	return discovered_add(found, labels, 4, err);
}

static int take_record(const ns_msg *message, const ns_rr *record, const struct discovery_config *config, const char *name,
		       struct discovered *found, struct error *err)
{
	char host[NS_MAXDNAME];
	const unsigned char *data = ns_rr_rdata(*record);
	size_t len = ns_rr_rdlen(*record);
	if (ns_rr_type(*record) == ns_t_a && config->dns_type == DISCOVERY_A && len == 4)
		return add(found, name, inet_ntop(AF_INET, data, host, sizeof(host)), config->port, err);
	if (ns_rr_type(*record) == ns_t_aaaa && config->dns_type == DISCOVERY_AAAA && len == 16)
		return add(found, name, inet_ntop(AF_INET6, data, host, sizeof(host)), config->port, err);
	if (ns_rr_type(*record) != ns_t_srv || config->dns_type != DISCOVERY_SRV || len < 7)
		return 0;
	if (ns_name_uncompress(ns_msg_base(*message), ns_msg_end(*message), data + 6, host, sizeof(host)) < 0)
		return error_set(err, -EBADMSG, "%s: malformed SRV record", name);
	/* "." says that there is no such service. */
	return *host && strcmp(host, ".") ? add(found, name, host, ns_get16(data + 4), err) : 0;
}

static int ask(struct __res_state *state, const struct discovery_config *config, const char *name, uint8_t *answer,
	       struct discovered *found, struct error *err)
{
	static const ns_type types[] = {[DISCOVERY_SRV] = ns_t_srv, [DISCOVERY_A] = ns_t_a, [DISCOVERY_AAAA] = ns_t_aaaa};
	ns_msg message;
	int len = res_nquery(state, name, ns_c_in, (int)types[config->dns_type], answer, ANSWER_BYTES_MAX);
	int why = state->res_h_errno;
	if (len < 0 && (why == HOST_NOT_FOUND || why == NO_DATA))
		return 0;
	if (len < 0)
		return error_set(err, -EIO, "cannot look up %s: %s", name, hstrerror(why));
	if (ns_initparse(answer, len, &message) < 0)
		return error_set(err, -EBADMSG, "%s: malformed DNS answer", name);
	int r = 0;
	for (int i = 0; i < ns_msg_count(message, ns_s_an) && r == 0; i++) {
		ns_rr record;
		if (ns_parserr(&message, ns_s_an, i, &record) < 0)
			return error_set(err, -EBADMSG, "%s: malformed DNS answer", name);
		r = take_record(&message, &record, config, name, found, err);
	}
	return r;
}

int discovery_dns(struct discovery *discovery, struct discovered *found, struct error *err)
{
	const struct discovery_config *config = discovery->config;
	const char *server = discovery->scrape->server->options.scrape_dns_server;
	_cleanup_(mem_freep) uint8_t *answer = mem_alloc(ANSWER_BYTES_MAX);
	struct __res_state state;
	memset(&state, 0, sizeof(state));
	if (!answer)
		return error_nomem(err);
	if (res_ninit(&state) < 0)
		return error_set(err, -EIO, "cannot set up the resolver");
	state.retrans = 2;
	state.retry = 2;
	int r = server ? set_server(&state, server, err) : 0;
	for (size_t i = 0; i < config->item_count && r == 0 && !cancel_requested(&discovery->stop); i++)
		r = ask(&state, config, config->items[i], answer, found, err);
	res_nclose(&state);
	return r;
}
