"""The measured tables of docs/*.md, written from the files in docs/results/."""
