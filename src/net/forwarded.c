/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behind a reverse proxy: who the client is, and which part of the path is the proxy's.
 *
 * A proxy that is trusted says in X-Forwarded-For for whom it asks, as the last of a list: what is before that, another proxy,
 * or the client itself, has written. So the list is read from its end, and the first address that is no trusted proxy's is the
 * client. What it says before that is not looked at: clients can send the header too. An entry that is no address ends the
 * search at the one behind it. X-Forwarded-Host and -Proto are believed of a trusted peer only, for the check of a page's
 * Origin.
 *
 * The prefix is taken off the path of a request that begins with it. One that does not begin with it is taken as it is, since
 * many proxies take it off themselves, and health checks come without.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "net/net_int.h"

#define NETWORKS_MAX	   256
#define FORWARDED_FOR	   "x-forwarded-for"
#define FORWARDED_HOPS_MAX 32 /* of a list */

struct network {
	uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
	unsigned bits;
};
struct net_networks {
	size_t count;
	struct network items[];
};

/* "10.1.2.3", "::1". False if it is neither. */
static bool parse_address(const char *text, uint8_t out[static 16], bool *ret_v4)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	*ret_v4 = inet_pton(AF_INET, text, out + 12) == 1;
	if (!*ret_v4)
		return inet_pton(AF_INET6, text, out) == 1;
	memcpy(out, mapped, sizeof(mapped));
	return true;
}

static int parse_network(const char *text, struct network *ret, struct error *err)
{
	char address[INET6_ADDRSTRLEN];
	bool v4;
	uint64_t bits;
	size_t len = strcspn(text, "/");
	const char *slash = text[len] ? text + len : NULL;
	if (len >= sizeof(address))
		return error_set(err, -EINVAL, "'%.60s' is no network: write 10.0.0.0/8, fd00::/8 or an address", text);
	memcpy(address, text, len);
	address[len] = '\0';
	*ret = (struct network){.bits = 128};
	if (!parse_address(address, ret->address, &v4) ||
	    (slash && (text_parse_u64(slash + 1, &bits, NULL) < 0 || bits > (v4 ? 32 : 128))))
		return error_set(err, -EINVAL, "'%.60s' is no network: write 10.0.0.0/8, fd00::/8 or an address", text);
	if (slash)
		ret->bits = (unsigned)bits + (v4 ? 96 : 0);
	return 0;
}

int net_networks_parse(const char *text, struct net_networks **ret, struct error *err)
{
	struct net_networks *networks = mem_zalloc(sizeof(*networks) + NETWORKS_MAX * sizeof(*networks->items));
	if (!networks)
		return error_nomem(err);
	int r = 0;
	while (r == 0 && *(text += strspn(text, " ,\t\n"))) {
		char one[64];
		size_t len = strcspn(text, " ,\t\n");
		snprintf(one, sizeof(one), "%.*s", (int)(len < sizeof(one) ? len : sizeof(one)), text);
		text += len;
		r = networks->count < NETWORKS_MAX ? parse_network(one, &networks->items[networks->count++], err)
						   : error_set(err, -E2BIG, "more than %d networks", NETWORKS_MAX);
	}
	if (r < 0)
		mem_free(networks);
	else
		*ret = networks;
	return r;
}

struct net_networks *net_networks_free(struct net_networks *networks)
{
	return mem_free(networks);
}

static bool is_in(const struct network *network, const uint8_t address[static 16])
{
	unsigned whole = network->bits / 8, rest = network->bits % 8;
	return memcmp(network->address, address, whole) == 0 &&
	       (rest == 0 || ((network->address[whole] ^ address[whole]) >> (8 - rest)) == 0);
}

static bool networks_have(const struct net_networks *networks, const uint8_t address[static 16])
{
	for (size_t i = 0; i < networks->count; i++)
		if (is_in(&networks->items[i], address))
			return true;
	return false;
}

/* ---- the client ---- */

/* "10.1.2.3", "10.1.2.3:4567", "::1", "[::1]", "[::1]:4567", perhaps with blanks around it. */
static bool parse_entry(struct bytes text, uint8_t out[static 16], bool *ret_v4)
{
	char entry[INET6_ADDRSTRLEN + 16];
	while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = bytes_skip(text, 1);
	while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	if (text.len == 0 || text.len >= sizeof(entry))
		return false;
	memcpy(entry, text.data, text.len);
	entry[text.len] = '\0';
	char *start = entry, *colon = strchr(entry, ':');
	if (*entry == '[') {
		start = entry + 1;
		char *end = strchr(start, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
		*end = '\0';
	} else if (colon && !strchr(colon + 1, ':')) {
		*colon = '\0';
	}
	return parse_address(start, out, ret_v4);
}

static void set_client(struct net_request *request, const uint8_t address[static 16], bool v4)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	memcpy(&in.sin_addr, address + 12, 4);
	memcpy(&in6.sin6_addr, address, 16);
	const struct sockaddr *client = v4 ? (const struct sockaddr *)&in : (const struct sockaddr *)&in6;
	request->loopback = address_is_loopback(client);
	request->peer = address_hash(client);
	address_format_host(client, request->peer_address);
}

/* The entries of one header from its end; false: the search is over. */
static bool read_list(struct net_request *request, const struct net_networks *trusted, const char *value, unsigned *hops)
{
	size_t end = strlen(value);
	for (size_t at = end;; at--) {
		if (at > 0 && value[at - 1] != ',')
			continue;
		uint8_t address[16];
		bool v4;
		if (++*hops > FORWARDED_HOPS_MAX ||
		    !parse_entry((struct bytes){(const uint8_t *)value + at, end - at}, address, &v4))
			return false;
		set_client(request, address, v4);
		if (!networks_have(trusted, address))
			return false;
		if (at == 0)
			return true;
		end = at - 1;
	}
}

static void find_client(struct net_request *request, const struct net_networks *trusted)
{
	uint8_t peer[16];
	bool v4;
	unsigned hops = 0;
	if (!parse_address(request->peer_address, peer, &v4) || !networks_have(trusted, peer))
		return;
	request->by_proxy = true;
	for (size_t i = request->headers.count; i-- > 0;)
		if (strcasecmp(request->headers.items[i].name, FORWARDED_FOR) == 0 &&
		    !read_list(request, trusted, request->headers.items[i].value, &hops))
			return;
}

/* ---- the path ---- */

bool net_path_prefix_is_valid(const char *prefix)
{
	size_t len = strlen(prefix);
	if (prefix[0] != '/' || len < 2 || len > 255 || prefix[len - 1] == '/' || strstr(prefix, "//"))
		return false;
	for (const char *at = prefix; *at; at++)
		if (!(*at >= 'a' && *at <= 'z') && !(*at >= 'A' && *at <= 'Z') && !(*at >= '0' && *at <= '9') &&
		    !strchr("/-_.~", *at))
			return false;
	return !strstr(prefix, "/.");
}

static void strip_prefix(struct net_request *request, const char *prefix)
{
	size_t len = strlen(prefix);
	if (strncmp(request->path, prefix, len) != 0)
		return;
	if (request->path[len] == '/')
		request->path += len;
	else if (request->path[len] == '\0') {
		request->at_prefix = true;
		request->path = "/";
	}
}

void request_apply_proxy(struct net_request *request, const struct net_server_options *options)
{
	if (options->trusted_proxies)
		find_client(request, options->trusted_proxies);
	if (options->path_prefix)
		strip_prefix(request, options->path_prefix);
}

bool net_request_is_at_prefix(const struct net_request *request)
{
	return request->at_prefix;
}

bool net_request_is_by_proxy(const struct net_request *request)
{
	return request->by_proxy;
}
