/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/leaves.h"

#include <unistd.h>

#include "net/net.h"
#include "pins/leaf_aqm.h"
#include "signal/signals.h"

static bool wanted(__u32 class, const void *context)
{
	const struct request *r = context;

	for (unsigned int i = 0; i < r->excepts; i++)
		if (r->except[i] == class)
			return false;
	return wants_class(r, class);
}

static int begin(const struct request *r, int ifindex, const char *path, int *back, struct weir_leaves *leaves)
{
	*leaves = (struct weir_leaves){
		.path = path,
		.dev = r->dev,
		.netlink = weir_netlink_in(r->netns, back),
		.ifindex = ifindex,
		.wanted = wanted,
		.context = r,
	};
	return leaves->netlink < 0 ? -1 : 0;
}

static void end(const struct weir_leaves *leaves, int back)
{
	close(leaves->netlink);
	weir_netns_leave(back);
}

static void see(__u32 handle, const struct weir_leaf_aqm *leaf, void *context)
{
	const struct weir_leaves *leaves = ((void **)context)[0];
	bool *any = ((void **)context)[1];

	*any |= leaves->wanted(leaf->parent, leaves->context);
}

int leaves_ensure(const struct request *r, int ifindex, const char *path, bool *differs)
{
	struct weir_leaves leaves;
	void *context[] = {&leaves, differs};
	int back, result = 0;

	if (r->leaf_aqm == LEAF_AQM_STAYS)
		return 0;
	if (begin(r, ifindex, path, &back, &leaves))
		return -1;
	if (r->leaf_aqm == LEAF_AQM_OFF) {
		result = weir_leaf_aqm_off(&leaves, r->look, differs);
	} else {
		weir_leaf_aqm_each(path, see, context);
		if (!r->look)
			result = weir_leaf_aqm_restore(&leaves);
	}
	end(&leaves, back);
	return result;
}

int leaves_check(const struct request *r, int ifindex)
{
	struct weir_leaves leaves;
	int back, result;

	if (r->leaf_aqm != LEAF_AQM_OFF)
		return 0;
	if (begin(r, ifindex, "", &back, &leaves))
		return -1;
	result = weir_leaf_aqm_check(&leaves);
	end(&leaves, back);
	return result;
}

void leaves_advise(const struct request *r, int ifindex)
{
	const struct weir_signal_row *row = weir_signal_of(request_signal(r));
	struct weir_leaves leaves;
	int back;

	if (r->leaf_aqm != LEAF_AQM_STAYS || (row && row->queue_elsewhere) || !isatty(STDERR_FILENO) ||
	    begin(r, ifindex, "", &back, &leaves))
		return;
	weir_leaf_aqm_advise(&leaves);
	end(&leaves, back);
}
