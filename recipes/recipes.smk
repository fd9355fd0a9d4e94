# Checkpoint to artifact folders. A stage compares digests itself: rerun by mistake, it says "unchanged" and goes.


rule fetch:
    output:
        plan.receipt("fetch"),
    log:
        f"{plan.logs}/fetch.log",
    wildcard_constraints:
        checkpoint=queues.of_source(here=False),
    threads: queues.cores("fetch")
    resources:
        mem_mb=queues.mem_mb("fetch"),
        runtime=240,
    params:
        recipe=plan.recipe("fetch"),
        found=plan.found,
        code=plan.code["fetch"],
        store=plan.store,
    message:
        "fetch {wildcards.checkpoint}"
    shell:
        "python -m recipes.fetch --recipe {params.recipe:q} {params.store:q} --out {output} 2>&1 | tee {log}"


# Of a folder that no queue sees.
use rule fetch as fetch_here with:
    wildcard_constraints:
        checkpoint=queues.of_source(here=True),


rule lower:
    input:
        fetch=plan.receipt("fetch"),
    output:
        plan.receipt("{variant}/lower"),
    log:
        f"{plan.logs}/{{variant}}/lower.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=10,
    params:
        recipe=plan.recipe("lower"),
        code=plan.code["lower"],
        store=plan.store,
    message:
        "lower {wildcards.checkpoint} {wildcards.variant}"
    shell:
        "python -m recipes.lower --recipe {params.recipe:q} --input fetch={input.fetch}"
        " {params.store:q} --out {output} 2>&1 | tee {log}"


rule weights:
    input:
        fetch=plan.receipt("fetch"),
    output:
        plan.receipt("weights/{target}-{dtype}-tp{tp}"),
    log:
        f"{plan.logs}/weights/{{target}}-{{dtype}}-tp{{tp}}.log",
    threads: queues.cores("weights")
    resources:
        mem_mb=queues.mem_mb("weights"),
        runtime=60,
    params:
        recipe=plan.recipe("weights"),
        code=plan.code["weights"],
        store=plan.store,
    message:
        "weights {wildcards.checkpoint} {wildcards.target} {wildcards.dtype} tp{wildcards.tp}"
    shell:
        "python -m recipes.weights --recipe {params.recipe:q} --input fetch={input.fetch}"
        " {params.store:q} --out {output} 2>&1 | tee {log}"


rule tables:
    input:
        fetch=plan.receipt("fetch"),
    output:
        plan.receipt("tables"),
    log:
        f"{plan.logs}/tables.log",
    threads: queues.cores("tables")
    resources:
        mem_mb=queues.mem_mb("tables"),
        runtime=60,
    params:
        recipe=plan.recipe("tables"),
        code=plan.code["tables"],
        store=plan.store,
    message:
        "tables {wildcards.checkpoint}"
    shell:
        "python -m recipes.tables --recipe {params.recipe:q} --input fetch={input.fetch}"
        " {params.store:q} --out {output} 2>&1 | tee {log}"


rule lint:
    input:
        fetch=plan.receipt("fetch"),
        lower=plan.receipt("{variant}/lower"),
    output:
        plan.receipt("{variant}/lint"),
    log:
        f"{plan.logs}/{{variant}}/lint.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=10,
    params:
        recipe=plan.recipe("lint"),
        code=plan.code["lint"],
        store=plan.store,
    message:
        "lint {wildcards.checkpoint} {wildcards.variant}"
    shell:
        "python -m recipes.lint.stage --recipe {params.recipe:q} --input fetch={input.fetch} --input lower={input.lower}"
        " {params.store:q} --out {output} 2>&1 | tee {log}"


rule compile:
    input:
        unpack(plan.compile_inputs),
    output:
        plan.receipt("{variant}/compile"),
    log:
        f"{plan.logs}/{{variant}}/compile.log",
    threads: queues.cores("compile")
    resources:
        mem_mb=queues.mem_mb("compile"),
        runtime=180,
    params:
        recipe=plan.recipe("compile"),
        code=plan.code["compile"],
        sdk=plan.sdk,
        store=plan.store,
        inputs=plan.flags,
    message:
        "compile {wildcards.checkpoint} {wildcards.variant}"
    shell:
        "python -m recipes.compile --recipe {params.recipe:q} {params.inputs}"
        " {params.store:q} --out {output} 2>&1 | tee {log}"


rule assemble:
    input:
        fetch=plan.receipt("fetch"),
        lower=plan.receipt("{variant}/lower"),
        weights=plan.weights_of,
        tables=plan.receipt("tables"),
        compile=plan.receipt("{variant}/compile"),
    output:
        **queues.manifest,
        receipt=plan.receipt("{variant}/assemble"),
    log:
        f"{plan.logs}/{{variant}}/assemble.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=10,
    params:
        recipe=plan.recipe("assemble"),
        code=plan.code["assemble"],
        store=plan.store,
        build=queues.build,
    message:
        "assemble {wildcards.checkpoint} {wildcards.variant}"
    shell:
        "python -m recipes.assemble --recipe {params.recipe:q}"
        " --input fetch={input.fetch} --input lower={input.lower} --input weights={input.weights}"
        " --input tables={input.tables} --input compile={input.compile}"
        " {params.build:q} {params.store:q} --out {output.receipt} 2>&1 | tee {log}"
