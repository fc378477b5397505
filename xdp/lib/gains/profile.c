/* SPDX-License-Identifier: Apache-2.0 */
/* A profile's file: flat TOML, one `key = value` a line, and comments. */
#include "gains/gains.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "error.h"

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (isspace((unsigned char)*text))
		text++;
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = 0;
	return text;
}

bool weir_toml_split(char *line, char **key, char **value)
{
	bool quoted = false;
	char *equals;

	for (char *c = line; *c; c++) {
		if (*c == '"')
			quoted = !quoted;
		if (*c == '#' && !quoted) {
			*c = 0;
			break;
		}
	}
	*key = *value = line = trim(line);
	if (quoted)
		return false;
	if (!*line)
		return true;
	equals = strchr(line, '=');
	if (!equals)
		return false;
	*equals = 0;
	*key = trim(line);
	*value = trim(equals + 1);
	if (**value == '"') { /* a string: without its quotes, if they are where they belong */
		size_t len = strlen(*value);

		if (len < 2 || strchr(*value + 1, '"') != *value + len - 1)
			return false;
		(*value)[len - 1] = 0;
		(*value)++;
		return **key != 0;
	}
	return **key && **value && !strchr(*value, '"');
}

/* Profiles that come with the program, made of controller/profiles/ by the Makefile: a row {name, text} each. */
static const struct {
	const char *name, *text;
} built_in[] = {
#include "profiles.inc"
};

static FILE *open_profile(const char *profile)
{
	for (size_t i = 0; i < sizeof(built_in) / sizeof(*built_in); i++)
		if (!strcmp(built_in[i].name, profile)) /* only read, whatever the type of the parameter */
			return fmemopen((void *)(unsigned long)built_in[i].text, strlen(built_in[i].text), "r");
	return fopen(profile, "re");
}

int weir_gains_read(struct weir_gains *gains, const char *profile)
{
	FILE *file = open_profile(profile);
	char line[512], source[512], *key, *value;
	bool seen[WEIR_GAINS_MAX] = {false};
	int number = 0, result = 0;

	if (!file)
		return weir_error("%s: %s", profile, strerror(errno));
	while (!result && fgets(line, sizeof(line), file)) {
		int k;

		snprintf(source, sizeof(source), "%s:%d", profile, ++number);
		if ((!strchr(line, '\n') && !feof(file)) || !weir_toml_split(line, &key, &value)) {
			result = weir_error("%s: must be a line `key = value`", source);
			break;
		}
		if (!*key)
			continue;
		k = weir_gains_index(key);
		if (k >= 0 && seen[k])
			result = weir_error("%s: %s: given twice", source, key);
		else
			result = weir_gains_put(gains, source, key, value);
		if (k >= 0)
			seen[k] = true;
	}
	if (!result && ferror(file))
		result = weir_error("%s: %s", profile, strerror(errno));
	fclose(file);
	return result;
}
