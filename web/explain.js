/* explain.js - why a call was refused: what was said then, and every limit as it stands now. */
import { ApiError, get } from './api.js';
import { scope } from './fleet.js';
import * as format from './format.js';
import { fillTable, setText } from './table.js';

const by = (id) => document.getElementById(id);
const dialog = by('explain');

const PROMPT_MAX = 4 << 20; /* the largest that explain takes */

/* A call like the one that was refused: of the same user, with the same bound of its output. */
function question({ tenant, model, user, max_tokens, prompt_bytes }) {
    return {
        tenant,
        model,
        ...(user !== null && { user }),
        ...(max_tokens !== null && { max_tokens }),
        ...(prompt_bytes !== null && { prompt_bytes: Math.min(prompt_bytes, PROMPT_MAX) }),
    };
}

/* What decides while the store cannot be asked. */
function away({ store }) {
    if (!store?.away) return '';
    const modes = [...new Set([store.limits_by, store.budget_by])].join(' and ');
    return ` The store is away; what decides is store_failure: ${modes}.`;
}

function verdict(explanation) {
    const { admitted, waits, refused_by, limits } = explanation;
    if (admitted)
        return (
            (waits
                ? 'Such a call would wait for a slot now.'
                : 'Such a call would be admitted now.') + away(explanation)
        );
    const when = waits ? 'wait for a slot now, and then be refused' : 'be refused now';
    return `Such a call would ${when}: ${limits[refused_by].text}.${away(explanation)}`;
}

function says(limit) {
    if (limit.waits) return 'it waits';
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

/* Of several gateways: that of the one that refused it, else of the one that was asked. */
async function ask(denial) {
    const all = await get('explain', { ...question(denial), scope: scope() });
    if (all.scope !== 'fleet') return [all, ''];
    const known = all.gateways.filter(({ explanation }) => explanation);
    const one =
        known.find(({ name }) => name === denial.gateway) ??
        known.find(({ answer }) => answer === 'self') ??
        known[0];
    if (!one) throw new ApiError(0, all.gateways[0].error ?? 'no gateway can explain it');
    const others =
        all.gateways.length > 1
            ? ` ${all.admitting} of ${all.explained} gateways would admit it; this is what ${one.name} says.`
            : '';
    return [one.explanation, others];
}

export async function explain(denial) {
    setText(
        by('explain-title'),
        `${denial.tenant}${denial.user === null ? '' : `, user ${denial.user},`} asked for ${denial.model}`,
    );
    setText(
        by('explain-then'),
        `Refused at ${format.timeOfDay(denial.at)} by ${denial.reason}` +
            `${denial.axis ? ` (binding axis: ${denial.axis})` : ''}: ${denial.text}`,
    );
    setText(by('explain-now'), 'Asking how it stands now.');
    by('explain-table').hidden = true;
    if (!dialog.open) dialog.showModal();
    try {
        const [explanation, others] = await ask(denial);
        setText(by('explain-now'), verdict(explanation) + others);
        showLimits(explanation);
    } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        setText(by('explain-now'), `It cannot be said how it stands now: ${error.message}`);
    }
}

by('explain-close').addEventListener('click', () => dialog.close());
