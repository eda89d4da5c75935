// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"

/* The log works when memory is short, hence fixed sizes. An escaped byte takes four. */
#define MESSAGE_MAX 2048
#define LINE_SIZE   (MESSAGE_MAX * 4 + 128)

static _Atomic int max_level = LOG_INFO;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char *const level_colours[] = {"\033[31m", "\033[33m", "", ""};

struct line {
	char text[LINE_SIZE];
	size_t len;
};

#define LIMIT_NS (60 * NS_PER_S)

bool log_limit_add(struct log_limit *limit, uint64_t count, uint64_t *ret_count)
{
	int64_t now = time_monotonic_ns();
	int_fast64_t next = atomic_load(&limit->next_ns);
	atomic_fetch_add(&limit->held, count);
	if (now < next || !atomic_compare_exchange_strong(&limit->next_ns, &next, now + LIMIT_NS))
		return false;
	*ret_count = atomic_exchange(&limit->held, 0);
	return true;
}

void log_set_level(enum log_level level)
{
	max_level = level;
}

static void __attribute__((format(printf, 2, 3))) append(struct line *line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int len = vsnprintf(line->text + line->len, sizeof(line->text) - line->len, format, args);
	va_end(args);
	if (len > 0)
		line->len += (size_t)len;
}

static void append_escaped(struct line *line, const char *message)
{
	struct bytes rest = bytes_of_string(message);
	while (rest.len > 0) {
		bool valid;
		size_t len = text_utf8_sequence(rest, &valid);
		/* What could break the line, drive the terminal of whoever reads the log, or turn the text around. */
		if (valid && !text_is_hostile((struct bytes){rest.data, len})) {
			memcpy(line->text + line->len, rest.data, len);
			line->len += len;
		} else if (rest.data[0] == '\n') {
			append(line, "\\n");
		} else if (rest.data[0] == '\t') {
			append(line, "\\t");
		} else {
			for (size_t i = 0; i < len; i++)
				append(line, "\\x%02x", rest.data[i]);
		}
		rest = (struct bytes){rest.data + len, rest.len - len};
	}
}

static bool wants_colour(void)
{
	const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
	return !(no_colour && *no_colour) && terminal && strcmp(terminal, "dumb");
}

static void append_start(struct line *line, enum log_level level)
{
	if (!isatty(STDERR_FILENO)) {
		char now[TIME_TEXT_MAX];
		append(line, "%s %s ", time_format(time_now_ns(), now), level_names[level]);
		return;
	}
	bool colour = wants_colour();
	append(line, "wick: ");
	if (level != LOG_INFO)
		append(line, "%s%s:%s ", colour ? level_colours[level] : "", level_names[level], colour ? "\033[0m" : "");
}

static void write_line(const struct line *line)
{
	size_t done = 0;
	THREAD_LOCK_SCOPE(&lock);
	while (done < line->len) {
		ssize_t n = write(STDERR_FILENO, line->text + done, line->len - done);
		if (n < 0 && errno == EINTR)
			continue;
		/* There is nowhere left to report that the log cannot be written. */
		if (n <= 0)
			break;
		done += (size_t)n;
	}
}

void log_write(enum log_level level, const char *format, ...)
{
	if ((int)level > max_level)
		return;
	int saved_errno = errno;
	char message[MESSAGE_MAX];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (len < 0)
		message[0] = '\0';

	struct line line;
	line.len = 0;
	append_start(&line, level);
	append_escaped(&line, message);
	if (len >= (int)sizeof(message))
		append(&line, "...");
	line.text[line.len++] = '\n';
	write_line(&line);
	errno = saved_errno;
}
