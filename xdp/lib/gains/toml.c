/* SPDX-License-Identifier: Apache-2.0 */
#include "gains/toml.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PAST_ANY_RANGE "1e300"
#define EXACT_MOST 9007199254740992.0 /* 2^53 */

static int wrong(struct weir_toml *t, const char *why)
{
	t->wrong = why;
	return -1;
}

/* Bytes of the UTF-8 character at `at`; 0 if it is none. */
static size_t utf8_bytes(const unsigned char *at, size_t left)
{
	size_t bytes = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : *at < 0xf5 ? 4 : 0;

	if (!bytes || bytes > left)
		return 0;
	for (size_t i = 1; i < bytes; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	/* overlong forms, surrogates, beyond U+10FFFF */
	if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) || (*at == 0xf0 && at[1] < 0x90) ||
	    (*at == 0xf4 && at[1] > 0x8f))
		return 0;
	return bytes;
}

void weir_toml_begin(struct weir_toml *t, char *text, size_t size)
{
	char *to = text;

	*t = (struct weir_toml){.at = text, .next_line = 1};
	for (size_t i = 0, bytes; i < size; i += bytes) {
		bytes = utf8_bytes((unsigned char *)text + i, size - i);
		if (!bytes) {
			t->wrong = "not UTF-8";
			bytes = 1;
		}
		if (text[i] == '\r' && i + 1 < size && text[i + 1] == '\n')
			continue; /* \r\n counts as \n */
		memmove(to, text + i, bytes);
		to += bytes;
	}
	t->end = to;
	*to = 0;
}

static bool is_at(const struct weir_toml *t, char c)
{
	return t->at < t->end && *t->at == c;
}

static void skip_space(struct weir_toml *t)
{
	while (is_at(t, ' ') || is_at(t, '\t'))
		t->at++;
}

static bool is_control(char c)
{
	return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

/* The rest of a line: space and a comment. */
static int skip_rest(struct weir_toml *t)
{
	skip_space(t);
	if (is_at(t, '#'))
		while (t->at < t->end && *t->at != '\n')
			if (is_control(*t->at++))
				return wrong(t, "a control character in a comment");
	if (t->at == t->end)
		return 0;
	if (*t->at != '\n')
		return wrong(t, "must be a line `key = value`");
	t->at++;
	t->next_line++;
	return 0;
}

static char *put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*to++ = (char)(0xe0 | c >> 12);
		} else {
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (c & 0x3f));
	return to;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* \uXXXX or \UXXXXXXXX, behind the letter. */
static char *read_code(struct weir_toml *t, char *to, int digits)
{
	uint32_t c = 0;

	for (int i = 0; i < digits; i++, t->at++) {
		int digit = t->at < t->end ? hex_digit(*t->at) : -1;

		if (digit < 0)
			return NULL;
		c = c << 4 | (uint32_t)digit;
	}
	if (!c || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) /* 0 would end the text, and is in no valid value */
		return NULL;
	return put_utf8(to, c);
}

/* A backslash at the end of a line of a multi-line string: the space up to the next word goes. */
static bool skip_fold(struct weir_toml *t)
{
	skip_space(t);
	if (t->at == t->end)
		return true;
	if (*t->at != '\n')
		return false;
	for (; is_at(t, ' ') || is_at(t, '\t') || is_at(t, '\n'); t->at++)
		t->next_line += *t->at == '\n';
	return true;
}

/* Behind the backslash; `to` moves on. */
static char *read_escape(struct weir_toml *t, char *to, bool multi)
{
	static const char from[] = "btnfr\"\\", into[] = "\b\t\n\f\r\"\\";
	const char *found;
	char c = t->at < t->end ? *t->at : 0;

	if (multi && (c == ' ' || c == '\t' || c == '\n'))
		return skip_fold(t) ? to : NULL;
	t->at++;
	if (c == 'u' || c == 'U')
		return read_code(t, to, c == 'u' ? 4 : 8);
	found = c ? strchr(from, c) : NULL;
	if (!found)
		return NULL;
	*to++ = into[found - from];
	return to;
}

/* From its first quote on. text: where it begins, without quotes; stop: behind its last byte. */
static int read_string(struct weir_toml *t, bool may_be_multi, char **text, char **stop)
{
	char quote = *t->at;
	bool multi = may_be_multi && t->end - t->at >= 3 && t->at[1] == quote && t->at[2] == quote;
	char *to;

	t->at += multi ? 3 : 1;
	if (multi && is_at(t, '\n')) {
		t->at++;
		t->next_line++;
	}
	for (*text = to = t->at; t->at < t->end;) {
		char c = *t->at;

		if (c == quote && (!multi || (t->end - t->at >= 3 && t->at[1] == quote && t->at[2] == quote))) {
			t->at += multi ? 3 : 1;
			for (int more = 0; multi && more < 2 && is_at(t, quote); more++, t->at++)
				*to++ = quote; /* up to two quotes of its own at the end */
			*stop = to;
			return 0;
		}
		t->at++;
		if (c == '\n' && multi)
			t->next_line++;
		else if (is_control(c))
			return wrong(t, "a string that does not end on its line, or a control character in it");
		if (c == '\\' && quote == '"') {
			to = read_escape(t, to, multi);
			if (!to)
				return wrong(t, "an escape that is none");
		} else {
			*to++ = c;
		}
	}
	return wrong(t, "a string that does not end");
}

/* Digits of a base with single underscores between them; returns their number of bytes, 0 for none. */
static size_t digits_of(const char *text, int base)
{
	size_t n = 0;

	for (;;) {
		int digit = hex_digit(text[n + (n && text[n] == '_')]);

		if (digit < 0 || digit >= base)
			return n;
		n += 1 + (n && text[n] == '_');
	}
}

/* A word as TOML has integers and floats. */
static enum weir_toml_kind kind_of(const char *word)
{
	enum weir_toml_kind kind = WEIR_TOML_INTEGER;
	const char *at = word;
	size_t n;

	if (*at == '0' && at[1] && strchr("xob", at[1])) {
		n = digits_of(at + 2, at[1] == 'x' ? 16 : at[1] == 'o' ? 8 : 2);
		return n && !at[2 + n] ? kind : WEIR_TOML_BARE;
	}
	at += *at == '+' || *at == '-';
	n = digits_of(at, 10);
	if (!n || (*at == '0' && n > 1))
		return WEIR_TOML_BARE;
	at += n;
	if (*at == '.') {
		n = digits_of(at + 1, 10);
		if (!n)
			return WEIR_TOML_BARE;
		at += 1 + n;
		kind = WEIR_TOML_FLOAT;
	}
	if (*at == 'e' || *at == 'E') {
		at += 1 + (at[1] == '+' || at[1] == '-');
		n = digits_of(at, 10);
		if (!n)
			return WEIR_TOML_BARE;
		at += n;
		kind = WEIR_TOML_FLOAT;
	}
	return *at ? WEIR_TOML_BARE : kind;
}

/* The value is a whole word: its number in decimal, without underscores. */
static void read_number(struct weir_toml *t)
{
	char *to = t->value, *word = t->value;
	double number = 0;
	int base;

	t->kind = kind_of(word);
	if (t->kind == WEIR_TOML_BARE)
		return;
	base = *word == '0' && word[1] == 'x'	? 16
	       : *word == '0' && word[1] == 'o' ? 8
	       : *word == '0' && word[1] == 'b' ? 2
						: 10;
	if (base == 10) {
		for (; *word; word++)
			if (*word != '_')
				*to++ = *word;
		*to = 0;
		return;
	}
	for (word += 2; *word; word++)
		if (*word != '_')
			number = number * base + hex_digit(*word);
	if (number > EXACT_MOST)
		snprintf(t->number, sizeof(t->number), PAST_ANY_RANGE);
	else
		snprintf(t->number, sizeof(t->number), "%.0f", number);
	t->value = t->number;
}

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static int read_pair(struct weir_toml *t)
{
	char *key_stop, *stop;
	bool is_string;

	if (*t->at == '"' || *t->at == '\'') {
		if (read_string(t, false, &t->key, &key_stop))
			return -1;
	} else {
		for (t->key = t->at; t->at < t->end && is_bare(*t->at);)
			t->at++;
		key_stop = t->at;
		if (key_stop == t->key)
			return wrong(t, *t->at == '[' ? "a profile has no tables" : "must be a line `key = value`");
	}
	skip_space(t);
	if (!is_at(t, '='))
		return wrong(t, "must be a line `key = value`");
	t->at++;
	skip_space(t);
	if (t->at == t->end)
		return wrong(t, "must be a line `key = value`");
	is_string = *t->at == '"' || *t->at == '\'';
	if (is_string) {
		if (read_string(t, true, &t->value, &stop))
			return -1;
		t->kind = WEIR_TOML_STRING;
	} else {
		for (t->value = t->at; t->at < t->end && !strchr(" \t\n#\"'", *t->at);)
			t->at++;
		stop = t->at;
		if (stop == t->value)
			return wrong(t, "must be a line `key = value`");
	}
	if (skip_rest(t))
		return -1;
	*key_stop = *stop = 0;
	if (!is_string)
		read_number(t);
	return 0;
}

enum weir_toml_found weir_toml_next(struct weir_toml *t)
{
	t->line = t->next_line;
	if (t->wrong)
		return WEIR_TOML_WRONG;
	for (;;) {
		t->line = t->next_line;
		skip_space(t);
		if (t->at == t->end)
			return WEIR_TOML_END;
		if (*t->at != '\n' && *t->at != '#')
			return read_pair(t) ? WEIR_TOML_WRONG : WEIR_TOML_PAIR;
		if (skip_rest(t))
			return WEIR_TOML_WRONG;
	}
}
