/* SPDX-License-Identifier: Apache-2.0 */
/* Whose process a TCP connection of this machine is of: of others, of sockets that are closed, in either family. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/net_int.h"

#define NOBODY 65534u

struct pair {
	int listener, client, server;
};

static socklen_t loopback(int family, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ss_family = (sa_family_t)family;
	if (family == AF_INET6)
		((struct sockaddr_in6 *)ret)->sin6_addr = in6addr_loopback;
	else
		((struct sockaddr_in *)ret)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* client_family AF_INET6 for a server of AF_INET: by an address of IPv4 in IPv6. False: there is no IPv6. */
static bool connect_pair(int family, int client_family, struct pair *ret)
{
	struct sockaddr_storage address, bound;
	socklen_t len = loopback(family, &address), bound_len = sizeof(bound);
	ret->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ret->listener < 0 || bind(ret->listener, (struct sockaddr *)&address, len) < 0) {
		close(ret->listener);
		return false;
	}
	assert_int_equal(listen(ret->listener, 8), 0);
	assert_int_equal(getsockname(ret->listener, (struct sockaddr *)&bound, &bound_len), 0);
	if (client_family != family) {
		struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = ((struct sockaddr_in *)&bound)->sin_port};
		assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr), 1);
		memcpy(&bound, &mapped, sizeof(mapped));
		bound_len = sizeof(mapped);
	}
	ret->client = socket(client_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ret->client < 0 || connect(ret->client, (struct sockaddr *)&bound, bound_len) < 0) {
		close(ret->client);
		close(ret->listener);
		return false;
	}
	ret->server = accept(ret->listener, NULL, NULL);
	assert_true(ret->server >= 0);
	return true;
}

static void close_pair(struct pair *pair)
{
	close(pair->listener);
	close(pair->client);
	close(pair->server);
}

static void test_own_process(void **state)
{
	static const int families[][2] = {{AF_INET, AF_INET}, {AF_INET6, AF_INET6}, {AF_INET, AF_INET6}};
	for (size_t i = 0; i < 3; i++) {
		struct pair pair;
		unsigned uid = 12345;
		if (!connect_pair(families[i][0], families[i][1], &pair))
			continue; /* without IPv6 */
		assert_int_equal(peer_find_user(pair.server, &uid, NULL), 0);
		assert_int_equal(uid, geteuid());
		uid = 12345;
		assert_int_equal(peer_find_user_in_lists(pair.server, &uid, NULL), 0);
		assert_int_equal(uid, geteuid());
		assert_int_equal(shutdown(pair.client, SHUT_WR), 0); /* half of it is closed: it is still its own */
		uid = 12345;
		assert_int_equal(peer_find_user(pair.server, &uid, NULL), 0);
		assert_int_equal(uid, geteuid());
		close_pair(&pair);
	}
}

/* The kernel says 0 of a socket that was closed, which must make nobody root. */
static void test_closed_sockets_are_nobodys(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct linger at_once = {.l_onoff = 1};
		struct pair pair;
		unsigned uid = 12345;
		struct error err = {0};
		assert_true(connect_pair(AF_INET, AF_INET, &pair));
		assert_int_equal(write(pair.client, "GET /", 5), 5);
		if (i == 1) /* a reset, instead of an end */
			setsockopt(pair.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		close(pair.client);
		pair.client = -1;
		int r = peer_find_user(pair.server, &uid, &err);
		assert_true(r == -ENOTCONN || r == -ENOENT);
		assert_int_equal(uid, 12345);
		assert_true(err.message[0]);
		assert_true(peer_find_user_in_lists(pair.server, &uid, NULL) < 0);
		close(pair.listener);
		close(pair.server);
	}
}

static void test_another_user(void **state)
{
	struct pair pair;
	unsigned uid = 0;
	struct sockaddr_storage address, bound;
	socklen_t len = loopback(AF_INET, &address), bound_len = sizeof(bound);
	char byte;
	if (geteuid() != 0)
		skip();
	pair.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(pair.listener, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(pair.listener, 8), 0);
	assert_int_equal(getsockname(pair.listener, (struct sockaddr *)&bound, &bound_len), 0);
	pid_t child = fork();
	if (child == 0) {
		if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
			_exit(1);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&bound, bound_len) < 0)
			_exit(2);
		_exit(read(fd, &byte, 1) == 0 ? 0 : 3); /* until the test has seen it */
	}
	pair.server = accept(pair.listener, NULL, NULL);
	assert_int_equal(peer_find_user(pair.server, &uid, NULL), 0);
	assert_int_equal(uid, NOBODY);
	close(pair.server);
	close(pair.listener);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_other_sockets(void **state)
{
	int ends[2];
	unsigned uid = 12345;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(peer_find_user(ends[0], &uid, NULL), -ENOTSUP);
	assert_true(peer_find_user(-1, &uid, NULL) < 0);
	assert_int_equal(uid, 12345);
	close(ends[0]);
	close(ends[1]);
}

static void test_list(void **state)
{
	static const char list[] =
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
		"   0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0 100 0 0 10 "
		"0\n"
		"   1: 0100007F:D431 0100007F:1B9E 01 00000000:00000000 02:000006A2 00000000  1000        0 101 2 0 20 4 30 10 "
		"-1\n"
		"   2: 0100007F:1B9E 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 102 1 0 20 4 30 10 "
		"-1\n"
		"   3: 0100007F:D432 0100007F:1B9E 05 00000000:00000000 03:000006A2 00000000     0        0 0 3 0\n"
		"   4: nonsense\n"
		"   5: 0000000000000000FFFF00000100007F:D433 0000000000000000FFFF00000100007F:1B9E 01 00000000:00000000 "
		"00:00000000 00000000    33        0 103 1 0 20 4 30 10 -1\n"
		"   6: 0100007F:D434 0100007F:1B9E 01 00000000";
	static const struct {
		const char *peer, *own;
		int result;
		unsigned uid;
	} cases[] = {
		{"0100007F:D431", "0100007F:1B9E", 0, 1000},
		{"0100007F:1B9E", "0100007F:D431", 0, 0},
		{"0100007F:D432", "0100007F:1B9E", -ENOTCONN, 7}, /* closed: the kernel's 0 is not root */
		{"0100007F:1B9E", "0100007F:D439", -ENOENT, 7},	  /* not the one that listens */
		{"0000000000000000FFFF00000100007F:D433", "0000000000000000FFFF00000100007F:1B9E", 0, 33},
		{"0100007F:D434", "0100007F:1B9E", -ENOENT, 7}, /* cut off */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned uid = 7;
		assert_int_equal(peer_find_in_list(list, cases[i].peer, cases[i].own, &uid, NULL), cases[i].result);
		assert_int_equal(uid, cases[i].uid);
	}
	assert_int_equal(peer_find_in_list("", "a", "b", &(unsigned){0}, NULL), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_process),  cmocka_unit_test(test_closed_sockets_are_nobodys),
		cmocka_unit_test(test_another_user), cmocka_unit_test(test_other_sockets),
		cmocka_unit_test(test_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
