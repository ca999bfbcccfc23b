/* metrics_shapes.h - the buckets of every histogram.
 *
 * Where the buckets lie decides what can be told apart later, and changing them breaks queries over
 * time. They follow what is asked of each: waits of up to 100 ms by default, overhead of some tens
 * of microseconds, first tokens after a tenth of a second to two minutes.
 */
#ifndef TG_OBS_METRICS_SHAPES_H
#define TG_OBS_METRICS_SHAPES_H

#include "server/obs/histogram.h"

/* One set of bounds, in ms, that is shown in ms and in seconds. */
#define WAIT_BOUNDS(X)                                                                             \
    X(1, "1", "0.001")                                                                             \
    X(2, "2", "0.002")                                                                             \
    X(5, "5", "0.005")                                                                             \
    X(10, "10", "0.01")                                                                            \
    X(20, "20", "0.02")                                                                            \
    X(50, "50", "0.05")                                                                            \
    X(100, "100", "0.1")                                                                           \
    X(200, "200", "0.2")                                                                           \
    X(500, "500", "0.5")                                                                           \
    X(1000, "1000", "1")                                                                           \
    X(5000, "5000", "5")

#define AS_MS(ms, text, seconds) {ms, text},
#define AS_SECONDS(ms, text, seconds) {ms, seconds},
static const struct histogram_shape SHAPE_WAIT_MS = {
    .scale = 1, .n = 11, .bounds = {WAIT_BOUNDS(AS_MS)}};
static const struct histogram_shape SHAPE_WAIT_SECONDS = {
    .scale = 1000, .n = 11, .bounds = {WAIT_BOUNDS(AS_SECONDS)}};

/* Microseconds, shown in seconds. */
static const struct histogram_shape SHAPE_OVERHEAD = {.scale = 1000000,
                                                      .n = 11,
                                                      .bounds = {{20, "0.00002"},
                                                                 {50, "0.00005"},
                                                                 {100, "0.0001"},
                                                                 {200, "0.0002"},
                                                                 {500, "0.0005"},
                                                                 {1000, "0.001"},
                                                                 {2000, "0.002"},
                                                                 {5000, "0.005"},
                                                                 {10000, "0.01"},
                                                                 {100000, "0.1"},
                                                                 {1000000, "1"}}};

#undef AS_MS
#undef AS_SECONDS

/* ms, shown in seconds. */
static const struct histogram_shape SHAPE_FIRST_BYTE = {.scale = 1000,
                                                        .n = 13,
                                                        .bounds = {{10, "0.01"},
                                                                   {25, "0.025"},
                                                                   {50, "0.05"},
                                                                   {100, "0.1"},
                                                                   {250, "0.25"},
                                                                   {500, "0.5"},
                                                                   {1000, "1"},
                                                                   {2500, "2.5"},
                                                                   {5000, "5"},
                                                                   {10000, "10"},
                                                                   {30000, "30"},
                                                                   {60000, "60"},
                                                                   {120000, "120"}}};

/* Thousandths. */
static const struct histogram_shape SHAPE_RATIO = {.scale = 1000,
                                                   .n = 11,
                                                   .bounds = {{100, "0.1"},
                                                              {250, "0.25"},
                                                              {500, "0.5"},
                                                              {750, "0.75"},
                                                              {900, "0.9"},
                                                              {1000, "1"},
                                                              {1100, "1.1"},
                                                              {1250, "1.25"},
                                                              {1500, "1.5"},
                                                              {2000, "2"},
                                                              {4000, "4"}}};

#endif
