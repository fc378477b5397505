/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The lab's clock. edit-source.sh includes it into the kernel's arch/um/kernel/time.c, just before timer_read().
 *
 * Its unit. User-Mode Linux counts time in steps of 256 ns as it reads it, but not as it sets timers. What is lost by
 * that is handed on from timer to timer, so that the time of each hangs on how many there have been since boot.
 *
 * The cost of reading it. User-Mode Linux lets each reading take 256 ns of virtual time, and each system call that
 * fails 1 us, so that a program which tries again and again until time has passed comes to its end. But the number of
 * times that a program reads the clock as it starts, and of folders that it searches for its files, differs between
 * installations of Debian and with the compiled Python files in a clone, and so would the time of all that follows.
 * Here both are free, up to a number of tries by one task between two moments of virtual time: a task with more of them
 * waits for time to pass, and each further try takes its time until the machine sleeps. Tries are counted by task,
 * since a scenario starts dozens of programs at one moment. A call that would block (EAGAIN) takes its time always.
 */
#include <linux/sched.h>

#undef TIMER_MULTIPLIER
#define TIMER_MULTIPLIER 1
#define FREE_TRIES 20000
#define CLOCK_READ_NS 256
#define FAILED_CALL_NS 1000
#define SLOTS 4096 /* tasks whose numbers differ by a multiple of this share a count */

static void time_travel_try(unsigned long costs_ns)
{
	static struct {
		unsigned int moment;
		unsigned int tries;
	} slots[SLOTS], *slot;
	static unsigned long long standing_at;
	static unsigned int moment; /* count of the moments; time that tries have taken begins no new one */

	if (standing_at != time_travel_time) {
		standing_at = time_travel_time;
		moment++;
	}
	slot = &slots[task_pid_nr(current) % SLOTS];
	if (slot->moment != moment) {
		slot->moment = moment;
		slot->tries = 0;
	}
	if (slot->tries < FREE_TRIES) {
		slot->tries++;
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
