/* SPDX-License-Identifier: Apache-2.0 */
/* The whole view: keys in, a picture out. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/test_faults.h"
#include "base/test_fixture.h"
#include "terminal/keys.h"
#include "top/test_top.h"

struct fixture {
	struct top top;
	struct screen screen;
	struct buffer text;
	struct profile *profile;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static struct top_facts facts(void)
{
	return (struct top_facts){.where = "web-1",
				  .note = "",
				  .waiting = "wait",
				  .cpus = 2,
				  .frequency_hz = 99,
				  .sum = {.from_ns = 0, .to_ns = 10 * NS_PER_S, .taken = 685, .stacks = 600, .incomplete = 6},
				  .has_losses = true,
				  .has_cost = true,
				  .clock = "12:34:56"};
}

static int update(struct fixture *f, const struct test_sample *samples, size_t count)
{
	_cleanup_(profile_freep) struct profile *before = f->profile;
	struct top_facts all = facts();
	f->profile = test_top_profile(samples, count);
	return top_update(&f->top, f->profile, &all, NULL);
}

static int fixture_init(struct fixture *f)
{
	top_init(&f->top);
	f->top.is_ascii = true;
	f->screen.styles = top_styles(0);
	f->screen.is_ascii = true;
	buffer_init(&f->text, SIZE_MAX);
	return screen_resize(&f->screen, 24, 80) < 0 ? -1 : update(f, test_samples, TEST_SAMPLES);
}
static void fixture_release(struct fixture *f)
{
	top_release(&f->top);
	screen_release(&f->screen);
	buffer_release(&f->text);
	profile_free(f->profile);
}

/* The picture, with line ends. */
static const char *picture(struct fixture *f)
{
	top_draw(&f->top, &f->screen);
	buffer_clear(&f->text);
	for (unsigned row = 0; row < f->screen.rows; row++) {
		for (unsigned column = 0; column < f->screen.columns; column++)
			buffer_append_byte(&f->text, (uint8_t)f->screen.cells[row * f->screen.columns + column].code);
		buffer_append_byte(&f->text, '\n');
	}
	return buffer_string(&f->text);
}

static void shows(struct fixture *f, const char *part)
{
	const char *text = picture(f);
	if (!strstr(text, part))
		fail_msg("'%s' is not in\n%s", part, text);
}

static void hides(struct fixture *f, const char *part)
{
	const char *text = picture(f);
	if (strstr(text, part))
		fail_msg("'%s' is in\n%s", part, text);
}

static enum top_action press(struct fixture *f, uint32_t key)
{
	enum top_action action;
	assert_int_equal(top_key(&f->top, key, &action, NULL), 0);
	picture(f);
	return action;
}

static void type(struct fixture *f, const char *text)
{
	while (*text)
		press(f, (uint8_t)*text++);
}

static void test_functions(void **state)
{
	struct fixture *f = *state;
	shows(f, "wick top web-1 | 2 CPUs | last 10 s");
	shows(f, "68.5% (kernel 11.0%) of 200%");
	shows(f, "685 samples, 99 Hz  0 lost  stacks incomplete 1.0%");
	shows(f, "   30.0    30.0   leaf ");
	shows(f, "   10.0    10.0 K read ");
	press(f, '%');
	shows(f, "   15.0    15.0   leaf ");
	shows(f, "34.2% (kernel 5.5%) of 100%");
}

static void test_views(void **state)
{
	struct fixture *f = *state;
	press(f, '2');
	shows(f, "   65.0     10.0      10 shop             leaf");
	press(f, 'H');
	shows(f, "   35.0     10.0      10 shop             shop             scan");
	press(f, '\t');
	shows(f, "   57.5    67.5      0.0 program                leaf");
	press(f, KEY_F(5));
	shows(f, "   68.5    0.0   all");
	shows(f, "   20.0   20.0   | | |-scan");
	shows(f, "   10.0   10.0 K | | `-read");
	press(f, KEY_F(5));
	shows(f, "|all 68.5%");
	shows(f, "|main ");
	press(f, KEY_DOWN);
	shows(f, "37.5% (self 0.0%) main program");
	press(f, KEY_RIGHT);
	shows(f, "30.0% (self 0.0%) start program");
	press(f, KEY_BACK_TAB);
	shows(f, "FUNCTION");
}

static void test_places(void **state)
{
	struct fixture *f = *state;
	press(f, '2');
	press(f, KEY_DOWN);
	press(f, KEY_ENTER);
	shows(f, "in idle 9");
	shows(f, "    2.5     2.5   loop");
	hides(f, "leaf");
	press(f, KEY_ENTER); /* the function: its calls */
	shows(f, "in idle 9 > loop");
	shows(f, "called by main 100%");
	press(f, KEY_BACKSPACE);
	press(f, KEY_ESCAPE);
	shows(f, "PROCESS");
	assert_int_equal(f->top.cursor, 1); /* where it was */
	press(f, '4');
	press(f, KEY_DOWN);
	press(f, KEY_ENTER);
	shows(f, "in [kernel.kallsyms]");
	shows(f, "idle_thread");
	hides(f, "leaf");
	press(f, KEY_BACKSPACE);
	press(f, KEY_BACKSPACE); /* there is no more */
	shows(f, "HOTTEST");
}

static void test_filter(void **state)
{
	struct fixture *f = *state;
	press(f, KEY_F(4));
	type(f, "sca");
	shows(f, "Filter: sca");
	shows(f, "scan");
	hides(f, "leaf");
	press(f, 'q'); /* is a letter here */
	shows(f, "nothing matches");
	press(f, KEY_BACKSPACE);
	assert_int_equal(press(f, KEY_ENTER), TOP_REDRAW);
	shows(f, "filter: sca");
	hides(f, "leaf");
	press(f, KEY_ESCAPE);
	shows(f, "leaf");
	press(f, '\\');
	type(f, "x");
	press(f, KEY_ESCAPE);
	hides(f, "filter");
	for (int i = 0; i < 3 * TOP_INPUT_MAX; i++)
		press(f, i ? 0x5bbd : '/'); /* never more than there is room for */
	assert_true(strlen(f->top.search) < TOP_INPUT_MAX);
}

static void test_search(void **state)
{
	struct fixture *f = *state;
	press(f, '/');
	type(f, "re");
	assert_string_equal(f->top.rows.items[f->top.rows.shown[f->top.cursor]].name, "read");
	press(f, KEY_F(3));
	press(f, KEY_ENTER);
	assert_int_equal(f->top.mode, TOP_MODE_VIEW);
	hides(f, "Search:");
	press(f, '5');
	press(f, '/');
	type(f, "leaf");
	assert_string_equal(f->top.tree.items[f->top.cursor].name, "leaf");
}

static void test_sorting(void **state)
{
	struct fixture *f = *state;
	press(f, 'T');
	shows(f, "TOTAL%v");
	assert_string_equal(f->top.rows.items[f->top.rows.shown[0]].name, "main");
	press(f, KEY_F(6));
	shows(f, "FUNCTIONv");
	assert_string_equal(f->top.rows.items[f->top.rows.shown[0]].name, "idle_thread");
	press(f, 'I');
	shows(f, "FUNCTION^");
	assert_string_equal(f->top.rows.items[f->top.rows.shown[0]].name, "work");
	press(f, '>');
	shows(f, "SELF%v");
	press(f, '2');
	press(f, 'N');
	shows(f, "PIDv");
	assert_string_equal(f->top.rows.items[f->top.rows.shown[0]].pid, "2");
	press(f, '<');
	shows(f, "KERNEL%v");
	press(f, 'P');
	shows(f, "CPU%v");
}

static void test_settings(void **state)
{
	struct fixture *f = *state;
	press(f, 'K');
	shows(f, "kernel hidden");
	hides(f, "K read");
	shows(f, "   15.0    35.0   parse");
	press(f, 'K');
	shows(f, "read");
	press(f, 'Z');
	shows(f, "PAUSED 12:34:56");
	press(f, '2'); /* looking around goes on */
	shows(f, "kworker");
	press(f, ' ');
	hides(f, "PAUSED");
	press(f, '?');
	shows(f, "functions, processes, threads");
	press(f, 'q');
	hides(f, "functions, processes, threads");
	assert_int_equal(press(f, 'q'), TOP_QUIT);
	assert_int_equal(press(f, KEY_F(10)), TOP_QUIT);
	assert_int_equal(press(f, KEY_CTRL('C')), TOP_QUIT);
	assert_int_equal(press(f, KEY_CTRL('Z')), TOP_SUSPEND);
	assert_int_equal(press(f, KEY_UNKNOWN), TOP_NOTHING);
}

/* The cursor stays with what it is at, but at the top with the top. */
static void test_cursor(void **state)
{
	struct fixture *f = *state;
	press(f, '2');
	assert_int_equal(update(f, test_samples + 4, 2), 0);
	assert_int_equal(f->top.cursor, 0);
	press(f, KEY_END);
	uint64_t kworker = f->top.selected;
	assert_int_equal(update(f, test_samples, TEST_SAMPLES), 0);
	assert_int_equal(f->top.cursor, 2);
	assert_true(f->top.selected == kworker);
	assert_int_equal(update(f, test_samples, 1), 0); /* it is gone */
	assert_int_equal(f->top.cursor, 0);
	picture(f);
}

/* Whatever the size, and whatever is pressed: nothing is drawn outside, and nothing breaks. */
static void test_anything(void **state)
{
	static const uint32_t keys[] = {'1',	   '2',		  '3',	     '4',	    '5',	 '6',	   KEY_UP,
					KEY_DOWN,  KEY_LEFT,	  KEY_RIGHT, KEY_PAGE_DOWN, KEY_PAGE_UP, KEY_HOME, KEY_END,
					KEY_ENTER, KEY_BACKSPACE, 'K',	     'i',	    '%',	 'Z',	   'I',
					'>',	   '?',		  '/',	     'a',	    KEY_ESCAPE,	 '\\',	   KEY_F(5),
					KEY_F(6),  'H',		  'T',	     'N',	    KEY_UNKNOWN};
	struct fixture *f = *state;
	enum top_action action;
	srand(11);
	for (int i = 0; i < 3000; i++) {
		if (i % 7 == 0)
			assert_int_equal(screen_resize(&f->screen, (unsigned)rand() % 50, (unsigned)rand() % 130), 0);
		if (i % 5 == 0) {
			size_t count = (size_t)rand() % TEST_SAMPLES;
			assert_int_equal(update(f, test_samples + count, TEST_SAMPLES - count), 0);
		}
		assert_int_equal(top_key(&f->top, keys[(size_t)rand() % (sizeof(keys) / sizeof(*keys))], &action, NULL), 0);
		top_draw(&f->top, &f->screen);
		assert_true(f->top.cursor == 0 || f->top.page == 0 || f->top.cursor >= f->top.first);
	}
}

static void test_hostile(void **state)
{
	static const struct test_sample sample = {"main;\033[2Jevil\007", "a\033]0;b\nc", 1, 1, 1000 * MS};
	struct fixture *f = *state;
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	assert_int_equal(update(f, &sample, 1), 0);
	for (enum top_view view = 0; view < TOP_VIEWS; view++) {
		press(f, '1' + view);
		shows(f, view == TOP_VIEW_PROCESSES ? "a?]0;b?c" : "?[2Jevil?");
		buffer_clear(&out);
		assert_int_equal(top_print(&f->top, 0, &out), 0);
		assert_null(memchr(out.data, '\033', out.len));
		assert_null(memchr(out.data, '\007', out.len));
	}
}

static void test_text(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	assert_int_equal(top_print(&f->top, 3, &out), 0);
	assert_string_equal(
		buffer_string(&out),
		"wick top: web-1, 2 CPUs, last 10.0 s, 12:34:56\n"
		"CPU 68.5% of 200% (kernel 11.0%); 685 samples at 99 Hz, 0 lost, 1.0% of stacks incomplete; wick itself "
		"0.0%\n\n"
		"  SELF%  TOTAL%   BINARY             FUNCTION\n"
		"   30.0    30.0   program            leaf\n"
		"   20.0    20.0   program            scan\n"
		"   10.0    10.0 K [kernel.kallsyms]  read\n");
	press(f, '2');
	buffer_clear(&out);
	assert_int_equal(top_print(&f->top, 1, &out), 0);
	assert_non_null(strstr(buffer_string(&out), "\n   65.0    10.0      10 shop            leaf\n"));
}

static int make_all(void *context)
{
	struct top top;
	enum top_action action;
	struct top_facts all = facts();
	_cleanup_(profile_freep) struct profile *profile = NULL;
	top_init(&top);
	profile = test_top_profile(test_samples, TEST_SAMPLES);
	fault_arm(FAULT_ALLOC, *(uint64_t *)context, 0);
	int r = top_update(&top, profile, &all, NULL);
	if (r == 0)
		r = top_key(&top, '5', &action, NULL);
	top_release(&top);
	return r;
}

static void test_memory(void **state)
{
	for (uint64_t n = 1;; n++) {
		int r = make_all(&n);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		if (!reached)
			break;
		assert_true(n < TEST_FAULTS_MAX);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_functions), FIXTURE_TEST(test_views),	 FIXTURE_TEST(test_places),
		FIXTURE_TEST(test_filter),    FIXTURE_TEST(test_search), FIXTURE_TEST(test_sorting),
		FIXTURE_TEST(test_settings),  FIXTURE_TEST(test_cursor), FIXTURE_TEST(test_anything),
		FIXTURE_TEST(test_hostile),   FIXTURE_TEST(test_text),	 FIXTURE_TEST(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
