/* SPDX-License-Identifier: Apache-2.0 */
#include "signal/signals.h"

#include <string.h>

#include "error.h"

extern const struct weir_signal_row weir_signal_backlog, weir_signal_poll, weir_signal_veth, weir_signal_virtual,
	weir_signal_qdisc;

static const struct weir_signal_row *const rows[] = {
	&weir_signal_backlog, &weir_signal_poll, &weir_signal_veth, &weir_signal_virtual, &weir_signal_qdisc,
};

#define ROWS (sizeof(rows) / sizeof(*rows))

const struct weir_signal_row *weir_signal_of(__u32 signal)
{
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i]->signal == signal)
			return rows[i];
	return NULL;
}

const char *weir_signal_name(__u32 signal)
{
	const struct weir_signal_row *row = weir_signal_of(signal);

	return row ? row->name : signal == WEIR_SIGNAL_AUTO ? "auto" : "unknown";
}

int weir_signal_parse(const char *text, __u32 *signal)
{
	*signal = WEIR_SIGNAL_AUTO;
	if (!strcmp(text, "auto"))
		return 0;
	for (size_t i = 0; i < ROWS; i++) {
		*signal = rows[i]->signal;
		if (!strcmp(text, rows[i]->name))
			return 0;
	}
	return weir_error("--signal %s: must be auto, backlog, poll, veth, virtual or qdisc", text);
}
