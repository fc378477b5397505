/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <limits.h>
#include <stdio.h>

#include "pins/place.h"
#include "weir-xdp/view/report.h"
#include "weir-xdp/view/view.h"

/* While all are listed. */
struct listing {
	const struct request *r;
	unsigned int seen, printed;
	int result;
};

static int status_one(const char *path, void *context)
{
	struct listing *list = context;
	struct weir_meta about;

	if (weir_meta_read(path, &about) && is_elsewhere(list->r, &about)) {
		if (*list->r->netns)
			return 0;
		list->seen++;
		if (!list->r->json)
			printf("%s in another network namespace (inode %llu): ask there, or with --netns PATH; pinned "
			       "in "
			       "%s\n",
			       about.dev, about.netns_inum, path);
		return 0;
	}
	list->seen++;
	if (print_status(list->r, NULL, path, &list->printed))
		list->result = 1;
	return 0;
}

int command_status(const struct request *r)
{
	struct listing list = {.r = r};
	char path[PATH_MAX];

	if (r->dev)
		return weir_place_find(r->pins, r->dev, r->netns, path) || print_status(r, r->dev, path, &list.printed)
			       ? 1
			       : 0;
	if (r->json)
		printf("[");
	if (weir_place_each(r->pins, status_one, &list))
		list.result = 1;
	else if (!r->json && !list.seen)
		printf("nothing is attached\n");
	if (r->json)
		printf("]\n");
	return list.result;
}
