/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a profile. One that is accepted is written and read the same, as gains and as the law's numbers. */
#include "input.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gains/floor.h"
#include "gains/gains.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_gains gains = {0}, again = {0};
	struct weir_params params, params_again;
	struct weir_config config = {0};
	char said[256], *text = NULL;
	size_t length = 0;
	FILE *out;

	weir_error_into(said, sizeof(said));
	if (weir_gains_read(&gains, input_file(data, size)) || weir_gains_check(&gains))
		return 0;
	memset(&params, 0, sizeof(params));
	memset(&params_again, 0, sizeof(params_again));
	weir_gains_to_params(&gains, &params);
	weir_gains_apply(&gains, 1e6, &config);
	weir_gains_asked(&again, &config);
	out = open_memstream(&text, &length);
	PROMISE(out);
	weir_gains_print(&gains, out, false);
	fclose(out);
	again = (struct weir_gains){0};
	PROMISE(!weir_gains_read(&again, input_file(text, length)) && !weir_gains_check(&again));
	weir_gains_to_params(&again, &params_again);
	PROMISE(!memcmp(&params, &params_again, sizeof(params)));
	free(text);
	return 0;
}
