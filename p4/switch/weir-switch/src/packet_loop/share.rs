// SPDX-License-Identifier: Apache-2.0
//! Share of the packet thread's time for jobs while frames wait. Pure.

/// Of the time that passes while frames wait, jobs get one part in so many.
const PARTS: u64 = 20;
/// Most time that is saved up for jobs; also their time in an iteration without frames.
const SAVED_MOST_NS: i64 = 100_000;

/// The time that jobs have. A job may take more than there is: the next then waits for longer.
#[derive(Debug, Default)]
pub struct JobTime {
    left_ns: i64,
    turn_ns: u64,
}

impl JobTime {
    /// An iteration begins.
    pub fn turn(&mut self, now_ns: u64) {
        let passed_ns = i64::try_from(now_ns.saturating_sub(self.turn_ns) / PARTS).unwrap_or(i64::MAX);
        self.turn_ns = now_ns;
        self.left_ns = self.left_ns.saturating_add(passed_ns).min(SAVED_MOST_NS);
    }

    /// No frame waits: nobody has to be considered.
    pub fn no_frames(&mut self) {
        self.left_ns = SAVED_MOST_NS;
    }

    /// Whether a job may begin.
    pub fn is_left(&self) -> bool {
        self.left_ns > 0
    }

    /// A job took so long.
    pub fn took(&mut self, ns: u64) {
        self.left_ns = self.left_ns.saturating_sub_unsigned(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of frames that take 50 us, and as many jobs of `job_ns` as may begin: the time of both, after a second.
    fn a_second(job_ns: u64, frames: bool) -> (u64, u64) {
        let (mut time, mut now_ns, mut of_frames_ns, mut of_jobs_ns) = (JobTime::default(), 0, 0, 0);
        while now_ns < 1_000_000_000 {
            time.turn(now_ns);
            if frames {
                now_ns += 50_000;
                of_frames_ns += 50_000;
            } else {
                time.no_frames();
            }
            while time.is_left() {
                now_ns += job_ns;
                of_jobs_ns += job_ns;
                time.took(job_ns);
            }
        }
        (of_frames_ns, of_jobs_ns)
    }

    #[test]
    fn jobs_get_their_part_and_no_more_whatever_one_takes() {
        for job_ns in [200, 3_000, 70_000, 5_000_000] {
            let (of_frames_ns, of_jobs_ns) = a_second(job_ns, true);
            let part = of_jobs_ns * PARTS;
            let all = of_frames_ns + of_jobs_ns;
            assert!(part > all * 9 / 10 && part < all * 12 / 10, "jobs of {job_ns} ns: {of_jobs_ns} of {all} ns");
        }
    }

    #[test]
    fn jobs_get_all_when_there_are_no_frames() {
        assert_eq!(a_second(3_000, false).0, 0);
        assert!(a_second(3_000, false).1 >= 1_000_000_000);
    }

    #[test]
    fn a_long_rest_saves_up_no_more_than_a_turn_without_frames() {
        let mut time = JobTime::default();
        time.turn(u64::MAX);
        time.took(SAVED_MOST_NS as u64 - 1);
        assert!(time.is_left());
        time.took(1);
        assert!(!time.is_left());
    }
}
