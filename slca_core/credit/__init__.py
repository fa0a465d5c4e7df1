"""Credit where it is due: which segment of a rollout answers for which reward, and with what advantage (App. A.1, Eq. 3)."""
