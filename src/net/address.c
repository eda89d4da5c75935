/* SPDX-License-Identifier: Apache-2.0 */
/* "HOST:PORT" and "http://HOST:PORT/prefix" taken apart. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/text.h"
#include "net/names.h"
#include "net/net_int.h"

#ifdef WICK_STATIC
#define look_up names_resolve
#else
#define look_up getaddrinfo
#endif

static int parse_port(const char *text, uint16_t *ret)
{
	uint64_t port;
	if (text_parse_u64(text, &port, NULL) < 0 || port > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

/* Splits off the host; *ret_rest is what follows it. */
static int take_host(const char *text, char *host, const char **ret_rest)
{
	const char *start = text, *end;
	if (*text == '[') {
		start = text + 1;
		end = strchr(start, ']');
		*ret_rest = end ? end + 1 : NULL;
	} else {
		end = text + strcspn(text, ":/");
		*ret_rest = end;
	}
	if (!end || end == start || end - start >= NET_NAME_MAX)
		return -EINVAL;
	for (const char *at = start; at < end; at++)
		if (*at <= ' ' || *at == '@' || *at == 0x7f)
			return -EINVAL;
	memcpy(host, start, (size_t)(end - start));
	host[end - start] = '\0';
	return 0;
}

int address_parse(const char *text, struct net_address *ret, struct error *err)
{
	const char *rest;
	struct net_address address = {0};
	if (!text || take_host(text, address.host, &rest) < 0 || *rest != ':' || parse_port(rest + 1, &address.port) < 0)
		return error_set(err, -EINVAL, "bad address \"%s\": use ADDR:PORT, such as 127.0.0.1:7070 or [::1]:7070",
				 text ? text : "");
	*ret = address;
	return 0;
}

static int bad_url(const char *url, struct error *err)
{
	return error_set(err, -EINVAL,
			 "bad URL \"%s\": use http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:7070", url);
}

static bool is_url_text(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f || strchr("?#\"<>\\^`{|}", *text))
			return false;
	return true;
}

int address_parse_url(const char *url, struct net_address *ret, char *prefix, size_t prefix_size, struct error *err)
{
	if (!url)
		return bad_url("", err);
	bool tls = !strncasecmp(url, "https://", 8);
	struct net_address address = {.port = tls ? 443 : 80, .tls = tls};
	const char *rest;
	if ((!tls && strncasecmp(url, "http://", 7)) || !is_url_text(url) ||
	    take_host(url + (tls ? 8 : 7), address.host, &rest) < 0)
		return bad_url(url, err);
	if (*rest == ':') {
		char port[8];
		size_t len = strcspn(rest + 1, "/");
		if (len == 0 || len >= sizeof(port))
			return bad_url(url, err);
		memcpy(port, rest + 1, len);
		port[len] = '\0';
		if (parse_port(port, &address.port) < 0 || address.port == 0)
			return bad_url(url, err);
		rest += 1 + len;
	}
	size_t len = strlen(rest);
	while (len > 0 && rest[len - 1] == '/')
		len--;
	if ((len > 0 && *rest != '/') || len >= prefix_size)
		return bad_url(url, err);
	memcpy(prefix, rest, len);
	prefix[len] = '\0';
	*ret = address;
	return 0;
}

int address_format(const struct sockaddr *address, char *out, size_t size)
{
	char host[INET6_ADDRSTRLEN];
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	if (address->sa_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host)))
		return snprintf(out, size, "%s:%u", host, ntohs(v4->sin_port));
	if (address->sa_family == AF_INET6 && inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)))
		return snprintf(out, size, "[%s]:%u", host, ntohs(v6->sin6_port));
	return -EAFNOSUPPORT;
}

void address_format_host(const struct sockaddr *address, char out[static NET_PEER_ADDRESS_SIZE])
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	bool mapped = address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
	const void *bytes = address->sa_family == AF_INET ? (const void *)&v4->sin_addr
			    : mapped			  ? (const void *)(v6->sin6_addr.s6_addr + 12)
							  : (const void *)&v6->sin6_addr;
	bool is_known = address->sa_family == AF_INET || address->sa_family == AF_INET6;
	if (!is_known || !inet_ntop(mapped ? AF_INET : address->sa_family, bytes, out, NET_PEER_ADDRESS_SIZE))
		out[0] = '\0';
}

bool address_is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
	if (address->sa_family != AF_INET6)
		return false;
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

/* Of IPv6 the first half: the second is for a host to choose, as often as it likes. */
uint64_t address_hash(const struct sockaddr *address)
{
	const struct sockaddr_in6 *v6 = (const void *)address;
	const struct sockaddr_in *v4 = (const void *)address;
	if (address_is_loopback(address))
		return 1;
	if (address->sa_family == AF_INET)
		return hash64(&v4->sin_addr, sizeof(v4->sin_addr));
	if (address->sa_family != AF_INET6)
		return 0;
	bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
	return hash64(v6->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
}

int address_resolve(const struct net_address *address, int flags, struct addrinfo **ret)
{
	char port[8];
	snprintf(port, sizeof(port), "%u", address->port);
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
	int code = look_up(address->host, port, &hints, ret);
	if (code && strcasecmp(address->host, "localhost") == 0)
		code = look_up("127.0.0.1", port, &hints, ret);
	return code;
}
