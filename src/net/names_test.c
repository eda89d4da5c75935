/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/names.h"

static char hosts[] = "/tmp/wick-names-XXXXXX";

static int write_hosts(void **state)
{
	int fd = mkstemp(hosts);
	static const char text[] = "# a comment that mentions here\n"
				   "192.0.2.7\there Here.example # and one more: there\n"
				   "not-an-address here\n"
				   "2001:db8::7 here\n"
				   "192.0.2.8\n"
				   "192.0.2.9   last";
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	return 0;
}

static int remove_hosts(void **state)
{
	return unlink(hosts);
}

/* A DNS server: what it answers to a question about addresses of one kind. */
struct server {
	int fd;
	struct sockaddr_in address;
	pthread_t thread;
	const unsigned char *answers; /* records, behind the question */
	size_t size;
	unsigned count;
	unsigned char code; /* RCODE */
};

static void *serve(void *context)
{
	struct server *server = context;
	for (;;) {
		unsigned char message[1024];
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t size = recvfrom(server->fd, message, 512, 0, (struct sockaddr *)(void *)&from, &len);
		if (size < 12)
			return NULL;
		/* The question ends behind its name, which ends with 0, and four bytes; what follows (EDNS) is left out. */
		size_t end = 12 + strnlen((char *)message + 12, 255) + 5;
		bool is_a = message[end - 3] == 1;
		message[2] |= 0x80;
		message[3] = 0x80 | server->code;
		message[6] = 0;
		message[7] = is_a && server->code == 0 ? (unsigned char)server->count : 0;
		memset(message + 8, 0, 4);
		if (message[7])
			memcpy(message + end, server->answers, server->size);
		sendto(server->fd, message, end + (message[7] ? server->size : 0), 0, (struct sockaddr *)(void *)&from, len);
	}
}

static int ask(struct server *server, const char *host, struct names_found *found)
{
	socklen_t len = sizeof(server->address);
	server->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	server->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(server->fd, (struct sockaddr *)(void *)&server->address, len), 0);
	assert_int_equal(getsockname(server->fd, (struct sockaddr *)(void *)&server->address, &len), 0);
	assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
	int code = names_find(&(struct names_sources){hosts, &server->address}, host, found);
	/* An empty message ends the server. */
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sendto(fd, "", 0, 0, (struct sockaddr *)(void *)&server->address, len);
	pthread_join(server->thread, NULL);
	close(fd);
	close(server->fd);
	return code;
}

static void test_hosts_come_first(void **state)
{
	struct server server = {.code = 3};
	struct names_found found;
	assert_int_equal(ask(&server, "HERE", &found), 0);
	assert_int_equal(found.count, 2);
	assert_string_equal(found.text[0], "192.0.2.7");
	assert_string_equal(found.text[1], "2001:db8::7");
	assert_int_equal(ask(&server, "here.example", &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(ask(&server, "last", &found), 0);
	assert_string_equal(found.text[0], "192.0.2.9");
}

static void test_comments_are_no_names(void **state)
{
	struct server server = {.code = 3};
	struct names_found found;
	assert_int_equal(ask(&server, "there", &found), EAI_NONAME);
	assert_int_equal(ask(&server, "mentions", &found), EAI_NONAME);
	assert_int_equal(found.count, 0);
}

/* Another name, then its two addresses; the last is cut off. */
static void test_dns(void **state)
{
	static const unsigned char answers[] = {
		0xc0, 12,  0, 5, 0, 1, 0, 0, 0, 9, 0, 3, 1, 'x', 0,	   /* CNAME x. */
		1,    'x', 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 33, /* A */
		1,    'x', 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 34, /* A */
		1,    'x', 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0,	   /* A, two bytes of four */
	};
	struct server server = {.answers = answers, .size = sizeof(answers) - 15, .count = 3};
	struct names_found found;
	assert_int_equal(ask(&server, "web.example.", &found), 0);
	assert_int_equal(found.count, 2);
	assert_string_equal(found.text[0], "192.0.2.33");
	assert_string_equal(found.text[1], "192.0.2.34");
	server.size = sizeof(answers);
	server.count = 4;
	assert_true(ask(&server, "web.example.", &found) != 0 || found.count <= 2);
}

static void test_dns_that_fails(void **state)
{
	struct server server = {.code = 3};
	struct names_found found;
	assert_int_equal(ask(&server, "nobody.example.", &found), EAI_NONAME);
	assert_int_equal(found.count, 0);
}

static void test_addresses_need_no_names(void **state)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	assert_int_equal(names_resolve("192.0.2.1", "80", &hints, &found), 0);
	assert_int_equal(found->ai_family, AF_INET);
	assert_int_equal(ntohs(((struct sockaddr_in *)(void *)found->ai_addr)->sin_port), 80);
	assert_null(found->ai_next);
	freeaddrinfo(found);
	assert_int_equal(names_resolve("::1", "443", &hints, &found), 0);
	assert_int_equal(found->ai_family, AF_INET6);
	freeaddrinfo(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts_come_first),
		cmocka_unit_test(test_comments_are_no_names),
		cmocka_unit_test(test_dns),
		cmocka_unit_test(test_dns_that_fails),
		cmocka_unit_test(test_addresses_need_no_names),
	};
	return cmocka_run_group_tests(tests, write_hosts, remove_hosts);
}
