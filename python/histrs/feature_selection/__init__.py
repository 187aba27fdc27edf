"""Which columns matter: selection by the posterior probability of relevance."""

from histrs.feature_selection._relevant import SelectRelevant

__all__ = ["SelectRelevant"]
