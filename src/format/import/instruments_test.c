/* SPDX-License-Identifier: Apache-2.0 */
#include "format/test_text.h"

static const struct format *const tested = &format_instruments;

static const char old[] = "Running Time\tSelf (ms)\t\tSymbol Name\n"
			  "43.0ms   99.9%\t0\t \tstart\n"
			  "43.0ms   99.9%\t3\t \t main\n"
			  "30.5ms   49.7%\t30.5\t \t  delta()\n"
			  "9.5ms    9.7%\t9.5\t \t  beta(int, char)\n"
			  "1.0ms    0.1%\t1\t \tthread_start\n";
static const char new[] = "Weight\tSelf Weight\tSymbol Names\r\n"
			  "4.93 s  100.0%\t0 s\t   start\r\n"
			  "4.93 s  99.9%\t1.50 s\t    main\r\n"
			  "846.00 ms  0.0%\t846.00 ms\t     delta()\r\n";
static const char cycles[] = "Weight\tSelf Weight\t\tSymbol Name\n"
			     "96.08 Gc  100.0%\t-\t \tapp (40414)\n"
			     "96.08 Gc  100.0%\t404.75 Mc\t \t main\n";
static const char allocations[] = "Bytes Used\tCount\t\tSymbol Name\n"
				  " 2.00 MB     100.0%\t84671\t \tstart\n"
				  " 2.00 MB     100.0%\t84671\t \t main\n"
				  " 1,024.00 KB      50.4%\t42749\t \t  delta()\n"
				  "nothing\n";

static void test_forms(void **state)
{
	check_text(
		old, "cpu",
		"start;main 3000000\nstart;main;beta(int, char) 9500000\nstart;main;delta() 30500000\nthread_start 1000000\n");
	check_text(new, "cpu", "start;main 1500000000\nstart;main;delta() 846000000\n");
	check_text(cycles, "cycles", "app (40414);main 404750000\n");
	/* Without values of functions by themselves: what is left. */
	check_text(allocations, "space", "start;main 1048576\nstart;main;delta() 1048576\n");
	assert_string_equal(buffer_string(&notes), "1 lines without a value\n");
}

/* More below a line than it has itself, beyond 64 bits. */
static void test_out_of_range(void **state)
{
	check_text("Bytes Used\tCount\t\tSymbol Name\n1 Bytes\t1\t \tstart\n"
		   "4000000000000000000 Bytes\t1\t \t a\n4000000000000000000 Bytes\t1\t \t b\n4000000000000000000 Bytes\t1\t "
		   "\t c\n",
		   "space", "start;a 4000000000000000000\nstart;b 4000000000000000000\nstart;c 4000000000000000000\n");
}

static void test_refused(void **state)
{
	refuse("Weight\n", "no header of a deep copy");
	assert_null(format_detect(bytes_of_string("Symbol Name\tWeight\n")));
}

static void test_damaged(void **state)
{
	check_damaged(tested, bytes_of_string(old));
	check_damaged(tested, bytes_of_string(allocations));
}

static void test_no_memory(void **state)
{
	check_no_memory(tested, bytes_of_string(old));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),	cmocka_unit_test(test_out_of_range), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, release_notes);
}
