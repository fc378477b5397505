/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "pins/place.h"
#include "printable.h"
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
			weir_print(
				stdout,
				"%s in another network namespace (inode %llu): ask there, or with --netns PATH; pinned "
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

/* The law of the other direction, where DEV alone was given and the one at egress was printed. */
static void print_beside(const struct request *r)
{
	char dev[IF_NAMESIZE + sizeof(WEIR_INGRESS_SUFFIX)], path[PATH_MAX], beside[PATH_MAX], why[512];
	struct weir_meta about;
	unsigned int printed = 0;
	int missing;

	snprintf(dev, sizeof(dev), "%s", r->dev);
	if (r->json || weir_direction_split(dev))
		return;
	snprintf(dev, sizeof(dev), "%.*s" WEIR_INGRESS_SUFFIX, IF_NAMESIZE, r->dev);
	weir_error_into(why, sizeof(why)); /* it may have been detached since it was printed */
	missing = weir_place_find(r->pins, r->dev, r->netns, path) || weir_place_find(r->pins, dev, r->netns, beside);
	weir_error_into(NULL, 0);
	if (!missing && strcmp(path, beside) && weir_meta_read(beside, &about) && about.both)
		print_status(r, dev, beside, &printed);
	else if (!missing && strcmp(path, beside))
		weir_print(stdout, "  received packets have a law of their own: weir-xdp status %s\n", dev);
}

int command_status(const struct request *r)
{
	struct listing list = {.r = r};
	char path[PATH_MAX];

	if (r->dev) {
		if (find_asked(r, path) || print_status(r, r->dev, path, &list.printed))
			return 1;
		print_beside(r);
		return 0;
	}
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
