/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which proxy the client goes through. The environment says, as it does for curl and for programs in Go:
 *
 *   http_proxy                  for http://; not HTTP_PROXY, which whoever sends a header "Proxy:" sets in a CGI program
 *   https_proxy, HTTPS_PROXY    for https://
 *   all_proxy, ALL_PROXY        for either, where there is no other
 *   no_proxy, NO_PROXY          what is reached without: a list with commas or spaces between
 *
 * The name in small letters wins, and an empty variable is none. A proxy is http://[USER[:PASSWORD]@]HOST[:PORT]; the scheme
 * may be left out. Others (https, SOCKS) are an error, since to go around a proxy that somebody asked for would be a surprise.
 *
 *   *                           everything
 *   example.com, .example.com   that host and those below it
 *   192.0.2.1, 2001:db8::1      that address
 *   192.0.2.0/24, 2001:db8::/32 these addresses
 *   HOST:PORT, [ADDRESS]:PORT   with any of the former but the last: only at that port
 *
 * Names are not resolved for this: an address in the list is about URLs with an address. localhost and addresses of loopback
 * never go through a proxy, as in Go: it would look for them on its own host.
 */
#include "net/proxy_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "codec/base64.h"

/* ---- what is reached without ---- */

struct ip {
	uint8_t bytes[16];
	unsigned bits; /* 32, 128; 0 = it is none */
};

static struct ip parse_ip(const char *text)
{
	struct ip ip = {0};
	if (inet_pton(AF_INET, text, ip.bytes) == 1)
		ip.bits = 32;
	else if (inet_pton(AF_INET6, text, ip.bytes) == 1)
		ip.bits = 128;
	return ip;
}

static bool have_prefix(const struct ip *a, const struct ip *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;
	if (a->bits == 0 || a->bits != b->bits || bits > a->bits || memcmp(a->bytes, b->bytes, whole) != 0)
		return false;
	return rest == 0 || (a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_loopback(const struct net_address *target)
{
	struct ip ip = parse_ip(target->host);
	static const struct in6_addr loopback = IN6ADDR_LOOPBACK_INIT;
	if (ip.bits == 32)
		return ip.bytes[0] == 127;
	return ip.bits == 128 ? !memcmp(ip.bytes, &loopback, sizeof(loopback)) : !strcasecmp(target->host, "localhost");
}

static bool is_in_network(const struct net_address *target, char *entry, char *slash)
{
	uint64_t bits;
	*slash = '\0';
	struct ip network = parse_ip(entry), ip = parse_ip(target->host);
	return text_parse_u64(slash + 1, &bits, NULL) == 0 && bits <= 128 && have_prefix(&network, &ip, (unsigned)bits);
}

/* Takes ":PORT" off the entry. False: it is not the target's. */
static bool take_port(const struct net_address *target, char *entry)
{
	uint64_t port;
	char *colon = strchr(entry, ':'), *close = strchr(entry, ']');
	if (*entry == '[' && close) {
		bool more = close[1] != '\0';
		colon = close[1] == ':' ? close + 1 : NULL;
		if (more && !colon)
			return false;
		*close = '\0';
		memmove(entry, entry + 1, (size_t)(close - entry));
	} else if (colon && strchr(colon + 1, ':')) {
		return true; /* an IPv6 address */
	}
	if (!colon)
		return true;
	bool same = text_parse_u64(colon + 1, &port, NULL) == 0 && port == target->port;
	*colon = '\0';
	return same;
}

static size_t without_dot(const char *name)
{
	size_t len = strlen(name);
	return len > 0 && name[len - 1] == '.' ? len - 1 : len;
}

static bool is_listed(const struct net_address *target, char *entry)
{
	char *slash = strchr(entry, '/');
	if (!strcmp(entry, "*"))
		return true;
	if (slash)
		return is_in_network(target, entry, slash);
	if (!take_port(target, entry))
		return false;
	struct ip own = parse_ip(target->host), ip = parse_ip(entry);
	if (own.bits || ip.bits)
		return have_prefix(&own, &ip, own.bits);
	const char *domain = entry + (entry[0] == '*' && entry[1] == '.');
	domain += *domain == '.';
	size_t len = without_dot(domain), host_len = without_dot(target->host);
	if (len == 0 || len > host_len || strncasecmp(target->host + host_len - len, domain, len) != 0)
		return false;
	return len == host_len || target->host[host_len - len - 1] == '.';
}

bool proxy_is_bypassed(const struct net_address *target, const char *no_proxy)
{
	if (is_loopback(target))
		return true;
	for (const char *at = no_proxy; at && *at;) {
		char entry[NET_NAME_MAX + 8]; /* a longer one can be no host */
		size_t len = strcspn(at, ", \t");
		if (len > 0 && len < sizeof(entry)) {
			memcpy(entry, at, len);
			entry[len] = '\0';
			if (is_listed(target, entry))
				return true;
		}
		at += len + (at[len] != '\0');
	}
	return false;
}

/* ---- the proxy ---- */

static int bad_proxy(const char *variable, const char *what, struct error *err)
{
	bool is_option = !strcmp(variable, PROXY_URL_OPTION);
	return error_set(err, -EINVAL, "bad %s%s: %s; use http://[USER:PASSWORD@]HOST:PORT",
			 is_option ? "" : "proxy in the environment's ", variable, what);
}

static int take_user(struct bytes text, struct net_proxy *proxy)
{
	_cleanup_(buffer_release) struct buffer plain = {.max = PROXY_USER_BYTES_MAX},
						packed = {.max = sizeof(proxy->authorization)};
	const uint8_t *colon = memchr(text.data, ':', text.len);
	size_t user_len = colon ? (size_t)(colon - text.data) : text.len;
	struct bytes user = {text.data, user_len}, password = {colon ? colon + 1 : NULL, colon ? text.len - user_len - 1 : 0};
	int r = text_url_decode(user, false, &plain, NULL);
	if (r == 0 && memchr(plain.data, ':', plain.len))
		r = -EINVAL; /* a user's name that holds one could not be distinguished from the password (RFC 7617) */
	if (r == 0)
		r = buffer_append_byte(&plain, ':');
	if (r == 0)
		r = text_url_decode(password, false, &plain, NULL);
	if (r == 0 && text_has_controls(buffer_bytes(&plain)))
		r = -EINVAL;
	if (r == 0)
		r = base64_encode(buffer_bytes(&plain), &packed);
	if (r == 0)
		snprintf(proxy->authorization, sizeof(proxy->authorization), "Basic %.*s", (int)packed.len, packed.data);
	return r;
}

int proxy_parse(const char *variable, const char *text, struct net_proxy *ret, struct error *err)
{
	static struct net_proxy none;
	struct net_proxy proxy = none;
	const char *host = strstr(text, "://");
	if (host && strncasecmp(text, "http://", 7))
		return bad_proxy(variable, "only http proxies are supported", err);
	host = host ? host + 3 : text;
	size_t len = strcspn(host, "/?#");
	const char *at = memrchr(host, '@', len);
	int r = at ? take_user((struct bytes){(const uint8_t *)host, (size_t)(at - host)}, &proxy) : 0;
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0)
		return bad_proxy(variable, "its user or password is malformed or too long", err);
	len -= at ? (size_t)(at + 1 - host) : 0;
	host = at ? at + 1 : host;
	char url[NET_NAME_MAX + 32], prefix[8];
	int url_len = snprintf(url, sizeof(url), "http://%s", host);
	if (url_len < 0 || (size_t)url_len >= sizeof(url) ||
	    address_parse_url(url, &proxy.address, prefix, sizeof(prefix), NULL) < 0 || *prefix)
		return bad_proxy(variable, "not a URL of a host", err);
	snprintf(proxy.name, sizeof(proxy.name), strchr(proxy.address.host, ':') ? "http://[%s]:%u (%s)" : "http://%s:%u (%s)",
		 proxy.address.host, proxy.address.port, variable);
	*ret = proxy;
	return 0;
}

int net_proxy_check(const char *proxy_url, struct error *err)
{
	struct net_proxy proxy;
	return proxy_parse(PROXY_URL_OPTION, proxy_url, &proxy, err);
}

/* The value of the first of these that is not empty, and its name. */
static const char *look_up(const char *const names[], const char **ret_name)
{
	for (; *names; names++) {
		const char *value = getenv(*names);
		*ret_name = *names;
		if (value && *value)
			return value;
	}
	return NULL;
}

int proxy_from_environment(const struct net_address *target, struct net_proxy *ret, struct error *err)
{
	static const char *const http[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
	static const char *const https[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", NULL};
	static const char *const none[] = {"no_proxy", "NO_PROXY", NULL};
	const char *name;
	const char *no_proxy = look_up(none, &name), *value = look_up(target->tls ? https : http, &name);
	if (!value || proxy_is_bypassed(target, no_proxy))
		return 0;
	int r = proxy_parse(name, value, ret, err);
	return r < 0 ? r : 1;
}
