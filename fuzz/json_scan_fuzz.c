/* SPDX-License-Identifier: Apache-2.0 */
/* JSON walked through: what is passed is what json_tree takes for JSON, too, and is copied as it is. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "codec/json_scan.h"
#include "codec/json_tree.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int append(void *context, struct bytes bytes, struct error *err)
{
	(void)err;
	return buffer_append(context, bytes.data, bytes.len);
}

/* Values are asked for in every way, by what they begin with. */
static int walk(struct json_scan *scan, unsigned depth)
{
	struct bytes text;
	int64_t number;
	char kind = json_scan_peek(scan);
	int r;
	if (kind == '[' && depth < 100) {
		r = json_scan_open(scan, kind);
		while (r == 0 && (r = json_scan_item(scan)) > 0)
			r = walk(scan, depth + 1);
		return r;
	}
	if (kind == '{' && depth < 100) {
		r = json_scan_open(scan, kind);
		while (r == 0 && (r = json_scan_member(scan, &text)) > 0)
			r = walk(scan, depth + 1);
		return r;
	}
	r = kind == '"'	  ? json_scan_text(scan, &text)
	    : kind == 't' ? json_scan_integer(scan, &number)
	    : kind == '0' ? json_scan_micro(scan, &number)
			  : json_scan_raw(scan, &text);
	return r < 0 ? r : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input *input;
	struct json_scan scan;
	struct buffer copy;
	int fd = input_make_nameless(NULL);
	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	must(input_from_fd(fd, "x", UINT64_MAX, &input, NULL) == 0);
	buffer_init(&copy, SIZE_MAX);
	for (int way = 0; way < 2; way++) {
		buffer_clear(&copy);
		struct error why = {0};
		must(json_scan_init(&scan, input, &why) == 0);
		json_scan_set_sink(&scan, append, &copy);
		json_scan_copy(&scan, true);
		if (way)
			walk(&scan, 0);
		else
			json_scan_skip(&scan);
		int r = json_scan_finish(&scan);
		json_scan_release(&scan);
		struct json_tree *tree = NULL;
		struct error err = {0};
		int read = json_tree_read((struct bytes){data, size}, 0, &tree, &err);
		/* The tree has limits of its own on texts and numbers; it takes vertical tabs and form feeds for blanks, and
		 * does not see what follows if that has no end. */
		bool odd = memchr(data, '\v', size) || memchr(data, '\f', size) || strstr(why.message, "512") ||
			   strstr(why.message, "follows");
		if (read == 0)
			must(r == 0 || odd);
		else if (r == 0)
			must(strstr(err.message, "UTF") || strstr(err.message, "range") || read == -E2BIG);
		must(r < 0 || (copy.len == size && memcmp(copy.data, data, size) == 0));
		json_tree_free(tree);
	}
	buffer_release(&copy);
	input_free(input);
	return 0;
}
