// SPDX-License-Identifier: Apache-2.0
// Declarations that every architecture offers (P4_16, appendix on the core library). The guard's name is known to
// programs.
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,
    NoMatch,
    StackOutOfBounds,
    HeaderTooShort,
    ParserTimeout,
    ParserInvalidArgument
}

// Bytes on their way in.
extern packet_in {
    // Next header of a fixed size.
    void extract<T>(out T hdr);
    // Next header with one varbit field of the size given, in bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // The next header, without moving on.
    T lookahead<T>();
    // Moves on by a number of bits.
    void advance(in bit<32> sizeInBits);
    // Size of the whole packet in bytes.
    bit<32> length();
}

// Bytes on their way out.
extern packet_out {
    // Appends a header if it is valid, and in turn the members of stacks, unions and structs.
    void emit<T>(in T hdr);
}

// Ends parsing with the error when the condition is false.
extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {}

match_kind {
    exact,
    ternary,
    lpm
}

// Checked while compiling.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
