# What parity has passed, to release folders; and from there, where the configuration says so, to the public.


rule package:
    input:
        unpack(plan.package_inputs),
    output:
        receipt=local(plan.receipt("package")),
        # The folder is swapped in whole, so the old list must not be taken away from it before.
        files=update(local(f"{plan.release()}/release.json")),
    log:
        f"{plan.logs}/package.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=60,
    params:
        recipe=publishing.recipe("package"),
        code=plan.code["package"],
        store=plan.store,
        inputs=plan.flags,
        release=plan.release(),
    message:
        "package {wildcards.checkpoint}"
    shell:
        "python -m publish.package --recipe {params.recipe:q} {params.inputs} --release {params.release:q}"
        " {params.store:q} --out {output.receipt} 2>&1 | tee {log}"


rule image:
    input:
        package=local(plan.receipt("package")),
    output:
        receipt=local(plan.receipt("{variant}/image")),
        index=update(local(f"{publishing.layout}/index.json")),
    log:
        f"{plan.logs}/{{variant}}/image.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=120,
    params:
        recipe=publishing.recipe("image"),
        code=publishing.code["image"],
        store=plan.store,
        folders=publishing.building,
    message:
        "image {wildcards.checkpoint}/{wildcards.variant}"
    shell:
        "python -m publish.promotion.image --recipe {params.recipe:q} --input package={input.package}"
        " {params.folders} {params.store:q} --out {output.receipt} 2>&1 | tee {log}"


rule sign:
    input:
        unpack(publishing.inputs("sign")),
    output:
        receipt=local(plan.receipt("sign")),
        signature=update(local(publishing.signature)),
    log:
        f"{plan.logs}/sign.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=120,
    params:
        recipe=publishing.recipe("sign"),
        code=publishing.code["sign"],
        store=plan.store,
        inputs=plan.flags,
        signer=publishing.signer,
        keyfiles=publishing.keyfiles,
        folders=publishing.signing,
    message:
        "sign {wildcards.checkpoint}"
    shell:
        "python -m publish.sign --recipe {params.recipe:q} {params.inputs} --signer {params.signer:q} {params.folders}"
        " {params.store:q} --out {output.receipt} 2>&1 | tee {log}"


rule stage:
    input:
        unpack(publishing.inputs("stage")),
    output:
        receipt=local(plan.receipt("stage")),
    log:
        f"{plan.logs}/stage.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=600,
    params:
        recipe=publishing.recipe("stage"),
        code=publishing.code["stage"],
        store=plan.store,
        inputs=plan.flags,
        folders=publishing.staging,
    message:
        "stage {wildcards.checkpoint}"
    shell:
        "python -m publish.promotion.stage --recipe {params.recipe:q} {params.inputs} {params.folders}"
        " {params.store:q} --out {output.receipt} 2>&1 | tee {log}"


rule verify:
    input:
        unpack(publishing.inputs("verify")),
    output:
        receipt=local(plan.receipt("verify")),
    log:
        f"{plan.logs}/verify.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=600,
    params:
        recipe=publishing.recipe("verify"),
        code=publishing.code["verify"],
        store=plan.store,
        inputs=plan.flags,
        keyfiles=publishing.keyfiles,
        scratch=publishing.scratch,
    message:
        "verify {wildcards.checkpoint}"
    shell:
        "python -m publish.promotion.verify --recipe {params.recipe:q} {params.inputs} --scratch {params.scratch:q}"
        " {params.store:q} --out {output.receipt} 2>&1 | tee {log}"


rule promote:
    input:
        unpack(publishing.inputs("promote")),
    output:
        receipt=local(plan.receipt("promote")),
    log:
        f"{plan.logs}/promote.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=60,
    params:
        recipe=publishing.recipe("promote"),
        code=publishing.code["promote"],
        store=plan.store,
        inputs=plan.flags,
    message:
        "promote {wildcards.checkpoint}"
    shell:
        "python -m publish.promotion.promote --recipe {params.recipe:q} {params.inputs}"
        " {params.store:q} --out {output.receipt} 2>&1 | tee {log}"
