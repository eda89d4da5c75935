/* SPDX-License-Identifier: Apache-2.0 */
/* The view as text, for files, pipes and terminals that cannot move their cursor. Names come last in a line, in full. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "top/top_int.h"

static void append_name(struct buffer *out, const char *text)
{
	text_append_harmless(out, bytes_of_string(text));
}

static void append_padded(struct buffer *out, const char *text, size_t width)
{
	size_t from = out->len;
	append_name(out, *text ? text : "-");
	size_t len = screen_text_width(bytes_skip(buffer_bytes(out), from));
	do
		buffer_append_byte(out, ' ');
	while (++len <= width);
}

static void print_title(const struct top *top, struct buffer *out)
{
	const struct top_facts *facts = &top->facts;
	buffer_append_string(out, "wick top: ");
	append_name(out, facts->where);
	if (facts->cpus)
		buffer_printf(out, ", %u CPU%s", facts->cpus, facts->cpus == 1 ? "" : "s");
	buffer_printf(out, ", last %.1f s, %s\n", (double)(facts->sum.to_ns - facts->sum.from_ns) / 1e9, facts->clock);
}

static void print_facts(const struct top *top, struct buffer *out)
{
	const struct top_facts *facts = &top->facts;
	const struct top_interval *sum = &facts->sum;
	char count[TEXT_NUMBER_MAX];
	buffer_printf(out, "CPU %.1f%%", top_percent(top, top->total));
	if (facts->cpus)
		buffer_printf(out, " of %.0f%%", top->is_of_machine ? 100.0 : 100.0 * facts->cpus);
	buffer_printf(out, " (kernel %.1f%%); %s samples", top_percent(top, top->kernel), text_format_count(sum->taken, count));
	if (facts->frequency_hz)
		buffer_printf(out, " at %u Hz", facts->frequency_hz);
	if (facts->has_losses)
		buffer_printf(out, ", %s lost, %.1f%% of stacks incomplete", text_format_count(sum->lost, count),
			      sum->stacks ? 100.0 * (double)sum->incomplete / (double)sum->stacks : 0);
	if (facts->has_cost)
		buffer_printf(out, "; wick itself %.1f%%", top_percent(top, sum->own_cpu_ns));
	buffer_append_byte(out, '\n');
}

static void print_choice(const struct top *top, struct buffer *out)
{
	const struct {
		bool is_on;
		const char *text, *of;
	} parts[] = {{top->filter[0], "filter: ", top->filter},
		     {top->choice.hides_kernel, "kernel hidden", ""},
		     {top->choice.shows_interpreters, "interpreters shown", ""},
		     {top->is_of_machine, "% of the machine", ""},
		     {top->facts.pending != 0, "some symbols are not read yet", ""},
		     {top->facts.note[0], "", top->facts.note}};
	const char *gap = "";
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (!parts[i].is_on)
			continue;
		buffer_printf(out, "%s%s", gap, parts[i].text);
		append_name(out, parts[i].of);
		gap = "; ";
	}
	buffer_append_string(out, *gap ? "\n\n" : "\n");
}

static void print_heading(const struct top *top, struct buffer *out)
{
	static const char *const headings[TOP_VIEWS] = {
		[TOP_VIEW_FUNCTIONS] = "  SELF%  TOTAL%   BINARY             FUNCTION",
		[TOP_VIEW_PROCESSES] = "   CPU% KERNEL%     PID PROCESS         HOTTEST FUNCTION",
		[TOP_VIEW_THREADS] = "   CPU% KERNEL%     PID     TID THREAD          PROCESS         HOTTEST FUNCTION",
		[TOP_VIEW_BINARIES] = "  SELF%  TOTAL% KERNEL% BINARY             HOTTEST FUNCTION",
		[TOP_VIEW_TREE] = " TOTAL%   SELF%   FUNCTION",
		[TOP_VIEW_FLAME] = " TOTAL%   SELF%   FUNCTION",
	};
	buffer_printf(out, "%s\n", headings[top->view]);
}

static void print_row(const struct top *top, const struct top_row *row, struct buffer *out)
{
	buffer_printf(out, "%7.1f ", top_percent(top, row->self));
	if (top->view == TOP_VIEW_FUNCTIONS || top->view == TOP_VIEW_BINARIES)
		buffer_printf(out, "%7.1f ", top_percent(top, row->total));
	if (top->view != TOP_VIEW_FUNCTIONS)
		buffer_printf(out, "%7.1f ", top_percent(top, row->kernel));
	if (top->view == TOP_VIEW_FUNCTIONS)
		buffer_printf(out, "%s ", top_mark_of_type(row->frame_type));
	if (top->view == TOP_VIEW_PROCESSES || top->view == TOP_VIEW_THREADS)
		buffer_printf(out, "%7.20s ", row->pid);
	if (top->view == TOP_VIEW_THREADS)
		buffer_printf(out, "%7.20s ", row->tid);
	append_padded(out, top->view == TOP_VIEW_FUNCTIONS ? row->binary : row->name,
		      top->view == TOP_VIEW_PROCESSES || top->view == TOP_VIEW_THREADS ? 15 : 18);
	if (top->view == TOP_VIEW_THREADS)
		append_padded(out, row->process, 15);
	append_name(out, top->view == TOP_VIEW_FUNCTIONS ? row->name : row->hottest);
	buffer_append_byte(out, '\n');
}

static void print_item(const struct top *top, size_t at, struct buffer *out)
{
	const struct top_tree_item *item = &top->tree.items[at];
	char branches[1024];
	top_write_branches(top, (uint32_t)at, branches, sizeof(branches));
	buffer_printf(out, "%7.1f %7.1f %s %s", top_percent(top, item->total), top_percent(top, item->self),
		      top_mark_of_type(item->frame_type), branches);
	append_name(out, item->name);
	buffer_append_byte(out, '\n');
}

int top_print(const struct top *top, size_t limit, struct buffer *out)
{
	size_t length = top_length(top), count = limit && limit < length ? limit : length;
	print_title(top, out);
	print_facts(top, out);
	print_choice(top, out);
	print_heading(top, out);
	for (size_t i = 0; i < count; i++) {
		if (top_is_table(top))
			print_row(top, &top->rows.items[top->rows.shown[i]], out);
		else
			print_item(top, i, out);
	}
	return buffer_status(out);
}
