"""What is done for each question: small graphs through the documented API, nothing else."""
