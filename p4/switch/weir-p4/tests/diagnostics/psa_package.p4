// SPDX-License-Identifier: Apache-2.0
// The shape of psa.p4: packages whose arguments are extern instances.
#include <core.p4>

extern PacketReplicationEngine { PacketReplicationEngine(); }
control Ingress<H>(inout H h);
package PSA_Switch<H>(Ingress<H> ingress, PacketReplicationEngine pre);

header h_t { bit<8> a; }
control I(inout h_t h) { apply { h.a = 1; } }
PSA_Switch(I(), PacketReplicationEngine()) main;
