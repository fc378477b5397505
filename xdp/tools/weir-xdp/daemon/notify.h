/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications to systemd (sd_notify(3)): a datagram to the socket that NOTIFY_SOCKET names; nothing where there is
 * none.
 */
#ifndef WEIR_XDP_NOTIFY_H
#define WEIR_XDP_NOTIFY_H

void daemon_notify(const char *state);

/* Half of the time in which it wants to hear from us, in ms; 0: it does not. */
long daemon_watchdog_ms(void);

#endif /* WEIR_XDP_NOTIFY_H */
