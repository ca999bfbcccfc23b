/* mock_records.c - what the mock saw: one JSON line for each request that ended. */
#include "lab/mock/mock_records.h"

#include <stdlib.h>

bool mock_records_init(struct mock_records *records, size_t keep, FILE *to)
{
    *records = (struct mock_records){.keep = keep, .to = to};
    atomic_init(&records->begun, 0);
    atomic_init(&records->ended, 0);
    if (pthread_mutex_init(&records->lock, NULL) != 0)
        return false;
    records->kept = calloc(keep + 1, sizeof *records->kept);
    if (records->kept != NULL)
        return true;
    pthread_mutex_destroy(&records->lock);
    return false;
}

void mock_records_fini(struct mock_records *records)
{
    for (size_t i = 0; i < records->keep; i++)
        text_out_fini(&records->kept[i]);
    free(records->kept);
    pthread_mutex_destroy(&records->lock);
}

bool mock_records_wanted(const struct mock_records *records)
{
    return records->keep > 0 || records->to != NULL;
}

uint64_t mock_records_begin(struct mock_records *records, unsigned *age)
{
    uint64_t number;

    pthread_mutex_lock(&records->lock);
    number = atomic_fetch_add_explicit(&records->begun, 1, memory_order_relaxed) + 1;
    *age = records->age;
    pthread_mutex_unlock(&records->lock);
    return number;
}

static void write_line(struct mock_records *records, struct slice line)
{
    if (fwrite(line.at, 1, line.n, records->to) != line.n || fputc('\n', records->to) == EOF ||
        fflush(records->to) != 0)
        records->failed = true;
}

void mock_records_end(struct mock_records *records, unsigned age, struct slice line)
{
    pthread_mutex_lock(&records->lock);
    if (records->to != NULL)
        write_line(records, line);
    if (age == records->age) {
        atomic_fetch_add_explicit(&records->ended, 1, memory_order_relaxed);
        if (records->keep > 0) {
            struct text_out *place = &records->kept[records->added % records->keep];
            text_out_clear(place);
            text_out_put(place, line.at, line.n);
            records->added++;
        }
    }
    pthread_mutex_unlock(&records->lock);
}

void mock_records_write(struct mock_records *records, struct text_out *out)
{
    pthread_mutex_lock(&records->lock);
    uint64_t from = records->added > records->keep ? records->added - records->keep : 0;

    text_out_text(out, "{\"begun\":");
    text_out_number(out, (int64_t)atomic_load(&records->begun));
    text_out_text(out, ",\"ended\":");
    text_out_number(out, (int64_t)atomic_load(&records->ended));
    text_out_text(out, ",\"requests\":[");
    for (uint64_t i = from; i < records->added; i++) {
        const struct text_out *line = &records->kept[i % records->keep];
        text_out_text(out, i > from ? ",\n" : "\n");
        text_out_put(out, line->bytes, line->size);
    }
    text_out_text(out, "]}\n");
    pthread_mutex_unlock(&records->lock);
}

void mock_records_reset(struct mock_records *records)
{
    pthread_mutex_lock(&records->lock);
    records->age++;
    records->added = 0;
    atomic_store(&records->begun, 0);
    atomic_store(&records->ended, 0);
    pthread_mutex_unlock(&records->lock);
}
