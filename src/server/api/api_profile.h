/* SPDX-License-Identifier: Apache-2.0 */
/* Private to api_*.c: profiles as answers. */
#ifndef WICK_SERVER_API_API_PROFILE_H
#define WICK_SERVER_API_API_PROFILE_H

#include "profile/profile.h"
#include "server/core/server_int.h"

/* Whether there is such a format to answer in: what format.h writes, `svg`, `top`, and `html` where there are pages. -EINVAL
 * names the parameter. */
int api_check_profile_format(const struct server *server, const char *parameter, const char *name, struct error *err);
/* The body and headers of an answer, in a format that there is. title: any text, for formats that have one. file_name: of the
 * file that a browser makes of it, without an extension; letters, digits, '-', '_' and '.'. */
int api_write_profile(const struct server *server, const struct profile *profile, const char *title, const char *file_name,
		      const char *format, struct net_response *response, struct error *err);

#endif
