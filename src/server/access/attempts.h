/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong tokens, by address. Whoever guesses is to get slower, and nobody else: essay at the top of attempts.c.
 */
#ifndef WICK_SERVER_ACCESS_ATTEMPTS_H
#define WICK_SERVER_ACCESS_ATTEMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/access/tokens.h"

#define ATTEMPTS_FREE	     5u /* wrong ones without a delay */
#define ATTEMPTS_DELAY_MAX_S 60
#define ATTEMPTS_FORGET_S    900
#define ATTEMPTS_LOGIN_S     3600 /* after so long without a request, the next one is a login */

struct attempts;
struct attempts *attempts_new(void); /* NULL without memory */
struct attempts *attempts_free(struct attempts *attempts);
/* peer: net_request_peer(). How long it has to wait until a token of its is looked at again; 0 = now. Whoever used this very
 * token from this address lately does not wait. Any thread, as all of these; attempts NULL: nobody waits. */
int64_t attempts_wait_ns(struct attempts *attempts, uint64_t peer, const uint8_t hash[static TOKEN_HASH_BYTES], int64_t now_ns);
void attempts_failed(struct attempts *attempts, uint64_t peer, int64_t now_ns);
/* True = a login. */
bool attempts_succeeded(struct attempts *attempts, uint64_t peer, const uint8_t hash[static TOKEN_HASH_BYTES], int64_t now_ns);

#endif
