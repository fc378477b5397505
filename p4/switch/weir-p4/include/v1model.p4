// SPDX-License-Identifier: Apache-2.0
// The interface of the v1model architecture as the embedded switch offers it.
#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2

const bit<32> __v1model_version = V1MODEL_VERSION;

// From this version on, indices have a type of their own.
#if V1MODEL_VERSION >= 20200408
#define WEIR_WITH_INDEX(T) <T, I>
#define WEIR_INDEX_ONLY <I>
#define WEIR_INDEX I
typedef bit<9> PortId_t;
#else
#define WEIR_WITH_INDEX(T) <T>
#define WEIR_INDEX_ONLY
#define WEIR_INDEX bit<32>
#endif

match_kind {
    range,
    optional,
    selector
}

enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }
enum CloneType { I2E, E2E }
enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }

@metadata @name("standard_metadata")
struct standard_metadata_t {
    bit<9> ingress_port;
    // Port the packet shall leave by; 511 drops it.
    bit<9> egress_spec;
    bit<9> egress_port;
    // 0 normal, 1 clone from ingress, 2 clone from egress, 4 recirculated, 5 replicated, 6 resubmitted.
    bit<32> instance_type;
    bit<32> packet_length;
    // Microseconds; set when the packet joins and leaves the queue.
    @alias("queueing_metadata.enq_timestamp") bit<32> enq_timestamp;
    @alias("queueing_metadata.enq_qdepth") bit<19> enq_qdepth;
    @alias("queueing_metadata.deq_timedelta") bit<32> deq_timedelta;
    @alias("queueing_metadata.deq_qdepth") bit<19> deq_qdepth;
    @alias("intrinsic_metadata.ingress_global_timestamp") bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp") bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp") bit<16> mcast_grp;
    @alias("intrinsic_metadata.egress_rid") bit<16> egress_rid;
    bit<1> checksum_error;
    error parser_error;
    @alias("intrinsic_metadata.priority") bit<3> priority;
}

// State. Reads past the end leave the result as it was, writes past it do nothing.
extern register WEIR_WITH_INDEX(T) {
    register(bit<32> size);
    register(bit<32> size, T initial_value);
    void read(out T result, in WEIR_INDEX index);
    void write(in WEIR_INDEX index, in T value);
}

extern counter WEIR_INDEX_ONLY {
    counter(bit<32> size, CounterType type);
    void count(in WEIR_INDEX index);
}

extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

extern meter WEIR_INDEX_ONLY {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in WEIR_INDEX index, out T result);
}

extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

extern action_profile {
    action_profile(bit<32> size);
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// Numbers and checksums.
extern void random<T>(out T result, in T lo, in T hi);
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

// The packet's next step.
extern void mark_to_drop(inout standard_metadata_t standard_metadata);
extern void clone(in CloneType type, in bit<32> session);
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit<T>(in T data);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate<T>(in T data);
extern void recirculate_preserving_field_list(bit<8> index);
extern void truncate(in bit<32> length);

// Messages.
extern void digest<T>(in bit<32> receiver, in T data);
extern void assert(in bool check);
extern void assume(in bool check);
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(
    packet_in b, out H parsedHdr, inout M meta, inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(
    Parser<H, M> p,
    VerifyChecksum<H, M> vr,
    Ingress<H, M> ig,
    Egress<H, M> eg,
    ComputeChecksum<H, M> ck,
    Deparser<H> dep);

#endif
