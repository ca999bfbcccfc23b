/* test_jwt_check.c - tokens of callers: who is named by them, and who is not. */
#include "check.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/tenancy/jwt_check.h"

enum { RSA_ONE,
       RSA_TWO,
       EC_ONE,
       EC_BIG,
       ED_ONE,
       SIGNERS };

static EVP_PKEY *signers[SIGNERS];
static struct json_reader *reader;
static struct jwt_keys *keys;
static char document[8192];

static const tg_ms now = 1800000000000;

static const struct jwt_terms terms = {
    .issuer = "https://id.example",
    .audience = "tollgate",
    .tenant_claim = "team",
    .user_claim = "sub",
    .algorithms = (1u << JWT_ALGORITHMS) - 1,
    .leeway = 60000,
};

#define GOOD_CLAIMS                                                                                \
    "{\"iss\":\"https://id.example\",\"aud\":\"tollgate\",\"exp\":1800000300,\"team\":\"team-a\"," \
    "\"sub\":\"alice\"}"

/* ---- writing tokens ---- */

static size_t encode(const void *bytes, size_t n, char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const uint8_t *at = bytes;
    size_t out = 0;

    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)at[i] << 16 | (i + 1 < n ? (uint32_t)at[i + 1] << 8 : 0) |
                         (i + 2 < n ? at[i + 2] : 0u);
        size_t digits_here = i + 2 < n ? 4 : n - i + 1;
        for (size_t k = 0; k < digits_here; k++)
            text[out++] = digits[three >> (18 - 6 * k) & 63];
    }
    text[out] = 0;
    return out;
}

static size_t raw_curve_signature(const uint8_t *der, size_t n, size_t number, uint8_t *raw)
{
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)n);

    assert_true(pair != NULL);
    assert_true(BN_bn2binpad(ECDSA_SIG_get0_r(pair), raw, (int)number) > 0);
    assert_true(BN_bn2binpad(ECDSA_SIG_get0_s(pair), raw + number, (int)number) > 0);
    ECDSA_SIG_free(pair);
    return 2 * number;
}

static const EVP_MD *digest(enum jwt_algorithm algorithm)
{
    static const int bits[JWT_ALGORITHMS] = {256, 384, 512, 256, 384, 512, 256, 384, 0};

    return bits[algorithm] == 256   ? EVP_sha256()
           : bits[algorithm] == 384 ? EVP_sha384()
           : bits[algorithm] == 512 ? EVP_sha512()
                                    : NULL;
}

static size_t sign(EVP_PKEY *key, enum jwt_algorithm algorithm, const char *text, uint8_t *raw)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options;
    uint8_t der[1024];
    size_t n = sizeof der;

    assert_true(EVP_DigestSignInit(context, &options, digest(algorithm), NULL, key) > 0);
    if (algorithm >= JWT_PS256 && algorithm <= JWT_PS512) {
        assert_true(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) > 0);
        assert_true(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) > 0);
    }
    assert_true(EVP_DigestSign(context, der, &n, (const uint8_t *)text, strlen(text)) > 0);
    EVP_MD_CTX_free(context);
    if (algorithm == JWT_ES256 || algorithm == JWT_ES384)
        return raw_curve_signature(der, n, algorithm == JWT_ES256 ? 32 : 48, raw);
    memcpy(raw, der, n);
    return n;
}

/* A token of a header and claims as they are written, signed. */
static struct slice token_of(EVP_PKEY *key, enum jwt_algorithm algorithm, const char *header,
                             const char *claims)
{
    static char token[65536];
    uint8_t raw[1024];
    size_t n = encode(header, strlen(header), token);

    token[n++] = '.';
    n += encode(claims, strlen(claims), token + n);
    size_t bytes = sign(key, algorithm, token, raw);
    token[n++] = '.';
    n += encode(raw, bytes, token + n);
    return (struct slice){token, n};
}

static enum jwt_verdict verdict_of(struct slice token)
{
    struct jwt_claims claims;

    return jwt_check(keys, &terms, reader, token, now, &claims);
}

static enum jwt_verdict claims_verdict(const char *claims)
{
    return verdict_of(token_of(signers[EC_ONE], JWT_ES256, "{\"alg\":\"ES256\",\"kid\":\"ec\"}",
                               claims));
}

/* ---- the keys ---- */

static void jwk_of_rsa(EVP_PKEY *key, const char *rest, char *text, size_t room)
{
    BIGNUM *number = NULL, *exponent = NULL;
    uint8_t bytes[512];
    char modulus[700], power[16];

    assert_true(EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_N, &number));
    assert_true(EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &exponent));
    encode(bytes, (size_t)BN_bn2bin(number, bytes), modulus);
    encode(bytes, (size_t)BN_bn2bin(exponent, bytes), power);
    BN_free(number);
    BN_free(exponent);
    snprintf(text, room, "{\"kty\":\"RSA\",\"n\":\"%s\",\"e\":\"%s\"%s}", modulus, power, rest);
}

static void jwk_of_curve(EVP_PKEY *key, const char *curve, size_t number, const char *rest,
                         char *text, size_t room)
{
    uint8_t point[1 + 2 * 48];
    char x[80], y[80];
    size_t n;

    const char *what = OSSL_PKEY_PARAM_PUB_KEY;
    assert_true(EVP_PKEY_get_octet_string_param(key, what, point, sizeof point, &n));
    assert_int_equal(n, 1 + 2 * number);
    encode(point + 1, number, x);
    encode(point + 1 + number, number, y);
    snprintf(text, room, "{\"kty\":\"EC\",\"crv\":\"%s\",\"x\":\"%s\",\"y\":\"%s\"%s}", curve, x, y,
             rest);
}

static void jwk_of_edwards(EVP_PKEY *key, const char *rest, char *text, size_t room)
{
    uint8_t bytes[32];
    size_t n = sizeof bytes;
    char x[80];

    assert_true(EVP_PKEY_get_raw_public_key(key, bytes, &n));
    encode(bytes, n, x);
    snprintf(text, room, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\"%s}", x, rest);
}

static int set_up(void **state)
{
    char one[1024], two[1024], three[512], four[512], five[512];
    struct tg_problem problem;

    (void)state;
    signers[RSA_ONE] = EVP_RSA_gen(2048);
    signers[RSA_TWO] = EVP_RSA_gen(2048);
    signers[EC_ONE] = EVP_EC_gen("P-256");
    signers[EC_BIG] = EVP_EC_gen("P-384");
    signers[ED_ONE] = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    reader = json_reader_new();
    jwk_of_rsa(signers[RSA_ONE], ",\"kid\":\"rsa\",\"use\":\"sig\"", one, sizeof one);
    jwk_of_rsa(signers[RSA_TWO], ",\"kid\":\"rs256\",\"alg\":\"RS256\"", two, sizeof two);
    jwk_of_curve(signers[EC_ONE], "P-256", 32, ",\"kid\":\"ec\",\"key_ops\":[\"verify\"]", three,
                 sizeof three);
    jwk_of_curve(signers[EC_BIG], "P-384", 48, ",\"kid\":\"big\"", four, sizeof four);
    jwk_of_edwards(signers[ED_ONE], ",\"kid\":\"ed\"", five, sizeof five);
    snprintf(document, sizeof document, "{\"keys\":[%s,%s,%s,%s,%s]}", one, two, three, four, five);
    assert_int_equal(jwt_keys_read(slice_of(document), reader, &keys, &problem), TG_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < SIGNERS; i++)
        EVP_PKEY_free(signers[i]);
    jwt_keys_free(keys);
    json_reader_free(reader);
    return 0;
}

/* ---- tests ---- */

static void each_algorithm_names_tenant_and_user(void **state)
{
    static const struct {
        int signer;
        enum jwt_algorithm algorithm;
        const char *id;
    } rows[] = {
        {RSA_ONE, JWT_RS256, "rsa"},
        {RSA_ONE, JWT_RS384, "rsa"},
        {RSA_ONE, JWT_RS512, "rsa"},
        {RSA_ONE, JWT_PS256, "rsa"},
        {RSA_ONE, JWT_PS384, "rsa"},
        {RSA_ONE, JWT_PS512, "rsa"},
        {RSA_TWO, JWT_RS256, "rs256"},
        {EC_ONE, JWT_ES256, "ec"},
        {EC_BIG, JWT_ES384, "big"},
        {ED_ONE, JWT_EDDSA, "ed"}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct jwt_claims claims;
        char header[100];
        snprintf(header, sizeof header, "{\"typ\":\"JWT\",\"alg\":\"%s\",\"kid\":\"%s\"}",
                 jwt_algorithm_names[rows[i].algorithm], rows[i].id);
        struct slice token =
            token_of(signers[rows[i].signer], rows[i].algorithm, header, GOOD_CLAIMS);
        assert_true(jwt_has_form(token));
        assert_int_equal(jwt_check(keys, &terms, reader, token, now, &claims), JWT_GOOD);
        assert_string_equal(claims.tenant, "team-a");
        assert_string_equal(claims.user, "alice");
        assert_int_equal(claims.expires_at, 1800000300000 + 60000);
    }
}

static void published_vectors_hold(void **state)
{
    /* RFC 7515, A.3, and RFC 8037, A.4, whose payload is a sentence. */
    static const char keys_text[] =
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"a\","
        "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
        "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"},"
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\","
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
    char curve[] =
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxl"
        "LmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISl"
        "SApmWQxfKTUJqPP3-Kg6NU1Q";
    static const char edwards[] =
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PG"
        "cvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    const struct jwt_terms joe = {.issuer = "joe",
                                  .tenant_claim = "iss",
                                  .algorithms = 1u << JWT_ES256 | 1u << JWT_EDDSA};
    struct jwt_keys *published;
    enum jwt_verdict verdict;
    struct jwt_claims claims;
    struct tg_problem problem;

    (void)state;
    assert_int_equal(jwt_keys_read(slice_of(keys_text), reader, &published, &problem), TG_OK);
    verdict = jwt_check(published, &joe, reader, slice_of(curve), 1300819379999, &claims);
    assert_int_equal(verdict, JWT_GOOD);
    assert_string_equal(claims.tenant, "joe");
    verdict = jwt_check(published, &joe, reader, slice_of(curve), 1300819380000, &claims);
    assert_int_equal(verdict, JWT_EXPIRED);
    curve[strlen(curve) - 10] ^= 1;
    verdict = jwt_check(published, &joe, reader, slice_of(curve), 1300819379999, &claims);
    assert_int_equal(verdict, JWT_SIGNATURE);
    verdict = jwt_check(published, &joe, reader, slice_of(edwards), 0, &claims);
    assert_int_equal(verdict, JWT_MALFORMED);
    jwt_keys_free(published);
}

static void claims_have_to_be_all_there(void **state)
{
#define OURS "\"iss\":\"https://id.example\""
#define FOR_US "\"aud\":\"tollgate\""
#define WHO "\"team\":\"a\",\"sub\":\"u\""
    static const struct {
        enum jwt_verdict verdict;
        const char *claims;
    } rows[] = {
        {JWT_GOOD, "{" OURS "," FOR_US "," WHO ",\"exp\":1799999941}"}, /* within the leeway */
        {JWT_EXPIRED, "{" OURS "," FOR_US "," WHO ",\"exp\":1799999940}"},
        {JWT_GOOD, "{" OURS "," FOR_US "," WHO ",\"exp\":1800000001.5}"},
        {JWT_NO_EXPIRY, "{" OURS "," FOR_US "," WHO "}"},
        {JWT_MALFORMED, "{" OURS "," FOR_US "," WHO ",\"exp\":\"1800000300\"}"},
        {JWT_MALFORMED, "{" OURS "," FOR_US "," WHO ",\"exp\":-1}"},
        {JWT_MALFORMED, "{" OURS "," FOR_US "," WHO ",\"exp\":1e300}"},
        {JWT_GOOD, "{" OURS "," FOR_US "," WHO ",\"exp\":1800000300,\"nbf\":1800000060}"},
        {JWT_NOT_YET, "{" OURS "," FOR_US "," WHO ",\"exp\":1800000300,\"nbf\":1800000061}"},
        {JWT_NOT_YET, "{" OURS "," FOR_US "," WHO ",\"exp\":1800000300,\"iat\":1800000061}"},
        {JWT_ISSUER, "{" FOR_US "," WHO ",\"exp\":1800000300}"},
        {JWT_ISSUER, "{\"iss\":\"https://id.example/\"," FOR_US "," WHO ",\"exp\":1800000300}"},
        {JWT_ISSUER, "{\"iss\":[\"https://id.example\"]," FOR_US "," WHO ",\"exp\":1800000300}"},
        {JWT_AUDIENCE, "{" OURS "," WHO ",\"exp\":1800000300}"},
        {JWT_AUDIENCE, "{" OURS ",\"aud\":\"tollgate2\"," WHO ",\"exp\":1800000300}"},
        {JWT_AUDIENCE, "{" OURS ",\"aud\":[\"x\",[\"tollgate\"]]," WHO ",\"exp\":1800000300}"},
        {JWT_GOOD, "{" OURS ",\"aud\":[\"x\",\"tollgate\"]," WHO ",\"exp\":1800000300}"},
        {JWT_NO_CLAIM, "{" OURS "," FOR_US ",\"sub\":\"u\",\"exp\":1800000300}"},
        {JWT_NO_CLAIM, "{" OURS "," FOR_US ",\"team\":\"a\",\"exp\":1800000300}"},
        {JWT_NO_CLAIM, "{" OURS "," FOR_US ",\"team\":7,\"sub\":\"u\",\"exp\":1800000300}"},
        {JWT_NO_CLAIM, "{" OURS "," FOR_US ",\"team\":\"\",\"sub\":\"u\",\"exp\":1800000300}"},
        {JWT_NO_CLAIM, "{" OURS "," FOR_US ",\"team\":\"a\\n\",\"sub\":\"u\",\"exp\":1800000300}"},
        {JWT_MALFORMED,
         "{" OURS "," FOR_US "," WHO ",\"team\":\"b\",\"exp\":1800000300}"}, /* said twice */
        {JWT_MALFORMED, "[1]"},
        {JWT_MALFORMED, "{" OURS "," FOR_US "," WHO ",\"exp\":1800000300"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (claims_verdict(rows[i].claims) != rows[i].verdict)
            print_message("# %s\n", rows[i].claims);
        assert_int_equal(claims_verdict(rows[i].claims), rows[i].verdict);
    }
}

/* HS256 with the public key's text as the secret: the forgery that other libraries fell for. */
static struct slice symmetric_token(void)
{
    static char token[65536];
    const char *header = "{\"alg\":\"HS256\",\"kid\":\"rsa\"}";
    uint8_t code[32];
    unsigned code_bytes;
    size_t n = encode(header, strlen(header), token);

    token[n++] = '.';
    n += encode(GOOD_CLAIMS, strlen(GOOD_CLAIMS), token + n);
    HMAC(EVP_sha256(), document, (int)strlen(document), (const uint8_t *)token, n, code,
         &code_bytes);
    token[n++] = '.';
    n += encode(code, code_bytes, token + n);
    return (struct slice){token, n};
}

static void forgeries_name_nobody(void **state)
{
    static const struct {
        enum jwt_verdict verdict;
        int signer;
        enum jwt_algorithm signs;
        const char *header;
    } rows[] = {
        {JWT_ALGORITHM, RSA_ONE, JWT_RS256, "{\"alg\":\"none\"}"},
        {JWT_ALGORITHM, RSA_ONE, JWT_RS256, "{\"alg\":\"None\",\"kid\":\"rsa\"}"},
        {JWT_ALGORITHM, RSA_ONE, JWT_RS256, "{\"alg\":\"HS256\",\"kid\":\"rsa\"}"},
        {JWT_ALGORITHM, RSA_ONE, JWT_RS256, "{\"alg\":\"rs256\",\"kid\":\"rsa\"}"},
        {JWT_MALFORMED, RSA_ONE, JWT_RS256, "{\"kid\":\"rsa\"}"},
        {JWT_MALFORMED, RSA_ONE, JWT_RS256, "{\"alg\":[\"RS256\"],\"kid\":\"rsa\"}"},
        {JWT_MALFORMED, RSA_ONE, JWT_RS256, "{\"alg\":\"RS256\",\"alg\":\"none\",\"kid\":\"rsa\"}"},
        {JWT_MALFORMED, RSA_ONE, JWT_RS256, "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"crit\":[\"x\"]}"},
        {JWT_MALFORMED, RSA_ONE, JWT_RS256, "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"b64\":false}"},
        {JWT_MALFORMED, RSA_ONE, JWT_RS256, "{\"alg\":\"RS256\",\"kid\":7}"},
        {JWT_UNKNOWN_KEY, RSA_ONE, JWT_RS256, "{\"alg\":\"RS256\",\"kid\":\"no\"}"},
        {JWT_UNKNOWN_KEY, RSA_ONE, JWT_RS256, "{\"alg\":\"RS256\"}"}, /* two could be meant */
        {JWT_UNKNOWN_KEY, RSA_ONE, JWT_RS256, "{\"alg\":\"ES256\",\"kid\":\"rsa\"}"},
        {JWT_UNKNOWN_KEY, RSA_TWO, JWT_RS384, "{\"alg\":\"RS384\",\"kid\":\"rs256\"}"},
        {JWT_SIGNATURE, RSA_TWO, JWT_RS256, "{\"alg\":\"RS256\",\"kid\":\"rsa\"}"},
        {JWT_SIGNATURE, RSA_ONE, JWT_RS256, "{\"alg\":\"PS256\",\"kid\":\"rsa\"}"},
        {JWT_SIGNATURE, RSA_ONE, JWT_RS512, "{\"alg\":\"RS256\",\"kid\":\"rsa\"}"},
        {JWT_SIGNATURE, RSA_ONE, JWT_RS256, "{\"alg\":\"ES256\",\"kid\":\"ec\"}"},
        {JWT_SIGNATURE, RSA_ONE, JWT_RS256,
         "{\"alg\":\"ES256\",\"kid\":\"ec\",\"jwk\":{},\"jku\":\"https://evil.example\"}"},
        {JWT_GOOD, EC_ONE, JWT_ES256, "{\"alg\":\"ES256\"}"}, /* the only one of its kind */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct slice token =
            token_of(signers[rows[i].signer], rows[i].signs, rows[i].header, GOOD_CLAIMS);
        enum jwt_verdict verdict = verdict_of(token);
        if (verdict != rows[i].verdict)
            print_message("# %s\n", rows[i].header);
        assert_int_equal(verdict, rows[i].verdict);
    }
    assert_int_equal(verdict_of(symmetric_token()), JWT_ALGORITHM);
}

static void only_algorithms_on_the_list_are_read(void **state)
{
    struct jwt_terms narrow = terms;
    struct jwt_claims claims;

    (void)state;
    narrow.algorithms = 1u << JWT_RS256;
    struct slice token =
        token_of(signers[EC_ONE], JWT_ES256, "{\"alg\":\"ES256\",\"kid\":\"ec\"}", GOOD_CLAIMS);
    assert_int_equal(jwt_check(keys, &narrow, reader, token, now, &claims), JWT_ALGORITHM);
    assert_string_equal(claims.tenant, "");
}

static void any_changed_byte_names_nobody(void **state)
{
    struct slice token = token_of(signers[ED_ONE], JWT_EDDSA,
                                  "{\"alg\":\"EdDSA\",\"kid\":\"ed\"}", GOOD_CLAIMS);
    char changed[4096];

    (void)state;
    assert_int_equal(verdict_of(token), JWT_GOOD);
    for (size_t i = 0; i < token.n; i++) {
        memcpy(changed, token.at, token.n);
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        assert_int_not_equal(verdict_of((struct slice){changed, token.n}), JWT_GOOD);
        assert_int_not_equal(verdict_of((struct slice){token.at, i}), JWT_GOOD); /* cut */
    }
}

static void tokens_of_any_form_are_read_safely(void **state)
{
    static const char *const texts[] = {"", ".", "..", "...", "ey.ey", "ey..", "ey.ey.ey.ey",
                                        "eyJ.eyJ.eyJ", "tg-abc", "ey J.x.y", "ey=.x.y"};
    static char huge[JWT_BYTES_MAX + 2];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_int_equal(verdict_of(slice_of(texts[i])), JWT_MALFORMED);
    memset(huge, 'e', sizeof huge);
    huge[10] = huge[20] = '.';
    assert_int_equal(verdict_of((struct slice){huge, sizeof huge}), JWT_MALFORMED);
    assert_true(!jwt_has_form(slice_of("tg-abc")));
    assert_true(!jwt_has_form(slice_of("a.b.c")));
    assert_true(jwt_has_form(slice_of("eyJ.b.c")));
}

static void documents_without_a_usable_key_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"keys\":{}}",
        "{\"keys\":[]}",
        "{\"keys\":[1,null,{}]}",
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}",
        "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}", /* 17 bits */
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":\"AA\"}]}",
        /* a point that is not on the curve */
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\","
        "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
        "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a4\"}]}",
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"use\":\"enc\","
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}",
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"key_ops\":[\"sign\"],"
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}",
        /* a private key that somebody has published */
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"d\":\"AAAA\","
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}",
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\","
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct jwt_keys *none = NULL;
        struct tg_problem problem = {.text = ""};
        enum tg_err err = jwt_keys_read(slice_of(texts[i]), reader, &none, &problem);
        assert_int_equal(err, TG_ERR_INVALID);
        assert_true(none == NULL && problem.text[0] != 0);
    }
}

static void keys_of_unknown_kinds_are_passed_over(void **state)
{
    static const char text[] =
        "{\"x\":[{\"y\":1}],\"keys\":[{\"kty\":\"AKP\",\"alg\":\"ML-DSA-44\",\"pub\":\"AA\"},"
        "{\"kty\":\"OKP\",\"crv\":\"Ed448\",\"x\":\"AA\"},"
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x5c\":[\"a\",\"b\"],"
        "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
    struct jwt_keys *one;
    struct tg_problem problem;

    (void)state;
    assert_int_equal(jwt_keys_read(slice_of(text), reader, &one, &problem), TG_OK);
    assert_int_equal(jwt_keys_count(one), 1);
    jwt_keys_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_algorithm_names_tenant_and_user),
        cmocka_unit_test(published_vectors_hold),
        cmocka_unit_test(claims_have_to_be_all_there),
        cmocka_unit_test(forgeries_name_nobody),
        cmocka_unit_test(only_algorithms_on_the_list_are_read),
        cmocka_unit_test(any_changed_byte_names_nobody),
        cmocka_unit_test(tokens_of_any_form_are_read_safely),
        cmocka_unit_test(documents_without_a_usable_key_are_refused),
        cmocka_unit_test(keys_of_unknown_kinds_are_passed_over),
    };

    return cmocka_run_group_tests_name("jwt_check", tests, set_up, tear_down);
}
