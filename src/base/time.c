// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

#include "base/text.h"

#define QUOTE_MAX 64

/* ---- clocks ---- */

static int64_t read_clock(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t time_now_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

int64_t time_monotonic_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t time_boottime_ns(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

int64_t time_wall_bound_ns(void)
{
	struct timex state = {0};
	int r = adjtimex(&state);
	/* Where nobody ever set it, it says 16 s, or where the call is made up, 0. */
	if (r < 0 || r == TIME_ERROR || (state.status & STA_UNSYNC) || state.maxerror <= 0)
		return -1;
	return state.maxerror * NS_PER_US;
}

int64_t time_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t time_process_cpu_ns(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void time_sleep_ns(int64_t duration_ns)
{
	int64_t end;
	if (duration_ns <= 0)
		return;
	if (__builtin_add_overflow(time_monotonic_ns(), duration_ns, &end))
		end = INT64_MAX;
	/* Until a point in time, not for a time, so that signals do not lengthen it. */
	struct timespec until = {.tv_sec = end / NS_PER_S, .tv_nsec = end % NS_PER_S};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* ---- the calendar ---- */

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar. The year starts in March here, which puts the leap day
 * at the end: howardhinnant.github.io/date_algorithms.html. Not timegm(): it takes 31 February, and reads the time zone under a
 * lock. */
static int64_t days_of_date(int64_t year, unsigned month, unsigned day)
{
	year -= month <= 2;
	int64_t era = (year >= 0 ? year : year - 399) / 400;
	unsigned year_of_era = (unsigned)(year - era * 400);
	unsigned day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
	return era * 146097 + (int64_t)day_of_era - 719468;
}

static void date_of_days(int64_t days, int *ret_year, unsigned *ret_month, unsigned *ret_day)
{
	days += 719468;
	int64_t era = (days >= 0 ? days : days - 146096) / 146097;
	unsigned day_of_era = (unsigned)(days - era * 146097);
	unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	unsigned month_from_march = (5 * day_of_year + 2) / 153;
	*ret_day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
	*ret_month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
	*ret_year = (int)((int64_t)year_of_era + era * 400 + (*ret_month <= 2));
}

static unsigned days_in_month(unsigned year, unsigned month)
{
	static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return days[month - 1] + (month == 2 && leap);
}

/* ---- parsing ---- */

/* Exactly `count` digits. */
static bool scan_digits(const char **at, unsigned count, unsigned *ret)
{
	unsigned value = 0;
	for (unsigned i = 0; i < count; i++) {
		char c = (*at)[i];
		if (c < '0' || c > '9')
			return false;
		value = value * 10 + (unsigned)(c - '0');
	}
	*at += count;
	*ret = value;
	return true;
}

static bool scan_char(const char **at, char c)
{
	if (**at != c)
		return false;
	(*at)++;
	return true;
}

static bool scan_date(const char **at, int64_t *ret_days)
{
	unsigned year, month, day;
	if (!scan_digits(at, 4, &year) || !scan_char(at, '-') || !scan_digits(at, 2, &month) || !scan_char(at, '-') ||
	    !scan_digits(at, 2, &day))
		return false;
	if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
		return false;
	*ret_days = days_of_date(year, month, day);
	return true;
}

/* "HH:MM[:SS[.FRACTION]]"; the second 60 of a leap second counts as the next minute's first. */
static bool scan_time_of_day(const char **at, int64_t *ret_seconds, int64_t *ret_ns)
{
	unsigned hour, minute, second = 0;
	int64_t ns = 0;
	if (!scan_digits(at, 2, &hour) || !scan_char(at, ':') || !scan_digits(at, 2, &minute))
		return false;
	if (scan_char(at, ':')) {
		if (!scan_digits(at, 2, &second))
			return false;
		if (scan_char(at, '.')) {
			int64_t place = NS_PER_S;
			unsigned digit;
			if (!scan_digits(at, 1, &digit))
				return false;
			do {
				place /= 10;
				ns += place * digit;
			} while (scan_digits(at, 1, &digit));
		}
	}
	if (hour > 23 || minute > 59 || second > 60)
		return false;
	*ret_seconds = (int64_t)hour * 3600 + minute * 60 + second;
	*ret_ns = ns;
	return true;
}

/* "Z", "+HH:MM", "-HH:MM" or nothing. */
static bool scan_zone(const char **at, int64_t *ret_seconds)
{
	*ret_seconds = 0;
	if (!**at || scan_char(at, 'Z') || scan_char(at, 'z'))
		return true;
	bool west = **at == '-';
	unsigned hours, minutes;
	if (!west && **at != '+')
		return false;
	(*at)++;
	if (!scan_digits(at, 2, &hours) || !scan_char(at, ':') || !scan_digits(at, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret_seconds = ((int64_t)hours * 3600 + minutes * 60) * (west ? -1 : 1);
	return true;
}

/* seconds * 10^9 + ns for 0 <= ns < 10^9. In 128 bits, since the first second of the range is only half inside it. */
static bool combine(int64_t seconds, int64_t ns, int64_t *ret_ns)
{
	__int128 total = (__int128)seconds * NS_PER_S + ns;
	if (total < INT64_MIN || total > INT64_MAX)
		return false;
	*ret_ns = (int64_t)total;
	return true;
}

static bool parse_calendar(const char *text, int64_t *ret_ns)
{
	int64_t days, seconds = 0, ns = 0, zone = 0;
	const char *at = text;
	if (!scan_date(&at, &days))
		return false;
	if (*at) {
		if (!scan_char(&at, 'T') && !scan_char(&at, 't') && !scan_char(&at, ' '))
			return false;
		if (!scan_time_of_day(&at, &seconds, &ns) || !scan_zone(&at, &zone) || *at)
			return false;
	}
	return combine(days * 86400 + seconds - zone, ns, ret_ns);
}

static bool parse_unix(const char *text, int64_t *ret_ns)
{
	struct decimal number;
	const char *at = text;
	if (!decimal_scan(&at, &number) || *at)
		return false;
	uint64_t unit, ns;
	switch (number.whole_digits) {
	case 10: unit = NS_PER_S; break;
	case 13: unit = NS_PER_MS; break;
	case 16: unit = 1000; break;
	case 19: unit = 1; break;
	default: return false;
	}
	if (number.has_fraction && number.whole_digits != 10)
		return false;
	if (!decimal_scale(number, unit, &ns) || ns > INT64_MAX)
		return false;
	*ret_ns = (int64_t)ns;
	return true;
}

static const struct {
	const char *name;
	int64_t ns;
} duration_units[] = {
	{"w", 7 * 86400 * NS_PER_S},
	{"d", 86400 * NS_PER_S},
	{"h", 3600 * NS_PER_S},
	{"m", 60 * NS_PER_S},
	{"s", NS_PER_S},
	{"ms", NS_PER_MS},
	{"us", 1000},
	{"µs", 1000},
	{"ns", 1},
};

/* Nanoseconds of the unit at *at, 0 if it is none. */
static int64_t scan_duration_unit(const char **at)
{
	size_t len = strcspn(*at, "0123456789");
	for (size_t i = 0; i < sizeof(duration_units) / sizeof(duration_units[0]); i++) {
		const char *name = duration_units[i].name;
		if (strlen(name) == len && !memcmp(*at, name, len)) {
			*at += len;
			return duration_units[i].ns;
		}
	}
	return 0;
}

/* Units must become smaller from left to right, which catches "1m30h" written for "1h30m". */
static bool parse_duration(const char *text, int64_t *ret_ns)
{
	uint64_t total = 0, part;
	int64_t unit_before = INT64_MAX;
	const char *at = text;
	do {
		struct decimal number;
		if (!decimal_scan(&at, &number))
			return false;
		int64_t unit = !*at && unit_before == INT64_MAX ? NS_PER_S : scan_duration_unit(&at);
		if (unit == 0 || unit >= unit_before)
			return false;
		unit_before = unit;
		if (!decimal_scale(number, (uint64_t)unit, &part) || __builtin_add_overflow(total, part, &total))
			return false;
	} while (*at);
	if (total > INT64_MAX)
		return false;
	*ret_ns = (int64_t)total;
	return true;
}

static bool parse_relative(const char *text, int64_t now_ns, int64_t *ret_ns)
{
	bool has_now = text_starts_with(text, "now");
	if (has_now)
		text += strlen("now");
	if (has_now && !*text) {
		*ret_ns = now_ns;
		return true;
	}
	int64_t duration;
	bool forward = has_now && *text == '+';
	if ((*text != '-' && !forward) || !parse_duration(text + 1, &duration))
		return false;
	return !(forward ? __builtin_add_overflow(now_ns, duration, ret_ns) : __builtin_sub_overflow(now_ns, duration, ret_ns));
}

int time_parse(const char *text, int64_t now_ns, int64_t *ret_ns, struct error *err)
{
	int64_t ns;
	if (!parse_relative(text, now_ns, &ns) && !parse_unix(text, &ns) && !parse_calendar(text, &ns))
		return error_set(
			err, -EINVAL,
			"\"%.*s\" is not a time; write now-1h, -15m, 2026-11-21T10:00:00Z, 2026-11-21 10:00 or unix seconds",
			QUOTE_MAX, text);
	*ret_ns = ns;
	return 0;
}

int time_parse_duration(const char *text, int64_t *ret_ns, struct error *err)
{
	int64_t ns;
	if (!parse_duration(text, &ns))
		return error_set(err, -EINVAL, "\"%.*s\" is not a duration; write 250ms, 10s, 1h30m, 2d or a number of seconds",
				 QUOTE_MAX, text);
	*ret_ns = ns;
	return 0;
}

/* ---- printing ---- */

const char *time_format(int64_t ns, char out[static TIME_TEXT_MAX])
{
	int64_t ns_per_day = 86400 * NS_PER_S;
	int64_t days = ns / ns_per_day, rest = ns % ns_per_day;
	if (rest < 0) {
		rest += ns_per_day;
		days--;
	}
	int year;
	unsigned month, day;
	date_of_days(days, &year, &month, &day);
	unsigned ms = (unsigned)(rest / NS_PER_MS);
	snprintf(out, TIME_TEXT_MAX, "%04d-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month, day, ms / 3600000, ms / 60000 % 60,
		 ms / 1000 % 60, ms % 1000);
	return out;
}

/* One decimal where it matters: "1.5 s", "12 us", "340 ms". False when it rounds to `limit` units or more, so that the
 * next larger unit is due. */
static bool format_decimal(uint64_t ns, uint64_t unit, uint64_t limit, const char *sign, const char *name, char *out)
{
	uint64_t tenths = ns / unit * 10 + (ns % unit * 10 + unit / 2) / unit;
	if (tenths >= 1000)
		tenths = (ns / unit + (ns % unit >= unit - unit / 2)) * 10;
	if (tenths >= limit * 10)
		return false;
	unsigned whole = (unsigned)(tenths / 10), tenth = (unsigned)(tenths % 10);
	if (tenth)
		snprintf(out, TIME_TEXT_MAX, "%s%u.%u %s", sign, whole, tenth, name);
	else
		snprintf(out, TIME_TEXT_MAX, "%s%u %s", sign, whole, name);
	return true;
}

/* "2 h 5 min": `seconds` in a large unit and the next smaller one, rounded to it. */
static bool format_pair(uint64_t seconds, uint64_t large, const char *large_name, uint64_t small, const char *small_name,
			uint64_t limit, const char *sign, char *out)
{
	uint64_t smalls = (seconds + small / 2) / small;
	uint64_t per_large = large / small;
	if (smalls / per_large >= limit)
		return false;
	unsigned long long whole = smalls / per_large, rest = smalls % per_large;
	if (rest)
		snprintf(out, TIME_TEXT_MAX, "%s%llu %s %llu %s", sign, whole, large_name, rest, small_name);
	else
		snprintf(out, TIME_TEXT_MAX, "%s%llu %s", sign, whole, large_name);
	return true;
}

const char *time_format_duration(int64_t ns, char out[static TIME_TEXT_MAX])
{
	const char *sign = ns < 0 ? "-" : "";
	uint64_t magnitude = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	if (magnitude < 1000) {
		snprintf(out, TIME_TEXT_MAX, "%s%u ns", sign, (unsigned)magnitude);
		return out;
	}
	uint64_t seconds = magnitude / NS_PER_S + (magnitude % NS_PER_S >= NS_PER_S / 2);
	(void)(format_decimal(magnitude, 1000, 1000, sign, "us", out) ||
	       format_decimal(magnitude, NS_PER_MS, 1000, sign, "ms", out) ||
	       format_decimal(magnitude, NS_PER_S, 60, sign, "s", out) ||
	       format_pair(seconds, 60, "min", 1, "s", 60, sign, out) ||
	       format_pair(seconds, 3600, "h", 60, "min", 24, sign, out) ||
	       format_pair(seconds, 86400, "d", 3600, "h", UINT64_MAX, sign, out));
	return out;
}
