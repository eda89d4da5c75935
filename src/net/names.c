/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of a host by its name, in a program that is linked statically.
 *
 * glibc's getaddrinfo() asks the sources of /etc/nsswitch.conf, each of which is a shared library: a static program would have
 * to load those of the very glibc that it was linked with. Here are the two sources that servers have: /etc/hosts (hosts(5)),
 * which is asked first, and DNS (resolv.conf(5)), by the C library's resolver, which loads nothing. Not here: mDNS, NIS, LDAP;
 * systemd's resolver is a DNS server as well, on 127.0.0.53.
 *
 * What is found is text, of which getaddrinfo() makes structs: for that it needs no names.
 */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "net/names.h"

#define ANSWER_BYTES_MAX 4096
#define HOSTS_LINES_MAX	 100000

static void add(struct names_found *found, const char *text)
{
	struct in6_addr unused;
	if (found->count < NAMES_ADDRESSES_MAX &&
	    (inet_pton(AF_INET, text, &unused) == 1 || inet_pton(AF_INET6, text, &unused) == 1))
		snprintf(found->text[found->count++], sizeof(found->text[0]), "%s", text);
}

/* An address, its name, and other names of it; '#' begins a comment. */
static void read_hosts_line(char *line, const char *host, struct names_found *found)
{
	static const char blank[] = " \t\r\n";
	char *rest = NULL;
	line[strcspn(line, "#")] = '\0';
	const char *address = strtok_r(line, blank, &rest), *name = NULL;
	while (address && (name = strtok_r(NULL, blank, &rest)) && strcasecmp(name, host) != 0)
		;
	if (name)
		add(found, address);
}

static void ask_hosts(const char *path, const char *host, struct names_found *found)
{
	_cleanup_(file_closep) FILE *file = fopen(path, "re");
	char line[4096];
	for (size_t i = 0; file && i < HOSTS_LINES_MAX && fgets(line, sizeof(line), file); i++)
		read_hosts_line(line, host, found);
}

/* The addresses of an answer (RFC 1035, 3596). Names that stand for others (CNAME) were followed by the server that was asked.
 */
static void read_answer(const unsigned char *answer, int size, struct names_found *found)
{
	ns_msg message;
	ns_rr record;
	if (ns_initparse(answer, size, &message) < 0)
		return;
	for (int i = 0; i < ns_msg_count(message, ns_s_an); i++) {
		char text[INET6_ADDRSTRLEN];
		if (ns_parserr(&message, ns_s_an, i, &record) < 0)
			return;
		bool v4 = ns_rr_type(record) == ns_t_a && ns_rr_rdlen(record) == 4;
		bool v6 = ns_rr_type(record) == ns_t_aaaa && ns_rr_rdlen(record) == 16;
		if ((v4 || v6) && inet_ntop(v4 ? AF_INET : AF_INET6, ns_rr_rdata(record), text, sizeof(text)))
			add(found, text);
	}
}

/* Domains of `search` are tried as the resolver does. True = the name may have addresses, which could not be had now. */
static bool ask_dns(const struct sockaddr_in *server, const char *host, struct names_found *found)
{
	static const int types[] = {ns_t_a, ns_t_aaaa};
	unsigned char answer[ANSWER_BYTES_MAX];
	bool failed = false;
	struct __res_state state;
	memset(&state, 0, sizeof(state));
	if (res_ninit(&state) < 0)
		return true;
	if (server) {
		state.nscount = 1;
		state.nsaddr_list[0] = *server;
	}
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		int size = res_nsearch(&state, host, ns_c_in, types[i], answer, sizeof(answer));
		if (size >= 0)
			read_answer(answer, size < ANSWER_BYTES_MAX ? size : ANSWER_BYTES_MAX, found);
		else
			failed |= state.res_h_errno == TRY_AGAIN;
	}
	res_nclose(&state);
	return failed;
}

int names_find(const struct names_sources *sources, const char *host, struct names_found *ret)
{
	struct names_found found = {.count = 0};
	bool failed = false;
	ask_hosts(sources->hosts ? sources->hosts : "/etc/hosts", host, &found);
	if (found.count == 0)
		failed = ask_dns(sources->dns, host, &found);
	*ret = found;
	return found.count > 0 ? 0 : failed ? EAI_AGAIN : EAI_NONAME;
}

int names_resolve(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
	struct addrinfo numeric = *hints, *all = NULL, **end = &all;
	struct names_found found;
	numeric.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
	int code = getaddrinfo(host, port, &numeric, ret);
	if (code != EAI_NONAME || !host)
		return code;
	code = names_find(&(struct names_sources){0}, host, &found);
	for (size_t i = 0; code == 0 && i < found.count; i++) {
		code = getaddrinfo(found.text[i], port, &numeric, end);
		while (code == 0 && *end)
			end = &(*end)->ai_next;
	}
	if (code != 0 && all) {
		freeaddrinfo(all);
		return code;
	}
	*ret = all;
	return code;
}
