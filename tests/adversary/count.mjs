/* count.mjs - what a provider makes of a request: its tokens, passes, prices, and the most it writes.
 *
 * It reads a request as the provider does that it stands for, with what the request does not say
 * taken at its worst: a file by address fills the context, a tool that may run does, and brings back
 * as much as fits. Whatever a gateway lets through is billed here.
 */
import { denseTokens, imageSize, imageTokens, MODELS, plainTokens } from './billing.mjs';

export class Refused extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

const HOSTED =
    /^(web_search|web_fetch|file_search|code_interpreter|code_execution|mcp|image_generation|local_shell|shell|tool_search)/;
const LEAST_AUDIO = 100; /* bytes of a token: 10 tokens a second at 8 kbit/s */

/* ---- input ---- */

class Counter {
    constructor(model, plan, state) {
        this.model = model;
        this.plan = plan;
        this.state = state;
        this.tokens = 0;
        this.audio = 0;
        this.fetched = 0; /* of these tokens, what was not in the request */
        this.caches = null;
    }

    text(text) {
        this.tokens += this.plan.plain ? plainTokens(text) : denseTokens(text, this.model.tok);
    }

    /* What is not in the request: as large as it was made, or as fits. */
    reference(id) {
        this.fetch(this.state.get(id) ?? this.plan.far ?? this.model.context);
    }

    fetch(tokens) {
        this.tokens += tokens;
        this.fetched += tokens;
    }

    image(source, detail) {
        const data = /^data:[^,]*;base64,(.*)$/s.exec(source ?? '')?.[1];
        /* Google takes any media where an image belongs. */
        if (data && this.model.family === 'gemini' && !/^data:image\//.test(source))
            return this.fetch(this.model.context);
        const size = data ? imageSize(Buffer.from(data, 'base64')) : (this.plan.image ?? null);
        this.fetch(imageTokens(this.model.image, size, detail));
    }

    /* A part of a message. */
    part(part) {
        if (typeof part === 'string') return this.text(part);
        if (Array.isArray(part)) return part.forEach((one) => this.part(one));
        if (part === null || typeof part !== 'object') return this.text(JSON.stringify(part ?? ''));
        if (part.cache_control)
            this.caches = part.cache_control.ttl === '1h' ? '1h' : (this.caches ?? '5m');
        if (part.prompt_cache_breakpoint)
            this.caches =
                part.prompt_cache_breakpoint.ttl === '12h' ? '1h' : (this.caches ?? '5m');
        switch (part.type) {
            case 'image_url':
                return this.image(part.image_url?.url ?? part.image_url, part.image_url?.detail);
            case 'input_image':
                return part.file_id
                    ? this.image(null, part.detail)
                    : this.image(part.image_url, part.detail);
            case 'image':
                return this.image(
                    part.source?.type === 'base64'
                        ? `data:${part.source.media_type};base64,${part.source.data}`
                        : null,
                );
            case 'file':
            case 'input_file':
            case 'document':
                if (part.source?.type === 'text') return this.text(part.source.data);
                return this.reference(part.file_id ?? part.file?.file_id ?? part.source?.file_id);
            case 'input_audio': {
                const data = part.input_audio?.data ?? part.data ?? '';
                this.audio += Math.ceil(Buffer.from(data, 'base64').length / LEAST_AUDIO);
                return undefined;
            }
            case 'video_url':
                return this.reference(part.video_url?.url);
            case 'item_reference':
                return this.reference(part.id);
        }
        for (const [name, value] of Object.entries(part))
            if (!['type', 'role', 'id', 'cache_control', 'prompt_cache_breakpoint'].includes(name))
                this.part(value);
        return undefined;
    }

    /* A part of a content of Gemini's. What is no image is a video that fills the context. */
    geminiPart(part) {
        if (part.text !== undefined) this.text(part.text);
        if (part.functionCall) this.text(JSON.stringify(part.functionCall));
        if (part.functionResponse) {
            const { parts, ...response } = part.functionResponse;
            this.text(JSON.stringify(response));
            (parts ?? []).forEach((one) => this.geminiPart(one));
        }
        for (const media of [part.inlineData, part.fileData].filter(Boolean)) {
            if (/^image\//.test(media.mimeType ?? ''))
                this.image(media.data && `data:${media.mimeType};base64,${media.data}`);
            else this.reference(media.fileUri);
        }
    }

    gemini(body) {
        const config = body.generationConfig ?? {};
        this.tokens += 3;
        for (const content of [body.systemInstruction, ...(body.contents ?? [])].filter(Boolean)) {
            this.tokens += 4;
            content.parts.forEach((part) => this.geminiPart(part));
        }
        this.tools((body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? [tool]));
        if (config.responseJsonSchema) this.tools([config.responseJsonSchema]);
    }

    messages(list, each) {
        for (const message of list) {
            this.tokens += each + (message?.name ? 1 : 0);
            this.part(message);
        }
    }

    /* Schemas, as the family writes them into the prompt. */
    tools(list) {
        const anthropic = this.model.family === 'anthropic';
        const own = this.model.family === 'vllm';
        if (!list?.length) return;
        this.tokens += anthropic ? 804 : own ? 80 : 9;
        for (const tool of list) {
            if (tool.cache_control) this.part({ cache_control: tool.cache_control });
            if (/^computer_toolset/.test(tool.type ?? '')) this.tokens += 4590;
            else if (/^browser_toolset/.test(tool.type ?? '')) this.tokens += 6670 + 880;
            else if (HOSTED.test(tool.type ?? '')) this.tokens += 1200;
            this.tokens += own ? 5 : 12;
            const text = own ? asciiJson(tool) : JSON.stringify(tool);
            this.text(text);
        }
    }
}

/* json.dumps(indent=4) with ensure_ascii: what Llama's template makes of a schema. */
const asciiJson = (value) =>
    JSON.stringify(value, null, 4).replace(
        /[\u0080-\uffff]/g,
        (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );

/* ---- the request ---- */

/* Servers in Go take names of fields in any case, and the last one counts. */
function folded(body) {
    const out = {};
    for (const [name, value] of Object.entries(body))
        out[name.normalize('NFKC').toLowerCase()] = value;
    return out;
}

function outputMost(model, body) {
    const spelled = ['max_tokens', 'max_completion_tokens', 'max_output_tokens']
        .filter((name) => model.provider !== 'old' || name !== 'max_completion_tokens')
        .map((name) => body[name])
        .concat(body.generationConfig?.maxOutputTokens)
        .filter((value) => value !== undefined && value !== null);
    if (spelled.length === 0) return model.most;
    const asked = Math.max(...spelled.map(Number));
    /* They take 0 for "no limit". */
    if ((model.family === 'vllm' || model.api === 'gemini') && !(asked > 0)) return model.most;
    if (!Number.isInteger(asked) || asked < 0) throw new Refused(400, 'max_tokens');
    if (asked === 0 && model.family !== 'anthropic') throw new Refused(400, 'max_tokens is 0');
    return Math.min(asked, model.most);
}

/* One prompt of /v1/completions or /v1/embeddings: text, or ids of tokens. */
function promptTokens(counter, prompt) {
    if (Array.isArray(prompt)) counter.tokens += prompt.length;
    else counter.text(String(prompt));
}

/* Each of several prompts has the context for itself; how many there are. */
function eachPrompt(counter, prompts) {
    for (const prompt of prompts) {
        const before = counter.tokens;
        promptTokens(counter, prompt);
        if (counter.tokens - before > counter.model.context) throw new Refused(400, 'too long');
    }
    return prompts.length;
}

function promptsOf(value) {
    if (!Array.isArray(value)) return [value ?? ''];
    return typeof value[0] === 'number' ? [value] : value;
}

function tierOf(model, body) {
    let asked = body.service_tier ?? body.serviceTier;
    let factor = 1000;
    if (model.tier_default && (asked === undefined || asked === 'auto')) asked = model.tier_default;
    let served = model.family === 'anthropic' ? 'standard' : 'default';
    if (asked && !['auto', 'default', 'standard_only', 'standard'].includes(asked)) {
        if (!(asked in model.tiers)) throw new Refused(400, 'service_tier');
        factor = model.tiers[asked];
        served = asked === 'fast' ? 'priority' : asked;
    }
    if (body.speed === 'fast' && model.speed) factor = (factor * model.speed.fast) / 1000;
    if (body.inference_geo && model.geo)
        factor = (factor * (model.geo[body.inference_geo] ?? 1000)) / 1000;
    return { factor, served };
}

/* Passes of the tools that the provider runs. Google's search asks as often as it likes in one. */
const asksGoogle = (tool) => tool?.googleSearch || /^google_/.test(tool?.type ?? '');

function roundsOf(model, body) {
    const hosted = (body.tools ?? []).filter(
        (tool) => HOSTED.test(tool?.type ?? '') || asksGoogle(tool),
    );
    const uses = [];
    for (const tool of hosted) uses.push(tool.max_uses ?? Infinity);
    if (body.web_search_options) uses.push(Infinity);
    for (const server of body.mcp_servers ?? []) uses.push(server ? Infinity : 0);
    if (uses.length === 0) return 1;
    const bound = model.family === 'anthropic' ? model.rounds - 1 : (body.max_tool_calls ?? 19);
    return (
        1 +
        Math.min(
            bound,
            uses.reduce((a, b) => a + b),
        )
    );
}

/* What a request comes to: {model, usage of the input by kinds, most: tokens of all output, choices,
 * served: the tier}. `plan` is what this run wants of the provider, within its rules. */
export function read(path, raw, plan, state) {
    let name = raw.model;
    let model = MODELS[name];
    let body = raw;
    if (model?.family === 'vllm') {
        body = folded(raw);
        name = body.model;
        /* A router: the dearest that it may choose. */
        for (const other of [body.model, ...(body.models ?? [])])
            if (MODELS[other]?.price.output > MODELS[name].price.output) name = other;
        model = MODELS[name];
    }
    if (!model) throw new Refused(404, `no model ${name}`);

    const counter = new Counter(model, plan, state);
    let choices = Math.max(
        body.n ?? 1,
        body.best_of ?? 1,
        body.candidate_count ?? 1,
        body.generationConfig?.candidateCount ?? 1,
    );
    let most = 0;
    let passes = 1;
    if (path.endsWith('/embeddings')) {
        const prompts = promptsOf(body.input);
        eachPrompt(counter, prompts);
        return {
            model,
            name,
            usage: { input: counter.tokens, factor: 1000 },
            most: 0,
            choices: 1,
            served: 'default',
            stream: false,
        };
    }
    most = outputMost(model, body);
    if (/:(generate|streamGenerate)Content$/.test(path)) {
        counter.gemini(body);
    } else if (path.endsWith('/chat/completions')) {
        counter.tokens += model.family === 'vllm' ? 28 : 3;
        counter.messages(body.messages ?? [], model.family === 'vllm' ? 5 : 3);
        counter.tools(body.tools ?? body.functions);
        if (body.response_format?.json_schema) counter.tools([body.response_format.json_schema]);
        for (const more of ['documents', 'chat_template'])
            if (model.family === 'vllm' && body[more]) counter.part(body[more]);
    } else if (path.endsWith('/completions')) {
        const prompts = promptsOf(body.prompt);
        passes = eachPrompt(counter, prompts);
        choices *= prompts.length;
    } else if (path.endsWith('/responses')) {
        counter.tokens += 3;
        if (Array.isArray(body.input)) counter.messages(body.input, 4);
        else counter.text(body.input ?? '');
        counter.text(body.instructions ?? '');
        counter.tools(body.tools);
        if (body.text?.format?.schema) counter.tools([body.text.format]);
        if (body.previous_response_id) counter.reference(body.previous_response_id);
        if (body.conversation) counter.reference(body.conversation.id ?? body.conversation);
        if (body.prompt) counter.reference(body.prompt.id);
        if (body.reasoning?.mode === 'pro') choices *= 4;
    } else if (path.endsWith('/messages')) {
        counter.tokens += 3;
        if (body.system) counter.part(body.system);
        counter.messages(body.messages ?? [], 4);
        counter.tools(body.tools);
        if (body.cache_control)
            counter.caches = body.cache_control.ttl === '1h' ? '1h' : (counter.caches ?? '5m');
        if (body.thread) counter.reference(body.thread.id);
        if (body.container) counter.reference(body.container.id ?? body.container);
    }
    /* What was sent may be too long; what it fetches is cut to what fits. */
    const room = passes * model.context;
    if (counter.tokens + counter.audio - counter.fetched > room) throw new Refused(400, 'too long');
    counter.tokens = Math.min(counter.tokens, room - counter.audio);
    /* Results of tools are left out of this pass, and are there in the next call. */
    if (body.context_management?.edits?.[0]?.type?.startsWith('clear_'))
        counter.tokens = Math.ceil(counter.tokens / 10);
    const rounds = roundsOf(model, body);
    const pass = counter.tokens + counter.audio;
    let input = counter.tokens;
    if (rounds > 1) {
        const more = (rounds - 1) * Math.min(model.context, pass + (plan.result ?? model.context));
        input = Math.min(input + more, rounds * model.context);
        if (model.family === 'anthropic') most *= rounds;
    }
    if (body.prediction) most += denseTokens(String(body.prediction.content), model.tok);
    if (body.prompt_cache_options?.prewarm) most = 0;
    /* Further passes over the same input, each with an output of its own: compactions before each
     * round and, with the lowest threshold, in the midst of an answer; other models. */
    let extra = 0;
    if (/compact/.test(JSON.stringify(body.context_management ?? '')))
        extra += rounds + Math.floor(most / 1024);
    if (Array.isArray(body.fallbacks)) extra += body.fallbacks.length;
    else if (body.fallbacks) extra += 2;
    extra += (body.tools ?? []).filter((tool) => /^advisor/.test(tool?.type ?? '')).length * 3;
    input += extra * pass;
    most += extra * model.most;
    const { factor, served } = tierOf(model, body);
    const usage = {
        input,
        cached: 0,
        write: 0,
        write_long: 0,
        audio: counter.audio,
        uses: rounds - 1,
        factor,
    };
    const cached = Math.floor(input * (model.price.cached === undefined ? 0 : (plan.cached ?? 0)));
    usage.cached = cached;
    usage.input -= cached;
    if (model.family === 'anthropic' && counter.caches) {
        usage[counter.caches === '1h' ? 'write_long' : 'write'] = usage.input;
        usage.input = 0;
    } else if (model.implicit && pass >= model.implicit) {
        const long = body.prompt_cache_options?.ttl === '12h' || counter.caches === '1h';
        usage[long ? 'write_long' : 'write'] = usage.input;
        usage.input = 0;
    }
    const sounds = body.modalities?.includes('audio') || body.audio !== undefined;
    return {
        model,
        name,
        usage,
        most: most * choices,
        choices,
        served,
        sounds: sounds && model.price.audio_output !== undefined,
        stream: body.stream === true,
        runs: model.cut === 'runs' || body.background === true,
    };
}
