#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. tests/lib.inc
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" -days 2 -subj "/CN=test" \
	-addext "subjectAltName=DNS:collector.test" 2>/dev/null
node tests/interop/proxy.mjs "$work"
