// SPDX-License-Identifier: Apache-2.0
// Throughput advice in SCONE packets (draft-ietf-scone-protocol-08, "Applying Throughput Advice Signals"). The golden
// model is controller/weir/scone.py. The table is looked up for SCONE packets alone.
#ifndef WEIR_SCONE_P4
#define WEIR_SCONE_P4

#include "aqm.p4"
#include "scone_types.p4"

const bit<7> SCONE_UNKNOWN = 127;

// Draft, "Damage to Other Protocols": datagrams of a flow are rewritten a few times in a monitoring period of 67 s.
const bit<48> SCONE_REWRITES_AT_ONCE = 4;
const bit<48> SCONE_REWRITES_EVERY_US = 10000000;
const bit<32> SCONE_FLOWS = 4096;

// flow: number of the packet's counter in `law_flows`.
control SconeAdvice(
    inout scone_t scone,
    in scone_metadata_t meta,
    in bit<32> flow,
    in standard_metadata_t standard_metadata)
{
    // Packets that were rewritten.
    counter(PORTS, CounterType.packets_and_bytes) advised;
    // Time from which the flow may be rewritten at once.
    register<bit<48>>(SCONE_FLOWS) scone_next_us;
    bit<7> target;

    action no_advice() {
        target = SCONE_UNKNOWN;
    }

    action advise(bit<7> signal) {
        target = signal;
    }

    table advice {
        key = {
            standard_metadata.egress_spec: exact @name("egress_port");
        }
        actions = {
            no_advice;
            advise;
        }
        default_action = no_advice();
        size = 512;
    }

    apply {
        target = SCONE_UNKNOWN;
        if (scone.isValid() && meta.fits == 1) {
            advice.apply();
            if (target < scone.signal_high ++ scone.signal_low) {
                bit<32> number = flow & (SCONE_FLOWS - 1);
                bit<48> next_us;
                bit<48> now_us = standard_metadata.ingress_global_timestamp;
                scone_next_us.read(next_us, number);
                if (next_us < now_us) {
                    next_us = now_us;
                }
                if (next_us - now_us < SCONE_REWRITES_AT_ONCE * SCONE_REWRITES_EVERY_US) {
                    scone_next_us.write(number, next_us + SCONE_REWRITES_EVERY_US);
                    advised.count((bit<32>)standard_metadata.egress_spec);
                    bit<16> old_word = scone.long_header ++ scone.reserved ++ scone.signal_high ++ scone.signal_low
                        ++ scone.version[30:24];
                    scone.signal_high = target[6:1];
                    scone.signal_low = target[0:0];
                    if (scone.checksum != 0) { // 0: no checksum (RFC 768)
                        // RFC 1624 Eq. 3
                        bit<32> sum = (bit<32>)~scone.checksum + (bit<32>)~old_word
                            + (bit<32>)(scone.long_header ++ scone.reserved ++ target ++ scone.version[30:24]);
                        sum = (sum & 0xffff) + (sum >> 16);
                        sum = (sum & 0xffff) + (sum >> 16);
                        scone.checksum = ~sum[15:0];
                        if (scone.checksum == 0) {
                            scone.checksum = 0xffff;
                        }
                    }
                }
            }
        }
    }
}

#endif
