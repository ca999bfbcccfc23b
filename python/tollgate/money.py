"""Money in process: accounts with budgets, and reservations that settle once. Amounts are micro-dollars.

    bank = Bank()
    acme = bank.account("acme", [Budget(micro_usd("50"), "day")])
    bob = acme.account("bob", [Budget(micro_usd("5"), "month", tz=ZoneInfo("Europe/Berlin"))])
    with bob.reserve(price.bound(input=1200, output=4096)) as money:        # raises OverBudget
        usage = serve()
        money.spent = price.cost(input=usage.input, output=usage.output)

What was spent is in memory: after a start, restore() says what a ledger of yours knows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, Literal

from tollgate import _native as native
from tollgate._native import NULL, ffi, lib
from tollgate.decision import Mode
from tollgate.errors import ClosedError, InvalidError, TollgateError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

MONEY_MAX = 9 * 10**18
Per = Literal["day", "week", "month", "total"]
_PER = {"day": lib.TG_PER_DAY, "week": lib.TG_PER_WEEK, "month": lib.TG_PER_MONTH, "total": lib.TG_PER_TOTAL}
_PER_NAMES = {number: name for name, number in _PER.items()}
_BUDGETS_MAX = 8


def micro_usd(usd: str | int | Decimal) -> int:
    """Dollars as micro-dollars, rounded up. A float is refused, because it is not the number one thinks."""
    if isinstance(usd, bool) or not isinstance(usd, str | int | Decimal):
        raise InvalidError(f"usd is {usd!r}; it must be a str, an int or a Decimal")
    try:
        micro = int((Decimal(usd) * 1_000_000).to_integral_value(ROUND_CEILING))
    except (ArithmeticError, ValueError):
        raise InvalidError(f"usd is {usd!r}; it must be an amount such as 0.25") from None
    return native.integer("usd in micro-dollars", micro, 0, MONEY_MAX)


class OverBudget(TollgateError):  # noqa: N818 - a decision, not an error
    """A budget has not enough left. `contended`: only reservations are in the way, so it may be tried again."""

    def __init__(self, per: str, reset_at_ms: int, amount: int, used: int, contended: bool) -> None:
        said = ", and calls in flight hold the rest" if contended else ""
        super().__init__(f"budget of {amount} micro-dollars ({per}): not enough is left, {used} are used{said}")
        self.per, self.reset_at_ms, self.amount, self.used, self.contended = (
            per,
            reset_at_ms,
            amount,
            used,
            contended,
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """`amount` micro-dollars in each window, which begins at 00:00 in `tz` (None: UTC)."""

    amount: int
    per: Per
    tz: datetime.tzinfo | None = None
    mode: Mode = "enforce"


def _offset_s(tz: datetime.tzinfo, at_s: int) -> int:
    utc = datetime.datetime.fromtimestamp(at_s, datetime.UTC)
    offset = utc.astimezone(tz).utcoffset() or datetime.timedelta()
    return int(offset.total_seconds())


def _zone(tz: datetime.tzinfo, kept: list[Any]) -> Any:
    """The changes of local time from 1970 to 2100: each is found between two days with different offsets."""
    day = 86400
    changes: list[tuple[int, int]] = []
    base = before = _offset_s(tz, 0)
    for start in range(0, 47482 * day, 5 * day):
        after = _offset_s(tz, start + 5 * day)
        if after == before:
            continue
        low, high = start, start + 5 * day
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset_s(tz, middle) == before else (low, middle)
        changes.append((high * 1000, after))
        before = after
    array = ffi.new("struct tg_zone_change[]", changes)
    zone = ffi.new("struct tg_zone *", {"base_s": base, "n": len(changes), "changes": array})
    kept += [array, zone]
    return zone


class Price:
    """What a model costs, in micro-dollars per million tokens, and per call. -1: like plain input or output.

    The fields are those of struct tg_price in tollgate.h.
    """

    _FIELDS = (
        "input",
        "cached_input",
        "cache_write",
        "output",
        "per_call",
        "cache_write_long",
        "audio_input",
        "image_input",
        "audio_output",
        "image_output",
        "per_tool_call",
    )

    def __init__(self, **prices: int) -> None:
        self._c = ffi.new("struct tg_price *")
        lib.tg_price_init_sized(self._c, ffi.sizeof("struct tg_price"))
        for name, value in prices.items():
            if name not in self._FIELDS:
                raise InvalidError(f"there is no price {name!r}; there are {', '.join(self._FIELDS)}")
            setattr(self._c, name, native.integer(name, value, -1, 10**15))

    def cost(self, **used: int) -> int:
        """What a usage costs, rounded up once: the fields of struct tg_usage."""
        return int(lib.tg_price_of(self._c, _filled("struct tg_usage *", used)))

    def bound(self, **most: int) -> int:
        """The most that a usage within these bounds costs: the fields of struct tg_usage_bound."""
        return int(lib.tg_price_bound(self._c, _filled("struct tg_usage_bound *", most)))


def _filled(kind: str, fields: dict[str, int]) -> Any:
    c = ffi.new(kind)
    for name, value in fields.items():
        if not hasattr(c, name):
            raise InvalidError(f"there is no field {name!r} in {kind.split()[1]}")
        setattr(c, name, native.integer(name, value, 0, 2**31 if name == "kinds" else 2**53 - 1))
    return c


class Reservation:
    """Money that is set aside for a call. `spent`: what it cost; without it the reserved amount stands, if
    the block ends well, and nothing if it ends by an exception."""

    def __init__(self, bank: _Owned, number: int, reserved: int) -> None:
        self._bank: _Owned | None = bank
        self._number = number
        self.reserved = reserved
        self.spent: int | None = None

    def settle(self, spent: int | None = None) -> bool:
        """Replaces the reservation by what was spent. False: it had ended."""
        spent = self.spent if spent is None else spent
        micro = -1 if spent is None else native.integer("spent", spent, 0, MONEY_MAX)
        bank, self._bank = self._bank, None
        return bank is not None and bool(lib.tg_bank_settle(bank.c, self._number, micro, NULL))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.settle(self.spent if kind is None or self.spent is not None else 0)


class _Owned:
    def __init__(self, pointer: Any) -> None:
        self.c = pointer
        self.kept: list[Any] = []  # zones, which the bank borrows

    def __del__(self) -> None:
        lib.tg_bank_free(self.c)


class Account:
    """An account and its budgets: a tenant, a user."""

    def __init__(self, bank: Bank, number: int) -> None:
        self._bank, self._number = bank, number

    def account(self, name: str | bytes, budgets: Sequence[Budget] = ()) -> Account:
        """Opens an account under this one, or finds it; an existing one keeps its budgets."""
        return self._bank._open(self._number, name, budgets)

    def reserve(self, micro: int, *, up_to: bool = False) -> Reservation:
        """Reserves money here and in all accounts above. With `up_to`, what is left if that is less."""
        owned, answer = self._bank._use(), ffi.new("struct tg_money_answer *")
        amount = native.integer("micro", micro, 0, MONEY_MAX)
        native.check(lib.tg_bank_reserve(owned.c, self._number, amount, bool(up_to), self._bank.now(), answer))
        if answer.reservation == 0:
            raise OverBudget(
                _PER_NAMES.get(answer.per, ""), answer.reset_at, answer.amount, answer.used, answer.contended
            )
        return Reservation(owned, answer.reservation, answer.reserved)

    def left(self) -> int:
        """The least that is left in the enforced budgets here and above; MONEY_MAX without any."""
        micro, part = ffi.new("tg_micro *"), ffi.new("double *")
        native.check(lib.tg_bank_left(self._bank._use().c, self._number, self._bank.now(), micro, part))
        return int(micro[0])

    def restore(self, budget: int, settled: int) -> None:
        """Says what was settled in the window of one budget, by its place in the list, from a ledger."""
        index = native.integer("budget", budget, 0, _BUDGETS_MAX)
        micro = native.integer("settled", settled, 0, MONEY_MAX)
        native.check(lib.tg_bank_restore(self._bank._use().c, self._number, index, micro, self._bank.now()))

    def close(self) -> None:
        """Nothing more can be reserved here and below; what is outstanding still settles."""
        lib.tg_bank_close(self._bank._use().c, self._number)


class Bank:
    """Accounts in a tree. By any number of threads."""

    def __init__(self, *, max_accounts: int | None = None, clock: Callable[[], int] | None = None) -> None:
        config = ffi.new("struct tg_bank_config *")
        lib.tg_bank_config_init_sized(config, ffi.sizeof("struct tg_bank_config"))
        config.seed = native.seed()
        if max_accounts is not None:
            config.max_accounts = native.integer("max_accounts", max_accounts)
        out, problem = ffi.new("struct tg_bank **"), ffi.new("struct tg_problem *")
        native.check(lib.tg_bank_new(config, out, problem), problem)
        self._owned: _Owned | None = _Owned(out[0])
        self._clock = clock or native.epoch_clock()

    def now(self) -> int:
        return native.integer("what clock() returns", self._clock())

    def _use(self) -> _Owned:
        if self._owned is None:
            raise ClosedError("the bank is closed")
        return self._owned

    def account(self, name: str | bytes, budgets: Sequence[Budget] = ()) -> Account:
        """Opens an account at the top, or finds it; an existing one keeps its budgets."""
        return self._open(0, name, budgets)

    def _open(self, parent: int, name: str | bytes, budgets: Sequence[Budget]) -> Account:
        owned, raw = self._use(), native.named("name", name)
        array = ffi.new("struct tg_budget[]", max(len(budgets), 1))
        kept: list[Any] = []
        for place, budget in zip(array, budgets, strict=False):
            if not isinstance(budget, Budget):
                raise InvalidError(f"budgets has {budget!r}; it must be a list of Budget")
            place.amount = native.integer("Budget.amount", budget.amount, 0, MONEY_MAX)
            place.per = native.choice("Budget.per", budget.per, _PER)
            place.mode = native.choice("Budget.mode", budget.mode, native.MODES)
            if budget.tz is not None:
                place.zone = _zone(budget.tz, kept)
        number, fresh, problem = ffi.new("tg_account *"), ffi.new("bool *"), ffi.new("struct tg_problem *")
        err = lib.tg_bank_open(owned.c, parent, raw, len(raw), array, len(budgets), self.now(), number, fresh, problem)
        native.check(err, problem)
        if fresh[0]:
            owned.kept += kept
        return Account(self, number[0])

    def close(self) -> None:
        """Nothing is reserved any more; reservations that are open can be settled."""
        self._owned = None
