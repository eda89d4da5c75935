/* SPDX-License-Identifier: Apache-2.0 */
#include "format/firefox/firefox_int.h"

#include "format/test_text.h"

#include "base/time.h"
#include "profile/markers.h"
#include "profile/test_profile.h"

static const struct format *const tested = &format_firefox;

/* ---- one profile in several versions: main calls outer, into which inner is inlined; then an address without a name ---- */

#define META(version, more)                                                                                                    \
	"{\"meta\":{\"interval\":2,\"startTime\":1700000000000.5,\"preprocessedProfileVersion\":" version                      \
	",\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"µs\"},"                                 \
	"\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"                               \
	"{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}]" more "},"
#define LIBS                                                                                                                   \
	"\"libs\":[{\"name\":\"app\",\"path\":\"/bin/app\",\"breakpadId\":\"030201000504070608090A0B0C0D0E0F0\","              \
	"\"codeId\":null},"                                                                                                    \
	"{\"name\":\"vmlinux\",\"path\":\"\",\"breakpadId\":\"\",\"codeId\":\"beef\"}],"
#define STRINGS	  "\"stringArray\":[\"main\",\"outer\",\"inner\",\"0x30\",\"a.c\",\"app\",\"vmlinux\"]"
#define RESOURCES "\"name\":[5,6],\"host\":[null,null],\"type\":[1,1],\"length\":2}"
#define STACKS	  "\"stackTable\":{\"frame\":[0,1,2,3],\"length\":4,"
#define PREFIXES  STACKS "\"prefix\":[null,0,1,2]}"
#define THREAD                                                                                                                 \
	"{\"name\":\"worker\",\"processName\":\"app\",\"pid\":\"17\",\"tid\":18,\"isMainThread\":false,"                       \
	"\"markers\":{\"name\":[0,1],\"length\":2},"                                                                           \
	"\"samples\":{\"length\":3,\"stack\":[2,3,null],\"weight\":null,\"weightType\":\"samples\","                           \
	"\"threadCPUDelta\":[5,null,7],"
#define FRAMES                                                                                                                 \
	"\"frameTable\":{\"length\":4,\"func\":[0,1,2,3],\"address\":[16,32,32,48],\"line\":[3,5,7,null],"                     \
	"\"column\":[null,null,9,null],\"nativeSymbol\":[null,0,0,null],"

static const char version_49[] = META("49", "") LIBS
	"\"threads\":[" THREAD "\"time\":[0.25,2.25,4.5]}," STRINGS "," PREFIXES "," FRAMES
	"\"inlineDepth\":[0,0,1,0],\"category\":[0,null,null,1],\"implementation\":[null,null,null,null]},"
	"\"resourceTable\":{\"lib\":[0,1]," RESOURCES
	",\"funcTable\":{\"length\":4,\"name\":[0,1,2,3],\"isJS\":[false,false,false,false],\"resource\":[0,0,0,1],"
	"\"fileName\":[4,4,null,null],\"lineNumber\":[2,null,null,null]}}]}";

static const char version_60[] = META("60", "") LIBS
	"\"shared\":{" STRINGS ",\"sources\":{\"length\":1,\"uuid\":[null],\"filename\":[4]}," PREFIXES "," FRAMES
	"\"inlineDepth\":[0,0,1,0],\"category\":[0,null,null,1]},"
	"\"resourceTable\":{\"lib\":[0,1]," RESOURCES
	",\"funcTable\":{\"length\":4,\"name\":[0,1,2,3],\"isJS\":[false,false,false,false],\"resource\":[0,0,0,1],"
	"\"source\":[0,0,null,null],\"lineNumber\":[2,null,null,null]}},"
	"\"threads\":[" THREAD "\"timeDeltas\":[0.25,2,2.25]}}]}";

static const char version_75[] = META("75", "") LIBS
	"\"shared\":{" STRINGS ",\"sources\":{\"length\":1,\"id\":[null],\"filename\":[4]}," STACKS
	"\"prefixOffset\":[0,1,1,1]},"
	"\"frameTable\":{\"length\":4,\"func\":[0,1,2,3],\"address\":[16,32,32,48],\"lib\":[0,0,0,1],\"line\":[3,5,7,0],"
	"\"column\":[0,0,9,0],\"nativeSymbol\":[0,0,0,0],\"category\":[0,0,0,1],\"flags\":[22,26,59,6]},"
	"\"resourceTable\":{" RESOURCES
	",\"funcTable\":{\"length\":4,\"name\":[0,1,2,3],\"flags\":[28,12,4,4],\"resource\":[0,0,0,1],"
	"\"source\":[0,0,0,0],\"lineNumber\":[2,0,0,0]}},"
	"\"threads\":[" THREAD "\"timeDeltas\":[0.25,2,2.25]}}]}";

static void check_location(const struct profile *profile, uint32_t stack, const char *mapping, uint64_t offset, uint32_t type,
			   const char *lines)
{
	uint32_t id = profile->stacks[stack].location;
	const struct profile_location *location = &profile->locations[id];
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct profile_line *line = &profile->lines[location->line_first + i];
		const struct profile_function *function = &profile->functions[line->function];
		buffer_printf(&text, "%s|%s:%lld %lld:%lld;", profile_string(profile, function->name),
			      profile_string(profile, function->file_name), (long long)function->start_line,
			      (long long)line->line, (long long)line->column);
	}
	assert_string_equal(text.len ? buffer_string(&text) : "", lines);
	assert_string_equal(profile_string(profile, profile->mappings[location->mapping].file_name), mapping);
	assert_int_equal(profile_location_file_offset(profile, id), offset);
	assert_int_equal(location->frame_type, type);
	buffer_release(&text);
}

static void check_version(const char *text)
{
	struct profile *profile = read_text(text);
	assert_int_equal(profile->sample_type_count, 2);
	assert_string_equal(profile_string(profile, profile->sample_types[0].type), "samples");
	assert_string_equal(profile_string(profile, profile->sample_types[1].type), "cpu");
	assert_string_equal(profile_string(profile, profile->sample_types[1].unit), "nanoseconds");
	assert_int_equal(profile->sample_count, 3);
	assert_int_equal(profile->period, 2000000);
	static const int64_t times[] = {1700000000000750000, 1700000000002750000, 1700000000005000000},
			     values[] = {1, 5000, 1, 0, 1, 7000};
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile->samples[i].time_ns, times[i]);
	assert_memory_equal(profile->values, values, sizeof(values));
	const struct profile_sample *sample = &profile->samples[0];
	assert_string_equal(profile_label_value(profile, sample->labels, "thread.name"), "worker");
	assert_string_equal(profile_label_value(profile, sample->labels, "process.executable.name"), "app");
	assert_int_equal(profile->label_sets[sample->labels].count, 4);
	/* Inner and outer are one location, and no stack ends between them. */
	assert_int_equal(profile->stack_count, 4);
	uint32_t inner = sample->stack, unnamed = profile->samples[1].stack;
	check_location(profile, inner, "/bin/app", 32, PROFILE_FRAME_NATIVE, "inner|:0 7:9;outer|a.c:0 5:0;");
	check_location(profile, profile->stacks[inner].parent, "/bin/app", 16, PROFILE_FRAME_NATIVE, "main|a.c:2 3:0;");
	check_location(profile, unnamed, "vmlinux", 48, PROFILE_FRAME_KERNEL, "");
	assert_int_equal(profile->stacks[unnamed].parent, inner);
	assert_int_equal(profile->samples[2].stack, 0);
	assert_string_equal(profile_string(profile, profile->mappings[1].build_id), "000102030405060708090a0b0c0d0e0f");
	assert_string_equal(profile_string(profile, profile->mappings[2].build_id), "beef");
	assert_string_equal(buffer_string(&notes), "2 markers without a time\n");
	profile_free(profile);
}

/* From 41 on, nothing changed in what is read, but that pids were numbers until 47. */
static void test_old_versions(void **state)
{
	static const char member[] = "\"preprocessedProfileVersion\":49";
	for (int version = 41; version < 49; version++) {
		struct buffer text = {.max = MIB};
		const char *at = strstr(version_49, member);
		assert_non_null(at);
		buffer_append(&text, version_49, (size_t)(at - version_49));
		buffer_printf(&text, "\"preprocessedProfileVersion\":%d", version);
		buffer_append_string(&text, at + strlen(member));
		const char *whole = buffer_string(&text);
		char *pid = strstr(whole, "\"pid\":\"");
		if (version < 47 && pid) {
			pid[6] = ' ';
			*strchr(pid + 7, '"') = ' ';
		}
		check_version(whole);
		buffer_release(&text);
	}
}

static void test_versions(void **state)
{
	check_version(version_49);
	check_version(version_60);
	check_version(version_75);
}

/* ---- refused ---- */

/* version_60 with one piece replaced. */
static struct buffer changed(const char *from, const char *to)
{
	const char *at = strstr(version_60, from);
	struct buffer text;
	assert_non_null(at);
	buffer_init(&text, SIZE_MAX);
	buffer_append(&text, version_60, (size_t)(at - version_60));
	buffer_append_string(&text, to);
	buffer_append_string(&text, at + strlen(from));
	return text;
}

static void refuse_changed(const char *from, const char *to, const char *expected_message)
{
	struct buffer text = changed(from, to);
	refuse(buffer_string(&text), expected_message);
	buffer_release(&text);
}

/* A reference to what is not there loses just that, and is reported; all values are kept. */
static void check_dangling(const char *from, const char *to)
{
	struct buffer text = changed(from, to);
	struct profile *whole = read_text(version_60), *profile = read_text(buffer_string(&text));
	assert_int_equal(profile->sample_count, whole->sample_count);
	for (size_t i = 0; i < whole->sample_type_count; i++)
		assert_int_equal(profile_total(profile, i), profile_total(whole, i));
	if (!strstr(buffer_string(&notes), "1 references to missing rows of tables\n"))
		fail_msg("%s: \"%s\"", to, buffer_string(&notes));
	profile_free(profile);
	profile_free(whole);
	buffer_release(&text);
}

static void test_dangling(void **state)
{
	check_dangling("\"prefix\":[null,0,1,2]", "\"prefix\":[null,0,2,2]");
	check_dangling("\"prefix\":[null,0,1,2]", "\"prefix\":[null,0,-1,2]");
	check_dangling("\"frame\":[0,1,2,3]", "\"frame\":[0,1,2,4]");
	check_dangling("\"func\":[0,1,2,3]", "\"func\":[0,1,2,9]");
	check_dangling("\"resource\":[0,0,0,1]", "\"resource\":[0,0,0,2]");
	check_dangling("\"lib\":[0,1]", "\"lib\":[0,7]");
	check_dangling("\"source\":[0,0,null,null]", "\"source\":[0,1,null,null]");
	check_dangling("\"name\":[0,1,2,3]", "\"name\":[0,1,2,7]");
	check_dangling("\"stack\":[2,3,null]", "\"stack\":[2,4,null]");
}

/* Columns are looked for by name. */
static void test_many_columns(void **state)
{
	static const char *const tables[] = {"\"frameTable\":{", "\"sources\":{", "\"resourceTable\":{", "\"samples\":{"};
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct buffer text;
		buffer_init(&text, MIB);
		buffer_append_string(&text, tables[i]);
		for (int column = 0; column < 257; column++)
			buffer_printf(&text, "\"c%d\":0,", column);
		refuse_changed(tables[i], buffer_string(&text), "columns, more than 256");
		buffer_release(&text);
	}
}

static void test_refused(void **state)
{
	refuse("[]", "no object meta");
	refuse("{\"meta\":{\"version\":30}}", "not a processed profile");
	refuse("{\"meta\":{\"preprocessedProfileVersion\":40}}",
	       "version 40 of the processed format is not supported; 41 to 75");
	refuse("{\"meta\":{\"preprocessedProfileVersion\":76}}", "version 76");
	refuse("{\"meta\":{\"preprocessedProfileVersion\":60}}", "no array threads");
	refuse_changed("\"length\":3,\"stack\"", "\"length\":4,\"stack\"", "samples declares 4 rows and has 3");
	refuse_changed("\"frame\":[0,1,2,3],\"length\":4", "\"frame\":[0,1,2,3],\"length\":-1", "stackTable declares -1 rows");
	refuse_changed("\"weight\":null", "\"weight\":[1e300]", "sample 0: weight is out of range");
	refuse_changed("\"timeDeltas\":[0.25", "\"timeDeltas\":[1e300", "sample 0: time is out of range");
	refuse_changed("\"stackTable\":{", "\"stack\":{", "stackTable has no column frame");
}

/* A stack deeper than any may be, and one of nothing but inlined calls. */
static void test_deep(void **state)
{
	for (size_t rows = LIMIT_STACK_DEPTH; rows <= LIMIT_STACK_DEPTH + 1; rows++) {
		struct buffer text;
		struct profile *profile;
		struct error err = {0};
		buffer_init(&text, SIZE_MAX);
		buffer_append_string(&text, META("60", "") "\"shared\":{\"stringArray\":[\"f\"],\"frameTable\":{\"func\":[0],"
							   "\"inlineDepth\":[1]},\"funcTable\":{\"name\":[0]},"
							   "\"stackTable\":{\"frame\":[0");
		for (size_t i = 1; i < rows; i++)
			buffer_append_string(&text, ",0");
		buffer_append_string(&text, "],\"prefix\":[null");
		for (size_t i = 1; i < rows; i++)
			buffer_printf(&text, ",%zu", i - 1);
		buffer_printf(&text, "]}},\"threads\":[{\"samples\":{\"stack\":[%zu],\"time\":[0]}}]}", rows - 1);
		int r = decode(buffer_string(&text), &profile, &err);
		assert_int_equal(r, rows <= LIMIT_STACK_DEPTH ? 0 : -E2BIG);
		if (r == 0)
			assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), LIMIT_STACK_DEPTH / 128);
		profile_free(profile);
		buffer_release(&text);
	}
}

/* ---- writing ---- */

static char *dump(const struct profile *profile)
{
	struct buffer out = encode_or_fail(&format_folded, profile);
	char *text = strdup(out.len ? buffer_string(&out) : "");
	buffer_release(&out);
	return text;
}

static void test_round_trip(void **state)
{
	struct profile *first = read_text(version_60);
	char *want = dump(first);
	for (unsigned version = FIREFOX_WRITE_FIRST; version <= FIREFOX_LAST; version++) {
		struct format_options options = {.version = version};
		struct buffer out;
		buffer_init(&out, SIZE_MAX);
		assert_int_equal(format_encode(&format_firefox, first, &options, &out, NULL), 0);
		struct profile *again = decode_or_fail(NULL, buffer_bytes(&out), "again");
		char *got = dump(again);
		assert_string_equal(got, want);
		assert_int_equal(again->sample_type_count, 2);
		assert_int_equal(again->sample_count, first->sample_count);
		for (size_t i = 0; i < first->sample_count; i++)
			assert_int_equal(again->samples[i].time_ns, first->samples[i].time_ns);
		assert_memory_equal(again->values, first->values, first->sample_count * 2 * sizeof(int64_t));
		check_location(again, again->samples[0].stack, "/bin/app", 32, PROFILE_FRAME_NATIVE,
			       "inner|:0 7:9;outer|a.c:0 5:0;");
		assert_string_equal(profile_string(again, again->mappings[1].build_id), "000102030405060708090a0b0c0d0e0f");
		free(got);
		profile_free(again);
		buffer_release(&out);
	}
	struct format_options options = {.version = FIREFOX_WRITE_FIRST - 1};
	struct buffer out;
	struct error err = {0};
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(format_encode(&format_firefox, first, &options, &out, &err), -EINVAL);
	assert_int_equal(out.len, 0);
	free(want);
	profile_free(first);
}

/* ---- markers and counters ---- */

#define START_NS 1700000000000000000ll

static uint32_t text(struct profile *profile, const char *name)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, name, &id, NULL), 0);
	return id;
}

static uint32_t thread(struct profile *profile, int64_t tid, int64_t start_ns, const char *name)
{
	uint32_t id;
	struct profile_thread added = {
		.pid = 17, .tid = tid, .start_ns = start_ns, .name = text(profile, name), .process = text(profile, "app")};
	assert_int_equal(profile_add_thread(profile, &added, &id, NULL), 0);
	return id;
}

/* A span with a field of each kind, an instant, both ends of something; fields of awkward names; two schemas of one name. */
static void add_markers(struct profile *profile, uint32_t of, uint32_t other)
{
	static const char *const keys[] = {"a", "type", "a", "share", "took", "", "flow"};
	static const enum profile_field_format kinds[] = {
		PROFILE_FIELD_STRING,	PROFILE_FIELD_INTEGER, PROFILE_FIELD_BYTES, PROFILE_FIELD_PERCENTAGE,
		PROFILE_FIELD_DURATION, PROFILE_FIELD_DECIMAL, PROFILE_FIELD_TID};
	struct profile_marker_field fields[7];
	struct profile_marker_value values[7] = {{.kind = PROFILE_VALUE_STRING, .string = text(profile, "peer")}};
	uint32_t schemas[2], categories[2];
	for (size_t i = 0; i < 7; i++)
		fields[i] = (struct profile_marker_field){text(profile, keys[i]), text(profile, "label"), kinds[i]};
	for (int i = 1; i < 7; i++)
		values[i] = (struct profile_marker_value){.kind = PROFILE_VALUE_NUMBER, .number = i * 1000};
	values[3] = (struct profile_marker_value){.kind = PROFILE_VALUE_REAL, .real = 0.5};
	values[6] = (struct profile_marker_value){0};
	struct profile_marker_schema schema = {.name = text(profile, "step"), .table_label = text(profile, "{marker.data.a}")};
	assert_int_equal(profile_add_marker_schema(profile, &schema, fields, 7, &schemas[0], NULL), 0);
	assert_int_equal(profile_add_marker_schema(profile, &schema, fields, 1, &schemas[1], NULL), 0);
	assert_int_equal(
		profile_add_marker_category(profile, text(profile, "Engine"), text(profile, "red"), &categories[0], NULL), 0);
	assert_int_equal(profile_add_marker_category(profile, text(profile, "User"), 0, &categories[1], NULL), 0);
	for (int phase = 0; phase < PROFILE_MARKER_PHASES; phase++) {
		struct profile_marker marker = {.thread = phase == 3 ? other : of,
						.schema = schemas[phase == 2],
						.name = text(profile, "the step"),
						.category = phase == 1 ? categories[1] : categories[0],
						.phase = (enum profile_marker_phase)phase,
						.flow = phase == 1 ? 0xfedcba9876543210ull : 0,
						.flow_ends = phase == 1,
						.of_process = phase == 1,
						.start_ns = phase == 3 ? 0 : START_NS + 1000001 * phase,
						.end_ns = phase & 1 ? START_NS + 5000007 : 0};
		assert_int_equal(profile_add_marker(profile, &marker, values, NULL), 0);
	}
}

static void add_counters(struct profile *profile, uint32_t of)
{
	for (int kind = 0; kind < 3; kind++) {
		struct profile_counter counter = {.name = text(profile, kind ? "use" : "RSS"),
						  .category = text(profile, "Memory"),
						  .unit = text(profile, kind == 2 ? "percent" : "bytes"),
						  .color = text(profile, "green"),
						  .kind = (enum profile_counter_kind)kind,
						  .pid = 17,
						  .thread = kind == 2 ? of : 0};
		uint32_t id;
		assert_int_equal(profile_add_counter(profile, &counter, &id, NULL), 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(
				profile_add_counter_row(profile, id, START_NS + i * 2000000, i == 1 ? 0.5 : 0.25, NULL), 0);
	}
}

static void check_markers(const struct profile *got, const struct profile *want)
{
	const struct profile_markers *a = got->markers, *b = want->markers;
	assert_int_equal(a->marker_count, b->marker_count);
	for (size_t i = 0; i < a->marker_count; i++) {
		const struct profile_marker *x = &a->markers[i], *y = NULL;
		for (size_t k = 0; k < b->marker_count; k++)
			if (b->markers[k].phase == x->phase)
				y = &b->markers[k];
		assert_int_equal(x->start_ns, y->start_ns);
		assert_int_equal(x->end_ns, y->end_ns);
		assert_true(x->flow == y->flow && x->flow_ends == y->flow_ends && x->of_process == y->of_process);
		assert_string_equal(profile_string(got, x->name), "the step");
		assert_string_equal(profile_string(got, a->categories[x->category].name),
				    profile_string(want, b->categories[y->category].name));
		assert_int_equal(a->threads[x->thread].tid, b->threads[y->thread].tid);
		assert_int_equal(a->threads[x->thread].start_ns, b->threads[y->thread].start_ns);
		assert_string_equal(profile_string(got, a->threads[x->thread].name),
				    profile_string(want, b->threads[y->thread].name));
		assert_int_equal(a->schemas[x->schema].field_count, b->schemas[y->schema].field_count);
		for (size_t k = 0; k < a->schemas[x->schema].field_count; k++) {
			const struct profile_marker_value *v = &a->values[x->value_first + k],
							  *w = &b->values[y->value_first + k];
			assert_int_equal(v->kind, w->kind);
			assert_int_equal(a->fields[a->schemas[x->schema].field_first + k].format,
					 b->fields[b->schemas[y->schema].field_first + k].format);
			if (v->kind == PROFILE_VALUE_STRING)
				assert_string_equal(profile_string(got, v->string), profile_string(want, w->string));
			else if (v->kind)
				assert_int_equal(v->number, w->number);
		}
	}
	assert_int_equal(a->counter_count, b->counter_count);
	assert_int_equal(a->row_count, b->row_count);
	for (size_t i = 1; i < a->counter_count; i++) {
		assert_int_equal(a->counters[i].kind, b->counters[i].kind);
		assert_int_equal(a->counters[i].thread != 0, b->counters[i].thread != 0);
		assert_string_equal(profile_string(got, a->counters[i].color), "green");
	}
	for (size_t i = 0; i < a->row_count; i++) {
		assert_int_equal(a->rows[i].time_ns, b->rows[i].time_ns);
		/* A share is of the time since the row before: the first has none. */
		bool is_first_share = i % 3 == 0 && a->counters[a->rows[i].counter].kind == PROFILE_COUNTER_SHARE;
		assert_true(a->rows[i].value == (is_first_share ? 0 : b->rows[i].value));
	}
}

/* Labels of the whole profile come back from meta.extra, those of samples have no place. */
static void test_resource_labels(void **state)
{
	(void)state;
	struct profile *profile = read_text(version_60), *back;
	struct buffer out;
	struct profile_label whole = {.key = test_string(profile, "os.version"), .value = test_string(profile, "6.1.0")},
			     own = {.key = test_string(profile, "color"), .value = test_string(profile, "red")};
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(profile_add_label_set(profile, &whole, 1, &profile->resource_labels, NULL), 0);
	assert_int_equal(profile_add_label_set(profile, &own, 1, &profile->samples[0].labels, NULL), 0);
	assert_int_equal(format_losses(&format_firefox, profile, &out), 0);
	assert_non_null(strstr(buffer_string(&out), "the labels color"));
	assert_null(strstr(buffer_string(&out), "os.version"));
	buffer_clear(&out);
	/* The same one of a single sample is another matter. */
	assert_int_equal(
		profile_add_label_set(profile, (struct profile_label[]){own, whole}, 2, &profile->samples[0].labels, NULL), 0);
	assert_int_equal(format_losses(&format_firefox, profile, &out), 0);
	assert_non_null(strstr(buffer_string(&out), "os.version"));
	buffer_clear(&out);
	assert_int_equal(format_encode(&format_firefox, profile, NULL, &out, NULL), 0);
	back = read_text(buffer_string(&out));
	assert_string_equal(profile_label_value(back, back->resource_labels, "os.version"), "6.1.0");
	buffer_release(&out);
	profile_free(back);
	profile_free(profile);
}

/* A thread that ended, and another one that got its tid: two of them, each with its samples and markers. */
static void test_markers(void **state)
{
	for (unsigned version = FIREFOX_WRITE_FIRST; version <= FIREFOX_LAST; version += 15) {
		struct profile *profile = read_text(version_60), *back;
		struct buffer out;
		add_markers(profile, thread(profile, 18, START_NS - 5, "a worker with a long name"),
			    thread(profile, 18, START_NS + 3000000, "the next"));
		add_counters(profile, 1);
		profile->time_ns = START_NS - 1000000;
		buffer_init(&out, SIZE_MAX);
		assert_int_equal(format_losses(&format_firefox, profile, &out), 0);
		assert_null(strstr(buffer_string(&out), "markers"));
		assert_int_equal(format_losses(&format_pprof, profile, &out), 0);
		assert_non_null(strstr(buffer_string(&out), "4 markers; 3 counters"));
		buffer_clear(&out);
		struct format_options options = {.version = version};
		assert_int_equal(format_encode(&format_firefox, profile, &options, &out, NULL), 0);
		assert_non_null(strstr(buffer_string(&out), "\"tid\":\"18.1\""));
		back = read_text(buffer_string(&out));
		check_markers(back, profile);
		/* Samples of the second begin when it does: one of three. */
		struct sample_threads threads;
		assert_int_equal(sample_threads_build(profile, &threads, NULL), 0);
		assert_int_equal(sample_threads_add_markers(profile, &threads, NULL), 0);
		assert_int_equal(threads.count, 3);
		assert_int_equal(threads.items[0].tid, 17);
		assert_true(threads.items[1].count == 2 && threads.items[1].marker_count == 3);
		assert_true(threads.items[2].count == 1 && threads.items[2].marker_count == 1 && threads.items[2].reuse == 1);
		sample_threads_release(&threads);
		buffer_release(&out);
		profile_free(back);
		profile_free(profile);
	}
}

/* ---- hosts ---- */

/* The same pid and tid on two hosts, each with a sample, a marker and a counter. */
static struct profile *of_two_hosts(void)
{
	static const char *const names[] = {"alpha", "fe80::1"}, *const processes[] = {"app", "other"};
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, text(profile, "cpu"), text(profile, "nanoseconds"), NULL), 0);
	for (int i = 0; i < 2; i++) {
		struct profile_host host = {.name = text(profile, names[i])};
		if (i)
			host = (struct profile_host){.name = host.name,
						     .reference = text(profile, names[0]),
						     .method = text(profile, "flows"),
						     .at_ns = START_NS + 123456789,
						     .offset_ns = 5000250000,
						     .skew = 5e-5 / 3,
						     .bound_ns = 101234,
						     .exchanges = 10000,
						     .is_aligned = true};
		struct profile_thread added = {.pid = 7, .tid = 8, .process = text(profile, processes[i])};
		struct profile_label labels[] = {{.key = text(profile, "host.name"), .value = host.name},
						 {.key = text(profile, "process.executable.name"), .value = added.process},
						 {.key = text(profile, "process.pid"), .number = 7},
						 {.key = text(profile, "thread.id"), .number = 8}};
		struct profile_sample sample = {.time_ns = START_NS + i};
		struct profile_counter counter = {.name = text(profile, "RSS"), .category = text(profile, "Memory"), .pid = 7};
		uint32_t id;
		assert_int_equal(profile_add_host(profile, &host, &added.host, NULL), 0);
		assert_int_equal(profile_add_thread(profile, &added, &id, NULL), 0);
		counter.host = added.host;
		struct profile_marker marker = {.thread = id, .name = host.name, .start_ns = START_NS + i};
		assert_int_equal(profile_add_marker(profile, &marker, NULL, NULL), 0);
		assert_int_equal(profile_add_counter(profile, &counter, &id, NULL), 0);
		assert_int_equal(profile_add_counter_row(profile, id, START_NS, i, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, labels, 4, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){1000000 + i}, NULL), 0);
	}
	return profile;
}

static void assert_same_host(const struct profile *a, uint32_t of_a, const struct profile *b, uint32_t of_b)
{
	const struct profile_host *x = &a->markers->hosts[of_a], *y = &b->markers->hosts[of_b];
	assert_string_equal(profile_string(a, x->name), profile_string(b, y->name));
	assert_string_equal(profile_string(a, x->reference), profile_string(b, y->reference));
	assert_string_equal(profile_string(a, x->method), profile_string(b, y->method));
	assert_true(x->at_ns == y->at_ns && x->offset_ns == y->offset_ns && x->skew == y->skew && x->bound_ns == y->bound_ns &&
		    x->exchanges == y->exchanges && x->is_aligned == y->is_aligned);
}

static void test_hosts(void **state)
{
	for (unsigned version = FIREFOX_WRITE_FIRST; version <= FIREFOX_LAST; version += 15) {
		struct profile *profile = of_two_hosts(), *back;
		struct format_options options = {.version = version};
		struct buffer out;
		buffer_init(&out, SIZE_MAX);
		assert_int_equal(format_encode(&format_firefox, profile, &options, &out, NULL), 0);
		const char *json = buffer_string(&out);
		assert_non_null(strstr(json, "\"pid\":\"alpha:7\",\"tid\":\"alpha:8\""));
		assert_non_null(strstr(json, "\"pid\":\"fe80::1:7\",\"tid\":\"fe80::1:8\""));
		assert_non_null(strstr(json, "\"processName\":\"other (fe80::1)\""));
		assert_non_null(strstr(json, "\"product\":\"alpha, fe80::1\""));
		assert_non_null(strstr(json,
				       "5.000250 s ahead of alpha, running 16.67 ppm fast, accurate to 0.000101 s, by flows "
				       "(10,000 messages); corrected"));
		back = read_text(json);
		assert_int_equal(profile_host_count(back), 2);
		assert_int_equal(back->sample_count, 2);
		assert_int_equal(profile_marker_count(back), 2);
		assert_int_equal(profile_counter_count(back), 2);
		for (uint32_t i = 0; i < 2; i++) {
			char *a = dump(back), *b = dump(profile);
			assert_string_equal(a, b);
			free(a);
			free(b);
			const struct profile_markers *x = back->markers, *y = profile->markers;
			assert_same_host(back, i + 1, profile, i + 1);
			assert_int_equal(x->threads[x->markers[i].thread].pid, 7);
			assert_int_equal(x->threads[x->markers[i].thread].tid, 8);
			assert_same_host(back, x->threads[x->markers[i].thread].host, profile, i + 1);
			assert_same_host(back, x->counters[i + 1].host, profile, i + 1);
			assert_string_equal(profile_string(back, x->threads[x->markers[i].thread].process),
					    profile_string(profile, y->threads[y->markers[i].thread].process));
		}
		check_damaged(&format_firefox, buffer_bytes(&out));
		check_no_memory(&format_firefox, buffer_bytes(&out));
		buffer_release(&out);
		profile_free(back);
		profile_free(profile);
	}
}

/* One host stays out of the ids, and is known again. */
static void test_one_host(void **state)
{
	struct profile *profile = read_text(version_60), *back;
	struct profile_host host = {.name = text(profile, "alpha")};
	struct profile_thread added = {.pid = 17, .tid = 18};
	uint32_t id;
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(profile_add_host(profile, &host, &added.host, NULL), 0);
	assert_int_equal(profile_add_thread(profile, &added, &id, NULL), 0);
	struct profile_marker marker = {.thread = id, .start_ns = START_NS};
	assert_int_equal(profile_add_marker(profile, &marker, NULL, NULL), 0);
	assert_int_equal(format_encode(&format_firefox, profile, NULL, &out, NULL), 0);
	assert_null(strstr(buffer_string(&out), "alpha:"));
	assert_null(strstr(buffer_string(&out), "Clocks of hosts"));
	back = read_text(buffer_string(&out));
	const struct profile_markers *markers = back->markers;
	assert_string_equal(profile_string(back, markers->hosts[markers->threads[markers->markers[0].thread].host].name),
			    "alpha");
	buffer_release(&out);
	profile_free(back);
	profile_free(profile);
}

static int count_flush(void *context, struct bytes bytes, struct error *err)
{
	(void)err;
	size_t *flushed = context;
	assert_true(bytes.len < 2 * (size_t)FORMAT_SINK_BYTES);
	*flushed += bytes.len;
	return *flushed > 8 * (size_t)MIB ? -ENOSPC : 0;
}

/* What is written does not wait in memory, and a full disk ends it. */
static void test_sink(void **state)
{
	struct profile *profile = read_text(version_60);
	struct buffer out;
	size_t flushed = 0;
	int64_t values[2] = {1, 1};
	buffer_init(&out, SIZE_MAX);
	for (size_t i = 0; i < 400000; i++) {
		struct profile_sample sample = profile->samples[i % 2];
		sample.time_ns += (int64_t)i;
		assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	struct format_sink sink = {.out = &out, .flush = count_flush, .context = &flushed};
	assert_int_equal(format_write(&format_firefox, profile, NULL, &sink, NULL), 0);
	assert_true(flushed > 4 * (size_t)MIB);
	assert_true(out.capacity < 4 * (size_t)MIB);
	assert_int_equal(format_write(&format_firefox, profile, NULL, &sink, NULL), -ENOSPC);
	buffer_release(&out);
	profile_free(profile);
}

static int fail_first_flush(void *context, struct bytes bytes, struct error *err)
{
	size_t *count = context;
	(void)bytes;
	return (*count)++ == 0 ? error_set(err, -ENOSPC, "full") : 0;
}

/* What could not be written is not forgotten when the next thread begins, whose name is put together. */
static void test_sink_failure(void **state)
{
	struct profile *profile = read_text(version_60);
	struct buffer out;
	size_t count = 0;
	int64_t values[2] = {1, 1};
	buffer_init(&out, SIZE_MAX);
	for (int64_t thread = 0; thread < 8; thread++) {
		struct profile_label labels[2] = {{.number = 77}, {.number = 1000 + thread}};
		struct profile_sample sample = profile->samples[0];
		assert_int_equal(profile_add_cstring(profile, "process.pid", &labels[0].key, NULL), 0);
		assert_int_equal(profile_add_cstring(profile, "thread.id", &labels[1].key, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, labels, 2, &sample.labels, NULL), 0);
		for (size_t i = 0; i < 50000; i++)
			assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	struct format_sink sink = {.out = &out, .flush = fail_first_flush, .context = &count};
	assert_int_equal(format_write(&format_firefox, profile, NULL, &sink, NULL), -ENOSPC);
	buffer_release(&out);
	profile_free(profile);
}

/* A shell that becomes another program is shown by what it became, however early it was sampled; what the kernel calls a task
 * does not take the place of an executable's name. */
static void test_exec(void **state)
{
	static const char *const programs[][2] = {
		{"process.executable.name", "sh"}, {"process.executable.name", "server"}, {"process.comm", "task"}};
	struct profile *profile = read_text(version_60);
	struct profile_sample sample = profile->samples[0];
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		struct profile_label labels[] = {
			{.key = text(profile, "process.pid"), .number = 77},
			{.key = text(profile, "thread.id"), .number = 77},
			{.key = text(profile, programs[i][0]), .value = text(profile, programs[i][1])}};
		assert_int_equal(profile_add_label_set(profile, labels, 3, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1, 1}, NULL), 0);
	}
	assert_int_equal(format_encode(&format_firefox, profile, NULL, &out, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), "\"processName\":\"server\""));
	assert_null(strstr(buffer_string(&out), "\"processName\":\"sh\""));
	assert_null(strstr(buffer_string(&out), "\"processName\":\"task\""));
	buffer_release(&out);
	profile_free(profile);
}

static void check_id(const char *build_id, const char *breakpad_id, const char *back)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(firefox_append_breakpad_id(bytes_of_string(build_id), &out), 0);
	assert_string_equal(out.len ? buffer_string(&out) : "", breakpad_id);
	buffer_clear(&out);
	assert_int_equal(firefox_append_build_id(bytes_of_string(breakpad_id), &out), back ? 0 : -EINVAL);
	if (back)
		assert_string_equal(buffer_string(&out), back);
	buffer_release(&out);
}

static void test_ids(void **state)
{
	/* As dump_syms of Breakpad has it for this build-id. */
	check_id("b5381a457906d279073822a5ceb24c4bfef94ddb", "451A38B5067979D2073822A5CEB24C4B0",
		 "b5381a457906d279073822a5ceb24c4b");
	check_id("abcd", "0000CDAB0000000000000000000000000", "abcd0000000000000000000000000000");
	check_id("go:xyz/1", "", NULL);
	check_id("", "", NULL);
	check_id("00", "000000000000000000000000000000000", NULL);
}

static void test_damaged(void **state)
{
	check_damaged(&format_firefox, bytes_of_string(version_60));
	check_damaged(&format_firefox, bytes_of_string(version_75));
}

static void test_no_memory(void **state)
{
	struct profile *profile = read_text(version_60);
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	check_no_memory(&format_firefox, bytes_of_string(version_60));
	add_markers(profile, thread(profile, 18, START_NS, "worker"), thread(profile, 19, START_NS, "other"));
	add_counters(profile, 1);
	assert_int_equal(format_encode(&format_firefox, profile, NULL, &out, NULL), 0);
	check_no_memory(&format_firefox, buffer_bytes(&out));
	buffer_release(&out);
	profile_free(profile);
}

/* ---- lifetimes ---- */

static void add_lifetime(struct profile *profile, int64_t tid, int64_t start_ms, int64_t end_ms, const char *program)
{
	struct profile_lifetime lifetime = {.pid = 7,
					    .tid = tid,
					    .start_ns = start_ms ? START_NS + start_ms * NS_PER_MS : 0,
					    .end_ns = end_ms ? START_NS + end_ms * NS_PER_MS : 0,
					    .program = text(profile, program),
					    .by_exec = tid == 7};
	uint32_t id;
	assert_int_equal(profile_add_lifetime(profile, &lifetime, &id, NULL), 0);
}

static void add_sample_of(struct profile *profile, int64_t tid, int64_t at_ms, const char *program)
{
	struct profile_label labels[] = {{.key = text(profile, "process.executable.name"), .value = text(profile, program)},
					 {.key = text(profile, "process.pid"), .number = 7},
					 {.key = text(profile, "thread.id"), .number = tid},
					 {.key = text(profile, "thread.name"), .value = text(profile, program)}};
	struct profile_sample sample = {.time_ns = START_NS + at_ms * NS_PER_MS};
	assert_int_equal(profile_add_label_set(profile, labels, 4, &sample.labels, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){1000000}, NULL), 0);
}

/* A shell that was there before runs a program that nobody sampled, and that another one, with a thread; then something has its
 * tid. One name is that of no program. */
static struct profile *of_programs(void)
{
	struct profile *profile;
	uint32_t id;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, text(profile, "cpu"), text(profile, "nanoseconds"), NULL), 0);
	profile->time_ns = START_NS;
	add_lifetime(profile, 7, 0, 20, "sh");
	add_lifetime(profile, 7, 20, 30, "\xff\xfe \"unseen\"");
	add_lifetime(profile, 7, 30, 90, "app");
	add_lifetime(profile, 8, 40, 50, "");
	add_lifetime(profile, 8, 60, 0, "");
	add_sample_of(profile, 7, 10, "sh");
	add_sample_of(profile, 7, 30, "app");
	add_sample_of(profile, 7, 80, "app");
	add_sample_of(profile, 8, 45, "app");
	add_sample_of(profile, 8, 70, "app");
	struct profile_thread worker = {.pid = 7, .tid = 8, .name = text(profile, "a worker with its full name")};
	assert_int_equal(profile_add_thread(profile, &worker, &id, NULL), 0);
	struct profile_marker marker = {.thread = id, .name = text(profile, "step"), .start_ns = START_NS + 61 * NS_PER_MS};
	assert_int_equal(profile_add_marker(profile, &marker, NULL, NULL), 0);
	struct profile_counter counter = {.name = text(profile, "RSS"), .category = text(profile, "Memory"), .pid = 7};
	assert_int_equal(profile_add_counter(profile, &counter, &id, NULL), 0);
	for (int i = 1; i < 8; i++)
		assert_int_equal(profile_add_counter_row(profile, id, START_NS + i * 10 * NS_PER_MS, i, NULL), 0);
	return profile;
}

static const char *const lives_of_programs[] = {
	"\"processName\":\"sh\",\"isMainThread\":true,\"pid\":\"7\",\"tid\":7,\"processStartupTime\":0,"
	"\"processShutdownTime\":20,\"registerTime\":0,\"unregisterTime\":20,",
	"\"isMainThread\":true,\"pid\":\"7.1\",\"tid\":\"7.1\",\"processStartupTime\":20,"
	"\"processShutdownTime\":30,\"registerTime\":20,\"unregisterTime\":30,",
	"\"processName\":\"app\",\"isMainThread\":true,\"pid\":\"7.2\",\"tid\":\"7.2\",\"processStartupTime\":30,"
	"\"processShutdownTime\":90,\"registerTime\":30,\"unregisterTime\":90,",
	"\"name\":\"app\",\"processName\":\"app\",\"isMainThread\":false,\"pid\":\"7.2\",\"tid\":8,"
	"\"processStartupTime\":30,\"processShutdownTime\":90,\"registerTime\":40,\"unregisterTime\":50,",
	"\"name\":\"a worker with its full name\",\"processName\":\"app\",\"isMainThread\":false,\"pid\":\"7.2\","
	"\"tid\":\"8.1\",\"processStartupTime\":30,\"processShutdownTime\":90,\"registerTime\":60,"
	"\"unregisterTime\":90,",
};

static void check_lives(const char *json)
{
	for (size_t i = 0; i < sizeof(lives_of_programs) / sizeof(lives_of_programs[0]); i++)
		if (!strstr(json, lives_of_programs[i]))
			fail_msg("%s is not in %s", lives_of_programs[i], json);
	/* A counter of each: the level, and then its changes. */
	assert_non_null(strstr(json, "\"pid\":\"7\",\"mainThreadIndex\":0,\"samples\":{\"time\":[10],\"count\":[1],"));
	assert_non_null(strstr(json, "\"pid\":\"7.1\",\"mainThreadIndex\":1,\"samples\":{\"time\":[20],\"count\":[2],"));
	assert_non_null(strstr(json, "\"pid\":\"7.2\",\"mainThreadIndex\":2,\"samples\":{\"time\":[30,40,50,60,70],"
				     "\"count\":[3,1,1,1,1],"));
}

static void test_lifetimes(void **state)
{
	struct profile *profile = of_programs();
	for (unsigned version = FIREFOX_WRITE_FIRST; version <= FIREFOX_LAST; version += 15) {
		struct format_options options = {.version = version};
		struct buffer out, again;
		buffer_init(&out, SIZE_MAX);
		buffer_init(&again, SIZE_MAX);
		assert_int_equal(format_losses(&format_firefox, profile, &out), 0);
		assert_int_equal(out.len, 0);
		assert_int_equal(format_encode(&format_firefox, profile, &options, &out, NULL), 0);
		check_lives(buffer_string(&out));
		struct profile *back = read_text(buffer_string(&out));
		assert_int_equal(format_encode(&format_firefox, back, &options, &again, NULL), 0);
		check_lives(buffer_string(&again));
		check_damaged(&format_firefox, buffer_bytes(&out));
		check_no_memory(&format_firefox, buffer_bytes(&out));
		buffer_release(&out);
		buffer_release(&again);
		profile_free(back);
	}
	profile_free(profile);
}

/* A file of somebody else's may have such ids, too: there they are texts. */
static void test_ids_of_others(void **state)
{
	static const char key[] = "\"pid\":\"17\",\"tid\":18,";
	struct buffer in;
	buffer_init(&in, SIZE_MAX);
	const char *at = strstr(version_60, key);
	buffer_append(&in, version_60, (size_t)(at - version_60));
	buffer_append_string(&in, "\"pid\":\"17.1\",\"tid\":\"18.1\",\"registerTime\":1,\"unregisterTime\":2,");
	buffer_append_string(&in, at + strlen(key));
	struct profile *profile = read_text(buffer_string(&in));
	assert_true(!profile->markers || profile->markers->lifetime_count == 1);
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "process.pid"), "17.1");
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "thread.id"), "18.1");
	buffer_release(&in);
	profile_free(profile);
}

/* One process after the other, many threads: none is compared with all. */
static void test_many_lifetimes(void **state)
{
	struct profile *profile;
	struct buffer out;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, text(profile, "cpu"), text(profile, "nanoseconds"), NULL), 0);
	for (int i = 1; i <= 50000; i++)
		add_lifetime(profile, 7, i, i + 1, "app");
	for (int i = 1; i <= 50000; i++)
		add_sample_of(profile, 7 + i, i, "app");
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(format_encode(&format_firefox, profile, NULL, &out, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), "\"pid\":\"7.49999\""));
	buffer_release(&out);
	profile_free(profile);
}

/* What is known of the only machine. */
static void test_machine(void **state)
{
	struct profile *profile = read_text(version_60), *back;
	struct buffer out, again;
	uint32_t id;
	char *longest = malloc(FIREFOX_ARGUMENTS_MAX + 100);
	memset(longest, 'x', FIREFOX_ARGUMENTS_MAX + 99);
	longest[FIREFOX_ARGUMENTS_MAX + 99] = '\0';
	struct profile_host host = {.name = text(profile, "alpha"),
				    .machine = {.program = text(profile, "app"),
						.arguments = text(profile, longest),
						.system = text(profile, "Linux 6.1 x86_64"),
						.cpu_name = text(profile, "A \xff CPU"),
						.logical_cpus = 8,
						.physical_cpus = 4}};
	free(longest);
	buffer_init(&out, SIZE_MAX);
	buffer_init(&again, SIZE_MAX);
	assert_int_equal(profile_add_host(profile, &host, &id, NULL), 0);
	assert_int_equal(format_encode(&format_firefox, profile, NULL, &out, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), "\"product\":\"app\",\"oscpu\":\"Linux 6.1 x86_64\",\"platform\":\"Linux\","
						    "\"CPUName\":\"A \xef\xbf\xbd CPU\",\"logicalCPUs\":8,\"physicalCPUs\":4,"
						    "\"arguments\":\"xxxx"));
	assert_in_range(out.len, FIREFOX_ARGUMENTS_MAX, 2 * FIREFOX_ARGUMENTS_MAX + 8192);
	back = read_text(buffer_string(&out));
	assert_int_equal(format_encode(&format_firefox, back, NULL, &again, NULL), 0);
	assert_non_null(strstr(buffer_string(&again), "\"logicalCPUs\":8,\"physicalCPUs\":4,\"arguments\":\"xxxx"));
	buffer_release(&out);
	buffer_release(&again);
	profile_free(back);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_versions),  cmocka_unit_test(test_versions),
		cmocka_unit_test(test_markers),	      cmocka_unit_test(test_resource_labels),
		cmocka_unit_test(test_dangling),      cmocka_unit_test(test_refused),
		cmocka_unit_test(test_deep),	      cmocka_unit_test(test_many_columns),
		cmocka_unit_test(test_sink_failure),  cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_sink),	      cmocka_unit_test(test_exec),
		cmocka_unit_test(test_ids),	      cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_one_host),      cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_lifetimes),
		cmocka_unit_test(test_ids_of_others), cmocka_unit_test(test_many_lifetimes),
		cmocka_unit_test(test_machine),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
