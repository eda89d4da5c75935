/* SPDX-License-Identifier: Apache-2.0 */
/* JFR recordings against the JDK's own reader: what `jfr print` says of each sample is what is read of it. */
#include "format/format_int.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/time.h"
#include "format/test_format.h"

static char *work;

static const char *const program =
	"import java.util.*;\n"
	"import java.util.concurrent.locks.LockSupport;\n"
	"public class Flight {\n"
	"  static volatile long sink;\n"
	"  static final Object lock = new Object();\n"
	"  static long burn(int n) { long s = 0; for (int i = 0; i < n; i++) s += (long) Math.sqrt(i) * i; return s; }\n"
	"  static void fill() { List<byte[]> l = new ArrayList<>(); for (int i = 0; i < 2000; i++) l.add(new byte[1000 + i * "
	"10]);"
	" sink += l.size(); }\n"
	"  static void guarded() { synchronized (lock) { sink += burn(4000000); } }\n"
	"  public static void main(String[] args) throws Exception {\n"
	"    Thread[] all = new Thread[3];\n"
	"    for (int k = 0; k < 3; k++) (all[k] = new Thread(() -> {\n"
	"      var clock = java.lang.management.ManagementFactory.getThreadMXBean();\n"
	"      while (clock.getCurrentThreadCpuTime() < 300000000L) { fill(); guarded(); }\n"
	"      LockSupport.parkNanos(30000000); }, \"Arbeiter-\\u00e4\\u20ac-\" + k)).start();\n"
	"    Thread.sleep(300);\n"
	"    jdk.jfr.FlightRecorder.getFlightRecorder().takeSnapshot().close(); // ends a chunk\n"
	"    for (Thread t : all) t.join();\n"
	"  }\n"
	"}\n";

/* The JDK's JSON as lines: event, thread, time, value, frames. */
static const char *const script =
	"const all = JSON.parse(require('fs').readFileSync(process.argv[2])).recording.events;\n"
	"const ns = t => { const m = /^(.*?)(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$/.exec(t);\n"
	"  return BigInt(Date.parse(m[1] + m[3])) * 1000000n + BigInt(((m[2] || '.') + '000000000').slice(1, 10)); };\n"
	"const span = d => { const m = /^PT(?:(\\d+)M)?(\\d+)(\\.\\d+)?S$/.exec(d);\n"
	"  return BigInt(m[1] || 0) * 60000000000n + BigInt(m[2]) * 1000000000n + BigInt(((m[3] || '.') + "
	"'000000000').slice(1, 10)); };\n"
	"for (const { type, values: v } of all) {\n"
	"  const t = v.sampledThread || v.eventThread || {};\n"
	"  const amount = type == 'jdk.JavaMonitorEnter' || type == 'jdk.ThreadPark' ? span(v.duration)\n"
	"    : v.weight ?? v.tlabSize ?? v.allocationSize ?? '-';\n"
	"  const frames = v.stackTrace ? v.stackTrace.frames.map(f => `${f.method.type.name.replaceAll('/', "
	"'.')}.${f.method.name}"
	"${f.method.descriptor}:${Math.max(f.lineNumber, 0)} ${f.type == 'Inlined' ? 'i' : f.type == 'JIT compiled' ? 'j' : "
	"f.type == "
	"'Interpreted' ? 'n' : '?'}`) : [];\n"
	"  console.log(`${type} ${t.osThreadId || t.javaThreadId || 0} ${t.javaName || t.osName || '-'} "
	"${amount}|${frames.join('|')}#${ns(v.startTime)}`);\n"
	"}\n";

#define EVENTS                                                                                                                 \
	"jdk.ExecutionSample,jdk.NativeMethodSample,jdk.ObjectAllocationSample,jdk.ObjectAllocationInNewTLAB,"                 \
	"jdk.ObjectAllocationOutsideTLAB,jdk.JavaMonitorEnter,jdk.ThreadPark"

/* For a tool that runs for a second, compilers and collectors of large programs take twice what it does itself. */
#define FOR_SECONDS "-J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC "

static void write_work(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", work, name);
	assert_int_equal(io_write_file(path, text, strlen(text), 0600, NULL), 0);
}

static char *shell(const char *command)
{
	char *line = NULL;
	assert_true(asprintf(&line, "cd %s && %s", work, command) > 0);
	char *out = output_of(line);
	free(line);
	return out;
}

static int make_work(void **state)
{
	char template[] = "/tmp/wick-jfr-XXXXXX";
	work = strdup(mkdtemp(template));
	write_work("Flight.java", program);
	write_work("lines.js", script);
	/* The second has the two kinds of allocations that the profile setting leaves out, and the chunks of both are one
	 * recording. */
	free(shell("cp $(dirname $(dirname $(readlink -f $(command -v java))))/lib/jfr/profile.jfc p.jfc && "
		   "sed 's,<event name=\"jdk.ObjectAllocation\\(In\\|Out\\).*>,&<setting name=\"enabled\">true</setting>"
		   "<setting name=\"stackTrace\">true</setting>,' p.jfc | sed 's,control=\"[a-z-]*\",,' >q.jfc && "
		   "java -XX:StartFlightRecording=filename=a.jfr,settings=profile Flight.java >log 2>&1 && "
		   "java -XX:StartFlightRecording=filename=b.jfr,settings=$PWD/q.jfc Flight.java >>log 2>&1 && cat a.jfr b.jfr "
		   ">both.jfr"));
	return 0;
}

static int remove_work(void **state)
{
	int r = io_remove_tree(work, NULL);
	free(work);
	return r;
}

static struct buffer read_recording(const char *name)
{
	char path[256];
	struct buffer file;
	snprintf(path, sizeof(path), "%s/%s", work, name);
	buffer_init(&file, LIMIT_PROFILE_FILE_BYTES);
	if (io_read_file(path, file.max, &file, NULL) < 0) {
		printf("skipped: no recording could be made with java -XX:StartFlightRecording\n");
		skip();
	}
	return file;
}

/* ---- samples as lines ---- */

static const struct {
	const char *type, *event;
	bool by_period;
} columns[] = {
	{"cpu", "jdk.ExecutionSample", true},
	{"native", "jdk.NativeMethodSample", true},
	{"alloc_sample_bytes", "jdk.ObjectAllocationSample", false},
	{"alloc_in_new_tlab_bytes", "jdk.ObjectAllocationInNewTLAB", false},
	{"alloc_outside_tlab_bytes", "jdk.ObjectAllocationOutsideTLAB", false},
	{"mutex_delay", "jdk.JavaMonitorEnter", false},
	{"block_delay", "jdk.ThreadPark", false},
};

static void append_frames(const struct profile *profile, uint32_t stack, struct buffer *line)
{
	static uint32_t ids[LIMIT_STACK_DEPTH];
	size_t depth = profile_stack_locations(profile, stack, ids, LIMIT_STACK_DEPTH);
	for (size_t f = 0; f < depth; f++) {
		const struct profile_location *location = &profile->locations[ids[f]];
		char type = location->frame_type == PROFILE_FRAME_JIT		? 'j'
			    : location->frame_type == PROFILE_FRAME_INTERPRETED ? 'n'
										: '?';
		for (uint32_t i = 0; i < location->line_count; i++) {
			const struct profile_line *at = &profile->lines[location->line_first + i];
			buffer_printf(line, "%s%s:%" PRId64 " %c", f + i ? "|" : "",
				      profile_string(profile, profile->functions[at->function].system_name), at->line,
				      i + 1 < location->line_count ? 'i' : type);
		}
	}
}

static int64_t thread_id(const struct profile *profile, uint32_t set)
{
	for (uint32_t i = 0; i < profile->label_sets[set].count; i++) {
		const struct profile_label *label = &profile->labels[profile->label_sets[set].first + i];
		if (strcmp(profile_string(profile, label->key), "thread.id") == 0)
			return label->number;
	}
	return 0;
}

static void append_sample(const struct profile *profile, size_t number, struct buffer *line)
{
	const struct profile_sample *sample = &profile->samples[number];
	const int64_t *values = &profile->values[number * profile->sample_type_count];
	size_t found = profile->sample_type_count, known = 0;
	/* A sample has the count of one event, and the value beside it. */
	for (size_t k = 0; k < profile->sample_type_count; k += 2) {
		assert_in_range(values[k], 0, 1);
		assert_true(values[k] == 1 || values[k + 1] == 0);
		if (values[k] == 1) {
			assert_int_equal(found, profile->sample_type_count);
			found = k + 1;
		}
	}
	assert_true(found < profile->sample_type_count);
	const char *type = profile_string(profile, profile->sample_types[found].type);
	while (strcmp(columns[known].type, type) != 0)
		assert_true(++known < sizeof(columns) / sizeof(columns[0]));
	/* Of a thread that ends the recording may not say which it was: the one that ends the virtual machine, say. */
	const char *name = profile_label_value(profile, sample->labels, "thread.name");
	buffer_printf(line, "%s %" PRId64 " %s ", columns[known].event, thread_id(profile, sample->labels), name ? name : "-");
	if (columns[known].by_period)
		buffer_printf(line, "-|");
	else
		buffer_printf(line, "%" PRId64 "|", values[found]);
	append_frames(profile, sample->stack, line);
	buffer_printf(line, "#%" PRId64, sample->time_ns);
}

/* ---- beside the JDK ---- */

#define CHUNKS_MAX 16
struct clocks {
	struct {
		int64_t start_ns, start_ticks, ticks_per_s;
	} chunks[CHUNKS_MAX];
	size_t count;
};

static int64_t big_endian(const uint8_t *at)
{
	uint64_t number = 0;
	for (int i = 0; i < 8; i++)
		number = number << 8 | at[i];
	return (int64_t)number;
}

static struct clocks clocks_of(struct bytes file)
{
	struct clocks clocks = {0};
	for (size_t at = 0; at < file.len; at += (size_t)big_endian(file.data + at + 8)) {
		assert_true(clocks.count < CHUNKS_MAX && file.len - at >= 68);
		clocks.chunks[clocks.count].start_ns = big_endian(file.data + at + 32);
		clocks.chunks[clocks.count].start_ticks = big_endian(file.data + at + 48);
		clocks.chunks[clocks.count++].ticks_per_s = big_endian(file.data + at + 56);
	}
	return clocks;
}

/*
 * The JDK counts the times of a chunk from the first one that has the same metadata, here they count from the chunk itself. A
 * chunk notes its start by two clocks. They are read one after the other, and the one on the wall may be set meanwhile: what
 * lies between two chunks is not the same by both. By how much is in the headers, and may be seconds on a machine that is
 * stopped for a while.
 */
static bool clocks_differ_by(const struct clocks *clocks, int64_t apart)
{
	for (size_t to = 0; to < clocks->count; to++) {
		for (size_t from = 0; from <= to; from++) {
			double ticks = (double)(clocks->chunks[to].start_ticks - clocks->chunks[from].start_ticks);
			int64_t between = (int64_t)(ticks * 1e9 / (double)clocks->chunks[to].ticks_per_s);
			int64_t more = clocks->chunks[from].start_ns + between - clocks->chunks[to].start_ns;
			if (llabs(apart - more) <= NS_PER_MS)
				return true;
		}
	}
	return false;
}

/* Takes the time off a line. */
static int64_t take_time(char *line)
{
	char *at = strrchr(line, '#');
	assert_non_null(at);
	*at = 0;
	return strtoll(at + 1, NULL, 10);
}

/* By event, thread and value, then by time, then by stack: the stack last, since the JDK may lack it. */
static int compare_lines(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	size_t before_x = strcspn(x, "|"), before_y = strcspn(y, "|");
	int order = memcmp(x, y, before_x < before_y ? before_x : before_y);
	if (order == 0)
		order = (before_x > before_y) - (before_x < before_y);
	if (order == 0) {
		long long time_x = strtoll(strrchr(x, '#') + 1, NULL, 10), time_y = strtoll(strrchr(y, '#') + 1, NULL, 10);
		order = (time_x > time_y) - (time_x < time_y);
	}
	return order ? order : strcmp(x, y);
}

static size_t compare_with_jdk(const char *name, const struct profile *profile, const struct clocks *clocks)
{
	char command[512];
	snprintf(command, sizeof(command),
		 "jfr " FOR_SECONDS "print --json --stack-depth 5000 --events " EVENTS " %s >%s.json && node lines.js %s.json",
		 name, name, name);
	char *text = shell(command), *rest = text, *row;
	assert_non_null(text);
	char **theirs = calloc(profile->sample_count + 1, sizeof(*theirs)),
	     **ours = calloc(profile->sample_count + 1, sizeof(*ours));
	size_t count = 0;
	while ((row = strsep(&rest, "\n")) && *row) {
		assert_true(count < profile->sample_count);
		theirs[count++] = row;
	}
	assert_int_equal(count, profile->sample_count);
	struct buffer line;
	buffer_init(&line, SIZE_MAX);
	for (size_t i = 0; i < count; i++) {
		buffer_clear(&line);
		append_sample(profile, i, &line);
		ours[i] = strdup(buffer_string(&line));
	}
	qsort(theirs, count, sizeof(*theirs), compare_lines);
	qsort(ours, count, sizeof(*ours), compare_lines);
	for (size_t i = 0; i < count; i++) {
		int64_t apart = take_time(theirs[i]) - take_time(ours[i]);
		size_t at = 0;
		while (theirs[i][at] && theirs[i][at] == ours[i][at])
			at++;
		size_t from = at > 100 ? at - 100 : 0;
		/* The JDK does not always find a stack that began in the chunk before. */
		bool is_lost = !theirs[i][at] && at > 0 && theirs[i][at - 1] == '|' &&
			       strncmp(theirs[i], "jdk.JavaMonitorEnter", 20) == 0;
		if ((theirs[i][at] || ours[i][at]) && !is_lost)
			fail_msg("sample %zu of %zu, from character %zu:\n  jdk:  %.200s\n  here: %.200s", i, count, from,
				 theirs[i] + from, ours[i] + from);
		if (!clocks_differ_by(clocks, apart))
			fail_msg("sample %zu of %zu: the JDK's time is %" PRId64 " ns later\n  jdk:  %.300s\n  here: %.300s", i,
				 count, apart, theirs[i], ours[i]);
		free(ours[i]);
	}
	buffer_release(&line);
	free(theirs);
	free(ours);
	free(text);
	return count;
}

static size_t check_recording(const char *name)
{
	struct buffer file = read_recording(name);
	uint8_t *copy = exact_copy(buffer_bytes(&file));
	struct profile *profile = decode_or_fail(NULL, (struct bytes){copy, file.len}, name);
	struct clocks clocks = clocks_of(buffer_bytes(&file));
	size_t count = compare_with_jdk(name, profile, &clocks);
	printf("%s: %zu samples of %zu values as the JDK has them\n", name, count, profile->sample_type_count);
	assert_true(count > 50);
	assert_true(profile->period > 0);
	assert_true(clocks.count >= 2);
	profile_free(profile);
	free(copy);
	buffer_release(&file);
	return count;
}

/* The clock on the wall was set forward by ten seconds before the second chunk. */
static void set_forward(const char *from, const char *to)
{
	char path[256];
	struct buffer file = read_recording(from);
	size_t at = (size_t)big_endian(file.data + 8);
	int64_t start_ns = big_endian(file.data + at + 32) + 10 * NS_PER_S;
	for (int i = 0; i < 8; i++)
		file.data[at + 32 + (size_t)i] = (uint8_t)((uint64_t)start_ns >> (56 - 8 * i));
	snprintf(path, sizeof(path), "%s/%s", work, to);
	assert_int_equal(io_write_file(path, file.data, file.len, 0600, NULL), 0);
	buffer_release(&file);
}

static void test_clock_is_set(void **state)
{
	need_program("jfr");
	need_program("node");
	set_forward("a.jfr", "set.jfr");
	check_recording("set.jfr");
}

static void test_recordings(void **state)
{
	need_program("jfr");
	need_program("node");
	size_t count = check_recording("a.jfr") + check_recording("b.jfr");
	/* Of two programs, one after the other; the JDK counts the times of the second from the first. */
	struct buffer file = read_recording("both.jfr");
	struct profile *profile = decode_or_fail(NULL, buffer_bytes(&file), "both.jfr");
	assert_int_equal(profile->sample_count, count);
	profile_free(profile);
	buffer_release(&file);
}

/* ---- refused ---- */

static void try_jfr(struct bytes damaged)
{
	struct profile *profile = NULL;
	if (format_decode(&format_jfr, damaged, NULL, &profile, NULL) == 0)
		profile_free(profile);
}

static void refuse(struct bytes file, size_t at, uint64_t value, size_t len, const char *why)
{
	struct profile *profile = NULL;
	struct error err = {0};
	uint8_t *copy = exact_copy(file);
	for (size_t i = 0; i < len; i++)
		copy[at + i] = (uint8_t)(value >> (8 * (len - 1 - i)));
	assert_int_equal(format_decode(&format_jfr, (struct bytes){copy, file.len}, NULL, &profile, &err), -EBADMSG);
	if (!strstr(err.message, why))
		fail_msg("'%s' instead of '%s'", err.message, why);
	free(copy);
}

static void test_refused(void **state)
{
	struct buffer file = read_recording("a.jfr");
	struct bytes all = buffer_bytes(&file);
	refuse((struct bytes){all.data, 67}, 0, 'F', 1, "no chunk");
	refuse(all, 3, 1, 1, "no chunk");
	refuse(all, 4, 3, 2, "version 3 of the format");
	refuse(all, 8, 0, 8, "is incomplete");
	refuse(all, 8, 67, 8, "a size of 67 bytes");
	refuse(all, 8, file.len + 1, 8, "bytes, but only");
	refuse(all, 8, file.len - 1, 8, "");
	refuse(all, 24, 68, 8, "metadata");
	refuse(all, 24, file.len, 8, "metadata is truncated");
	refuse(all, 56, 0, 8, "no rate");
	refuse(all, 68, 0, 4, "a size of 0 bytes");
	refuse(all, 68, 0xffffff7f, 4, "event at byte 68");
	try_damaged(all, 200, try_jfr);
	buffer_release(&file);
}

/* Recordings made by hand: the same with numbers of both forms, strings of all encodings, and all of it twice. */
static void test_forms(void **state)
{
	static const char *const names[] = {"compressed", "plain", "chunks"};
	struct profile *profiles[3];
	for (size_t i = 0; i < 3; i++) {
		char path[64];
		struct buffer file;
		buffer_init(&file, MIB);
		snprintf(path, sizeof(path), "fuzz/corpus/jfr/%s", names[i]);
		assert_int_equal(io_read_file(path, file.max, &file, NULL), 0);
		profiles[i] = decode_or_fail(NULL, buffer_bytes(&file), names[i]);
		buffer_release(&file);
	}
	assert_profiles_equal(profiles[0], profiles[1]);
	assert_int_equal(profiles[0]->sample_count, 4);
	assert_int_equal(profiles[2]->sample_count, 8);
	assert_int_equal(profile_total(profiles[0], 1), 3 * 20000000);
	assert_int_equal(profile_total(profiles[0], 3), 500);
	assert_int_equal(profiles[0]->samples[0].time_ns, 1000000000000001000);
	char *text = dump_profile(profiles[0]);
	assert_non_null(strstr(text, "a.b.Caf\u00e9.run\U0001f600|a.b.Caf\u00e9.run\U0001f600()V|:0 5:0"));
	assert_non_null(strstr(text, "a.b.Caf\u00e9.from the pool"));
	assert_non_null(strstr(text, "thread.name=virtual"));
	free(text);
	for (size_t i = 0; i < 3; i++)
		profile_free(profiles[i]);
}

/* Little input that means much work: a long constant of many frames, empty arrays before each of their fields, objects that
 * take no bytes. */
static void test_bounded(void **state)
{
	static const char *const names[] = {"long_text_often", "empty_arrays_often", "many_of_nothing"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[64];
		struct buffer file;
		struct profile *profile = NULL;
		buffer_init(&file, MIB);
		snprintf(path, sizeof(path), "fuzz/corpus/jfr/%s", names[i]);
		assert_int_equal(io_read_file(path, file.max, &file, NULL), 0);
		assert_int_equal(format_decode(&format_jfr, buffer_bytes(&file), NULL, &profile, NULL), -EBADMSG);
		buffer_release(&file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_recordings), cmocka_unit_test(test_clock_is_set),
					   cmocka_unit_test(test_forms), cmocka_unit_test(test_bounded),
					   cmocka_unit_test(test_refused)};
	return cmocka_run_group_tests(tests, make_work, remove_work);
}
