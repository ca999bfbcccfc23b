/* dialect_turns.mjs - a conversation of ten turns with tools, each at a provider that speaks another API.
 *
 * Every turn calls a tool and gets its result; every provider thinks, signs what it thought, and is strict
 * about what comes back: its own signature where it wants one, nobody else's, each result with its call.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { KEY, PRICE, world } from './kit.mjs';
import { CLIENTS, recorder } from './matrix_kit.mjs';

const APIS = ['openai-chat', 'gemini', 'anthropic', 'openai-responses'];
const TURNS = 10;
const SIGNATURE = /c2ln[0-9a-f]{16}/g; /* as the mock signs */

const signatures = (value) => new Set(JSON.stringify(value).match(SIGNATURE) ?? []);

/* What each provider must find of its own in the last request it got; a client of the chat API keeps
 * no thoughts, so only what travels in ids of calls comes back through it. */
const OWN = {
    'openai JS, chat': { gemini: true },
    'openai JS, responses': { gemini: true, anthropic: true, 'openai-responses': true },
    'anthropic JS': { gemini: true, anthropic: true, 'openai-responses': true },
};

for (const [name, own] of Object.entries(OWN))
    test(`${name}: ten turns with tools, each at a provider of another API`, async (t) => {
        const kept = await recorder(t);
        const { gateway, mock } = await world(t, {
            script: {
                default: {
                    strict: true,
                    tool_call: 2,
                    arguments: '{"city": "Oslo"}',
                    reasoning: 4,
                    thinking: true,
                },
            },
            providers: ({ url }) => {
                kept.to = url;
                return Object.fromEntries(
                    APIS.map((api) => [
                        api,
                        { base_url: kept.url, api, keys: [{ name: 'k', secret: `sk-of-${api}` }] },
                    ]),
                );
            },
            models: () =>
                Object.fromEntries(
                    APIS.map((api) => [
                        `by-${api}`,
                        { provider: api, price: PRICE, max_output_tokens: 4096, context: 100000 },
                    ]),
                ),
            top: {
                aliases: Object.fromEntries(
                    Array.from({ length: TURNS }, (_, i) => [`turn-${i}`, `by-${APIS[i % 4]}`]),
                ),
            },
        });
        const talk = CLIENTS[name].open(gateway, KEY, 'turn-0', {
            system: 'You are terse.',
            tools: ['get_weather', 'get_time'],
            effort: 'low',
        });
        talk.user('what is it like out there?');
        for (let turn = 0; turn < TURNS; turn++) {
            const seen = await talk.ask({ asked: `turn-${turn}`, stream: turn % 3 === 0 });
            assert.deepEqual(
                seen.calls.map((call) => [call.name, call.args.city]),
                [
                    ['get_weather', 'Oslo'],
                    ['get_time', 'Oslo'],
                ],
                `turn ${turn}`,
            );
            talk.results(`result of turn ${turn}`);
        }

        const bodies = kept.requests.map((one) => Buffer.concat(one.parts).toString());
        assert.equal(bodies.length, TURNS);
        for (const seen of await mock.requests(TURNS)) assert.equal(seen.status, 200);
        const made = kept.requests.map((one) => signatures(Buffer.concat(one.reply).toString()));
        for (const [i, api] of APIS.entries()) {
            const lastTurn = i + 4 * Math.floor((TURNS - 1 - i) / 4);
            const sent = signatures(bodies[lastTurn]);
            /* Of what this API had signed before, and of what others had. */
            for (let turn = 0; turn < lastTurn; turn++)
                for (const one of made[turn])
                    assert.equal(
                        sent.has(one),
                        turn % 4 === i && own[api] === true,
                        `${api} at turn ${lastTurn}: the signature of turn ${turn}`,
                    );
            for (let turn = 0; turn < lastTurn; turn++)
                assert.equal(bodies[lastTurn].split(`result of turn ${turn}`).length, 3);
        }
        const spent = await gateway.spent();
        assert.equal(spent.calls, TURNS);
    });
