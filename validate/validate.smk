# Artifact folders to verdicts and measurements, and the table that sums them up.


rule prompts:
    input:
        fetch=plan.receipt("fetch"),
    output:
        plan.receipt("prompts/{kv_max}-{kv_bucket}"),
    log:
        f"{plan.logs}/prompts/{{kv_max}}-{{kv_bucket}}.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=10,
    params:
        recipe=plan.recipe("prompts"),
        code=plan.code["prompts"],
        store=plan.store,
    message:
        "prompts {wildcards.checkpoint} {wildcards.kv_max}-{wildcards.kv_bucket}"
    shell:
        "python -m validate.prompts --recipe {params.recipe:q} --input fetch={input.fetch}"
        " {params.store:q} --out {output} 2>&1 | tee {log}"


rule oracle:
    input:
        fetch=plan.receipt("fetch"),
        prompts=plan.receipt("prompts/{kv_max}-{kv_bucket}"),
    output:
        plan.receipt("oracle/{kv_max}-{kv_bucket}"),
    log:
        f"{plan.logs}/oracle/{{kv_max}}-{{kv_bucket}}.log",
    threads: queues.cores("oracle")
    resources:
        mem_mb=queues.mem_mb("oracle"),
        runtime=600,
    params:
        recipe=plan.recipe("oracle"),
        code=plan.code["oracle"],
        store=plan.store,
    message:
        "oracle {wildcards.checkpoint} {wildcards.kv_max}-{wildcards.kv_bucket}"
    shell:
        "python -m validate.oracle --recipe {params.recipe:q}"
        " --input fetch={input.fetch} --input prompts={input.prompts}"
        " --threads {threads} {params.store:q} --out {output} 2>&1 | tee {log}"


rule parity:
    input:
        assemble=plan.receipt("{variant}/assemble"),
        oracle=plan.of_size("oracle"),
        prompts=plan.of_size("prompts"),
    output:
        plan.receipt("{variant}/parity"),
    log:
        f"{plan.logs}/{{variant}}/parity.log",
    wildcard_constraints:
        checkpoint=queues.of_target("cpu"),
    threads: queues.cores("parity")
    resources:
        mem_mb=queues.mem_mb("parity"),
        inf2=queues.inf2,
        gres=queues.gres,
        runtime=600,
    params:
        recipe=plan.recipe("parity"),
        code=plan.code["parity"],
        store=plan.store,
    message:
        "parity {wildcards.checkpoint} {wildcards.variant}"
    shell:
        "python -m validate.parity --recipe {params.recipe:q}"
        " --input assemble={input.assemble} --input oracle={input.oracle} --input prompts={input.prompts}"
        " {params.store:q} --out {output} 2>&1 | tee {log}"


use rule parity as parity_inf2 with:
    wildcard_constraints:
        checkpoint=queues.of_target("inf2"),


rule bench:
    input:
        fetch=plan.receipt("fetch"),
        assemble=plan.receipt("{variant}/assemble"),
        parity=plan.receipt("{variant}/parity"),
    output:
        plan.receipt("{variant}/bench"),
    log:
        f"{plan.logs}/{{variant}}/bench.log",
    wildcard_constraints:
        checkpoint=queues.of_target("cpu"),
    threads: queues.cores("bench", workflow.resource_settings.cores)  # all of this machine: nothing runs beside a measurement
    resources:
        mem_mb=queues.mem_mb("bench"),
        inf2=queues.inf2,
        gres=queues.gres,
        runtime=120,
    params:
        recipe=plan.recipe("bench"),
        code=plan.code["bench"],
        store=plan.store,
    message:
        "bench {wildcards.checkpoint} {wildcards.variant}"
    shell:
        "python -m validate.bench.stage --recipe {params.recipe:q}"
        " --input fetch={input.fetch} --input assemble={input.assemble} --input parity={input.parity}"
        " {params.store:q} --out {output} 2>&1 | tee {log}"


use rule bench as bench_inf2 with:
    wildcard_constraints:
        checkpoint=queues.of_target("inf2"),


rule summary:
    input:
        plan.summary_inputs(),
    output:
        local(f"{plan.results}/summary.json"),
    log:
        f"{plan.results}/logs/summary.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=5,
    params:
        code=plan.code["summary"],
    message:
        "summary"
    shell:
        "python -m validate.summary --out {output} {input} 2>&1 | tee {log}"
