/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <stdio.h>
#include <string.h>

#include "printable.h"
#include "weir-xdp/ensure.h"
#include "weir-xdp/view/json.h"

static void print_outcome(const struct request *r, const struct outcome *o)
{
	char dev[REQUEST_NAME_LEN + sizeof(WEIR_INGRESS_SUFFIX)];
	const char *before = "";

	request_name(r->dev, r->classes == 1 ? r->class[0] : 0, dev);
	if (o->ingress)
		strncat(dev, WEIR_INGRESS_SUFFIX, sizeof(dev) - strlen(dev) - 1);
	if (r->json) {
		json_member(stdout, "{", "dev", "", dev);
		json_member(stdout, ",", "did", "", did_names[o->did]);
		printf(",\"what\":[");
		for (int i = 0; i < PARTS; i++)
			if (o->part[i]) {
				fputs(before, stdout);
				json_string(stdout, part_names[i]);
				before = ",";
			}
		printf("]%s}\n", r->look ? ",\"look\":true" : "");
		return;
	}
	weir_print(stdout, "%s: %s%s", dev, r->look && o->did != DID_ADOPT ? "would be " : "", did_names[o->did]);
	before = ": ";
	for (int i = 0; i < PARTS; i++)
		if (o->part[i] && o->did == DID_REPLACE) {
			printf("%s%s", before, part_names[i]);
			before = ", ";
		}
	putchar('\n');
}

int command_ensure(const struct request *r)
{
	struct outcome o;

	if (ensure_run(r, &o))
		return 1;
	print_outcome(r, &o);
	return r->look && o.did != DID_ADOPT ? CHANGED : 0;
}
