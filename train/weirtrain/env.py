# SPDX-License-Identifier: Apache-2.0
"""A connection in the lab as a Gymnasium environment: the first connection of the first sender asks for its actions.

    env = CongestionEnv(profile="pbq", weights=Path("pbq.weights"))
    state, info = env.reset(seed=1)
    state, reward, terminated, truncated, info = env.step([0.1])

The others of the scenario run the policy of `weights`: self-play. Its file also says what a state is made of."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from weirlab.lab.kernels import LabError
from weirlab.run.runner import RunError, run_driver
from weirtrain import shared_reward
from weirtrain import weights as files
from weirtrain.episodes import Episode, plan
from weirtrain.profiles import PROFILES
from weirtrain.rollout import prepare
from weirtrain.settings import Reward, SharedReward

POLL_S = 0.0005
END = "end"


class CongestionEnv(gymnasium.Env):
    """Observation: a state as the policy of `weights` would get it, within +-clip. Action: a of Eq. 4 before the bound,
    [1], from -1 to 1. An episode is never done, only cut (`truncated`) when its run ends.

    `reset(seed=S, options={"episode": N})` boots episode N of the training of seed S; without an N they follow each
    other. `info` has the interval's figures under the names of trajectories. The lab runs in a thread of this process;
    virtual time stands still while it waits for an action."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as in Gymnasium

    def __init__(
        self, profile: str, weights: Path, reward: Reward | SharedReward | None = None, episode_s: float | None = None
    ) -> None:
        """`episode_s` is how long episodes are, in virtual seconds, or None for what ranges.toml says. Raises
        WeightsError, OSError."""
        self.profile, self.weights = profile, weights.read_bytes()
        self.reward, self.episode_s = reward or PROFILES[profile].reward, episode_s
        try:
            document, _ = files.read(self.weights)
        except files.WeightsError as error:
            raise files.WeightsError(f"{weights}: {error}") from None
        width, clip = len(document["inputs"]) * document["history"], document["normalisation"]["clip"]
        self.observation_space = gymnasium.spaces.Box(-clip, clip, (width,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.seed_of_training, self.next_episode = 0, 0
        self.folder: Path | None = None
        self.lab: threading.Thread | None = None
        self.error: Exception | None = None
        self.pending = 0
        self.episode: Episode | None = None
        self.last = np.zeros(width, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Raises LabError or RunError where the lab fails before the first decision."""
        super().reset(seed=seed)
        self.close()
        if seed is not None:
            self.seed_of_training, self.next_episode = seed, 0
        number = (options or {}).get("episode", self.next_episode)
        self.next_episode = number + 1
        self.episode = plan(self.profile, self.seed_of_training, number, self.episode_s)
        self.folder = Path(tempfile.mkdtemp(prefix="weir-env-"))
        run = prepare(self.folder, self.episode, self.profile, self.weights, {"cc_agent": True})
        self.error = None

        def work() -> None:
            try:
                run_driver(folder, run)
            except (RunError, LabError) as error:
                self.error = error

        folder = self.folder
        self.lab = threading.Thread(target=work, daemon=True)
        self.lab.start()
        self.pending = 0
        seen = self._next_state()
        if seen is None:
            self.close()
            raise RunError("the run ended before its agent's first decision")
        return self._observed(seen), seen

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Answers the decision that is pending and waits for the next. Raises LabError or RunError."""
        if self.folder is None:
            raise RunError("no run is under way; call reset first")
        self._answer(repr(float(np.clip(np.asarray(action).reshape(-1)[0], -1, 1))))
        seen = self._next_state()
        if seen is None:  # the run is over; its last interval is not known, and nothing is earned in it
            self.close()
            return self.last, 0.0, False, True, {}
        return self._observed(seen), self._reward(seen), False, False, seen

    def close(self) -> None:
        """Ends a run that is under way: its connection goes on with BBR to the run's end, which is waited for."""
        if self.folder is None:
            return
        if self.lab is not None and self.lab.is_alive():
            self._answer(END)
            self.lab.join()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = self.lab = None

    def _agent(self) -> Path:
        assert self.folder is not None  # a run is under way
        return self.folder / "agent"

    def _answer(self, text: str) -> None:
        """Puts the answer to the pending decision there as a whole, by renaming."""
        agent = self._agent()
        if agent.is_dir():
            (agent / "answer").write_text(text)
            (agent / "answer").rename(agent / f"action-{self.pending}")
            self.pending += 1

    def _next_state(self) -> dict[str, Any] | None:
        """The next decision asked for; None at the run's end."""
        assert self.lab is not None  # a run is under way
        path = self._agent() / f"state-{self.pending}"
        while True:
            alive = self.lab.is_alive()  # asked first: what a lab left before its end is seen
            if path.exists():
                seen = json.loads(path.read_bytes())
                path.unlink()
                return seen
            if not alive:
                if self.error is not None:
                    error, self.error = self.error, None
                    self.close()
                    raise error
                return None
            time.sleep(POLL_S)

    def _observed(self, seen: dict[str, Any]) -> np.ndarray:
        self.last = np.array(seen["state"], np.float32)
        return self.last

    def _reward(self, seen: dict[str, Any]) -> float:
        """Eq. 3 of the interval that ended; or the shared reward, as if all flows had what this one has."""
        assert self.episode is not None  # a run is under way
        rate = seen["acked_bytes"] / (seen["interval_us"] * 1e-6) / self.episode.share_bytes_s
        lost = seen["lost_bytes"] / max(seen["lost_bytes"] + seen["acked_bytes"], 1)
        if isinstance(self.reward, SharedReward):
            rtt_s = (seen["rtt_mean_us"] or seen["rtt_least_us"]) * 1e-6
            return shared_reward.of_one(rate, rtt_s, lost, self.episode, self.reward)
        last = seen["rtt_last_us"]
        late = last is not None and last > self.reward.gamma * seen["rtt_least_us"]
        return float(self.reward.alpha * rate - self.reward.beta * lost - self.reward.eta * late)
