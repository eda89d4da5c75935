/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Very many agents, as far as a server sees them: a connection each, HTTP/1.1 with or without TLS, on which each uploads a
 * profile and polls now and then. One process has as many as its descriptors allow; bench/agents.sh runs several, each in
 * addresses of its own.
 *
 *   agents ADDRESS PORT FIRST COUNT SECONDS PERIOD PARALLEL FLAGS BODY
 *
 * FIRST numbers the first agent: it comes from 10.9.(n/250+1).(n%250+1). All connect, PARALLEL at a time, and upload once.
 * Then, for SECONDS, each uploads and polls every PERIOD seconds. Then all connect anew once. FLAGS: t TLS, r resume sessions.
 * BODY: a pprof, to which the time is appended. Prints a line for each part: agents per second, latencies.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BODY_MAX   (64 * 1024)
#define ANSWER_MAX 4096

enum part { CONNECT, SHAKE, SEND, RECEIVE, REST, GONE };
struct agent {
	int fd;
	SSL *tls;
	SSL_SESSION *session;
	enum part part;
	int64_t began_ns, due_ns;
	size_t sent, out_len, in_len;
	bool polls;
	char *out;
	char in[ANSWER_MAX];
};
static struct agent *agents;
static struct sockaddr_in server;
static SSL_CTX *context;
static int poller, first, count, parallel, period;
static bool with_tls, resumes;
static uint8_t body[BODY_MAX + 16];
static size_t body_len;
static int64_t *latencies;
static size_t latency_count, latency_max, failures, resumed, done;

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void leave(struct agent *a)
{
	if (a->tls) {
		SSL_set_shutdown(a->tls, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* or the session could not be resumed */
		SSL_free(a->tls);
	}
	if (a->fd >= 0)
		close(a->fd);
	a->tls = NULL;
	a->fd = -1;
}

static void watch(struct agent *a, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = a};
	if (epoll_ctl(poller, EPOLL_CTL_MOD, a->fd, &event) < 0)
		epoll_ctl(poller, EPOLL_CTL_ADD, a->fd, &event);
}

static void fail(struct agent *a)
{
	if (failures++ == 0) /* the first says why */
		fprintf(stderr, "agent %ld, part %d: %.700s %s\n", (long)(a - agents), a->part, a->in, strerror(errno));
	leave(a);
	a->part = GONE;
}

static void call(struct agent *a, bool poll)
{
	static const char type[] = "Content-Type: application/octet-stream\r\n";
	uint8_t *at = body + body_len;
	uint64_t time = (uint64_t)now_ns(CLOCK_REALTIME) + (uint64_t)(a - agents);
	*at++ = 9 << 3; /* time_nanos: the last one counts */
	for (; time >= 128; time >>= 7)
		*at++ = (uint8_t)(time | 128);
	*at++ = (uint8_t)time;
	size_t len = poll ? 0 : (size_t)(at - body);
	int head =
		poll ? snprintf(a->out, 512, "GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-secret\r\n\r\n")
		     : snprintf(a->out, 512,
				"POST /api/v1/ingest?name=process_cpu&label=host%%3Dh%ld HTTP/1.1\r\nHost: x\r\n"
				"Authorization: Bearer secret-secret\r\n%sContent-Length: %zu\r\n\r\n",
				(long)(first + (a - agents)), type, len);
	memcpy(a->out + head, body, len);
	a->out_len = (size_t)head + len;
	a->sent = a->in_len = 0;
	a->polls = poll;
	a->began_ns = now_ns(CLOCK_MONOTONIC);
	a->part = SEND;
}

static void dial(struct agent *a)
{
	int number = first + (int)(a - agents);
	struct sockaddr_in own = {.sin_family = AF_INET};
	own.sin_addr.s_addr = htonl(0x0a090000u | (uint32_t)(number / 250 + 1) << 8 | (uint32_t)(number % 250 + 1));
	a->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (a->fd < 0 || bind(a->fd, (struct sockaddr *)&own, sizeof(own)) < 0 ||
	    (connect(a->fd, (struct sockaddr *)&server, sizeof(server)) < 0 && errno != EINPROGRESS)) {
		fail(a);
		return;
	}
	a->part = CONNECT;
	watch(a, EPOLLOUT);
}

static bool wants(struct agent *a, int n)
{
	int why = SSL_get_error(a->tls, n);
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
		return false;
	watch(a, why == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT);
	return true;
}

static void send_some(struct agent *a)
{
	while (a->sent < a->out_len) {
		size_t left = a->out_len - a->sent;
		ssize_t n = a->tls ? SSL_write(a->tls, a->out + a->sent, (int)left)
				   : send(a->fd, a->out + a->sent, left, MSG_NOSIGNAL);
		if (n <= 0 && (a->tls ? wants(a, (int)n) : errno == EAGAIN)) {
			if (!a->tls)
				watch(a, EPOLLOUT);
			return;
		}
		if (n <= 0) {
			fail(a);
			return;
		}
		a->sent += (size_t)n;
	}
	a->part = RECEIVE;
	watch(a, EPOLLIN);
}

static void complete(struct agent *a)
{
	if (strncmp(a->in, "HTTP/1.1 200", 12) != 0) {
		fail(a);
		return;
	}
	if (latency_count < latency_max)
		latencies[latency_count++] = now_ns(CLOCK_MONOTONIC) - a->began_ns;
	done++;
	a->part = REST;
}

static void receive_some(struct agent *a)
{
	size_t room = sizeof(a->in) - 1 - a->in_len;
	ssize_t n = a->tls ? SSL_read(a->tls, a->in + a->in_len, (int)room) : recv(a->fd, a->in + a->in_len, room, 0);
	if (n <= 0 && (a->tls ? wants(a, (int)n) : n < 0 && errno == EAGAIN))
		return;
	if (n <= 0) {
		fail(a);
		return;
	}
	a->in_len += (size_t)n;
	a->in[a->in_len] = '\0';
	char *end = strstr(a->in, "\r\n\r\n"), *length = strcasestr(a->in, "content-length: ");
	if (end && length && a->in + a->in_len >= end + 4 + strtoul(length + 16, NULL, 10))
		complete(a);
}

static int on_session(SSL *tls, SSL_SESSION *session)
{
	struct agent *a = SSL_get_app_data(tls);
	SSL_SESSION_free(a->session);
	a->session = session;
	return 1;
}

static void shake(struct agent *a)
{
	int n = SSL_connect(a->tls);
	if (n == 1) {
		resumed += (size_t)SSL_session_reused(a->tls);
		call(a, false);
		send_some(a);
	} else if (!wants(a, n)) {
		fail(a);
	}
}

static void connected(struct agent *a)
{
	int code = 0;
	socklen_t len = sizeof(code);
	getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &code, &len);
	if (code) {
		fail(a);
		return;
	}
	if (!with_tls) {
		call(a, false);
		send_some(a);
		return;
	}
	a->tls = SSL_new(context);
	SSL_set_app_data(a->tls, a);
	SSL_set_fd(a->tls, a->fd);
	if (a->session && resumes)
		SSL_set_session(a->tls, a->session);
	a->part = SHAKE;
	shake(a);
}

static void step(struct agent *a)
{
	switch (a->part) {
	case CONNECT: connected(a); break;
	case SHAKE: shake(a); break;
	case SEND: send_some(a); break;
	case RECEIVE: receive_some(a); break;
	case REST: fail(a); break; /* closed */
	case GONE: break;
	}
}

static void turn(int ms)
{
	struct epoll_event events[256];
	int n = epoll_wait(poller, events, 256, ms);
	for (int i = 0; i < n; i++)
		step(events[i].data.ptr);
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void report(const char *what, int64_t began_ns)
{
	double seconds = (double)(now_ns(CLOCK_MONOTONIC) - began_ns) / 1e9;
	qsort(latencies, latency_count, sizeof(*latencies), compare);
	double half = latency_count ? (double)latencies[latency_count / 2] / 1e6 : 0,
	       most = latency_count ? (double)latencies[latency_count * 99 / 100] / 1e6 : 0;
	printf("%s %zu calls %.1f s %.0f /s p50 %.1f ms p99 %.1f ms failed %zu resumed %zu\n", what, done, seconds,
	       (double)done / seconds, half, most, failures, resumed);
	fflush(stdout);
	latency_count = done = failures = resumed = 0;
}

static void connect_all(const char *what)
{
	int next = 0, open;
	int64_t began_ns = now_ns(CLOCK_MONOTONIC);
	do {
		open = 0;
		for (int i = 0; i < next; i++)
			open += agents[i].part < REST;
		for (; next < count && open < parallel; open++)
			dial(&agents[next++]);
		turn(20);
	} while (open > 0 || next < count);
	report(what, began_ns);
}

static void run(int seconds)
{
	int64_t began_ns = now_ns(CLOCK_MONOTONIC), end_ns = began_ns + seconds * 1000000000ll, next_ns = began_ns;
	for (int i = 0; i < count; i++)
		agents[i].due_ns = began_ns + (int64_t)(drand48() * period * 5e8);
	for (int64_t now; (now = now_ns(CLOCK_MONOTONIC)) < end_ns;) {
		for (int i = 0; i < count && now >= next_ns; i++) {
			struct agent *a = &agents[i];
			if (a->part != REST || now < a->due_ns)
				continue;
			a->due_ns += period * 500000000ll; /* an upload and a poll in turns */
			call(a, !a->polls);
			send_some(a);
		}
		if (now >= next_ns)
			next_ns = now + 20000000;
		turn(10);
	}
	report("steady", began_ns);
}

static bool read_body(const char *path)
{
	FILE *file = fopen(path, "r");
	body_len = file ? fread(body, 1, BODY_MAX, file) : 0;
	if (file)
		fclose(file);
	return body_len > 0;
}

static int number_of(const char *text)
{
	return (int)strtol(text, NULL, 10);
}

int main(int argc, char **argv)
{
	if (argc != 10 || !read_body(argv[9])) {
		fprintf(stderr, "usage: agents ADDRESS PORT FIRST COUNT SECONDS PERIOD PARALLEL FLAGS BODY\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)number_of(argv[2]))};
	inet_pton(AF_INET, argv[1], &server.sin_addr);
	first = number_of(argv[3]);
	count = number_of(argv[4]);
	period = number_of(argv[6]);
	parallel = number_of(argv[7]);
	with_tls = strchr(argv[8], 't');
	resumes = strchr(argv[8], 'r');
	poller = epoll_create1(EPOLL_CLOEXEC);
	context = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_mode(context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(context, on_session);
	agents = calloc((size_t)count, sizeof(*agents));
	latency_max = 4000000;
	latencies = malloc(latency_max * sizeof(*latencies));
	for (int i = 0; i < count; i++) {
		agents[i].fd = -1;
		agents[i].part = GONE;
		agents[i].out = malloc(body_len + 600);
	}
	connect_all("connect");
	run(number_of(argv[5]));
	for (int i = 0; i < count; i++)
		leave(&agents[i]);
	connect_all("again");
	for (int i = 0; i < count; i++) {
		leave(&agents[i]);
		SSL_SESSION_free(agents[i].session);
	}
	return 0;
}
