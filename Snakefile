# The whole line, from a checkpoint to a release. This file loads the configuration, includes the rules and names the
# targets. It has no `configfile:` on purpose: snakemake merges configuration files, and the variants of a default
# would join every matrix.
import atexit
import gc
import sys

from snakemake.utils import min_version

from ledger.errors import FoundryError
from publish.workflow import Publishing
from recipes import locks
from recipes.queues import Queues
from recipes.workflow import read_plan
from validate.workflow import Renting

min_version("9.0")

# The jobs of a large matrix are a million objects that live to the end: looking for garbage among them, again and again
# and once more at exit, takes a fifth of the planning.
gc.set_threshold(100_000, 50, 100)
atexit.register(gc.freeze)

try:
    plan = read_plan(workflow.configfiles, workflow.config_settings.config)
    queues = Queues(plan, workflow.storage_settings, workflow.configfiles)
except FoundryError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
publishing = Publishing(plan)
renting = Renting(plan)

shell.prefix(plan.prefix)


onstart:
    locks.mark()


# Satisfies `snakemake --lint` and does nothing without --sdm.
container: "docker://python:3.11-slim"


wildcard_constraints:
    checkpoint=plan.one_of("checkpoint"),
    variant=plan.one_of("variant"),
    kv_max=r"\d+",
    kv_bucket=r"\d+",
    target="cpu|inf2",
    dtype="float32|bfloat16",
    tp=r"\d+",


# What needs a folder, a key or a credential of the machine that was asked stays there.
localrules:
    all,
    built,
    measured,
    fetch_here,
    rented,
    summary,
    report,
    package,
    image,
    sign,
    stage,
    verify,
    promote,
    staged,
    promoted,


include: "recipes/recipes.smk"
include: "validate/validate.smk"
include: "validate/inf2.smk"
include: "validate/report.smk"
include: "publish/publish.smk"


rule all:
    default_target: True
    input:
        local(f"{plan.results}/summary.json"),
        local(f"{plan.results}/report.html"),
        local(plan.all_receipts("package")),
        local(plan.releases()),
        # Of what lower made no release has a copy: only as a target is it made again when it is lost.
        plan.all_receipts("lower"),


# Everything but a release: what a run with stand-ins for the Neuron SDK can reach.
rule measured:
    input:
        local(f"{plan.results}/summary.json"),
        plan.all_receipts("lower"),


rule built:
    input:
        plan.all_receipts("assemble"),
        plan.all_receipts("lower"),


# On staging, pulled back and found good: what promotion would make public.
rule staged:
    input:
        publishing.target("verify"),


rule promoted:
    input:
        publishing.target("promote"),
