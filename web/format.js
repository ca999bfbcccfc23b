/* format.js - numbers, times and money as they are shown. A value that is null is a dash. */
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const dollars = new Intl.NumberFormat('en', { style: 'currency', currency: 'USD' });
const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });

const or = (format) => (value) => (value === null || value === undefined ? '–' : format(value));

export const integer = or((n) => whole.format(n));
export const compact = or((n) => (n < 10000 ? whole : short).format(n));
export const rate = or((n) => (n < 100 ? tenth : whole).format(n));
/* Rounded down: what is not used up does not look so. */
export const percent = or((ratio) => `${tenth.format(Math.floor(ratio * 1000) / 10)}%`);
export const usd = or((micro) => dollars.format(micro / 1e6));
export const ms = or((n) => (n < 10000 ? `${whole.format(n)} ms` : `${tenth.format(n / 1000)} s`));
export const timeOfDay = or((at) => clock.format(new Date(at)));

export function span(milliseconds) {
    const s = Math.max(0, milliseconds) / 1000;
    if (s < 60) return `${s.toFixed(1)} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s / 60) % 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s / 3600) % 24)} h`;
}

/* What is left of a limit, in the unit of what it limits. */
export function left({ limit, remaining, unit }) {
    const shown = { micro_usd: usd, ratio: percent }[unit] ?? rate;
    const named = ['calls', 'tokens', 'keys'].includes(unit) ? ` ${unit}` : '';
    return limit === null
        ? `${shown(remaining)}${named}`
        : `${shown(remaining)} of ${shown(limit)}${named}`;
}
