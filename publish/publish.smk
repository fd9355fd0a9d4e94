# What parity has passed, to release folders.


rule package:
    input:
        unpack(plan.package_inputs),
    output:
        receipt=plan.receipt("package"),
        # The folder is swapped in whole, so the old list must not be taken away from it before.
        files=update(f"{plan.release()}/release.json"),
    log:
        f"{plan.logs}/package.log",
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        recipe=plan.recipe("package"),
        code=plan.code["package"],
        store=plan.store,
        inputs=plan.flags,
        release=plan.release(),
    message:
        "package {wildcards.checkpoint}"
    shell:
        "python -m publish.package --recipe {params.recipe:q} {params.inputs} --release {params.release:q}"
        " --store {params.store:q} --out {output.receipt} 2>&1 | tee {log}"
