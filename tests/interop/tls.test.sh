#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# https of the server with other people's clients (curl, openssl, grpc-js), and of our clients with another server (node's).
. tests/lib.inc
cd "$work" || exit 1
repository=$OLDPWD

authority() { # NAME
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.pem" -days 2 -subj "/CN=$1" 2>/dev/null
}
issue() { # NAME AUTHORITY ALTNAMES DAYS
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
	printf 'subjectAltName=%s\n' "$3" >ext
	openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -out "$1.pem" -days "$4" -extfile ext 2>/dev/null
}
authority ca
authority other
issue server ca DNS:localhost,IP:127.0.0.1 1
issue client ca DNS:client 1
issue later other DNS:localhost,IP:127.0.0.1 1

serve() { # LOG [OPTION...]: sets server_pid and port
	log=$1
	shift
	launch "$WICK" server --data "$log.data" --listen 127.0.0.1:0 "$@" 2>"$log"
	server_pid=$!
	for _ in $(seq 1200); do
		port=$(sed -n 's|.*https://127.0.0.1:\([0-9]*\),.*|\1|p' "$log")
		[ -n "$port" ] && return
		sleep 0.1
	done
	cat "$log"
}
cp server.pem now.pem && cp server.key now.key
serve plain.log --tls-cert now.pem --tls-key now.key
at=https://localhost:$port

expect "curl over HTTP/1.1" 0 '^1.1 200$' curl -s --http1.1 --cacert ca.pem -o /dev/null -w '%{http_version} %{http_code}\n' "$at/healthz"
expect "curl over HTTP/2" 0 '^2 200$' curl -s --http2 --cacert ca.pem -o /dev/null -w '%{http_version} %{http_code}\n' "$at/healthz"
expect "curl does not trust another authority" 60 '' curl -s --cacert other.pem "$at/healthz"
expect "TLS 1.3 with HTTP/2 agreed on" 0 'ALPN protocol: h2' sh -c "openssl s_client -connect 127.0.0.1:$port -servername localhost -CAfile ca.pem -verify_return_error -alpn h2,http/1.1 </dev/null 2>&1"
expect "TLS 1.2 has forward secrecy" 0 'Cipher is ECDHE' sh -c "openssl s_client -connect 127.0.0.1:$port -servername localhost -CAfile ca.pem -verify_return_error -tls1_2 </dev/null 2>&1"
expect "TLS 1.2 without forward secrecy is refused" 1 'alert handshake failure' sh -c "openssl s_client -connect 127.0.0.1:$port -servername localhost -tls1_2 -cipher AES128-GCM-SHA256 </dev/null 2>&1"
expect "TLS 1.1 is refused" 1 'alert|no protocols' sh -c "openssl s_client -connect 127.0.0.1:$port -servername localhost -tls1_1 -cipher ALL:@SECLEVEL=0 </dev/null 2>&1"
expect "http on the port of https is told so" 0 'use https://' curl -s "http://localhost:$port/healthz"

cat >grpc.mjs <<'EOF'
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const [repository, port, ca] = process.argv.slice(2);
const grpc = createRequire(`${repository}/tests/package.json`)("@grpc/grpc-js");
const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createSsl(readFileSync(ca)), { "grpc.ssl_target_name_override": "localhost" });
const plain = (bytes) => bytes;
client.makeUnaryRequest("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", plain, plain, Buffer.alloc(0), (error) => {
	console.log(error ? error.message : "taken");
	client.close();
});
EOF
expect "grpc-js over TLS" 0 '^taken$' node grpc.mjs "$repository" "$port" ca.pem
expect "grpc-js does not trust another authority" 0 'UNAVAILABLE' node grpc.mjs "$repository" "$port" other.pem

printf 'main;work 5\n' >x.folded
query() { SSL_CERT_FILE=$1 "$WICK" query --url "$2" --format folded process_cpu; }
expect "wick over https" 0 '' query ca.pem "$at"
expect "wick does not trust another authority" 1 'unable to get local issuer certificate' query other.pem "$at"

# The pair changes under the running server.
cp later.pem now.pem && cp later.key now.key
wait_for curl -s --cacert other.pem "$at/healthz" >/dev/null
expect "a changed certificate is served" 0 '^200$' curl -s --cacert other.pem -o /dev/null -w '%{http_code}\n' "$at/healthz"
expect "metrics count handshakes" 0 '^wick_tls_failures_total [1-9]' curl -s --cacert other.pem "$at/metrics"

serve mutual.log --tls-cert server.pem --tls-key server.key --tls-client-ca ca.pem
at=https://localhost:$port
# Over TLS 1.3 the refusal comes when the client takes the connection for made: it cannot read the answer, or not even send the request.
refused() {
	curl -s "$@"
	case $? in 55 | 56) ;; *) return 1 ;; esac
}
check "curl without a certificate is refused" refused --cacert ca.pem "$at/healthz"
expect "curl with a certificate" 0 '^200$' curl -s --cacert ca.pem --cert client.pem --key client.key -o /dev/null -w '%{http_code}\n' "$at/healthz"
check "curl with a certificate of another authority" refused --cacert ca.pem --cert later.pem --key later.key "$at/healthz"
expect "wick without a certificate says what is missing" 1 'certificate required' query ca.pem "$at"
expect "a key that does not fit" 1 'cannot use the key' "$WICK" server --data x --listen 127.0.0.1:0 --tls-cert server.pem --tls-key client.key

# Another server: node's, which passes on to ours.
start_server >/dev/null
cat >front.mjs <<'EOF'
import { createServer } from "node:tls";
import { connect } from "node:net";
import { readFileSync } from "node:fs";
const [port, maxVersion] = process.argv.slice(2);
const server = createServer({ key: readFileSync("server.key"), cert: readFileSync("server.pem"), ALPNProtocols: ["h2", "http/1.1"], maxVersion }, (socket) => {
	const inner = connect(port, "127.0.0.1");
	socket.pipe(inner).pipe(socket);
	socket.on("error", () => inner.destroy());
	inner.on("error", () => socket.destroy());
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
EOF
for version in TLSv1.3 TLSv1.2; do
	launch node front.mjs "${url##*:}" $version >front.port
	wait_for test -s front.port
	expect "wick with node's $version" 0 '' query ca.pem "https://localhost:$(cat front.port)"
	: >front.port
done
finish
