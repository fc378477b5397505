# SPDX-License-Identifier: Apache-2.0
"""The golden model of the PID-Delay law: docs/design/law.md and verdict.md step by step, clear rather than fast.

Pure functions of their arguments; the caller passes the time. Every number is checked against the width that
docs/design/law.md promises it, so a model that runs is a proof for its inputs that no data plane wraps. WidthError is
a bug in the law, never in the input; input outside its own width raises it too, naming the argument.

Sources: Cao et al. Eq. 1, 2, 5, Algorithm 1; RFC 8033 4.1 to 4.3, 5.1 and 5.4.
"""

from dataclasses import dataclass
from enum import IntEnum

from .params import ROWS, Integers

TAU_MAX_US = 2**24 - 1
BYTES_MAX = 2**32 - 1
U_ONE_Q40 = 2**40
DU_MAX_Q40 = 2**42
P_ONE_Q32 = 2**32
Z_ONE_Q16 = 2**16
U32_MAX = 2**32 - 1
ALWAYS = U32_MAX
"""The value of `integral_drop_max` that leaves the integral out for as long as the rows of Algorithm 1 say."""


class WidthError(ArithmeticError):
    """A number left the width docs/design/law.md promises."""


def _unsigned(name: str, value: int, bits: int) -> int:
    if not 0 <= value < 2**bits:
        raise WidthError(f"{name} = {value}: does not fit u{bits}")
    return value


def _signed(name: str, value: int, magnitude_bits: int) -> int:
    """Any value strictly between -2^magnitude_bits and 2^magnitude_bits."""
    if not -(2**magnitude_bits) < value < 2**magnitude_bits:
        raise WidthError(f"{name} = {value}: magnitude reaches 2^{magnitude_bits}")
    return value


@dataclass(frozen=True)
class Range:
    """The least and the greatest value of a parameter, both included."""

    least: int
    most: int


RANGES = {row.param: row.range for row in ROWS.values()}
"""Least and greatest value of each parameter, both included."""


@dataclass(frozen=True)
class Params(Integers):
    """The run-time data of one queue. Raises ValueError naming parameter, value and range.

    `weir.gains` checks the relations between parameters (Z3 < 1 < Z2 < Z1, M2 < M1): the arithmetic is sound without.
    """

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} = {value}: must be {least} .. {most}")


@dataclass
class State:
    """The controller's state of one queue, all zero at the start. `row`: of Algorithm 1 in the last step, 0 before."""

    u_q40: int = 0
    last_us: int = 0
    o1_us: int = 0
    o2_us: int = 0
    no_i_run: int = 0
    started: int = 0
    row: int = 0
    u_ecn_q40: int = 0


@dataclass
class Rate:
    """The departure-rate estimate of one queue, all zero at the start. `dq_time_q8_us` is 0 while it is unknown."""

    dq_time_q8_us: int = 0
    dq_count_bytes: int = 0
    dq_start_us: int = 0
    dq_on: int = 0


@dataclass
class Spacing:
    """State left by the verdicts on one queue, zero at the start: the sum of the probabilities of the packets since the
    last drop or mark. Apart from `State`, because verdicts may be given beside a step."""

    sum_q32: int = 0


@dataclass
class Flow:
    """Counter of the flows that share it, zero at the start: bytes, halved each 2^`share_shift` us."""

    flow_bytes: int = 0
    flow_last_us: int = 0


@dataclass
class Share:
    """The mean of the counters over the packets that have arrived at one queue, zero at the start."""

    share_mean_q6: int = 0


class Size(IntEnum):
    """Recent rate of a flow against the others'. New: no bytes yet."""

    SMALL = 0
    LARGE = 1
    NEW = 2


class Verdict(IntEnum):
    """Verdict for a packet."""

    PASS = 0
    MARK = 1
    DROP = 2


def departure(rate: Rate, params: Params, now_us: int, len_bytes: int, backlog_bytes: int) -> None:
    """A packet of `len_bytes` left the queue, `backlog_bytes` stay behind it (RFC 8033 4.3 with the reciprocal)."""
    _unsigned("now_us", now_us, 64)
    _unsigned("len_bytes", len_bytes, 64)
    _unsigned("backlog_bytes", backlog_bytes, 64)
    chunk_bytes = 1 << params.dq_shift
    weight = params.dq_weight_shift

    if not rate.dq_on:  # 1
        if backlog_bytes >= chunk_bytes:
            rate.dq_on = 1
            rate.dq_start_us = now_us
            rate.dq_count_bytes = 0
        return

    rate.dq_count_bytes = min(rate.dq_count_bytes + min(len_bytes, BYTES_MAX), BYTES_MAX)  # 2

    if rate.dq_count_bytes >= chunk_bytes:  # 3
        dt_us = min((now_us - rate.dq_start_us) % 2**64, TAU_MAX_US)
        new_q8_us = _unsigned("new", dt_us << 8, 32)
        old_q8_us = rate.dq_time_q8_us
        mean_q8_us = new_q8_us if old_q8_us == 0 else old_q8_us - (old_q8_us >> weight) + (new_q8_us >> weight)
        rate.dq_time_q8_us = max(_unsigned("dq_time_q8_us", mean_q8_us, 32), 1)
        rate.dq_count_bytes -= chunk_bytes
        if rate.dq_count_bytes >= chunk_bytes:
            rate.dq_count_bytes = 0
        rate.dq_start_us = now_us

    if backlog_bytes == 0:  # 4
        rate.dq_on = 0


def tau_us(rate: Rate, params: Params, backlog_bytes: int) -> int:
    """The delay in us that a packet arriving now will see (Cao Eq. 1); 0 while the rate is unknown."""
    _unsigned("backlog_bytes", backlog_bytes, 64)
    product = _unsigned("backlog * dq_time", min(backlog_bytes, BYTES_MAX) * rate.dq_time_q8_us, 64)
    return min(product >> (params.dq_shift + 8), TAU_MAX_US)


def row_of(params: Params, o_us: int, d_us: int, d1_us: int) -> int:
    """The row of Cao Algorithm 1 for error `o`, its last change `d` and the change before `d1`, all in us."""
    if abs(o_us) > params.m1_us:
        return 1
    if abs(o_us) > params.m2_us and o_us * d_us > 0:
        return 2
    if abs(o_us) > params.m2_us and o_us * d_us < 0 and o_us * d1_us > 0:
        return 3
    if abs(o_us) <= params.m2_us and o_us * d_us < 0 and o_us * d1_us < 0:
        return 4
    return 5


def decayed(u_q40: int, halflife_us: int, missed_us: int) -> int:
    """U after `missed_us` on an idle queue: halved once a `halflife_us` (not 0), at most 63 times."""
    for k in range(5, -1, -1):
        stretch_us = _unsigned("H << k", halflife_us << k, 64)
        if missed_us >= stretch_us:
            missed_us -= stretch_us
            u_q40 >>= 1 << k
    return u_q40


def update(state: State, params: Params, now_us: int, tau_us: int) -> bool:
    """Take a control step if one is due (Cao Eq. 2, Eq. 5, Algorithm 1); says whether it did. Call with each packet."""
    _unsigned("now_us", now_us, 64)
    _unsigned("tau_us", tau_us, 32)
    target_us, interval_us = params.target_us, params.interval_us

    if not state.started:  # 1
        state.started = 1
        state.last_us = now_us
        state.o1_us = state.o2_us = -target_us
        state.u_q40 = 0
        return False

    elapsed_us = (now_us - state.last_us) % 2**64  # 2
    if elapsed_us >= 2**63:
        state.last_us = now_us
        return False
    if elapsed_us < interval_us:
        return False

    tau_us = min(tau_us, TAU_MAX_US)  # 3, Cao Eq. 2
    o_us = _signed("o", tau_us - target_us, 24)

    if elapsed_us < 2 * interval_us:  # 4
        state.last_us = (state.last_us + interval_us) % 2**64
    else:
        state.last_us = now_us
        if o_us < 0:  # 5
            state.o1_us = state.o2_us = -target_us
            if params.idle_halflife_us:
                missed_us = elapsed_us - interval_us
                state.u_q40 = decayed(state.u_q40, params.idle_halflife_us, missed_us)
                state.u_ecn_q40 = decayed(state.u_ecn_q40, params.idle_halflife_us, missed_us)

    d_us = _signed("d", o_us - state.o1_us, 25)  # 6, Cao Alg. 1
    d1_us = _signed("d1", state.o1_us - state.o2_us, 25)
    second_us = _signed("o - 2 o1 + o2", o_us - 2 * state.o1_us + state.o2_us, 26)
    state.row = row_of(params, o_us, d_us, d1_us)
    z_q16 = {1: params.z1_q16, 2: params.z2_q16, 3: params.z2_q16, 4: params.z3_q16, 5: Z_ONE_Q16}[state.row]
    keep_integral = True
    if state.row in (2, 5):
        state.no_i_run = 0
    elif state.no_i_run < params.integral_drop_max:
        state.no_i_run = _unsigned("no_i_run", state.no_i_run + 1, 32)
        keep_integral = False

    du_q40 = params.kp_q40_per_us * d_us + params.kd_q40_per_us * second_us  # 7, Cao Eq. 5
    if keep_integral:
        du_q40 += params.ki_q40_per_us * o_us
    _signed("dU", du_q40, 59)
    du_q40 = max(-DU_MAX_Q40, min(du_q40, DU_MAX_Q40))

    du_q40 = _signed("dU * z", du_q40 * z_q16, 62) >> 16  # 8
    _signed("dU", du_q40, 46)

    state.u_q40 = max(0, min(state.u_q40 + du_q40, U_ONE_Q40))  # 9
    if params.ecn_weight_shift:
        weight = params.ecn_weight_shift
        ecn_q40 = state.u_ecn_q40 - (state.u_ecn_q40 >> weight) + (state.u_q40 >> weight)
        state.u_ecn_q40 = _unsigned("u_ecn", ecn_q40, 41)

    state.o2_us, state.o1_us = state.o1_us, o_us  # 10
    return True


def arrival(flow: Flow, share: Share, params: Params, now_us: int, len_bytes: int) -> Size:
    """A packet of `len_bytes` arrives that `flow` counts; says what that flow is. Call with each packet, before its
    verdict. With `share_least_q16` 0 nothing is counted and all flows are small."""
    _unsigned("now_us", now_us, 64)
    _unsigned("len_bytes", len_bytes, 64)
    if not params.share_least_q16:  # 1
        return Size.SMALL
    elapsed_us = (now_us - flow.flow_last_us) % 2**64  # 2
    halvings = elapsed_us >> params.share_shift
    if elapsed_us >= 2**63:
        flow.flow_last_us = now_us
    elif halvings > 31:
        flow.flow_bytes, flow.flow_last_us = 0, now_us
    else:
        flow.flow_bytes >>= halvings
        flow.flow_last_us = (flow.flow_last_us + (halvings << params.share_shift)) % 2**64
    new = not flow.flow_bytes
    flow.flow_bytes = min(flow.flow_bytes + min(len_bytes, BYTES_MAX), BYTES_MAX)  # 3
    mean_q6 = share.share_mean_q6 - (share.share_mean_q6 >> 6) + flow.flow_bytes  # 4
    share.share_mean_q6 = _unsigned("share_mean", mean_q6, 38)
    least = _unsigned("least share", params.share_least_q16 * share.share_mean_q6, 58)  # 5
    large = _unsigned("flow's share", flow.flow_bytes << 22, 54) >= least
    return Size.NEW if new else Size.LARGE if large else Size.SMALL


def spared(params: Params, tau_us: int, size: Size) -> bool:
    """Whether the packet is the first of its flow, and the queue not so long that this does not count."""
    return size == Size.NEW and params.share_least_q16 > 0 and tau_us < params.ecn_drop_us


def excess_q32(params: Params, backlog_bytes: int, tau_us: int, size: Size) -> int:
    """Addition to the probability of a drop or mark by a delay of `tau_us` beyond the bounds in time; 0 up to them."""
    _unsigned("tau_us", tau_us, 32)
    if params.delay_guard_bytes and backlog_bytes < (1 << params.dq_shift) + params.delay_guard_bytes:
        return 0
    if spared(params, tau_us, size):
        return 0
    if params.delay_limit_us and tau_us >= params.delay_limit_us:
        return P_ONE_Q32
    if not params.delay_bound_us or (params.share_least_q16 and size != Size.LARGE):
        return 0
    over_us = max(tau_us - params.delay_bound_us, 0)
    return min(_unsigned("excess", over_us * params.delay_bound_slope_q40_per_us, 64) >> 8, P_ONE_Q32)


def marking_u_q40(state: State, params: Params) -> int:
    """The U that marks follow, in q40."""
    return state.u_ecn_q40 if params.ecn_weight_shift else state.u_q40


def markable(state: State, params: Params, tau_us: int) -> bool:
    """Whether an ECT packet that meets a delay of `tau_us` is marked, not dropped (RFC 8033 5.1)."""
    in_time = not params.ecn_drop_us or tau_us < params.ecn_drop_us
    return params.ecn_bound_q32 > 0 and marking_u_q40(state, params) >> 8 <= params.ecn_bound_q32 and in_time


def decide(
    state: State,
    spacing: Spacing,
    params: Params,
    backlog_bytes: int,
    tau_us: int,
    ect: bool,
    rand_a: int,
    rand_b: int,
    size: Size = Size.SMALL,
) -> Verdict:
    """Verdict for one packet that finds `backlog_bytes` and a delay of `tau_us` before it.

    `ect`: it is ECT(0), ECT(1) or CE; `rand_a`, `rand_b`: uniform over 32 bits. `spacing` is what was left by the
    verdict before. `size`: `arrival`'s result for its flow; used only where `share_least_q16` is not 0.
    """
    _unsigned("backlog_bytes", backlog_bytes, 64)
    _unsigned("rand_a", rand_a, 32)
    _unsigned("rand_b", rand_b, 32)
    over_q32 = excess_q32(params, backlog_bytes, tau_us, size)  # 1
    if not state.u_q40 and not over_q32:  # 2
        spacing.sum_q32 = 0
        return Verdict.PASS
    if backlog_bytes < params.min_backlog_bytes:  # 3
        return Verdict.PASS
    mark = ect and markable(state, params, tau_us)  # 4
    if mark:
        over_q32 = 0
    held = tau_us < params.min_delay_us and not mark
    if held and not over_q32:
        return Verdict.PASS

    first_q32, second_q32 = (marking_u_q40(state, params) if mark else state.u_q40) >> 8, P_ONE_Q32  # 5
    if params.squared and not params.space_most_q16 and not over_q32:
        second_q32 = first_q32
    else:
        p_q32 = _unsigned("U^2", (first_q32 >> 1) ** 2, 63) >> 30 if params.squared else first_q32
        first_q32 = min((0 if held else p_q32) + over_q32, P_ONE_Q32)

    hit = rand_a < first_q32 and rand_b < second_q32  # 6
    if params.space_most_q16 and params.share_least_q16:
        hit = size == Size.LARGE
    if params.space_most_q16:  # 7, RFC 8033 5.4
        spacing.sum_q32 = _unsigned("sum", spacing.sum_q32 + first_q32, 37)
        early = spacing.sum_q32 < params.space_least_q16 << 16
        late = spacing.sum_q32 >= params.space_most_q16 << 16
        certain = first_q32 == P_ONE_Q32 and not spared(params, tau_us, size)
        hit = certain or late or (hit and not early)
        if hit:
            spacing.sum_q32 = 0
    if not hit:
        return Verdict.PASS
    return Verdict.MARK if mark else Verdict.DROP  # 8
