/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/runtimes.h"

const struct profile_runtime *profile_runtime_of(struct bytes word)
{
	static const struct profile_runtime runtimes[] = {
		{"python", "cpython", PROFILE_FRAME_INTERPRETED},
		{"v8js", "v8js", PROFILE_FRAME_JIT},
		{"jvm", "jvm", PROFILE_FRAME_JIT},
		{"beam", "beam", PROFILE_FRAME_JIT},
		{"php", "php", PROFILE_FRAME_INTERPRETED},
		{"ruby", "ruby", PROFILE_FRAME_INTERPRETED},
		{"perl", "perl", PROFILE_FRAME_INTERPRETED},
		{"lua", "lua", PROFILE_FRAME_INTERPRETED},
		{"luajit", "luajit", PROFILE_FRAME_JIT},
	};
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (bytes_equal_string(word, runtimes[i].word))
			return &runtimes[i];
	return NULL;
}
