/* panels.js - a snapshot on the page: figures, and a table for each thing that has a state. */
import { colourOf } from './charts.js';
import * as format from './format.js';
import { fillTable, make, part, setText } from './table.js';

const by = (id) => document.getElementById(id);
const put = (id, text) => setText(by(id), text);
const total = (queued) => queued.high + queued.normal + queued.low;
const queue = (queued) => `${queued.high} / ${queued.normal} / ${queued.low}`;

/* The gates and the routes in one form: what has a limit, calls in flight and a queue. */
export function loadsOf(snapshot) {
    const gates = snapshot.gates.map((gate) => ({ ...gate, title: gate.name === 'all' ? 'all calls' : gate.name }));
    const routes = snapshot.routes.map((route) => ({ ...route, title: route.model }));
    return [...gates, ...routes].map((load) => ({
        ...load,
        name: load.model === undefined ? `gate ${load.name}` : `${load.provider}/${load.model}`,
        inFlight: load.in_flight,
        queues: load.queued,
        queued: total(load.queued),
    }));
}

/* ---- Figures ---- */

function showFigures({ rates, counters, gates, routes }) {
    put('rate-calls', format.rate(rates.calls));
    put('rate-admitted', format.rate(rates.admitted));
    put('rate-refused', format.rate(rates.refused));
    by('rate-refused').className = rates.refused > 0 ? 'bad' : '';
    put('total-calls', `${format.compact(counters.calls)} in all`);
    put('total-admitted', `${format.compact(counters.admitted)} in all`);
    put('total-refused', `${format.compact(counters.refused)} in all`);

    /* Every call that runs holds a slot of the first gate; it may wait there, or for its own kind. */
    const [all] = gates;
    const sum = (pick) => [...gates, ...routes].reduce((n, load) => n + pick(load), 0);
    put('in-flight', format.integer(all.in_flight));
    put('in-flight-limit', all.limit === null ? 'no limit' : `of ${format.integer(all.limit)}`);
    put('queued', format.integer(sum((load) => total(load.queued))));
    put(
        'queued-classes',
        ['high', 'normal', 'low'].map((c) => `${c} ${sum((load) => load.queued[c])}`).join(', '),
    );
}

function showHealth({ memory, store, fleet, ledger, ready, unready_reason, draining, connections }) {
    const wrong = [];
    if (draining) wrong.push('draining');
    else if (!ready) wrong.push(`not ready: ${unready_reason ?? 'no reason given'}`);
    if (!['ok', 'off'].includes(memory.state)) wrong.push(`memory ${memory.state}`);
    if (store.state !== 'ok') wrong.push(`store ${store.state}`);
    if (fleet && fleet.state !== 'current') wrong.push(`fleet ${fleet.state}`);
    if (ledger && ledger.state !== 'well') wrong.push(`ledger ${ledger.state}`);
    put('health', wrong.length ? wrong.join(', ') : 'ready');
    by('health').className = `health ${wrong.length ? 'bad' : 'good'}`;
    const others = fleet
        ? `, version ${fleet.version}, ${fleet.gateways} gateways${fleet.behind ? `, ${fleet.behind} behind` : ''}`
        : '';
    put(
        'health-more',
        `memory ${format.percent(memory.used_ratio)}, ${connections} connections${others}`,
    );
}

/* ---- Tables ---- */

function showReasons({ rates, counters }) {
    const now = rates.refused_by_reason;
    const all = counters.refused_by_reason;
    const shadow = counters.would_deny_by_reason;
    const names = [...new Set([...Object.keys(all), ...Object.keys(now), ...Object.keys(shadow)])]
        .filter((name) => all[name] || now[name] || shadow[name])
        .sort((a, b) => (all[b] ?? 0) - (all[a] ?? 0) || a.localeCompare(b));
    fillTable(
        by('reasons'),
        names,
        (name) => name,
        (name) => [
            {
                part: part('reason', () => [
                    make('span', { className: `swatch ${colourOf(name)}` }),
                    make('span', { text: name }),
                ]),
            },
            { text: format.rate(now[name] ?? 0), className: now[name] > 0 ? 'bad' : '' },
            format.integer(all[name] ?? 0),
            format.integer(shadow[name] ?? 0),
        ],
    );
}

function showTenants({ tenants, tenants_total }) {
    put('tenants-total', `of ${format.integer(tenants_total)}`);
    fillTable(
        by('tenants'),
        tenants,
        ({ name }) => name,
        (tenant) => [
            tenant.name,
            format.rate(tenant.calls_per_s),
            {
                text: format.rate(tenant.refused_per_s),
                className: tenant.refused_per_s > 0 ? 'bad' : '',
            },
            format.integer(tenant.calls),
            format.integer(tenant.refused),
        ],
    );
}

const TROUBLE = ['suspended', 'broken', 'cooling', 'probing', 'full', 'ready', 'disabled'];
const tone = { ready: 'good', suspended: 'bad', broken: 'bad', disabled: 'quiet' };

/* The end of a wait counts down between two snapshots: tick() below moves what has `until`. */
function counting(className, text, until) {
    return {
        className,
        part: part('counting', () => [make('span'), ' ', make('span', { className: 'count' })]),
        update(td) {
            const [said, count] = td.children;
            setText(said, text);
            count.until = until;
            if (until === null) setText(count, '');
        },
    };
}

function windowCell({ limit, used }) {
    if (limit === null) return '–';
    return {
        text: `${format.compact(used)} / ${format.compact(limit)}`,
        className: used >= limit ? 'warn' : '',
    };
}

/* Of several gateways the worst, and how many of them it is so at. */
function statusOf({ status, statuses = {} }) {
    const gateways = Object.values(statuses).reduce((n, each) => n + each, 0);
    return statuses[status] < gateways ? `${status} at ${statuses[status]} of ${gateways}` : status;
}

function showKeys({ keys, keys_truncated }) {
    const rank = (key) => TROUBLE.indexOf(key.status);
    const name = (key) => `${key.provider}/${key.model}/${key.name}`;
    const list = [...keys].sort((a, b) => rank(a) - rank(b) || name(a).localeCompare(name(b)));
    const ready = keys.filter(({ status }) => status === 'ready').length;
    put(
        'keys-note',
        `${ready} of ${keys.length} ready${keys_truncated ? ', and more that are not shown' : ''}`,
    );
    fillTable(by('keys'), list, name, (key) => [
        key.name,
        key.provider,
        key.model,
        counting(
            tone[key.status] ?? 'warn',
            statusOf(key),
            key.status === 'cooling' ? key.cooldown_until : key.breaker_until,
        ),
        format.integer(key.in_flight),
        windowCell(key.rpm),
        windowCell(key.tpm),
        format.ms(key.latency_ms),
    ]);
}

function showRoutes(snapshot, loads) {
    put('routes-note', snapshot.routes_truncated ? 'the busiest' : '');
    fillTable(
        by('routes'),
        loads,
        ({ name }) => name,
        (load) => [
            load.title,
            load.provider ?? '–',
            `${load.law ?? '–'}${load.mode === 'shadow' ? ' (shadow)' : ''}`,
            format.integer(load.limit),
            {
                text: format.integer(load.inFlight),
                className: load.limit !== null && load.inFlight >= load.limit ? 'warn' : '',
            },
            queue(load.queues),
            load.model === undefined ? '' : format.ms(load.first_byte_ms),
            load.model === undefined
                ? ''
                : {
                      text: `${load.keys_ready} / ${load.keys}`,
                      className: load.keys > 0 && load.keys_ready === 0 ? 'bad' : '',
                  },
        ],
    );
}

function usedCell(ratio) {
    return {
        className: ratio >= 1 ? 'bad' : ratio >= 0.8 ? 'warn' : '',
        part: part('meter', () => [
            make('meter', { min: 0, max: 1, low: 0.8, high: 0.99, optimum: 0, ariaLabel: 'used' }),
            make('span'),
        ]),
        update(td) {
            const [meter, text] = td.children;
            meter.value = Math.min(1, ratio);
            setText(text, format.percent(ratio));
        },
    };
}

function showBudgets({ budgets, budgets_truncated }) {
    put('budgets-note', budgets_truncated ? 'the most used' : '');
    const key = (budget) =>
        `${budget.tenant ?? ''}/${budget.key ?? ''}/${budget.per}/${budget.reset_at}/${budget.mode}`;
    fillTable(by('budgets'), budgets, key, (budget) => [
        budget.key ? `${budget.tenant}, key ${budget.key}` : (budget.tenant ?? 'everyone'),
        `${budget.per}${budget.mode === 'shadow' ? ' (shadow)' : ''}`,
        usedCell(budget.used_ratio),
        format.usd(budget.used_micro_usd),
        format.usd(budget.reserved_micro_usd),
        format.usd(budget.limit_micro_usd),
        format.usd(budget.left_micro_usd),
        budget.reset_at === null ? 'never' : counting('', '', budget.reset_at),
    ]);
}

/* ---- Denials ---- */

const FEW = 12; /* that are shown until all are asked for */

/* Rows do not move away under a pointer or a finger that is about to press one. */
function isHeld(table) {
    const points = matchMedia('(hover: hover)').matches && table.matches(':hover');
    return table.rows.length > 1 && (points || table.contains(document.activeElement));
}

function denialsNote(dropped, newer) {
    const notes = [];
    if (newer > 0) notes.push(`held while you look; ${format.integer(newer)} newer`);
    if (dropped > 0) notes.push(`${format.integer(dropped)} came too fast to be shown`);
    return notes.join('; ');
}

function explainCell(denial, explain) {
    if (denial.tenant === null || denial.model === null) return '';
    const button = () =>
        make('button', {
            type: 'button',
            text: 'Explain',
            ariaLabel: `Explain the refusal of ${denial.tenant} for ${denial.model}`,
            onclick: () => explain(denial),
        });
    return { part: part('explain', () => [button()]) };
}

export const denialKey = ({ id, at }) => `${id} ${at}`;

/* Newest first. */
export function showDenials(denials, dropped, explain) {
    const table = by('denials');
    const more = by('denials-more');
    const all = more.getAttribute('aria-expanded') === 'true';
    more.hidden = denials.length <= FEW;
    setText(more, all ? 'Show fewer' : `Show all ${denials.length}`);
    if (isHeld(table)) {
        const shown = denials.findIndex((denial) => table.rowsByKey.has(denialKey(denial)));
        put('denials-note', denialsNote(dropped, shown < 0 ? denials.length : shown));
        return;
    }
    put('denials-note', denialsNote(dropped, 0));
    fillTable(table, all ? denials : denials.slice(0, FEW), denialKey, (denial) => [
        format.timeOfDay(denial.at),
        denial.tenant ?? '–',
        denial.model ?? '–',
        denial.reason,
        denial.text,
        explainCell(denial, explain),
    ]);
}

/* ---- The whole ---- */

export function showSnapshot(snapshot, loads) {
    showFigures(snapshot);
    showHealth(snapshot);
    showReasons(snapshot);
    showTenants(snapshot);
    showKeys(snapshot);
    showRoutes(snapshot, loads);
    showBudgets(snapshot);
}

/* `now` is the gateway's clock. */
export function tick(now) {
    for (const count of document.querySelectorAll('.count'))
        if (count.until !== null && count.until !== undefined)
            setText(count, count.until > now ? format.span(count.until - now) : '');
}
