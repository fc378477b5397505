/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/interface.h"

#include <errno.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "signal/bands.h"
#include "signal/judge.h"
#include "signal/signals.h"

#define L2_ETHERNET_BYTES 14

int interface_look(const char *dev, const char *netns, bool tree, struct interface *i)
{
	int back, netlink, error;

	if (weir_place_look(dev, netns, &i->place) < 0)
		return -1;
	i->ifindex = (int)i->place.ifindex;
	if (!i->ifindex)
		return weir_error("no interface %s%s%s", dev, *netns ? " in network namespace " : "", netns);
	netlink = weir_netlink_in(netns, &back);
	if (netlink < 0)
		return -1;
	i->type = weir_link_type(i->place.name);
	error = weir_qdisc_read(netlink, i->ifindex, &i->qdisc);
	if (!error && tree)
		error = weir_tree_read(netlink, i->ifindex, &i->tree);
	close(netlink);
	weir_netns_leave(back);
	if (i->type < 0 || error)
		return weir_error("%s: can't read its state: %s", dev, weir_reason(i->type < 0 ? i->type : error));
	return 0;
}

__u32 interface_l2_bytes(int type)
{
	return type == ARPHRD_ETHER || type == ARPHRD_LOOPBACK ? L2_ETHERNET_BYTES : 0;
}

int interface_check_queue(const struct request *r, const struct interface *dev, __u32 signal)
{
	const struct weir_signal_row *row = weir_signal_of(signal);
	const char *objection = weir_qdisc_objection(&dev->qdisc);
	__u32 band_class[WEIR_BANDS];
	char why[512];

	memcpy(band_class, r->band_class, sizeof(band_class));
	if ((!row || row->reads_root) && objection)
		return weir_error("%s: %s%s", r->dev, objection, row ? "" : "; or give --peer or --rate");
	if (r->bands ? weir_bands_objection(&dev->tree, WEIR_SIGNAL_POLL, request_sums(r), band_class, why, sizeof(why))
	    : r->coupled
		    ? weir_coupled_objection(&dev->tree, row ? signal : WEIR_SIGNAL_POLL, band_class, why, sizeof(why))
		    : weir_tree_objection(&dev->tree, row ? row->signal : WEIR_SIGNAL_BACKLOG, request_sums(r), why,
					  sizeof(why)))
		return weir_error("%s: %s", r->dev, why);
	return 0;
}

int interface_root_is_free(const struct request *r, const struct weir_qdisc *root)
{
	char name[WEIR_TREE_NAME_LEN];

	if (!*root->kind || !root->handle)
		return 0;
	weir_qdisc_name(name, sizeof(name), root->kind, root->handle);
	if (!strcmp(root->kind, "mq")) /* no law would be on it without --shape either */
		return weir_error("--shape %s: %s divides packets over queues without a common rate; remove it first "
				  "(tc qdisc del dev %s root), and one shaper serves all queues",
				  r->dev, name, r->dev);
	return weir_error("%s: it has a root qdisc already, %s: remove it first (tc qdisc del dev %s root)%s", r->dev,
			  name, r->dev, r->shape_bit_s > 0 ? ", or leave --shape out to put the law on that" : "");
}
