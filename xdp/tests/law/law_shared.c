/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The headers as a shared library, for tests that hold them against the golden models. */
#include <stddef.h>
#include "law_io.h"
#include "weir/bands.h"
#include "weir/fair.h"
#include "weir/hosts.h"
#include "weir/coupled.h"
#include "weir/scone.h"

int law_run(struct law_io *io);
size_t law_io_size(void);

int law_run(struct law_io *io)
{
	return law_execute(io);
}

size_t law_io_size(void)
{
	return sizeof(struct law_io);
}

/* The verdict in band L; its probability goes to *p_q32. */
__u32 coupled_run(const struct weir_coupling *c, __u64 r_q40, __u32 tau_us, __u32 floor_us, __u32 rand_a, __u32 rand_b,
		  __u64 *p_q32);

__u32 coupled_run(const struct weir_coupling *c, __u64 r_q40, __u32 tau_us, __u32 floor_us, __u32 rand_a, __u32 rand_b,
		  __u64 *p_q32)
{
	*p_q32 = weir_mark_probability_q32(c, r_q40, tau_us, floor_us);
	return weir_decide_low(c, r_q40, tau_us, floor_us, rand_a, rand_b);
}

__u64 coupled_follow(__u64 r_q40, __u64 u_q40, int classic_active, int missed);

__u64 coupled_follow(__u64 r_q40, __u64 u_q40, int classic_active, int missed)
{
	return weir_follow_q40(r_q40, u_q40, classic_active, missed);
}

/* A packet arrives; whether it is refused goes to *refused. */
__u32 bands_run(struct weir_flow *flow, struct weir_share *share, struct weir_budget *budget,
		const struct weir_params *p, const struct weir_bands *b, __u64 now_us, __u64 len_bytes, __u32 tau_us,
		int marked, __u32 *refused);
void bands_passed(struct weir_budget *budget, __u64 len_bytes);
__u32 bands_late(const struct weir_params *p, __u64 backlog_bytes, __u32 tau_us);

__u32 bands_run(struct weir_flow *flow, struct weir_share *share, struct weir_budget *budget,
		const struct weir_params *p, const struct weir_bands *b, __u64 now_us, __u64 len_bytes, __u32 tau_us,
		int marked, __u32 *refused)
{
	enum weir_kind kind = weir_band_arrival(flow, share, budget, p, b, now_us, len_bytes, tau_us, marked);

	*refused = (__u32)weir_kind_is_refused(kind, p, tau_us);
	return kind;
}

void bands_passed(struct weir_budget *budget, __u64 len_bytes)
{
	weir_bulk_passed(budget, len_bytes);
}

__u32 bands_late(const struct weir_params *p, __u64 backlog_bytes, __u32 tau_us)
{
	return (__u32)weir_ahead_is_late(p, backlog_bytes, tau_us);
}

/* fair_run's results. */
struct fair_results {
	__u32 fair_bytes, kind, policed, spared;
};

void fair_run(struct weir_fair *fair, const struct weir_params *p, __u32 kind, __u32 flow_bytes, __u64 now_us,
	      __u64 len_bytes, __u32 tau_us, __u32 rand, struct fair_results *r);
void fair_passed(struct weir_fair *fair, __u64 len_bytes);

void fair_run(struct weir_fair *fair, const struct weir_params *p, __u32 kind, __u32 flow_bytes, __u64 now_us,
	      __u64 len_bytes, __u32 tau_us, __u32 rand, struct fair_results *r)
{
	r->fair_bytes = weir_fair_arrival(fair, p, (enum weir_kind)kind, flow_bytes, now_us, len_bytes);
	r->kind = weir_kind_by_share((enum weir_kind)kind, flow_bytes, r->fair_bytes);
	r->policed = (__u32)(weir_may_be_policed(p, flow_bytes, r->fair_bytes, tau_us) &&
			     weir_is_policed(flow_bytes, r->fair_bytes, rand));
	r->spared = (__u32)weir_kind_is_spared((enum weir_kind)r->kind, p, tau_us);
}

void fair_passed(struct weir_fair *fair, __u64 len_bytes)
{
	weir_fair_passed(fair, len_bytes);
}

/* A packet arrives, of a flow of the host; the share of such a flow goes to *fair_bytes. Returns its kind. */
__u32 hosts_run(struct weir_host *host, struct weir_fair *fair, const struct weir_params *p, __u32 kind,
		__u32 flow_bytes, __u64 now_us, __u64 len_bytes, __u32 *fair_bytes);

__u32 hosts_run(struct weir_host *host, struct weir_fair *fair, const struct weir_params *p, __u32 kind,
		__u32 flow_bytes, __u64 now_us, __u64 len_bytes, __u32 *fair_bytes)
{
	weir_host_arrival(host, p, now_us, len_bytes);
	*fair_bytes = 0;
	if (kind == WEIR_KIND_AHEAD)
		return kind;
	*fair_bytes = weir_host_share(host, fair, p, (enum weir_kind)kind, flow_bytes, now_us, len_bytes);
	return weir_kind_by_host((enum weir_kind)kind, host, fair, flow_bytes);
}

__u64 scone_rate_bit_s(__u32 signal);
__u32 scone_signal_for(__u64 rate_bit_s);
int scone_may_rewrite(__u64 *next_ns, __u64 now_ns);
/* Length of the SCONE packet at the start of a payload, or 0; its signal goes to *signal. As advise.h reads it. */
__u32 scone_packet(const __u8 *payload, __u32 bytes, __u32 *signal);
void scone_put(__u8 *payload, __u32 signal);

__u64 scone_rate_bit_s(__u32 signal)
{
	return weir_scone_rate_bit_s(signal);
}

__u32 scone_signal_for(__u64 rate_bit_s)
{
	return weir_scone_signal_for(rate_bit_s);
}

int scone_may_rewrite(__u64 *next_ns, __u64 now_ns)
{
	return weir_scone_may_rewrite(next_ns, now_ns);
}

__u32 scone_packet(const __u8 *payload, __u32 bytes, __u32 *signal)
{
	__u32 source_at;

	if (bytes < WEIR_SCONE_HEAD_BYTES || !weir_scone_begins(payload))
		return 0;
	*signal = weir_scone_signal(payload);
	source_at = weir_scone_source_at(payload);
	if (source_at >= bytes || weir_scone_bytes(source_at, payload[source_at]) >= bytes)
		return 0;
	return weir_scone_bytes(source_at, payload[source_at]);
}

void scone_put(__u8 *payload, __u32 signal)
{
	weir_scone_put(payload, signal);
}
