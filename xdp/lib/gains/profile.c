/* SPDX-License-Identifier: Apache-2.0 */
/* A profile: a TOML document of keys and values, by its file or by its name. */
#include "gains/gains.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gains/toml.h"

/* Profiles that come with the program, made of controller/profiles/ by the Makefile: a row {name, text} each. */
static const struct {
	const char *name, *text;
} built_in[] = {
#include "profiles.inc"
};

int weir_gains_parse(struct weir_gains *gains, const char *profile, char *text, size_t size)
{
	bool seen[WEIR_GAINS_MAX] = {false}, gone[WEIR_GAINS_MAX] = {false};
	char source[512];
	struct weir_toml t;
	enum weir_toml_found found;

	weir_toml_begin(&t, text, size);
	while ((found = weir_toml_next(&t)) == WEIR_TOML_PAIR) {
		int k = weir_gains_index(t.key), removed = weir_gains_removed_index(t.key);
		bool *once = k >= 0 ? &seen[k] : removed >= 0 ? &gone[removed] : NULL;

		snprintf(source, sizeof(source), "%s:%d", profile, t.line);
		if (once && *once)
			return weir_error("%s: %s: given twice", source, t.key);
		if (weir_gains_put_toml(gains, source, &t))
			return -1;
		if (once)
			*once = true;
	}
	return found == WEIR_TOML_END ? 0 : weir_error("%s:%d: %s", profile, t.line, t.wrong);
}

/* A file's bytes and one more. NULL after one line. */
static char *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "re");
	char *text = malloc(WEIR_PROFILE_BYTES_MAX + 2);

	if (!file || !text) {
		weir_error("%s: %s", path, strerror(errno));
	} else {
		*size = fread(text, 1, WEIR_PROFILE_BYTES_MAX + 1, file);
		if (!ferror(file) && *size <= WEIR_PROFILE_BYTES_MAX) {
			fclose(file);
			return text;
		}
		if (ferror(file))
			weir_error("%s: %s", path, strerror(errno));
		else
			weir_error("%s: longer than a profile may be, %d bytes", path, WEIR_PROFILE_BYTES_MAX);
	}
	if (file)
		fclose(file);
	free(text);
	return NULL;
}

int weir_gains_read(struct weir_gains *gains, const char *profile)
{
	char *text = NULL;
	size_t size;
	int result;

	for (size_t i = 0; i < sizeof(built_in) / sizeof(*built_in); i++)
		if (!strcmp(built_in[i].name, profile)) {
			text = strdup(built_in[i].text);
			size = strlen(built_in[i].text);
			if (!text)
				return weir_error("out of memory");
		}
	if (!text)
		text = read_file(profile, &size);
	if (!text)
		return -1;
	result = weir_gains_parse(gains, profile, text, size);
	free(text);
	return result;
}
