/* SPDX-License-Identifier: Apache-2.0 */
#include "weir-xdp/daemon/config.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gains/ahead.h"
#include "error.h"
#include "gains/coupling.h"
#include "gains/gains.h"
#include "gains/toml.h"
#include "gains/units.h"
#include "pins/attachment.h"
#include "pins/place.h"
#include "weir-xdp/directions.h"
#include "weir-xdp/options.h"
#include "weir-xdp/values.h"

#define CHECK_MS 10000

void daemon_config_free(struct daemon_config *c)
{
	for (size_t i = 0; i < c->count; i++)
		for (int k = 0; k < c->list[i].count; k++)
			free(c->list[i].words[k]);
	free(c->list);
	*c = (struct daemon_config){0};
}

static int add_word(struct wanted *w, const char *first, const char *between, const char *second)
{
	char *word;

	if (w->count > DAEMON_WORDS_MAX)
		return weir_error("[%s]: more than %d words", w->name, DAEMON_WORDS_MAX);
	if (asprintf(&word, "%s%s%s", first, between, second) < 0)
		return weir_error("out of memory");
	w->words[w->count++] = word;
	return 0;
}

/* [eth0] or ["eth0.100"]. False if it is no such line. */
static bool table_name(char *line, char **name)
{
	char *end;

	while (*line == ' ' || *line == '\t')
		line++;
	if (*line != '[')
		return false;
	*name = line[1] == '"' ? line + 2 : line + 1;
	end = strpbrk(*name, "\"]");
	if (!end || (line[1] == '"') != (*end == '"'))
		return false;
	line = *end == '"' ? end + 1 : end;
	*end = line == end ? ']' : 0;
	if (line != end && *line != ']')
		return false;
	*end = 0;
	line += 1 + strspn(line + 1, " \t\r\n");
	return !*line || *line == '#';
}

/* Whether another table may stand beside those that there are. */
static int check_beside(const struct daemon_config *c, const struct wanted *w)
{
	for (size_t i = 0; i < c->count; i++) {
		if (strcmp(c->list[i].dev, w->dev) || c->list[i].direction != w->direction)
			continue;
		if (c->list[i].class == w->class)
			return weir_error("[%s]: given twice", w->name);
		if (!c->list[i].class || !w->class)
			return weir_error("[%s]: beside [%s]: either one law for the interface, or laws of its classes",
					  w->name, c->list[i].name);
	}
	return c->count < DAEMON_TABLES_MAX ? 0 : weir_error("[%s]: more than %d tables", w->name, DAEMON_TABLES_MAX);
}

static int begin_table(struct daemon_config *c, char *name, int line)
{
	struct wanted *list, w = {.line = line, .direction = weir_direction_split(name)};
	char *class = weir_class_split(name), *rest = class;

	if (class && (!weir_class_parse(&rest, &w.class) || *rest))
		return weir_error(
			"[%s/%s]: must be a class as tc has it, eth0/1:10, or eth0/1: for all of htb 1:", name, class);
	if (weir_name_check("", name))
		return -1;
	snprintf(w.dev, sizeof(w.dev), "%s", name);
	request_name(w.dev, w.class, w.name);
	if (w.direction)
		snprintf(w.name, sizeof(w.name), "%s%s", w.dev,
			 w.direction == WEIR_INGRESS ? WEIR_INGRESS_SUFFIX : WEIR_EGRESS_SUFFIX);
	if (check_beside(c, &w))
		return -1;
	list = realloc(c->list, (c->count + 1) * sizeof(*list));
	if (!list)
		return weir_error("out of memory");
	c->list = list;
	list = &c->list[c->count++];
	*list = w;
	return add_word(list, "ensure", "", "") || add_word(list, w.dev, "", "") ||
			       (class && (add_word(list, "--class", "", "") || add_word(list, class, "", "")))
		       ? -1
		       : 0;
}

/* A line about the daemon itself. */
static int set_own(struct daemon_config *c, const char *key, const char *value)
{
	double us;

	if (!strcmp(key, "drift")) {
		c->mend = !strcmp(value, "mend");
		return c->mend || !strcmp(value, "leave")
			       ? 0
			       : weir_error("drift = %s: must be \"mend\" or \"leave\"", value);
	}
	if (!strcmp(key, "check")) {
		if (!weir_time_us(value, &us) || us < 1e5 || us > 86400e6)
			return weir_error("check = %s: must be a time with its unit, 100ms .. 86400s", value);
		c->check_ms = (long)(us / 1e3);
		return 0;
	}
	if (!strcmp(key, "metrics")) {
		snprintf(c->metrics, sizeof(c->metrics), "%s", value);
		return *value == '/' ? 0 : weir_error("metrics = %s: must be an absolute path", value);
	}
	return weir_error("%s: must be drift, check or metrics, or stand below the [NAME] of an interface", key);
}

/* Keys of a table that are options of `ensure`. Its others are about one call, or the daemon's own affair. */
static const struct {
	const char *key, *option;
	bool is_switch;
} keys[] = {
	{"shape", "--shape", false},
	{"ingress", "--ingress", false},
	{"flow_queues", "--flows", true},
	{"overhead", "--overhead", false},
	{"mpu", "--mpu", false},
	{"atm", "--atm", true},
	{"ptm", "--ptm", true},
	{"rate", "--rate", false},
	{"peer", "--peer", false},
	{"signal", "--signal", false},
	{"hook", "--hook", false},
	{"profile", "--profile", false},
	{"gains", "--profile", false},
	{"limit_packets", "--limit-packets", false},
	{"limit_bytes", "--limit-bytes", false},
	{"whole_tree", "--whole-tree", true},
	{"leaf_aqm", "--leaf-aqm", false},
	{"bands", "--bands", true},
	{"hosts", "--hosts", false},
	{"dscp", "--dscp", false},
	{"coupled", "--coupled", true}, /* or the two classes */
	{"flow_records", "--flow-records", true},
	{"advise", "--advise", false},
	{"mark", "--mark", false},
	{"others", "--others", true},
};

/* A line about an interface: an option of `ensure`, or a gain. */
static int set_of(struct wanted *w, const char *key, const char *value)
{
	bool yes = !strcmp(value, "true");

	if (weir_gains_index(key) >= 0 || weir_gains_is_switch(key) || weir_coupling_has(key) || weir_ahead_has(key))
		return add_word(w, key, "=", value);
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (strcmp(key, keys[i].key))
			continue;
		if (!keys[i].is_switch || (!strcmp(key, "coupled") && strchr(value, ':')))
			return add_word(w, keys[i].option, "", "") || add_word(w, value, "", "") ? -1 : 0;
		if (!yes && strcmp(value, "false"))
			return weir_error("%s = %s: must be true or false", key, value);
		if (!yes && (!strcmp(key, "flow_records") || !strcmp(key, "bands")))
			return add_word(w, "--no-", keys[i].option + 2, "");
		return yes ? add_word(w, keys[i].option, "", "") : 0;
	}
	return weir_error(
		"%s: no key of an interface: must be shape, rate, peer, signal, hook, profile, limit_packets, "
		"limit_bytes, ingress, overhead, mpu, atm, ptm, whole_tree, leaf_aqm, bands, hosts, dscp, coupled, "
		"flow_queues, flow_records, advise, "
		"of a class mark or others, or a key of a profile",
		key);
}

static int read_line(struct daemon_config *c, char *line, int number)
{
	struct weir_toml t;
	char *name;

	if (table_name(line, &name))
		return begin_table(c, name, number);
	weir_toml_begin(&t, line, strlen(line));
	switch (weir_toml_next(&t)) {
	case WEIR_TOML_END:
		return 0;
	case WEIR_TOML_PAIR:
		return c->count ? set_of(&c->list[c->count - 1], t.key, t.value) : set_own(c, t.key, t.value);
	default:
		return weir_error("must be a line `key = value`, or `[NAME]` of an interface");
	}
}

/* The classes of an htb that have tables of their own. */
static int except_others(const struct daemon_config *c, const struct wanted *w, struct request *r)
{
	r->except = calloc(c->count, sizeof(*r->except));
	if (!r->except)
		return weir_error("out of memory");
	for (size_t i = 0; i < c->count; i++)
		if (c->list[i].class & 0xffff && !strcmp(c->list[i].dev, w->dev))
			r->except[r->excepts++] = c->list[i].class;
	return 0;
}

int daemon_request(const struct daemon_config *c, const struct wanted *w, const char *pins, struct request *r)
{
	char *words[DAEMON_WORDS_MAX + 3] = {w->words[0]}, *dev = w->words[1];
	int count = w->count - 1;

	*r = (struct request){.peer_netns = "",
			      .netns = "",
			      .pins = pins,
			      .name = "",
			      .kept = true,
			      .expert = true,
			      .direction = w->direction};
	/* An interface's name may look like an option. */
	for (int i = 1; i < count; i++)
		words[i] = w->words[i + 1];
	optind = 0; /* getopt begins anew, and puts the arguments last */
	if (read_options(r, ENSURE, count, words) || (w->class && except_others(c, w, r)))
		return -1;
	r->dev = dev;
	r->words = count - optind;
	/* the words were put in another order in our copy only */
	r->word = calloc((size_t)r->words + 1, sizeof(*r->word));
	if (!r->word)
		return weir_error("out of memory");
	memcpy(r->word, words + optind, (size_t)r->words * sizeof(*r->word));
	return 0;
}

void daemon_request_free(struct request *r)
{
	free(r->word);
	free((char *)r->peer);
	free(r->class);
	free(r->except);
}

/* Packets of one mark are of one class, and so is what is left. Tables before this one: of the same interface. */
static int check_tells(const struct daemon_config *c, size_t table)
{
	const struct wanted *w = &c->list[table];

	for (size_t i = 0; i < table; i++) {
		const struct wanted *other = &c->list[i];

		if (strcmp(other->dev, w->dev))
			continue;
		if (w->others && other->others)
			return weir_error("others: [%s] has it already", other->name);
		if (!w->by_mark || !other->by_mark)
			continue;
		if (w->mark_mask != other->mark_mask)
			return weir_error("mark %#x/%#x: the marks of all classes must have one mask, and [%s] has %#x",
					  w->mark, w->mark_mask, other->name, other->mark_mask);
		if (w->mark == other->mark)
			return weir_error("mark %#x: [%s] has it already", w->mark, other->name);
	}
	return 0;
}

/* By its name or by an alternative one. */
static bool same_interface(const char *a, const char *b)
{
	unsigned int ifindex = if_nametoindex(a);

	return !strcmp(a, b) || (ifindex && ifindex == if_nametoindex(b));
}

/* [eth0] with a rate is about received packets, as ["eth0/ingress"] is: one law for each direction. */
static int check_direction(const struct daemon_config *c, size_t table)
{
	const struct wanted *w = &c->list[table];

	for (size_t i = 0; i < table; i++)
		if (same_interface(c->list[i].dev, w->dev) &&
		    (c->list[i].ingress == w->ingress || c->list[i].both || w->both) &&
		    (!c->list[i].class || !w->class))
			return weir_error("[%s] is about packets in the same direction", c->list[i].name);
	return 0;
}

/* Each table asks for something that `ensure` can be asked for. */
static int check_tables(const struct daemon_config *c, const char *path)
{
	char why[512] = "";

	for (size_t i = 0; i < c->count; i++) {
		struct weir_coupling coupling;
		struct weir_gains gains;
		struct directions d;
		struct request r;
		int result;

		weir_error_into(why, sizeof(why));
		d = (struct directions){0};
		result = daemon_request(c, &c->list[i], WEIR_PINS, &r) || directions_of(&r, &d) ||
			 request_check(d.has_egress ? &d.egress : &d.ingress);
		r.bands = request_has_bands(&r);
		result = result || read_gains(&r, &gains, &coupling);
		c->list[i].both = d.has_egress && d.has_ingress;
		c->list[i].ingress = request_is_ingress(d.has_egress ? &d.egress : &d.ingress);
		c->list[i].by_mark = r.by_mark;
		c->list[i].others = r.others;
		c->list[i].mark = r.mark;
		c->list[i].mark_mask = r.mark_mask;
		if (!result && c->list[i].ingress && !(r.rate_bit_s > 0))
			result = weir_error("packets that arrive wait in no queue here: give rate, slightly less than "
					    "the line carries");
		result = result || check_tells(c, i) || check_direction(c, i);
		directions_free(&d);
		daemon_request_free(&r);
		weir_error_into(NULL, 0);
		if (result)
			return weir_error("%s:%d: [%s]: %s", path, c->list[i].line, c->list[i].name, why);
	}
	return 0;
}

int daemon_config_read(struct daemon_config *c, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[512], why[512] = "";
	int number = 0, result = 0;

	*c = (struct daemon_config){.mend = true, .check_ms = CHECK_MS};
	if (!file)
		return weir_error("%s: %s", path, strerror(errno));
	while (!result && fgets(line, sizeof(line), file)) {
		number++;
		weir_error_into(why, sizeof(why));
		result = !strchr(line, '\n') && !feof(file) ? weir_error("longer than a line may be")
							    : read_line(c, line, number);
		weir_error_into(NULL, 0);
		if (result)
			weir_error("%s:%d: %s", path, number, why);
	}
	if (!result && ferror(file))
		result = weir_error("%s: %s", path, strerror(errno));
	fclose(file);
	if (!result)
		result = check_tables(c, path);
	if (result)
		daemon_config_free(c);
	return result;
}
