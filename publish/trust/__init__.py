"""What makes a release believable: its list, signature, SBOM, provenance and licences, and the judge of them all."""
