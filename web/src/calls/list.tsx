// SPDX-License-Identifier: Apache-2.0
// The calls of the graph as a list, for those who cannot see it and those who would rather read: all, or those of the function that
// has the focus.
import { displayName, formatShare, formatValue } from '../base/format';
import * as T from '../base/texts';
import type { CallGraph } from '../model/callgraph';
import type { Tree } from '../tree/tree';

interface CallListProps {
	tree: Tree;
	graph: CallGraph;
	focused: number; // box, -1 = none
	onFocus: (box: number) => void;
	onEdge: (edge: number) => void; // pointed at; -1 = none
}

export function CallList({ tree, graph, focused, onFocus, onEdge }: CallListProps) {
	const nameOf = (box: number) => displayName(tree.strings[tree.name[graph.nodes[box].node]], 300);
	const edges = graph.edges.map((edge, i) => ({ ...edge, i }));
	const shown = focused < 0 ? edges : edges.filter(({ from, to }) => from === focused || to === focused);
	const end = (box: number) => (
		<button type="button" class={box === focused ? 'calls-end here' : 'calls-end'} title={nameOf(box)} onClick={() => onFocus(box)}>
			{nameOf(box)}
		</button>
	);
	return (
		<section class="calls-list" aria-label={T.callGraph.list}>
			<h3>
				<span class="calls-list-of">{focused < 0 ? T.callGraph.list : T.callGraph.listOf(nameOf(focused))}</span>
				{focused >= 0 && (
					<button type="button" class="link" onClick={() => onFocus(-1)}>
						{T.callGraph.listAll}
					</button>
				)}
			</h3>
			<div class="calls-rows">
				<table data-testid="calls-list">
					<colgroup>
						<col />
						<col />
						<col class="calls-value" />
					</colgroup>
					<thead class="unseen">
						<tr>
							<th scope="col">{T.callGraph.caller}</th>
							<th scope="col">{T.callGraph.callee}</th>
							<th scope="col">{T.callGraph.together}</th>
						</tr>
					</thead>
					<tbody>
						{shown.map(({ from, to, value, skips, i }) => (
							<tr key={i} onPointerEnter={() => onEdge(i)} onPointerLeave={() => onEdge(-1)}>
								<td>{end(from)}</td>
								<td>
									<span aria-hidden="true">{skips ? '⇢' : '→'}</span> {end(to)}
									{skips && <span class="unseen">{T.callGraph.skips}</span>}
								</td>
								<td class="calls-value" title={formatValue(value, tree.unit)}>
									{formatShare(value, graph.total)}
								</td>
							</tr>
						))}
					</tbody>
				</table>
				{shown.length === 0 && <p class="table-none">{T.callGraph.noCalls}</p>}
			</div>
		</section>
	);
}
