// SPDX-License-Identifier: Apache-2.0
// Endpoints of others, for what is exported to them: OTLP over gRPC and HTTP, Pyroscope's push, Parca's WriteRaw. They are servers of
// the gRPC project and of node; messages are decoded by protobuf.js from definitions written here, pprof by DataDog's pprof-format.
import http from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';
import { gunzipSync } from 'node:zlib';

const require = createRequire(new URL('../package.json', import.meta.url));
const grpc = require('@grpc/grpc-js'),
	protobuf = require('protobufjs');
const { Profile } = require('pprof-format');

const otlp = protobuf.parse(
	`syntax = "proto3"; package otlp;
message Export { repeated ResourceProfiles resource_profiles = 1; Dictionary dictionary = 2; }
message ResourceProfiles { Resource resource = 1; repeated ScopeProfiles scope_profiles = 2; }
message Resource { repeated KeyValue attributes = 1; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; } }
message ScopeProfiles { repeated Profile profiles = 2; }
message ValueType { int32 type = 1; int32 unit = 2; }
message Profile { ValueType sample_type = 1; repeated Sample samples = 2; fixed64 time = 3; uint64 duration = 4; ValueType period_type = 5; int64 period = 6; }
message Sample { int32 stack = 1; repeated int32 attributes = 2; int32 link = 3; repeated int64 values = 4; repeated fixed64 timestamps = 5; }
message Dictionary { repeated Mapping mappings = 1; repeated Location locations = 2; repeated Function functions = 3; repeated string strings = 5; repeated Attribute attributes = 6; repeated Stack stacks = 7; }
message Mapping { uint64 start = 1; uint64 limit = 2; uint64 offset = 3; int32 file = 4; }
message Location { int32 mapping = 1; uint64 address = 2; repeated Line lines = 3; }
message Line { int32 function = 1; int64 line = 2; }
message Function { int32 name = 1; }
message Attribute { int32 key = 1; AnyValue value = 2; }
message Stack { repeated int32 locations = 1; }
message Response { Partial partial = 1; }
message Partial { int64 rejected = 1; string message = 2; }`,
	{ keepCase: true },
).root;
const push = protobuf.parse(
	`syntax = "proto3"; package push;
message LabelPair { string name = 1; string value = 2; }
message RawSample { bytes raw_profile = 1; string ID = 2; }
message RawProfileSeries { repeated LabelPair labels = 1; repeated RawSample samples = 2; }
message PushRequest { repeated RawProfileSeries series = 1; }`,
	{ keepCase: true },
).root;
const parca = protobuf.parse(
	`syntax = "proto3"; package parca;
message LabelSet { repeated Label labels = 1; }
message Label { string name = 1; string value = 2; }
message RawSample { bytes raw_profile = 1; }
message RawProfileSeries { LabelSet labels = 1; repeated RawSample samples = 2; }
message WriteRawRequest { string tenant = 1; repeated RawProfileSeries series = 2; bool normalized = 3; }`,
	{ keepCase: true },
).root;

// What an endpoint got: sums of values by "type/unit", by stack (leaf first), the series' labels, requests.
export class Received {
	totals = new Map();
	stacks = new Map();
	series = [];
	sampleLabels = new Set();
	profiles = 0;
	requests = 0;
	headers = [];
	unnamed = 0;
	repeated = 0;
	requestKeys = new Set();
	// Delivery is at least once: an agent that ends before it has read the response sends the same profiles again, with names that it may have found meanwhile.
	// So they are recognised by series, time, types and sums.
	isNew(profiles) {
		const key = profiles.sort().join('\n'),
			isNew = !this.requestKeys.has(key);
		this.requestKeys.add(key);
		this.repeated += isNew ? 0 : 1;
		return isNew;
	}
	add(type, value, stack) {
		this.totals.set(type, (this.totals.get(type) ?? 0n) + value);
		const key = `${type} ${stack}`;
		this.stacks.set(key, (this.stacks.get(key) ?? 0n) + value);
	}
	total(type = 'cpu/nanoseconds') {
		return this.totals.get(type) ?? 0n;
	}
}

const keyOf = (labels, time, types, values) =>
	JSON.stringify([labels, String(time), types, String(values.reduce((sum, value) => sum + BigInt(value.toString()), 0n))]);

function takeOtlp(received, body) {
	const request = otlp.lookupType('otlp.Export').decode(body),
		d = request.dictionary;
	const s = (i) => d.strings[i];
	const labelsOf = (resource) => Object.fromEntries(resource.resource.attributes.map(({ key, value }) => [key, value.string_value || String(value.int_value)]));
	const profilesOf = (resource) => resource.scope_profiles.flatMap((scope) => scope.profiles);
	const typeOf = (profile) => `${s(profile.sample_type.type)}/${s(profile.sample_type.unit)}`;
	const keys = request.resource_profiles.flatMap((resource) =>
		profilesOf(resource).map((profile) =>
			keyOf(
				labelsOf(resource),
				profile.time,
				typeOf(profile),
				profile.samples.flatMap(({ values }) => values),
			),
		),
	);
	if (!received.isNew(keys)) return;
	for (const resource of request.resource_profiles) {
		received.series.push(labelsOf(resource));
		for (const profile of profilesOf(resource)) {
			received.profiles++;
			const type = typeOf(profile);
			for (const sample of profile.samples) {
				const stack = (d.stacks[sample.stack]?.locations ?? [])
					.flatMap((l) => {
						const lines = d.locations[l].lines;
						received.unnamed += lines.length ? 0 : 1;
						return lines.length ? lines.map((line) => s(d.functions[line.function].name)) : ['?'];
					})
					.join(';');
				for (const a of sample.attributes) received.sampleLabels.add(s(d.attributes[a].key));
				received.add(
					type,
					sample.values.reduce((sum, v) => sum + BigInt(v.toString()), 0n),
					stack,
				);
			}
		}
	}
}

// [LABELS, BYTES] each: the pprofs of a request.
function takePprofs(received, all) {
	const decoded = all.map(([labels, raw]) => [labels, Profile.decode(gunzipSync(raw))]);
	const keys = decoded.map(([labels, profile]) =>
		keyOf(
			labels,
			profile.timeNanos,
			profile.sampleType.map(({ type }) => profile.stringTable.strings[Number(type)]),
			profile.sample.flatMap(({ value }) => value),
		),
	);
	if (received.isNew(keys)) for (const [labels, profile] of decoded) takePprof(received, labels, profile);
}
function takePprof(received, labels, profile) {
	const s = (i) => profile.stringTable.strings[Number(i)];
	received.profiles++;
	received.series.push(labels);
	const functions = new Map(profile.function.map((f) => [f.id, f])),
		locations = new Map(profile.location.map((l) => [l.id, l]));
	for (const sample of profile.sample) {
		const stack = sample.locationId
			.flatMap((id) => {
				const lines = locations.get(id).line;
				received.unnamed += lines.length ? 0 : 1;
				return lines.length ? lines.map((line) => s(functions.get(line.functionId).name)) : ['?'];
			})
			.join(';');
		for (const label of sample.label) received.sampleLabels.add(s(label.key));
		profile.sampleType.forEach((type, i) => received.add(`${s(type.type)}/${s(type.unit)}`, BigInt(sample.value[i]), stack));
	}
}
const toObject = (labels) => Object.fromEntries(labels.map(({ name, value }) => [name, value]));

// `answer(n)`, n counting requests from 0, may say { code, details, metadata } (gRPC), { status, headers } (HTTP), or undefined to take
// the request; it may return a promise.
// tls: { key, cert, ca }, where ca asks for a certificate of the client's.
export async function grpcEndpoint(answer = () => undefined, tls) {
	const received = new Received(),
		plain = (bytes) => bytes;
	const method = (path) => ({
		path,
		requestStream: false,
		responseStream: false,
		requestSerialize: plain,
		requestDeserialize: plain,
		responseSerialize: plain,
		responseDeserialize: plain,
	});
	const handler = (take) => async (call, callback) => {
		const refusal = await answer(received.requests++, call.metadata);
		received.headers.push(call.metadata.getMap());
		if (refusal?.code) {
			const metadata = new grpc.Metadata();
			for (const [name, value] of Object.entries(refusal.metadata ?? {})) metadata.set(name, value);
			return callback({ code: refusal.code, details: refusal.details ?? 'no', metadata });
		}
		take(received, call.request);
		callback(null, refusal?.body ?? Buffer.alloc(0));
	};
	const server = new grpc.Server({ 'grpc.max_receive_message_length': 64 << 20 });
	server.addService({ Export: method('/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export') }, { Export: handler(takeOtlp) });
	server.addService(
		{ WriteRaw: method('/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw') },
		{
			WriteRaw: handler((to, body) => {
				const request = parca.lookupType('parca.WriteRawRequest').decode(body);
				if (!request.normalized) throw new Error('not normalized');
				const pprofs = request.series.flatMap(({ labels, samples }) => samples.map((sample) => [toObject(labels.labels), sample.raw_profile]));
				takePprofs(to, pprofs);
			}),
		},
	);
	received.port = await new Promise((resolve, reject) =>
		server.bindAsync(
			'127.0.0.1:0',
			tls
				? grpc.ServerCredentials.createSsl(tls.ca ?? null, [{ private_key: tls.key, cert_chain: tls.cert }], !!tls.ca)
				: grpc.ServerCredentials.createInsecure(),
			(error, port) => (error ? reject(error) : resolve(port)),
		),
	);
	received.close = () => server.forceShutdown();
	return received;
}

export async function httpEndpoint(answer = () => undefined, port = 0, tls) {
	const received = new Received();
	const listener = (request, response) => {
		const chunks = [];
		request.on('data', (chunk) => chunks.push(chunk));
		request.on('end', async () => {
			let body = Buffer.concat(chunks);
			if (request.headers['content-encoding'] === 'gzip') body = gunzipSync(body);
			received.headers.push(request.headers);
			const refusal = await answer(received.requests++, request.headers);
			if (refusal?.status) {
				response.writeHead(refusal.status, { 'content-type': 'text/plain', ...refusal.headers });
				return response.end(refusal.text ?? 'no');
			}
			if (request.url === '/v1development/profiles' && request.headers['content-type'] === 'application/x-protobuf') {
				takeOtlp(received, body);
				response.writeHead(200, { 'content-type': 'application/x-protobuf' });
			} else if (request.url.endsWith('/push.v1.PusherService/Push') && request.headers['content-type'] === 'application/proto') {
				const { series } = push.lookupType('push.PushRequest').decode(body);
				takePprofs(
					received,
					series.flatMap(({ labels, samples }) => samples.map((sample) => [toObject(labels), sample.raw_profile])),
				);
				response.writeHead(200, { 'content-type': 'application/proto' });
			} else {
				response.writeHead(404);
			}
			response.end(refusal?.body);
		});
	};
	const server = tls ? https.createServer({ ...tls, requestCert: !!tls.ca, rejectUnauthorized: !!tls.ca }, listener) : http.createServer(listener);
	await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
	received.port = server.address().port;
	received.close = () =>
		new Promise((resolve) => {
			server.closeAllConnections();
			server.close(resolve);
		});
	return received;
}

export const partialSuccess = (rejected, message) => Buffer.from(otlp.lookupType('otlp.Response').encode({ partial: { rejected, message } }).finish());

// Waits until the condition holds; the deadline only ends a test that has failed already.
export async function until(condition, what, seconds = 120) {
	for (const end = Date.now() + seconds * 1000; ;) {
		if (await condition()) return;
		if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
		await new Promise((resolve) => setTimeout(resolve, 50));
	}
}
