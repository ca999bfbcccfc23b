/* bank_part.h - a bank that two processes share for a while, each of which has its own.
 *
 * When one process takes over from another, both know all that was reserved up to a moment T. The
 * one that leaves still has calls that reserve after T: those that wait, or are tried again. What
 * it reserves is told, but not at once, and what the other one reserves it is not told at all. So
 * from T on
 *
 *     it reserves no more than min(left at T, amount / 64) of each budget, whatever calls from
     before T give back
 *     its successor keeps amount / 64 of each budget free, until it has ended
 *
 * and together they reserve no more than there is. A call that finds no room in its part is refused
 * as contended, which is worth a retry: the successor takes it. Several that leave, one after the
 * other, have a share each.
 *
 * Rejected: to ask the successor for each call, which would have to wait for it; and shares of what
 * is left, which of several processes would not add up.
 */
#ifndef TG_BUDGET_BANK_PART_H
#define TG_BUDGET_BANK_PART_H

#include "lib/budget/book.h"

/* From here on all budgets are shared so. {0, false}: with nobody. */
void bank_part(struct tg_bank *bank, struct book_part part);

/* Reserves what another process has told, all of it: what was settled of its calls may have been
 * read from a ledger before they are told, and counts twice for a moment, so less than what is
 * reserved may seem to be left. Otherwise as tg_bank_reserve_beside(). */
enum tg_err bank_adopt(struct tg_bank *bank, tg_account account, tg_account beside, tg_micro money,
                       tg_ms now, struct tg_money_answer *answer);

#endif
