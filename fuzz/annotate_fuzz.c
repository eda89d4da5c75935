/* SPDX-License-Identifier: Apache-2.0 */
/* A profile, a line that begins with "====", and markers: whatever they are, what is written is JSON, and a profile again that
 * can be annotated. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "codec/json_tree.h"
#include "format/annotate/annotate.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char separator[] = "\n====\n";

static int file_of(const uint8_t *data, size_t size)
{
	int fd = input_make_nameless(NULL);
	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	return fd;
}

static int annotate(struct bytes base, const char *markers, const char *thread, struct buffer *out)
{
	struct annotate *annotate;
	struct input *input;
	struct annotate_stats stats;
	struct annotate_options options = {.title = "title"};
	struct format_sink sink = {.out = out};
	must(annotate_new(&annotate, NULL) == 0);
	must(input_from_fd(file_of(base.data, base.len), "base", UINT64_MAX, &input, NULL) == 0);
	int r = annotate_add_markers(annotate, markers, thread, NULL);
	if (r == 0)
		r = annotate_write(annotate, input, &options, &sink, &stats, NULL);
	must(r < 0 || stats.new_threads <= stats.threads);
	annotate_free(annotate);
	input_free(input);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *middle = memmem(data, size, separator, strlen(separator));
	if (!middle)
		return 0;
	const uint8_t *markers = middle + strlen(separator);
	struct buffer out, again;
	char path[64];
	int fd = file_of(markers, size - (size_t)(markers - data));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	buffer_init(&out, SIZE_MAX);
	buffer_init(&again, SIZE_MAX);
	if (annotate((struct bytes){data, (size_t)(middle - data)}, path, "1:2", &out) == 0) {
		struct json_tree *tree = NULL;
		struct error err = {0};
		int r = json_tree_read(buffer_bytes(&out), 0, &tree, &err);
		must(r == 0 || strstr(err.message, "UTF") || strstr(err.message, "range") || strstr(err.message, "memory"));
		json_tree_free(tree);
		must(annotate(buffer_bytes(&out), path, "1:2", &again) == 0);
	}
	buffer_release(&out);
	buffer_release(&again);
	close(fd);
	return 0;
}
