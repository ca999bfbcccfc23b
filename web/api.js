/* api.js - the admin API, as the dashboard asks it.
 *
 * The token goes with every request in a header, never in an address, and lives in sessionStorage:
 * it ends with the tab. The stream of denials is read by fetch, because an EventSource cannot send
 * a header.
 */
const TOKEN = 'tollgate-token';
const PATIENCE_MS = 5000;

export class ApiError extends Error {
    constructor(status, message) {
        super(message);
        this.status = status; /* 0: nobody answered */
    }
}

export const token = {
    get: () => sessionStorage.getItem(TOKEN),
    set: (text) => sessionStorage.setItem(TOKEN, text),
    forget: () => sessionStorage.removeItem(TOKEN),
};

async function ask(path, signal) {
    let reply;
    try {
        reply = await fetch(path, {
            headers: { authorization: `Bearer ${token.get() ?? ''}` },
            cache: 'no-store',
            credentials: 'omit',
            signal,
        });
    } catch (error) {
        throw new ApiError(0, error.name === 'TimeoutError' ? 'no answer in time' : 'no answer');
    }
    if (reply.ok) return reply;
    const said = await reply.json().catch(() => ({}));
    throw new ApiError(reply.status, said.error?.message ?? `status ${reply.status}`);
}

export async function get(path, parameters = {}) {
    const query = new URLSearchParams(parameters).toString();
    const reply = await ask(
        `api/v1/${path}${query && `?${query}`}`,
        AbortSignal.timeout(PATIENCE_MS),
    );
    try {
        return await reply.json();
    } catch {
        throw new ApiError(0, 'the answer is not JSON');
    }
}

/* One event of a stream: its lines, without the empty one at its end. */
function readEvent(text) {
    const event = { name: 'message', data: '' };
    for (const line of text.split('\n')) {
        const colon = line.indexOf(':');
        if (colon <= 0) continue;
        const value = line.slice(colon + 1).replace(/^ /, '');
        if (line.startsWith('event:')) event.name = value;
        if (line.startsWith('data:')) event.data += value;
    }
    return event.data && { name: event.name, data: JSON.parse(event.data) };
}

/* Calls tell(name, data) for every event, until the stream ends or `signal` says so. */
export async function watch(tell, signal) {
    const reply = await ask('api/v1/watch', signal);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const parts = (rest + value).split(/\r?\n\r?\n/);
        rest = parts.pop();
        for (const part of parts) {
            const event = readEvent(part);
            if (event) tell(event.name, event.data);
        }
    }
}
