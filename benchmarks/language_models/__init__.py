"""Times language models: prompts and single tokens, beside peers and the machine's limits."""
