"""The embedded default policy: small fitted heads over frozen sentence vectors."""

from agent.policies.local.policy import LocalPolicy

__all__ = ["LocalPolicy"]
