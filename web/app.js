/* app.js - the dashboard: asks for a snapshot every second, listens for denials, and shows both.
 *
 *     no token --(a token is given)--> asking --200--> live --(no answer)--> lost --200--> live
 *         ^------------- 401 --------------+--------------+
 *
 * A gateway that does not answer leaves its last figures on the page, paler, with a word of how old
 * they are, and is asked again. Nothing here changes anything at the gateway.
 */
import { ApiError, get, token, watch } from './api.js';
import { Charts } from './charts.js';
import { explain } from './explain.js';
import { scope, showFleet } from './fleet.js';
import * as format from './format.js';
import { denialKey, loadsOf, showDenials, showSnapshot, tick } from './panels.js';
import { make, setText } from './table.js';

const ASK_EVERY_MS = 1000;
const TICK_MS = 200;
const DENIALS_MAX = 100;
const WATCH_AGAIN_MS = [1000, 2000, 5000, 10000];

const by = (id) => document.getElementById(id);

const state = {
    charts: undefined,
    clock: { server: 0, at: 0 } /* the gateway's time, and ours when it said so */,
    answered: undefined /* ours, of the last snapshot */,
    started: undefined /* the gateway's; another one: it was started again */,
    denials: new Map(),
    dropped: 0,
    watching: undefined /* ends the stream */,
    run: 0 /* which token's asking is under way; an older one ends */,
};

const serverNow = () => state.clock.server + (performance.now() - state.clock.at);

/* ---- What is said at the top ---- */

function say(id, text) {
    by(id).hidden = !text;
    setText(by(id), text);
}

function showState(name, text) {
    by('state').className = `state ${name}`;
    setText(by('state'), text);
    by('figures').classList.toggle('stale', name === 'lost');
}

function showAbout({ version, uptime_ms, config }) {
    const which =
        config.hash === null
            ? 'configurations differ'
            : `configuration ${config.generation ?? ''} (${config.hash.slice(0, 8)})`;
    setText(
        by('about'),
        `${version} · up ${format.span(uptime_ms)} · ${which} since ${format.timeOfDay(config.loaded_at)}`,
    );
    const reload = config.last_reload;
    say(
        'notice',
        reload && !reload.ok
            ? `The reload of ${format.timeOfDay(reload.at)} (${reload.why}) failed with ` +
                  `${reload.errors} errors: the configuration before it still holds.`
            : '',
    );
}

/* ---- The token ---- */

function askForToken(trouble) {
    state.watching?.abort();
    state.watching = undefined;
    by('figures').hidden = true;
    by('forget').hidden = true;
    by('scope-choice').hidden = true;
    by('fleet-missing').hidden = true;
    by('sign-in').hidden = false;
    say('sign-in-trouble', trouble);
    say('trouble', '');
    say('notice', '');
    setText(by('about'), '');
    showState('', 'Waiting for the token');
    by('token').focus();
}

by('sign-in').addEventListener('submit', (event) => {
    event.preventDefault();
    token.set(by('token').value.trim());
    by('token').value = '';
    by('sign-in').hidden = true;
    by('main').focus();
    start();
});

by('forget').addEventListener('click', () => {
    token.forget();
    state.run++;
    state.denials.clear();
    askForToken('');
});

/* ---- Denials: of the stream as they come, and of the snapshots for what came before ---- */

function takeDenials(list) {
    for (const denial of list) state.denials.set(denialKey(denial), denial);
    const newest = [...state.denials.values()].sort((a, b) => b.at - a.at).slice(0, DENIALS_MAX);
    state.denials = new Map(newest.map((denial) => [denialKey(denial), denial]));
    return newest;
}

let drawing = false;
function drawDenials() {
    if (drawing) return;
    drawing = true;
    /* Thousands a second are drawn as often as the screen is. */
    requestAnimationFrame(() => {
        drawing = false;
        showDenials(takeDenials([]), state.dropped, explain);
    });
}

function takeEvent(name, data) {
    if (name === 'denial') takeDenials([data]);
    if (name === 'dropped') state.dropped += data.dropped;
    if (name !== 'hello') drawDenials();
}

async function keepWatching() {
    const ending = new AbortController();
    state.watching = ending;
    for (let failures = 0; !ending.signal.aborted; failures++) {
        const began = performance.now();
        try {
            await watch(takeEvent, ending.signal);
        } catch {
            /* Snapshots say what is wrong; they also have the latest denials. */
        }
        if (performance.now() - began > 10000) failures = 0;
        const pause = WATCH_AGAIN_MS[Math.min(failures, WATCH_AGAIN_MS.length - 1)];
        await new Promise((done) => setTimeout(done, pause));
    }
}

/* ---- Snapshots ---- */

function showLoads(loads) {
    const select = by('load-of');
    const names = loads.map(({ name }) => name);
    if (names.join('\n') !== select.names) {
        const chosen = select.value;
        select.replaceChildren(
            ...loads.map((load) => make('option', { value: load.name, text: load.title })),
        );
        select.names = names.join('\n');
        select.value = names.includes(chosen) ? chosen : (names[0] ?? '');
        state.charts.show(select.value);
    }
}

function takeSnapshot(snapshot) {
    const now = performance.now();
    state.clock = { server: snapshot.now, at: now };
    state.answered = now;
    if (state.started !== undefined && state.started !== snapshot.started_at) {
        state.denials.clear();
        state.dropped = 0;
    }
    state.started = snapshot.started_at;
    state.charts ??= new Charts();

    const loads = loadsOf(snapshot);
    by('figures').hidden = false;
    by('forget').hidden = false;
    showState('live', snapshot.draining ? 'Live, draining' : 'Live');
    say('trouble', '');
    showAbout(snapshot);
    showFleet(snapshot);
    showSnapshot(snapshot, loads);
    showLoads(loads);
    state.charts.add(snapshot.now, snapshot.rates, loads);
    showDenials(takeDenials(snapshot.denials), state.dropped, explain);
    tick(serverNow());
}

function showTrouble(error) {
    showState('lost', 'No connection');
    const since =
        state.answered === undefined
            ? ''
            : ` What is shown is ${format.span(performance.now() - state.answered)} old.`;
    say(
        'trouble',
        `The gateway does not answer (${error.message}).${since} It is asked again every second.`,
    );
}

/* False: there is no use in asking again. */
async function askOnce() {
    try {
        const asked = scope();
        const snapshot = await get('snapshot', { scope: asked });
        if (asked === scope()) takeSnapshot(snapshot);
        return true;
    } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status === 401) {
            token.forget();
            askForToken('That is not the token.');
            return false;
        }
        if (error.status === 403) {
            askForToken(error.message);
            return false;
        }
        showTrouble(error);
        return true;
    }
}

async function start() {
    const run = ++state.run;
    showState('', 'Asking');
    if (!(await askOnce())) return;
    keepWatching();
    for (;;) {
        await new Promise((done) => setTimeout(done, ASK_EVERY_MS));
        if (run !== state.run || !(await askOnce())) return;
    }
}

/* ---- Theme ---- */

const THEMES = ['system', 'light', 'dark'];

function showTheme() {
    setText(by('theme'), `Theme: ${document.documentElement.dataset.theme ?? 'system'}`);
    state.charts?.draw();
}

by('theme').addEventListener('click', () => {
    const root = document.documentElement;
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? 'system') + 1) % THEMES.length];
    if (next === 'system') delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
        localStorage.setItem('tollgate-theme', next);
    } catch {
        /* Then it holds until the page is closed. */
    }
    showTheme();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showTheme);

/* ---- Beginning ---- */

by('denials-more').addEventListener('click', () => {
    const more = by('denials-more');
    more.setAttribute('aria-expanded', String(more.getAttribute('aria-expanded') !== 'true'));
    drawDenials();
});
/* What was drawn is of others. */
by('scope').addEventListener('change', () => {
    state.charts?.clear();
    state.denials.clear();
    state.dropped = 0;
    askOnce();
});
by('load-of').addEventListener('change', () => state.charts.show(by('load-of').value));
setInterval(() => tick(serverNow()), TICK_MS);
showTheme();
if (token.get() === null) askForToken('');
else start();
