/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/commands/commands.h"

#include <stdio.h>

#include "hooks/hooks.h"
#include "signal/signals.h"
#include "weir-xdp/plan.h"
#include "weir-xdp/values.h"
#include "weir-xdp/view/report.h"

int command_attach(const struct request *r)
{
	struct weir_coupling coupling;
	struct weir_gains gains;
	struct plan p;
	int result;

	if (read_gains(r, &gains, &coupling) || plan_begin(&p, r))
		return 1;
	p.gains = gains;
	p.config.coupling = coupling;
	result = plan_attach(&p);
	plan_end(&p);
	if (result)
		return 1;
	warn_of_bypass(r, p.path);
	if (r->json)
		return print_status(r, r->dev, p.path, true) ? 1 : 0;
	printf("attached to %s by %s: signal %s (%s)\n", p.about.dev, weir_hook_name(p.about.hook),
	       weir_signal_name(p.about.signal), p.about.why);
	return 0;
}
