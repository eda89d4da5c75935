/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about an opened profile, whose only binary is this program: the first byte says which of the three. An answer is a
 * JSON object, and a failure says why. */
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "codec/json_tree.h"
#include "must.h"
#include "server/viewer/local_viewer_int.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct local_viewer viewer;

static uint32_t add_string(struct profile *profile, const char *text)
{
	uint32_t id;
	must(profile_add_cstring(profile, text, &id, NULL) == 0);
	return id;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[4096];
	struct profile *profile = NULL;
	uint32_t mapping;
	struct symbolizer_options options = {.own_files = true};
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	(void)argc, (void)argv;
	must(len > 0 && profile_new(&profile, NULL) == 0);
	path[len] = '\0';
	/* Without a build-id, which would have to be in the seeds. */
	struct profile_mapping binary = {.start = 0x400000, .limit = 0x8000000, .file_name = add_string(profile, path)};
	must(profile_add_mapping(profile, &binary, &mapping, NULL) == 0);
	must(symbolizer_new(&options, &viewer.symbolizer, NULL) == 0);
	viewer.profile = profile;
	must(local_viewer_list_modules(&viewer, NULL) == 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const atomic_bool go_on = false;
	struct buffer out;
	struct error err = {0};
	if (size == 0)
		return 0;
	buffer_init(&out, 16 * MIB);
	int r = local_viewer_answer(&viewer, (enum local_viewer_question)(data[0] % 3), (struct bytes){data + 1, size - 1},
				    &go_on, &out, &err);
	must(r == 0 || (r < 0 && err.message[0]));
	if (r == 0) {
		struct json_tree *tree = NULL;
		must(json_tree_read(buffer_bytes(&out), 0, &tree, NULL) == 0);
		must(json_node_is(json_tree_root(tree), JSON_NODE_OBJECT));
		json_tree_free(tree);
	}
	buffer_release(&out);
	return 0;
}
