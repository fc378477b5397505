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

/* The key and the value of a line of flat TOML; both empty for a blank one. False if it is no such line. */
static bool split(char *line, char **key, char **value)
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

int weir_gains_read(struct weir_gains *gains, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[512], source[512], *key, *value;
	bool seen[WEIR_GAINS_MAX] = {false};
	int number = 0, result = 0;

	if (!file)
		return weir_error("%s: %s", path, strerror(errno));
	while (!result && fgets(line, sizeof(line), file)) {
		int k;

		snprintf(source, sizeof(source), "%s:%d", path, ++number);
		if ((!strchr(line, '\n') && !feof(file)) || !split(line, &key, &value)) {
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
		result = weir_error("%s: %s", path, strerror(errno));
	fclose(file);
	return result;
}
