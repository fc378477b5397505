/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The lab's clock. build-exact.sh includes it into the kernel's arch/um/kernel/time.c, just before timer_read().
 *
 * Its unit. User-Mode Linux counts time in steps of 256 ns as it reads it, but not as it sets timers. What is lost by
 * that is handed on from timer to timer, so that the time of each hangs on how many there have been since boot.
 *
 * What reading it costs. User-Mode Linux lets each reading take 256 ns of virtual time, and each system call that fails
 * 1 us, so that a program which tries again and again until time has passed comes to its end. But how often a program
 * reads the clock as it starts, and how many folders it looks for its files in, is another number on another
 * installation of Debian, and so would be the time of all that follows. Here both take no time, until there have been
 * so many of them at one and the same time that somebody must be waiting for it to pass: from then on each takes its
 * time, until the machine sleeps. A call that would block (EAGAIN) takes its time always.
 */
#undef TIMER_MULTIPLIER
#define TIMER_MULTIPLIER 1
#define FREE_TRIES 20000
#define CLOCK_READ_NS 256
#define FAILED_CALL_NS 1000

static void time_travel_try(unsigned long costs_ns)
{
	static unsigned long long standing_at;
	static unsigned int tries;

	if (standing_at != time_travel_time) {
		standing_at = time_travel_time;
		tries = 0;
	}
	if (tries < FREE_TRIES) {
		tries++;
		return;
	}
	time_travel_update_time_rel(costs_ns);
	standing_at = time_travel_time;
}

void time_travel_failed_call(long error); /* called from syscall.c */
void time_travel_failed_call(long error)
{
	if (error == -EAGAIN)
		time_travel_ndelay(FAILED_CALL_NS);
	else
		time_travel_try(FAILED_CALL_NS);
}
