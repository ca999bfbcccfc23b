/* sigv4_suite.h - the test suite of AWS Signature Version 4, as Amazon publishes it.
 *
 * Copyright Amazon.com, Inc. or its affiliates. Licensed under the Apache License, Version 2.0. The
 * requests, canonical requests and headers are the suite's; this table was made of its files by a
 * script. The token of get-vanilla-with-session-token is that of its canonical request.
 * For all: access key AKIDEXAMPLE, secret wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY, region
 * us-east-1, service "service", 2015-08-30 12:36:00 UTC.
 */
#ifndef SIGV4_SUITE_H
#define SIGV4_SUITE_H

struct suite_case {
    const char *name, *method, *target;
    struct {
        const char *name, *value;
    } headers[8];
    const char *body, *canonical, *authorization;
};

/* clang-format off */
static const struct suite_case suite[] = {
    {"get-header-key-duplicate", "GET",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"My-Header1", "value2"},
      {"My-Header1", "value2"},
      {"My-Header1", "value1"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "my-header1:value2,value2,value1\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;my-header1;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;my-header1;x-amz-date, Signature=c9d5ea9f3f72853aea855b47e"
     "a873832890dbdd183b4468f858259531a5138ea"},
    {"get-header-value-multiline", "GET",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"My-Header1", "value1   value2      value3"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "my-header1:value1 value2 value3\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;my-header1;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;my-header1;x-amz-date, Signature=cfd34249e4b1c8d6b91ef7416"
     "5d41a32e5fab3306300901bb65a51a73575eefd"},
    {"get-header-value-order", "GET",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"My-Header1", "value4"},
      {"My-Header1", "value1"},
      {"My-Header1", "value3"},
      {"My-Header1", "value2"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "my-header1:value4,value1,value3,value2\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;my-header1;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;my-header1;x-amz-date, Signature=08c7e5a9acfcfeb3ab6b2185e"
     "75ce8b1deb5e634ec47601a50643f830c755c01"},
    {"get-header-value-trim", "GET",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"My-Header1", " value1"},
      {"My-Header2", " \"a   b   c\""},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "my-header1:value1\n"
     "my-header2:\"a b c\"\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;my-header1;my-header2;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;my-header1;my-header2;x-amz-date, Signature=acc3ed3afb60bb"
     "290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"get-unreserved", "GET",
     "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=07ef7494c76fa4850883e2b006601f940f8a"
     "34d404d0cfa977f52a65bbf5f24f"},
    {"get-utf8", "GET",
     "/\341\210\264",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/%E1%88%B4\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=8318018e0b0f223aa2bbf98705b62bb787dc"
     "9c0e678f255a891fd03141be5d85"},
    {"get-vanilla", "GET",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372"
     "ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-empty-query-key", "GET",
     "/?Param1=value1",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "Param1=value1\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=a67d582fa61cc504c4bae71f336f98b97f1e"
     "a3c7a6bfe1b6e45aec72011b9aeb"},
    {"get-vanilla-query", "GET",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372"
     "ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-query-order-encoded", "GET",
     "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z "}},
     "",
     "GET\n"
     "/\n"
     "%E1%88%B4=Value1&Param=Value2&Param-3=Value3\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=371d3713e185cc334048618a97f809c9ffe3"
     "39c62934c032af5a0e595648fcac"},
    {"get-vanilla-query-order-key", "GET",
     "/?Param1=value2&Param1=Value1",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "Param1=Value1&Param1=value2\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=eedbc4e291e521cf13422ffca22be7d2eb81"
     "46eecf653089df300a15b2382bd1"},
    {"get-vanilla-query-order-key-case", "GET",
     "/?Param2=value2&Param1=value1",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "Param1=value1&Param2=value2\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=b97d918cfa904a5beff61c982a1b6f458b79"
     "9221646efd99d3219ec94cdf2500"},
    {"get-vanilla-query-order-value", "GET",
     "/?Param1=value2&Param1=value1",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "Param1=value1&Param1=value2\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5772eed61e12b33fae39ee5e7012498b51d5"
     "6abc0abb7c60486157bd471c4694"},
    {"get-vanilla-query-unreserved", "GET",
     "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~012345"
     "6789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~01234567"
     "89ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=9c3e54bfcdf0b19771a7f523ee5669cdf59b"
     "c7cc0884027167c21bb143a40197"},
    {"get-vanilla-utf8-query", "GET",
     "/?\341\210\264=bar",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "%E1%88%B4=bar\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=2cdec8eed098649ff3a119c94853b13c643b"
     "cf08f8b0a1d91e12c9027818dd04"},
    {"get-vanilla-with-session-token", "GET",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"},
      {"X-Amz-Security-Token", ""
          "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "x-amz-security-token:6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf"
     "194267\n"
     "\n"
     "host;x-amz-date;x-amz-security-token\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=07ec1639c89043a"
     "a0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
    {"get-relative", "GET",
     "/example/..",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372"
     "ff2a2260956d9b8aae1d763fbf31"},
    {"get-relative-relative", "GET",
     "/example1/example2/../..",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372"
     "ff2a2260956d9b8aae1d763fbf31"},
    {"get-slash", "GET",
     "//",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372"
     "ff2a2260956d9b8aae1d763fbf31"},
    {"get-slash-dot-slash", "GET",
     "/./",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372"
     "ff2a2260956d9b8aae1d763fbf31"},
    {"get-slash-pointless-dot", "GET",
     "/./example",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/example\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=ef75d96142cf21edca26f06005da7988e4f8"
     "dc83a165a80865db7089db637ec5"},
    {"get-slashes", "GET",
     "//example//",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/example/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=9a624bd73a37c9a373b5312afbebe7a714a7"
     "89de108f0bdfe846570885f57e84"},
    {"get-space", "GET",
     "/example space/",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "GET\n"
     "/example%20space/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=652487583200325589f1fba4c7e578f72c47"
     "cb61beeca81406b39ddec1366741"},
    {"get-special-character", "GET",
     "/example/$delete",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z "}},
     "",
     "GET\n"
     "/example/%24delete\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=a853c9b21b528b19643d00910d35b83a10c3"
     "66a10833ceefb45edd6c80e40f27"},
    {"post-header-key-case", "POST",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "POST\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c"
     "30862966e37dddb68e92efbe5d6b"},
    {"post-header-key-sort", "POST",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"My-Header1", "value1"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "POST\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "my-header1:value1\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;my-header1;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;my-header1;x-amz-date, Signature=c5410059b04c1ee005303aed4"
     "30f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
    {"post-header-value-case", "POST",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"My-Header1", "VALUE1"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "POST\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "my-header1:VALUE1\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;my-header1;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;my-header1;x-amz-date, Signature=cdbc9802e29d2942e5e10b5bc"
     "cfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
    {"post-sts-header-after", "POST",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "POST\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c"
     "30862966e37dddb68e92efbe5d6b"},
    {"post-sts-header-before", "POST",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"},
      {"X-Amz-Security-Token", ""
          "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHG"
          "BuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1N"
          "tBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHN"
          "VXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9"
          "FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="}},
     "",
     "POST\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "x-amz-security-token:AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8"
     "j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrm"
     "GdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE"
     "8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn"
     "9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==\n"
     "\n"
     "host;x-amz-date;x-amz-security-token\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=85d96828115b5dc"
     "0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
    {"post-vanilla", "POST",
     "/",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "POST\n"
     "/\n"
     "\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c"
     "30862966e37dddb68e92efbe5d6b"},
    {"post-vanilla-empty-query-value", "POST",
     "/?Param1=value1",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "POST\n"
     "/\n"
     "Param1=value1\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=28038455d6de14eafc1f9222cf5aa6f1a961"
     "97d7deb8263271d420d138af7f11"},
    {"post-vanilla-query", "POST",
     "/?Param1=value1",
     {{"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "",
     "POST\n"
     "/\n"
     "Param1=value1\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "host;x-amz-date\n"
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=host;x-amz-date, Signature=28038455d6de14eafc1f9222cf5aa6f1a961"
     "97d7deb8263271d420d138af7f11"},
    {"post-x-www-form-urlencoded", "POST",
     "/",
     {{"Content-Type", "application/x-www-form-urlencoded"},
      {"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "Param1=value1",
     "POST\n"
     "/\n"
     "\n"
     "content-type:application/x-www-form-urlencoded\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "content-type;host;x-amz-date\n"
     "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=content-type;host;x-amz-date, Signature=ff11897932ad3f4e8b18135"
     "d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
    {"post-x-www-form-urlencoded-parameters", "POST",
     "/",
     {{"Content-Type", "application/x-www-form-urlencoded; charset=utf8"},
      {"Host", "example.amazonaws.com"},
      {"X-Amz-Date", "20150830T123600Z"}},
     "Param1=value1",
     "POST\n"
     "/\n"
     "\n"
     "content-type:application/x-www-form-urlencoded; charset=utf8\n"
     "host:example.amazonaws.com\n"
     "x-amz-date:20150830T123600Z\n"
     "\n"
     "content-type;host;x-amz-date\n"
     "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
     "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
     ", SignedHeaders=content-type;host;x-amz-date, Signature=1a72ec8f64bd914b0e42e42"
     "607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe"},
};
/* clang-format on */

#endif
