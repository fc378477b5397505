/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "error.h"
#include "gains/gains.h"
#include "pins/attachment.h"
#include "pins/place.h"
#include "signal/virtual.h"
#include "weir-xdp/values.h"
#include "weir-xdp/view/json.h"

static int set_locked(const struct request *r, struct weir_attachment *a)
{
	struct weir_config config;
	struct weir_gains gains;
	double rate_bit_s = 0;

	if (weir_config_read(a, &config))
		return 1;
	if (r->expect && r->expect != (long)a->config_id)
		return weir_error("%s: its gains were changed: configuration %u is in force, not %ld", r->dev,
				  a->config_id, r->expect),
		       CHANGED;
	if (config.signal == WEIR_SIGNAL_VIRTUAL)
		rate_bit_s = (double)config.rate_bit_s;
	weir_gains_from_params(&gains, &config.law);
	forget_others(r, &gains);
	for (int i = 0; i < r->words; i++)
		if (apply_pair(r->word[i], &gains, &config, &rate_bit_s))
			return 1;
	if (weir_gains_check(&gains) || (config.coupled && check_coupled(&gains)))
		return 1;
	weir_gains_to_params(&gains, &config.law);
	if (config.signal == WEIR_SIGNAL_VIRTUAL)
		weir_virtual_set_rate(&config, rate_bit_s);
	if (weir_config_replace(a->config, a->path, &config))
		return 1;
	if (r->json) {
		if (weir_config_read(a, &config))
			return 1;
		json_member(stdout, "{", "dev", "", r->dev);
		printf(",\"config_id\":%u,", a->config_id);
		json_gains(stdout, "", &config.law);
		if (config.coupled)
			json_coupling(stdout, "", &config);
		printf("}\n");
	}
	return 0;
}

int command_set(const struct request *r)
{
	struct weir_attachment a;
	char path[PATH_MAX];
	int result = 1, folder;

	if (!r->words)
		return weir_error("set %s: nothing to set; give KEY=VALUE, see --help", r->dev), USAGE_ERROR;
	if (weir_place_find(r->pins, r->dev, r->netns, path) || weir_attachment_open(&a, path, r->dev))
		return 1;
	folder = weir_folder_lock(path);
	if (folder >= 0 && access(path, F_OK)) {
		weir_error("%s was detached just now", r->dev);
		close(folder);
	} else if (folder >= 0) {
		result = set_locked(r, &a);
		close(folder);
	}
	weir_attachment_close(&a);
	return result;
}
