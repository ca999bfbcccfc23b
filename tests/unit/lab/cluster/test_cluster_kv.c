/* test_cluster_kv.c - the KV cache, against one that keeps every token.
 *
 * The cache names a piece of a prompt by whose it is and where it stands. The model here does what
 * the name stands for: it keeps the tokens of every block, and knows a block by all tokens up to
 * its end. Both are told the same, and after each word they must have the same blocks in the same
 * places.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "lab/cluster/cluster_kv.h"

#define BLOCKS 24
#define BLOCK_TOKENS 4
#define REQUESTS 12
#define GROUPS 2
#define PREFIX 20
#define LONGEST 64
#define ROUNDS 300
#define WORDS 400

/* ---- The model ---- */

struct model_block {
    int tokens[LONGEST]; /* all of the sequence up to the end of the block */
    int n;               /* how many tokens; 0: it holds nothing known */
    bool known;          /* it can be found by them */
    int references;
};

struct model {
    struct model_block blocks[BLOCKS];
    int free[BLOCKS], n_free;
    int held[REQUESTS][LONGEST], n_held[REQUESTS];
    int fill[REQUESTS]; /* tokens in the last block */
};

/* Token `i` of a request's prompt: its group's while that has any, else its own. */
static int token_of(const struct live *live, int32_t prefix, int i)
{
    return i < prefix ? 1000 * ((int)live->request % GROUPS + 1) + i
                      : 100000 * ((int)live->request + 1) + i;
}

static void fill_tokens(const struct live *live, int32_t prefix, int n, int *tokens)
{
    for (int i = 0; i < n; i++)
        tokens[i] = token_of(live, prefix, i);
}

/* The block that is known by the first `n` tokens; -1: none is. A name belongs to one block: the
 * one that got it last. */
static int model_find(const struct model *model, const int *tokens, int n)
{
    for (int i = 0; i < BLOCKS; i++)
        if (model->blocks[i].known && model->blocks[i].n == n &&
            memcmp(model->blocks[i].tokens, tokens, (size_t)n * sizeof *tokens) == 0)
            return i;
    return -1;
}

static void model_forget(struct model *model, const int *tokens, int n)
{
    int found = model_find(model, tokens, n);

    if (found >= 0)
        model->blocks[found].known = false;
}

static void model_know(struct model *model, const struct live *live, int32_t prefix, int block,
                       int n)
{
    int tokens[LONGEST];

    fill_tokens(live, prefix, n, tokens);
    model_forget(model, tokens, n);
    memcpy(model->blocks[block].tokens, tokens, sizeof tokens);
    model->blocks[block].n = n;
    model->blocks[block].known = true;
}

static int model_cached(const struct model *model, const struct live *live, int32_t prefix)
{
    int tokens[LONGEST], n = 0;

    fill_tokens(live, prefix, live->input, tokens);
    while ((n + 1) * BLOCK_TOKENS <= live->input &&
           model_find(model, tokens, (n + 1) * BLOCK_TOKENS) >= 0)
        n++;
    return n;
}

static int model_take_free(struct model *model, int at)
{
    int block = model->free[at];

    memmove(&model->free[at], &model->free[at + 1],
            (size_t)(model->n_free - at - 1) * sizeof *model->free);
    model->n_free--;
    return block;
}

static void model_claim(struct model *model, const struct live *live, int32_t prefix, int n)
{
    int tokens[LONGEST];
    uint32_t r = live->request;

    fill_tokens(live, prefix, live->input, tokens);
    for (int i = 0; i < n; i++) {
        int block = model_find(model, tokens, (i + 1) * BLOCK_TOKENS);
        if (model->blocks[block].references++ == 0)
            for (int at = 0; at < model->n_free; at++)
                if (model->free[at] == block)
                    model_take_free(model, at);
        model->held[r][model->n_held[r]++] = block;
        model->fill[r] = BLOCK_TOKENS;
    }
}

/* One token more. A block that is reused is forgotten by the name it had, whoever has that now. */
static void model_add(struct model *model, const struct live *live, int32_t prefix, bool of_prompt)
{
    uint32_t r = live->request;

    if (model->n_held[r] == 0 || model->fill[r] == BLOCK_TOKENS) {
        int block = model_take_free(model, 0);
        struct model_block *taken = &model->blocks[block];
        if (taken->n > 0)
            model_forget(model, taken->tokens, taken->n);
        *taken = (struct model_block){.references = 1};
        model->held[r][model->n_held[r]++] = block;
        model->fill[r] = 0;
    }
    model->fill[r]++;
    if (of_prompt && model->fill[r] == BLOCK_TOKENS)
        model_know(model, live, prefix, model->held[r][model->n_held[r] - 1],
                   model->n_held[r] * BLOCK_TOKENS);
}

static void model_release(struct model *model, uint32_t r)
{
    while (model->n_held[r] > 0) {
        int block = model->held[r][--model->n_held[r]];
        if (--model->blocks[block].references == 0)
            model->free[model->n_free++] = block;
    }
    model->fill[r] = 0;
}

/* ---- Both ---- */

struct both {
    struct kv kv;
    struct model model;
    struct live lives[REQUESTS];
    struct live *here[REQUESTS];
    int32_t prefix[REQUESTS];
};

static void begin(struct both *both, struct draw *draw)
{
    memset(both, 0, sizeof *both);
    assert_true(kv_init(&both->kv, BLOCKS, BLOCK_TOKENS, GROUPS * (PREFIX / BLOCK_TOKENS),
                        both->here));
    for (int i = 0; i < BLOCKS; i++)
        both->model.free[both->model.n_free++] = i;
    for (uint32_t r = 0; r < REQUESTS; r++) {
        struct live *live = &both->lives[r];
        both->prefix[r] = (int32_t)draw_between(draw, 0, 1) * PREFIX;
        *live = (struct live){.request = r,
                              .input = (int32_t)draw_between(draw, 1, 40),
                              .output = (int32_t)draw_between(draw, 1, 20)};
        both->prefix[r] = both->prefix[r] < live->input ? both->prefix[r] : live->input;
        live->prefix_blocks = (uint32_t)(both->prefix[r] / BLOCK_TOKENS);
        live->prefix_at = r % GROUPS * (PREFIX / BLOCK_TOKENS);
        both->here[r] = live;
        assert_true(kv_enter(&both->kv, live));
    }
}

/* A chunk of the prompt, or a token of the answer. */
static void step(struct both *both, struct draw *draw, uint32_t r)
{
    struct live *live = &both->lives[r];
    bool of_prompt = live->progress < live->input;
    uint32_t cached = live->progress == 0 ? kv_cached(&both->kv, live) : 0;
    int32_t start = live->progress + (int32_t)cached * BLOCK_TOKENS;
    int32_t tokens = of_prompt ? live->input - start : 1;

    if (live->progress == 0)
        assert_int_equal(cached, model_cached(&both->model, live, both->prefix[r]));
    if (of_prompt && tokens > 1)
        tokens = (int32_t)draw_between(draw, 1, tokens);
    if (live->progress >= live->input + live->output ||
        !kv_allocate(&both->kv, live, start, start + tokens, cached))
        return;
    if (tokens > 0)
        model_claim(&both->model, live, both->prefix[r], (int)cached);
    for (int32_t i = 0; i < tokens; i++)
        model_add(&both->model, live, both->prefix[r], of_prompt);
    live->progress = start + tokens;
}

static void compare(const struct both *both)
{
    uint32_t at = both->kv.blocks[BLOCKS].next, fresh = both->kv.fresh;

    assert_int_equal(both->kv.n_free, both->model.n_free);
    for (int i = 0; i < both->model.n_free; i++) {
        assert_int_equal(fresh < BLOCKS ? fresh : at, both->model.free[i]);
        if (fresh < BLOCKS)
            fresh++;
        else
            at = both->kv.blocks[at].next;
    }
    assert_int_equal(at, BLOCKS);
    for (uint32_t r = 0; r < REQUESTS; r++) {
        assert_int_equal(both->lives[r].n_blocks, both->model.n_held[r]);
        assert_int_equal(both->lives[r].fill, both->model.fill[r]);
        for (size_t i = 0; i < both->lives[r].n_blocks; i++)
            assert_int_equal(both->lives[r].blocks[i], both->model.held[r][i]);
    }
}

static void begin_again(struct both *both, uint32_t r)
{
    both->lives[r].progress = 0;
    model_release(&both->model, r);
}

static void names_stand_for_tokens(void **state)
{
    struct draw draw = draw_stream(*(uint64_t *)*state, 1);
    struct both *both = malloc(sizeof *both);
    uint64_t hits = 0;

    assert_non_null(both);
    for (int round = 0; round < ROUNDS; round++) {
        begin(both, &draw);
        for (int word = 0; word < WORDS; word++) {
            uint32_t r = (uint32_t)draw_between(&draw, 0, REQUESTS - 1);
            if (draw_chance(&draw, 85)) {
                step(both, &draw, r);
            } else {
                assert_true(kv_preempt(&both->kv, &both->lives[r]));
                begin_again(both, r);
            }
            compare(both);
        }
        hits += both->kv.hits;
        for (uint32_t r = 0; r < REQUESTS; r++) {
            kv_leave(&both->kv, &both->lives[r]);
            both->here[r] = NULL;
        }
        assert_int_equal(both->kv.n_free, BLOCKS);
        kv_fini(&both->kv);
    }
    assert_true(hits > ROUNDS);
    free(both);
}

/* ---- One at a time ---- */

static struct live request_of(uint32_t number, int32_t input, int32_t output)
{
    return (struct live){.request = number, .input = input, .output = output};
}

static void what_does_not_fit_changes_nothing(void **state)
{
    struct live a = request_of(0, 16, 4), b = request_of(1, 20, 4);
    struct live *here[] = {&a, &b};
    struct kv kv;

    (void)state;
    assert_true(kv_init(&kv, 8, 4, 0, here));
    assert_true(kv_enter(&kv, &a) && kv_enter(&kv, &b));
    assert_true(kv_allocate(&kv, &a, 0, 16, 0));
    assert_int_equal(kv_used(&kv), 4);
    assert_false(kv_allocate(&kv, &b, 0, 20, 0));
    assert_int_equal(kv_used(&kv), 4);
    assert_int_equal(b.n_blocks, 0);
    assert_true(kv_allocate(&kv, &b, 0, 16, 0));
    assert_int_equal(kv_used(&kv), 8);
    a.progress = 16;
    assert_false(kv_allocate(&kv, &a, 16, 17, 0));
    kv_leave(&kv, &b);
    assert_true(kv_allocate(&kv, &a, 16, 17, 0));
    assert_int_equal(kv_used(&kv), 5);
    kv_leave(&kv, &a);
    kv_fini(&kv);
}

/* A prompt that is wholly in the cache costs no computation and holds no block. */
static void a_prompt_that_is_all_cached_holds_no_block(void **state)
{
    struct live a = request_of(0, 8, 2), b = request_of(1, 8, 2);
    struct live *here[] = {&a, &b};
    struct kv kv;

    (void)state;
    a.prefix_blocks = b.prefix_blocks = 2;
    assert_true(kv_init(&kv, 8, 4, 2, here));
    assert_true(kv_enter(&kv, &a) && kv_enter(&kv, &b));
    assert_true(kv_allocate(&kv, &a, 0, 8, 0));
    assert_int_equal(kv_cached(&kv, &b), 2);
    assert_true(kv_allocate(&kv, &b, 8, 8, 2));
    assert_int_equal(b.n_blocks, 0);
    assert_int_equal(kv.hits, 0);
    kv_leave(&kv, &a);
    kv_leave(&kv, &b);
    kv_fini(&kv);
}

int main(void)
{
    uint64_t seed = draw_seed("test_cluster_kv");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(names_stand_for_tokens, &seed),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
        cmocka_unit_test(a_prompt_that_is_all_cached_holds_no_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
