/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on everything that somebody outside controls. Those that an operator may change are defaults of a configuration
 * setting; the rest are fixed. Sizes in bytes. */
#ifndef WICK_BASE_LIMITS_H
#define WICK_BASE_LIMITS_H

#define KIB (1024ull)
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)

/* A profile, in memory */
#define LIMIT_PROFILE_INPUT_BYTES  (64 * MIB)	       /* body of one upload, as it comes; of OTLP decompressed, too */
#define LIMIT_PROFILE_FILE_BYTES   (2 * GIB)	       /* a file given to convert, after decompression */
#define LIMIT_PROFILE_ENTITIES	   (64u * 1024 * 1024) /* entries in any one table of a profile */
#define LIMIT_PROFILE_STRING_BYTES (1 * GIB)	       /* all strings of a profile together */
#define LIMIT_VALUES_PER_ENTITY	   4		       /* values of all samples: so many times the entries of a table */
#define LIMIT_STACK_DEPTH	   16384	       /* frames in one stack */
#define LIMIT_SAMPLE_TYPES	   32
#define LIMIT_LABELS_PER_SERIES	   48
#define LIMIT_LABEL_NAME_BYTES	   256
#define LIMIT_LABEL_VALUE_BYTES	   4096
#define LIMIT_SELECTOR_BYTES	   (16 * KIB)
#define LIMIT_NUMBERS_BYTES	   1024		 /* the numbers of one sample, as a text (profile/numbers.h) */
#define LIMIT_NUMBERS_PER_HEAD	   (64u * 1024)	 /* distinct ones of those, in what becomes a block */
#define LIMIT_NUMBERS_PER_BLOCK	   (256u * 1024) /* and in a block that others are merged into */

/* The table of hosts (store/hosts.h) */
#define LIMIT_HOSTS	       20000u
#define LIMIT_HOST_LABELS      32u   /* of one host at a time */
#define LIMIT_HOST_LABEL_NAMES 1024u /* different ones */
#define LIMIT_HOST_RUNS	       128u  /* of one host: its labels, and so many changes less one; the oldest go */
#define LIMIT_HOSTS_BYTES      (32 * MIB)

/* The server */
#define LIMIT_HTTP_HEADER_BYTES (32 * KIB)
#define LIMIT_CONNECTIONS	16384
#define LIMIT_REQUEST_SECONDS	60

#endif
