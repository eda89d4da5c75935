/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles drawn, for callers that have nothing else to do with a tree. */
#include "render/flame.h"

int render_svg(const struct profile *profile, const char *title, struct buffer *out, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	int r = flame_build(profile, profile_default_sample_type(profile), FLAME_UNNAMED_BY_ADDRESS, &flame, err);
	struct svg_options options = {.title = title};
	return r < 0 ? r : svg_render(flame, &options, out, err);
}

int render_top(const struct profile *profile, const char *title, struct buffer *out, struct error *err)
{
	_cleanup_(table_release) struct table table = {0};
	size_t type = profile_default_sample_type(profile);
	const char *unit = profile->sample_type_count ? profile_string(profile, profile->sample_types[type].unit) : "";
	int r = table_build_profile(profile, type, FLAME_UNNAMED_BY_BINARY, true, &table, err);
	return r < 0 ? r : table_write_text(&table, unit, 0, out, err);
}
