/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.data against perf itself: what `perf script` says of a recording is what is read of it, sample by sample. What is
 * recorded is this program once more, run as "perf_data_test load": so many faults and switches, and so much of its own CPU
 * time, however busy the machine is.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <regex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/alloc.h"
#include "base/time.h"
#include "format/address_map.h"
#include "format/perf/perf_data_int.h"
#include "format/test_format.h"

#define LOAD_NAME     "wick-load"
#define LOAD_CPU_NS   (150 * NS_PER_MS) /* at 999 Hz some 150 samples */
#define LOAD_PAGES    300
#define LOAD_TURNS    60
#define SAMPLES_LEAST 10

static char *work;

static int make_work(void **state)
{
	char template[] = "/tmp/wick-perf-XXXXXX";
	work = strdup(mkdtemp(template));
	return work ? 0 : -1;
}

static int remove_work(void **state)
{
	int r = io_remove_tree(work, NULL);
	free(work);
	return r;
}

/* ---- what is recorded ---- */

static void burn_cpu(clockid_t clock, int64_t ns)
{
	struct timespec now;
	do
		clock_gettime(clock, &now);
	while (now.tv_sec * NS_PER_S + now.tv_nsec < ns);
}

/* Takes turns with the other thread. */
static void take_turns(int in, int out)
{
	char byte = 0;
	for (int i = 0; i < LOAD_TURNS; i++)
		if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
			_exit(1);
}

static void *other_thread(void *context)
{
	const int *ends = context;
	take_turns(ends[0], ends[3]);
	return NULL;
}

/* Burns, faults, switches, forks and execs. */
static int run_load(void)
{
	pthread_t thread;
	int ends[4], status; /* two pipes */
	prctl(PR_SET_NAME, LOAD_NAME);
	char *memory = mmap(NULL, LOAD_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || pipe(ends) < 0 || pipe(ends + 2) < 0)
		return 1;
	madvise(memory, LOAD_PAGES * 4096, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < LOAD_PAGES * 4096; at += 4096)
		memory[at] = 1;
	if (pthread_create(&thread, NULL, other_thread, ends) != 0)
		return 1;
	take_turns(ends[2], ends[1]);
	pthread_join(thread, NULL);
	pid_t pid = fork();
	if (pid == 0) {
		burn_cpu(CLOCK_PROCESS_CPUTIME_ID, LOAD_CPU_NS / 5);
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
		execl("/bin/ls", "ls", "/", (char *)NULL);
		_exit(1);
	}
	burn_cpu(CLOCK_PROCESS_CPUTIME_ID, LOAD_CPU_NS);
	return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

/* ---- recordings ---- */

/*
 * While anybody records with build-ids in mmap events, kernels may say of those of all others that they have one, and what is
 * there is a device and an inode (Linux 6.1 does). perf dies over such an id.
 */
static void take_back_build_ids(const char *name)
{
	char path[256];
	uint8_t header[104], record[8];
	snprintf(path, sizeof(path), "%s/%s", work, name);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	if (pread(fd, header, sizeof(header), 0) == sizeof(header) && header[8] == 104) { /* no pipe */
		uint64_t at, len;
		uint16_t size;
		memcpy(&at, header + 40, 8);
		memcpy(&len, header + 48, 8);
		for (uint64_t end = at + len; at < end && pread(fd, record, 8, (off_t)at) == 8; at += size) {
			memcpy(&size, record + 6, 2);
			assert_true(size >= 8);
			record[5] &= (uint8_t) ~(PERF_MISC_MMAP_BUILD_ID >> 8);
			if (record[0] == PERF_MMAP2)
				assert_int_equal(pwrite(fd, record, 8, (off_t)at), 8);
		}
	}
	close(fd);
}

/* Records into work/NAME; skips the test where that is not possible. */
static void record(const char *name, const char *options)
{
	char command[2048], self[512] = "";
	need_program("perf");
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	/*
	 * Without -B, perf reads all of it again for the build-ids, and may die over them. BPF programs that others run here
	 * are no part of what is recorded.
	 */
	snprintf(command, sizeof(command), "cd %s && perf record -q -B --no-bpf-event %s -- %s load 2>log", work, options,
		 self);
	/* The place of "-- LOAD" is before what goes to the shell. */
	const char *to_shell = strstr(options, " >");
	if (to_shell)
		snprintf(command, sizeof(command), "cd %s && perf record -q -B --no-bpf-event %.*s -- %s load 2>log %s", work,
			 (int)(to_shell - options), options, self, to_shell);
	char *out = output_of(command);
	if (!out) {
		printf("skipped: perf cannot record %s with %s\n", name, options);
		skip();
	}
	free(out);
	if (!strstr(options, "--buildid-mmap"))
		take_back_build_ids(name);
}

static struct buffer read_work(const char *name)
{
	char path[256];
	struct buffer file;
	struct error err = {0};
	snprintf(path, sizeof(path), "%s/%s", work, name);
	buffer_init(&file, LIMIT_PROFILE_FILE_BYTES);
	if (io_read_file(path, file.max, &file, &err) < 0)
		fail_msg("%s", err.message);
	return file;
}

/* ---- samples as lines ---- */

struct lines {
	char **items;
	size_t count, capacity;
};

static void add_line(struct lines *lines, struct buffer *line)
{
	assert_int_equal(array_reserve(&lines->items, &lines->capacity, lines->count + 1, SIZE_MAX), 0);
	lines->items[lines->count++] = strdup(buffer_string(line));
	buffer_clear(line);
}

static void release_lines(struct lines *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		free(lines->items[i]);
	mem_free(lines->items);
}

static uint64_t kernel_start(const char *name)
{
	char command[512];
	snprintf(command, sizeof(command),
		 "perf script -i %s/%s --show-mmap-events 2>/dev/null | sed -n 's/.*MMAP2* -1.*: "
		 "\\[0x\\([0-9a-f]*\\).*kallsyms\\].*/\\1/p' | "
		 "head -n 1",
		 work, name);
	char *out = output_of(command);
	uint64_t start = out ? strtoull(out, NULL, 16) : 0;
	free(out);
	return start;
}

static void append_frame(struct buffer *line, uint64_t address, const char *file, uint64_t kernel)
{
	/* perf has one map for all that no module has; the address shows which frames are the kernel's. */
	if (kernel && address < kernel && format_is_kernel_file(bytes_of_string(file)))
		address += kernel;
	if (address >> 63)
		file = "[kernel]";
	buffer_printf(line, "|%" PRIx64 " %s", address, file);
}

/* One line a sample, as perf prints it. only: an option of `perf script` that chooses. */
static struct lines theirs(const char *name, const char *only)
{
	char command[512];
	regex_t head, frame;
	regmatch_t m[11];
	struct lines lines = {0};
	struct buffer line;
	buffer_init(&line, SIZE_MAX);
	snprintf(command, sizeof(command), "perf script -i %s/%s %s --ns -F comm,pid,tid,time,event,period,ip,dso 2>/dev/null",
		 work, name, only);
	char *text = output_of(command), *rest = text, *row;
	if (!text) {
		printf("skipped: perf script cannot read what perf record wrote\n");
		skip();
	}
	assert_int_equal(regcomp(&head,
				 "^ *(.*[^ ]) +(-?[0-9]+)/(-?[0-9]+) +([0-9]+)\\.([0-9]{9}): +([0-9]+) +(.*[^ ]): "
				 "*(([0-9a-f]+) \\((.*)\\))?$",
				 REG_EXTENDED),
			 0);
	assert_int_equal(regcomp(&frame, "^\t *([0-9a-f]+) (.* )?\\(([^()]*|[^()]*\\([a-z]*\\))\\)$", REG_EXTENDED), 0);
	while ((row = strsep(&rest, "\n"))) {
		bool is_head = regexec(&head, row, 11, m, 0) == 0;
		if (is_head) {
			if (line.len)
				add_line(&lines, &line);
			buffer_printf(&line, "%.*s %s/", (int)(m[1].rm_eo - m[1].rm_so), row + m[1].rm_so, "");
			for (int k = 2; k <= 7; k++)
				buffer_printf(&line, "%.*s ", (int)(m[k].rm_eo - m[k].rm_so), row + m[k].rm_so);
		} else if (row[0] && regexec(&frame, row, 5, m, 0) != 0) {
			fail_msg("perf script says: %s", row);
		}
		int at = is_head ? 9 : 1;
		if (row[0] && m[at].rm_so >= 0) {
			row[m[at + (is_head ? 1 : 2)].rm_eo] = 0;
			uint64_t address = strtoull(row + m[at].rm_so, NULL, 16);
			/* What a thread's first function would return to is no frame. */
			if (is_head && !(address >> 63))
				address = 0; /* without a call chain perf prints where it was in memory */
			if (is_head || address > 0)
				append_frame(&line, address, row + m[at + (is_head ? 1 : 2)].rm_so, 0);
		}
	}
	if (line.len)
		add_line(&lines, &line);
	regfree(&head);
	regfree(&frame);
	free(text);
	buffer_release(&line);
	return lines;
}

static int64_t label_number(const struct profile *profile, uint32_t set, const char *key)
{
	for (uint32_t i = 0; i < profile->label_sets[set].count; i++) {
		const struct profile_label *label = &profile->labels[profile->label_sets[set].first + i];
		if (strcmp(profile_string(profile, label->key), key) == 0)
			return label->number;
	}
	return INT64_MIN;
}

static bool is_memory(const char *file)
{
	return strncmp(file, "//", 2) == 0 || strncmp(file, "/tmp/perf-", 10) == 0 || strncmp(file, "[heap", 5) == 0 ||
	       strncmp(file, "[stack", 6) == 0;
}

/* The same as it was read. clock: what perf's times were when the day began. */
static struct lines ours(const struct profile *profile, uint64_t kernel, int64_t clock_ns, bool has_callers)
{
	static uint32_t stack[LIMIT_STACK_DEPTH];
	struct lines lines = {0};
	struct buffer line;
	buffer_init(&line, SIZE_MAX);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		const int64_t *values = &profile->values[i * profile->sample_type_count];
		const char *event = profile_label_value(profile, sample->labels, "event");
		const char *comm = profile_label_value(profile, sample->labels, "thread.name");
		int64_t time = sample->time_ns - clock_ns, period = 0;
		assert_int_equal(values[0], 1);
		for (size_t k = 1; k < profile->sample_type_count; k++)
			if (!event || strcmp(event, profile_string(profile, profile->sample_types[k].type)) == 0)
				period = values[k];
			else
				assert_int_equal(values[k], 0);
		buffer_printf(&line, "%s /%" PRId64 " %" PRId64 " %" PRId64 " %09" PRId64 " %" PRId64 " %s ",
			      comm ? comm : ":-1", label_number(profile, sample->labels, "process.pid"),
			      label_number(profile, sample->labels, "thread.id"), (int64_t)(time / NS_PER_S),
			      (int64_t)(time % NS_PER_S), period,
			      event ? event : profile_string(profile, profile->sample_types[1].type));
		size_t depth = profile_stack_locations(profile, sample->stack, stack, LIMIT_STACK_DEPTH);
		bool was_kernel = true;
		for (size_t f = 0; f < depth; f++) {
			const struct profile_location *location = &profile->locations[stack[f]];
			bool is_kernel = location->frame_type == PROFILE_FRAME_KERNEL;
			const char *file = profile_string(profile, profile->mappings[location->mapping].file_name);
			uint64_t address = profile_location_file_offset(profile, stack[f]);
			if (is_memory(file))
				address = location->address;
			/* Callers are the call here, and what it returns to there. */
			address += f > 0 && is_kernel == was_kernel;
			was_kernel = is_kernel;
			if (!has_callers && !is_kernel)
				address = 0;
			if (is_kernel && location->line_count > 0)
				buffer_printf(&line, "|[bpf]"); /* the kernel told its name, and that is all that is kept */
			else
				append_frame(&line, address, location->mapping ? file : "[unknown]", is_kernel ? kernel : 0);
		}
		add_line(&lines, &line);
	}
	buffer_release(&line);
	return lines;
}

/* perf has an address where we have the name of a BPF program, which others run. */
static bool is_equal_line(const char *perf, const char *here)
{
	for (; *perf && *here; perf++, here++) {
		while (strncmp(here, "|[bpf]", strlen("|[bpf]")) == 0 && *perf == '|') {
			size_t len = 1 + strcspn(perf + 1, "|");
			if (len <= strlen(" [kernel]") ||
			    strncmp(perf + len - strlen(" [kernel]"), " [kernel]", strlen(" [kernel]")) != 0)
				return false;
			perf += len;
			here += strlen("|[bpf]");
		}
		if (*perf != *here)
			return false;
		if (!*perf)
			return true;
	}
	return *perf == *here;
}

static void assert_lines_equal(struct lines *a, struct lines *b)
{
	assert_true(a->count > SAMPLES_LEAST);
	qsort(a->items, a->count, sizeof(*a->items), text_compare);
	qsort(b->items, b->count, sizeof(*b->items), text_compare);
	for (size_t i = 0; i < a->count && i < b->count; i++)
		/* perf forgets a whole chain that holds a marker of no meaning. */
		if (!is_equal_line(a->items[i], b->items[i]) &&
		    (strchr(a->items[i], '|') || strncmp(a->items[i], b->items[i], strlen(a->items[i])) != 0))
			fail_msg("sample %zu of %zu:\n  perf: %s\n  here: %s", i, a->count, a->items[i], b->items[i]);
	assert_int_equal(a->count, b->count);
	printf("%zu samples as perf has them\n", a->count);
	release_lines(a);
	release_lines(b);
}

/* Leaves the samples of what was recorded, of those of the whole machine. */
static void keep_load(struct lines *lines)
{
	size_t kept = 0;
	for (size_t i = 0; i < lines->count; i++)
		if (strncmp(lines->items[i], LOAD_NAME " /", strlen(LOAD_NAME " /")) == 0)
			lines->items[kept++] = lines->items[i];
		else
			free(lines->items[i]);
	assert_true(kept < lines->count);
	lines->count = kept;
}

static void compare(const char *name, bool has_callers, bool is_all)
{
	struct lines perf = theirs(name, is_all ? "--comms " LOAD_NAME : ""), here; /* first: it may skip the test */
	struct buffer file = read_work(name), notes;
	struct profile *profile = NULL;
	struct error err = {0};
	buffer_init(&notes, MIB);
	struct format_options options = {.input_name = name, .decompressed_max = GIB, .notes = &notes};
	uint8_t *copy = exact_copy(buffer_bytes(&file));
	if (format_decode(NULL, (struct bytes){copy, file.len}, &options, &profile, &err) < 0)
		fail_msg("%s", err.message);
	/* Times of day are compared by how far they are apart. */
	int64_t clock_ns = 0;
	if (profile->time_ns) {
		char command[256];
		snprintf(command, sizeof(command), "perf script -i %s/%s --ns -F time | tr -d ' .:' | sort -n | head -n 1",
			 work, name);
		char *text = output_of(command);
		clock_ns = profile->time_ns - strtoll(text, NULL, 10);
		assert_in_range(profile->time_ns, time_now_ns() - 3600 * NS_PER_S, time_now_ns());
		free(text);
	}
	if (profile->time_ns) { /* recorded with -k CLOCK_MONOTONIC; perf read both clocks one after the other */
		int64_t apart_ns = profile->time_ns - profile->monotonic_ns - (time_now_ns() - time_monotonic_ns());
		assert_int_equal(profile->monotonic_ns, profile->time_ns - clock_ns);
		assert_in_range(apart_ns + NS_PER_S, 0, 2 * NS_PER_S);
	} else if (profile->sample_count > 0 && profile->samples[0].time_ns) {
		assert_int_equal(profile->monotonic_ns, PROFILE_OTHER_CLOCK);
	}
	here = ours(profile, kernel_start(name), clock_ns, has_callers);
	if (is_all)
		keep_load(&here);
	assert_lines_equal(&perf, &here);
	if (notes.len)
		printf("%s", buffer_string(&notes));
	buffer_release(&notes);
	profile_free(profile);
	free(copy);
	buffer_release(&file);
}

static size_t count_samples(const char *name)
{
	char command[512];
	snprintf(command, sizeof(command), "perf script -i %s/%s -F ip 2>/dev/null | wc -l", work, name);
	char *out = output_of(command);
	size_t count = out ? strtoul(out, NULL, 10) : 0;
	free(out);
	return count;
}

/* perf takes a child that is stopped for one that has ended (6.1), and records no more: then once again. */
static void record_and_compare(const char *options)
{
	for (int i = 0; i < 5; i++) {
		record("perf.data", options);
		if (count_samples("perf.data") > SAMPLES_LEAST)
			break;
	}
	compare("perf.data", strstr(options, " -g"), strncmp(options, "-a ", 3) == 0);
}

static void test_call_graph(void **state)
{
	record_and_compare("-F 999 -g -o perf.data");
}

static void test_several_events(void **state)
{
	record_and_compare("-F 999 -g -e cpu-clock,task-clock,page-faults,context-switches -o perf.data");
	record_and_compare("-e cpu-clock:u -c 1000000 -e page-faults -c 10 -o perf.data");
}

/* Of the whole machine, but compared only for what was started here: perf itself may not read what else runs. */
static void test_all_processes(void **state)
{
	record_and_compare("-a -F 499 -g -o perf.data");
}

static void test_compressed(void **state)
{
	record_and_compare("-z --buildid-mmap -F 4999 -g -o perf.data");
}

static void test_pipe(void **state)
{
	record_and_compare("-F 999 -g --buildid-mmap -e cpu-clock,page-faults -o - >perf.data");
	record_and_compare("-F 999 -g -z --buildid-mmap -o - >perf.data");
}

static void test_clock(void **state)
{
	record_and_compare("-F 999 -g -k CLOCK_MONOTONIC -o perf.data");
}

/* Fields that nothing is made of must be passed over all the same. */
static void test_fields(void **state)
{
	record_and_compare("-F 999 -g -d --phys-data --sample-cpu -s -W -o perf.data");
	record_and_compare("-F 999 -e cpu-clock --switch-events --all-cgroups --data-page-size --code-page-size -o perf.data");
	record_and_compare(
		"-e cpu-clock,page-faults -c 1000000 --buildid-mmap --intr-regs=ip,sp --user-regs=ip,sp -g -o perf.data");
	record_and_compare("-e '{cpu-clock,page-faults}:S' -F 999 -g -o perf.data");
	record_and_compare("-e sched:sched_switch -R -c 1 -o perf.data");
}

/* ---- the other byte order ---- */

struct swapper {
	uint8_t *at; /* of the copy that is being turned */
	uint64_t sample_type;
	bool has_trailer;
};

static void turn(struct swapper *swapper, size_t len)
{
	for (size_t i = 0; i < len / 2; i++) {
		uint8_t byte = swapper->at[i];
		swapper->at[i] = swapper->at[len - 1 - i];
		swapper->at[len - 1 - i] = byte;
	}
	swapper->at += len;
}

/* By letters: 2, 4 and 8 are numbers of that many bytes, b is a byte, m eight bytes of bit-fields. */
static void turn_fields(struct swapper *swapper, const char *fields)
{
	for (; *fields; fields++) {
		if (*fields == 'b') {
			swapper->at++;
		} else if (*fields == 'm') {
			for (int i = 0; i < 8; i++, swapper->at++) {
				uint8_t mirrored = 0;
				for (int bit = 0; bit < 8; bit++)
					mirrored |= (uint8_t)((*swapper->at >> bit & 1) << (7 - bit));
				*swapper->at = mirrored;
			}
		} else {
			turn(swapper, (size_t)(*fields - '0'));
		}
	}
}

static void turn_attr(uint8_t *attr, uint64_t size)
{
	struct swapper swapper = {attr, 0, false};
	assert_true(size >= 120);
	turn_fields(&swapper, "44"
			      "8888m44"
			      "8888"
			      "44"
			      "8"
			      "4"
			      "22"
			      "44");
}

static void turn_trailer(struct swapper *swapper, uint8_t *end)
{
	const uint64_t order[] = {PERF_S_TID, PERF_S_TIME, PERF_S_ID, PERF_S_STREAM_ID, PERF_S_CPU, PERF_S_IDENTIFIER};
	size_t bytes = 0;
	for (size_t i = 0; i < 6; i++)
		bytes += swapper->sample_type & order[i] ? 8 : 0;
	swapper->at = end - bytes;
	for (size_t i = 0; i < 6; i++)
		if (swapper->sample_type & order[i])
			turn_fields(swapper, order[i] == PERF_S_TID || order[i] == PERF_S_CPU ? "44" : "8");
}

static void turn_sample(struct swapper *swapper)
{
	const uint64_t order[] = {PERF_S_IDENTIFIER, PERF_S_IP,	       PERF_S_TID, PERF_S_TIME,	 PERF_S_ADDR,
				  PERF_S_ID,	     PERF_S_STREAM_ID, PERF_S_CPU, PERF_S_PERIOD};
	uint64_t count, known = PERF_S_CALLCHAIN;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		known |= order[i];
		if (swapper->sample_type & order[i])
			turn_fields(swapper, order[i] == PERF_S_TID || order[i] == PERF_S_CPU ? "44" : "8");
	}
	assert_int_equal(swapper->sample_type & ~known, 0);
	if (!(swapper->sample_type & PERF_S_CALLCHAIN))
		return;
	memcpy(&count, swapper->at, 8);
	for (uint64_t i = 0; i <= count; i++)
		turn_fields(swapper, "8");
}

/* A record of the kernel. */
static void turn_record(uint8_t *record, uint64_t sample_type)
{
	struct swapper swapper = {record, sample_type, true};
	uint32_t type;
	uint16_t size;
	memcpy(&type, record, 4);
	memcpy(&size, record + 6, 2);
	turn_fields(&swapper, "422");
	if (type == PERF_SAMPLE)
		turn_sample(&swapper);
	else if (type == PERF_MMAP)
		turn_fields(&swapper, "44888");
	else if (type == PERF_MMAP2)
		turn_fields(&swapper, "4488844"
				      "8844");
	else if (type == PERF_COMM)
		turn_fields(&swapper, "44");
	else if (type == PERF_FORK || type == PERF_EXIT)
		turn_fields(&swapper, "44448");
	else if (type == PERF_THROTTLE || type == PERF_THROTTLE + 1)
		turn_fields(&swapper, "888");
	else if (type == PERF_KSYMBOL)
		turn_fields(&swapper, "8422");
	else if (type == 18) /* of a BPF program */
		turn_fields(&swapper, "224");
	else if (type == PERF_LOST)
		turn_fields(&swapper, "88");
	if (type != PERF_SAMPLE)
		turn_trailer(&swapper, record + size);
}

/* Strings are a number and bytes, and only such features are kept. */
static void turn_feature(unsigned feature, uint8_t *data, uint64_t size)
{
	struct swapper swapper = {data, 0, false};
	if (feature != 12) {
		turn_fields(&swapper, "4");
		return;
	}
	uint32_t count, attr_bytes, ids, len;
	memcpy(&count, data, 4);
	memcpy(&attr_bytes, data + 4, 4);
	turn_fields(&swapper, "44");
	for (uint32_t i = 0; i < count; i++) {
		turn_attr(swapper.at, attr_bytes);
		swapper.at += attr_bytes;
		memcpy(&ids, swapper.at, 4);
		turn_fields(&swapper, "4");
		memcpy(&len, swapper.at, 4);
		turn_fields(&swapper, "4");
		swapper.at += len;
		for (uint32_t k = 0; k < ids; k++)
			turn_fields(&swapper, "8");
	}
	assert_ptr_equal(swapper.at, data + size);
}

static uint64_t number_at(const uint8_t *data, size_t at)
{
	uint64_t value;
	memcpy(&value, data + at, 8);
	return value;
}

/* Data without perf's own records, and the features host, release, architecture, command's name and events. */
static struct buffer keep_simple(const struct buffer *file)
{
	static const unsigned kept[] = {3, 4, 6, 12};
	struct buffer out;
	uint64_t data = number_at(file->data, 40), end = data + number_at(file->data, 48), bits = 0, table;
	buffer_init(&out, GIB);
	assert_int_equal(buffer_append(&out, file->data, data), 0);
	for (uint64_t at = data; at < end;) {
		uint32_t type;
		uint16_t size;
		memcpy(&type, file->data + at, 4);
		memcpy(&size, file->data + at + 6, 2);
		if (type < PERF_USER_TYPES)
			assert_int_equal(buffer_append(&out, file->data + at, size), 0);
		at += size;
	}
	table = out.len;
	memcpy(out.data + 48, &(uint64_t){table - data}, 8);
	uint8_t empty[16 * 4] = {0};
	assert_int_equal(buffer_append(&out, empty, sizeof(empty)), 0);
	for (size_t k = 0; k < 4; k++) {
		uint64_t all = number_at(file->data, 72),
			 before = (uint64_t)__builtin_popcountll(all & ((1ull << kept[k]) - 1));
		assert_true(all >> kept[k] & 1);
		bits |= 1ull << kept[k];
		uint64_t entry[2] = {out.len, number_at(file->data, end + 16 * before + 8)};
		memcpy(out.data + table + 16 * k, entry, 16);
		assert_int_equal(buffer_append(&out, file->data + number_at(file->data, end + 16 * before), entry[1]), 0);
	}
	memcpy(out.data + 72, &bits, 8);
	memset(out.data + 80, 0, 24);
	return out;
}

static void turn_file(struct buffer *file)
{
	static const unsigned kept[] = {3, 4, 6, 12};
	uint64_t attr_bytes = number_at(file->data, 16), attrs = number_at(file->data, 24);
	uint64_t attrs_end = attrs + number_at(file->data, 32), sample_type = number_at(file->data, attrs + 24);
	uint64_t data = number_at(file->data, 40), end = data + number_at(file->data, 48);
	for (uint64_t at = attrs; at < attrs_end; at += attr_bytes) {
		uint64_t ids = number_at(file->data, at + attr_bytes - 16), len = number_at(file->data, at + attr_bytes - 8);
		struct swapper swapper = {file->data + ids, 0, false};
		assert_int_equal(number_at(file->data, at + 24), sample_type);
		for (uint64_t i = 0; i < len; i += 8)
			turn_fields(&swapper, "8");
		swapper.at = file->data + at + attr_bytes - 16;
		turn_fields(&swapper, "88");
		turn_attr(file->data + at, attr_bytes - 16);
	}
	for (uint64_t at = data; at < end;) {
		uint16_t size;
		memcpy(&size, file->data + at + 6, 2);
		turn_record(file->data + at, sample_type);
		at += size;
	}
	for (size_t k = 0; k < 4; k++) {
		struct swapper swapper = {file->data + end + 16 * k, 0, false};
		turn_feature(kept[k], file->data + number_at(file->data, end + 16 * k),
			     number_at(file->data, end + 16 * k + 8));
		turn_fields(&swapper, "88");
	}
	struct swapper swapper = {file->data, 0, false};
	turn_fields(&swapper, "8888888888888");
}

/* The same recording as a machine of the other kind would have written it: perf and the reader here agree with the original. */
static void test_foreign(void **state)
{
	char path[256];
	record("perf.data", "-F 999 -g -e cpu-clock,page-faults -o perf.data");
	struct buffer whole = read_work("perf.data"), file = keep_simple(&whole);
	struct profile *native = decode_or_fail(NULL, buffer_bytes(&file), "native");
	turn_file(&file);
	assert_memory_equal(file.data, "2ELIFREP", 8);
	struct profile *foreign = decode_or_fail(NULL, buffer_bytes(&file), "foreign");
	assert_profiles_equal(native, foreign);
	snprintf(path, sizeof(path), "%s/foreign.data", work);
	assert_int_equal(io_write_file(path, file.data, file.len, 0600, NULL), 0);
	compare("foreign.data", true, false);
	profile_free(native);
	profile_free(foreign);
	buffer_release(&file);
	buffer_release(&whole);
}

/* ---- refused ---- */

static void try_perf(struct bytes damaged)
{
	struct format_options options = {.decompressed_max = 16 * MIB};
	struct profile *profile = NULL;
	if (format_decode(&format_perf_data, damaged, &options, &profile, NULL) == 0)
		profile_free(profile);
}

static void test_damaged(void **state)
{
	record("perf.data", "-g --buildid-mmap -e cpu-clock,page-faults -c 1000000 -z -o - >perf.data");
	struct buffer file = read_work("perf.data");
	try_damaged(buffer_bytes(&file), 300, try_perf);
	buffer_release(&file);
	record("perf.data", "-e cpu-clock -c 5000000 -g -o perf.data");
	file = read_work("perf.data");
	try_damaged(buffer_bytes(&file), 300, try_perf);
	buffer_release(&file);
}

/* A file of one event and room for one record: header 104, attr 64 + 16, one id 8, data. */
#define FILE_ATTR 104
#define FILE_IDS  (FILE_ATTR + 80)
#define FILE_DATA (FILE_IDS + 8)
#define FILE_END  (FILE_DATA + 16)

static void put(uint8_t *file, size_t at, uint64_t value, size_t len)
{
	memcpy(file + at, &value, len);
}

static void make_file(uint8_t file[static FILE_END])
{
	const uint64_t header[] = {104, 80, FILE_ATTR, 80, FILE_DATA, 16, 0, 0};
	memset(file, 0, FILE_END);
	memcpy(file, "PERFILE2", 8);
	for (size_t i = 0; i < 8; i++)
		put(file, 8 + 8 * i, header[i], 8);
	put(file, FILE_ATTR, 1, 4); /* software: cpu-clock */
	put(file, FILE_ATTR + 4, 64, 4);
	put(file, FILE_ATTR + 16, 1000, 8);
	put(file, FILE_ATTR + 24, PERF_S_IP, 8);
	put(file, FILE_ATTR + 64, FILE_IDS, 8);
	put(file, FILE_ATTR + 72, 8, 8);
	put(file, FILE_DATA, PERF_SAMPLE, 4);
	put(file, FILE_DATA + 4, PERF_MODE_USER, 2);
	put(file, FILE_DATA + 6, 16, 2);
	put(file, FILE_DATA + 8, 0x1234, 8);
}

static void refuse(size_t at, uint64_t value, size_t len, const char *why)
{
	uint8_t file[FILE_END];
	struct profile *profile = NULL;
	struct error err = {0};
	make_file(file);
	put(file, at, value, len);
	uint8_t *copy = exact_copy((struct bytes){file, sizeof(file)});
	assert_int_equal(format_decode(&format_perf_data, (struct bytes){copy, sizeof(file)}, NULL, &profile, &err), -EBADMSG);
	if (!strstr(err.message, why))
		fail_msg("'%s' instead of '%s'", err.message, why);
	free(copy);
}

static void test_refused(void **state)
{
	uint8_t file[FILE_END];
	make_file(file);
	struct profile *profile = decode_or_fail(NULL, (struct bytes){file, sizeof(file)}, "smallest");
	assert_int_equal(profile->sample_count, 1);
	assert_int_equal(profile->values[0], 1);
	assert_int_equal(profile->values[1], 1000);
	assert_string_equal(profile_string(profile, profile->sample_types[1].type), "cpu-clock");
	assert_int_equal(profile->locations[profile->stacks[profile->samples[0].stack].location].address, 0x1234);
	profile_free(profile);
	/* Version 1 has another magic. */
	memcpy(file, "PERFFILE", 8);
	profile = decode_or_fail(NULL, (struct bytes){file, sizeof(file)}, "version 1");
	assert_int_equal(profile->values[1], 1000);
	profile_free(profile);
	refuse(8, 105, 8, "its header has 105 bytes");
	refuse(16, 79, 8, "79 bytes each, less than");
	refuse(24, 4096, 8, "the section of the events lies outside");
	refuse(FILE_ATTR + 4, 63, 4, "63 bytes is shorter");
	refuse(FILE_ATTR + 4, 72, 4, "does not fit in 80");
	refuse(FILE_ATTR + 24, 1ull << 40, 8, "unknown fields");
	refuse(FILE_ATTR + 64, UINT64_MAX, 8, "the ids of an event lie outside");
	refuse(FILE_ATTR + 72, 7, 8, "not a multiple of 8");
	refuse(40, FILE_END, 8, "the data lies outside");
	refuse(48, 17, 8, "the data lies outside");
	refuse(48, 15, 8, "reaches past the end of the data");
	refuse(FILE_DATA + 6, 7, 2, "has a size of 7 bytes");
	refuse(FILE_DATA + 6, 17, 2, "reaches past the end of the data");
	refuse(FILE_ATTR + 24, PERF_S_IP | PERF_S_TID, 8, "do not fit its size");
	refuse(FILE_DATA, PERF_COMPRESSED, 4, "corrupt zstd data");
	refuse(72, 1ull << 3, 8, "table of the header's features reaches past");
}

/* ---- address spaces ---- */

#define PLACES 512

/* Against an array of what is where. */
static void test_address_map(void **state)
{
	struct random random = {4711};
	static uint32_t plain[4][PLACES];
	struct address_space spaces[4] = {0};
	struct address_map map;
	address_map_init(&map);
	for (uint32_t i = 1; i < 4000; i++) {
		size_t k = random_next(&random) % 4, from = random_next(&random) % 4;
		uint64_t start = random_next(&random) % PLACES, end = start + random_next(&random) % 64;
		end = end < PLACES ? end : PLACES;
		if (i % 7 == 0 && from != k) {
			address_space_share(&map, &spaces[from], &spaces[k]);
			memcpy(plain[k], plain[from], sizeof(plain[k]));
		}
		assert_int_equal(address_space_put(&map, &spaces[k], start, end, i), 0);
		for (uint64_t at = start; at < end; at++)
			plain[k][at] = i;
		for (size_t s = 0; s < 4; s++)
			for (uint64_t at = 0; at < PLACES; at += i % 16 ? 17 : 1) {
				uint32_t value = 0;
				assert_int_equal(address_space_find(&map, &spaces[s], at, &value), plain[s][at] != 0);
				assert_int_equal(value, plain[s][at]);
			}
	}
	address_map_release(&map);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "load") == 0)
		return run_load();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_call_graph), cmocka_unit_test(test_several_events), cmocka_unit_test(test_all_processes),
		cmocka_unit_test(test_compressed), cmocka_unit_test(test_pipe),		  cmocka_unit_test(test_clock),
		cmocka_unit_test(test_fields),	   cmocka_unit_test(test_foreign),	  cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_refused),	   cmocka_unit_test(test_address_map),
	};
	return cmocka_run_group_tests(tests, make_work, remove_work);
}
