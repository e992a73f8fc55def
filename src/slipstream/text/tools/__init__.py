"""Tool calls in an answer: each family's own syntax, read as it comes, and bound by grammar.

One syntax is one file; `families` chooses by what a template and a tokenizer declare.
"""
