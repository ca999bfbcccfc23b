/* billing.mjs - what a provider bills for a call, by its own published rules.
 *
 * Nothing here is shared with the gateway: other language, other arithmetic (exact fractions in
 * BigInt), other tables (Unicode's own normalisation instead of ranges with a factor). Where the
 * tokenizer of a family is closed, the worst count that it can give is taken: a byte-level tokenizer
 * makes at most one token a byte of the normalised text, so that many are billed. Whoever holds a
 * budget against this provider holds it against the real ones.
 *
 * The models are scaled: their contexts, thresholds and speeds are such that a test reaches them.
 */

/* ---- models ---- */

const OPENAI = { family: 'openai', api: 'openai', tok: 'byte', cut: 'stops' };
const ANTHROPIC = { family: 'anthropic', api: 'anthropic', tok: 'nfkc', cut: 'stops' };

/* gemini-3.1-pro by its own API: thoughts beside the answer, dear beyond a length, runs on. */
const GEMINI = {
    family: 'gemini',
    api: 'gemini',
    provider: 'gem',
    tok: 'nfkc',
    cut: 'runs',
    context: 100000,
    most: 4000,
    tps: 4000,
    price: { input: 2, cached: 0.2, output: 12 },
    long: { over: 12000, input: 2000, output: 1500 },
    tiers: { default: 1000, flex: 500, priority: 1800 },
    image: { rule: 'most', most: 2240 },
};

/* Prices in USD for a million tokens; `tps` is the most that it writes in a second, for each choice. */
export const MODELS = {
    /* gpt-4.1 and kin: tiles, tiers, no writes */
    'oa-flat': {
        ...OPENAI,
        cheaper: 'oa-mini',
        context: 100000,
        most: 8000,
        tps: 4000,
        price: { input: 2, cached: 0.5, output: 8, audio: 40, audio_output: 80 },
        tiers: { default: 1000, priority: 1750, flex: 500 },
        image: { rule: 'tiles', base: 85, tile: 170 },
    },
    /* the same on an account whose calls are `priority` unless they say otherwise */
    'oa-auto': {
        ...OPENAI,
        context: 100000,
        most: 8000,
        tps: 4000,
        price: { input: 2, cached: 0.5, output: 8 },
        tiers: { default: 1000, priority: 1750, flex: 500 },
        tier_default: 'priority',
        fallback: 'oa-write',
        image: { rule: 'tiles', base: 85, tile: 170 },
    },
    /* gpt-4o-mini: an image is up to 48,169 tokens */
    'oa-mini': {
        ...OPENAI,
        context: 128000,
        most: 4000,
        tps: 4000,
        price: { input: 0.15, cached: 0.075, output: 0.6 },
        tiers: { default: 1000 },
        image: { rule: 'tiles', base: 2833, tile: 5667 },
    },
    /* gpt-5.6 and kin: hidden reasoning, implicit cache writes, dear beyond a length, four tiers */
    'oa-write': {
        ...OPENAI,
        context: 100000,
        most: 8000,
        tps: 4000,
        price: { input: 4, cached: 0.4, write: 5, write_long: 8, output: 20 },
        implicit: 1024,
        long: { over: 12000, input: 2000, output: 1500 },
        tiers: { default: 1000, flex: 500, priority: 2000, fast: 2000, ultrafast: 6000 },
        image: { rule: 'patches', most: 30000, multiplier: 1000 },
        fee: 0.01,
    },
    /* a vLLM with Llama's template: schemas rendered with indent, Qwen's normaliser */
    'vl-open': {
        family: 'vllm',
        api: 'openai',
        tok: 'nfc',
        cut: 'stops',
        context: 32768,
        most: 8000,
        tps: 4000,
        price: { input: 1, output: 2 },
        tiers: { default: 1000 },
        image: { rule: 'most', most: 4096 },
    },
    /* Gemini behind its OpenAI-compatible address: it does not stop when a client leaves */
    'go-flash': {
        family: 'gemini',
        api: 'openai',
        tok: 'nfkc',
        cut: 'runs',
        context: 100000,
        most: 4000,
        tps: 4000,
        price: { input: 0.75, cached: 0.075, output: 3.75 },
        tiers: { default: 1000, flex: 500, priority: 1800 },
        image: { rule: 'most', most: 2240 },
        fee: 0.014,
    },
    'gg-pro': GEMINI,
    /* What cannot be carried over to these is left out; nobody has told how tools are described. */
    'gg-lossy': { ...GEMINI, lossy: true, fallback: 'oa-write' },
    'an-lossy': {
        ...ANTHROPIC,
        lossy: true,
        bare: true,
        context: 100000,
        most: 4000,
        tps: 4000,
        price: { input: 1, cached: 0.1, write: 1.25, write_long: 2, output: 5 },
        tiers: { standard: 1000 },
        image: { rule: 'claude', most: 4784, edge: 2576 },
        rounds: 10,
    },
    /* a server that has not heard of max_completion_tokens */
    'vl-lossy': {
        family: 'vllm',
        api: 'openai',
        provider: 'old',
        lossy: true,
        tok: 'nfc',
        cut: 'stops',
        context: 32768,
        most: 8000,
        tps: 4000,
        price: { input: 1, output: 2 },
        tiers: { default: 1000 },
        image: { rule: 'most', most: 4096 },
    },
    /* gpt-5.6 at a provider that has the responses API alone */
    'or-write': {
        ...OPENAI,
        provider: 'ors',
        context: 100000,
        most: 8000,
        tps: 4000,
        price: { input: 4, cached: 0.4, write: 5, write_long: 8, output: 20 },
        implicit: 1024,
        tiers: { default: 1000, flex: 500, priority: 2000 },
        image: { rule: 'tiles', base: 85, tile: 170 },
    },
    'oa-embed': {
        ...OPENAI,
        context: 8192,
        most: 0,
        tps: 4000,
        price: { input: 0.13, output: 0 },
        tiers: { default: 1000 },
    },
    /* claude-opus-5-5: thinking that is not shown, writes of 5 minutes and 1 hour, speed, region */
    'an-opus': {
        ...ANTHROPIC,
        cheaper: 'oa-flat' /* in another API's words */,
        context: 100000,
        most: 8000,
        tps: 4000,
        price: { input: 4, cached: 0.2, write: 5, write_long: 8, output: 20 },
        tiers: { standard: 1000 },
        speed: { fast: 2000 },
        geo: { us: 1100, global: 1000 },
        image: { rule: 'claude', most: 4784, edge: 2576 },
        fee: 0.01,
        rounds: 10,
    },
    /* claude-haiku-5-5: five times as dear beyond a length, in every class */
    'an-haiku': {
        ...ANTHROPIC,
        context: 100000,
        most: 4000,
        tps: 4000,
        price: { input: 0.1, cached: 0.01, write: 0.125, write_long: 0.2, output: 0.5 },
        long: { over: 5000, input: 5000, output: 5000 },
        tiers: { standard: 1000 },
        image: { rule: 'claude', most: 4784, edge: 2576 },
        fee: 0.01,
        rounds: 10,
    },
    /* claude-sonnet-5-5 as it is, but for its speed: what honest agents use */
    'an-agent': {
        ...ANTHROPIC,
        context: 1000000,
        most: 128000,
        tps: 200000,
        price: { input: 2, cached: 0.1, write: 2.5, write_long: 4, output: 10 },
        tiers: { standard: 1000 },
        image: { rule: 'claude', most: 4784, edge: 2576 },
        fee: 0.01,
        rounds: 10,
    },
};

/* ---- text ---- */

const NORMAL = { byte: null, nfc: 'NFC', nfkc: 'NFKC' };

/* The most tokens that this text can have. */
export function denseTokens(text, tok) {
    return Buffer.byteLength(NORMAL[tok] ? text.normalize(NORMAL[tok]) : text);
}

/* English has a token in four bytes. */
export const plainTokens = (text) => Math.ceil(Buffer.byteLength(text) / 4);

/* ---- images ---- */

/* Width and height of an image, by what follows its head, as a decoder would find it: the data of a
 * PNG has its size in IHDR; of several frames of a JPEG the largest is decoded. */
export function imageSize(bytes) {
    if (bytes.length >= 24 && bytes.readUInt32BE(0) === 0x89504e47)
        return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
    if (bytes.length >= 10 && bytes.toString('latin1', 0, 3) === 'GIF')
        return [bytes.readUInt16LE(6), bytes.readUInt16LE(8)];
    if (bytes.length >= 4 && bytes.readUInt16BE(0) === 0xffd8) {
        let most = null;
        for (let at = 2; at + 9 <= bytes.length;) {
            if (bytes[at] !== 0xff) break;
            const kind = bytes[at + 1];
            if (kind >= 0xc0 && kind <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(kind)) {
                const size = [bytes.readUInt16BE(at + 7), bytes.readUInt16BE(at + 5)];
                if (!most || size[0] * size[1] > most[0] * most[1]) most = size;
            }
            at += 2 + bytes.readUInt16BE(at + 2);
        }
        return most;
    }
    return null;
}

/* Tokens of an image of this size; null: of one whose size nobody knows before it is fetched. */
export function imageTokens(rule, size, detail) {
    if (!rule) return 0;
    if (rule.rule === 'most') return rule.most;
    if (rule.rule === 'tiles') {
        if (detail === 'low') return rule.base;
        let [w, h] = size ?? [2048, 768];
        const fit = Math.min(1, 2048 / Math.max(w, h));
        [w, h] = [w * fit, h * fit];
        const short = Math.min(1, 768 / Math.min(w, h));
        [w, h] = [w * short, h * short];
        return rule.base + rule.tile * Math.ceil(w / 512) * Math.ceil(h / 512);
    }
    if (rule.rule === 'patches') {
        const patches = size ? Math.ceil(size[0] / 32) * Math.ceil(size[1] / 32) : rule.most;
        return Math.ceil((Math.min(patches, rule.most) * rule.multiplier) / 1000);
    }
    /* claude */
    let [w, h] = size ?? [rule.edge, rule.edge];
    const fit = Math.min(1, rule.edge / Math.max(w, h));
    return Math.min(rule.most, Math.ceil((w * fit) / 28) * Math.ceil((h * fit) / 28));
}

/* ---- money ---- */

/* A price in USD for a million tokens, as 10^-12 dollars a token: a whole number. */
const pico = (usd) => BigInt(Math.round(usd * 1e6));

const KINDS = {
    input: {
        input: 'input',
        cached: 'cached',
        write: 'write',
        write_long: 'write_long',
        audio: 'audio',
    },
    output: { output: 'output', audio_output: 'audio_output' },
};
const PLAINER = {
    cached: 'input',
    write: 'input',
    write_long: 'write',
    audio: 'input',
    audio_output: 'output',
};

/* A kind without a price of its own costs what a plainer one does. */
function priceOf(model, kind) {
    while (model.price[kind] === undefined) kind = PLAINER[kind];
    return pico(model.price[kind]);
}

const sumOf = (model, kinds, usage) =>
    Object.keys(kinds).reduce(
        (sum, kind) => sum + BigInt(usage[kind] ?? 0) * priceOf(model, kind),
        0n,
    );

export const inputOf = (usage) =>
    Object.keys(KINDS.input).reduce((sum, kind) => sum + (usage[kind] ?? 0), 0);

/* The exact bill of a usage, in 10^-18 dollars: pico-dollars times a thousandth of a tier's factor
 * times a thousandth of that of length. Beyond a length the whole call is dearer. */
export function billOf(model, usage) {
    const long =
        model.long && (usage.longest ?? inputOf(usage)) > model.long.over ? model.long : null;
    const tokens =
        sumOf(model, KINDS.input, usage) * BigInt(long?.input ?? 1000) +
        sumOf(model, KINDS.output, usage) * BigInt(long?.output ?? 1000);
    const fees = BigInt(usage.uses ?? 0) * BigInt(Math.round((model.fee ?? 0) * 1e6)) * ATTO;
    return tokens * BigInt(usage.factor ?? 1000) + fees;
}

export const ATTO = 1000000000000n; /* 10^-18 dollars in a micro-dollar */

/* As an invoice for this call alone would say: whole micro-dollars, rounded up once. */
export const microOf = (atto) => Number((atto + ATTO - 1n) / ATTO);
