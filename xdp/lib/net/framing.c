/* SPDX-License-Identifier: Apache-2.0 */
#include "net/framing.h"

#include <string.h>

#include <linux/pkt_sched.h>

#include "net/net.h"
#include "weir/framing.h"

/* An entry a byte: exact for frames below this size. Larger packets count as multiples of the last entry. */
#define ENTRIES 2048

static bool is_plain(const struct weir_framing *f)
{
	return !f->extra_bytes && !f->mpu_bytes && f->line == WEIR_LINE_PLAIN;
}

static struct tc_sizespec spec_of(const struct weir_framing *f)
{
	bool table = f->mpu_bytes || f->line != WEIR_LINE_PLAIN;

	return (struct tc_sizespec){
		.overhead = f->extra_bytes,
		.linklayer = f->line == WEIR_LINE_ATM ? TC_LINKLAYER_ATM : TC_LINKLAYER_ETHERNET,
		.mpu = f->mpu_bytes,
		/* of no effect in the kernel, which does not report the table: distinguishes PTM's */
		.mtu = f->line == WEIR_LINE_PTM ? ENTRIES : ENTRIES - 1,
		.tsize = table ? ENTRIES : 0,
	};
}

void weir_framing_put(struct weir_question *q, const struct weir_framing *framing)
{
	/* the kernel adds the overhead before it looks up */
	const struct weir_framing rest = {.mpu_bytes = framing->mpu_bytes, .line = framing->line};
	const struct tc_sizespec spec = spec_of(framing);
	__u16 table[ENTRIES];
	struct rtattr *nest;

	if (is_plain(framing))
		return;
	nest = weir_question_nest(q, TCA_STAB | NLA_F_NESTED);
	weir_question_put(q, TCA_STAB_BASE, &spec, sizeof(spec));
	for (__u32 bytes = 0; bytes < spec.tsize; bytes++)
		table[bytes] = (__u16)weir_framed_bytes(&rest, bytes);
	if (spec.tsize)
		weir_question_put(q, TCA_STAB_DATA, table, sizeof(table));
	weir_question_close(q, nest);
}

struct weir_framing weir_framing_of(const struct nlmsghdr *message)
{
	const struct rtattr *stab = weir_tc_attribute(message, TCA_STAB);
	struct weir_framing framing = {0};
	struct tc_sizespec is;

	if (!stab || !weir_payload(weir_nested(stab, TCA_STAB_BASE), &is, sizeof(is)))
		return framing;
	framing.extra_bytes = is.overhead;
	framing.mpu_bytes = (__u16)is.mpu;
	framing.line = is.linklayer == TC_LINKLAYER_ATM ? WEIR_LINE_ATM
		       : is.mtu == ENTRIES		? WEIR_LINE_PTM
							: WEIR_LINE_PLAIN;
	return framing;
}

bool weir_framing_is(const struct nlmsghdr *message, const struct weir_framing *framing)
{
	const struct rtattr *stab = weir_tc_attribute(message, TCA_STAB);
	const struct tc_sizespec wanted = spec_of(framing);
	struct tc_sizespec is;

	if (is_plain(framing))
		return !stab;
	return weir_payload(weir_nested(stab, TCA_STAB_BASE), &is, sizeof(is)) && !memcmp(&is, &wanted, sizeof(is));
}
