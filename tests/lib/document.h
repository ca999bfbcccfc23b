/* document.h - documents of which a part is made from tables of the program. */
#ifndef DOCUMENT_H
#define DOCUMENT_H

#include <stddef.h>

/* Fails the test unless what stands between two lines of a document is `want`; with
 * TG_UPDATE_GOLDEN=1 in the environment it is written there. From the top of the tree. */
void expect_document(const char *path, const char *begin, const char *end, const char *want,
                     size_t bytes);

#endif
