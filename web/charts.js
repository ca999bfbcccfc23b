/* charts.js - two charts of the last five minutes, drawn by Chart.js.
 *
 * The history is this page's own: it begins when the page is opened. Colours come from the style
 * sheet, so that they follow the theme; the names of areas stand in the table of reasons, and what a
 * chart says is told in words in its label.
 */
import { rate, integer } from './format.js';

const SPAN_S = 300;
const SPAN_MIN_S = 60; /* of a page that was just opened */

/* Those that have a colour; all others are drawn together. */
const REASONS = [
    'rate',
    'cost',
    'concurrency',
    'peer_limit',
    'memory_pressure',
    'policy',
    'budget',
    'budget_contended',
    'no_key',
    'other',
];

export const colourOf = (reason) => `c-${REASONS.includes(reason) ? reason : 'other'}`;

function styleOf(className, property) {
    const probe = document.createElement('span');
    probe.className = className;
    probe.hidden = true;
    document.body.append(probe);
    const value = getComputedStyle(probe)[property];
    probe.remove();
    return value;
}

const area = (label, className, more = {}) => ({
    label,
    data: [],
    tint: className,
    borderWidth: 1.5,
    pointRadius: 0,
    ...more,
});

function clock(seconds) {
    const at = new Date(seconds * 1000);
    return `${at.getHours()}:${String(at.getMinutes()).padStart(2, '0')}`;
}

function makeChart(canvas, datasets, stacked) {
    return new globalThis.Chart(canvas, {
        type: 'line',
        data: { datasets },
        options: {
            animation: false,
            parsing: false,
            normalized: true,
            responsive: true,
            maintainAspectRatio: false,
            interaction: { mode: 'index', intersect: false },
            plugins: {
                legend: { display: false },
                tooltip: {
                    filter: (item) => item.parsed.y > 0,
                    callbacks: {
                        title: (items) =>
                            items.length
                                ? new Date(items[0].parsed.x * 1000).toLocaleTimeString()
                                : '',
                    },
                },
            },
            scales: {
                x: {
                    type: 'linear',
                    grid: { display: false },
                    ticks: { stepSize: 60, maxTicksLimit: 6, maxRotation: 0, callback: clock },
                },
                y: { beginAtZero: true, stacked, suggestedMax: 1, ticks: { maxTicksLimit: 5 } },
            },
        },
    });
}

/* Drops what is older than the chart is wide. */
function push(data, x, y) {
    data.push({ x, y });
    while (data.length > 0 && data[0].x < x - SPAN_S) data.shift();
}

function paint(chart, now, first) {
    for (const dataset of chart.data.datasets) {
        const colour = styleOf(dataset.tint, 'backgroundColor');
        dataset.borderColor = colour;
        dataset.backgroundColor = dataset.fill ? colour : 'transparent';
    }
    const { x, y } = chart.options.scales;
    const text = styleOf('quiet', 'color');
    x.ticks.color = y.ticks.color = text;
    y.grid.color = styleOf('tile', 'borderTopColor');
    if (now !== undefined) {
        x.max = now;
        x.min = Math.max(now - SPAN_S, Math.min(first, now - SPAN_MIN_S));
    }
    chart.update('none');
}

export class Charts {
    constructor() {
        const reasons = REASONS.map((r) => area(r, `c-${r}`, { fill: '-1' }));
        this.rates = makeChart(
            document.getElementById('chart-rates'),
            [area('admitted', 'c-admitted', { fill: 'origin' }), ...reasons],
            true,
        );
        this.load = makeChart(
            document.getElementById('chart-load'),
            [
                area('limit', 'c-limit', { stepped: true }),
                area('in flight', 'c-flight'),
                area('queued', 'c-queue'),
            ],
            false,
        );
        this.loads = new Map(); /* name -> [limit, in flight, queued], each a list of points */
        this.chosen = undefined;
    }

    /* Forgets what was drawn. */
    clear() {
        for (const dataset of this.rates.data.datasets) dataset.data = [];
        this.loads.clear();
        this.draw();
    }

    /* A second more: rates of a snapshot, and the loads as [{name, limit, inFlight, queued}]. */
    add(now, rates, loads) {
        const x = now / 1000;
        const by = new Map(REASONS.map((reason) => [reason, 0]));
        for (const [reason, value] of Object.entries(rates.refused_by_reason)) {
            const known = by.has(reason) ? reason : 'other';
            by.set(known, by.get(known) + value);
        }
        const [admitted, ...refused] = this.rates.data.datasets;
        push(admitted.data, x, rates.admitted);
        refused.forEach((dataset) => push(dataset.data, x, by.get(dataset.label)));
        for (const name of this.loads.keys())
            if (!loads.some((load) => load.name === name)) this.loads.delete(name);
        for (const load of loads) {
            const lines = this.loads.get(load.name) ?? [[], [], []];
            this.loads.set(load.name, lines);
            [load.limit, load.inFlight, load.queued].forEach((y, k) => push(lines[k], x, y));
        }
        this.describe(rates, loads);
        this.name();
        this.draw(x);
    }

    /* The areas that can be seen, from the bottom. */
    name() {
        const shown = this.rates.data.datasets.filter(
            ({ label, data }) => label === 'admitted' || data.some(({ y }) => y > 0),
        );
        const list = document.getElementById('legend-rates');
        const names = shown.map(({ label }) => label).join(' ');
        if (list.dataset.names === names) return;
        list.dataset.names = names;
        list.replaceChildren(
            ...shown.map(({ label, tint }) => {
                const item = document.createElement('li');
                const swatch = document.createElement('span');
                swatch.className = `swatch ${tint}`;
                item.append(swatch, label);
                return item;
            }),
        );
    }

    describe(rates, loads) {
        const load = loads.find(({ name }) => name === this.chosen);
        this.rates.canvas.setAttribute(
            'aria-label',
            `Calls a second over the last five minutes; now ${rate(rates.admitted)} admitted, ` +
                `${rate(rates.refused)} refused`,
        );
        if (load)
            this.load.canvas.setAttribute(
                'aria-label',
                `Concurrency of ${load.name} over the last five minutes; now limit ` +
                    `${integer(load.limit)}, ${load.inFlight} in flight, ${load.queued} queued`,
            );
    }

    show(name) {
        this.chosen = name;
        this.draw();
    }

    draw(now) {
        const lines = this.loads.get(this.chosen) ?? [[], [], []];
        this.load.data.datasets.forEach((dataset, k) => (dataset.data = lines[k]));
        const first = this.rates.data.datasets[0].data[0]?.x;
        paint(this.rates, now, first);
        paint(this.load, now, first);
    }
}
