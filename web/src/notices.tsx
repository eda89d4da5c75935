// SPDX-License-Identifier: Apache-2.0
// What the page says when there is nothing to draw: no data, no match, no server, an error. Each says what to do next.
import type { ComponentChildren } from 'preact';
import type { ApiError, StatusAnswer } from './api';
import { displayName, formatDateTime, formatDuration } from './format';
import { Logo } from './icons';

function Notice({ title, testId, children }: { title: string; testId: string; children: ComponentChildren }) {
	return (
		<div class="notice" role="status" data-testid={testId}>
			<Logo />
			<h2>{title}</h2>
			{children}
		</div>
	);
}

const Action = ({ onClick, children }: { onClick: () => void; children: ComponentChildren }) => (
	<button type="button" class="button primary" onClick={onClick}>
		{children}
	</button>
);

export function NoDataYet({ status }: { status: StatusAnswer | null }) {
	const agent = status?.agent?.running;
	return (
		<Notice title="No samples yet" testId="empty">
			<p>
				The first samples appear within 10 seconds of the agent's start; this page looks for them every 2
				seconds.
				{agent ? ' The agent on this machine is running.' : ''}
			</p>
			{!agent && (
				<dl class="howto">
					<dt>This machine</dt>
					<dd>
						<code>sudo wick up</code> runs agent and server together
					</dd>
					<dt>Another machine</dt>
					<dd>
						<code>sudo wick agent --server {location.origin}</code>
					</dd>
					<dt>Nothing arrives</dt>
					<dd>
						<code>wick doctor</code> says what is missing
					</dd>
				</dl>
			)}
		</Notice>
	);
}

// hosts: whose agents take orders; null = not known.
export function NoRecordings({ hosts }: { hosts: string[] | null }) {
	const named = hosts?.slice(0, 5).map((host) => displayName(host, 60)) ?? [];
	return (
		<Notice title="No recordings yet" testId="no-recordings">
			<p>Here is what was recorded on several hosts in the same seconds. To make a recording, on any machine:</p>
			<p>
				<code class="record-command" data-testid="record-command">wick record --remote {location.origin} -d 20 -o all.firefox.json</code>
			</p>
			{hosts && hosts.length > 0 && (
				<p>
					{hosts.length === 1 ? 'One host takes orders' : `${hosts.length} hosts take orders`} at present: {named.join(', ')}
					{hosts.length > named.length && ' and others'}.
				</p>
			)}
			{hosts && hosts.length === 0 && (
				<p>
					No agent asks this server for orders at present; <code>sudo wick agent --server {location.origin}</code> starts one.
				</p>
			)}
		</Notice>
	);
}

export function NothingInRange({
	status,
	onShow,
}: {
	status: StatusAnswer;
	onShow: (from: number, to: number) => void;
}) {
	const { oldest_ms: oldest, newest_ms: newest } = status.data;
	const age = Date.now() - newest;
	return (
		<Notice title="Nothing in this time range" testId="empty-range">
			<p>
				The server has data from {formatDateTime(oldest)} to {formatDateTime(newest)}
				{age < 60e3 ? ' and gets more' : `; the newest is ${formatDuration(age)} old`}.
			</p>
			<Action onClick={() => onShow(Math.max(oldest, newest - 3600e3), newest + 1)}>
				Show the last hour that has data
			</Action>
		</Notice>
	);
}

export function BadSelector({ text, fault, onUnfilter }: { text: string; fault: string; onUnfilter: () => void }) {
	return (
		<Notice title="This selector cannot be read" testId="bad-selector">
			<p>
				<code>{text}</code>: {fault}. Correct it above; it has the form{' '}
				<code>{'type{label="value", other!="value"}'}</code>.
			</p>
			<Action onClick={onUnfilter}>Start without filters</Action>
		</Notice>
	);
}

export interface NoMatchProps {
	selector: string;
	filtered: boolean;
	selected: boolean; // a brushed part
	onUnfilter: () => void;
	onUnselect: () => void;
}

export function NoMatch({ selector, filtered, selected, onUnfilter, onUnselect }: NoMatchProps) {
	return (
		<Notice title="No samples match" testId="empty-match">
			<p>
				Nothing in this {selected ? 'selection' : 'time range'} matches <code>{selector}</code>.
			</p>
			<div class="buttons">
				{selected && <Action onClick={onUnselect}>Show the whole range</Action>}
				{filtered && <Action onClick={onUnfilter}>Remove the filters</Action>}
			</div>
		</Notice>
	);
}

export function errorAdvice(error: ApiError): string {
	if (error.status === 0)
		return `Is wick up or wick server still running at ${location.host}? This page tries again every 5 seconds.`;
	if (error.status === 400) return 'Correct the filter or the time range above.';
	if (error.status === 401 || error.status === 403) return 'The server wants a token that this browser has not sent.';
	if (error.status === 429 || error.status === 503) return 'The server is busy or starting; try again in a moment.';
	return 'Try again; if it stays, the server’s log says more.';
}

export function errorTitle(error: ApiError): string {
	if (error.status === 0) return 'The server does not answer';
	return error.status === 400 ? 'The server does not accept this query' : 'The server could not answer';
}

const errorDetail = (error: ApiError) => (error.status === 0 && error.message === 'no answer' ? '' : error.message);

export function ErrorPanel({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
	const detail = errorDetail(error);
	return (
		<Notice title={errorTitle(error)} testId="error">
			{detail && (
				<p>
					<code>{detail}</code>
				</p>
			)}
			<p>{errorAdvice(error)}</p>
			<Action onClick={onRetry}>Try again</Action>
		</Notice>
	);
}

// Over a page that still shows what it had.
export function ErrorBanner({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
	const detail = errorDetail(error);
	return (
		<div class="banner" role="alert" data-testid="error-banner">
			<span>
				<b>{errorTitle(error)}.</b> {detail && <code>{detail}</code>} {errorAdvice(error)} What is shown is
				older.
			</span>
			<button type="button" class="button" onClick={onRetry}>
				Try again
			</button>
		</div>
	);
}

export function Skeleton() {
	const widths = [100, 100, 92, 71, 64, 64, 41, 33, 28, 12];
	return (
		<div class="skeleton" role="status" aria-label="Loading the profile">
			{widths.map((w, i) => (
				<div class="bone" key={i} style={{ width: `${w}%` }} />
			))}
		</div>
	);
}
