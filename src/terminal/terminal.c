/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"

/* A page of its own, no cursor, and no line that goes on in the next one. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

#define HELD_MAX (64 * 1024) /* of what is kept of stderr, the end is printed */

static struct termios before;
static volatile sig_atomic_t is_taken;
static int held_errors = -1, real_errors = -1;

/* ---- what it can show ---- */

static bool names_utf8(const char *locale)
{
	const char *set = strchr(locale, '.');
	return set && (strncasecmp(set + 1, "utf-8", 5) == 0 || strncasecmp(set + 1, "utf8", 4) == 0);
}

void terminal_get_look(struct terminal_look *ret)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	const char *term = getenv("TERM"), *colour = getenv("COLORTERM"), *none = getenv("NO_COLOR");
	*ret = (struct terminal_look){.colours = 8};
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		const char *value = getenv(variables[i]);
		if (!value || !*value)
			continue;
		ret->is_utf8 = names_utf8(value);
		break;
	}
	if ((colour && *colour) || (term && strstr(term, "256color")))
		ret->colours = 256;
	if ((none && *none) || !term || strncmp(term, "vt", 2) == 0)
		ret->colours = 0;
}

void terminal_get_size(unsigned *ret_rows, unsigned *ret_columns)
{
	struct winsize size = {0};
	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*ret_rows = size.ws_row ? size.ws_row : 24;
	*ret_columns = size.ws_col ? size.ws_col : 80;
}

/* ---- taking and giving back ---- */

int terminal_write(struct bytes bytes)
{
	while (bytes.len) {
		ssize_t wrote = write(STDOUT_FILENO, bytes.data, bytes.len);
		if (wrote >= 0) {
			bytes = bytes_skip(bytes, (size_t)wrote);
			continue;
		}
		struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLOUT};
		if (errno == EAGAIN)
			poll(&wait, 1, -1);
		else if (errno != EINTR)
			return -EIO;
	}
	return 0;
}

void terminal_leave(void)
{
	int saved = errno;
	if (!is_taken)
		return;
	is_taken = 0;
	terminal_write((struct bytes){(const uint8_t *)LEAVE, sizeof(LEAVE) - 1});
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	errno = saved;
}

/* The default action follows: the handler is gone by SA_RESETHAND. */
static void on_fatal(int number)
{
	terminal_leave();
	raise(number);
}

static void guard(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGQUIT};
	struct sigaction action = {.sa_handler = on_fatal, .sa_flags = SA_RESETHAND | SA_NODEFER};
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(*fatal); i++)
		sigaction(fatal[i], &action, NULL);
}

int terminal_open(struct error *err)
{
	const char *term = getenv("TERM");
	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		return error_set(err, -ENOTTY, "standard %s is not a terminal", isatty(STDOUT_FILENO) ? "input" : "output");
	if (term && strcmp(term, "dumb") == 0)
		return error_set(err, -ENOTSUP, "the terminal cannot move its cursor (TERM=dumb)");
	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return error_set_errno(err, -errno, "cannot read the terminal's settings");
	return 0;
}

int terminal_enter(struct error *err)
{
	struct termios raw = before;
	raw.c_iflag &= (tcflag_t) ~(ICRNL | INLCR | IGNCR | IXON | ISTRIP);
	raw.c_lflag &= (tcflag_t) ~(ECHO | ICANON | ISIG | IEXTEN);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	guard();
	/* First what undoes it. */
	is_taken = 1;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return error_set_errno(err, -errno, "cannot change the terminal's settings");
	int r = terminal_write((struct bytes){(const uint8_t *)ENTER, sizeof(ENTER) - 1});
	return r < 0 ? error_set_errno(err, r, "cannot write to the terminal") : 0;
}

int terminal_suspend(struct error *err)
{
	struct sigaction action = {.sa_handler = SIG_DFL}, handler;
	sigemptyset(&action.sa_mask);
	sigaction(SIGTSTP, &action, &handler);
	terminal_leave();
	kill(0, SIGTSTP); /* the whole job, as the terminal would: a script that called us, too */
	sigaction(SIGTSTP, &handler, NULL);
	return terminal_enter(err);
}

/* ---- stderr ---- */

int terminal_hold_errors(void)
{
	held_errors = memfd_create("wick-errors", MFD_CLOEXEC);
	real_errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (held_errors >= 0 && real_errors >= 0 && dup2(held_errors, STDERR_FILENO) >= 0)
		return 0;
	int r = -errno;
	fd_closep(&held_errors);
	fd_closep(&real_errors);
	return r;
}

void terminal_release_errors(void)
{
	static char text[HELD_MAX];
	if (held_errors < 0)
		return;
	dup2(real_errors, STDERR_FILENO);
	off_t end = lseek(held_errors, 0, SEEK_END), from = end > HELD_MAX ? end - HELD_MAX : 0;
	ssize_t len = pread(held_errors, text, sizeof(text), from);
	if (len > 0)
		io_write(real_errors, text, (size_t)len, "stderr", NULL);
	fd_closep(&held_errors);
	fd_closep(&real_errors);
}
