/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/directions.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gains/ahead.h"
#include "gains/coupling.h"

/* Whether a request with --ingress is about sent packets, too. */
static bool asks_egress(const struct request *r)
{
	return r->shape_bit_s > 0 || r->rate_bit_s > 0 || r->peer || r->signal || r->hook_given || r->bands ||
	       r->coupled || r->hosts_given || r->dscp_given || r->flows || r->whole_tree || r->leaf_aqm ||
	       r->limit_packets;
}

static int check(const struct request *r)
{
	if (r->direction)
		return weir_error("%s: --ingress is about received packets: give DEV without a direction", r->dev);
	if (r->classes)
		return weir_error("--ingress and --class: attach the law of received packets by a command of its own "
				  "(%s/ingress --rate RATE)",
				  r->dev);
	if (r->rate_bit_s > 0 && request_is_ingress(r))
		return weir_error(
			"--ingress and --rate: both are of received packets; leave one of them out (--rate of sent "
			"packets needs --hook tc)");
	return 0;
}

/* Keys of bands are of sent packets alone. */
static bool is_of_bands(const char *pair)
{
	char key[64] = "";
	size_t length = strcspn(pair, "=");

	memcpy(key, pair, length < sizeof(key) ? length : sizeof(key) - 1);
	return weir_ahead_has(key) || weir_coupling_has(key);
}

int directions_of(const struct request *r, struct directions *d)
{
	struct request *in = &d->ingress;

	*d = (struct directions){.has_egress = true, .egress = *r};
	if (!(r->ingress_bit_s > 0))
		return 0;
	if (check(r))
		return -1;
	d->has_ingress = true;
	d->has_egress = asks_egress(r);
	d->egress.ingress_bit_s = 0;
	d->egress.both = true;
	/* options of a virtual queue, and of a rate, are of received packets where sent ones have no such */
	if (!(r->rate_bit_s > 0) && !r->peer)
		d->egress.limit_bytes = 0;
	if (!(r->rate_bit_s > 0) && !(r->shape_bit_s > 0)) {
		d->egress.framing = (struct weir_framing){0};
		d->egress.mpu_given = false;
	}
	*in = (struct request){
		.dev = r->dev,
		.peer_netns = "",
		.netns = r->netns,
		.pins = r->pins,
		.name = r->name,
		.gains_file = r->gains_file,
		.rate_bit_s = r->ingress_bit_s,
		.limit_bytes = r->limit_bytes,
		.framing = r->framing,
		.mpu_given = r->mpu_given,
		.flow_records = r->flow_records,
		.no_flow_records = r->no_flow_records,
		.advises = r->advises,
		.advice = r->advice,
		.fixed = r->fixed,
		.fixed_given = r->fixed_given,
		.json = r->json,
		.verbose = r->verbose,
		.expert = r->expert,
		.kept = r->kept,
		.look = r->look,
		.both = true,
	};
	in->word = calloc((size_t)r->words + 1, sizeof(*in->word));
	if (!in->word)
		return weir_error("out of memory");
	for (int i = 0; i < r->words; i++)
		if (!d->has_egress || !is_of_bands(r->word[i]))
			in->word[in->words++] = r->word[i];
	if (request_check(in) || (d->has_egress && request_check(&d->egress)))
		return -1;
	return 0;
}

void directions_free(struct directions *d)
{
	free(d->ingress.word);
	d->ingress.word = NULL;
}
