/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: an authority and certificates of it, made on the spot in a directory of their own. */
#ifndef WICK_NET_CERTIFICATES_TEST_H
#define WICK_NET_CERTIFICATES_TEST_H

#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct test_authority {
	EVP_PKEY *key;
	X509 *certificate;
};
static char test_directory[64];

static inline const char *test_path(const char *name)
{
	static char paths[8][128];
	static unsigned next;
	char *path = paths[next++ % 8];
	if (!test_directory[0]) {
		snprintf(test_directory, sizeof(test_directory), "/tmp/wick-tls-XXXXXX");
		assert_non_null(mkdtemp(test_directory));
	}
	snprintf(path, 128, "%s/%s", test_directory, name);
	return path;
}

static inline void test_write_pem(const char *name, X509 *certificate, EVP_PKEY *key)
{
	FILE *file = fopen(test_path(name), "w");
	assert_non_null(file);
	assert_true(!certificate || PEM_write_X509(file, certificate));
	assert_true(!key || PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL));
	fclose(file);
}

static inline void test_extend(X509 *certificate, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
	assert_non_null(extension);
	assert_true(X509_add_ext(certificate, extension, -1));
	X509_EXTENSION_free(extension);
}

/* names: "DNS:localhost,IP:127.0.0.1"; NULL = an authority. by NULL = self-signed. Valid from `from` to `to`, seconds from now.
 */
static inline X509 *test_make_certificate(const char *subject, const char *names, EVP_PKEY *key,
					  const struct test_authority *by, long from, long to)
{
	static long serial = 1000;
	X509 *certificate = X509_new();
	X509_set_version(certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
	X509_gmtime_adj(X509_getm_notBefore(certificate), from);
	X509_gmtime_adj(X509_getm_notAfter(certificate), to);
	X509_set_pubkey(certificate, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, (const unsigned char *)subject, -1,
				   -1, 0);
	X509_set_issuer_name(certificate, X509_get_subject_name(by ? by->certificate : certificate));
	test_extend(certificate, NID_basic_constraints, names ? "CA:FALSE" : "critical,CA:TRUE");
	if (names)
		test_extend(certificate, NID_subject_alt_name, names);
	assert_true(X509_sign(certificate, by ? by->key : key, EVP_sha256()));
	return certificate;
}

static inline struct test_authority test_make_authority(const char *name, const char *file)
{
	struct test_authority authority = {.key = EVP_EC_gen("P-256")};
	authority.certificate = test_make_certificate(name, NULL, authority.key, NULL, -60, 3600);
	test_write_pem(file, authority.certificate, NULL);
	return authority;
}

static inline void test_free_authority(struct test_authority *authority)
{
	X509_free(authority->certificate);
	EVP_PKEY_free(authority->key);
}

/* Writes FILE.pem and FILE.key. */
static inline void test_issue(const struct test_authority *by, const char *file, const char *names, long from, long to)
{
	char name[64];
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = test_make_certificate(file, names, key, by, from, to);
	snprintf(name, sizeof(name), "%s.pem", file);
	test_write_pem(name, certificate, NULL);
	snprintf(name, sizeof(name), "%s.key", file);
	test_write_pem(name, NULL, key);
	X509_free(certificate);
	EVP_PKEY_free(key);
}

static inline void test_remove_directory(void)
{
	DIR *directory = opendir(test_directory);
	assert_non_null(directory);
	for (struct dirent *entry; (entry = readdir(directory));)
		unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
	assert_int_equal(rmdir(test_directory), 0);
	test_directory[0] = '\0';
}

#endif
