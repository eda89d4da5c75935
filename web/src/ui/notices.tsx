// SPDX-License-Identifier: Apache-2.0
// What the page says when there is nothing to draw: no data, no match, no server, an error. Each says what to do next.
import type { ComponentChildren } from 'preact';
import type { StatusResponse } from '../api/responses';
import { CANCELLED, type ApiError } from '../api/client';
import { displayName, formatDateTime, formatDuration } from '../base/format';
import * as T from '../base/texts';
import { Logo } from './icons';
import { rich } from './rich';

export function Notice({ title, testId, children }: { title: string; testId: string; children: ComponentChildren }) {
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

export function NoDataYet({ status }: { status: StatusResponse | null }) {
	const agent = status?.agent?.running;
	return (
		<Notice title={T.notice.noData} testId="empty">
			<p>
				{T.notice.noDataWait}
				{agent ? T.notice.agentRuns : ''}
			</p>
			{!agent && (
				<dl class="howto">
					<dt>{T.notice.thisMachine}</dt>
					<dd>{rich(T.notice.wickUp)}</dd>
					<dt>{T.notice.anotherMachine}</dt>
					<dd>{rich(T.notice.wickAgent, { origin: location.origin })}</dd>
					<dt>{T.notice.nothingArrives}</dt>
					<dd>{rich(T.notice.wickDoctor)}</dd>
				</dl>
			)}
		</Notice>
	);
}

// hosts: whose agents take orders; null = not known.
export function NoRecordings({ hosts }: { hosts: string[] | null }) {
	const named = hosts?.slice(0, 5).map((host) => displayName(host, 60)) ?? [];
	return (
		<Notice title={T.notice.noRecordings} testId="no-recordings">
			<p>{T.notice.recordingsHow}</p>
			<p>
				<code class="record-command" data-testid="record-command">
					{T.notice.recordingsCommand(location.origin)}
				</code>
			</p>
			{hosts && hosts.length > 0 && <p>{T.notice.hosts(hosts.length, named.join(', '), hosts.length > named.length)}</p>}
			{hosts && hosts.length === 0 && <p>{rich(T.notice.noHosts, { origin: location.origin })}</p>}
		</Notice>
	);
}

export function NothingInRange({ status, onShow }: { status: StatusResponse; onShow: (from: number, to: number) => void }) {
	const { oldest_ms: oldest, newest_ms: newest } = status.data;
	const age = Date.now() - newest;
	const [from, to] = [formatDateTime(oldest), formatDateTime(newest)];
	return (
		<Notice title={T.notice.nothingInRange} testId="empty-range">
			<p>{age < 60e3 ? T.notice.dataGrows(from, to) : T.notice.dataIsOld(from, to, formatDuration(age))}</p>
			<Action onClick={() => onShow(Math.max(oldest, newest - 3600e3), newest + 1)}>{T.notice.lastHour}</Action>
		</Notice>
	);
}

export function BadSelector({ text, fault, onUnfilter }: { text: string; fault: string; onUnfilter: () => void }) {
	return (
		<Notice title={T.notice.badSelector} testId="bad-selector">
			<p>{rich(T.notice.badSelectorHow, { selector: text, fault })}</p>
			<Action onClick={onUnfilter}>{T.notice.startWithout}</Action>
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
		<Notice title={T.notice.noMatch} testId="empty-match">
			<p>{rich(selected ? T.notice.inSelection : T.notice.inRange, { selector })}</p>
			<div class="buttons">
				{selected && <Action onClick={onUnselect}>{T.notice.wholeRange}</Action>}
				{filtered && <Action onClick={onUnfilter}>{T.notice.unfilter}</Action>}
			</div>
		</Notice>
	);
}

export function errorAdvice(error: ApiError): string {
	if (error.status === 0) return T.fault.offlineAdvice(location.host);
	if (error.status === 400) return T.fault.refusedAdvice;
	if (error.status === 401 || error.status === 403) return T.fault.tokenAdvice;
	if (error.status === CANCELLED) return T.fault.cancelledAdvice;
	if (error.status === 429 || error.status === 503) return T.fault.busyAdvice;
	return T.fault.otherAdvice;
}

export function errorTitle(error: ApiError): string {
	if (error.status === 0) return T.fault.offline;
	if (error.status === CANCELLED) return T.fault.cancelled;
	return error.status === 400 ? T.fault.refused : T.fault.other;
}

const errorDetail = (error: ApiError) => (error.status === 0 && error.message === T.fault.noResponse ? '' : error.message);

export function ErrorPanel({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
	const detail = errorDetail(error);
	return (
		<Notice title={errorTitle(error)} testId="error">
			{detail && (
				<p>
					<code>{displayName(detail)}</code>
				</p>
			)}
			<p>{errorAdvice(error)}</p>
			<Action onClick={onRetry}>{T.fault.retry}</Action>
		</Notice>
	);
}

// Over a page that still shows what it had.
export function ErrorBanner({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
	const detail = errorDetail(error);
	return (
		<div class="banner" role="alert" data-testid="error-banner">
			<span>
				<b>{errorTitle(error)}.</b> {detail && <code>{displayName(detail)}</code>} {errorAdvice(error)} {T.fault.older}
			</span>
			<button type="button" class="button" onClick={onRetry}>
				{T.fault.retry}
			</button>
		</div>
	);
}

export function Skeleton() {
	const widths = [100, 100, 92, 71, 64, 64, 41, 33, 28, 12];
	return (
		<div class="skeleton" role="status" aria-label={T.notice.loading}>
			{widths.map((w, i) => (
				<div class="bone" key={i} style={{ width: `${w}%` }} />
			))}
		</div>
	);
}
