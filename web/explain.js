/* explain.js - why a call was refused: what was said then, and every limit as it stands now. */
import { ApiError, get } from './api.js';
import * as format from './format.js';
import { fillTable, setText } from './table.js';

const by = (id) => document.getElementById(id);
const dialog = by('explain');

function verdict({ admitted, refused_by, limits }) {
    if (admitted) return 'Such a call would be admitted now.';
    const binding = limits[refused_by];
    return binding
        ? `Such a call would be refused now: ${binding.text}`
        : 'Such a call would be refused now.';
}

function says(limit) {
    if (!limit.refuses) return limit.mode === 'shadow' ? 'yes (shadow)' : 'yes';
    if (limit.mode === 'shadow') return 'would say no (shadow)';
    return limit.retry_after_ms === null ? 'no' : `no, for ${format.span(limit.retry_after_ms)}`;
}

function showLimits(explanation) {
    const limits = explanation.limits.map((limit, i) => ({ ...limit, i }));
    fillTable(
        by('limits'),
        limits,
        ({ i }) => i,
        (limit) => [
            limit.stage,
            limit.name === null ? limit.scope : `${limit.scope} ${limit.name}`,
            limit.what,
            format.left(limit),
            limit.reset_at === null ? '–' : format.span(limit.reset_at - explanation.at),
            { text: says(limit), className: limit.refuses ? 'bad' : '' },
            limit.source,
        ],
        ({ i }) => (i === explanation.refused_by ? 'binding' : ''),
    );
    by('explain-table').hidden = false;
}

export async function explain(denial) {
    setText(by('explain-title'), `${denial.tenant} asked for ${denial.model}`);
    setText(
        by('explain-then'),
        `Refused at ${format.timeOfDay(denial.at)} by ${denial.reason}` +
            `${denial.axis ? ` (binding axis: ${denial.axis})` : ''}: ${denial.text}`,
    );
    setText(by('explain-now'), 'Asking how it stands now.');
    by('explain-table').hidden = true;
    if (!dialog.open) dialog.showModal();
    try {
        const explanation = await get('explain', { tenant: denial.tenant, model: denial.model });
        setText(by('explain-now'), verdict(explanation));
        showLimits(explanation);
    } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        setText(by('explain-now'), `It cannot be said how it stands now: ${error.message}`);
    }
}

by('explain-close').addEventListener('click', () => dialog.close());
