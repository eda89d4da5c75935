/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph as one SVG file that needs nothing else: it can be mailed, attached to a ticket, opened from disk.
 *
 * Layout. One row a depth, one rectangle a node, as wide as its share of the total. The tree is in pre-order with siblings by
 * falling total, so one pass places everything: a node starts where its sibling before it ended, and its first child starts
 * where it starts itself; one position a depth is all that has to be remembered. Nodes narrower than 0.1 px are left out (and
 * so is all above them, which is no wider) and counted in the subtitle.
 *
 * Each frame is <g class="f"><title>NAME\nDETAILS</title><rect/><text/></g>: the title is the browser's tooltip, the text is
 * what fits. The script reads positions and names back from these elements, so that nothing is in the file twice, and without
 * scripts the file is still a picture.
 *
 * Colours say where code comes from: the kernel is red to orange, each binary has a hue of its own, chosen by its name, so that
 * it is the same in all graphs. Functions of one binary differ a little in lightness. Unknown is grey.
 *
 * XML. Names are data from outside: ill-formed UTF-8 and characters that XML 1.0 cannot hold are replaced, the five special
 * ones are escaped. Numbers are printed from integers, because a locale may want a decimal comma.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/text.h"
#include "render/flame_int.h"
#include "render/svg_script.h"

#define WIDTH_DEFAULT 1200
#define WIDTH_MIN     200
#define WIDTH_MAX     20000
#define ROW_PX	      17
#define FRAME_PX      16
#define MARGIN_PX     10
#define HEAD_PX	      58
#define FOOT_PX	      30
#define CHAR_PX	      7.0
#define NARROWEST_PX  0.1

struct drawing {
	const struct flame *flame;
	struct buffer *out;
	bool icicle;
	unsigned width, height;
	uint32_t deepest; /* row of those that are drawn */
	size_t left_out;
	double px_per_value;
	double *at; /* by depth: where the next node starts */
	struct buffer scratch;
	int (*drain)(void *context); /* NULL = it is made whole */
	void *context;
};

/* ---- text ---- */

static void append_escaped(struct buffer *out, struct bytes text)
{
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.data[i];
		const char *escape = c == '&'		     ? "&amp;"
				     : c == '<'		     ? "&lt;"
				     : c == '>'		     ? "&gt;"
				     : c == '"'		     ? "&quot;"
				     : c == '\''	     ? "&#39;"
				     : c < 0x20 || c == 0x7f ? "?"
							     : NULL;
		/* U+FFFE and U+FFFF are UTF-8 but no XML characters. */
		bool is_nonchar = c == 0xef && i + 2 < text.len && text.data[i + 1] == 0xbf && text.data[i + 2] >= 0xbe;
		if (escape || is_nonchar)
			buffer_append_string(out, escape ? escape : "?");
		else
			buffer_append_byte(out, c);
		i += is_nonchar ? 2 : 0;
	}
}

/* Repaired, cut to max_chars characters (the last two become ".." then), escaped. */
static void append_text(struct drawing *drawing, const char *text, size_t max_chars)
{
	buffer_clear(&drawing->scratch);
	text_append_utf8(&drawing->scratch, bytes_of_string(text));
	struct bytes all = buffer_bytes(&drawing->scratch);
	size_t chars = 0, fitting_len = 0;
	for (size_t i = 0; i < all.len; i++) {
		if ((all.data[i] & 0xc0) == 0x80)
			continue;
		if (max_chars >= 2 && chars == max_chars - 2)
			fitting_len = i;
		chars++;
	}
	bool fits = chars <= max_chars;
	buffer_fail(drawing->out, buffer_status(&drawing->scratch));
	if (!fits && max_chars < 3)
		return;
	append_escaped(drawing->out, (struct bytes){all.data, fits ? all.len : fitting_len});
	buffer_append_string(drawing->out, fits ? "" : "..");
}

/* Three decimals, so that frames are still where they belong when they are zoomed. */
static void append_px(struct buffer *out, const char *name, double value)
{
	long long thousandths = llround(fmax(value, 0) * 1000);
	buffer_printf(out, " %s=\"%lld.%03lld\"", name, thousandths / 1000, thousandths % 1000);
}

static void append_percent(struct buffer *out, int64_t value, int64_t total)
{
	long long hundredths = total ? llround((double)value / (double)total * 10000) : 0;
	buffer_printf(out, "%lld.%02lld%%", hundredths / 100, hundredths % 100);
}

/* ---- colour ---- */

static unsigned channel(double hue, double saturation, double lightness, double offset)
{
	double k = fmod(offset + hue / 30, 12), a = saturation * fmin(lightness, 1 - lightness);
	double value = lightness - a * fmax(-1, fmin(fmin(k - 3, 9 - k), 1));
	return (unsigned)lround(value * 255);
}

static unsigned color_of(const struct flame *flame, const struct flame_node *node)
{
	struct bytes binary = intern_get(&flame->strings, node->binary), name = intern_get(&flame->strings, node->name);
	double hue, saturation = 0.6, lightness = 0.62 + (double)(hash64(name.data, name.len) % 100) / 100 * 0.12;
	if (node->parent == 0 && node->depth == 0)
		return 0xd0d0d0;
	if (node->frame_type == PROFILE_FRAME_KERNEL) {
		hue = 8 + (double)(hash64(name.data, name.len) % 24);
		saturation = 0.85;
	} else if (binary.len > 0) {
		hue = 50 + (double)(hash64(binary.data, binary.len) % 270);
	} else {
		/* Without a binary the source file is the next best. */
		struct bytes file = intern_get(&flame->strings, node->file);
		hue = 50 + (double)(hash64(file.data, file.len) % 270);
		saturation = file.len > 0 ? 0.45 : 0.08;
	}
	if (node->inlined)
		lightness += 0.08;
	return channel(hue, saturation, lightness, 0) << 16 | channel(hue, saturation, lightness, 8) << 8 |
	       channel(hue, saturation, lightness, 4);
}

/* ---- frames ---- */

static void append_title(struct drawing *drawing, const struct flame_node *node)
{
	static const char *const kinds[8] = {"", "", "kernel", "jit", "interpreted", "", "", ""};
	const struct flame *flame = drawing->flame;
	char total[64], self[64];
	render_format_value(node->total, flame->unit, total, sizeof(total));
	render_format_value(node->self, flame->unit, self, sizeof(self));
	buffer_append_string(drawing->out, "<title>");
	append_text(drawing, intern_string(&flame->strings, node->name), SIZE_MAX);
	buffer_printf(drawing->out, "\n%s, ", total);
	append_percent(drawing->out, node->total, flame->total);
	buffer_printf(drawing->out, "; self %s, ", self);
	append_percent(drawing->out, node->self, flame->total);
	const char *const details[] = {intern_string(&flame->strings, node->binary), intern_string(&flame->strings, node->file),
				       kinds[node->frame_type & 7], node->inlined ? "inlined" : ""};
	for (size_t i = 0; i < 4; i++) {
		if (!*details[i])
			continue;
		buffer_append_string(drawing->out, i == 0 || !*details[i - 1] ? "\n" : ", ");
		append_text(drawing, details[i], SIZE_MAX);
	}
	buffer_append_string(drawing->out, "</title>");
}

static unsigned row_y(const struct drawing *drawing, uint32_t depth)
{
	uint32_t row = drawing->icicle ? depth : drawing->deepest - depth;
	return HEAD_PX + row * ROW_PX;
}

static void append_frame(struct drawing *drawing, const struct flame_node *node, double x, double width)
{
	struct buffer *out = drawing->out;
	unsigned y = row_y(drawing, node->depth);
	buffer_append_string(out, "<g class=\"f\">");
	append_title(drawing, node);
	buffer_append_string(out, "<rect");
	append_px(out, "x", x);
	append_px(out, "width", width);
	buffer_printf(out, " y=\"%u\" height=\"%d\" rx=\"1\" fill=\"#%06x\"/><text", y, FRAME_PX,
		      color_of(drawing->flame, node));
	append_px(out, "x", x + 3);
	buffer_printf(out, " y=\"%u\">", y + 12);
	if (width > 3 * CHAR_PX)
		append_text(drawing, intern_string(&drawing->flame->strings, node->name), (size_t)((width - 6) / CHAR_PX));
	buffer_append_string(out, "</text></g>\n");
}

/* Sends what is there, if it is enough. */
static void drain(struct drawing *drawing)
{
	if (!drawing->drain || drawing->out->len < JSON_DRAIN_BYTES || buffer_status(drawing->out) < 0)
		return;
	int r = drawing->drain(drawing->context);
	if (r < 0)
		buffer_fail(drawing->out, r);
}

/* One pass over the tree. With draw == false it only finds out how deep the drawing is and how much is left out. */
static void walk(struct drawing *drawing, bool draw)
{
	const struct flame *flame = drawing->flame;
	drawing->at[0] = MARGIN_PX;
	drawing->left_out = 0;
	for (size_t i = 0; i < flame->count && buffer_status(drawing->out) == 0; i++) {
		const struct flame_node *node = &flame->nodes[i];
		double x = drawing->at[node->depth], width = (double)node->total * drawing->px_per_value;
		if (node->total > 0)
			drawing->at[node->depth] += width;
		drawing->at[node->depth + 1] = x;
		if (node->total <= 0 || width < NARROWEST_PX) {
			drawing->left_out += i > 0;
			continue;
		}
		if (!draw && node->depth > drawing->deepest)
			drawing->deepest = node->depth;
		if (draw) {
			append_frame(drawing, node, x, width);
			drain(drawing);
		}
	}
}

/* ---- the file ---- */

static void append_subtitle(struct drawing *drawing)
{
	const struct flame *flame = drawing->flame;
	char total[64], samples[TEXT_NUMBER_MAX], left_out[TEXT_NUMBER_MAX];
	render_format_value(flame->total, flame->unit, total, sizeof(total));
	append_text(drawing, flame->type, SIZE_MAX);
	buffer_printf(drawing->out, " %s, %s %s", total, text_format_count(flame->sample_count, samples),
		      flame->sample_count == 1 ? "sample" : "samples");
	if (drawing->left_out > 0)
		buffer_printf(drawing->out, "; %s %s too narrow to be drawn", text_format_count(drawing->left_out, left_out),
			      drawing->left_out == 1 ? "frame is" : "frames are");
}

static void append_head(struct drawing *drawing, const char *title)
{
	struct buffer *out = drawing->out;
	unsigned width = drawing->width, height = drawing->height;
	buffer_printf(out,
		      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" "
		      "width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\">\n<style>%s</style>\n"
		      "<rect id=\"page\" width=\"100%%\" height=\"100%%\"/>\n<text id=\"title\" x=\"%u\" y=\"24\">",
		      width, height, width, height, svg_style, width / 2);
	append_text(drawing, title, SIZE_MAX);
	buffer_printf(out, "</text>\n<text id=\"subtitle\" x=\"%u\" y=\"42\">", width / 2);
	append_subtitle(drawing);
	buffer_printf(out,
		      "</text>\n<text id=\"reset\" class=\"b\" x=\"%d\" y=\"24\">Reset zoom</text>\n"
		      "<text id=\"search\" class=\"b\" x=\"%u\" y=\"24\">Search</text>\n"
		      "<text id=\"matched\" x=\"%u\" y=\"42\"></text>\n<text id=\"details\" x=\"%d\" y=\"%u\"> </text>\n"
		      "<g id=\"frames\" data-x=\"%d\" data-width=\"%u\">\n",
		      MARGIN_PX, width - MARGIN_PX, width - MARGIN_PX, MARGIN_PX, height - 10, MARGIN_PX,
		      width - 2 * MARGIN_PX);
}

static void append_all(struct drawing *drawing, const char *title)
{
	append_head(drawing, title);
	walk(drawing, true);
	buffer_append_string(drawing->out, "</g>\n<script><![CDATA[");
	svg_append_script(drawing->out);
	buffer_append_string(drawing->out, "]]></script>\n</svg>\n");
}

int svg_append_script(struct buffer *out)
{
	buffer_append_string(out, "\n");
	return buffer_append_string(out, svg_script);
}

static unsigned clamp_width(unsigned width)
{
	if (width == 0)
		return WIDTH_DEFAULT;
	return width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
}

static void drawing_release(struct drawing *drawing)
{
	drawing->at = mem_free(drawing->at);
	buffer_release(&drawing->scratch);
}

int svg_render(const struct flame *flame, const struct svg_options *options, struct buffer *out, struct error *err)
{
	static const struct svg_options defaults;
	if (!options)
		options = &defaults;
	_cleanup_(drawing_release) struct drawing drawing = {.flame = flame,
							     .out = out,
							     .icicle = options->icicle,
							     .width = clamp_width(options->width_px),
							     .scratch.max = SIZE_MAX,
							     .drain = options->drain,
							     .context = options->context};
	drawing.at = mem_zalloc_array((size_t)flame_max_depth(flame) + 2, sizeof(*drawing.at));
	if (!drawing.at)
		return error_nomem(err);
	if (flame->total > 0)
		drawing.px_per_value = (double)(drawing.width - 2 * MARGIN_PX) / (double)flame->total;
	walk(&drawing, false);
	drawing.height = HEAD_PX + (drawing.deepest + 1) * ROW_PX + FOOT_PX;
	size_t start = out->len;
	append_all(&drawing, options->title ? options->title : "Flame graph");
	int r = buffer_status(out);
	if (r == 0)
		return 0;
	buffer_truncate(out, start < out->len ? start : out->len); /* some may have been drained */
	if (r != -E2BIG && r != -ENOMEM)
		return error_set_errno(err, r, "cannot send the SVG");
	return r == -E2BIG ? error_set(err, r, "the SVG is larger than %zu bytes; select less", out->max) : error_nomem(err);
}
