"""Parity and bench of target inf2 on a rented machine, for a host without NeuronCores.

    order      what the machine is asked to do          money      what it may cost
    places     where one may be started, and for what   asking     until there is one
    watching   until its receipts are on S3             release    whatever happened, none is left
    hardware   the other side: what runs on the machine

Everything that outlives a process is on S3 (receipts, and the record of the machines with what they cost) or a tag of a
machine, so a caller that was killed is followed by one that goes on where it was.
"""
