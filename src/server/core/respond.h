/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to failures (respond.c). */
#ifndef WICK_SERVER_CORE_RESPOND_H
#define WICK_SERVER_CORE_RESPOND_H

#include "net/net.h"

struct server;
/* Answers with {"error": text} and a status. */
void respond_error(struct net_response *response, int status, const char *text);
/* Headers of an SVG that is made here (render/flame.h): a document that a browser opens by itself. It may run its own script
 * and nothing else, asks nobody anything, and is not of this server's origin. */
int respond_svg_policy(struct net_response *response, struct error *err);
/* The status and message of gRPC; returns the status. */
enum grpc_code respond_grpc(struct net_response *response, enum grpc_code code, const char *text);
/* The same in the form of Connect and of Pyroscope: {"code": code, "message": text}. */
void respond_code(struct net_response *response, int status, const char *code, const char *text);
/* The largest body of a request, and message in one after decompression. */
size_t server_body_max(const struct server *server);
/* The HTTP status for a negative errno of ingest or query. */
int http_status_of(int code);
enum grpc_code grpc_code_of(int code);

void pyroscope_respond(struct net_response *response, int status, const char *text); /* {"code", "message"} */

#endif
