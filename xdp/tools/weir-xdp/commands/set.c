/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "signal/bands.h"
#include "error.h"
#include "gains/floor.h"
#include "gains/gains.h"
#include "hooks/hooks.h"
#include "net/net.h"
#include "net/tree.h"
#include "pins/attachment.h"
#include "pins/lock.h"
#include "pins/slots.h"
#include "pins/place.h"
#include "signal/virtual.h"
#include "undo.h"
#include "weir-xdp/laws.h"
#include "weir-xdp/values.h"
#include "weir-xdp/view/json.h"
#include "weir-xdp/view/view.h"

/* Rate of the shaper that the queue is behind; 0: none is known, as where one of many classes is shaped. */
static double shaped_bit_s(const struct request *r, const struct weir_meta *about)
{
	struct weir_place place = weir_place_of(about);
	struct weir_tree tree = {0};
	char name[IF_NAMESIZE], why[512];
	int back, found, netlink;

	if (about->shape.handle || about->slots > 1)
		return (double)about->shape.rate_bit_s;
	weir_error_into(why, sizeof(why));
	found = weir_reach(&place, *r->netns ? r->netns : about->netns, &back, name);
	weir_error_into(NULL, 0);
	if (found)
		return 0;
	netlink = weir_netlink_open();
	if (netlink >= 0) {
		if (weir_tree_read(netlink, (int)about->ifindex, &tree))
			tree.rate_bit_s = 0;
		close(netlink);
	}
	weir_netns_leave(back);
	return (double)tree.rate_bit_s;
}

/* The configuration that is asked for, in place of the one in force. 0, or an exit status. */
static int change(const struct request *r, struct weir_attachment *a, struct weir_config *config)
{
	struct weir_gains gains;
	double rate_bit_s = shaped_bit_s(r, &a->about);

	if (weir_config_read(a, config))
		return 1;
	if (r->expect && r->expect != (long)a->config_id)
		return weir_error("%s: its gains were changed: configuration %u is in force, not %ld", r->dev,
				  a->config_id, r->expect),
		       CHANGED;
	if (weir_signal_takes_rate(config->signal))
		rate_bit_s = (double)config->rate_bit_s;
	weir_gains_asked(&gains, config);
	for (int i = 0; i < r->words; i++)
		if (apply_pair(r, r->word[i], &gains, config, &rate_bit_s))
			return USAGE_ERROR;
	if (weir_gains_check(&gains) || (config->coupled && check_coupled(&gains)))
		return USAGE_ERROR;
	weir_gains_apply(&gains, rate_bit_s, config);
	if (weir_signal_takes_rate(config->signal)) {
		weir_virtual_set_rate(config, rate_bit_s);
		config->advice.line_bit_s = (__u64)rate_bit_s;
	}
	return 0;
}

/* Gains of a law that no packet meets any more. A dead poll process is none: `ensure` starts another. 0 or an exit
 * status. */
static int check_on(const struct request *r, const struct weir_attachment *a)
{
	const char *netns = *r->netns ? r->netns : a->about.netns, *why;
	const struct weir_hook_row *row = weir_hook_of(&a->about);

	why = weir_off_reason(a->path, &a->about, netns);
	if (!why && row && row->by_link && !weir_hook_is_on(&a->about, a->path, "")) /* in any namespace */
		why = "its interface is gone";
	return why ? (weir_error("%s: %s; `weir-xdp ensure` attaches again, `weir-xdp detach` cleans up", r->dev, why),
		      1)
		   : 0;
}

static int print_gains(const struct request *r, struct weir_attachment *a)
{
	char dev[REQUEST_NAME_LEN];
	struct weir_config config;

	if (weir_config_read(a, &config))
		return 1;
	request_name(r->dev, r->classes ? r->class[0] : 0, dev);
	json_member(stdout, "{", "dev", "", dev);
	printf(",\"config_id\":%u,", a->config_id);
	json_gains(stdout, "", &config.law);
	if (config.coupled)
		json_coupling(stdout, "", &config);
	if (weir_has_bands(&config))
		json_flow_bands(stdout, "", &config);
	printf("}\n");
	return 0;
}

struct setting {
	const struct request *r;
	struct run run;
	unsigned int found;
};

static int set_one(struct weir_attachment *a, const struct weir_class *class, void *context)
{
	struct setting *setting = context;
	struct weir_config config;
	int result;

	if (!wants_class(setting->r, class->handle))
		return 0;
	setting->found++;
	result = change(setting->r, a, &config);
	return result ? result : run_add(&setting->run, a, &config);
}

/* The laws that are asked for. The poll process reads what has changed as soon as it is told to. */
static int set_laws(const struct request *r, struct weir_attachment *a)
{
	struct setting setting = {.r = r};
	struct weir_class class;
	int result = 0;

	if (!r->classes && a->about.slots > 1)
		return weir_error("%s has laws of classes: say which one, %s/1:10, or all of htb 1: by --class 1:",
				  r->dev, r->dev);
	for (unsigned int i = 0; !result && i < r->classes; i++) /* before anything is changed */
		if (r->class[i] & 0xffff)
			result = weir_class_find(a, r->class[i], &class);
	if (result)
		return result;
	result = run_end(&setting.run, a, weir_law_each(a, set_one, &setting));
	if (!result && !setting.found)
		result = weir_error("%s: none of these classes has a law", r->dev);
	if (weir_slots_changed(a))
		result = -1;
	if (result || !r->json)
		return result;
	return (r->classes && weir_class_find(a, r->class[0], &class)) || print_gains(r, a);
}

int command_set(const struct request *r)
{
	struct weir_attachment a;
	char path[PATH_MAX];
	int result = 1, folder;

	if (!r->words)
		return weir_error("set %s: nothing to set; give KEY=VALUE, see --help", r->dev), USAGE_ERROR;
	if ((r->expect || r->json) && (r->classes > 1 || (r->classes && !(r->class[0] & 0xffff))))
		return weir_error("set: --%s goes with one class", r->json ? "json" : "expect"), USAGE_ERROR;
	if (find_asked(r, path) || weir_lock_await(path, r->dev) || weir_attachment_open(&a, path, r->dev))
		return 1;
	folder = weir_folder_lock(path);
	if (folder >= 0 && access(path, F_OK)) {
		weir_error("%s was detached just now", r->dev);
		close(folder);
	} else if (folder >= 0) {
		result = check_on(r, &a);
		if (!result)
			result = set_laws(r, &a);
		close(folder);
	}
	weir_attachment_close(&a);
	return result < 0 ? 1 : result;
}
