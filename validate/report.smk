# All receipts of a run to one page for people.


rule report:
    input:
        plan.report_inputs(),
        local(plan.all_receipts("package")),
    output:
        local(f"{plan.results}/report.html"),
    log:
        f"{plan.results}/logs/report.log",
    threads: 1
    resources:
        mem_mb=2048,
        runtime=5,
    params:
        code=plan.code["report"],
        store=plan.store,
    message:
        "report"
    shell:
        "python -m validate.report --out {output} {params.store:q} {input} 2>&1 | tee {log}"
