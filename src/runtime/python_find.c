// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a file holds CPython's interpreter: an executable that it is linked into, or libpython. Names of files say nothing:
 * interpreters are embedded, renamed and put into applications. What counts is the function that runs bytecode and the variable
 * with the runtime's state, which every build exports for extension modules (PyAPI_FUNC, PyAPI_DATA), also stripped ones; of
 * those that export nothing, the symbol table is enough.
 *
 * The version is in the variable Py_Version since 3.11. What is older is told by which functions there are: each version of the
 * C API added some.
 */
#include <errno.h>

#include "elf/elf_symbols.h"
#include "runtime/loop.h"
#include "runtime/python.h"

enum name {
	NAME_LOOP,
	NAME_RUNTIME,
	NAME_CURRENT,
	NAME_VERSION,
	NAME_COLD,
	NAME_SINCE_3_8,
	NAME_SINCE_3_9,
	NAME_SINCE_3_10,
	NAMES
};

static const char *const names[NAMES] = {
	[NAME_LOOP] = "_PyEval_EvalFrameDefault",
	[NAME_RUNTIME] = "_PyRuntime",
	[NAME_CURRENT] = "_PyThreadState_Current", /* 3.6 */
	[NAME_VERSION] = "Py_Version",
	[NAME_COLD] = "_PyEval_EvalFrameDefault.cold",
	[NAME_SINCE_3_8] = "PyConfig_InitPythonConfig",
	[NAME_SINCE_3_9] = "PyThreadState_GetFrame",
	[NAME_SINCE_3_10] = "PyIter_Send",
};

static uint32_t version_of(struct elf_file *file, const struct elf_named *found)
{
	uint32_t hex = 0;

	if (found[NAME_VERSION].address && loop_read(file, found[NAME_VERSION].address, &hex, sizeof(hex)) == 0)
		return hex >> 16;
	if (!found[NAME_RUNTIME].address)
		return 0x0306;
	if (found[NAME_SINCE_3_10].address)
		return 0x030a;
	if (found[NAME_SINCE_3_9].address)
		return 0x0309;
	return found[NAME_SINCE_3_8].address ? 0x0308 : 0x0307;
}

static int find_loop(struct elf_file *file, const struct elf_named *found, struct python_build *build, struct error *err)
{
	const struct elf_named *loop = &found[NAME_LOOP];
	struct loop_code code;
	int r;

	build->loop_start = loop->address;
	if (build->version >= 0x030c) { /* found by what lies in its frame */
		if (elf_file_find_loaded(file, loop->address, &build->loop_offset))
			return 0;
		return error_set(err, -ENOTSUP, "CPython whose %s is not in the file", loop->name);
	}
	r = loop_find(file, loop, &found[NAME_COLD], "CPython", &code, err);
	if (r < 0)
		return r;
	build->loop_offset = code.offset;
	build->loop_end = code.end;
	build->cold_start = code.cold_start;
	build->cold_end = code.cold_end;
	return 0;
}

/* ---- */

static int find_layout(struct elf_file *file, struct python_build *build, struct error *err)
{
	_Alignas(8) uint8_t published[PYTHON_PUBLISHED_BYTES_MAX];

	if (build->version < 0x030d) {
		if (python_layout_of(build->version, &build->layout))
			return 0;
		return error_set(err, -ENOTSUP, "CPython %u.%u, which is not known", build->version >> 8,
				 build->version & 0xff);
	}
	if (loop_read(file, build->runtime, published, sizeof(published)) < 0)
		return error_set(err, -ENOTSUP, "CPython whose _PyRuntime is not in the file");
	build->is_published = true;
	return python_layout_published((struct bytes){published, sizeof(published)}, &build->version, &build->is_free_threaded,
				       &build->layout, err);
}

int python_recognize(struct elf_file *file, struct python_build *ret, struct error *err)
{
	struct elf_named found[NAMES] = {0};

	*ret = (struct python_build){0};
	for (size_t i = 0; i < NAMES; i++)
		found[i].name = names[i];
	int r = elf_named_find(file, found, NAMES, err);
	if (r < 0)
		return r;
	if (!found[NAME_LOOP].address || (!found[NAME_RUNTIME].address && !found[NAME_CURRENT].address))
		return 0;
	if (!file->is_64)
		return error_set(err, -ENOTSUP, "CPython for a 32-bit machine");
	ret->version = version_of(file, found);
	ret->runtime = found[ret->version == 0x0306 ? NAME_CURRENT : NAME_RUNTIME].address;
	r = find_loop(file, found, ret, err);
	if (r == 0)
		r = find_layout(file, ret, err);
	return r < 0 ? r : 1;
}

void python_place(const struct python_build *build, uint64_t bias, struct python_process *ret)
{
	const struct python_layout *layout = &build->layout;

	*ret = layout->walk;
	ret->listed.kind = RUNTIME_KIND_PYTHON;
	ret->listed.loop_start = build->loop_start + bias;
	ret->listed.loop_end = build->loop_end + (build->loop_end ? bias : 0);
	ret->listed.cold_start = build->cold_start + (build->cold_end ? bias : 0);
	ret->listed.cold_end = build->cold_end + (build->cold_end ? bias : 0);
	if (build->version == 0x0306)
		ret->holder = build->runtime + bias;
	else if (layout->runtime_holder)
		ret->holder = build->runtime + bias + layout->runtime_holder;
	if (layout->runtime_interpreters)
		ret->interpreters = build->runtime + bias + layout->runtime_interpreters;
}
