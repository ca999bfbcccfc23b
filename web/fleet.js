/* fleet.js - all gateways that share a store, or the one that was asked: the choice, and who they are.
 *
 * All of them are shown where there is more than one, until somebody chooses otherwise.
 */
import * as format from './format.js';
import { fillTable, setText } from './table.js';

const by = (id) => document.getElementById(id);

export const scope = () => by('scope').value;

/* One that has been silent for so long was taken away, most likely: its row says so, and no more. */
const LONG_SILENT_MS = 600000;

const hasAnswered = ({ answer }) => answer === 'self' || answer === 'answered';

function stateOf({ snapshot }) {
    if (!snapshot) return '–';
    if (snapshot.draining) return 'draining';
    return snapshot.ready ? 'ready' : `not ready: ${snapshot.unready_reason ?? 'no reason given'}`;
}

/* How many there are that live, whichever scope the snapshot has. */
function countOf({ gateways, fleet }) {
    return gateways ? gateways.length : (fleet?.gateways ?? 1);
}

const isGone = ({ answer, silent_ms }) => answer === 'silent' && silent_ms > LONG_SILENT_MS;

function showMissing({ gateways: all, store_away }) {
    const gateways = all.filter((gateway) => !isGone(gateway));
    const missing = gateways.filter((gateway) => !hasAnswered(gateway));
    const text =
        missing.length === 0
            ? ''
            : `${gateways.length - missing.length} of ${gateways.length} gateways answered` +
              `${store_away ? ': the store is away, so what is shown is this one alone' : ''}.`;
    by('fleet-missing').hidden = !text;
    setText(by('fleet-missing'), text);
}

export function showFleet(snapshot) {
    const { gateways = [] } = snapshot;
    by('scope-choice').hidden = countOf(snapshot) < 2;
    by('fleet').hidden = gateways.length < 2;
    showMissing({ ...snapshot, gateways });
    const list = [...gateways].sort(
        (a, b) => hasAnswered(a) - hasAnswered(b) || a.name.localeCompare(b.name),
    );
    fillTable(
        by('gateways'),
        list,
        ({ id }) => id,
        (gateway) => {
            const said = gateway.snapshot;
            const all = said?.gates[0];
            return [
                gateway.name,
                {
                    text: gateway.answer === 'silent' ? `silent for ${format.span(gateway.silent_ms)}` : gateway.answer,
                    className: hasAnswered(gateway) ? 'good' : 'bad',
                },
                gateway.program ?? '–',
                { text: stateOf(gateway), className: said && !said.ready ? 'bad' : '' },
                { text: said?.store.state ?? '–', className: said && said.store.state !== 'ok' ? 'bad' : '' },
                said?.config.hash?.slice(0, 8) ?? '–',
                format.rate(said?.rates.calls),
                { text: format.rate(said?.rates.refused), className: said?.rates.refused > 0 ? 'bad' : '' },
                format.integer(all?.in_flight),
            ];
        },
    );
}
