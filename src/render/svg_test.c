/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/test_programs.h"
#include "base/text.h"
#include "render/test_render.h"

extern char **environ;

static void render(const struct profile *profile, const struct svg_options *options, struct buffer *out)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	assert_int_equal(flame_build(profile, 0, FLAME_UNNAMED_BY_ADDRESS, &flame, NULL), 0);
	assert_int_equal(svg_render(flame, options, out, NULL), 0);
	assert_true(text_is_utf8(buffer_bytes(out)));
}

/* Runs python's XML parser over the file; it prints the tooltip of each frame, then x, width and y of its rectangle. */
static bool parse_with_python(const struct buffer *svg, struct buffer *ret)
{
	static const char program[] =
		"import sys, xml.etree.ElementTree as E\n"
		"n = '{http://www.w3.org/2000/svg}'\n"
		"root = E.parse(sys.argv[1]).getroot()\n"
		"out = open(sys.argv[2], 'w', encoding='utf-8')\n"
		"print(root.tag == n + 'svg', root.get('width'), root.find(\"*[@id='title']\").text, file=out)\n"
		"print(root.find(\"*[@id='subtitle']\").text, file=out)\n"
		"for g in root.iter(n + 'g'):\n"
		"  if g.get('class') == 'f':\n"
		"    r = g.find(n + 'rect')\n"
		"    print(repr(g.find(n + 'title').text), r.get('x'), r.get('width'), r.get('y'), g.find(n + 'text').text, "
		"file=out)\n";
	char directory[] = "/tmp/wick-svg-test-XXXXXX", in[64], out[64];
	assert_non_null(mkdtemp(directory));
	snprintf(in, sizeof(in), "%s/in.svg", directory);
	snprintf(out, sizeof(out), "%s/out.txt", directory);
	assert_int_equal(io_write_file(in, svg->data, svg->len, 0600, NULL), 0);
	char *const arguments[] = {(char *)"python3", (char *)"-c", (char *)program, in, out, NULL};
	pid_t pid;
	bool started = posix_spawnp(&pid, "python3", NULL, NULL, arguments, environ) == 0;
	int status = 0;
	if (started) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status == 0)
			assert_int_equal(io_read_file(out, MIB, ret, NULL), 0);
	}
	assert_int_equal(io_remove_tree(directory, NULL), 0);
	assert_int_equal(status, 0);
	return started;
}

static void assert_contains(const struct buffer *text, const char *part)
{
	if (!memmem(text->data, text->len, part, strlen(part)))
		fail_msg("no '%s' in:\n%.*s", part, (int)text->len, text->data);
}

static void add_in_binary(struct profile *profile, const char *name, const char *file, uint32_t frame_type, int64_t value)
{
	struct profile_mapping mapping = {.file_name = test_string(profile, file), .limit = 0x1000};
	struct profile_function function = {.name = test_string(profile, name)};
	struct profile_line line = {0};
	struct profile_location location = {.frame_type = frame_type};
	struct profile_sample sample = {0};
	uint32_t id;
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &id, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, id, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
}

static void test_well_formed(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cp<u", "nanoseconds");
	_cleanup_(buffer_release) struct buffer svg = {0}, parsed = {0};
	buffer_init(&svg, MIB);
	buffer_init(&parsed, MIB);
	add_in_binary(profile, "operator<<&lt;(\"x\", 'y') & >]]>", "/a<b", 0, 6000000000);
	test_add_stack(profile, "main;\x01\x1b[0m\xff\xc3\xa4\xef\xbf\xbf\xed\xa0\x80", 3000000000);
	test_add_stack(profile, "other", 1000000000);
	test_add_stack(profile, "tiny", 1);
	render(profile, &(struct svg_options){.title = "a <b> & \"c\" \x02"}, &svg);
	if (!parse_with_python(&svg, &parsed)) {
		print_message("skipped: no python3 to parse XML with\n");
		skip();
	}
	assert_contains(&parsed, "True 1200 a <b> & \"c\" ?\n");
	assert_contains(&parsed, "cp<u 10s, 4 samples; 1 frame is too narrow to be drawn\n");
	assert_contains(&parsed, "total\\n10s, 100.00%; self 0, 0.00%' 10.000 1180.000 ");
	assert_contains(&parsed, "main\\n3s, 30.00%; self 0, 0.00%' 718.000 354.000 ");
	assert_contains(&parsed, "operator<<&lt;(\"x\", \\'y\\') & >]]>\\n6s, 60.00%; self 6s, 60.00%\\na<b' 10.000 708.000 ");
	assert_contains(&parsed, "'??[0m\xef\xbf\xbd\xc3\xa4?\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\\n3s, ");
	assert_contains(&parsed, "other\\n1s, 10.00%; self 1s, 10.00%' 1072.000 118.000 ");
}

/* Whatever bytes names hold, the file parses and holds every frame. */
static void test_random_names(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(buffer_release) struct buffer svg = {0}, parsed = {0};
	buffer_init(&svg, 10 * MIB);
	buffer_init(&parsed, 10 * MIB);
	struct test_random random = {.state = 1};
	for (unsigned i = 0; i < 500; i++) {
		char name[40];
		size_t len = 1 + test_random_below(&random, sizeof(name) - 2);
		for (size_t j = 0; j < len; j++) {
			name[j] = (char)(1 + test_random_below(&random, 255));
			if (name[j] == ';' || name[j] == '<' || (test_random_below(&random, 3) && name[j] < 0))
				name[j] = "&]>\"'\xef\xbf\xbe"[test_random_below(&random, 8)];
		}
		name[len] = '\0';
		test_add_stack(profile, name, 10);
	}
	render(profile, NULL, &svg);
	if (!parse_with_python(&svg, &parsed)) {
		print_message("skipped: no python3 to parse XML with\n");
		skip();
	}
	size_t lines = 0;
	for (size_t i = 0; i < parsed.len; i++)
		lines += parsed.data[i] == '\n';
	assert_true(lines > 480); /* names that are equal by chance share a frame */
}

static void test_directions(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	test_add_stack(profile, "a;b;c", 1);
	for (int icicle = 0; icicle < 2; icicle++) {
		_cleanup_(buffer_release) struct buffer svg = {0};
		buffer_init(&svg, MIB);
		render(profile, &(struct svg_options){.icicle = icicle, .width_px = 500}, &svg);
		assert_contains(&svg, "width=\"500\"");
		const char *text = buffer_string(&svg), *root = strstr(text, "<title>total"), *leaf = strstr(text, "<title>c");
		unsigned root_y = 0, leaf_y = 0;
		assert_true(root && leaf);
		assert_int_equal(sscanf(strstr(root, " y=\""), " y=\"%u\"", &root_y), 1);
		assert_int_equal(sscanf(strstr(leaf, " y=\""), " y=\"%u\"", &leaf_y), 1);
		assert_int_equal(icicle, root_y < leaf_y);
		assert_int_equal(root_y < leaf_y ? leaf_y - root_y : root_y - leaf_y, 3 * 17);
	}
}

static void test_names_are_cut_to_fit(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(buffer_release) struct buffer svg = {0};
	buffer_init(&svg, MIB);
	test_add_stack(profile, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 5);
	test_add_stack(profile, "rest", 113);
	render(profile, NULL, &svg);
	assert_contains(&svg, ">\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4..</text>"); /* 50 px: six characters */
}

static unsigned color_after(const struct buffer *svg, const char *name)
{
	const char *text = (const char *)svg->data, *at = strstr(text, name);
	unsigned color = 0;
	assert_non_null(at);
	assert_int_equal(sscanf(strstr(at, "fill=\"#"), "fill=\"#%x\"", &color), 1);
	return color;
}

static void test_colors(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(buffer_release) struct buffer svg = {0};
	buffer_init(&svg, MIB);
	static const char *const kernel[] = {"do_syscall_64", "schedule", "tcp_sendmsg", "clear_page", "memcg", "copy_user"};
	for (unsigned i = 0; i < 6; i++)
		add_in_binary(profile, kernel[i], "[kernel.kallsyms]", i % 2 ? PROFILE_FRAME_KERNEL : PROFILE_FRAME_UNKNOWN, 1);
	add_in_binary(profile, "malloc", "/lib/libc.so.6", PROFILE_FRAME_NATIVE, 1);
	add_in_binary(profile, "main_of_app", "/usr/bin/app", PROFILE_FRAME_NATIVE, 1);
	render(profile, NULL, &svg);
	assert_int_equal(buffer_append_byte(&svg, 0), 0);
	for (unsigned i = 0; i < 6; i++) {
		unsigned color = color_after(&svg, kernel[i]), red = color >> 16, green = color >> 8 & 255, blue = color & 255;
		assert_true(red > green + 40 && green > blue);
	}
	assert_int_not_equal(color_after(&svg, "malloc"), color_after(&svg, "main_of_app"));
}

static void test_empty(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(buffer_release) struct buffer svg = {0}, parsed = {0};
	buffer_init(&svg, MIB);
	buffer_init(&parsed, MIB);
	render(profile, NULL, &svg);
	assert_contains(&svg, "0 samples");
	if (parse_with_python(&svg, &parsed))
		assert_contains(&parsed, "cpu 0, 0 samples");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_well_formed), cmocka_unit_test(test_random_names),
		cmocka_unit_test(test_directions),  cmocka_unit_test(test_names_are_cut_to_fit),
		cmocka_unit_test(test_colors),	    cmocka_unit_test(test_empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
