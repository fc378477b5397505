// SPDX-License-Identifier: Apache-2.0
// HalfSipHash-1-3 (Aumasson and Bernstein: one round a word, three at last; 32 bits) of a prefix, a name and a
// segment: who does not know the key can't find what falls into one set.
#ifndef WEIR_ICN_HASH_P4
#define WEIR_ICN_HASH_P4

struct half_sip_t {
    bit<32> v0;
    bit<32> v1;
    bit<32> v2;
    bit<32> v3;
}

control HalfSipRound(inout half_sip_t s) {
    apply {
        s.v0 = s.v0 + s.v1;
        s.v2 = s.v2 + s.v3;
        s.v1 = s.v1[26:0] ++ s.v1[31:27];
        s.v3 = s.v3[23:0] ++ s.v3[31:24];
        s.v1 = s.v1 ^ s.v0;
        s.v3 = s.v3 ^ s.v2;
        s.v0 = s.v0[15:0] ++ s.v0[31:16];
        s.v2 = s.v2 + s.v1;
        s.v0 = s.v0 + s.v3;
        s.v1 = s.v1[18:0] ++ s.v1[31:19];
        s.v3 = s.v3[24:0] ++ s.v3[31:25];
        s.v1 = s.v1 ^ s.v2;
        s.v3 = s.v3 ^ s.v0;
        s.v2 = s.v2[15:0] ++ s.v2[31:16];
    }
}

// The message is 20 bytes: prefix, name, segment, each with its lowest byte first.
//
// is_names: what the caller knows to be true and no compiler can. Each round stands behind it: p4c puts a value in the
// place of a variable that is read once more, and the rounds in a row would grow 17-fold each, for ever (p4c 1.2.5.16).
control HalfSipHash(
    in bool is_names,
    in bit<32> key_low,
    in bit<32> key_high,
    in bit<64> prefix,
    in bit<64> name,
    in bit<32> segment,
    out bit<32> hash_value)
{
    HalfSipRound() round;

    apply {
        half_sip_t s;
        s.v0 = key_low;
        s.v1 = key_high;
        s.v2 = key_low ^ 0x6c796765;
        s.v3 = key_high ^ 0x74656462;

        s.v3 = s.v3 ^ prefix[31:0];
        if (is_names) {
            round.apply(s);
        }
        s.v0 = s.v0 ^ prefix[31:0];
        s.v3 = s.v3 ^ prefix[63:32];
        if (is_names) {
            round.apply(s);
        }
        s.v0 = s.v0 ^ prefix[63:32];
        s.v3 = s.v3 ^ name[31:0];
        if (is_names) {
            round.apply(s);
        }
        s.v0 = s.v0 ^ name[31:0];
        s.v3 = s.v3 ^ name[63:32];
        if (is_names) {
            round.apply(s);
        }
        s.v0 = s.v0 ^ name[63:32];
        s.v3 = s.v3 ^ segment;
        if (is_names) {
            round.apply(s);
        }
        s.v0 = s.v0 ^ segment;
        s.v3 = s.v3 ^ 0x14000000; // 20 bytes
        if (is_names) {
            round.apply(s);
        }
        s.v0 = s.v0 ^ 0x14000000;

        s.v2 = s.v2 ^ 0xff;
        if (is_names) {
            round.apply(s);
        }
        if (is_names) {
            round.apply(s);
        }
        if (is_names) {
            round.apply(s);
        }
        hash_value = s.v1 ^ s.v3;
    }
}

#endif
