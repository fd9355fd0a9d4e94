"""The report of a run: one HTML file for people, made from receipts and the store, with nothing to load from elsewhere.

    python -m validate.report --out results/NAME/report.html --store DIR RECEIPT...

The workflow runs it when everything is done; by hand, with the folder of a run's receipts for RECEIPT, it also tells
how far a run came that failed. Departs from a report that measures: it runs no stage and looks at no clock, so the
same receipts give the same bytes. What the Hub has today is no receipt: it comes as a file of its own (`--upstream`),
which the workflow never gives and a nightly run does.
"""
