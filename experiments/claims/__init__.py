"""What the papers claim, and what the runs say of it."""

from experiments.claims.many import asymmetric_claims, ranking_claims
from experiments.claims.parts import Claim, Evidence
from experiments.claims.quasibinary import quasibinary_claims
from experiments.claims.single import average_k_claims, uniform_claims
from experiments.harness.jobs import Ledger


def all_claims(ledger: Ledger) -> list[Claim]:
    """Every claim, paper by paper."""
    evidence = Evidence(ledger)
    families = (quasibinary_claims, asymmetric_claims, ranking_claims, average_k_claims, uniform_claims)
    return [claim for family in families for claim in family(evidence)]
