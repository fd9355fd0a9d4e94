"""The release folder on the Hugging Face Hub: up to a staging branch, on to main, and back."""
