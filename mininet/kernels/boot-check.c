// SPDX-License-Identifier: Apache-2.0
// Process 1 of the first boot of a lab kernel: powers the machine off if two processes keep their vector registers
// across switches from one to the other. Otherwise it ends, and with it the kernel, by a panic.
#include <stdint.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200

static int registers_kept(double mine)
{
	for (int round = 0; round < ROUNDS; round++) {
		double back = mine + round;
		long answer = SYS_sched_yield;

		// The other process runs during this call, with another value in the same register.
		__asm__ volatile("movsd %1, %%xmm15\n\tsyscall\n\tmovsd %%xmm15, %1"
				 : "+a"(answer), "+m"(back)
				 :
				 : "rcx", "r11", "xmm15", "memory");
		if (back != mine + round)
			return 0;
	}
	return 1;
}

int main(void)
{
	int status = 0;
	pid_t child = fork();

	if (child < 0)
		return 1;
	if (child == 0)
		_exit(registers_kept(0.5) ? 0 : 1);
	if (!registers_kept(1000.25) || waitpid(child, &status, 0) != child || status != 0)
		return 1;
	reboot(RB_POWER_OFF);
	return 1;
}
