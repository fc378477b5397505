/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a number, a time, a rate, a class, an interface and a key's value, and as the words of others on a
 * terminal. */
#include "input.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gains/gains.h"
#include "gains/units.h"
#include "pins/slots.h"
#include "pins/place.h"
#include "printable.h"

static void say_all(double value)
{
	char text[24];

	weir_say_bytes(text, sizeof(text), value);
	weir_say_rate(text, sizeof(text), value);
	weir_say_time(text, sizeof(text), value);
}

static void check_printable(const char *text, size_t room)
{
	char *printed = malloc(room), *again = malloc(room);

	PROMISE(printed && again);
	weir_printable(printed, room, text);
	for (const char *at = printed; *at; at += weir_character(at))
		PROMISE(weir_character(at));
	PROMISE(!strcmp(weir_printable(again, room, printed), printed));
	free(printed);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = input_text(data, size), *rest = text, number[32], said[256], name[32];
	double value = 0;
	__u32 handle = 0, again = 0;

	weir_error_into(said, sizeof(said));
	if (weir_number(text, &value))
		PROMISE(isfinite(value));
	if (weir_time_us(text, &value) || weir_rate(text, &value)) {
		PROMISE(value >= 0);
		say_all(value);
	}
	if (weir_class_parse(&rest, &handle) && !*rest && handle & 0xffff) {
		weir_class_name(name, sizeof(name), handle);
		rest = name;
		PROMISE(weir_class_parse(&rest, &again) && !*rest && again == handle);
	}
	weir_key_number("target_us", "target_us", text, number, sizeof(number));
	weir_key_number("target_us", "target", text, number, sizeof(number));
	check_printable(text, size / 2 + 1);
	check_printable(text, 4 * size + 1);
	if (!weir_name_check("", text))
		PROMISE(size && strlen(text) < 16);
	weir_class_split(text);
	weir_direction_split(text);
	weir_error_into(NULL, 0);
	free(text);
	return 0;
}
