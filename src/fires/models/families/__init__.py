"""The likelihoods of linear models: one file each, and one line here."""

from fires.models.families.base import Family
from fires.models.families.gaussian import Gaussian
from fires.models.families.logistic import Logistic
from fires.models.families.poisson import Poisson
from fires.models.families.probit import Probit

__all__ = ["FAMILIES", "Family"]

FAMILIES: dict[str, Family] = {
    family.name: family for family in (Probit(), Logistic(), Gaussian(), Poisson())
}
