# Parity and bench of target inf2 on a rented machine, on a host that has no NeuronCore.


# Before the rules that would run them here.
ruleorder: rented > parity_inf2
ruleorder: rented > bench_inf2


rule rented:
    input:
        fetch=plan.receipt("fetch"),
        assemble=plan.receipt("{variant}/assemble"),
        oracle=plan.of_size("oracle"),
        prompts=plan.of_size("prompts"),
    output:
        receipt=plan.receipt("{variant}/rented"),
        parity=plan.receipt("{variant}/parity"),
        bench=plan.receipt("{variant}/bench"),
    log:
        f"{plan.logs}/{{variant}}/rented.log",
    wildcard_constraints:
        checkpoint=renting.pairs(),
    threads: 1
    resources:
        mem_mb=2048,
        runtime=1440,
    params:
        recipe=renting.recipe,
        code=renting.code,
        cloud=renting.section,
        store=plan.store,
    message:
        "rented {wildcards.checkpoint} {wildcards.variant}"
    shell:
        "python -m validate.inf2 run --recipe {params.recipe:q} --cloud {params.cloud:q}"
        " --input fetch={input.fetch} --input assemble={input.assemble}"
        " --input oracle={input.oracle} --input prompts={input.prompts} {params.store:q}"
        " --parity {output.parity} --bench {output.bench} --out {output.receipt} 2>&1 | tee {log}"
