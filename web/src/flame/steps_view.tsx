// SPDX-License-Identifier: Apache-2.0
// What has been done with the graph, above it: a chip for each step, to be taken back one by one; and the menu of how it is shown.
import { displayName, baseName, labelTitle } from '../base/format';
import * as T from '../base/texts';
import { COLORS, type ColorBy } from '../state/page';
import { groupingOf, setGrouping, withoutStep, type Grouping, type Made } from '../tree/steps';
import type { Transform } from '../tree/transform';
import { CloseIcon, SlidersIcon } from '../ui/icons';
import { Popover } from '../ui/popover';

const NAME_MAX = 60;

// What a step is called: what it does, and to what.
function title({ op }: Transform, name: string): string {
	if (op === 'ok') return T.steps.chips.ok(T.legend[name as keyof typeof T.legend] as string);
	const shown = name === '' ? T.steps.notHere : displayName(op === 'cb' || op === 'ob' ? baseName(name) : name, NAME_MAX);
	const text = T.steps.chips[op];
	return typeof text === 'string' ? text : text(shown);
}

function Chip({ text, hint, testId, onBack, onRemove }: { text: string; hint: string; testId: string; onBack?: () => void; onRemove: () => void }) {
	return (
		<li class="chip step" data-testid={testId}>
			{onBack ? (
				<button type="button" class="chip-text" title={hint} onClick={onBack}>
					{text}
				</button>
			) : (
				<span class="chip-text" title={hint}>
					{text}
				</span>
			)}
			<button type="button" class="chip-x" aria-label={T.steps.remove(text)} title={T.steps.remove(text)} onClick={onRemove}>
				<CloseIcon />
			</button>
		</li>
	);
}

export interface StepsBarProps {
	made: Made;
	root: string; // label, '' = none
	within: string;
	onSteps: (transforms: Transform[]) => void;
	onRoot: (label: string) => void;
	onWithin: (stages: string) => void;
	onClear: () => void;
}

export function StepsBar({ made, root, within, onSteps, onRoot, onWithin, onClear }: StepsBarProps) {
	const { transforms, names } = made;
	const count = transforms.length + (root ? 1 : 0) + (within ? 1 : 0);
	if (count === 0) return null;
	return (
		<ul class="steps" aria-label={T.steps.label} data-testid="steps">
			{within !== '' && <Chip text={T.steps.part} hint={displayName(within, 1000)} testId="step-within" onRemove={() => onWithin('')} />}
			{root !== '' && <Chip text={T.steps.byLabel(labelTitle(root))} hint={root} testId="step-root" onRemove={() => onRoot('')} />}
			{transforms.map((step, i) => (
				<Chip
					key={i}
					text={title(step, names[i])}
					hint={i < transforms.length - 1 ? T.steps.backTo : displayName(names[i])}
					testId={`step-${step.op}`}
					onBack={i < transforms.length - 1 ? () => onSteps(transforms.slice(0, i + 1)) : undefined}
					onRemove={() => onSteps(withoutStep(transforms, i))}
				/>
			))}
			{count > 1 && (
				<li>
					<button type="button" class="ghost steps-clear" data-testid="steps-clear" onClick={onClear}>
						{T.steps.clear}
					</button>
				</li>
			)}
		</ul>
	);
}

interface Choice {
	value: string;
	title: string;
}

function Choices({
	name,
	label,
	value,
	choices,
	onChoose,
}: {
	name: string;
	label: string;
	value: string;
	choices: Choice[];
	onChoose: (value: string) => void;
}) {
	return (
		<fieldset class="choices">
			<legend>{label}</legend>
			{choices.map((choice) => (
				<label key={choice.value}>
					<input
						type="radio"
						name={name}
						value={choice.value}
						checked={value === choice.value}
						data-testid={`${name}-${choice.value || 'none'}`}
						onChange={() => onChoose(choice.value)}
					/>
					{choice.title}
				</label>
			))}
		</fieldset>
	);
}

export interface DisplayProps {
	transforms: readonly Transform[];
	color: ColorBy;
	root: string;
	labels: string[] | null; // null: in a file, where nothing knows labels
	interpreters: boolean | null; // whether their internals are shown; null: there are none
	onSteps: (transforms: Transform[]) => void;
	onColor: (color: ColorBy) => void;
	onInterpreters: (shown: boolean) => void;
	onRoot: (label: string) => void;
}

const GROUPINGS: Grouping[] = ['', 'gf', 'gl', 'gb'];

export function DisplayMenu({ transforms, color, root, labels, interpreters, onSteps, onColor, onInterpreters, onRoot }: DisplayProps) {
	const listed = labels && (root === '' || labels.includes(root) ? labels : [root, ...labels]);
	return (
		<Popover label={T.display.label} button={<SlidersIcon />} buttonClass="button icon-only" testId="display">
			{() => (
				<div class="display">
					<Choices
						name="frames"
						label={T.display.frames}
						value={groupingOf(transforms)}
						choices={GROUPINGS.map((value) => ({ value, title: T.display.groupings[value || 'function'] }))}
						onChoose={(value) => {
							const next = setGrouping(transforms, value as Grouping);
							if (next) onSteps(next);
						}}
					/>
					{interpreters !== null && (
						<div class="choices">
							<label title={T.display.interpretersHint}>
								<input type="checkbox" checked={interpreters} data-testid="interpreters" onChange={(event) => onInterpreters(event.currentTarget.checked)} />
								{T.display.interpreters}
							</label>
						</div>
					)}
					<Choices
						name="color"
						label={T.display.color}
						value={color}
						choices={COLORS.map((value) => ({ value, title: T.display.colors[value] }))}
						onChoose={(value) => onColor(value as ColorBy)}
					/>
					{listed && (
						<fieldset class="choices">
							<legend>{T.display.root}</legend>
							<select class="select" aria-label={T.display.root} data-testid="root-label" value={root} onChange={(event) => onRoot(event.currentTarget.value)}>
								<option value="">{T.display.nothing}</option>
								{listed.map((label) => (
									<option key={label} value={label}>
										{labelTitle(label)}
									</option>
								))}
							</select>
						</fieldset>
					)}
				</div>
			)}
		</Popover>
	);
}
